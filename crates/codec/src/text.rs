//! The block being compressed, stored so that reads need no bounds checks.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

/// Positions in a block: 0 to 65,535.
pub(crate) const POSITIONS: usize = 1 << 16;

/// The largest block of an encoder: costs and positions then fit into sixteen bits.
pub const MAX_BLOCK: usize = 1 << 15;

/// Bytes after the last position, so that a wide load at any position stays inside.
const SLACK: usize = 16;

/// A copy of the block with padding.
///
/// # Invariants
/// 1. [`SLACK`] zero bytes follow the block, so loads there do not depend on the previous block.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Box<[u8; POSITIONS + SLACK]>,
    len: usize,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self { bytes: zeroed(), len: 0 }
    }

    /// Copies a block of at most [`POSITIONS`] bytes.
    pub(crate) fn set(&mut self, block: &[u8]) {
        self.len = block.len();
        self.bytes[..block.len()].copy_from_slice(block);
        self.bytes[block.len()..block.len() + SLACK].fill(0);
    }

    pub(crate) fn block(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the eight bytes at `at`, the first one lowest.
    #[inline(always)]
    pub(crate) fn load8(&self, at: u16) -> u64 {
        let at = usize::from(at);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(bytes)
    }

    /// Returns the number of equal bytes at `a` and `b`, at most `limit`; `known` of them are
    /// already known to be equal. `b` is the later one and `b + limit` is at most the block's
    /// length.
    #[inline(always)]
    pub(crate) fn common(&self, a: u16, b: u16, known: u16, limit: u16) -> u16 {
        let mut len = known;
        while len < limit {
            let difference = self.load8(a.wrapping_add(len)) ^ self.load8(b.wrapping_add(len));
            if difference != 0 {
                let equal = (difference.trailing_zeros() / 8) as u16;
                return limit.min(len.wrapping_add(equal));
            }
            len = len.wrapping_add(8);
        }
        limit
    }
}

/// Returns a boxed array of default values without building it on the stack.
#[expect(clippy::unnecessary_box_returns, reason = "too large for the stack")]
pub(crate) fn zeroed<T: Clone + Default, const N: usize>() -> Box<[T; N]> {
    let Ok(array) = vec![T::default(); N].into_boxed_slice().try_into() else {
        unreachable!("the vector has the length of the array")
    };
    array
}
