//! Writes LZO1X instructions (spec: ubifs-format 7.2).
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

/// Literals that the first byte of a stream can announce.
pub(super) const FIRST_RUN: usize = 238;

/// The end marker.
const END: [u8; 3] = [0x11, 0, 0];

/// Appends instructions to an output.
///
/// # Invariants
/// 1. `patch` is the index of the byte whose two low bits hold the number of literals after the
///    last match; `None` before the first match.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    patch: Option<usize>,
}

impl<'a> Writer<'a> {
    /// Appends to `out` without clearing it.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, patch: None }
    }

    /// Writes the literals between the last match and the next one.
    #[inline]
    pub(super) fn literals(&mut self, bytes: &[u8]) {
        let count = bytes.len();
        match (count, self.patch) {
            (0, _) => return,
            (1..=3, Some(patch)) => self.out[patch] |= count as u8,
            (1..=FIRST_RUN, None) => self.out.push((17 + count) as u8),
            (4..=18, Some(_)) => self.out.push((count - 3) as u8),
            _ => {
                self.out.push(0);
                self.extension(count - 18);
            }
        }
        self.out.extend_from_slice(bytes);
    }

    /// Writes a match of 3 to 8 bytes at a distance of at most 2048.
    #[inline]
    pub(super) fn short(&mut self, length: usize, distance: usize) {
        self.patch = Some(self.out.len());
        let far = distance - 1;
        let low = (((length - 1) << 5) | ((far & 7) << 2)) as u8;
        self.out.extend_from_slice(&[low, (far >> 3) as u8]);
    }

    /// Writes a match of 3 or more bytes at a distance of at most 16,384.
    #[inline]
    pub(super) fn medium(&mut self, length: usize, distance: usize) {
        if length <= 33 {
            self.out.push((32 | (length - 2)) as u8);
        } else {
            self.out.push(32);
            self.extension(length - 33);
        }
        self.patch = Some(self.out.len());
        let word = ((distance - 1) << 2) as u16;
        self.out.extend_from_slice(&word.to_le_bytes());
    }

    /// Writes the match without a length: 2 bytes at a distance of at most 1024 after one to three
    /// literals, or 3 bytes at a distance of 2049 to 3072 after more.
    #[inline]
    pub(super) fn tiny(&mut self, distance: usize) {
        self.patch = Some(self.out.len());
        let far = (distance - 1) & 1023;
        self.out.extend_from_slice(&[((far & 3) << 2) as u8, (far >> 2) as u8]);
    }

    /// Writes the end of the stream.
    pub(super) fn end(self) {
        self.out.extend_from_slice(&END);
    }

    /// Writes a positive length as zero bytes, 255 each, and one other byte.
    fn extension(&mut self, length: usize) {
        let zeros = (length - 1) / 255;
        self.out.resize(self.out.len() + zeros, 0);
        self.out.push((length - 255 * zeros) as u8);
    }
}
