//! UBIFS and JFFS2 compared on one chip: virtual times, the same in every run; and the bytes that a
//! mount of JFFS2 reads.

use super::Size;
use crate::one_volume;
use eraseblock_base::{Geometry, GeometryError, MediumKind, Peb, VolumeId};
use eraseblock_jffs2::{Jffs2Error, Jffs2Rw, MountReport, RwOptions};
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi::{UbiDevice, UbiError};
use eraseblock_ubi_format::{HeaderLayout, LayoutError};
use eraseblock_ubifs::{MountOptions, UbifsError, UbifsMount};
use eraseblock_vfs::{
    Background, Caller, DirEntry, FsError, NewInode, NewKind, Timestamp, WritableFileSystem,
};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// On whose behalf everything is done, and when.
const OWNER: &Caller = &Caller::owner(Timestamp::from_seconds(1_700_000_000));

/// A figure that could not be measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum SideError {
    /// The device failed.
    Device(MtdError),
    /// UBI failed.
    Ubi(UbiError),
    /// UBIFS could not be mounted.
    Ubifs(UbifsError),
    /// JFFS2 could not be mounted.
    Jffs2(Jffs2Error),
    /// An operation failed.
    Fs(FsError),
    /// The chip is impossible.
    Geometry(GeometryError),
    /// The layout is impossible.
    Layout(LayoutError),
}

impl fmt::Display for SideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => fmt::Display::fmt(error, f),
            Self::Ubi(error) => fmt::Display::fmt(error, f),
            Self::Ubifs(error) => fmt::Display::fmt(error, f),
            Self::Jffs2(error) => fmt::Display::fmt(error, f),
            Self::Fs(error) => fmt::Display::fmt(error, f),
            Self::Geometry(error) => fmt::Display::fmt(error, f),
            Self::Layout(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for SideError {}

impl From<MtdError> for SideError {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

impl From<UbiError> for SideError {
    fn from(error: UbiError) -> Self {
        Self::Ubi(error)
    }
}

impl From<UbifsError> for SideError {
    fn from(error: UbifsError) -> Self {
        Self::Ubifs(error)
    }
}

impl From<Jffs2Error> for SideError {
    fn from(error: Jffs2Error) -> Self {
        Self::Jffs2(error)
    }
}

impl From<FsError> for SideError {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

impl From<GeometryError> for SideError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<LayoutError> for SideError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl SideError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Ubi(error) => Some(error),
            Self::Ubifs(error) => Some(error),
            Self::Jffs2(error) => Some(error),
            Self::Fs(error) => Some(error),
            _ => None,
        }
    }
}

/// A file system of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub enum Side {
    /// UBIFS on the only volume of UBI.
    Ubifs,
    /// JFFS2 on the bare chip.
    Jffs2,
}

/// A chip of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub enum Medium {
    /// NAND of 128 KiB blocks and 2 KiB pages, new.
    Nand,
    /// The same with a file system that has been in use: 1.5 times the chip was written before, and
    /// up to a quarter of it remains.
    AgedNand,
    /// NOR of 64 KiB blocks, new.
    Nor,
}

/// The costs of one file system on one chip, in seconds on the chip.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Cost {
    /// The file system.
    pub side: Side,
    /// The chip.
    pub medium: Medium,
    /// Mebibytes of the chip.
    pub mebibytes: u32,
    /// Mebibytes of content written: a quarter of the chip.
    pub content: u32,
    /// Creating the files, and making them durable.
    pub write: f64,
    /// Mounting, attaching included.
    pub mount: f64,
    /// Bytes that mounting reads.
    pub mount_bytes: u64,
    /// Approximate memory after mounting: of JFFS2 for nodes, inodes and blocks; of UBIFS for the
    /// properties of LEBs and the loaded part of its index, without UBI.
    pub memory: u64,
    /// Reading all files after that mount.
    pub read: f64,
    /// Deleting all files, and making that durable.
    pub delete: f64,
}

/// The bytes that a mount of JFFS2 reads, and those required by the format.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct MountBytes {
    /// Bytes read.
    pub read: u64,
    /// Required bytes (spec: jffs2 12.2, 12.4): of a block with a summary the summary; of any other
    /// one the page a summary would end in, and the first 256 bytes or, if nodes are in it, all.
    pub demanded: u64,
    /// Blocks read through their summary.
    pub summaries: u32,
    /// Nodes alive.
    pub nodes: u64,
    /// Bytes kept in memory.
    pub memory: u64,
    /// Seconds on the chip.
    pub seconds: f64,
}

/// Bytes of a file.
const FILE_SIZE: u32 = 16 << 10;
/// Files of a directory.
const DIR_FILES: u32 = 64;
/// Size of a file that was written before.
const AGED_SIZE: u32 = 8 << 10;
/// How often an eighth of the chip is written before.
const AGE_ROUNDS: u32 = 12;
/// The prefix of directories that were created before.
const AGED: &[u8] = b"old-";
/// Number of bytes read before a block may be treated as empty.
const FIRST_LOOK: u64 = 256;

fn chip(medium: Medium, mebibytes: u32) -> Result<Arc<Chip>, SideError> {
    let size = Size::large_page(mebibytes);
    let geometry = match medium {
        Medium::Nor => Geometry::new(MediumKind::Nor, 64 << 10, mebibytes * 16, 1, 1, 0)?,
        Medium::Nand | Medium::AgedNand => {
            let (kind, oob) = (MediumKind::Nand, size.page / 32);
            Geometry::new(kind, size.peb, size.count, size.page, size.subpage, oob)?
        }
    };
    Ok(Arc::new(Chip::new(ChipConfig::of_geometry(geometry)?)))
}

/// A file system on a chip, and the device below it, which lives as long.
struct Mounted {
    fs: Box<dyn WritableFileSystem>,
    ubi: Option<UbiDevice>,
    memory: u64,
}

fn mount(side: Side, chip: &Arc<Chip>) -> Result<Mounted, SideError> {
    if side == Side::Jffs2 {
        let (fs, report) = Jffs2Rw::mount(chip.clone(), &RwOptions::default())?;
        return Ok(Mounted { fs: Box::new(fs), ubi: None, memory: report.memory });
    }
    let geometry = *chip.geometry();
    let layout =
        HeaderLayout::new(geometry.peb_size(), geometry.min_io(), geometry.subpage(), None)?;
    let ubi = one_volume(chip.clone(), &layout)?;
    let volume = Arc::new(ubi.volume(VolumeId::new(0))?);
    let (fs, _) = UbifsMount::mount(volume, MountOptions::default())?;
    let memory = fs.memory();
    Ok(Mounted { fs: Box::new(fs), ubi: Some(ubi), memory })
}

impl Mounted {
    fn unmount(self) -> Result<(), SideError> {
        self.fs.unmount()?;
        drop(self.fs);
        if let Some(ubi) = self.ubi {
            ubi.detach()?;
        }
        Ok(())
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn write_files(fs: &dyn WritableFileSystem, files: u32) -> Result<(), FsError> {
    let mut new = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
    let mut dir = fs.root();
    for number in 0..files {
        if number % DIR_FILES == 0 {
            new.kind = NewKind::Directory;
            dir = fs.create(fs.root(), &name(number / DIR_FILES), &new, OWNER)?;
        }
        new.kind = NewKind::Regular;
        let file = fs.create(dir, &name(number), &new, OWNER)?;
        let texture = if number % 2 == 0 { Texture::Text } else { Texture::Random };
        let content = data_of(number.into(), 0, FILE_SIZE, texture);
        fs.write(file, 0, &content, OWNER)?;
        let _ = fs.background_step()?;
    }
    fs.sync()
}

/// Ages a file system: repeatedly writes an eighth of the chip, and deletes every second file of
/// the previous round, then the rest.
fn age(fs: &dyn WritableFileSystem, mebibytes: u32) -> Result<(), FsError> {
    let old = |round: u32| [AGED, name(round).as_slice()].concat();
    let delete = |round: Option<u32>, step: usize| -> Result<(), FsError> {
        let Some(round) = round else { return Ok(()) };
        let dir = fs.lookup(fs.root(), &old(round))?;
        for file in fs.entries(dir)?.iter().step_by(step) {
            fs.unlink(dir, &file.name, OWNER)?;
        }
        if step == 1 { fs.remove_dir(fs.root(), &old(round), OWNER) } else { Ok(()) }
    };
    for round in 0..AGE_ROUNDS {
        delete(round.checked_sub(2), 1)?;
        delete(round.checked_sub(1), 2)?;
        let mut new = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
        let dir = fs.create(fs.root(), &old(round), &new, OWNER)?;
        new.kind = NewKind::Regular;
        for number in 0..(mebibytes << 20) / 8 / AGED_SIZE {
            let file = fs.create(dir, &name(number), &new, OWNER)?;
            let content = data_of((round << 16 | number).into(), 0, AGED_SIZE, Texture::Random);
            fs.write(file, 0, &content, OWNER)?;
            let _ = fs.background_step()?;
        }
    }
    fs.sync()
}

/// Returns the directories of the files that are measured.
fn directories(fs: &dyn WritableFileSystem) -> Result<Vec<DirEntry>, FsError> {
    let mut entries = fs.entries(fs.root())?;
    entries.retain(|entry| !entry.name.starts_with(AGED));
    Ok(entries)
}

fn read_files(fs: &dyn WritableFileSystem) -> Result<(), FsError> {
    let mut buf = vec![0; FILE_SIZE as usize];
    for dir in directories(fs)? {
        for file in fs.entries(dir.ino)? {
            fs.read(file.ino, 0, &mut buf)?;
        }
    }
    Ok(())
}

fn delete_files(fs: &dyn WritableFileSystem) -> Result<(), FsError> {
    for dir in directories(fs)? {
        for file in fs.entries(dir.ino)? {
            fs.unlink(dir.ino, &file.name, OWNER)?;
        }
        fs.remove_dir(fs.root(), &dir.name, OWNER)?;
    }
    fs.sync()
}

/// Fills a quarter of a chip with files of 16 KiB, alternately text and noise, and measures
/// everything once. Fails if a file system does.
pub fn cost(side: Side, medium: Medium, mebibytes: u32) -> Result<Cost, SideError> {
    let chip = chip(medium, mebibytes)?;
    let content = mebibytes / 4;
    let files = (content << 20) / FILE_SIZE;
    let new = mount(side, &chip)?;
    // A new chip is erased in the background.
    while new.fs.background_step()? == Background::More {}
    new.unmount()?;
    let mounted = mount(side, &chip)?;
    if medium == Medium::AgedNand {
        age(mounted.fs.as_ref(), mebibytes)?;
    }
    let (write, ()) = timed(&chip, || Ok(write_files(mounted.fs.as_ref(), files)?))?;
    mounted.unmount()?;
    let before = chip.counters().bytes_read;
    let (mounting, mounted) = timed(&chip, || mount(side, &chip))?;
    let mount_bytes = chip.counters().bytes_read - before;
    let fs = mounted.fs.as_ref();
    let (read, ()) = timed(&chip, || Ok(read_files(fs)?))?;
    let (delete, ()) = timed(&chip, || Ok(delete_files(fs)?))?;
    let memory = mounted.memory;
    mounted.unmount()?;
    let mount = mounting;
    Ok(Cost { side, medium, mebibytes, content, write, mount, mount_bytes, memory, read, delete })
}

fn timed<T>(
    chip: &Chip,
    work: impl FnOnce() -> Result<T, SideError>,
) -> Result<(f64, T), SideError> {
    let before = chip.counters().virtual_ns;
    let done = work()?;
    Ok((seconds(chip.counters().virtual_ns - before), done))
}

fn seconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// Returns the costs of both file systems on NAND of 8, 32 and 120 MiB, on one in use, and on NOR.
/// Fails if a file system does.
pub fn table() -> Result<Vec<Cost>, SideError> {
    let chips = [
        (Medium::Nand, 8),
        (Medium::Nand, 32),
        (Medium::Nand, 120),
        (Medium::AgedNand, 32),
        (Medium::Nor, 32),
    ];
    let mut rows = Vec::new();
    for (medium, mebibytes) in chips {
        for side in [Side::Ubifs, Side::Jffs2] {
            rows.push(cost(side, medium, mebibytes)?);
        }
    }
    Ok(rows)
}

/// Whether full blocks get a summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Summaries {
    /// They do.
    Written,
    /// They do not.
    LeftOut,
}

/// Fills a quarter of a chip with JFFS2 and counts what a mount reads. Fails if the file system
/// does.
pub fn mount_bytes(mebibytes: u32, summaries: Summaries) -> Result<MountBytes, SideError> {
    let chip = chip(Medium::Nand, mebibytes)?;
    let options = RwOptions { summary: summaries == Summaries::Written, ..RwOptions::default() };
    let mount = || Jffs2Rw::mount(chip.clone(), &options);
    let (fs, _) = mount()?;
    write_files(&fs, ((mebibytes / 4) << 20) / FILE_SIZE)?;
    fs.unmount()?;
    drop(fs);
    let (seconds, (_, report)): (f64, (_, MountReport)) = timed(&chip, || Ok(mount()?))?;
    Ok(MountBytes {
        read: report.bytes_read,
        demanded: demanded(&chip)?,
        summaries: report.summaries,
        nodes: report.nodes,
        memory: report.memory,
        seconds,
    })
}

/// Returns the bytes of a NAND chip that the format requires to be read, determined without the
/// code under test.
fn demanded(chip: &Chip) -> Result<u64, SideError> {
    let geometry = *chip.geometry();
    let (size, page) = (u64::from(geometry.peb_size()), u64::from(geometry.min_io()));
    let mut bytes = vec![0; geometry.peb_size() as usize];
    let mut sum = 0;
    for peb in (0..geometry.peb_count()).map(Peb::new) {
        chip.read(geometry.address_of(peb), &mut bytes)?;
        let tail = bytes.last_chunk::<8>().expect("a block has 8 bytes");
        let [first, second, third, fourth, ..] = *tail;
        let offset = [first, second, third, fourth];
        let is_marked = tail.ends_with(&[0x85, 0x18, 0x85, 0x02]);
        sum += match bytes.iter().take(256).all(|byte| *byte == 0xFF) {
            _ if is_marked => (size - u64::from(u32::from_le_bytes(offset))).max(page),
            true => page + FIRST_LOOK,
            false => page + size,
        };
    }
    Ok(sum)
}
