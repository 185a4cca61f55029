//! The Hamming code of Linux's software ECC: 3 bytes for each step of 256 or 512 bytes.

/// A Hamming code: corrects one wrong bit in a step, detects two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hamming {
    step: usize,
}

impl Hamming {
    /// ECC bytes per step.
    pub const ECC_BYTES: usize = 3;

    /// Returns the code for steps of 256 or 512 bytes; `None` for any other size.
    pub fn new(step: usize) -> Option<Self> {
        matches!(step, 256 | 512).then_some(Self { step })
    }

    /// Returns the number of bytes in a step.
    pub fn step(self) -> usize {
        self.step
    }

    /// Returns the ECC of a step. Ignores bytes after the step; missing ones count as 0.
    pub fn encode(self, data: &[u8]) -> [u8; 3] {
        let (mut all, mut rows) = (0_u64, 0_u32);
        let words = data[..data.len().min(self.step)].chunks(8);
        for (index, word) in (0_u32..).zip(words) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let word = u64::from_le_bytes(bytes);
            all ^= word;
            // The index bits of every word with an odd number of ones.
            rows ^= (word.count_ones() & 1).wrapping_neg() & (index << 3);
        }
        let mut column = 0;
        for (index, byte) in (0_u32..).zip(all.to_le_bytes()) {
            column ^= byte;
            rows ^= (byte.count_ones() & 1).wrapping_neg() & index;
        }
        self.assemble(rows, column)
    }

    /// Interleaves parities over index bits that are 1 (odd places) and that are 0 (even places).
    fn assemble(self, rows: u32, column: u8) -> [u8; 3] {
        let total = (u32::from(column).count_ones() & 1).wrapping_neg();
        let pairs = |odd: u32, count: u32| {
            (0..count).fold(0_u32, |bits, place| {
                let (one, zero) = (odd >> place & 1, (odd ^ total) >> place & 1);
                bits | one << (2 * place + 1) | zero << (2 * place)
            })
        };
        let row_bits = if self.step == 256 { 8 } else { 9 };
        let row_pairs = pairs(rows, row_bits);
        let columns = [0xAA_u8, 0xCC, 0xF0];
        let odd = (0_u32..).zip(columns).fold(0, |odd, (place, mask)| {
            odd | (u32::from(column & mask).count_ones() & 1) << place
        });
        let [low, high, extra, _] = row_pairs.to_le_bytes();
        let [column_pairs, ..] = pairs(odd, 3).to_le_bytes();
        [!high, !low, !(column_pairs << 2 | extra)]
    }

    /// Corrects a step in place, using its stored ECC. Returns the number of wrong bits (0 or 1,
    /// including the ECC bytes), or `None` if there are more; then nothing is changed.
    pub fn correct(self, data: &mut [u8], stored: &[u8]) -> Option<u16> {
        let computed = self.encode(data);
        let mut difference = [0; 3];
        for (index, byte) in difference.iter_mut().enumerate() {
            *byte = computed[index] ^ stored.get(index)?;
        }
        let [high, low, last] = difference;
        let bits = u32::from(high) << 16 | u32::from(low) << 8 | u32::from(last);
        if bits == 0 {
            return Some(0);
        }
        let used = if self.step == 256 { 0x00FF_FFFC } else { 0x00FF_FFFF };
        let even = used & 0x0055_5555;
        if bits & used == bits && (bits >> 1 ^ bits) & even == even {
            let odd = |byte: u8| {
                (0..4).fold(0, |out, place| out | (byte >> (2 * place + 1) & 1) << place)
            };
            let extra = usize::from(self.step == 512 && last & 2 != 0);
            let index = extra << 8 | usize::from(odd(high)) << 4 | usize::from(odd(low));
            *data.get_mut(index)? ^= 1 << (odd(last) >> 1);
            return Some(1);
        }
        bits.is_power_of_two().then_some(1)
    }
}
