//! The 512-byte header block of a tar archive.

use crate::error::TreeError;
use eraseblock_base::Location;

/// Size of headers, and the unit to which contents are padded.
pub(crate) const BLOCK: usize = 512;

/// The dialect named by the magic; dialects differ after byte 345.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// No magic: as in the seventh edition.
    V7,
    /// POSIX: a name prefix at 345.
    Ustar,
    /// GNU: times and a sparse map from 345 on.
    Gnu,
}

/// The header fields that are used.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) at: Location,
    pub(crate) dialect: Dialect,
    pub(crate) type_flag: u8,
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) device: (u32, u32),
    pub(crate) block: [u8; BLOCK],
}

impl Header {
    /// Decodes a block that is not all zeros.
    pub(crate) fn decode(block: &[u8; BLOCK], at: Location) -> Result<Self, TreeError> {
        check_sum(block, at)?;
        let dialect = match &block[257..265] {
            b"ustar  \0" => Dialect::Gnu,
            magic if magic.starts_with(b"ustar") => Dialect::Ustar,
            _ => Dialect::V7,
        };
        let number = |field, range: std::ops::Range<usize>| number(&block[range], field, at);
        let small = |field, range: std::ops::Range<usize>| {
            let found = number(field, range)?;
            u32::try_from(found).map_err(|_| out_of_range(at, field, found))
        };
        let mut path = text(&block[..100]).to_vec();
        if dialect == Dialect::Ustar && block[345] != 0 {
            let mut joined = text(&block[345..500]).to_vec();
            joined.push(b'/');
            joined.extend_from_slice(&path);
            path = joined;
        }
        let type_flag = block[156];
        let device = match type_flag {
            b'3' | b'4' => (small("device major", 329..337)?, small("device minor", 337..345)?),
            _ => (0, 0),
        };
        let size = number("size", 124..136)?;
        Ok(Self {
            at,
            dialect,
            type_flag,
            path,
            link: text(&block[157..257]).to_vec(),
            mode: small("mode", 100..108)?,
            uid: small("uid", 108..116)?,
            gid: small("gid", 116..124)?,
            size: u64::try_from(size).map_err(|_| out_of_range(at, "size", size))?,
            mtime: number("mtime", 136..148)?,
            device,
            block: *block,
        })
    }

    /// Returns whether a block has a header's checksum.
    pub(crate) fn is_header(block: &[u8]) -> bool {
        <&[u8; BLOCK]>::try_from(block).is_ok_and(|block| check_sum(block, Location::Whole).is_ok())
    }
}

fn out_of_range(at: Location, field: &'static str, found: i64) -> TreeError {
    let expected = "a number in the range of the field";
    TreeError::Field { at, field, found: found.to_string(), expected }
}

/// Checks the checksum, which counts its own field as spaces; some old writers summed signed bytes.
fn check_sum(block: &[u8; BLOCK], at: Location) -> Result<(), TreeError> {
    let stored = number(&block[148..156], "checksum", at)?;
    let (mut unsigned, mut signed) = (0_i64, 0_i64);
    for (index, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&index) { b' ' } else { *byte };
        unsigned += i64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    if stored == unsigned || stored == signed {
        return Ok(());
    }
    let (stored, computed) = (stored.cast_unsigned(), unsigned.cast_unsigned());
    Err(TreeError::Checksum { at, what: "tar header", stored, computed })
}

/// Returns a field up to its NUL.
pub(crate) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns a number field: octal digits between spaces and NULs, or GNU's base 256 (first bit set,
/// two's complement). An empty field is 0.
pub(crate) fn number(field: &[u8], name: &'static str, at: Location) -> Result<i64, TreeError> {
    let wrong = || TreeError::Field {
        at,
        field: name,
        found: format!("`{}`", field.escape_ascii()),
        expected: "an octal or base-256 number below 2^63",
    };
    if field.first().is_some_and(|byte| byte & 0x80 != 0) {
        return base_256(field).ok_or_else(wrong);
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
    let digits = field[start..].split(is_blank).next().unwrap_or_default();
    digits.iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => {
            value.checked_mul(8).map(|value| value | i64::from(digit - b'0')).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    })
}

/// Decodes a signed big-endian number in the bits below the marker; bit 6 of the first byte is its
/// sign.
fn base_256(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    let is_negative = first & 0x40 != 0;
    let start = if is_negative { i64::from(*first) - 0x100 } else { i64::from(first & 0x3F) };
    rest.iter().try_fold(start, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_spellings() {
        let ok = |field: &[u8]| number(field, "size", Location::Whole).ok();
        assert_eq!(ok(b"0000644\0"), Some(0o644));
        assert_eq!(ok(b"   644 \0"), Some(0o644));
        assert_eq!(ok(b"\0\0\0\0"), Some(0));
        assert_eq!(ok(b"777777777777"), Some(0o777_777_777_777));
        assert_eq!(ok(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]), Some(1 << 33));
        assert_eq!(ok(&[0xFF; 12]), Some(-1));
        assert_eq!(ok(&[0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(ok(b"12x"), None);
        assert_eq!(ok(b"-1"), None);
        assert_eq!(ok(b"7777777777777777777777777"), None);
    }
}
