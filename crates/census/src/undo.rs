//! Undo files: what a change of a target in place replaced, written before the first byte is changed.
//!
//! ```text
//! header   magic 8, kind 4, records 4, size of the target 8, its SHA-256 before 32,
//!          version of the writer 24 (zeros at its end), CRC-32 of these 80 bytes 4
//! record   place 8, length 4, length deflated 4, CRC-32 of the old bytes 4, of the new ones 4,
//!          the old bytes deflated, CRC-32 of all this 4
//! trailer  magic 8, SHA-256 of the target after 32, CRC-32 of these 40 bytes 4
//! ```
//!
//! Numbers are little-endian. The place is an offset in a file, or the number of a volume (high 32
//! bits) and of a LEB, or that of an eraseblock. The trailer is written when the target has been
//! changed; a file without one is as good.
//!
//! # Invariants
//! 1. [`revert`] writes nothing unless each place holds its old or its new bytes.
//! 2. Reverting can be cut anywhere and repeated.
//! 3. Memory is bounded by [`LARGEST`] and the number of records.

use eraseblock_base::crc::crc32;
use eraseblock_codec::{Codec, CompressSpec, Compressor, decompress};
use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};

/// What an undo file begins with.
pub const MAGIC: [u8; 8] = *b"EBUNDO\0\x01";
/// What its last part begins with.
const TRAILER: [u8; 8] = *b"EBUNDOND";
/// The most bytes of a record: a LEB.
pub const LARGEST: u32 = 2 << 20;
/// Bytes of the header without its checksum, and of the head of a record.
const HEADER: usize = 80;
const RECORD: usize = 24;
/// Bytes that are compressed together, which is the most the codec takes.
const PIECE: usize = 4096;

/// What a target is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file.
    File,
    /// The LEBs of UBI volumes.
    Lebs,
    /// The eraseblocks of a flash.
    Blocks,
}

/// What an undo file says about its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of all its bytes before the change.
    pub before: [u8; 32],
    /// The number of records.
    pub records: u32,
}

/// One place that was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where it is.
    pub place: u64,
    /// The bytes before.
    pub old: Vec<u8>,
    /// The checksum of the bytes after.
    pub new_crc: u32,
}

/// A file that is no undo file, or does not belong to the target.
#[derive(Debug)]
pub enum UndoError {
    /// The file is damaged or no undo file: what was found.
    Damaged(String),
    /// The target is not what was changed: what was found.
    Differs(String),
    /// Reading or writing failed.
    Host(io::Error),
}

impl fmt::Display for UndoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(message) | Self::Differs(message) => f.write_str(message),
            Self::Host(error) => error.fmt(f),
        }
    }
}

impl Error for UndoError {}

impl From<io::Error> for UndoError {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

fn damaged<T>(message: impl Into<String>) -> Result<T, UndoError> {
    Err(UndoError::Damaged(message.into()))
}

/// Writes the head of an undo file.
///
/// # Errors
///
/// Fails if it cannot be written.
pub fn write_head(out: &mut dyn Write, head: &Head) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((head.kind as u32).to_le_bytes());
    bytes.extend(head.records.to_le_bytes());
    bytes.extend(head.size.to_le_bytes());
    bytes.extend(head.before);
    bytes.extend(env!("CARGO_PKG_VERSION").bytes().take(24));
    bytes.resize(HEADER, 0);
    let crc = crc32(&bytes);
    bytes.extend(crc.to_le_bytes());
    out.write_all(&bytes)
}

/// Writes one record.
///
/// # Errors
///
/// Fails if it cannot be written, or has more than [`LARGEST`] bytes.
pub fn write_record(out: &mut dyn Write, place: u64, old: &[u8], new: &[u8]) -> io::Result<()> {
    let len = u32::try_from(old.len()).ok().filter(|len| *len <= LARGEST);
    let len = len.ok_or_else(|| io::Error::other("a change of more than 2 MiB"))?;
    let packed = pack(old)?;
    let mut bytes = place.to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend(crc32(old).to_le_bytes());
    bytes.extend(crc32(new).to_le_bytes());
    bytes.extend(packed);
    let crc = crc32(&bytes);
    bytes.extend(crc.to_le_bytes());
    out.write_all(&bytes)
}

/// Writes the last part: the SHA-256 of the changed target.
///
/// # Errors
///
/// Fails if it cannot be written.
pub fn write_trailer(out: &mut dyn Write, after: &[u8; 32]) -> io::Result<()> {
    let mut bytes = [&TRAILER[..], after].concat();
    let crc = crc32(&bytes);
    bytes.extend(crc.to_le_bytes());
    out.write_all(&bytes)
}

/// Deflates bytes piece by piece: for each the length of its stream, 0 if it is stored as it is.
fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let spec = CompressSpec::image(Codec::Zlib);
    let mut compressor = Compressor::new(spec).map_err(io::Error::other)?;
    let (mut packed, mut stream) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(PIECE) {
        stream.clear();
        compressor.compress(piece, &mut stream).map_err(io::Error::other)?;
        if stream.len() < piece.len() {
            packed.extend((stream.len() as u16).to_le_bytes());
            packed.extend(&stream);
        } else {
            packed.extend([0; 2]);
            packed.extend(piece);
        }
    }
    Ok(packed)
}

fn unpack(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    for piece in bytes.chunks_mut(PIECE) {
        let (head, rest) = packed.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_le_bytes(*head));
        if len == 0 {
            let (stored, rest) = rest.split_at_checked(piece.len())?;
            piece.copy_from_slice(stored);
            packed = rest;
        } else {
            let (stream, rest) = rest.split_at_checked(len)?;
            decompress(Codec::Zlib, stream, piece).ok()?;
            packed = rest;
        }
    }
    packed.is_empty().then_some(bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_le_bytes)
}

/// Reads the head of an undo file.
///
/// # Errors
///
/// Fails if it is none, or cannot be read.
pub fn read_head(file: &mut dyn Read) -> Result<Head, UndoError> {
    let mut bytes = [0; HEADER + 4];
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return damaged("no undo file: it is too short");
        }
        other => other?,
    }
    if !bytes.starts_with(&MAGIC) {
        return damaged("no undo file: it does not begin with EBUNDO");
    }
    let (stored, computed) = (word(&bytes, HEADER), crc32(&bytes[..HEADER]));
    if stored != computed {
        return damaged(format!(
            "the head of the undo file has the checksum {stored:#010x}, computed {computed:#010x}"
        ));
    }
    let kind = match word(&bytes, 8) {
        0 => Kind::File,
        1 => Kind::Lebs,
        2 => Kind::Blocks,
        other => return damaged(format!("an undo file of kind {other}, expected 0 to 2")),
    };
    let mut before = [0; 32];
    before.copy_from_slice(&bytes[24..56]);
    Ok(Head { kind, records: word(&bytes, 12), size: long(&bytes, 16), before })
}

/// Reads the next record.
///
/// # Errors
///
/// Fails if it is damaged or cannot be read.
pub fn read_record(file: &mut dyn Read) -> Result<Record, UndoError> {
    let mut bytes = vec![0; RECORD];
    file.read_exact(&mut bytes)?;
    let (len, packed) = (word(&bytes, 8), word(&bytes, 12));
    if len > LARGEST || packed > LARGEST + LARGEST / 1024 {
        return damaged(format!("a record of {len} bytes, expected {LARGEST} at most"));
    }
    bytes.resize(RECORD + packed as usize + 4, 0);
    file.read_exact(&mut bytes[RECORD..])?;
    let end = bytes.len() - 4;
    let place = long(&bytes, 0);
    let old = unpack(&bytes[RECORD..end], len as usize);
    match old.filter(|old| crc32(old) == word(&bytes, 16)) {
        Some(old) if word(&bytes, end) == crc32(&bytes[..end]) => {
            Ok(Record { place, old, new_crc: word(&bytes, 20) })
        }
        _ => damaged(format!("the record of place {place} is damaged")),
    }
}

/// Reads what follows the records: the SHA-256 after the change, if it was completed.
///
/// # Errors
///
/// Fails if it cannot be read.
pub fn read_trailer(file: &mut dyn Read) -> Result<Option<[u8; 32]>, UndoError> {
    let mut bytes = Vec::new();
    file.take(44).read_to_end(&mut bytes)?;
    let is_whole =
        bytes.len() == 44 && bytes.starts_with(&TRAILER) && word(&bytes, 40) == crc32(&bytes[..40]);
    Ok(bytes.get(8..40).and_then(<[u8]>::first_chunk).copied().filter(|_| is_whole))
}

/// Something that was changed and can be changed back.
pub trait Target {
    /// Fills `bytes` with those at a place.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be read.
    fn read(&mut self, place: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Replaces the bytes at a place.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be written.
    fn write(&mut self, place: u64, bytes: &[u8]) -> io::Result<()>;
}

/// What was, or would be, changed back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reverted {
    /// Places that held their new bytes.
    pub places: u32,
    /// Bytes in them.
    pub bytes: u64,
    /// Places that held their old bytes already.
    pub old_already: u32,
}

/// Compares each place with the records that `open` reads from the start, then, unless only the
/// numbers are wanted, writes the old bytes.
///
/// # Errors
///
/// Fails without writing if the file is damaged or a place holds neither its old nor its new bytes.
pub fn revert(
    open: &mut dyn FnMut() -> io::Result<Box<dyn Read>>,
    target: &mut dyn Target,
    is_dry_run: bool,
) -> Result<Reverted, UndoError> {
    let mut reverted = Reverted::default();
    for is_writing in [false, true] {
        if is_writing && is_dry_run {
            break;
        }
        let mut file = open()?;
        for _ in 0..read_head(&mut file)?.records {
            let record = read_record(&mut file)?;
            let mut now = vec![0; record.old.len()];
            target.read(record.place, &mut now)?;
            if now == record.old {
                reverted.old_already += u32::from(!is_writing);
            } else if crc32(&now) != record.new_crc {
                return Err(UndoError::Differs(format!(
                    "place {}: {} bytes are neither what was there before the change nor after it",
                    record.place,
                    now.len()
                )));
            } else if is_writing {
                target.write(record.place, &record.old)?;
            } else {
                reverted.places += 1;
                reverted.bytes += now.len() as u64;
            }
        }
    }
    Ok(reverted)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl Target for Memory {
        fn read(&mut self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(&self.0[place as usize..][..bytes.len()]);
            Ok(())
        }

        fn write(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
            self.0[place as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    /// An undo file of three changes, the target before and after them.
    fn changed() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let before: Vec<u8> = (0..20_000_u32).map(|at| (at * at >> 3) as u8).collect();
        let mut after = before.clone();
        let mut file = Vec::new();
        let head = Head { kind: Kind::File, size: 20_000, before: [9; 32], records: 3 };
        write_head(&mut file, &head).unwrap();
        for (at, len) in [(5, 3), (100, 9000), (19_999, 1)] {
            after[at..at + len].iter_mut().for_each(|byte| *byte = !*byte);
            let range = at..at + len;
            write_record(&mut file, at as u64, &before[range.clone()], &after[range]).unwrap();
        }
        write_trailer(&mut file, &[8; 32]).unwrap();
        (file, before, after)
    }

    fn reverted(file: &[u8], target: &mut Memory, is_dry: bool) -> Result<Reverted, UndoError> {
        let file = file.to_vec();
        revert(&mut || Ok(Box::new(io::Cursor::new(file.clone()))), target, is_dry)
    }

    #[test]
    fn a_change_is_reverted_even_if_it_was_cut() {
        let (file, before, after) = changed();
        let mut whole = &file[..];
        assert_eq!(read_head(&mut whole).unwrap().before, [9; 32]);
        for _ in 0..3 {
            read_record(&mut whole).unwrap();
        }
        assert_eq!(read_trailer(&mut whole).unwrap(), Some([8; 32]));
        for done in [0, 8, 9100, 20_000] {
            let mut target = Memory([&after[..done], &before[done..]].concat());
            let dry = reverted(&file, &mut target, true).unwrap();
            assert_eq!(dry.places + dry.old_already, 3);
            // Without the trailer, too.
            for len in [file.len(), file.len() - 1, file.len() - 44] {
                reverted(&file[..len], &mut target, false).unwrap();
                assert!(target.0 == before, "{done}");
            }
        }
    }

    #[test]
    fn other_bytes_are_never_replaced() {
        let (file, _, mut after) = changed();
        after[9000] ^= 1;
        let mut target = Memory(after.clone());
        assert!(matches!(reverted(&file, &mut target, false), Err(UndoError::Differs(_))));
        assert!(target.0 == after);
    }

    #[test]
    fn damage_to_the_file_is_found_before_anything_is_written() {
        let (file, _, after) = changed();
        let end = file.len() - 44;
        for at in (0..end).step_by(7) {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            let mut target = Memory(after.clone());
            assert!(reverted(&damaged, &mut target, false).is_err(), "{at}");
            assert!(target.0 == after);
            assert!(reverted(&file[..at], &mut target, false).is_err());
        }
    }
}
