//! UBIFS in use on a simulated chip, in process: unpacks a source tree, syncs it, mounts it again,
//! reads, counts and removes it.

use super::{Bench, Row};
use anyhow::{Context, Result, ensure};
use eraseblock_base::{Geometry, MediumKind, VolumeId};
use eraseblock_lab::one_volume;
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi::UbiDevice;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{
    Caller, FileKind, FileSystem, FsError, Ino, NewInode, NewKind, SetAttr, Timestamp,
    WritableFileSystem,
};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of one write or read.
const CHUNK: usize = 128 << 10;
/// Blocks of the chip.
const BLOCKS: u32 = 4096;
/// Maximum processor time of each step.
type Limits = [(&'static str, f64); 6];

const LZO: Limits = [
    ("unpack", 2.5),
    ("sync", 1.0),
    ("remount", 0.2),
    ("read all", 0.52),
    ("du", 0.2),
    ("rm -r", 0.5),
];
const NONE: Limits = [("unpack", 1.2), LZO[1], LZO[2], LZO[3], LZO[4], LZO[5]];

/// An entry to unpack.
#[derive(Debug)]
pub(crate) enum Entry {
    Dir(Vec<u8>),
    File(Vec<u8>, Vec<u8>),
    Link(Vec<u8>, Vec<u8>),
    End,
}

impl Bench {
    /// Processor seconds of each step; the peer's column is the limit.
    pub(super) fn ubifs_rw(&mut self) -> Result<()> {
        let mut entries = Vec::new();
        load(&self.tree, &mut entries)?;
        let cases = [(Compression::Lzo, LZO), (Compression::Zstd, LZO), (Compression::None, NONE)];
        for (compression, limits) in cases {
            let run = Run { ubi: device()?, compression, limits, steps: Vec::new() };
            for (what, ours, peer) in run.all(&entries)? {
                let ratio = ours / peer;
                self.add(Row {
                    what,
                    ours,
                    peer,
                    unit: "s",
                    ratio,
                    wanted: 1.0,
                    met: ratio <= 1.0,
                });
            }
        }
        Ok(())
    }
}

/// A tree, in the order of its names.
pub(super) fn load(dir: &Path, entries: &mut Vec<Entry>) -> Result<()> {
    let mut found: Vec<_> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    found.sort_by_key(fs::DirEntry::file_name);
    for entry in found {
        let name = entry.file_name().as_bytes().to_vec();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            entries.push(Entry::Dir(name));
            load(&entry.path(), entries)?;
            entries.push(Entry::End);
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path())?;
            entries.push(Entry::Link(name, target.as_os_str().as_bytes().to_vec()));
        } else {
            entries.push(Entry::File(name, fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// Returns a chip of 512 MiB with one volume.
fn device() -> Result<UbiDevice> {
    let geometry = Geometry::new(MediumKind::Nand, 128 << 10, BLOCKS, 2048, 512, 64)?;
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry)?));
    let layout = HeaderLayout::new(128 << 10, 2048, 512, None)?;
    Ok(one_volume(chip, &layout)?)
}

/// Processor time of all threads so far, in seconds.
fn processor_time() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let behind = stat.rsplit_once(')').context("no name in /proc/self/stat")?.1;
    let ticks = |field: usize| behind.split_whitespace().nth(field)?.parse::<f64>().ok();
    Ok((ticks(11).context("no utime")? + ticks(12).context("no stime")?) / 100.0)
}

struct Run {
    ubi: UbiDevice,
    compression: Compression,
    limits: Limits,
    /// Each step with the processor seconds it took and its limit.
    steps: Vec<(String, f64, f64)>,
}

impl Run {
    fn mount(&self) -> Result<UbifsMount> {
        let options =
            MountOptions { compression: Some(self.compression), ..MountOptions::default() };
        Ok(UbifsMount::mount(Arc::new(self.ubi.volume(VolumeId::new(0))?), options)?.0)
    }

    fn timed<T>(&mut self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let before = processor_time()?;
        let result = work(self)?;
        let taken = processor_time()? - before;
        let (what, most) = self.limits[self.steps.len()];
        let compressor = format!("{:?}", self.compression).to_lowercase();
        self.steps.push((format!("ubifs in use, {compressor}: {what} (processor)"), taken, most));
        Ok(result)
    }

    fn all(mut self, entries: &[Entry]) -> Result<Vec<(String, f64, f64)>> {
        self.mount()?.unmount()?;
        let mounted = self.mount()?;
        let content: usize = entries.iter().map(Entry::len).sum();
        self.timed(|_| Ok(unpack(&mounted, entries)?))?;
        self.timed(|_| Ok(mounted.sync()?))?;
        let mounted = self.timed(|run| {
            mounted.unmount()?;
            drop(mounted);
            run.mount()
        })?;
        let read = self.timed(|_| Ok(read_all(&mounted, mounted.root())?))?;
        ensure!(read == content, "{read} bytes read back of {content}");
        self.timed(|_| Ok(count(&mounted, mounted.root())?))?;
        self.timed(|_| {
            remove(&mounted, mounted.root())?;
            Ok(mounted.sync()?)
        })?;
        Ok(self.steps)
    }
}

impl Entry {
    pub(crate) fn len(&self) -> usize {
        if let Self::File(_, content) = self { content.len() } else { 0 }
    }
}

/// Writes entries below the root.
pub(crate) fn unpack(mounted: &dyn WritableFileSystem, entries: &[Entry]) -> Result<(), FsError> {
    let now = Timestamp::from_seconds(1_700_000_000);
    let by = &Caller::owner(now);
    let new = |kind| NewInode { kind, permissions: 0o755, uid: 0, gid: 0 };
    let times = SetAttr { mtime: Some(now), ..SetAttr::default() };
    let mut dirs = vec![mounted.root()];
    for entry in entries {
        let dir = dirs.last().copied().unwrap_or(mounted.root());
        match entry {
            Entry::Dir(name) => {
                dirs.push(mounted.create(dir, name, &new(NewKind::Directory), by)?);
            }
            Entry::End => {
                dirs.pop();
            }
            Entry::Link(name, target) => {
                mounted.create(dir, name, &new(NewKind::Symlink(target)), by)?;
            }
            Entry::File(name, content) => {
                let ino = mounted.create(dir, name, &new(NewKind::Regular), by)?;
                for (number, chunk) in content.chunks(CHUNK).enumerate() {
                    mounted.write(ino, (number * CHUNK) as u64, chunk, by)?;
                }
                mounted.set_attr(ino, &times, by)?;
            }
        }
    }
    Ok(())
}

/// Reads all files below a directory; returns the number of bytes.
pub(crate) fn read_all(mounted: &dyn FileSystem, dir: Ino) -> Result<usize, FsError> {
    let mut total = 0;
    let mut buf = vec![0; CHUNK];
    for entry in mounted.entries(dir)? {
        match entry.kind {
            FileKind::Directory => total += read_all(mounted, entry.ino)?,
            FileKind::Regular => {
                let mut offset = 0;
                loop {
                    let len = mounted.read(entry.ino, offset, &mut buf)?;
                    total += len;
                    offset += len as u64;
                    if len < CHUNK {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(total)
}

fn count(mounted: &UbifsMount, dir: Ino) -> Result<u64, FsError> {
    let mut total = 0;
    for entry in mounted.entries(dir)? {
        total += mounted.attr(entry.ino)?.size;
        if entry.kind == FileKind::Directory {
            total += count(mounted, entry.ino)?;
        }
    }
    Ok(total)
}

/// Removes everything in a directory.
pub(crate) fn remove(mounted: &dyn WritableFileSystem, dir: Ino) -> Result<(), FsError> {
    let by = &Caller::owner(Timestamp::from_seconds(1_700_000_001));
    for entry in mounted.entries(dir)? {
        if entry.kind == FileKind::Directory {
            remove(mounted, entry.ino)?;
            mounted.remove_dir(dir, &entry.name, by)?;
        } else {
            mounted.unlink(dir, &entry.name, by)?;
        }
    }
    Ok(())
}
