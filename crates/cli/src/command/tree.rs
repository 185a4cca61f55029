//! `eraseblock tree`: directories as a drawing.

use crate::args::{PastArgs, TargetArgs, path_bytes};
use crate::entry::paint_name;
use crate::failure::Failure;
use crate::find::find_path;
use crate::session::Session;
use crate::style::Ink;
use eraseblock::documents::listing::Entry;
use eraseblock::raw::base::Location;
use eraseblock::raw::vfs::{FileSystem, Ino};
use eraseblock::target;
use eraseblock::text;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// Directory to begin with; the root when left out
    path: Option<OsString>,
    /// Levels to draw
    #[arg(short, long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Names that begin with a dot, too
    #[arg(short, long)]
    all: bool,
}

/// One directory of the JSON result: entries with what is in them.
#[derive(Debug, Serialize)]
struct Branch {
    #[serde(flatten)]
    entry: Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Branch>>,
}

/// Draws the tree.
pub(crate) fn run(args: &TreeArgs, session: &mut Session) -> Result<(), Failure> {
    let opened = target::open_file_system(&args.past.of(&args.target), session)?;
    let path = args.path.as_ref().map_or(&b"/"[..], path_bytes);
    let (ino, path) = find_path(opened.fs(), path)?;
    let path = path.as_slice();
    let mut walker = Walker { fs: opened.fs(), args, session, files: 0, directories: 0 };
    if walker.session.options.json {
        let root = Entry::of(walker.fs, ino, path);
        let entries = walker.branches(ino, &mut vec![ino]);
        opened.finish(session);
        return session.json(&Branch { entry: root, entries: Some(entries) });
    }
    let root = paint_name(&Entry::of(walker.fs, ino, path), walker.session.style);
    writeln!(walker.session.out, "{root}")?;
    walker.draw(ino, &mut vec![ino], "")?;
    let (directories, files) = (walker.directories, walker.files);
    writeln!(
        session.out,
        "\n{}, {}",
        text::count(directories, "directory", "directories"),
        text::count(files, "file", "files")
    )?;
    opened.finish(session);
    Ok(())
}

/// What stands before the last entry of a directory, and before everything below that entry.
const LAST: (&str, &str) = ("\u{2514}\u{2500}\u{2500} ", "    ");

/// The same for all entries but the last.
const BETWEEN: (&str, &str) = ("\u{251c}\u{2500}\u{2500} ", "\u{2502}   ");

/// The deepest level drawn: recursion has to end on damaged images, too.
const DEEPEST: usize = 256;

struct Walker<'a> {
    fs: &'a dyn FileSystem,
    args: &'a TreeArgs,
    session: &'a mut Session,
    files: u64,
    directories: u64,
}

impl Walker<'_> {
    fn draw(&mut self, dir: Ino, above: &mut Vec<Ino>, indent: &str) -> Result<(), Failure> {
        let entries = self.entries(dir);
        let last = entries.len().saturating_sub(1);
        for (index, entry) in entries.iter().enumerate() {
            let (branch, below) = if index == last { LAST } else { BETWEEN };
            let target = entry.target.as_ref().map(|t| format!(" -> {t}")).unwrap_or_default();
            let error = entry.error.as_ref().map(|e| format!(" ({e})")).unwrap_or_default();
            let style = self.session.style;
            writeln!(
                self.session.out,
                "{}{}{target}{}",
                style.paint(Ink::Faint, format!("{indent}{branch}")),
                paint_name(entry, style),
                style.paint(Ink::Red, error)
            )?;
            if self.enters(entry, above) {
                above.push(entry.ino);
                self.draw(entry.ino, above, &format!("{indent}{below}"))?;
                above.pop();
            }
        }
        Ok(())
    }

    fn branches(&mut self, dir: Ino, above: &mut Vec<Ino>) -> Vec<Branch> {
        let entries = self.entries(dir);
        let mut branches = Vec::with_capacity(entries.len());
        for entry in entries {
            let entries = self.enters(&entry, above).then(|| {
                above.push(entry.ino);
                let below = self.branches(entry.ino, above);
                above.pop();
                below
            });
            branches.push(Branch { entry, entries });
        }
        branches
    }

    /// Returns whether to go into an entry: it is a directory, not too deep, and not one of those
    /// above it.
    fn enters(&self, entry: &Entry, above: &[Ino]) -> bool {
        let deepest = self.args.depth.unwrap_or(DEEPEST).min(DEEPEST);
        entry.is_directory() && above.len() < deepest && !above.contains(&entry.ino)
    }

    fn entries(&mut self, dir: Ino) -> Vec<Entry> {
        let mut entries = match self.fs.entries(dir) {
            Ok(entries) => entries,
            Err(error) => {
                self.session.trouble(Location::Inode(dir), &error);
                return Vec::new();
            }
        };
        entries.retain(|entry| self.args.all || !entry.name.starts_with(b"."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let entries: Vec<Entry> =
            entries.iter().map(|entry| Entry::of(self.fs, entry.ino, &entry.name)).collect();
        let directories = entries.iter().filter(|e| e.is_directory()).count() as u64;
        self.directories += directories;
        self.files += entries.len() as u64 - directories;
        entries
    }
}
