//! `eraseblock recover`: versions of the past as files, with a list of where each byte comes from.
//!
//! # Invariants
//! 1. Files are named by inode and sequence number: no version replaces another one.
//! 2. What cannot be read is a hole, and the list says so.
//! 3. The source is the same before and after, or the recovery fails.

mod report;

use super::history;
use super::history::contents::{self, Algorithm, Digests, Hasher, Kind};
use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::documents::past::VersionReport;
use eraseblock::raw::base::Peb;
use eraseblock::raw::history::content::{Content, Contents, Run};
use eraseblock::raw::history::{Class, Seen, Version};
use eraseblock::target::past::Past;
use eraseblock::text;
use report::Before;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Arguments of `recover`.
#[derive(Debug, clap::Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The folder; it must not exist or be empty
    dest: PathBuf,
    /// All versions of the past of all files; without this, the surest version of each deleted one
    #[arg(long)]
    all_versions: bool,
    /// Only the inode of this number
    #[arg(long, value_name = "NUMBER")]
    ino: Option<u32>,
    /// Only versions of these classes
    #[arg(
        long,
        value_name = "CLASS,...",
        value_delimiter = ',',
        default_value = "proven,consistent,likely,partial"
    )]
    class: Vec<ClassArg>,
    /// Also read eraseblocks of the UBI that have lost their LEB and are not erased yet
    #[arg(long)]
    old_blocks: bool,
}

/// How sure it is that a version was a state of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ClassArg {
    /// An index node referred to exactly these nodes
    Proven,
    /// An inode with a block for each part of its size, and no node is lost that could have replaced one
    Consistent,
    /// An inode with a block for each part of its size
    Likely,
    /// Blocks are missing
    Partial,
    /// Blocks without an inode
    Fragment,
}

impl ClassArg {
    fn class(self) -> Class {
        match self {
            Self::Proven => Class::Proven,
            Self::Consistent => Class::Consistent,
            Self::Likely => Class::Likely,
            Self::Partial => Class::Partial,
            Self::Fragment => Class::Fragment,
        }
    }
}

/// A line of the list.
#[derive(Serialize)]
struct Line {
    file: Option<String>,
    link: Option<String>,
    #[serde(flatten)]
    digests: Digests,
    error: Option<String>,
    runs: Vec<RunReport>,
    #[serde(flatten)]
    version: VersionReport,
}

/// A part of a file: `len` bytes at `img_offset` become `size` bytes; `file_len` of them, after `skip`, are
/// those at `offset` of the file.
#[derive(Serialize)]
struct RunReport {
    offset: u64,
    file_len: u64,
    skip: u32,
    img_offset: Option<u64>,
    len: Option<u32>,
    size: Option<u32>,
    codec: Option<&'static str>,
    sqnum: Option<u64>,
    leb: u32,
    /// The block that held the LEB before.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_peb: Option<u32>,
    node: u32,
    node_len: u32,
}

#[derive(Clone, Copy, Serialize, Default, Debug)]
struct Summary {
    versions: u64,
    files: u64,
    bytes: u64,
    damaged: u64,
}

/// Writes the files.
pub(crate) fn run(args: &RecoverArgs, session: &mut Session) -> Result<(), Failure> {
    let before = Before::read(&args.target, session)?;
    let past = history::read(&args.target, args.old_blocks, session)?;
    let before = before.or_volume(&past);
    let dest = &args.dest;
    if dest.exists() && fs::read_dir(dest).context(dest.display())?.next().is_some() {
        return Err(Failure::new(format!("{}: the folder is not empty", dest.display())));
    }
    fs::create_dir_all(dest).context(dest.display())?;
    let list = dest.join("manifest.jsonl");
    let mut lines = BufWriter::new(File::create_new(&list).context(list.display())?);
    let mut hasher = Hasher::new(&[Algorithm::Sha256]);
    let mut summary = Summary::default();
    let chosen = chosen(args, &past);
    let mut contents = past.contents();
    let bar = session.progress(chosen.len() as u64, "recover");
    for index in contents::by_state(&chosen) {
        let Some(version) = chosen.get(index) else { continue };
        let line = recover(&past, &mut contents, version, dest, &mut summary)?;
        let mut line = serde_json::to_vec(&line).map_err(io::Error::from)?;
        line.push(b'\n');
        hasher.update(&line);
        lines.write_all(&line).context(list.display())?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    lines.flush().context(list.display())?;
    let list_digest = hasher.finish().sha256.unwrap_or_default();
    let report = before.report(&past, summary, list_digest, session)?;
    let path = dest.join("report.json");
    let mut text = serde_json::to_vec_pretty(&report).map_err(io::Error::from)?;
    text.push(b'\n');
    let mut file = File::create_new(&path).context(path.display())?;
    file.write_all(&text).context(path.display())?;
    report.check()?;
    if session.options.json {
        return session.json(&summary);
    }
    let Summary { files, bytes, damaged, versions } = summary;
    let mut parts = vec![
        text::count(versions, "version", "versions"),
        text::count(files, "file", "files"),
        text::count(bytes, "byte", "bytes"),
    ];
    if damaged > 0 {
        parts.push(text::count(damaged, "damaged", "damaged"));
    }
    session.remark(&parts.join(", "));
    Ok(())
}

/// The versions that were asked for.
fn chosen<'a>(args: &RecoverArgs, past: &'a Past) -> Vec<&'a Version> {
    let is_wanted = |version: &&Version| {
        !matches!(version.seen, Seen::Now { .. })
            && args.ino.is_none_or(|ino| ino == version.ino)
            && args.class.iter().any(|class| class.class() == version.class)
            && (args.all_versions || !past.history.is_live(version.ino))
    };
    let all = past.history.all().filter(is_wanted);
    if args.all_versions {
        return all.collect();
    }
    let mut best: Vec<&Version> = Vec::new();
    for version in all {
        // The newest come first, so that of equals the newest is taken.
        match best.last_mut().filter(|last| last.ino == version.ino) {
            Some(last) if version.class < last.class => *last = version,
            Some(_) => {}
            None => best.push(version),
        }
    }
    best
}

fn recover(
    past: &Past,
    contents: &mut Contents,
    version: &Version,
    dest: &Path,
    summary: &mut Summary,
) -> Result<Line, Failure> {
    summary.versions += 1;
    let mut line = Line {
        file: None,
        link: None,
        digests: Digests::default(),
        error: None,
        runs: Vec::new(),
        version: VersionReport::of(version),
    };
    let kind = Kind::of(version);
    if version.attributes.is_some_and(|known| known.is_encrypted) {
        line.error = Some("the content is encrypted, and there is no key".to_owned());
        return Ok(line);
    }
    if kind == Kind::Other {
        return Ok(line);
    }
    let content = contents.open(version)?;
    if kind == Kind::Link {
        match content.link() {
            Ok(link) => line.link = Some(text::name(&link)),
            Err(error) => line.error = Some(error.to_string()),
        }
        return Ok(line);
    }
    let name = format!("{}-{}", version.ino, version.newest);
    let path = dest.join(&name);
    let out = File::create_new(&path).context(path.display())?;
    let (digests, error) = write(&content, &out).context(path.display())?;
    line.runs = content.runs().iter().map(|run| RunReport::of(past, run)).collect();
    line.file = Some(name);
    summary.files += 1;
    summary.bytes += content.size();
    summary.damaged += u64::from(error.is_some());
    line.digests = digests;
    line.error = error;
    Ok(line)
}

/// Writes the content; what cannot be read stays a hole. Returns the digests of what was written, and the
/// first error.
fn write(content: &Content, out: &File) -> io::Result<(Digests, Option<String>)> {
    out.set_len(content.size())?;
    let mut hasher = Hasher::new(&[Algorithm::Md5, Algorithm::Sha256]);
    let mut trouble = None;
    contents::pieces(content, &mut |at, bytes, error| {
        hasher.update(bytes);
        match error {
            None => out.write_all_at(bytes, at)?,
            Some(error) => {
                trouble.get_or_insert_with(|| error.to_string());
            }
        }
        Ok(())
    })?;
    Ok((hasher.finish(), trouble))
}

impl RunReport {
    fn of(past: &Past, run: &Run) -> Self {
        let stored = run.stored;
        let (leb, old_peb) = past.place_of(run.leb);
        Self {
            offset: run.offset,
            file_len: run.len,
            skip: run.skip,
            img_offset: stored.and_then(|stored| past.in_file(run.leb, stored.offset)),
            len: stored.map(|stored| stored.len),
            size: stored.map(|stored| stored.size),
            codec: stored.map(|stored| stored.codec),
            sqnum: stored.map(|stored| stored.sqnum),
            leb: leb.get(),
            old_peb: old_peb.map(Peb::get),
            node: run.node,
            node_len: run.node_len,
        }
    }
}
