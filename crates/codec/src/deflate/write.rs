//! Writes tokens as bits: the choice of the code, its description, and the block itself.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

use super::Token;
use super::huffman::{self, SYMBOLS, Word};
use crate::text::{POSITIONS, zeroed};

/// Symbols for literals, the end of the block and lengths.
const LITERALS: usize = 286;

/// Symbols for distances within the window.
const DISTANCES: usize = 22;

/// Symbols that describe lengths of codes.
const LENGTHS: usize = 19;

/// The symbol that ends a block.
const END: usize = 256;

/// The first symbol of a match.
const MATCHES: usize = 257;

/// Longest code of the lengths of codes.
const LONGEST_LENGTH: usize = 7;

/// The order in which the lengths of the codes of lengths are written (RFC 1951, 3.2.7).
const ORDER: [usize; LENGTHS] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Repeats of the previous length, few zeros, many zeros.
const AGAIN: u8 = 16;
const FEW: u8 = 17;
const MANY: u8 = 18;

/// For every match length minus 3, the symbol minus 257 (RFC 1951, 3.2.5).
const LENGTH_SYMBOLS: [u8; 256] = length_symbols();

const fn length_symbols() -> [u8; 256] {
    let mut symbols = [0; 256];
    let mut len = 0;
    while len < 255 {
        symbols[len] = if len < 8 {
            len as u8
        } else {
            let extra = len.ilog2() - 2;
            (4 * extra + (len >> extra) as u32) as u8
        };
        len += 1;
    }
    // The longest match has its own symbol.
    symbols[255] = 28;
    symbols
}

/// Returns the symbol of a match length.
#[inline(always)]
fn length_symbol(len: u32) -> usize {
    usize::from(LENGTH_SYMBOLS[usize::from(len.wrapping_sub(3) as u8)])
}

/// Returns the number of extra bits after a length symbol; `symbol` is counted from 257.
const fn length_extra(symbol: usize) -> u32 {
    if symbol < 8 || symbol == 28 { 0 } else { symbol as u32 / 4 - 1 }
}

/// Returns the symbol and the number of extra bits of a distance.
#[inline(always)]
fn distance_symbol(distance: u16) -> (usize, u32) {
    let distance = u32::from(distance.wrapping_sub(1));
    let extra = (distance | 2).ilog2() - 1;
    ((2 * extra + (distance >> extra)) as usize, extra)
}

/// The frequency of each symbol.
#[derive(Debug)]
pub(super) struct Frequencies {
    literals: [u32; 512],
    distances: [u32; 64],
}

impl Frequencies {
    pub(super) const fn new() -> Self {
        Self { literals: [0; 512], distances: [0; 64] }
    }

    #[inline(always)]
    pub(super) fn count(&mut self, token: Token) {
        if token.len() == 0 {
            self.literals[usize::from(token.byte())] += 1;
        } else {
            self.literals[(MATCHES + length_symbol(token.len())) & 511] += 1;
            self.distances[distance_symbol(token.distance()).0 & 63] += 1;
        }
    }

    /// Returns the number of bits of all tokens and the end symbol, coded with these lengths.
    fn bits(&self, literals: &[u8], distances: &[u8]) -> u32 {
        let sum = |frequencies: &[u32], lengths: &[u8]| -> u32 {
            frequencies.iter().zip(lengths).map(|(count, len)| count * u32::from(*len)).sum()
        };
        let extra = |(symbol, count): (usize, &u32)| count * length_extra(symbol);
        let lengths_extra: u32 =
            self.literals[MATCHES..LITERALS].iter().enumerate().map(extra).sum();
        let extra = |(symbol, count): (usize, &u32)| count * (symbol as u32 / 2).saturating_sub(1);
        let distances_extra: u32 = self.distances[..DISTANCES].iter().enumerate().map(extra).sum();
        sum(&self.literals, literals)
            + sum(&self.distances, distances)
            + u32::from(literals[END])
            + lengths_extra
            + distances_extra
    }
}

/// A pair of codes, given by the lengths of their words.
struct Codes {
    literals: [u8; SYMBOLS],
    distances: [u8; 32],
}

impl Codes {
    /// Returns the fixed codes (RFC 1951, 3.2.6).
    const fn fixed() -> Self {
        let mut literals = [8; SYMBOLS];
        let mut symbol = 144;
        while symbol < 280 {
            literals[symbol] = if symbol < 256 { 9 } else { 7 };
            symbol += 1;
        }
        Self { literals, distances: [5; 32] }
    }

    /// Returns the best codes for these frequencies.
    fn dynamic(frequencies: &mut Frequencies) -> Self {
        let mut codes = Self { literals: [0; SYMBOLS], distances: [0; 32] };
        frequencies.literals[END] = 1;
        let literals = &frequencies.literals[..LITERALS];
        huffman::lengths(literals, huffman::LONGEST, &mut codes.literals[..LITERALS]);
        frequencies.literals[END] = 0;
        let distances = &frequencies.distances[..DISTANCES];
        huffman::lengths(distances, huffman::LONGEST, &mut codes.distances[..DISTANCES]);
        codes
    }
}

/// The description of a pair of codes in the stream.
struct Description {
    literals: usize,
    distances: usize,
    /// Symbols for the lengths, with the value of their extra bits.
    symbols: [(u8, u8); LITERALS + DISTANCES],
    count: usize,
    /// The lengths of the codes of these symbols, and how many of them are written.
    lengths: [u8; LENGTHS],
    lengths_count: usize,
    /// Bits of the whole description.
    bits: u32,
}

impl Description {
    fn new(codes: &Codes) -> Self {
        let used =
            |lengths: &[u8]| lengths.iter().rposition(|len| *len != 0).map_or(0, |at| at + 1);
        let literals = used(&codes.literals).max(MATCHES);
        let distances = used(&codes.distances).max(1);
        let mut all = [0; LITERALS + DISTANCES];
        all[..literals].copy_from_slice(&codes.literals[..literals]);
        all[literals..literals + distances].copy_from_slice(&codes.distances[..distances]);
        let mut this = Self {
            literals,
            distances,
            symbols: [(0, 0); LITERALS + DISTANCES],
            count: 0,
            lengths: [0; LENGTHS],
            lengths_count: 0,
            bits: 0,
        };
        this.shorten(&all[..literals + distances]);
        let mut frequencies = [0; LENGTHS];
        for (symbol, _) in &this.symbols[..this.count] {
            frequencies[usize::from(*symbol)] += 1;
        }
        huffman::lengths(&frequencies, LONGEST_LENGTH, &mut this.lengths);
        let last = ORDER.iter().rposition(|symbol| this.lengths[*symbol] != 0);
        this.lengths_count = last.map_or(4, |last| (last + 1).max(4));
        let cost = |(symbol, count): (usize, &u32)| {
            count * (u32::from(this.lengths[symbol]) + repeat_extra(symbol as u8))
        };
        let symbols: u32 = frequencies.iter().enumerate().map(cost).sum();
        this.bits = 5 + 5 + 4 + 3 * this.lengths_count as u32 + symbols;
        this
    }

    /// Turns runs into repeats.
    fn shorten(&mut self, lengths: &[u8]) {
        let mut at = 0;
        while at < lengths.len() {
            let length = lengths[at];
            let run = lengths[at..].iter().take_while(|other| **other == length).count();
            at += run;
            let mut left = run;
            if length != 0 {
                self.put(length, 0);
                left -= 1;
            }
            let (symbol, most) = if length == 0 { (MANY, 138) } else { (AGAIN, 6) };
            while left >= 3 {
                let now = left.min(most);
                if length == 0 && now <= 10 {
                    self.put(FEW, (now - 3) as u8);
                } else {
                    self.put(symbol, (now - if length == 0 { 11 } else { 3 }) as u8);
                }
                left -= now;
            }
            for _ in 0..left {
                self.put(length, 0);
            }
        }
    }

    fn put(&mut self, symbol: u8, extra: u8) {
        self.symbols[self.count] = (symbol, extra);
        self.count += 1;
    }
}

/// Returns the number of extra bits after a symbol for code lengths.
const fn repeat_extra(symbol: u8) -> u32 {
    match symbol {
        AGAIN => 2,
        FEW => 3,
        MANY => 7,
        _ => 0,
    }
}

/// The writer with its buffer.
///
/// # Invariants
/// 1. `bytes` is larger than the largest stored block with its header, and nothing larger is
///    written.
#[derive(Debug)]
pub(super) struct Writer {
    bytes: Box<[u8; POSITIONS + 8]>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { bytes: zeroed() }
    }

    /// Appends the stream of `block`; `tokens` are its tokens.
    pub(super) fn write(
        &mut self,
        block: &[u8],
        tokens: &[Token],
        frequencies: &mut Frequencies,
        out: &mut Vec<u8>,
    ) {
        const FIXED: Codes = Codes::fixed();
        let codes = Codes::dynamic(frequencies);
        let description = Description::new(&codes);
        let dynamic = 3 + description.bits + frequencies.bits(&codes.literals, &codes.distances);
        let fixed = 3 + frequencies.bits(&FIXED.literals, &FIXED.distances);
        let stored = 8 * (block.len() as u32 + 5);
        if stored < fixed.min(dynamic) {
            store(block, out);
            return;
        }
        let mut bits = Bits { bytes: &mut self.bytes, at: 0, waiting: 0, count: 0 };
        if fixed <= dynamic {
            bits.put(0b011, 3);
            bits.tokens(tokens, &FIXED);
        } else {
            bits.put(0b101, 3);
            bits.describe(&description);
            bits.tokens(tokens, &codes);
        }
        let len = usize::from(bits.at) + usize::from(bits.count != 0);
        out.extend_from_slice(&self.bytes[..len]);
    }
}

/// Appends a stored block (RFC 1951, 3.2.4).
fn store(block: &[u8], out: &mut Vec<u8>) {
    let len = block.len() as u16;
    out.push(1);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(block);
}

/// A destination for bits. Between two calls, fewer than eight bits are pending; they are already
/// written, too.
struct Bits<'a> {
    bytes: &'a mut [u8; POSITIONS + 8],
    at: u16,
    waiting: u64,
    count: u32,
}

impl Bits<'_> {
    /// Writes at most 56 bits, the lowest first.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        self.waiting |= bits << self.count;
        self.count += count;
        let at = usize::from(self.at);
        self.bytes[at..at + 8].copy_from_slice(&self.waiting.to_le_bytes());
        self.at = self.at.wrapping_add((self.count / 8) as u16);
        self.waiting >>= self.count & !7;
        self.count &= 7;
    }

    fn describe(&mut self, description: &Description) {
        self.put(description.literals as u64 - 257, 5);
        self.put(description.distances as u64 - 1, 5);
        self.put(description.lengths_count as u64 - 4, 4);
        for symbol in &ORDER[..description.lengths_count] {
            self.put(u64::from(description.lengths[*symbol]), 3);
        }
        let mut words = [Word::default(); LENGTHS];
        huffman::code(&description.lengths, &mut words);
        for (symbol, extra) in &description.symbols[..description.count] {
            let word = words[usize::from(*symbol)];
            let bits = word.bits() | (u64::from(*extra) << word.len());
            self.put(bits, word.len() + repeat_extra(*symbol));
        }
    }

    #[inline(never)]
    fn tokens(&mut self, tokens: &[Token], codes: &Codes) {
        let mut literals = [Word::default(); 512];
        let mut distances = [Word::default(); 64];
        huffman::code(&codes.literals, &mut literals);
        huffman::code(&codes.distances, &mut distances);
        for token in tokens {
            if token.len() == 0 {
                let word = literals[usize::from(token.byte())];
                self.put(word.bits(), word.len());
                continue;
            }
            let symbol = length_symbol(token.len());
            let word = literals[(MATCHES + symbol) & 511];
            let (mut bits, mut count) = (word.bits(), word.len());
            let extra = length_extra(symbol);
            bits |= u64::from((token.len() - 3) & ((1 << extra) - 1)) << count;
            count += extra;
            let (symbol, extra) = distance_symbol(token.distance());
            let word = distances[symbol & 63];
            bits |= word.bits() << count;
            count += word.len();
            bits |= u64::from((token.distance() - 1) & ((1 << extra) - 1)) << count;
            self.put(bits, count + extra);
        }
        self.put(literals[END].bits(), literals[END].len());
    }
}
