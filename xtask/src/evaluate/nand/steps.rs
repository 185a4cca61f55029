//! The published sequence of steps on one partition: fill it, mount it, read everything, remove
//! everything; and write 1 MiB chunks of random bytes into an empty one.

use super::flash::{Flash, Mounted, Ops, System};
use super::tree;
use crate::bench::ubifs_rw::{Entry, read_all, remove, unpack};
use crate::command::{find_program, run};
use crate::heap;
use anyhow::{Context, Result, bail, ensure};
use eraseblock_base::random::SplitMix64;
use eraseblock_nandsim::{ChipConfig, parts};
use eraseblock_vfs::{
    Caller, FsError, FsErrorKind, NewInode, NewKind, Timestamp, WritableFileSystem,
};
use std::collections::BTreeMap;
use std::fs;
use std::sync::{PoisonError, RwLock};

/// The chip of the published runs: identification bytes 0xEC 0xDA.
pub(super) const PART: &str = "K9F2G08U0C";
/// Blocks of 128 KiB in a MiB.
const BLOCKS: u32 = 8;
/// How full the partitions are, in percent.
const FULL: u64 = 85;
const CHUNK: usize = 1 << 20;

/// A step whose cost is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Step {
    Write,
    /// The part of the mount that belongs to UBI.
    Attach,
    /// With the attach.
    Mount,
    Read,
    Remove,
    /// As many chunks as fit.
    Random,
}

/// The result of all steps; a step that lacks did not fit, or is impossible.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) steps: BTreeMap<Step, Ops>,
    /// Bytes in use, by df.
    pub(super) used: Option<u64>,
    /// Bytes of this process's heap that the mount takes, if they are counted.
    pub(super) memory: Option<u64>,
    /// Chunks of random bytes written.
    pub(super) chunks: u64,
}

/// Held for reading by everything that allocates or frees memory, and for writing while memory is
/// measured.
static GATE: RwLock<()> = RwLock::new(());

/// Runs work that may run while other work does.
fn shared<T>(work: impl FnOnce() -> T) -> T {
    let _gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Runs work while no other does.
fn alone<T>(work: impl FnOnce() -> T) -> T {
    let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Returns the configuration of the chip.
pub(super) fn chip() -> Result<ChipConfig> {
    Ok(ChipConfig::of_part(parts::find(PART).context("no such part")?))
}

/// Returns the blocks that UBI of 2008 reserved for bad blocks on a partition: 1 %, and at least 2;
/// an even number, because `ubiattach -b` counts in 1024 blocks of a chip of 2048.
pub(super) const fn reserve_2008(blocks: u32) -> u32 {
    if blocks / 100 > 2 { (blocks / 100).next_multiple_of(2) } else { 2 }
}

/// Returns the bytes of files on a partition.
pub(super) fn content(mebibytes: u32) -> u64 {
    (u64::from(mebibytes) << 20) * FULL / 100
}

/// Returns an erased partition of the chip.
pub(super) fn partition(mebibytes: u32) -> Result<Flash> {
    let blocks = mebibytes * BLOCKS;
    Flash::new(chip()?, blocks, reserve_2008(blocks))
}

/// Returns the tree for a partition: the content of the smallest one, as often as fits.
pub(super) fn entries(mebibytes: u32, smallest: u32) -> Vec<Entry> {
    let count = u64::from(mebibytes / smallest).max(1);
    tree::copies(content(mebibytes) / count, count)
}

/// Returns the virtual time in milliseconds.
#[allow(clippy::cast_precision_loss)] // virtual times of less than an hour
pub(super) fn milliseconds(ops: Ops) -> f64 {
    (ops.ns / 1000) as f64 / 1000.0
}

/// Performs all steps on a new partition.
pub(super) fn measure(system: System, mebibytes: u32, entries: &[Entry]) -> Result<Measured> {
    let mut measured = Measured::default();
    let (flash, is_full) = shared(|| {
        let flash = partition(mebibytes)?;
        let is_full = match system {
            System::Squashfs => flash.write_volume(&squashfs_image(entries)?)?,
            _ => fill(&flash, system, entries, &mut measured)?,
        };
        anyhow::Ok((flash, is_full))
    })?;
    if is_full {
        use_it(&flash, system, entries, &mut measured)?;
    }
    shared(|| {
        drop(flash);
        if system == System::Squashfs || system == System::Jffs2Plain {
            return Ok(());
        }
        random(mebibytes, system, &mut measured)
    })?;
    Ok(measured)
}

/// Returns whether the work failed for lack of space; fails with any other error.
fn has_no_space(result: Result<(), FsError>) -> Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == FsErrorKind::NoSpace => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn writer(mounted: &Mounted) -> Result<&dyn WritableFileSystem> {
    mounted.writer().context("mounted for reading only")
}

/// Writes the tree; returns false if it does not fit.
fn fill(flash: &Flash, system: System, entries: &[Entry], to: &mut Measured) -> Result<bool> {
    let mounted = flash.mount(system)?;
    let fs = writer(&mounted)?;
    let before = flash.ops();
    let result = unpack(fs, entries).and_then(|()| fs.sync());
    if has_no_space(result)? {
        return Ok(false);
    }
    to.steps.insert(Step::Write, flash.ops() - before);
    mounted.end()?;
    Ok(true)
}

/// Mounts, reads and removes what was written.
fn use_it(flash: &Flash, system: System, entries: &[Entry], to: &mut Measured) -> Result<()> {
    shared(|| {
        if system.is_on_ubi() {
            let before = flash.ops();
            let ubi = flash.attach()?;
            to.steps.insert(Step::Attach, flash.ops() - before);
            ubi.detach()?;
        }
        anyhow::Ok(())
    })?;
    let mounted = alone(|| {
        let (heap_before, before) = (heap(), flash.ops());
        let mounted = flash.mount(system)?;
        let heaps = heap_before.zip(heap());
        to.memory = heaps.map(|(before, after)| after.saturating_sub(before) as u64);
        to.steps.insert(Step::Mount, flash.ops() - before);
        anyhow::Ok(mounted)
    })?;
    shared(|| {
        to.used = Some(mounted.used()?);
        let before = flash.ops();
        let fs = mounted.reader();
        let read = read_all(fs, fs.root())? as u64;
        let written = tree::content_bytes(entries);
        ensure!(read == written, "{read} bytes read back of {written}");
        to.steps.insert(Step::Read, flash.ops() - before);
        if let Some(fs) = mounted.writer() {
            let before = flash.ops();
            remove(fs, fs.root())?;
            fs.sync()?;
            to.steps.insert(Step::Remove, flash.ops() - before);
        }
        mounted.end()
    })
}

/// Writes chunks of random bytes: at most as many as the tree has bytes, and as many as fit.
fn random(mebibytes: u32, system: System, to: &mut Measured) -> Result<()> {
    let flash = partition(mebibytes)?;
    let mounted = flash.mount(system)?;
    let fs = writer(&mounted)?;
    let chunk = tree::noise(&mut SplitMix64::new(7), CHUNK);
    let before = flash.ops();
    while to.chunks < content(mebibytes) / CHUNK as u64 {
        let ino = create(fs, format!("chunk{}", to.chunks).as_bytes());
        let written = ino.and_then(|ino| fs.write(ino, 0, &chunk, &caller()));
        if has_no_space(written.and_then(|()| fs.sync()))? {
            break;
        }
        to.chunks += 1;
        to.steps.insert(Step::Random, flash.ops() - before);
    }
    mounted.end()
}

fn caller() -> Caller {
    Caller::owner(Timestamp::from_seconds(1_700_000_000))
}

fn create(fs: &dyn WritableFileSystem, name: &[u8]) -> Result<u64, FsError> {
    let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    fs.create(fs.root(), name, &inode, &caller())
}

/// Writes files of `size` bytes until no byte more fits; returns the bytes of all of them.
pub(super) fn fill_with(
    fs: &dyn WritableFileSystem,
    size: usize,
    mut content: impl FnMut(usize) -> Vec<u8>,
) -> Result<u64> {
    let (mut total, mut number) = (0, 0_u64);
    loop {
        let ino = match create(fs, format!("f{number}").as_bytes()) {
            Ok(ino) => ino,
            Err(error) if error.kind() == FsErrorKind::NoSpace => break,
            Err(error) => return Err(error.into()),
        };
        let data = content(size);
        let written = match fs.write_some(ino, 0, &data, &caller()) {
            Ok(written) => written,
            Err(error) if error.kind() == FsErrorKind::NoSpace => 0,
            Err(error) => return Err(error.into()),
        };
        total += written as u64;
        if written < data.len() {
            break;
        }
        number += 1;
    }
    fs.sync()?;
    Ok(total)
}

/// Writes files of trees until no byte more fits; returns the bytes of all of them.
pub(super) fn fill_with_tree(fs: &dyn WritableFileSystem) -> Result<u64> {
    let mut contents = tree::contents();
    fill_with(fs, 0, |_| contents.next().unwrap_or_default())
}

/// Makes a SquashFS of the tree, with the default compressor.
fn squashfs_image(entries: &[Entry]) -> Result<Vec<u8>> {
    let Some(program) = find_program("mksquashfs") else {
        bail!("mksquashfs is not installed; `make setup` installs it")
    };
    let work = tempfile::tempdir()?;
    let (from, image) = (work.path().join("tree"), work.path().join("image"));
    fs::create_dir(&from)?;
    tree::to_host(entries, &from)?;
    let (from, to) = (from.to_string_lossy(), image.to_string_lossy());
    let time = ["-mkfs-time", "0", "-all-time", "0", "-all-root"];
    let quiet = ["-noappend", "-no-progress", "-quiet"];
    let words = [&[from.as_ref(), to.as_ref()][..], &time, &quiet].concat();
    run(&program.to_string_lossy(), words)?;
    Ok(fs::read(&image)?)
}
