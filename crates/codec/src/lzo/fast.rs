//! The fast LZO1X encoder, for file systems in use: greedy, one lookup per position.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

use super::write::Writer;
use crate::text::{Text, zeroed};

/// No earlier position: greater than every position, so never a match.
const NONE: u16 = u16::MAX;

/// Longest distance of a two-byte instruction.
const NEAR: u16 = 2048;

/// Longest match of a two-byte instruction.
const SHORT: u16 = 8;

/// Longest distance used: that of a three-byte instruction.
const FAR: u16 = 16384;

/// Bytes at the end of a block where no match starts.
const TAIL: u16 = 8;

const HASH_BITS: u32 = 12;

/// The encoder with its table.
///
/// # Invariants
/// 1. A block does not affect the next one: the table is cleared before each block.
#[derive(Debug)]
pub(crate) struct Fast {
    text: Text,
    last: Box<[u16; 1 << HASH_BITS]>,
}

impl Fast {
    /// Creates an encoder with an empty table.
    pub(crate) fn new() -> Self {
        Self { text: Text::new(), last: zeroed() }
    }

    /// Appends the stream of `block`, at most `MAX_BLOCK` bytes, to `out`.
    pub(crate) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) {
        self.text.set(block);
        self.last.fill(NONE);
        let mut writer = Writer::new(out);
        let len = block.len() as u16;
        let end = len.saturating_sub(TAIL);
        // The first byte cannot be matched; entering it lets later ones match it.
        let (mut at, mut done) = (0_u16, 0_u16);
        while at < end {
            let Some(candidate) = self.look(at) else {
                // The longer the run without a match, the larger the steps.
                at += 1 + ((at - done) >> 5);
                continue;
            };
            let length = self.text.common(candidate, at, 4, len - at);
            writer.literals(&block[usize::from(done)..usize::from(at)]);
            emit(&mut writer, length, at - candidate);
            at += length;
            done = at;
            if at < end {
                // The next match may start at the bytes that end here.
                self.look(at - 2);
            }
        }
        writer.literals(&block[usize::from(done)..]);
        writer.end();
    }

    /// Returns the last position with the same four bytes as `at`, and enters `at`.
    #[inline(always)]
    fn look(&mut self, at: u16) -> Option<u16> {
        let word = self.text.load8(at) as u32;
        let slot = &mut self.last[(word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize];
        let candidate = *slot;
        *slot = at;
        let back = at.wrapping_sub(candidate);
        let same = back <= FAR.min(at) && self.text.load8(candidate) as u32 == word;
        same.then_some(candidate)
    }
}

#[inline(always)]
fn emit(writer: &mut Writer<'_>, length: u16, distance: u16) {
    if length <= SHORT && distance <= NEAR {
        writer.short(usize::from(length), usize::from(distance));
    } else {
        writer.medium(usize::from(length), usize::from(distance));
    }
}
