//! A chip in one sparse file (layout: docs/format/chip-file.md).
//!
//! # Invariants
//! 1. Cells are written before the record that makes them valid, and a record is written to the
//!    older of its two copies. A process killed at any point leaves the chip before or after the
//!    operation, or a page that was written but is not valid yet, as a power cut does.
//! 2. Only one process has the file open for writing: it holds the file's lock.
//! 3. Every record read is checked (sequence, length, checksum, ranges) before it is used.
//! 4. A file opened for reading is never written: changes caused by reads, such as decaying cells,
//!    stay in memory until it is closed.

mod layout;
mod record;

use crate::config::ChipConfig;
use crate::counters::Counters;
use crate::state::State;
use crate::store::Slot;
use eraseblock_base::{ErrorClass, GeometryError, Location, Peb};
use eraseblock_mtd::{Access, MtdError};
use layout::Layout;
use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

/// A chip file that could not be created, opened or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChipFileError {
    /// The host failed.
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted operation.
        operation: &'static str,
        /// The host's reason.
        source: io::Error,
    },
    /// Another process has the chip open.
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Not a chip file, or one of another version.
    Header {
        /// The offset in the file.
        at: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it must be.
        expected: &'static str,
    },
    /// The header describes an impossible chip.
    Geometry {
        /// What is impossible.
        source: GeometryError,
    },
    /// No copy of a record is valid.
    Record {
        /// The block of the record, or the chip as a whole.
        at: Location,
    },
    /// The cells could not be read.
    Cells {
        /// The place and the reason.
        source: MtdError,
    },
}

impl fmt::Display for ChipFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, source } => {
                write!(f, "{}: {operation} failed: {source}", path.display())
            }
            Self::InUse { path } => {
                write!(f, "{}: the chip is in use by another process", path.display())
            }
            Self::Header { at, field, found, expected } => {
                write!(f, "byte {at}: {field} is {found:#x}, expected {expected}")
            }
            Self::Geometry { source } => write!(f, "chip file header: {source}"),
            Self::Record { at } => write!(
                f,
                "{at}: both copies of the record are damaged: expected one with a matching checksum"
            ),
            Self::Cells { source } => write!(f, "reading the chip's cells: {source}"),
        }
    }
}

impl Error for ChipFileError {}

impl From<GeometryError> for ChipFileError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry { source: error }
    }
}

impl ChipFileError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Cells { source, .. } => Some(source),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), operation, source }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io { .. } | Self::Cells { .. } => ErrorClass::Media,
            Self::InUse { .. } => ErrorClass::Caller,
            Self::Header { field: "version", .. } => ErrorClass::Unsupported,
            Self::Header { .. } | Self::Geometry { .. } | Self::Record { .. } => {
                ErrorClass::Corruption
            }
        }
    }
}

/// Returns whether a file that begins with `start` is a chip file, of any version.
pub fn is_chip_file(start: &[u8]) -> bool {
    start.starts_with(layout::MAGIC)
}

/// The newer copy of each record, and the number of the next record.
#[derive(Debug)]
struct Copies {
    sequence: u64,
    state: usize,
    slots: Vec<u8>,
}

/// An open chip file.
#[derive(Debug)]
pub(crate) struct ChipFile {
    file: File,
    path: PathBuf,
    layout: Layout,
    writable: bool,
    copies: Mutex<Copies>,
}

impl ChipFile {
    pub(crate) fn create(path: &Path, config: &ChipConfig) -> Result<Self, ChipFileError> {
        let layout = Layout::of(config)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|source| ChipFileError::io(path, "create", source))?;
        lock(&file, path)?;
        let fail = |source| ChipFileError::io(path, "write", source);
        file.set_len(0).map_err(fail)?;
        file.set_len(layout.file_size()).map_err(fail)?;
        file.write_all_at(&layout::encode_header(config), 0).map_err(fail)?;
        Ok(Self::with(file, path, layout, config, Access::Write))
    }

    /// Opens a chip file, for writing or only for reading; returns it with its configuration.
    pub(crate) fn open(path: &Path, access: Access) -> Result<(Self, ChipConfig), ChipFileError> {
        let file = OpenOptions::new().read(true).write(access.is_write()).open(path);
        let file = file.map_err(|source| ChipFileError::io(path, "open", source))?;
        if access.is_write() {
            lock(&file, path)?;
        }
        let mut header = vec![0; layout::HEADER_SIZE];
        let read = file.read_exact_at(&mut header, 0);
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => layout::not_a_chip(),
            _ => ChipFileError::io(path, "read", source),
        })?;
        let config = layout::decode_header(&header)?;
        let layout = Layout::of(&config)?;
        Ok((Self::with(file, path, layout, &config, access), config))
    }

    fn with(file: File, path: &Path, layout: Layout, config: &ChipConfig, access: Access) -> Self {
        let slots = vec![1; config.geometry.peb_count() as usize];
        let copies = Mutex::new(Copies { sequence: 1, state: 1, slots });
        Self { file, path: path.to_owned(), layout, writable: access.is_write(), copies }
    }

    /// Returns whether the file was opened for writing.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Reads everything except the cells.
    pub(crate) fn load_into(&self, state: &mut State) -> Result<Counters, ChipFileError> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, area) = (self.layout.state_at(), self.layout.state_area());
        let found = self.newest(at, area, Location::Whole)?;
        let mut counters = Counters::default();
        if let Some(found) = found {
            (copies.state, copies.sequence) = (found.copy, found.sequence);
            counters = record::decode_state(&found.payload, state)
                .ok_or(ChipFileError::Record { at: Location::Whole })?;
        }
        for peb in state.config.geometry.pebs() {
            let (at, area) = (self.layout.slot_at(peb), self.layout.slot_area());
            let damaged = ChipFileError::Record { at: Location::peb(peb) };
            let Some(found) = self.newest(at, area, Location::peb(peb))? else { continue };
            copies.sequence = copies.sequence.max(found.sequence);
            copies.slots[peb.index()] = u8::from(found.copy == 1);
            let slot = record::decode_slot(&found.payload, &state.config).ok_or(damaged)?;
            state.set_slot(peb, slot);
        }
        copies.sequence += 1;
        Ok(counters)
    }

    /// Returns the newer valid copy of a record, or `None` if none was ever written.
    fn newest(
        &self,
        at: u64,
        area: u64,
        place: Location,
    ) -> Result<Option<record::Found>, ChipFileError> {
        let mut best: Option<record::Found> = None;
        let mut damaged = 0;
        for copy in 0..2_usize {
            match self.read_record(at + area * copy as u64, area, copy)? {
                record::Read::Never => {}
                record::Read::Damaged => damaged += 1,
                record::Read::Found(found) => {
                    if best.as_ref().is_none_or(|best| found.sequence > best.sequence) {
                        best = Some(found);
                    }
                }
            }
        }
        // One damaged copy is a write that a failure of the host interrupted.
        if damaged == 2 { Err(ChipFileError::Record { at: place }) } else { Ok(best) }
    }

    fn read_record(&self, at: u64, area: u64, copy: usize) -> Result<record::Read, ChipFileError> {
        let fail = |source| ChipFileError::io(&self.path, "read", source);
        let mut head = [0; record::HEAD_SIZE];
        self.file.read_exact_at(&mut head, at).map_err(fail)?;
        let Some(len) = record::payload_len(&head, area) else { return Ok(record::judge(&head)) };
        let mut payload = vec![0; len];
        self.file.read_exact_at(&mut payload, at + head.len() as u64).map_err(fail)?;
        Ok(record::check(&head, payload, copy))
    }

    /// Writes a block's record to the older of its copies, if the file is writable.
    pub(crate) fn write_slot(&self, peb: Peb, slot: &Slot) -> io::Result<()> {
        if !self.writable {
            return Ok(());
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = 1 - copies.slots[peb.index()];
        let bytes = record::encode(copies.sequence, &record::encode_slot(slot));
        copies.sequence += 1;
        let at = self.layout.slot_at(peb) + self.layout.slot_area() * u64::from(copy);
        self.file.write_all_at(&bytes, at)?;
        copies.slots[peb.index()] = copy;
        Ok(())
    }

    /// Writes the record of the whole chip to the older of its copies, if the file is writable.
    pub(crate) fn write_state(&self, state: &State, counters: &Counters) -> io::Result<()> {
        if !self.writable {
            return Ok(());
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = 1 - copies.state;
        let bytes = record::encode(copies.sequence, &record::encode_state(state, counters));
        copies.sequence += 1;
        let at = self.layout.state_at() + self.layout.state_area() * copy as u64;
        self.file.write_all_at(&bytes, at)?;
        copies.state = copy;
        Ok(())
    }

    pub(crate) fn read_cells(
        &self,
        peb: Peb,
        page: u32,
        from: usize,
        buf: &mut [u8],
    ) -> io::Result<()> {
        self.file.read_exact_at(buf, self.layout.cells_at(peb, page) + from as u64)
    }

    pub(crate) fn write_cells(&self, peb: Peb, page: u32, cells: &[u8]) -> io::Result<()> {
        self.file.write_all_at(cells, self.layout.cells_at(peb, page))
    }

    /// Turns the cells of a block into a hole. If the host does not support this, they stay: the
    /// record marks them as invalid.
    pub(crate) fn free_cells(&self, peb: Peb) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let (at, len) = (self.layout.cells_at(peb, 0), self.layout.cell_area());
            match fallocate(&self.file, flags, at, len) {
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn lock(file: &File, path: &Path) -> Result<(), ChipFileError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(ChipFileError::InUse { path: path.to_owned() })
        }
        Err(std::fs::TryLockError::Error(source)) => Err(ChipFileError::io(path, "lock", source)),
    }
}
