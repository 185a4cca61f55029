//! Table R1: the recordings of the repository, repeated on a small partition, here and in Linux.
//!
//! Each repetition replays a recording in an empty file system, and removes everything. After the last, the
//! files are listed before they are removed: both sides must have the same names and sizes.

use super::flash::{Flash, Ops, System};
use super::steps;
use crate::bench::ubifs_rw::remove;
use crate::command::repository;
use crate::evaluate::kept::hex;
use crate::evaluate::rows::{Cell, Fidelity, Row};
use anyhow::{Context, Result, bail};
use eraseblock_recording::{Pace, Reader, Replay, Step};
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{FileKind, FileSystem};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// The recordings, and how often they are repeated: some times what the partition holds is programmed.
pub(super) const RECORDINGS: [(&str, u32); 6] = [
    ("boot", 24),
    ("camera", 8),
    ("log-rotation", 120),
    ("sqlite-delete", 60),
    ("sqlite-wal", 100),
    ("update", 100),
];
pub(super) const SYSTEMS: [System; 2] = [System::Jffs2, System::Ubifs];
/// Size of the partition in MiB.
pub(super) const MEDIUM: u32 = 8;

pub(super) fn path(name: &str) -> PathBuf {
    repository().join("recordings").join(name).with_extension("ops")
}

/// Returns what the row of a recording says.
pub(super) fn row_name(name: &str, times: u32) -> String {
    format!("{name}, {times} times")
}

/// Returns the first digits of a hash of a list of files.
pub(super) fn digest(list: &str) -> String {
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    let mut hash = hex(&Sha256::digest(lines.join("\n")));
    hash.truncate(8);
    hash
}

fn steps_of(name: &str) -> Result<Vec<Step>> {
    let text = fs::read(path(name)).with_context(|| format!("recording {name}"))?;
    let reader = Reader::new(&text[..], b"/")?;
    Ok(reader.collect::<Result<_, _>>()?)
}

/// Returns a line for each file: its size, or 0 if it is none, and its path.
fn list(fs: &dyn FileSystem) -> Result<String> {
    let mut text = String::new();
    walk(fs, fs.root(), &mut |visit| {
        let (path, entry) = match visit {
            Visit::Entry { path, entry } => (String::from_utf8_lossy(path), entry),
            Visit::Unreadable { error, .. } => bail!("{error}"),
        };
        let attr = fs.attr(entry.ino)?;
        let size = if attr.kind == FileKind::Regular { attr.size } else { 0 };
        let _ = writeln!(text, "{size} /{path}");
        Ok(Descend::Yes)
    })?;
    Ok(text)
}

/// Returns what the repetitions cost, and the hash of the last list.
fn measure(system: System, steps: &[Step], times: u32) -> Result<(Ops, String)> {
    let flash: Flash = steps::partition(MEDIUM)?;
    let mounted = flash.mount(system)?;
    let fs = mounted.writer().context("mounted for reading only")?;
    let before = flash.ops();
    let mut listed = String::new();
    for seed in 1..=times {
        let mut replay = Replay::new(fs, Pace::Busy, seed.into());
        for step in steps {
            replay.step(step)?;
        }
        replay.finish()?;
        if seed == times {
            listed = list(fs)?;
        }
        remove(fs, fs.root())?;
        fs.sync()?;
    }
    let ops = flash.ops() - before;
    mounted.end()?;
    Ok((ops, digest(&listed)))
}

/// Returns the rows of the table.
pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, times) in RECORDINGS {
        let steps = steps_of(name)?;
        for system in SYSTEMS {
            let (ops, listed) = measure(system, &steps, times)?;
            let row = |metric| {
                Row::new("R1", &row_name(name, times), metric, "")
                    .on(system.name(), format!("{MEDIUM} MiB"))
                    .published(Cell::text("not published"), "")
            };
            rows.push(row("names and sizes").ours(Cell::text(listed), Fidelity::Exact));
            rows.push(row("page programs").ours(ops.programs, Fidelity::Exact));
            rows.push(row("erases").ours(ops.erases, Fidelity::Exact));
        }
    }
    Ok(rows)
}
