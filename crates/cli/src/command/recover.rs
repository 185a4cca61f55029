//! `eraseblock recover`: versions of the past as files, with a list of where each byte comes from.
//!
//! # Invariants
//! 1. Files are named by inode and sequence number: no version replaces another one.
//! 2. What cannot be read is a hole, and the list says so.

use super::history;
use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::documents::past::VersionReport;
use eraseblock::raw::history::content::{Content, Contents, Run};
use eraseblock::raw::history::{Class, Seen, Version};
use eraseblock::target::past::Past;
use eraseblock::text;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;
/// The type in a POSIX mode.
const TYPE: u32 = 0o170_000;

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
        default_value = "proven,likely,partial"
    )]
    class: Vec<ClassArg>,
}

/// How sure it is that a version was a state of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ClassArg {
    /// An index node referred to exactly these nodes
    Proven,
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
    sha256: Option<String>,
    error: Option<String>,
    runs: Vec<RunReport>,
    #[serde(flatten)]
    version: VersionReport,
}

#[derive(Serialize)]
struct RunReport {
    offset: u64,
    len: u64,
    leb: u32,
    node: u32,
    node_len: u32,
    img_offset: Option<u64>,
}

#[derive(Serialize, Default)]
struct Summary {
    versions: u64,
    files: u64,
    bytes: u64,
    damaged: u64,
}

/// Writes the files.
pub(crate) fn run(args: &RecoverArgs, session: &mut Session) -> Result<(), Failure> {
    let past = history::read(&args.target, session)?;
    let dest = &args.dest;
    if dest.exists() && fs::read_dir(dest).context(dest.display())?.next().is_some() {
        return Err(Failure::new(format!("{}: the folder is not empty", dest.display())));
    }
    fs::create_dir_all(dest).context(dest.display())?;
    let list = dest.join("manifest.jsonl");
    let mut lines = BufWriter::new(File::create_new(&list).context(list.display())?);
    let mut summary = Summary::default();
    let chosen = chosen(args, &past);
    let mut contents = Contents::new(Arc::clone(&past.device));
    let bar = session.progress(chosen.len() as u64, "recover");
    for version in chosen {
        let line = recover(&past, &mut contents, version, dest, &mut summary)?;
        serde_json::to_writer(&mut lines, &line).map_err(std::io::Error::from)?;
        lines.write_all(b"\n")?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    lines.flush().context(list.display())?;
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
        sha256: None,
        error: None,
        runs: Vec::new(),
        version: VersionReport::of(version),
    };
    let kind = version.attributes.map_or(0o100_000, |known| known.mode & TYPE);
    if version.attributes.is_some_and(|known| known.is_encrypted) {
        line.error = Some("the content is encrypted, and there is no key".to_owned());
        return Ok(line);
    }
    if kind != 0o100_000 && kind != 0o120_000 {
        return Ok(line);
    }
    let content = contents.open(version)?;
    if kind == 0o120_000 {
        match content.link() {
            Ok(link) => line.link = Some(text::name(&link)),
            Err(error) => line.error = Some(error.to_string()),
        }
        return Ok(line);
    }
    let name = format!("{}-{}", version.ino, version.newest);
    let path = dest.join(&name);
    let out = File::create_new(&path).context(path.display())?;
    let (sum, error) = write(&content, &out).context(path.display())?;
    line.runs = content.runs().map(|run| RunReport::of(past, &run)).collect();
    line.file = Some(name);
    summary.files += 1;
    summary.bytes += content.size();
    summary.damaged += u64::from(error.is_some());
    line.sha256 = error.is_none().then(|| text::hex(&sum));
    line.error = error;
    Ok(line)
}

/// Writes the content; what cannot be read stays a hole. Returns its SHA-256, and the first error.
fn write(content: &Content, out: &File) -> std::io::Result<([u8; 32], Option<String>)> {
    out.set_len(content.size())?;
    let (mut sum, mut trouble) = (Sha256::new(), None);
    let mut buffer = vec![0; usize::try_from(CHUNK.min(content.size())).unwrap_or(0)];
    let mut at = 0;
    while at < content.size() {
        let len = usize::try_from(CHUNK.min(content.size() - at)).unwrap_or(0);
        let buffer = &mut buffer[..len];
        match content.read(at, buffer) {
            Ok(()) => out.write_all_at(buffer, at)?,
            Err(error) => {
                trouble.get_or_insert_with(|| error.to_string());
            }
        }
        sum.update(&*buffer);
        at += len as u64;
    }
    Ok((sum.finalize().into(), trouble))
}

impl RunReport {
    fn of(past: &Past, run: &Run) -> Self {
        Self {
            offset: run.offset,
            len: run.len,
            leb: run.leb.get(),
            node: run.node,
            node_len: run.node_len,
            img_offset: past.in_file(run.leb, run.node),
        }
    }
}
