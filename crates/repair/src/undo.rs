//! Undo files: what a file held before it was changed in place.
//!
//! ```text
//! header   "EBUNDO\0\1", kind (u32: 0 a file, 1 a flash), tool (u32 length, text), size before and after
//!          (u64), SHA-256 before, number of records (u64), CRC-32 of all of this
//! records  place (u64), old and new length (u32), packed length (u32), CRC-32 of each 512 bytes of the
//!          new content, old bytes deflated, CRC-32 of the record
//! trailer  "EBDONE\0\1", SHA-256 after, CRC-32 of both
//! ```
//!
//! All numbers are little-endian.
//!
//! # Invariants
//! 1. The undo file with all its records is on the disk before the first byte of the target changes.
//! 2. After a crash at any moment every sector of the target holds its old or its new bytes, so that
//!    [`undo`] restores it; it can be repeated.

mod blocks;

pub use blocks::{replace_blocks, undo_blocks};

use crate::error::RepairError;
use eraseblock_base::crc::crc32;
use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: [u8; 8] = *b"EBUNDO\0\x01";
const DONE: [u8; 8] = *b"EBDONE\0\x01";
/// The kind of a target that is a file.
const KIND_FILE: u32 = 0;
/// The kind of a target that is eraseblocks of a flash.
const KIND_BLOCKS: u32 = 1;
/// Bytes of a record at most.
const PIECE: usize = 4096;
/// Bytes that a disk writes at once, or not at all.
const SECTOR: usize = 512;
/// Longest name of a tool.
const MOST_TOOL: u32 = 256;

/// What an undo file restores, or has restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UndoReport {
    /// Places that differ from the state before.
    pub places: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the target before.
    pub size: u64,
}

/// Whether an undo writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// It does.
    Real,
    /// It only looks.
    Dry,
}

/// One place that changes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    place: u64,
    new_len: u32,
    /// Of each sector of the new bytes.
    sums: Vec<u32>,
    old: Vec<u8>,
}

/// Replaces the content of `target` by that of `after`: first writes what changes to a new file at
/// `undo`.
///
/// # Errors
///
/// Fails if a file exists at `undo`, or if a file cannot be read or written.
pub fn replace(target: &File, after: &File, undo: &Path) -> Result<UndoReport, RepairError> {
    let (size, new_size) = (target.metadata()?.len(), after.metadata()?.len());
    let mut report = UndoReport { size, ..UndoReport::default() };
    differences(target, after, &mut |_, old, _| {
        report.places += 1;
        report.bytes += old.len() as u64;
        Ok(())
    })?;
    let file = File::options().write(true).create_new(true).open(undo)?;
    let mut out = BufWriter::new(&file);
    let header = Header {
        kind: KIND_FILE,
        tool: tool(),
        size,
        new_size,
        sha: sha_of(target)?,
        records: report.places,
    };
    out.write_all(&header.bytes())?;
    differences(target, after, &mut |place, old, new| {
        let sums = new.chunks(SECTOR).map(crc32).collect();
        let record = Record { place, new_len: new.len() as u32, sums, old: old.to_vec() };
        Ok(out.write_all(&record.bytes()?)?)
    })?;
    out.flush()?;
    drop(out);
    file.sync_all()?;
    sync_folder(undo)?;
    // From here on the target changes.
    if new_size > size {
        target.set_len(new_size)?;
    }
    differences(target, after, &mut |place, _, new| Ok(target.write_all_at(new, place)?))?;
    target.set_len(new_size)?;
    target.sync_all()?;
    let mut trailer = DONE.to_vec();
    trailer.extend(sha_of(target)?);
    trailer.extend(crc32(&trailer).to_le_bytes());
    (&file).write_all(&trailer)?;
    file.sync_all()?;
    Ok(report)
}

/// Restores the state of `target` that the undo file describes, or only verifies that it could.
///
/// # Errors
///
/// Fails if the undo file is damaged, or if a place of the target holds neither its old nor its new
/// bytes; then nothing is written.
pub fn undo(undo: &File, target: &File, run: Run) -> Result<UndoReport, RepairError> {
    let mut reader = BufReader::new(undo);
    let header = Header::read(&mut reader)?;
    if header.kind != KIND_FILE {
        return Err(RepairError::Undo("the undo file belongs to a flash".to_owned()));
    }
    let size = target.metadata()?.len();
    if size != header.size && size != header.new_size {
        return Err(RepairError::Undo(format!(
            "the target has {size} bytes, expected {} or {}: the undo file belongs to another file",
            header.size, header.new_size
        )));
    }
    let mut report = UndoReport { size: header.size, ..UndoReport::default() };
    let mut records = Vec::new();
    for _ in 0..header.records {
        let record = Record::read(&mut reader)?;
        let now = read_at(target, record.place, record.old.len().max(record.new_len as usize))?;
        record.compare(&now)?;
        if now != record.old {
            report.places += 1;
            report.bytes += record.old.len() as u64;
            records.push((record.place, record.old));
        }
    }
    if run == Run::Dry {
        return Ok(report);
    }
    for (place, old) in records {
        target.write_all_at(&old, place)?;
    }
    target.set_len(header.size)?;
    target.sync_all()?;
    if sha_of(target)? != header.sha {
        let message = "every place was restored, but the target is not what it was: it was changed \
                       elsewhere, too";
        return Err(RepairError::Undo(message.to_owned()));
    }
    Ok(report)
}

/// Returns whether an undo file belongs to eraseblocks of a flash, not to a file.
///
/// # Errors
///
/// Fails if its header is damaged.
pub fn is_of_flash(undo: &File) -> Result<bool, RepairError> {
    let mut undo = undo;
    undo.seek(SeekFrom::Start(0))?;
    let header = Header::read(&mut BufReader::new(undo))?;
    undo.seek(SeekFrom::Start(0))?;
    Ok(header.kind == KIND_BLOCKS)
}

/// Returns whether a file is an undo file with all its records: only then the target may have changed.
///
/// # Errors
///
/// Fails if it is no undo file at all, or if it cannot be read.
pub fn is_whole(undo: &File) -> Result<bool, RepairError> {
    let mut undo = undo;
    undo.seek(SeekFrom::Start(0))?;
    let mut start = Vec::new();
    undo.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    if !MAGIC.starts_with(&start) {
        return Err(RepairError::Undo("this is no undo file".to_owned()));
    }
    undo.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(undo);
    let Ok(header) = Header::read(&mut reader) else { return Ok(false) };
    let is_whole = (0..header.records).all(|_| Record::read(&mut reader).is_ok());
    undo.seek(SeekFrom::Start(0))?;
    Ok(is_whole)
}

/// Returns whether the change that an undo file belongs to came to its end.
///
/// # Errors
///
/// Fails if it cannot be read.
pub fn is_finished(undo: &File) -> Result<bool, RepairError> {
    let size = undo.metadata()?.len();
    let len = DONE.len() + 32 + 4;
    let tail = read_at(undo, size.saturating_sub(len as u64), len)?;
    Ok(tail.starts_with(&DONE)
        && tail.len() == len
        && crc32(&tail[..len - 4]) == number(&tail, len - 4))
}

/// Receives a place, its old bytes and its new ones.
type Differ<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<(), RepairError> + 'a;

/// Calls `sink` with each place at which the files differ: the place, the old bytes, the new ones.
fn differences(before: &File, after: &File, sink: &mut Differ<'_>) -> Result<(), RepairError> {
    let end = before.metadata()?.len().max(after.metadata()?.len());
    let mut at = 0;
    while at < end {
        let (old, new) = (read_at(before, at, PIECE)?, read_at(after, at, PIECE)?);
        if old != new {
            sink(at, &old, &new)?;
        }
        at += PIECE as u64;
    }
    Ok(())
}

/// Reads up to `len` bytes; fewer at the end of the file.
fn read_at(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn sha_of(file: &File) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut at = 0;
    loop {
        let bytes = read_at(file, at, 1 << 16)?;
        if bytes.is_empty() {
            return Ok(digest.finalize().into());
        }
        at += bytes.len() as u64;
        digest.update(&bytes);
    }
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn tool() -> String {
    format!("eraseblock {}", env!("CARGO_PKG_VERSION"))
}

fn damaged(what: &str) -> RepairError {
    RepairError::Undo(format!("the undo file is damaged: {what}"))
}

/// Reads bytes whose number is bounded by the caller.
fn take(reader: &mut dyn Read, len: usize) -> Result<Vec<u8>, RepairError> {
    let mut bytes = vec![0; len];
    reader.read_exact(&mut bytes).map_err(|_| damaged("it ends too early"))?;
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// What an undo file begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Header {
    kind: u32,
    tool: String,
    size: u64,
    new_size: u64,
    sha: [u8; 32],
    records: u64,
}

impl Header {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend((self.tool.len() as u32).to_le_bytes());
        bytes.extend(self.tool.as_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.new_size.to_le_bytes());
        bytes.extend(self.sha);
        bytes.extend(self.records.to_le_bytes());
        bytes.extend(crc32(&bytes).to_le_bytes());
        bytes
    }

    fn read(reader: &mut dyn Read) -> Result<Self, RepairError> {
        let mut bytes = take(reader, 16)?;
        if bytes[..8] != MAGIC {
            return Err(RepairError::Undo("this is no undo file".to_owned()));
        }
        let (kind, tool_len) = (number(&bytes, 8), number(&bytes, 12));
        if kind > KIND_BLOCKS || tool_len > MOST_TOOL {
            return Err(damaged("a kind of target that does not exist"));
        }
        let tool = take(reader, tool_len as usize)?;
        bytes.extend(&tool);
        let rest = take(reader, 56)?;
        bytes.extend(&rest);
        let stored = number(&take(reader, 4)?, 0);
        if crc32(&bytes) != stored {
            return Err(damaged("the checksum of its header is wrong"));
        }
        let sha = rest.get(16..48).and_then(<[u8]>::first_chunk).copied();
        Ok(Self {
            kind,
            tool: String::from_utf8_lossy(&tool).into_owned(),
            size: long(&rest, 0),
            new_size: long(&rest, 8),
            sha: sha.ok_or_else(|| damaged("it ends too early"))?,
            records: long(&rest, 48),
        })
    }
}

impl Record {
    fn bytes(&self) -> Result<Vec<u8>, RepairError> {
        let mut packed = Vec::new();
        DeflateEncoder::new(self.old.as_slice(), Compression::fast()).read_to_end(&mut packed)?;
        let mut bytes = self.place.to_le_bytes().to_vec();
        bytes.extend((self.old.len() as u32).to_le_bytes());
        bytes.extend(self.new_len.to_le_bytes());
        bytes.extend((packed.len() as u32).to_le_bytes());
        for sum in &self.sums {
            bytes.extend(sum.to_le_bytes());
        }
        bytes.extend(packed);
        bytes.extend(crc32(&bytes).to_le_bytes());
        Ok(bytes)
    }

    fn read(reader: &mut dyn Read) -> Result<Self, RepairError> {
        let mut bytes = take(reader, 20)?;
        let place = long(&bytes, 0);
        let (old_len, new_len, packed_len) =
            (number(&bytes, 8), number(&bytes, 12), number(&bytes, 16));
        let longest = old_len.max(new_len) as usize;
        if longest > PIECE || packed_len as usize > 2 * PIECE {
            return Err(damaged("a record that is too long"));
        }
        let sums = take(reader, (new_len as usize).div_ceil(SECTOR) * 4)?;
        let packed = take(reader, packed_len as usize)?;
        bytes.extend(&sums);
        bytes.extend(&packed);
        if crc32(&bytes) != number(&take(reader, 4)?, 0) {
            return Err(damaged("the checksum of a record is wrong"));
        }
        let mut old = Vec::new();
        let unpacked = DeflateDecoder::new(packed.as_slice()).take(PIECE as u64 + 1);
        let mut unpacked = unpacked;
        unpacked.read_to_end(&mut old).map_err(|_| damaged("a record cannot be unpacked"))?;
        if old.len() != old_len as usize {
            return Err(damaged("a record has another length than it says"));
        }
        let sums = sums.chunks(4).map(|sum| number(sum, 0)).collect();
        Ok(Self { place, new_len, sums, old })
    }

    /// Fails unless each sector holds its old or its new bytes.
    fn compare(&self, now: &[u8]) -> Result<(), RepairError> {
        for (index, sector) in now.chunks(SECTOR).enumerate() {
            let start = index * SECTOR;
            let old = self.old.get(start..).unwrap_or_default();
            let old = &old[..old.len().min(SECTOR)];
            // A file that grew reads as zeros where nothing was written yet.
            let is_old =
                sector.starts_with(old) && sector[old.len()..].iter().all(|byte| *byte == 0);
            let is_new = self.sums.get(index) == Some(&crc32(sector));
            if !is_old && !is_new {
                return Err(RepairError::Undo(format!(
                    "byte {} of the target holds neither what was there before nor what was written: \
                     something else changed it since",
                    self.place + start as u64
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
