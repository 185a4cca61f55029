//! Packed bits: fields fill bytes from the least significant bit upwards (spec: ubifs-format 11.2).

use alloc::vec::Vec;

/// Appends fields to a growing bit sequence.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    pending_bits: u32,
}

impl BitWriter {
    /// Creates an empty sequence with space for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), ..Self::default() }
    }

    /// Appends the low `bits` (at most 32) of `value`, which must have no higher bits set.
    pub fn put(&mut self, value: u32, bits: u32) {
        debug_assert!(bits <= 32 && u64::from(value) < 1 << bits, "{value} in {bits} bits");
        self.pending |= u64::from(value) << self.pending_bits;
        self.pending_bits += bits;
        while self.pending_bits >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.pending_bits -= 8;
        }
    }

    /// Returns the bytes; unused high bits of the last one are 0.
    pub fn finish(mut self) -> Vec<u8> {
        if self.pending_bits > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

/// Reads fields from a bit sequence.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Returns the next `bits` (at most 32), or `None` if fewer are left.
    pub fn take(&mut self, bits: u32) -> Option<u32> {
        let first = self.position / 8;
        let shift = self.position % 8;
        let end = self.position.checked_add(bits as usize)?;
        let touched = self.bytes.get(first..end.div_ceil(8))?;
        let mut word = 0_u64;
        for (index, byte) in touched.iter().enumerate() {
            word |= u64::from(*byte) << (8 * index);
        }
        self.position = end;
        Some(((word >> shift) & ((1 << bits) - 1)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lowest_bit_of_the_first_byte_comes_first() {
        let mut writer = BitWriter::default();
        writer.put(1, 4);
        writer.put(0xABC, 12);
        writer.put(5, 3);
        assert_eq!(writer.finish(), [0xC1, 0xAB, 0x05]);
    }

    proptest! {
        #[test]
        fn what_is_put_can_be_taken(fields in prop::collection::vec((any::<u32>(), 0_u32..=32), 0..40)) {
            let cut = |value: u32, bits: u32| (u64::from(value) & ((1 << bits) - 1)) as u32;
            let mut writer = BitWriter::default();
            for (value, bits) in &fields {
                writer.put(cut(*value, *bits), *bits);
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for (value, bits) in &fields {
                prop_assert_eq!(reader.take(*bits), Some(cut(*value, *bits)));
            }
            prop_assert_eq!(reader.take(8), None);
        }
    }
}
