//! A block device or a plain file used as flash (spec: block-device).
//!
//! The map records which blocks are erased, so reading erased blocks needs no disk access and
//! erasing writes nothing; units of 0xFF are not written. An eraseblock that is rewritten after an
//! erase gets a new position, so every change is atomic until the next sync.
//!
//! # Invariants
//! 1. After a power cut the device has its state of some moment, no earlier than the last completed
//!    sync: every operation until then is present, and no later one.
//! 2. A unit is written at most once between two erases.
//! 3. After a failed commit nothing is written.

mod backing;
mod journal;
mod layout;
mod map;
#[cfg(test)]
mod tests;
mod transfer;
mod volume;

pub use backing::{Backing, HostDisk};
pub use volume::BlockVolume;

use crate::error::HostError;
use eraseblock_base::{ErrorClass, Geometry, GeometryError, Location, Peb};
use eraseblock_mtd::file::{check_range, locate};
use eraseblock_mtd::{Access, Mtd, MtdError, ReadOutcome};
use journal::Position;
use layout::{Layout, META};
use map::Map;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use transfer::{in_flight, overlap};

/// A disk that cannot be used as flash.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlockError {
    /// The disk fails.
    Io(io::Error),
    /// The disk does not contain flash.
    NoSuperblock,
    /// The disk contains other data.
    NotEmpty,
    /// The metadata on the disk is damaged.
    Damaged {
        /// The damaged structure.
        what: &'static str,
    },
    /// The sizes are inconsistent.
    Shape {
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The flash would have an impossible geometry.
    Geometry(GeometryError),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read or write the disk: {error}"),
            Self::NoSuperblock => f.write_str("the disk does not contain an eraseblock flash"),
            Self::NotEmpty => f.write_str("the disk is not empty"),
            Self::Damaged { what } => write!(f, "{what} is damaged"),
            Self::Shape { found, expected } => write!(f, "found {found}, expected {expected}"),
            Self::Geometry(error) => write!(f, "impossible geometry: {error}"),
        }
    }
}

impl Error for BlockError {}

impl From<io::Error> for BlockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<GeometryError> for BlockError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl BlockError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io(_) => ErrorClass::Media,
            Self::Damaged { .. } => ErrorClass::Corruption,
            Self::NoSuperblock | Self::Shape { .. } | Self::Geometry(_) => ErrorClass::Unsupported,
            Self::NotEmpty => ErrorClass::Caller,
        }
    }
}

/// The sizes of a new flash on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockShape {
    /// Bytes in an eraseblock; a power of two.
    pub peb_size: u32,
    /// Bytes written together; a power of two, at least 512 and at least the sector size.
    pub unit: u32,
}

impl Default for BlockShape {
    fn default() -> Self {
        Self { peb_size: 128 << 10, unit: 4096 }
    }
}

/// Flash on a disk.
#[derive(Debug)]
pub struct BlockDevice<B: Backing = HostDisk> {
    disk: B,
    layout: Layout,
    geometry: Geometry,
    writable: bool,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    map: Map,
    position: Position,
    /// A commit failed.
    is_broken: bool,
}

/// Returns whether a disk begins like flash created by this module.
pub fn is_block_flash(start: &[u8]) -> bool {
    start.starts_with(&layout::MAGIC)
}

impl BlockDevice<HostDisk> {
    /// Opens the flash on a block device or in a plain file.
    ///
    /// # Errors
    ///
    /// Fails as [`HostDisk::open`] does, and with [`HostError::Block`] if there is no flash or it
    /// is damaged.
    pub fn open(path: &Path, access: Access) -> Result<Self, HostError> {
        let disk = HostDisk::open(path, access)?;
        let sector = disk.sector();
        let device = Self::new(disk, access).and_then(|device| device.check_sector(sector));
        device.map_err(|source| HostError::Block { path: path.to_owned(), source })
    }

    /// Creates an erased flash. Without `force`, the disk must begin with zeros or 0xFF.
    ///
    /// # Errors
    ///
    /// Fails as [`HostDisk::open`] does, if the disk contains other data, if the sizes are
    /// impossible, or if the disk fails.
    pub fn create(path: &Path, shape: &BlockShape, force: bool) -> Result<Self, HostError> {
        let disk = HostDisk::open(path, Access::Write)?;
        let sector = disk.sector();
        let made = is_empty(&disk).and_then(|empty| {
            if !empty && !force {
                return Err(BlockError::NotEmpty);
            }
            Self::make(disk, shape)?.check_sector(sector)
        });
        made.map_err(|source| HostError::Block { path: path.to_owned(), source })
    }

    fn check_sector(self, sector: u32) -> Result<Self, BlockError> {
        if self.layout.unit.is_multiple_of(sector) {
            return Ok(self);
        }
        let found = format!("units of {} bytes on sectors of {sector}", self.layout.unit);
        Err(BlockError::Shape { found, expected: "units of whole sectors" })
    }
}

fn is_empty(disk: &HostDisk) -> Result<bool, BlockError> {
    let len = disk.size()?.min(64 << 10);
    let mut start = vec![0; usize::try_from(len).unwrap_or(0)];
    disk.read(0, &mut start)?;
    Ok(start.iter().all(|byte| *byte == start[0]) && matches!(start.first(), Some(0 | 0xFF)))
}

impl<B: Backing> BlockDevice<B> {
    /// Opens the flash on a disk. Replaces a damaged superblock by its copy.
    ///
    /// # Errors
    ///
    /// Fails if the disk fails, contains no flash or damaged metadata.
    pub fn new(disk: B, access: Access) -> Result<Self, BlockError> {
        let size = disk.size()?;
        if size < 2 * META as u64 {
            return Err(BlockError::NoSuperblock);
        }
        let mut superblocks = vec![0; 2 * META];
        disk.read(0, &mut superblocks)?;
        let (first, second) = superblocks.split_at(META);
        let layout = Layout::decode(first, size)
            .or_else(|error| Layout::decode(second, size).map_err(|_| error))?;
        let geometry = layout.geometry()?;
        let (map, position) = journal::load(&disk, &layout)?;
        let state = RwLock::new(State { map, position, is_broken: false });
        Ok(Self { disk, layout, geometry, writable: access.is_write(), state })
    }

    /// Creates an erased flash, regardless of the content of the disk.
    ///
    /// # Errors
    ///
    /// Fails if the sizes are impossible or the disk fails.
    pub fn make(disk: B, shape: &BlockShape) -> Result<Self, BlockError> {
        let layout = Layout::for_disk(disk.size()?, shape.peb_size, shape.unit)?;
        // Metadata units of an earlier flash on the disk must not be taken for current ones.
        let zeros = vec![0; META];
        for offset in (0..layout.data_start).step_by(META) {
            disk.write(offset, &zeros)?;
        }
        disk.flush()?;
        let map = Map::new(&layout);
        let start = Position { sequence: 0, previous: 0, area: 1, base: 0, is_stale: false };
        journal::write_checkpoint(&disk, &layout, &map, start)?;
        disk.write(META as u64, &layout.encode())?;
        disk.write(0, &layout.encode())?;
        disk.flush()?;
        Self::new(disk, Access::Write)
    }

    /// Returns the underlying disk.
    pub fn disk(&self) -> &B {
        &self.disk
    }

    /// Replaces the content of an eraseblock by `data`, whole units, followed by erased bytes. When
    /// the call returns, this and all earlier operations are durable. After a power cut the block
    /// has the old or the new content.
    ///
    /// # Errors
    ///
    /// Fails if the range is invalid, the device is read-only or the disk fails.
    pub fn change(&self, peb: Peb, data: &[u8]) -> Result<(), MtdError> {
        let start = self.check_peb(peb, "change")?;
        if data.len() > self.layout.peb_size as usize {
            return Err(self.range(start, "change", data.len(), "at most one eraseblock"));
        }
        self.check_program(start, data)?;
        let mut state = self.write_state(start, "change")?;
        // No commit may happen between the end of the old content and the new one.
        if state.map.free_slots() == 0 {
            self.commit(&mut state)?;
        }
        Self::clear(&mut state, peb);
        self.program_locked(&mut state, &[(start, data)])?;
        self.take_slot(&mut state, peb)?;
        self.commit(&mut state)
    }

    /// Assigns a slot to an erased eraseblock, durably: its old content cannot reappear.
    pub(crate) fn claim(&self, peb: Peb) -> Result<(), MtdError> {
        let start = self.check_peb(peb, "map")?;
        self.check_writable(start, "map")?;
        let mut state = self.write_state(start, "map")?;
        self.take_slot(&mut state, peb)?;
        self.commit(&mut state)
    }

    /// Returns whether an eraseblock has a slot on the disk.
    pub(crate) fn has_place(&self, peb: Peb) -> Result<bool, MtdError> {
        self.check_peb(peb, "mapping query")?;
        Ok(self.read_state().map.get(peb).is_some_and(|entry| entry.slot.is_some()))
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable && !self.read_state().is_broken
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(
        &self,
        addr: u64,
        operation: &'static str,
    ) -> Result<RwLockWriteGuard<'_, State>, MtdError> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_broken {
            return Err(MtdError::ReadOnly { at: locate(&self.geometry, addr), operation });
        }
        Ok(state)
    }

    fn check_writable(&self, addr: u64, operation: &'static str) -> Result<(), MtdError> {
        if self.writable {
            return Ok(());
        }
        Err(MtdError::ReadOnly { at: locate(&self.geometry, addr), operation })
    }

    fn check_peb(&self, peb: Peb, operation: &'static str) -> Result<u64, MtdError> {
        let start = self.geometry.address_of(peb);
        if peb.get() < self.geometry.peb_count() {
            return Ok(start);
        }
        let (at, expected) = (Location::peb(peb), "an eraseblock of the device");
        Err(MtdError::Range { at, operation, len: 0, expected })
    }

    fn range(
        &self,
        addr: u64,
        operation: &'static str,
        len: usize,
        expected: &'static str,
    ) -> MtdError {
        MtdError::Range { at: locate(&self.geometry, addr), operation, len: len as u64, expected }
    }

    fn check_program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        check_range(&self.geometry, "program", addr, data.len())?;
        self.check_writable(addr, "program")?;
        let unit = u64::from(self.layout.unit);
        if !addr.is_multiple_of(unit) || !(data.len() as u64).is_multiple_of(unit) {
            return Err(self.range(addr, "program", data.len(), "whole programming units"));
        }
        Ok(())
    }
}

impl<B: Backing> Mtd for BlockDevice<B> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        check_range(&self.geometry, "read", addr, buf.len())?;
        Ok(self.read_locked(&self.read_state(), addr, buf))
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.check_program(addr, data)?;
        let mut state = self.write_state(addr, "program")?;
        self.program_locked(&mut state, &[(addr, data)])
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let start = self.check_peb(peb, "erase")?;
        self.check_writable(start, "erase")?;
        let mut state = self.write_state(start, "erase")?;
        if state.map.get(peb).is_some_and(|entry| entry.is_bad) {
            return Err(MtdError::Failed { at: Location::peb(peb), operation: "erase" });
        }
        Self::clear(&mut state, peb);
        Ok(())
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.check_peb(peb, "bad-block check")?;
        Ok(self.read_state().map.get(peb).is_some_and(|entry| entry.is_bad))
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        let operation = "marking a block bad";
        let start = self.check_peb(peb, operation)?;
        self.check_writable(start, operation)?;
        let mut state = self.write_state(start, operation)?;
        if let Some(entry) = state.map.get_mut(peb) {
            entry.is_bad = true;
        }
        self.commit(&mut state)
    }

    fn sync(&self) -> Result<(), MtdError> {
        if !self.writable {
            return Ok(());
        }
        let mut state = self.write_state(0, "sync")?;
        self.commit(&mut state)
    }

    fn read_batch(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<Vec<ReadOutcome>, MtdError> {
        for (addr, buf) in &*ranges {
            check_range(&self.geometry, "read", *addr, buf.len())?;
        }
        let state = self.read_state();
        let jobs: Vec<_> =
            ranges.iter_mut().map(|range| Mutex::new((range, ReadOutcome::CLEAN))).collect();
        in_flight(&jobs, |job| {
            let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
            let (range, outcome) = &mut *job;
            *outcome = self.read_locked(&state, range.0, range.1);
        });
        let outcomes =
            jobs.into_iter().map(|job| job.into_inner().unwrap_or_else(PoisonError::into_inner).1);
        Ok(outcomes.collect())
    }

    /// Check all ranges before writing the first.
    fn program_batch(&self, ranges: &[(u64, &[u8])]) -> Result<(), MtdError> {
        for (addr, data) in ranges {
            self.check_program(*addr, data)?;
        }
        let mut state = self.write_state(0, "program")?;
        if overlap(ranges) {
            return ranges.iter().try_for_each(|range| {
                self.program_locked(&mut state, std::slice::from_ref(range))
            });
        }
        self.program_locked(&mut state, ranges)
    }
}

impl<B: Backing> Drop for BlockDevice<B> {
    /// Make unsynced data durable; drop cannot report a failure.
    fn drop(&mut self) {
        if self.writable {
            let _ = self.sync();
        }
    }
}
