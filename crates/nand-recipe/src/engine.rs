//! One page encoded and decoded as a region of a recipe says.
//!
//! # Invariants
//! 1. Data of a codeword that cannot be corrected is zeros in the result, unless the caller asks for
//!    it as read.
//! 2. A page without zeros is erased and read as such, with any recipe.

use crate::bits::{self, BitRange, total};
use crate::error::RecipeError;
use crate::recipe::{Code, Erased, HammingVariant, Invert, Order, Recipe, Region, Swap};
use eraseblock_mtd::ecc::{Bch, BchParameters, Hamming, ReedSolomon, RsParameters};

/// What was found in a codeword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Valid as read.
    Clean,
    /// This many bits were corrected.
    Corrected(u32),
    /// Erased; this many bits were zeros.
    Erased(u32),
    /// More bits are wrong than the code corrects.
    Uncorrectable,
    /// There is no code, or the page cannot be descrambled.
    Unverified,
}

/// Treatment of data that cannot be corrected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damaged {
    /// Delivered as zeros.
    Zeros,
    /// Delivered as read.
    AsRead,
}

#[derive(Clone, Debug)]
enum Engine {
    Bch(Box<Bch>),
    Hamming(Hamming, HammingVariant),
    Rs(Box<ReedSolomon>),
    None,
}

/// A code for messages of one length, with its constants.
#[derive(Clone, Debug)]
struct Coder {
    engine: Engine,
    message_bits: usize,
    /// Bits before the message in its buffer.
    pad: usize,
    parity_bits: usize,
    /// Added to the stored parity.
    mask: Vec<u8>,
    inverts_message: bool,
    strength: u32,
}

#[derive(Clone, Debug)]
struct Part {
    message: Vec<BitRange>,
    /// The places of the data, exchanges included.
    data: Vec<BitRange>,
    parity: Vec<BitRange>,
    coder: usize,
}

/// The layout and the codes of a region, ready for use.
#[derive(Clone, Debug)]
pub struct PageCodec {
    raw_page: usize,
    page: usize,
    region: Region,
    coders: Vec<Coder>,
    parts: Vec<Part>,
    words: Words,
}

/// Buffers for one codeword.
#[derive(Clone, Debug, Default)]
struct Words {
    message: Vec<u8>,
    parity: Vec<u8>,
}

/// Returns for each bit what most reads say; the first one decides between as many.
fn majority(first: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let reads = others.len() + 1;
    let vote = |(at, first): (usize, &u8)| {
        if others.iter().all(|other| other[at] == *first) {
            return *first;
        }
        (0..8).fold(0, |byte, bit| {
            let is_set = |byte: u8| usize::from(byte >> bit & 1);
            let ones = is_set(*first) + others.iter().map(|other| is_set(other[at])).sum::<usize>();
            let voted = usize::from(2 * ones + is_set(*first) > reads);
            byte | u8::from(voted == 1) << bit
        })
    };
    first.iter().enumerate().map(vote).collect()
}

/// What a codeword says about whether its code is the right one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// Erased, or so uniform that any code might accept it.
    Trivial,
    /// Valid without correction; a hash of its content.
    Valid(u64),
    /// Not valid.
    Invalid,
}

impl PageCodec {
    /// Prepares a region of a recipe.
    ///
    /// # Errors
    ///
    /// Fails if a code does not exist or if a codeword has another number of parity bits than its
    /// code.
    pub fn new(recipe: &Recipe, region: &Region) -> Result<Self, RecipeError> {
        let mut coders: Vec<Coder> = Vec::new();
        let mut parts = Vec::new();
        for word in &region.codewords {
            let (message, parity) = (word.message(), word.parity.clone());
            let (message_bits, stored) = (total(&message), total(&parity));
            let known = coders.iter().position(|coder| coder.message_bits == message_bits);
            let coder = if let Some(known) = known {
                known
            } else {
                coders.push(Coder::new(recipe.name(), region, message_bits)?);
                coders.len() - 1
            };
            let expected = coders[coder].parity_bits;
            if stored != expected {
                let message = format!("a codeword has {stored} parity bits, expected {expected}");
                return Err(RecipeError::recipe(recipe.name(), message));
            }
            let data = exchanged(&word.data, region.swap);
            parts.push(Part { message, data, parity, coder });
        }
        Ok(Self {
            raw_page: recipe.raw_page(),
            page: recipe.chip.page as usize,
            region: region.clone(),
            coders,
            parts,
            words: Words::default(),
        })
    }

    /// Returns the number of codewords in a page.
    pub fn codewords(&self) -> usize {
        self.parts.len()
    }

    /// Returns the number of bits that are corrected in a codeword.
    pub fn strength(&self) -> u32 {
        self.coders.iter().map(|coder| coder.strength).max().unwrap_or(0)
    }

    /// Returns the smallest number of parity bits of a codeword.
    pub fn parity_bits(&self) -> u32 {
        self.coders.iter().map(|coder| coder.parity_bits).min().map_or(0, narrow)
    }

    /// Encodes a page of data as raw page number `page`. A page without zeros stays erased.
    ///
    /// # Errors
    ///
    /// Fails if the seed of the scrambler is unknown for this page.
    pub fn encode(&mut self, page: u64, data: &[u8], raw: &mut [u8]) -> Result<(), u64> {
        raw.fill(0xFF);
        if data.iter().all(|byte| *byte == 0xFF) {
            return Ok(());
        }
        let mut data = data.to_vec();
        let is_reversed = self.region.order == Order::Lsb;
        if is_reversed {
            bits::reverse(&mut data);
        }
        let mut at = 0;
        for part in &self.parts {
            bits::scatter(&data, at, raw, &part.data);
            at += total(&part.data);
        }
        bits::fill(raw, &self.region.zeros, 0);
        let Self { parts, coders, words, .. } = self;
        for part in parts {
            let coder = &coders[part.coder];
            coder.load(raw, part, words);
            coder.protect(words);
            bits::scatter(&words.parity, 0, raw, &part.parity);
        }
        if is_reversed {
            bits::reverse(raw);
        }
        let scrambler = self.region.scrambler.as_ref();
        let done = scrambler.is_none_or(|scrambler| scrambler.apply(page, raw));
        if done { Ok(()) } else { Err(page) }
    }

    /// Brings a raw page into the order of the codes. Returns false if the page cannot be
    /// descrambled.
    pub(crate) fn prepare(&self, page: u64, raw: &mut [u8]) -> bool {
        let scrambler = self.region.scrambler.as_ref();
        let done = scrambler.is_none_or(|scrambler| scrambler.apply(page, raw));
        if self.region.order == Order::Lsb {
            bits::reverse(raw);
        }
        done
    }

    /// Decodes raw page number `page`, whose bytes are changed on the way, and reports each codeword
    /// in order.
    pub fn decode(
        &mut self,
        page: u64,
        raw: &mut [u8],
        data: &mut [u8],
        damaged: Damaged,
        report: impl FnMut(usize, Outcome),
    ) {
        self.decode_copies(page, raw, &mut [], data, damaged, report);
    }

    /// Decodes raw page number `page` of which `others` are further reads. For a codeword that cannot be
    /// corrected, that of the first other read counts that can; if there is none, that of which each bit is
    /// what most reads say. All bytes are changed on the way.
    pub(crate) fn decode_copies(
        &mut self,
        page: u64,
        raw: &mut [u8],
        others: &mut [Vec<u8>],
        data: &mut [u8],
        damaged: Damaged,
        mut report: impl FnMut(usize, Outcome),
    ) {
        if raw.iter().all(|byte| *byte == 0xFF) {
            data.fill(0xFF);
            (0..self.parts.len()).for_each(|index| report(index, Outcome::Erased(0)));
            return;
        }
        if !self.is_written(raw) {
            // A few leaked bits do not make a scrambled page a written one.
            data.fill(0xFF);
            self.report_leaks(raw, report);
            return;
        }
        let is_readable = self.prepare(page, raw);
        let mut are_prepared = false;
        for index in 0..self.parts.len() {
            let mut outcome =
                if is_readable { self.decode_part(raw, index) } else { Outcome::Uncorrectable };
            if outcome == Outcome::Uncorrectable && is_readable && !others.is_empty() {
                if !std::mem::replace(&mut are_prepared, true) {
                    for other in &mut *others {
                        self.prepare(page, other);
                    }
                }
                outcome = self.decode_elsewhere(raw, others, index);
            }
            if outcome == Outcome::Uncorrectable && damaged == Damaged::Zeros {
                bits::fill(raw, &self.parts[index].message, 0);
            }
            report(index, outcome);
        }
        let mut at = 0;
        for part in &self.parts {
            bits::gather(raw, &part.data, data, at);
            at += total(&part.data);
        }
        debug_assert_eq!(at, self.page * 8, "a checked recipe covers its page");
        if self.region.order == Order::Lsb {
            bits::reverse(data);
        }
    }

    /// Takes a codeword from another read, if one of them can be corrected. All are prepared.
    fn decode_elsewhere(
        &mut self,
        raw: &mut [u8],
        others: &mut [Vec<u8>],
        index: usize,
    ) -> Outcome {
        for other in &mut *others {
            let outcome = self.decode_part(other, index);
            if outcome != Outcome::Uncorrectable {
                self.take_part(other, raw, index);
                return outcome;
            }
        }
        if others.len() < 2 {
            return Outcome::Uncorrectable;
        }
        // No read of this codeword was changed by the attempts.
        let mut voted = majority(raw, others);
        let outcome = self.decode_part(&mut voted, index);
        if outcome != Outcome::Uncorrectable {
            self.take_part(&voted, raw, index);
        }
        outcome
    }

    fn take_part(&self, from: &[u8], raw: &mut [u8], index: usize) {
        for range in &self.parts[index].message {
            let (start, end) = (range.start as usize, range.end as usize);
            bits::copy(from, start, raw, start, end - start);
        }
    }

    /// Returns whether a page is programmed: of a scrambled one about half of the bits are zeros.
    fn is_written(&self, raw: &[u8]) -> bool {
        if self.region.scrambler.is_none() {
            return true;
        }
        let zeros: usize = raw.iter().map(|byte| byte.count_zeros() as usize).sum();
        zeros > self.raw_page / 8
    }

    fn report_leaks(&self, raw: &[u8], mut report: impl FnMut(usize, Outcome)) {
        for (index, part) in self.parts.iter().enumerate() {
            let ranges = part.message.iter().chain(&part.parity);
            let bytes = ranges
                .filter_map(|range| raw.get(range.start as usize / 8..range.end as usize / 8));
            let zeros = bytes.flatten().map(|byte| byte.count_zeros()).sum();
            report(index, Outcome::Erased(zeros));
        }
    }

    fn decode_part(&mut self, raw: &mut [u8], index: usize) -> Outcome {
        let (part, words) = (&self.parts[index], &mut self.words);
        let coder = &self.coders[part.coder];
        coder.load(raw, part, words);
        if coder.is_valid(words) {
            return match coder.engine {
                Engine::None => Outcome::Unverified,
                _ => Outcome::Clean,
            };
        }
        if self.region.erased != Erased::Natural
            && let Some(zeros) = leaked(raw, part)
            && (zeros == 0 || self.region.erased == Erased::Count && zeros <= coder.strength)
        {
            bits::fill(raw, &part.message, 0xFF);
            return Outcome::Erased(zeros);
        }
        let Some(corrected) = coder.correct(words) else { return Outcome::Uncorrectable };
        coder.store(words, raw, part);
        Outcome::Corrected(corrected)
    }

    /// Returns what a codeword of a prepared page says about the code.
    pub(crate) fn probe(&mut self, raw: &[u8], index: usize) -> Probe {
        let (part, words) = (&self.parts[index], &mut self.words);
        let coder = &self.coders[part.coder];
        coder.load(raw, part, words);
        if coder.is_trivial(words) {
            return Probe::Trivial;
        }
        let hash =
            words.message.iter().chain(&words.parity).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
            });
        if coder.is_valid(words) { Probe::Valid(hash) } else { Probe::Invalid }
    }

    /// Returns what decoding a codeword of a prepared page gives.
    pub(crate) fn attempt(&mut self, raw: &mut [u8], index: usize) -> Outcome {
        self.decode_part(raw, index)
    }

    /// Returns the parity bits of a codeword of a prepared page as stored, and as computed.
    pub(crate) fn parities(&mut self, raw: &[u8], index: usize) -> (Vec<u8>, Vec<u8>) {
        let (part, words) = (&self.parts[index], &mut self.words);
        self.coders[part.coder].load(raw, part, words);
        let stored = words.parity.clone();
        self.coders[part.coder].protect(words);
        (stored, words.parity.clone())
    }
}

/// Returns the number of zeros in a codeword, if there are few.
fn leaked(raw: &[u8], part: &Part) -> Option<u32> {
    const MANY: u32 = 256;
    let mut zeros = 0;
    let mut buffer = [0; 8];
    for range in part.message.iter().chain(&part.parity) {
        let (mut at, end) = (range.start as usize, range.end as usize);
        while at < end {
            let count = (end - at).min(64);
            buffer.fill(0xFF);
            bits::copy(raw, at, &mut buffer, 0, count);
            zeros += u64::from_ne_bytes(buffer).count_zeros();
            at += count;
        }
        if zeros > MANY {
            return None;
        }
    }
    Some(zeros)
}

/// Returns ranges of data with those under the marker replaced by where they are stored.
fn exchanged(data: &[BitRange], swap: Option<Swap>) -> Vec<BitRange> {
    let Some(Swap { marker, with }) = swap else { return data.to_vec() };
    let mut out = Vec::new();
    for range in data {
        let cut = BitRange { start: range.start.max(marker.start), end: range.end.min(marker.end) };
        if cut.start >= cut.end {
            out.push(*range);
            continue;
        }
        let moved = cut.start - marker.start + with.start;
        let pieces = [
            BitRange { start: range.start, end: cut.start },
            BitRange { start: moved, end: moved + cut.count() },
            BitRange { start: cut.end, end: range.end },
        ];
        out.extend(pieces.into_iter().filter(|piece| piece.start < piece.end));
    }
    out
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Coder {
    fn new(name: &str, region: &Region, message_bits: usize) -> Result<Self, RecipeError> {
        let (engine, parity_bits, strength) = engine(name, &region.code, message_bits)?;
        let pad = match &engine {
            Engine::Bch(code) => code.step() * 8 - message_bits,
            _ => 0,
        };
        let mut coder = Self {
            engine,
            message_bits,
            pad,
            parity_bits,
            mask: vec![0; parity_bits.div_ceil(8)],
            inverts_message: matches!(region.invert, Invert::Data | Invert::Both),
            strength,
        };
        if let Some(xor) = &region.xor {
            coder.mask.iter_mut().zip(&xor.0).for_each(|(byte, xor)| *byte = *xor);
        }
        if matches!(region.invert, Invert::Parity | Invert::Both) {
            coder.mask.iter_mut().for_each(|byte| *byte = !*byte);
        }
        if region.erased == Erased::Natural && !matches!(coder.engine, Engine::None) {
            let mut words = coder.erased();
            coder.mask.fill(0);
            coder.protect(&mut words);
            coder.mask = words.parity.iter().map(|byte| !byte).collect();
        }
        Ok(coder)
    }

    /// Returns an erased codeword, as loaded.
    fn erased(&self) -> Words {
        let byte = if self.inverts_message { 0 } else { 0xFF };
        let mut message = vec![0; (self.pad + self.message_bits).div_ceil(8)];
        bits::copy(
            &vec![byte; self.message_bits.div_ceil(8)],
            0,
            &mut message,
            self.pad,
            self.message_bits,
        );
        Words { message, parity: vec![0xFF; self.parity_bits.div_ceil(8)] }
    }

    /// Copies a codeword out of a page.
    fn load(&self, raw: &[u8], part: &Part, words: &mut Words) {
        words.message.clear();
        words.message.resize((self.pad + self.message_bits).div_ceil(8), 0);
        words.parity.clear();
        words.parity.resize(self.parity_bits.div_ceil(8), 0);
        bits::gather(raw, &part.message, &mut words.message, self.pad);
        bits::gather(raw, &part.parity, &mut words.parity, 0);
        self.invert(words);
    }

    fn invert(&self, words: &mut Words) {
        if self.inverts_message {
            let (first, rest) = (self.pad / 8, 0xFF_u8 >> (self.pad % 8));
            words.message[first] ^= rest;
            words.message[first + 1..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Copies a message back into its page.
    fn store(&self, words: &mut Words, raw: &mut [u8], part: &Part) {
        self.invert(words);
        bits::scatter(&words.message, self.pad, raw, &part.message);
    }

    /// Computes the parity as it is stored.
    fn protect(&self, words: &mut Words) {
        let Words { message, parity } = words;
        match &self.engine {
            Engine::Bch(code) => code.encode(message, parity),
            Engine::Hamming(code, variant) => {
                let mut ecc = code.encode(message);
                order(*variant, &mut ecc);
                parity.copy_from_slice(&ecc);
            }
            Engine::Rs(code) => pack(&code.encode(message), parity, self.parity_bits),
            Engine::None => {}
        }
        parity.iter_mut().zip(&self.mask).for_each(|(byte, mask)| *byte ^= mask);
        self.clear_rest(parity);
    }

    /// Clears the bits after the parity in its last byte.
    fn clear_rest(&self, parity: &mut [u8]) {
        let rest = self.parity_bits % 8;
        if rest > 0
            && let Some(last) = parity.last_mut()
        {
            *last &= 0xFF << (8 - rest);
        }
    }

    fn is_valid(&self, words: &Words) -> bool {
        if matches!(self.engine, Engine::None) {
            return true;
        }
        let mut computed = Words { message: Vec::new(), parity: vec![0; words.parity.len()] };
        if let Engine::Bch(code) = &self.engine {
            // The message is the long part, and is not copied.
            code.encode(&words.message, &mut computed.parity);
            computed.parity.iter_mut().zip(&self.mask).for_each(|(byte, mask)| *byte ^= mask);
            self.clear_rest(&mut computed.parity);
        } else {
            computed.message.clone_from(&words.message);
            self.protect(&mut computed);
        }
        computed.parity == words.parity
    }

    /// Corrects a codeword in place; returns the number of wrong bits.
    fn correct(&self, words: &mut Words) -> Option<u32> {
        let Words { message, parity } = words;
        parity.iter_mut().zip(&self.mask).for_each(|(byte, mask)| *byte ^= mask);
        self.clear_rest(parity);
        match &self.engine {
            Engine::Bch(code) => code.correct(message, parity).map(u32::from),
            Engine::Hamming(code, variant) => {
                order(*variant, parity);
                code.correct(message, parity).map(u32::from)
            }
            Engine::Rs(code) => {
                let mut symbols = unpack(parity, code.parity_symbols());
                code.correct(message, &mut symbols)
            }
            Engine::None => Some(0),
        }
    }

    /// Returns whether message or parity are so uniform that the code proves nothing.
    fn is_trivial(&self, words: &Words) -> bool {
        let uniform = |bytes: &[u8]| bytes.windows(2).all(|pair| pair[0] == pair[1]);
        let message = &words.message[self.pad.div_ceil(8)..];
        let whole = self.parity_bits / 8;
        let is_constant = |bytes: &[u8]| {
            bytes.iter().all(|byte| *byte == 0xFF) || bytes.iter().all(|byte| *byte == 0)
        };
        uniform(message) || is_constant(&words.parity[..whole])
    }
}

fn engine(name: &str, code: &Code, bits: usize) -> Result<(Engine, usize, u32), RecipeError> {
    let fail = |message: String| RecipeError::recipe(name, message);
    Ok(match code {
        Code::Bch { m, t, poly } => {
            let parameters = BchParameters {
                field_degree: *m,
                polynomial: *poly,
                strength: *t,
                message_bits: narrow(bits),
            };
            let code = Bch::with(parameters).map_err(|error| fail(error.to_string()))?;
            let parity = code.parity_bits() as usize;
            (Engine::Bch(Box::new(code)), parity, u32::from(*t))
        }
        Code::Hamming { step, variant } => {
            let code = Hamming::new(*step as usize);
            let code = code.filter(|code| code.step() * 8 == bits).ok_or_else(|| {
                fail(format!("Hamming over {bits} bits, step {step}: expected whole steps of 256 or 512 bytes"))
            })?;
            (Engine::Hamming(code, *variant), 24, 1)
        }
        Code::Rs { m, t, poly, b0 } => {
            if !bits.is_multiple_of(8) {
                return Err(fail(format!("Reed-Solomon over {bits} bits, expected whole bytes")));
            }
            let parameters = RsParameters {
                field_degree: *m,
                polynomial: *poly,
                strength: *t,
                first_root: *b0,
                message_bytes: narrow(bits / 8),
            };
            let code = ReedSolomon::new(parameters).map_err(|error| fail(error.to_string()))?;
            let parity = code.parity_symbols() * *m as usize;
            (Engine::Rs(Box::new(code)), parity, u32::from(*t))
        }
        Code::None => (Engine::None, 0, 0),
    })
}

fn order(variant: HammingVariant, ecc: &mut [u8]) {
    if variant == HammingVariant::SmartMedia {
        ecc.swap(0, 1);
    }
}

/// Packs symbols, the highest bit of the first one first.
fn pack(symbols: &[u16], out: &mut [u8], bits: usize) {
    let width = bits / symbols.len().max(1);
    for (index, symbol) in symbols.iter().enumerate() {
        bits::copy(&symbol.to_be_bytes(), 16 - width, out, index * width, width);
    }
}

fn unpack(bytes: &[u8], count: usize) -> Vec<u16> {
    let width = bytes.len() * 8 / count.max(1);
    let symbol = |index: usize| {
        let mut out = [0; 2];
        bits::copy(bytes, index * width, &mut out, 16 - width, width);
        u16::from_be_bytes(out)
    };
    (0..count).map(symbol).collect()
}
