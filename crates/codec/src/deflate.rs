//! Raw DEFLATE for single small blocks (RFC 1951; spec: ubifs-format 7), within the 2048-byte
//! window of the kernel's decompressor.
//!
//! First, every position is linked to the last earlier one with the same three and the same four
//! bytes. Then matches are chosen lazily along these links: a match is used unless the next
//! position has a better one. Last, the whole block is coded with the shorter of the dynamic and
//! the fixed Huffman codes, or stored if neither makes it shorter.
//!
//! # Invariants
//! 1. A block does not affect the next one: the tables of the links are cleared before each block.
//! 2. No distance exceeds [`WINDOW`].
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

mod huffman;
#[cfg(test)]
mod tests;
mod write;

use crate::text::{MAX_BLOCK, POSITIONS, Text, zeroed};
use write::{Frequencies, Writer};

/// Longest distance of a match.
const WINDOW: u16 = 2048;

/// Longest distance of a three-byte match: literals are cheaper than a longer one.
const NEAR: u16 = 512;

/// Shortest and longest match.
const SHORTEST: u32 = 3;
const LONGEST: u32 = 258;

/// No earlier position: greater than every position, so never a match.
const NONE: u16 = u16::MAX;

const BITS_3: u32 = 12;
const BITS_4: u32 = 13;

/// The effort of the match search.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Positions compared per search.
    depth: u32,
    /// A match this long is used without a further search.
    enough: u32,
    /// A match this long is not compared with those of the next positions.
    doubt: u32,
    /// Number of following positions searched for a better match.
    ahead: u32,
}

impl Effort {
    const fn of_level(level: u32) -> Self {
        let (depth, enough, doubt, ahead) = match level {
            0 | 1 => (2, 8, 0, 0),
            2 => (4, 16, 0, 0),
            3 => (8, 32, 0, 0),
            4 => (6, 16, 8, 1),
            5 => (10, 24, 12, 1),
            6 => (16, 32, 16, 1),
            7 => (32, 64, 32, 1),
            8 => (64, 128, 64, 2),
            _ => (256, LONGEST, LONGEST, 2),
        };
        Self { depth, enough, doubt, ahead }
    }
}

/// A literal, or a match.
#[derive(Clone, Copy, Default, Debug)]
struct Token(u32);

impl Token {
    const fn literal(byte: u8) -> Self {
        Self(byte as u32)
    }

    const fn matched(len: u32, distance: u16) -> Self {
        Self((len << 16) | distance as u32)
    }

    /// Returns the number of bytes matched; 0 for a literal.
    #[inline(always)]
    const fn len(self) -> u32 {
        self.0 >> 16
    }

    /// Returns the distance of the match.
    #[inline(always)]
    const fn distance(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    const fn byte(self) -> u8 {
        self.0 as u8
    }
}

/// The encoder with its tables.
#[derive(Debug)]
pub(crate) struct Deflate {
    effort: Effort,
    text: Text,
    links: Links,
    tokens: Box<[Token; POSITIONS]>,
    writer: Writer,
}

impl Deflate {
    /// Creates an encoder of a level from 1 to 9.
    pub(crate) fn new(level: u32) -> Self {
        Self {
            effort: Effort::of_level(level),
            text: Text::new(),
            links: Links::new(),
            tokens: zeroed(),
            writer: Writer::new(),
        }
    }

    /// Appends the stream of `block`, at most [`MAX_BLOCK`] bytes, to `out`.
    pub(crate) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) {
        self.text.set(block);
        self.links.link(&self.text);
        let search = Search { text: &self.text, links: &self.links, effort: self.effort };
        let mut frequencies = Frequencies::new();
        let count = if self.effort.ahead == 0 {
            search.greedily(&mut self.tokens, &mut frequencies)
        } else {
            search.lazily(&mut self.tokens, &mut frequencies)
        };
        self.writer.write(block, &self.tokens[..count], &mut frequencies, out);
    }
}

/// For every position, the last earlier one with the same hash.
#[derive(Debug)]
struct Links {
    last_3: Box<[u16; 1 << BITS_3]>,
    last_4: Box<[u16; 1 << BITS_4]>,
    before_3: Box<[u16; POSITIONS]>,
    before_4: Box<[u16; POSITIONS]>,
}

impl Links {
    fn new() -> Self {
        Self { last_3: zeroed(), last_4: zeroed(), before_3: zeroed(), before_4: zeroed() }
    }

    #[inline(never)]
    fn link(&mut self, text: &Text) {
        const PRIME: u32 = 0x9E37_79B1;
        assert!(text.block().len() <= MAX_BLOCK, "the caller refuses larger blocks");
        let Self { last_3, last_4, before_3, before_4 } = self;
        last_3.fill(NONE);
        last_4.fill(NONE);
        for at in 0..text.block().len() as u16 {
            let word = text.load8(at) as u32;
            let third = &mut last_3[((word << 8).wrapping_mul(PRIME) >> (32 - BITS_3)) as usize];
            let fourth = &mut last_4[(word.wrapping_mul(PRIME) >> (32 - BITS_4)) as usize];
            before_3[usize::from(at)] = *third;
            before_4[usize::from(at)] = *fourth;
            *third = at;
            *fourth = at;
        }
    }
}

struct Search<'a> {
    text: &'a Text,
    links: &'a Links,
    effort: Effort,
}

impl Search<'_> {
    /// Uses the longest match at every position that has one; returns the number of tokens.
    #[inline(never)]
    fn greedily(&self, tokens: &mut [Token; POSITIONS], frequencies: &mut Frequencies) -> usize {
        let len = self.text.block().len() as u16;
        let (mut at, mut count) = (0_u16, 0_u16);
        while at < len {
            let found = self.longest(at, SHORTEST - 1);
            let token = if found.len() == 0 { self.literal(at) } else { found };
            tokens[usize::from(count)] = token;
            frequencies.count(token);
            count = count.wrapping_add(1);
            at = at.wrapping_add(token.len().max(1) as u16);
        }
        usize::from(count)
    }

    /// Uses a match unless the next position has a better one; returns the number of tokens.
    #[inline(never)]
    fn lazily(&self, tokens: &mut [Token; POSITIONS], frequencies: &mut Frequencies) -> usize {
        let len = self.text.block().len() as u16;
        let (mut at, mut count) = (0_u16, 0_u16);
        let mut put = |token: Token| {
            tokens[usize::from(count)] = token;
            frequencies.count(token);
            count = count.wrapping_add(1);
        };
        let mut found = self.longest(at, SHORTEST - 1);
        while at < len {
            if found.len() == 0 {
                put(self.literal(at));
                at = at.wrapping_add(1);
                found = self.longest(at, SHORTEST - 1);
            } else if let Some((ahead, better)) = self.better(at, found) {
                for skipped in 0..ahead {
                    put(self.literal(at.wrapping_add(skipped)));
                }
                at = at.wrapping_add(ahead);
                found = better;
            } else {
                put(found);
                at = at.wrapping_add(found.len() as u16);
                found = self.longest(at, SHORTEST - 1);
            }
        }
        usize::from(count)
    }

    #[inline(always)]
    fn literal(&self, at: u16) -> Token {
        Token::literal(self.text.load8(at) as u8)
    }

    /// Returns a match shortly after `at` that is better than `found` at `at`, and its distance
    /// from `at`.
    #[inline(always)]
    fn better(&self, at: u16, found: Token) -> Option<(u16, Token)> {
        if found.len() >= self.effort.doubt {
            return None;
        }
        let next = self.longest(at.wrapping_add(1), found.len() - 1);
        if gain(found, next) > 2 {
            return Some((1, next));
        }
        if self.effort.ahead > 1 {
            let next = self.longest(at.wrapping_add(2), found.len() - 1);
            if gain(found, next) > 6 {
                return Some((2, next));
            }
        }
        None
    }

    /// Returns the longest match at `at` if it is longer than `beat` bytes.
    #[inline(always)]
    fn longest(&self, at: u16, beat: u32) -> Token {
        let here = self.text.load8(at);
        let window = at.min(WINDOW);
        let limit = (self.text.block().len() as u16).wrapping_sub(at).min(LONGEST as u16);
        if u32::from(limit) <= beat {
            return Token::default();
        }
        let (mut best, mut token) = (beat, Token::default());
        if beat < SHORTEST {
            let candidate = self.links.before_3[usize::from(at)];
            let back = at.wrapping_sub(candidate);
            let equal = (self.text.load8(candidate) ^ here).trailing_zeros() / 8;
            if equal >= SHORTEST && back <= window.min(NEAR) {
                best = SHORTEST;
                token = Token::matched(SHORTEST, back);
            }
        }
        best = best.max(SHORTEST);
        let mut candidate = self.links.before_4[usize::from(at)];
        let mut tail = self.tail(at, best);
        for _ in 0..self.effort.depth {
            let back = at.wrapping_sub(candidate);
            if back > window {
                break;
            }
            if self.tail(candidate, best) == tail {
                let difference = self.text.load8(candidate) ^ here;
                let len = if difference == 0 {
                    u32::from(self.text.common(candidate, at, 8.min(limit), limit))
                } else {
                    (difference.trailing_zeros() / 8).min(u32::from(limit))
                };
                if len > best {
                    best = len;
                    token = Token::matched(len, back);
                    if len >= self.effort.enough || len == u32::from(limit) {
                        break;
                    }
                    tail = self.tail(at, best);
                }
            }
            candidate = self.links.before_4[usize::from(candidate)];
        }
        token
    }

    /// Returns the four bytes that end right after a match of `len`.
    #[inline(always)]
    fn tail(&self, at: u16, len: u32) -> u32 {
        self.text.load8(at.wrapping_add(len as u16).wrapping_sub(3)) as u32
    }
}

/// Returns how much better `next` is than `found`, in quarters of a byte.
#[inline(always)]
fn gain(found: Token, next: Token) -> i32 {
    if next.len() == 0 {
        return i32::MIN;
    }
    let longer = next.len().cast_signed() - found.len().cast_signed();
    let nearness = |token: Token| token.distance().ilog2().cast_signed();
    let nearer = nearness(found) - nearness(next);
    4 * longer + nearer
}
