//! A reader of valid DEFLATE streams that evaluates only the distances (RFC 1951).
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

/// Extra bits and base of each distance code.
fn distance(bits: &mut Bits<'_>, code: u32) -> u32 {
    if code < 4 {
        return code + 1;
    }
    let extra = code / 2 - 1;
    ((2 + code % 2) << extra) + 1 + bits.take(extra)
}

/// Returns the largest distance in a stream; 0 if it has no match.
pub(super) fn farthest(stream: &[u8]) -> u32 {
    let mut bits = Bits { stream, at: 0 };
    let mut farthest = 0;
    loop {
        let last = bits.take(1) == 1;
        match bits.take(2) {
            0 => skip_stored(&mut bits),
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                farthest = farthest.max(block(&mut bits, &lengths, &[5; 30]));
            }
            2 => {
                let (lengths, distances) = code_lengths(&mut bits);
                farthest = farthest.max(block(&mut bits, &lengths, &distances));
            }
            _ => panic!("block type 3"),
        }
        if last {
            return farthest;
        }
    }
}

struct Bits<'a> {
    stream: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> u32 {
        (0..count).fold(0, |value, index| {
            let bit = (self.stream[self.at / 8] >> (self.at % 8)) & 1;
            self.at += 1;
            value | (u32::from(bit) << index)
        })
    }

    /// Returns the next symbol of the canonical code with these lengths.
    fn symbol(&mut self, lengths: &[u8]) -> u32 {
        let (mut code, mut first) = (0, 0);
        for length in 1..=15 {
            code = (code << 1) | self.take(1);
            let mut symbols = (0_u32..).zip(lengths).filter(|(_, have)| **have == length);
            let count = symbols.clone().count() as u32;
            if code - first < count {
                return symbols.nth((code - first) as usize).unwrap().0;
            }
            first = (first + count) << 1;
        }
        panic!("no such code");
    }
}

fn skip_stored(bits: &mut Bits<'_>) {
    bits.at = bits.at.next_multiple_of(8);
    let len = bits.take(16) as usize;
    bits.at += 16 + 8 * len;
}

fn code_lengths(bits: &mut Bits<'_>) -> (Vec<u8>, Vec<u8>) {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let literals = bits.take(5) as usize + 257;
    let distances = bits.take(5) as usize + 1;
    let count = bits.take(4) as usize + 4;
    let mut code = [0; 19];
    for index in &ORDER[..count] {
        code[*index] = bits.take(3) as u8;
    }
    let mut lengths = Vec::new();
    while lengths.len() < literals + distances {
        let (value, repeat) = match bits.symbol(&code) {
            16 => (*lengths.last().unwrap(), 3 + bits.take(2)),
            17 => (0, 3 + bits.take(3)),
            18 => (0, 11 + bits.take(7)),
            length => (length as u8, 1),
        };
        lengths.extend(std::iter::repeat_n(value, repeat as usize));
    }
    let distances = lengths.split_off(literals);
    (lengths, distances)
}

fn block(bits: &mut Bits<'_>, lengths: &[u8], distances: &[u8]) -> u32 {
    let mut farthest = 0;
    loop {
        let symbol = bits.symbol(lengths);
        match symbol {
            0..=255 => continue,
            256 => return farthest,
            257..=264 | 285 => {}
            _ => {
                bits.take((symbol - 261) / 4);
            }
        }
        let code = bits.symbol(distances);
        farthest = farthest.max(distance(bits, code));
    }
}
