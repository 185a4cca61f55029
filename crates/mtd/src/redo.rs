//! A pending replacement of a LEB in an image file: a record after the last LEB of the file. If a
//! process dies during the replacement, the next one finishes it from this record.
//!
//! The record is a head (magic, LEB number, LEB size, CRC-32 of these), the new bytes of the whole
//! LEB, and their CRC-32; numbers are little-endian. It starts at a multiple of the LEB size.

use crate::read_at::ReadAt;
use eraseblock_base::Leb;
use eraseblock_base::crc::crc32;
use std::io;

const MAGIC: &[u8; 12] = b"EBLEBCHANGE1";
/// Bytes before the content.
const HEAD: usize = 24;
/// Bytes after the content.
const TAIL: usize = 4;

/// A pending replacement.
#[derive(Debug)]
pub(crate) struct Redo {
    /// The start of the record, which is the end of the LEBs.
    pub(crate) end: u64,
    /// The LEB and its new content if the record is complete; otherwise nothing has been replaced
    /// yet.
    pub(crate) change: Option<(Leb, Vec<u8>)>,
}

/// Returns the record of a replacement.
pub(crate) fn encode(leb: Leb, content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len()).expect("a LEB has a 32-bit size");
    let mut record = Vec::with_capacity(HEAD + content.len() + 4);
    record.extend_from_slice(MAGIC);
    record.extend_from_slice(&leb.get().to_le_bytes());
    record.extend_from_slice(&len.to_le_bytes());
    record.extend_from_slice(&crc32(&record).to_le_bytes());
    record.extend_from_slice(content);
    record.extend_from_slice(&crc32(content).to_le_bytes());
    record
}

/// Looks for a record at the end of a file of `size` bytes.
pub(crate) fn find(source: &dyn ReadAt, size: u64, leb_size: u32) -> io::Result<Option<Redo>> {
    let whole = size - size % u64::from(leb_size);
    for end in [whole, whole.saturating_sub(leb_size.into())] {
        if end > 0
            && let Some(redo) = at(source, size, end, leb_size)?
        {
            return Ok(Some(redo));
        }
    }
    Ok(None)
}

fn at(source: &dyn ReadAt, size: u64, end: u64, leb_size: u32) -> io::Result<Option<Redo>> {
    let mut head = [0; HEAD];
    let there = usize::try_from(size - end).unwrap_or(HEAD).min(HEAD);
    source.read_exact_at(&mut head[..there], end)?;
    let begun = there.min(MAGIC.len());
    if begun == 0 || head[..begun] != MAGIC[..begun] {
        return Ok(None);
    }
    let number = |from: usize| u32::from_le_bytes(std::array::from_fn(|n| head[from + n]));
    let is_whole = number(20) == crc32(&head[..20])
        && number(16) == leb_size
        && size - end == HEAD as u64 + u64::from(leb_size) + TAIL as u64;
    let mut redo = Redo { end, change: None };
    if is_whole {
        let mut content = vec![0; leb_size as usize];
        let mut crc = [0; TAIL];
        source.read_exact_at(&mut content, end + HEAD as u64)?;
        source.read_exact_at(&mut crc, size - TAIL as u64)?;
        if u32::from_le_bytes(crc) == crc32(&content) {
            redo.change = Some((Leb::new(number(12)), content));
        }
    }
    Ok(Some(redo))
}
