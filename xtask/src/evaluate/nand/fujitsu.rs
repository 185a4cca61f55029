//! The mount time of the text 004 by the number of files, on the chip of the tables BL. The text mounts
//! Btrfs and Ext4 from a card; raw NAND has neither, so that its claims cannot be judged here.

use super::flash::{Flash, System};
use super::steps;
use crate::evaluate::rows::{Cell, Fidelity, Row, Verdict};
use anyhow::{Context, Result};
use eraseblock_vfs::{
    Caller, FsError, FsErrorKind, NewInode, NewKind, Timestamp, WritableFileSystem,
};

/// The published numbers of files that a chip of 256 MiB holds; a million do not fit.
pub(super) const FILES: [u32; 2] = [4000, 70_000];
pub(super) const PER_DIR: u32 = 1000;
/// Bytes of a file.
const LEN: usize = 512;
const SOURCE: &str = "004:387 \"twice or 3 times Faster\"";

/// Returns the bytes of each file.
pub(super) fn content() -> Vec<u8> {
    (0..LEN).map(|at| at.to_le_bytes()[0]).collect()
}

/// Creates the files; fails for lack of space if they do not fit.
fn create(fs: &dyn WritableFileSystem, files: u32) -> Result<(), FsError> {
    let by = Caller::owner(Timestamp::from_seconds(1_700_000_000));
    let new = |kind| NewInode { kind, permissions: 0o755, uid: 0, gid: 0 };
    let content = content();
    let mut dir = fs.root();
    for number in 0..files {
        if number % PER_DIR == 0 {
            let name = format!("dir{}", number / PER_DIR);
            dir = fs.create(fs.root(), name.as_bytes(), &new(NewKind::Directory), &by)?;
        }
        let name = format!("file{number}");
        let ino = fs.create(dir, name.as_bytes(), &new(NewKind::Regular), &by)?;
        fs.write(ino, 0, &content, &by)?;
    }
    fs.sync()
}

/// Returns the rows of the table F5.
pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for files in FILES {
        for system in [System::Jffs2, System::Yaffs2, System::Ubifs] {
            rows.extend(mounted(system, files)?);
        }
    }
    let claim = Row::new("F5", "claim: ext4 mounts faster than btrfs", "time", "")
        .published(Cell::text("twice or 3 times Faster"), SOURCE)
        .ours(Cell::text("not run: neither lies on raw NAND"), Fidelity::None);
    rows.push(claim.judged(Verdict::NotComparable));
    Ok(rows)
}

fn mounted(system: System, files: u32) -> Result<Vec<Row>> {
    let blocks = steps::chip()?.geometry().peb_count();
    let flash = Flash::new(steps::chip()?, blocks, steps::reserve_2008(blocks))?;
    let fs = flash.mount(system)?;
    let created = create(fs.writer().context("mounted for reading only")?, files);
    let row = |metric, unit| {
        Row::new("F5", &format!("mount, {files} files"), metric, unit)
            .on(system.name(), "256 MiB")
            .published(Cell::lost(), "004:297 \"FS Mount Time\"")
    };
    match created {
        Ok(()) => fs.end()?,
        Err(error) if error.kind() == FsErrorKind::NoSpace => {
            return Ok(vec![row("time", "ms").ours("does not fit", Fidelity::Exact)]);
        }
        Err(error) => return Err(error.into()),
    }
    let before = flash.ops();
    let fs = flash.mount(system)?;
    let ops = flash.ops() - before;
    fs.end()?;
    Ok(vec![
        row("time", "ms").ours(steps::milliseconds(ops), Fidelity::Model),
        row("page reads", "").ours(ops.reads, Fidelity::Exact),
    ])
}
