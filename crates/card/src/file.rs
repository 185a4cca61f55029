//! A card in one sparse file (docs/format/card.md).
//!
//! # Invariants
//! 1. A state is written to the older of its two copies: a process killed at any point leaves a
//!    valid one.
//! 2. Only one process has the file open for writing: it holds the file's lock.
//! 3. Every byte of header and state is checked before it is used.

use crate::error::CardError;
use crate::model::{Model, state};
use crate::parameters::{Parameters, Trim};
use eraseblock_base::crc::{crc32, crc32_continue};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER_SIZE: usize = 4096;
const MAGIC: &[u8; 8] = b"EBCARD\r\n";
const VERSION: u32 = 1;
const WORDS: usize = 18;
const WORDS_AT: usize = 16;
const HEAD_SIZE: usize = 16;
const BLOCK: u64 = 4096;

/// Returns whether a file that begins with `start` is a card file, of any version.
pub fn is_card_file(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The state of an open card file.
#[derive(Debug)]
pub(crate) struct CardFile {
    file: File,
    path: PathBuf,
    area: u64,
    sequence: u64,
    is_writable: bool,
}

impl CardFile {
    /// Makes a card file; an existing file is replaced.
    pub(crate) fn create(path: &Path, parameters: &Parameters) -> Result<Self, CardError> {
        parameters.check()?;
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|source| CardError::io(path, "create", source))?;
        lock(&file, path)?;
        let fail = |source| CardError::io(path, "write", source);
        file.set_len(0).map_err(fail)?;
        file.set_len(file_size(parameters)).map_err(fail)?;
        file.write_all_at(&encode_header(parameters), 0).map_err(fail)?;
        let (path, area) = (path.to_owned(), area(parameters));
        let mut made = Self { file, path, area, sequence: 0, is_writable: true };
        made.save(&Model::new(parameters.clone()))?;
        Ok(made)
    }

    /// Opens a card file as its only user and returns its state.
    pub(crate) fn open(path: &Path) -> Result<(Self, Model), CardError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|source| CardError::io(path, "open", source))?;
        lock(&file, path)?;
        let (opened, model) = Self::read(file, path)?;
        Ok((Self { is_writable: true, ..opened }, model))
    }

    /// Opens a card file for reading alone and returns its state.
    pub(crate) fn open_read_only(path: &Path) -> Result<(Self, Model), CardError> {
        let file = File::open(path).map_err(|source| CardError::io(path, "open", source))?;
        Self::read(file, path)
    }

    /// Returns whether the file may be written to.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn read(file: File, path: &Path) -> Result<(Self, Model), CardError> {
        let fail = |source| CardError::io(path, "read", source);
        let found = file.metadata().map_err(fail)?.len();
        if found < HEADER_SIZE as u64 {
            return Err(wrong(0, "file size", found, "a card file's header".to_owned()));
        }
        let mut header = [0; HEADER_SIZE];
        file.read_exact_at(&mut header, 0).map_err(fail)?;
        let parameters = decode_header(&header)?;
        let expected = file_size(&parameters);
        if found != expected {
            return Err(wrong(0, "file size", found, format!("{expected:#x} as the header says")));
        }
        let area = area(&parameters);
        let path = path.to_owned();
        let mut opened = Self { file, path, area, sequence: 0, is_writable: false };
        let payload = opened.newest()?;
        let model = Model::decode(parameters, &payload).ok_or(CardError::State)?;
        Ok((opened, model))
    }

    /// Returns the newer valid state.
    fn newest(&mut self) -> Result<Vec<u8>, CardError> {
        let (first, second) = (self.read_copy(0)?, self.read_copy(1)?);
        let newest = first.into_iter().chain(second).max_by_key(|copy| copy.0);
        let (sequence, payload) = newest.ok_or(CardError::State)?;
        self.sequence = sequence;
        Ok(payload)
    }

    /// Returns a copy of the state with its sequence number, if it is valid.
    fn read_copy(&self, copy: u64) -> Result<Option<(u64, Vec<u8>)>, CardError> {
        let fail = |source| CardError::io(&self.path, "read", source);
        let at = HEADER_SIZE as u64 + copy * self.area;
        let mut head = [0; HEAD_SIZE];
        self.file.read_exact_at(&mut head, at).map_err(fail)?;
        let sequence = u64::from_le_bytes(bytes(&head, 0));
        let length = u32::from_le_bytes(bytes(&head, 8));
        let is_possible = sequence % 2 == copy
            && sequence > 0
            && sequence < u64::MAX
            && u64::from(length) + HEAD_SIZE as u64 <= self.area;
        if !is_possible {
            return Ok(None);
        }
        let mut payload = vec![0; length as usize];
        self.file.read_exact_at(&mut payload, at + HEAD_SIZE as u64).map_err(fail)?;
        let is_valid =
            crc32_continue(crc32(&head[..12]), &payload) == u32::from_le_bytes(bytes(&head, 12));
        Ok(is_valid.then_some((sequence, payload)))
    }

    /// Writes the state to the older copy.
    pub(crate) fn save(&mut self, model: &Model) -> Result<(), CardError> {
        let sequence = self.sequence + 1;
        let payload = model.encode();
        let mut record = sequence.to_le_bytes().to_vec();
        record.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        record.extend(crc32_continue(crc32(&record), &payload).to_le_bytes());
        record.extend(payload);
        let at = HEADER_SIZE as u64 + sequence % 2 * self.area;
        let written = self.file.write_all_at(&record, at);
        written.map_err(|source| CardError::io(&self.path, "write", source))?;
        self.sequence = sequence;
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), CardError> {
        self.file.sync_data().map_err(|source| CardError::io(&self.path, "sync", source))
    }

    /// Returns the file for the content, and where the content starts.
    pub(crate) fn content(&self, parameters: &Parameters) -> Result<(File, u64), CardError> {
        let file = self.file.try_clone();
        let file = file.map_err(|source| CardError::io(&self.path, "open", source))?;
        Ok((file, content_at(parameters)))
    }

    pub(crate) fn fail(&self, operation: &'static str, source: io::Error) -> CardError {
        CardError::io(&self.path, operation, source)
    }
}

fn lock(file: &File, path: &Path) -> Result<(), CardError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(CardError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(CardError::io(path, "lock", source)),
    }
}

fn area(parameters: &Parameters) -> u64 {
    (HEAD_SIZE as u64 + state::max_size(parameters)).next_multiple_of(BLOCK)
}

fn content_at(parameters: &Parameters) -> u64 {
    HEADER_SIZE as u64 + 2 * area(parameters)
}

fn file_size(parameters: &Parameters) -> u64 {
    content_at(parameters) + parameters.capacity
}

/// The header's fields in the order of the file.
fn words(parameters: &Parameters) -> [u64; WORDS] {
    [
        parameters.capacity,
        parameters.unit.into(),
        parameters.page.into(),
        parameters.open_units.into(),
        parameters.fat_units.into(),
        parameters.unordered_pages.into(),
        parameters.write_command_ns,
        parameters.write_rate,
        parameters.copy_rate,
        parameters.erase_ns,
        parameters.unit_change_ns,
        parameters.partial_page_ns,
        parameters.read_command_ns,
        parameters.read_rate,
        parameters.read_page_ns,
        parameters.read_unit_ns,
        parameters.cache_pages.into(),
        parameters.trim as u64 | u64::from(parameters.erased_ones) << 8,
    ]
}

fn encode_header(parameters: &Parameters) -> [u8; HEADER_SIZE] {
    let mut header = [0; HEADER_SIZE];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (place, word) in header[WORDS_AT..].chunks_exact_mut(8).zip(words(parameters)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32(&header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}

fn decode_header(header: &[u8; HEADER_SIZE]) -> Result<Parameters, CardError> {
    let word32 = |at| u32::from_le_bytes(bytes(header, at));
    if !is_card_file(header) {
        return Err(wrong(0, "magic", u64::from(word32(0)), "`EBCARD` CR LF".to_owned()));
    }
    if word32(8) != VERSION {
        return Err(wrong(8, "version", word32(8).into(), VERSION.to_string()));
    }
    let mut zeroed = *header;
    zeroed[12..16].fill(0);
    if crc32(&zeroed) != word32(12) {
        let expected = format!("{:#x}", crc32(&zeroed));
        return Err(wrong(12, "checksum", word32(12).into(), expected));
    }
    let mut words = [0; WORDS];
    for (index, word) in words.iter_mut().enumerate() {
        *word = u64::from_le_bytes(bytes(header, WORDS_AT + 8 * index));
    }
    let parameters = parameters(words)?;
    parameters.check()?;
    Ok(parameters)
}

fn parameters(words: [u64; WORDS]) -> Result<Parameters, CardError> {
    let small = |index: usize| {
        let at = (WORDS_AT + 8 * index) as u64;
        u32::try_from(words[index])
            .map_err(|_| wrong(at, "size", words[index], "below 2^32".to_owned()))
    };
    let trim = match words[17] & 0xFF {
        0 => Trim::Ignore,
        1 => Trim::DropLog,
        2 => Trim::Erase,
        found => {
            let at = WORDS_AT as u64 + 8 * 17;
            return Err(wrong(at, "trim", found, "0, 1 or 2".to_owned()));
        }
    };
    Ok(Parameters {
        capacity: words[0],
        unit: small(1)?,
        page: small(2)?,
        open_units: small(3)?,
        fat_units: small(4)?,
        unordered_pages: small(5)?,
        write_command_ns: words[6],
        write_rate: words[7],
        copy_rate: words[8],
        erase_ns: words[9],
        unit_change_ns: words[10],
        partial_page_ns: words[11],
        read_command_ns: words[12],
        read_rate: words[13],
        read_page_ns: words[14],
        read_unit_ns: words[15],
        cache_pages: small(16)?,
        trim,
        erased_ones: words[17] & 0x100 != 0,
    })
}

fn wrong(at: u64, field: &'static str, found: u64, expected: String) -> CardError {
    CardError::Header { at, field, found, expected }
}

/// Returns the `N` bytes at a place that exists.
fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let mut copy = [0; N];
    copy.copy_from_slice(&from[at..at + N]);
    copy
}
