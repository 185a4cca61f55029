//! `eraseblock ls`: directories as lists.

use crate::args::{PastArgs, TargetArgs, path_bytes};
use crate::entry::paint_name;
use crate::failure::Failure;
use crate::find::find_path;
use crate::session::Session;
use crate::style::terminal_width;
use crate::table::visible_width;
use eraseblock::documents::listing::Entry;
use eraseblock::raw::vfs::{FileKind, FileSystem, Ino};
use eraseblock::target;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// Directory or file; the root when left out
    path: Option<OsString>,
    /// One line for each entry with mode, owner, size and time
    #[arg(short = 'l', long)]
    long: bool,
    /// Names that begin with a dot, too
    #[arg(short, long)]
    all: bool,
    /// Directories below, too
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// One directory of the JSON result.
#[derive(Debug, Serialize)]
struct Listing {
    path: String,
    entries: Vec<Entry>,
}

/// Prints the list.
pub(crate) fn run(args: &LsArgs, session: &mut Session) -> Result<(), Failure> {
    let opened = target::open_file_system(&args.past.of(&args.target), session)?;
    let fs = opened.fs();
    let path = args.path.as_ref().map_or(&b""[..], path_bytes);
    let (ino, path) = find_path(fs, path)?;
    session.ask(&args.target.target, [ino]);
    let path = path.as_slice();
    let listings = Lister { fs, args, session }.list(ino, path)?;
    opened.finish(session);
    if session.options.json {
        #[derive(Serialize)]
        struct Document {
            directories: Vec<Listing>,
        }
        session.json(&Document { directories: listings })?;
    }
    Ok(())
}

struct Lister<'a> {
    fs: &'a dyn FileSystem,
    args: &'a LsArgs,
    session: &'a mut Session,
}

impl Lister<'_> {
    /// Prints as it goes; collects only what JSON needs.
    fn list(mut self, top: Ino, path: &[u8]) -> Result<Vec<Listing>, Failure> {
        let path =
            eraseblock::text::name(path.trim_ascii_start().strip_suffix(b"/").unwrap_or(path));
        let mut listings = Vec::new();
        let mut waiting = vec![(top, path)];
        while let Some((ino, path)) = waiting.pop() {
            let entries = self.entries(ino, &path);
            if !self.session.options.json {
                if self.args.recursive {
                    let gap = if ino == top { "" } else { "\n" };
                    writeln!(self.session.out, "{gap}/{}:", path.trim_start_matches('/'))?;
                }
                self.print(&entries)?;
            }
            if self.args.recursive {
                let below = entries.iter().rev().filter(|e| e.is_directory() && e.ino != ino);
                let depth = path.matches('/').count();
                if depth < eraseblock::raw::vfs::walk::MAX_DEPTH {
                    waiting.extend(below.map(|e| (e.ino, format!("{path}/{}", e.name))));
                }
            }
            if self.session.options.json {
                listings.push(Listing { path, entries });
            }
        }
        Ok(listings)
    }

    /// The entries of a directory, or a file as its own single entry.
    fn entries(&mut self, ino: Ino, path: &str) -> Vec<Entry> {
        let is_directory = self.fs.attr(ino).is_ok_and(|attr| attr.kind == FileKind::Directory);
        self.session.ask(&self.args.target.target, [ino]);
        if !is_directory {
            return vec![Entry::of(self.fs, ino, path.as_bytes())];
        }
        let mut entries = match self.fs.entries(ino) {
            Ok(entries) => entries,
            Err(error) => {
                self.session.trouble(eraseblock::raw::base::Location::Inode(ino), &error);
                Vec::new()
            }
        };
        entries.retain(|entry| self.args.all || !entry.name.starts_with(b"."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.session.ask(&self.args.target.target, entries.iter().map(|entry| entry.ino));
        let needs_attributes = self.args.long || self.session.options.json;
        let entry = |e: &eraseblock::raw::vfs::DirEntry| {
            if needs_attributes { Entry::of(self.fs, e.ino, &e.name) } else { Entry::brief(e) }
        };
        entries.iter().map(entry).collect()
    }

    fn print(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        let style = self.session.style;
        if self.args.long {
            let lines = crate::entry::long_lines(entries, style);
            return self.session.lines(lines);
        }
        let names: Vec<String> = entries.iter().map(|e| paint_name(e, style)).collect();
        if std::io::stdout().is_terminal() {
            self.session.lines(columns(&names, terminal_width()))
        } else {
            self.session.lines(names)
        }
    }
}

/// Names in columns, filled downwards, as many columns as fit.
fn columns(names: &[String], width: usize) -> Vec<String> {
    let widest = names.iter().map(|name| visible_width(name)).max().unwrap_or(0) + 2;
    let column_count = (width / widest).max(1);
    let rows = names.len().div_ceil(column_count);
    let line = |row: usize| {
        let mut line = String::new();
        for name in names.iter().skip(row).step_by(rows) {
            line.push_str(name);
            line.push_str(&" ".repeat(widest - visible_width(name)));
        }
        line.truncate(line.trim_end().len());
        line
    };
    (0..rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fill_columns_downwards() {
        let names: Vec<String> = ["a", "bb", "c", "d", "e"].map(String::from).into();
        assert_eq!(columns(&names, 8), ["a   d", "bb  e", "c"]);
        assert_eq!(columns(&names, 1).len(), 5);
        assert!(columns(&[], 80).is_empty());
    }
}
