//! Sparse members: the positions of the stored bytes. The map lies in the header (old GNU), in the
//! extended header (PAX 0.0 and 0.1) or before the content (PAX 1.0).

use super::Member;
use super::header::{BLOCK, Dialect, number};
use super::pax::decimal;
use crate::error::TreeError;
use crate::input::Input;
use eraseblock_base::Location;

/// A checked map: pieces are ascending, disjoint and within `size`; their lengths add up to
/// `stored`.
pub(super) struct Map {
    /// Length of the whole file in bytes.
    pub(super) size: u64,
    /// Bytes stored in the archive.
    pub(super) stored: u64,
    /// Offset and length of each stored piece.
    pub(super) pieces: Vec<(u64, u64)>,
}

/// Returns the map of a member, or `None` if it is an ordinary one. Skips a map in the content.
pub(super) fn map(member: &Member, input: &mut Input) -> Result<Option<Map>, TreeError> {
    let sparse = &member.pax.sparse;
    let at = member.at;
    let (size, pieces, map_len) = if member.header.type_flag == b'S' {
        if member.header.dialect != Dialect::Gnu {
            return Ok(None);
        }
        let (size, pieces) = old_gnu(member, input)?;
        (size, pieces, 0)
    } else if sparse.major == 1 {
        let (pieces, len) = in_content(input, member.size, at)?;
        (sparse.real_size.unwrap_or(0), pieces, len)
    } else if sparse.has_map {
        (sparse.real_size.unwrap_or(0), sparse.map.clone(), 0)
    } else {
        return Ok(None);
    };
    let stored = member.size - map_len;
    check(&pieces, size, stored, at)?;
    Ok(Some(Map { size, stored, pieces }))
}

fn wrong(at: Location, found: impl Into<String>, expected: &'static str) -> TreeError {
    TreeError::Field { at, field: "sparse map", found: found.into(), expected }
}

fn check(pieces: &[(u64, u64)], size: u64, stored: u64, at: Location) -> Result<(), TreeError> {
    let mut end = 0;
    let mut total = 0_u64;
    for (offset, len) in pieces.iter().copied() {
        let piece_end = offset.checked_add(len).filter(|end| *end <= size);
        match piece_end {
            Some(piece_end) if offset >= end => end = piece_end,
            _ => {
                let expected = "ascending pieces within the size of the file";
                return Err(wrong(at, format!("{len} bytes at {offset} of {size}"), expected));
            }
        }
        total = total.saturating_add(len);
    }
    if total == stored {
        return Ok(());
    }
    let expected = "pieces that add up to the stored size";
    Err(wrong(at, format!("{total} bytes for {stored} stored ones"), expected))
}

/// Reads four pieces from the header, and 21 from each following extension block.
fn old_gnu(member: &Member, input: &mut Input) -> Result<(u64, Vec<(u64, u64)>), TreeError> {
    let at = member.at;
    let block = &member.header.block;
    let size = unsigned(&block[483..495], at)?;
    let mut pieces = Vec::new();
    add_pieces(&block[386..482], &mut pieces, at)?;
    let mut is_extended = block[482] != 0;
    while is_extended {
        let extension = input.take(BLOCK, "a sparse map")?;
        add_pieces(&extension[..504], &mut pieces, at)?;
        is_extended = extension[504] != 0;
    }
    Ok((size, pieces))
}

fn add_pieces(fields: &[u8], pieces: &mut Vec<(u64, u64)>, at: Location) -> Result<(), TreeError> {
    for pair in fields.chunks_exact(24).take_while(|pair| pair[0] != 0) {
        pieces.push((unsigned(&pair[..12], at)?, unsigned(&pair[12..], at)?));
    }
    Ok(())
}

fn unsigned(field: &[u8], at: Location) -> Result<u64, TreeError> {
    let found = number(field, "sparse map", at)?;
    u64::try_from(found).map_err(|_| wrong(at, found.to_string(), "a number of at least 0"))
}

/// Reads the map of version 1.0: the number of pieces, then offset and length of each, one decimal
/// number per line, padded to a block. Returns the bytes consumed.
fn in_content(
    input: &mut Input,
    available: u64,
    at: Location,
) -> Result<(Vec<(u64, u64)>, u64), TreeError> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut digits: Vec<u8> = Vec::new();
    let mut used = 0;
    loop {
        if available - used < BLOCK as u64 {
            return Err(wrong(at, "longer than the content", "a map at its front"));
        }
        let block = input.take(BLOCK, "a sparse map")?;
        used += BLOCK as u64;
        for byte in block {
            if byte != b'\n' {
                digits.push(byte);
                continue;
            }
            let number = decimal(&digits).ok_or_else(|| {
                wrong(at, format!("`{}`", digits.escape_ascii()), "decimal numbers")
            })?;
            digits.clear();
            numbers.push(number);
            // One number gives the number of following pairs.
            let wanted = numbers[0].saturating_mul(2).saturating_add(1);
            if numbers.len() as u64 >= wanted {
                let pairs = numbers[1..].chunks_exact(2);
                return Ok((pairs.map(|pair| (pair[0], pair[1])).collect(), used));
            }
        }
        if digits.len() > 20 {
            return Err(wrong(at, "a line of over 20 digits", "decimal numbers"));
        }
    }
}
