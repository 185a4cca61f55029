//! Rubin, JFFS2's binary arithmetic codec, in both forms (spec: jffs2 9.5).
//!
//! Linux decodes compressor number 3 with a table from the payload and number 5 with the fixed
//! table, contrary to their names. No current writer uses either, so this is only a decoder; the
//! tests have an encoder.

use crate::CodecError;

/// The weight of a one bit by position in the byte, relative to the divider of [`Table`].
type Weights = [u32; 8];

/// The fixed table: divider and weights.
const FIXED: (u32, Weights) = (1043, [277, 249, 290, 267, 229, 341, 212, 241]);
/// The divider of tables in the payload.
const DYNAMIC_DIVIDER: u32 = 256;
/// Interval registers have 16 bits.
const TOP: u32 = 0x8000;

/// The source of the weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Table {
    /// The fixed weights of every decoder.
    Fixed,
    /// The first 8 bytes of the payload.
    Dynamic,
}

/// Decodes `input` into `out`, which it always fills: the code has no end mark and every sequence
/// of bits is valid.
///
/// # Errors
///
/// Fails if the input is too short for its table.
pub fn decompress(table: Table, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let (divider, weights, bits) = match table {
        Table::Fixed => (FIXED.0, FIXED.1, input),
        Table::Dynamic => {
            let (head, bits) = input
                .split_first_chunk::<8>()
                .ok_or(CodecError::Stream { codec: "rubin", problem: "no table of 8 bytes" })?;
            (DYNAMIC_DIVIDER, head.map(u32::from), bits)
        }
    };
    let mut decoder = Decoder::new(bits);
    for byte in out {
        *byte = 0;
        for (position, weight) in weights.iter().enumerate() {
            *byte |= u8::from(decoder.symbol(divider, *weight)) << position;
        }
    }
    Ok(())
}

/// The interval [base, base + width) and the code within it.
struct Decoder<'a> {
    width: u32,
    base: u32,
    code: u32,
    bits: &'a [u8],
    next: usize,
}

impl<'a> Decoder<'a> {
    fn new(bits: &'a [u8]) -> Self {
        let mut decoder = Self { width: 2 * TOP, base: 0, code: 0, bits, next: 0 };
        for _ in 0..16 {
            decoder.code = decoder.code << 1 | decoder.bit();
        }
        decoder
    }

    /// Returns the next bit, highest of a byte first; 0 after the end.
    fn bit(&mut self) -> u32 {
        let byte = self.bits.get(self.next / 8).copied().unwrap_or(0);
        let bit = byte >> (7 - self.next % 8) & 1;
        self.next += 1;
        bit.into()
    }

    fn symbol(&mut self, divider: u32, weight: u32) -> bool {
        while self.base >= TOP || self.width + self.base <= TOP {
            self.base = (self.base & (TOP - 1)) << 1;
            self.width <<= 1;
            self.code = ((self.code & (TOP - 1)) << 1) + self.bit();
        }
        let zero = zero_width(self.width, divider, weight);
        let is_one = self.code >= self.base + zero;
        if is_one {
            self.base += zero;
            self.width -= zero;
        } else {
            self.width = zero;
        }
        is_one
    }
}

/// Returns the part of an interval of this width that encodes a zero bit: at least 1, less than
/// all.
fn zero_width(width: u32, divider: u32, weight: u32) -> u32 {
    let share = divider.saturating_sub(weight) * width / divider;
    share.min(width.saturating_sub(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes as in section 9.5.
    fn compress(table: Table, source: &[u8]) -> Vec<u8> {
        let (divider, weights) = match table {
            Table::Fixed => FIXED,
            Table::Dynamic => (DYNAMIC_DIVIDER, weights(source)),
        };
        let (mut width, mut base, mut bits) = (2 * TOP, 0, Vec::new());
        for byte in source {
            for (position, weight) in weights.iter().enumerate() {
                while base >= TOP || width + base <= TOP {
                    bits.push(base >> 15 & 1);
                    base = (base & (TOP - 1)) << 1;
                    width <<= 1;
                }
                let zero = zero_width(width, divider, *weight);
                if byte >> position & 1 == 0 {
                    width = zero;
                } else {
                    base += zero;
                    width -= zero;
                }
            }
        }
        for _ in 0..16 {
            bits.push(base >> 15 & 1);
            base = (base & (TOP - 1)) << 1;
        }
        let mut out: Vec<u8> = match table {
            Table::Fixed => Vec::new(),
            Table::Dynamic => weights.map(|weight| u8::try_from(weight).unwrap()).to_vec(),
        };
        out.extend(bits.chunks(8).map(|chunk| {
            chunk
                .iter()
                .enumerate()
                .fold(0_u8, |byte, (at, bit)| byte | u8::try_from(*bit).unwrap() << (7 - at))
        }));
        out
    }

    fn weights(source: &[u8]) -> Weights {
        let mut histogram = [0_u8; 256];
        for byte in source {
            histogram[usize::from(*byte)] = histogram[usize::from(*byte)].wrapping_add(1);
        }
        std::array::from_fn(|position| {
            let ones: u32 = histogram
                .iter()
                .enumerate()
                .filter(|(value, _)| value >> position & 1 == 1)
                .map(|(_, count)| u32::from(*count))
                .sum();
            (ones * 256 / u32::try_from(source.len().max(1)).unwrap()).clamp(1, 255)
        })
    }

    fn repeated(parts: &[(&[u8], usize)]) -> Vec<u8> {
        parts.iter().flat_map(|(part, count)| part.repeat(*count)).collect()
    }

    #[test]
    fn vectors_of_the_specification() {
        let rows: [(Vec<u8>, Table, &[u8]); 5] = [
            (
                repeated(&[(b"a", 32)]),
                Table::Dynamic,
                &[0xFF, 1, 1, 1, 1, 0xFF, 0xFF, 1, 0x3C, 0x83, 0x10],
            ),
            (vec![0; 32], Table::Dynamic, &[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0x11]),
            (
                repeated(&[(b"A", 24), (b"B", 1)]),
                Table::Dynamic,
                &[0xF5, 0x0A, 1, 1, 1, 1, 0xFF, 1, 0x6C, 0xD0, 0x0D, 0x30, 0x12],
            ),
            (
                repeated(&[(b"ab", 16), (b"c", 8)]),
                Table::Dynamic,
                &[
                    0x99, 0x99, 1, 1, 1, 0xFF, 0xFF, 1, 0x77, 0xEC, 0xD7, 0xAE, 0x73, 0x71, 0x4F,
                    0x65, 0xEA, 0x7C, 0x0C, 0x9C, 0x20,
                ],
            ),
            (
                repeated(&[(b"a", 16)]),
                Table::Fixed,
                &[
                    0xD1, 0x2A, 0xC7, 0xD7, 0x27, 0xE8, 0xC0, 0xDF, 0x10, 0x5C, 0xC7, 0xD2, 0x7A,
                    0x9B, 0xBA, 0x44, 0x29, 0x80, 0x18,
                ],
            ),
        ];
        for (source, table, encoded) in rows {
            // The kernel's encoder appends one byte that decoders do not need.
            assert_eq!(compress(table, &source), encoded[..encoded.len() - 1]);
            let mut back = vec![0; source.len()];
            decompress(table, encoded, &mut back).unwrap();
            assert_eq!(back, source);
        }
    }

    #[test]
    fn a_payload_without_table_is_refused() {
        assert!(decompress(Table::Dynamic, &[1; 7], &mut [0; 4]).is_err());
        assert!(decompress(Table::Fixed, &[], &mut [0; 4]).is_ok());
    }

    proptest! {
        #[test]
        fn everything_survives(source in proptest::collection::vec(any::<u8>(), 0..600)) {
            for table in [Table::Fixed, Table::Dynamic] {
                let mut back = vec![0; source.len()];
                decompress(table, &compress(table, &source), &mut back).unwrap();
                prop_assert_eq!(&back, &source);
            }
        }

        #[test]
        fn random_bytes_are_answered(input in proptest::collection::vec(any::<u8>(), 0..200)) {
            for table in [Table::Fixed, Table::Dynamic] {
                let _ = decompress(table, &input, &mut [0; 4096]);
            }
        }
    }
}
