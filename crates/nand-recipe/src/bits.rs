//! Ranges of bits, and copying them between pages and codewords.
//!
//! Bit 0 of a page is the highest bit of byte 0. A page whose controller counts from the lowest bit
//! is reversed byte by byte first, so that the same functions serve both orders.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A range of bits of a raw page, as bit positions; the end is exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BitRange {
    /// The first bit.
    pub start: u32,
    /// The first bit after the range.
    pub end: u32,
}

impl BitRange {
    /// Returns the range of `count` bytes from byte `start`.
    pub fn bytes(start: u32, count: u32) -> Self {
        Self { start: start * 8, end: (start + count) * 8 }
    }

    /// Returns the range of `count` bits from bit `start`.
    pub fn bits(start: u32, count: u32) -> Self {
        Self { start, end: start + count }
    }

    /// Returns the number of bits.
    pub fn count(self) -> u32 {
        self.end - self.start
    }
}

impl fmt::Display for BitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |bit: u32| match bit % 8 {
            0 => (bit / 8).to_string(),
            rest => format!("{}.{rest}", bit / 8),
        };
        write!(f, "{}..{}", place(self.start), place(self.end))
    }
}

impl fmt::Debug for BitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<BitRange> for String {
    fn from(range: BitRange) -> Self {
        range.to_string()
    }
}

impl TryFrom<String> for BitRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fail = || format!("{text:?} is no range: expected bytes (12..20) or bits (12.3..20.7)");
        let place = |part: &str| -> Option<u32> {
            let (byte, bit) = part.split_once('.').unwrap_or((part, "0"));
            let (byte, bit) = (byte.parse::<u32>().ok()?, bit.parse::<u32>().ok()?);
            (bit < 8).then_some(())?;
            byte.checked_mul(8)?.checked_add(bit)
        };
        let (start, end) = text.split_once("..").ok_or_else(fail)?;
        let (start, end) = place(start).zip(place(end)).ok_or_else(fail)?;
        if start < end { Ok(Self { start, end }) } else { Err(fail()) }
    }
}

/// Returns the number of bits in ranges.
pub(crate) fn total(ranges: &[BitRange]) -> usize {
    ranges.iter().map(|range| range.count() as usize).sum()
}

/// Reads up to 8 bits, right-aligned.
fn peek(bytes: &[u8], at: usize, count: usize) -> u8 {
    let next = bytes.get(at / 8 + 1).copied().unwrap_or(0);
    let pair = u16::from_be_bytes([bytes[at / 8], next]);
    let [_, low] = (pair << (at % 8) >> (16 - count)).to_be_bytes();
    low
}

/// Copies `count` bits.
pub(crate) fn copy(from: &[u8], from_bit: usize, to: &mut [u8], to_bit: usize, count: usize) {
    if (from_bit | to_bit | count).is_multiple_of(8) {
        let bytes = count / 8;
        to[to_bit / 8..][..bytes].copy_from_slice(&from[from_bit / 8..][..bytes]);
        return;
    }
    let mut done = 0;
    while done < count {
        let (source, target) = (from_bit + done, to_bit + done);
        let part = (8 - target % 8).min(count - done);
        let shift = 8 - target % 8 - part;
        let mask = (0xFF_u8 >> (8 - part)) << shift;
        let byte = &mut to[target / 8];
        *byte = *byte & !mask | peek(from, source, part) << shift;
        done += part;
    }
}

/// Copies ranges of a page, one after another, to bit `at` of `out`.
pub(crate) fn gather(page: &[u8], ranges: &[BitRange], out: &mut [u8], mut at: usize) {
    for range in ranges {
        let count = range.count() as usize;
        copy(page, range.start as usize, out, at, count);
        at += count;
    }
}

/// Copies bits from bit `at` of `from` into ranges of a page.
pub(crate) fn scatter(from: &[u8], mut at: usize, page: &mut [u8], ranges: &[BitRange]) {
    for range in ranges {
        let count = range.count() as usize;
        copy(from, at, page, range.start as usize, count);
        at += count;
    }
}

/// Sets ranges of a page to ones or zeros.
pub(crate) fn fill(page: &mut [u8], ranges: &[BitRange], byte: u8) {
    for range in ranges {
        let pattern = vec![byte; range.count().div_ceil(8) as usize];
        copy(&pattern, 0, page, range.start as usize, range.count() as usize);
    }
}

/// Reverses the bits in each byte.
pub(crate) fn reverse(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = byte.reverse_bits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_text() {
        for (text, start, end) in
            [("0..8", 0, 64), ("12.3..20.7", 99, 167), ("2064.4..2071", 16516, 16568)]
        {
            let range = BitRange::try_from(text.to_owned()).unwrap();
            assert_eq!((range.start, range.end, range.to_string().as_str()), (start, end, text));
        }
        for bad in ["", "8", "8..8", "9..8", "1.8..2", "a..b", "0..600000000", "-1..2", "1..2..3"] {
            assert!(BitRange::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn bits_are_copied_from_and_to_any_place() {
        let bytes: Vec<u8> = (0..40_u8).map(|byte| byte.wrapping_mul(73) ^ 0x5A).collect();
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        for (from, to, count) in
            [(0, 0, 64), (3, 0, 61), (0, 5, 1), (7, 2, 200), (9, 9, 7), (317, 310, 3)]
        {
            let mut out = vec![0xA5; 40];
            let before = out.clone();
            copy(&bytes, from, &mut out, to, count);
            for at in 0..320 {
                let inside = at >= to && at < to + count;
                let expected = if inside { bit(&bytes, at - to + from) } else { bit(&before, at) };
                assert_eq!(bit(&out, at), expected, "{from} {to} {count}: {at}");
            }
        }
    }
}
