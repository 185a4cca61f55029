//! The LZO1X decoder (spec: ubifs-format 7.2).
//!
//! Nearly all of a stream is literals, short matches and medium matches: [`Decoder::common`]
//! handles those in large chunks. [`Decoder::step`] handles everything else, both ends of the
//! stream and every error, one instruction at a time.
#![expect(clippy::cast_possible_truncation, reason = "parts of words are cut out on purpose")]

use crate::error::LzoError;

/// Bytes that a short copy moves at once; such a copy needs this much space in source and target.
const CHUNK: usize = 16;

/// Maximum input bytes of a common instruction with its literals.
const AHEAD: usize = 19;

/// Space for the longest common match and a chunk that extends beyond its end.
const ROOM: usize = 33 + CHUNK;

/// Distance added to a match of the far class: instruction bytes 16 to 31.
const FAR_BASE: usize = 16384;

/// One decoded instruction, before its operands are used.
struct Instruction {
    length: usize,
    distance: usize,
    trailing: usize,
}

/// The decoding of short and medium matches from their first eight bytes, without branches, because
/// the next kind is hard to predict.
#[derive(Clone, Copy)]
struct Match {
    distance_shift: u8,
    distance_mask: u16,
    /// Added to the distance.
    base: u8,
    trailing_shift: u8,
    length: u8,
    /// Bytes of the instruction.
    size: u8,
}

/// Indexed by first byte, from 32; 32 itself is handled separately.
const MATCHES: [Match; 256] = {
    let medium = Match {
        distance_shift: 10,
        distance_mask: 0x3FFF,
        base: 1,
        trailing_shift: 8,
        length: 2,
        size: 3,
    };
    let mut matches = [medium; 256];
    let mut byte = 32;
    while byte < 256 {
        let this = &mut matches[byte];
        if byte < 64 {
            this.length += byte as u8 & 31;
        } else {
            this.distance_shift = 5;
            this.distance_mask = 0x7F8;
            this.base += byte as u8 >> 2 & 7;
            this.trailing_shift = 0;
            this.length = 1 + (byte as u8 >> 5);
            this.size = 2;
        }
        byte += 1;
    }
    matches
};

impl Match {
    /// Returns the distance, and the number of trailing literals.
    #[inline(always)]
    fn operands(self, word: u64) -> (usize, usize) {
        let distance = (word >> self.distance_shift) as u16 & self.distance_mask;
        let trailing = (word >> self.trailing_shift) as u8 & 3;
        (usize::from(self.base) + usize::from(distance), usize::from(trailing))
    }
}

/// The number of literals of the previous step, as the next instruction interprets it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// A match without trailing literals.
    Match,
    /// One to three literals.
    FewLiterals,
    /// A run of four or more literals.
    LongRun,
}

/// Decodes one LZO1X stream into `out`, which it must fill exactly.
///
/// `input` must be the whole stream, without bytes after its end marker. After an error, the
/// content of `out` is unspecified.
///
/// # Errors
///
/// Fails if the stream is invalid or does not decode to exactly `out.len()` bytes.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), LzoError> {
    let expected = out.len();
    let produced = decompress_up_to(input, out)?;
    if produced == expected { Ok(()) } else { Err(LzoError::OutputShort { produced, expected }) }
}

/// The same for data whose length is not known: returns how many bytes of `out` it fills.
///
/// # Errors
///
/// Fails if the stream is invalid or decodes to more than `out.len()` bytes.
pub fn decompress_up_to(input: &[u8], out: &mut [u8]) -> Result<usize, LzoError> {
    if input.len() < 3 {
        return Err(LzoError::TooShort { found: input.len() });
    }
    let mut decoder = Decoder { input, read: 0, out, written: 0 };
    decoder.run()?;
    Ok(decoder.written)
}

struct Decoder<'a> {
    input: &'a [u8],
    /// Bytes of `input` consumed; never more than its length.
    read: usize,
    out: &'a mut [u8],
    /// Bytes of `out` produced; never more than its length.
    written: usize,
}

impl Decoder<'_> {
    fn run(&mut self) -> Result<(), LzoError> {
        let mut after = self.first_literals()?;
        loop {
            after = self.common(after);
            match self.step(after)? {
                Some(next) => after = next,
                None => return self.finish(),
            }
        }
    }

    /// Executes common instructions while both ends are far away; stops before any other
    /// instruction and before an invalid one.
    fn common(&mut self, mut after: After) -> After {
        let Self { input, out, .. } = self;
        let (mut read, mut written) = (self.read, self.written);
        while let Some(ahead) = input.get(read..).and_then(<[u8]>::first_chunk::<AHEAD>) {
            let word = u64::from_le_bytes(std::array::from_fn(|at| ahead[at]));
            let byte = ahead[0];
            if byte < 32 {
                let is_run = (1..16).contains(&byte) && after == After::Match;
                if !is_run {
                    break;
                }
                let target = out.get_mut(written..).and_then(<[u8]>::first_chunk_mut);
                let Some(target) = target else { break };
                let literals: &mut [u8; AHEAD - 1] = target;
                literals.copy_from_slice(&ahead[1..]);
                read += 4 + usize::from(byte);
                written += 3 + usize::from(byte);
                after = After::LongRun;
                continue;
            }
            let Match { length, size, .. } = MATCHES[usize::from(byte)];
            let (distance, trailing) = MATCHES[usize::from(byte)].operands(word);
            if byte == 32 {
                break;
            }
            let room = out.get_mut(..written + ROOM);
            let (Some(from), Some(room)) = (written.checked_sub(distance), room) else { break };
            copy_roomy(room, from, written, usize::from(length));
            written += usize::from(length);
            let literals = (word >> (8 * size)) as u32;
            room[written..written + 4].copy_from_slice(&literals.to_le_bytes());
            read += usize::from(size) + trailing;
            written += trailing;
            after = if trailing == 0 { After::Match } else { After::FewLiterals };
        }
        (self.read, self.written) = (read, written);
        after
    }

    /// Executes one instruction; returns `None` at the end marker.
    fn step(&mut self, after: After) -> Result<Option<After>, LzoError> {
        let byte = self.byte()?;
        let Instruction { length, distance, trailing } = match byte {
            64.. => self.short_match(byte)?,
            32..=63 => self.medium_match(byte)?,
            16..=31 => match self.far_match(byte)? {
                Some(instruction) => instruction,
                None => return Ok(None),
            },
            0..=15 => match after {
                After::Match => {
                    let length = 3 + self.extended(usize::from(byte), 15)?;
                    self.literals(length)?;
                    return Ok(Some(After::LongRun));
                }
                After::FewLiterals => self.tiny_match(byte, 2, 1)?,
                After::LongRun => self.tiny_match(byte, 3, 2049)?,
            },
        };
        self.copy(distance, length)?;
        self.trailing_literals(trailing).map(Some)
    }

    /// Returns the literals that the first byte of a stream may announce.
    fn first_literals(&mut self) -> Result<After, LzoError> {
        let first = usize::from(self.input[0]);
        if first <= 17 {
            return Ok(After::Match);
        }
        self.read = 1;
        self.literals(first - 17)?;
        Ok(if first < 21 { After::FewLiterals } else { After::LongRun })
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, LzoError> {
        let byte = *self.input.get(self.read).ok_or(LzoError::InputEnds)?;
        self.read += 1;
        Ok(byte)
    }

    #[inline(always)]
    fn word(&mut self) -> Result<usize, LzoError> {
        let bytes = self.input.get(self.read..self.read + 2).ok_or(LzoError::InputEnds)?;
        self.read += 2;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Returns the value of a length field; 0 means `all_ones` plus an extension of zero bytes, 255
    /// each, and one other byte.
    #[inline(always)]
    fn extended(&mut self, field: usize, all_ones: usize) -> Result<usize, LzoError> {
        if field != 0 {
            return Ok(field);
        }
        let rest = self.input.get(self.read..).unwrap_or(&[]);
        let zeros = rest.iter().position(|byte| *byte != 0).ok_or(LzoError::InputEnds)?;
        self.read += zeros + 1;
        // A saturated length exceeds any output.
        Ok(zeros.saturating_mul(255).saturating_add(all_ones + usize::from(rest[zeros])))
    }

    #[inline(always)]
    fn short_match(&mut self, byte: u8) -> Result<Instruction, LzoError> {
        let field = usize::from(byte);
        let high = usize::from(self.byte()?);
        Ok(Instruction {
            length: 1 + (field >> 5),
            distance: 1 + ((field >> 2) & 7) + 8 * high,
            trailing: field & 3,
        })
    }

    #[inline(always)]
    fn medium_match(&mut self, byte: u8) -> Result<Instruction, LzoError> {
        let length = 2 + self.extended(usize::from(byte & 31), 31)?;
        let word = self.word()?;
        Ok(Instruction { length, distance: 1 + (word >> 2), trailing: word & 3 })
    }

    /// Decodes a far match; returns `None` for the end marker.
    fn far_match(&mut self, byte: u8) -> Result<Option<Instruction>, LzoError> {
        let length = 2 + self.extended(usize::from(byte & 7), 7)?;
        let word = self.word()?;
        let far = (usize::from(byte & 8) << 11) + (word >> 2);
        if far == 0 {
            return if length == 3 { Ok(None) } else { Err(LzoError::EndMarker { length }) };
        }
        Ok(Some(Instruction { length, distance: FAR_BASE + far, trailing: word & 3 }))
    }

    #[inline(always)]
    fn tiny_match(
        &mut self,
        byte: u8,
        length: usize,
        nearest: usize,
    ) -> Result<Instruction, LzoError> {
        let field = usize::from(byte);
        let high = usize::from(self.byte()?);
        let distance = nearest + (field >> 2) + 4 * high;
        Ok(Instruction { length, distance, trailing: field & 3 })
    }

    /// Copies the 0 to 3 literals that follow a match.
    #[inline(always)]
    fn trailing_literals(&mut self, count: usize) -> Result<After, LzoError> {
        if count == 0 {
            return Ok(After::Match);
        }
        let source = self.input.get(self.read..self.read + 4);
        let target = self.out.get_mut(self.written..self.written + 4);
        if let (Some(source), Some(target)) = (source, target) {
            target.copy_from_slice(source);
            self.read += count;
            self.written += count;
        } else {
            self.literals(count)?;
        }
        Ok(After::FewLiterals)
    }

    #[inline(always)]
    fn literals(&mut self, count: usize) -> Result<(), LzoError> {
        if count <= CHUNK {
            let source = self.input.get(self.read..self.read + CHUNK);
            let target = self.out.get_mut(self.written..self.written + CHUNK);
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
                self.read += count;
                self.written += count;
                return Ok(());
            }
        }
        let rest = self.input.get(self.read..).unwrap_or(&[]);
        let source = rest.get(..count).ok_or(LzoError::InputEnds)?;
        let limit = self.out.len();
        let room = &mut self.out[self.written..];
        let target = room.get_mut(..count).ok_or(LzoError::OutputOverrun { limit })?;
        target.copy_from_slice(source);
        self.read += count;
        self.written += count;
        Ok(())
    }

    /// Copies a match, which may overlap its own output.
    #[inline(always)]
    fn copy(&mut self, distance: usize, length: usize) -> Result<(), LzoError> {
        let to = self.written;
        let Some(from) = to.checked_sub(distance) else {
            return Err(LzoError::Distance { distance, produced: to });
        };
        if length > self.out.len() - to {
            return Err(LzoError::OutputOverrun { limit: self.out.len() });
        }
        self.written = to + length;
        if distance >= CHUNK
            && length <= 2 * CHUNK
            && let Some(window) = self.out.get_mut(from..to + 2 * CHUNK)
        {
            copy_chunk(window, distance, 0);
            if length > CHUNK {
                copy_chunk(window, distance, CHUNK);
            }
            return Ok(());
        }
        copy_slowly(&mut self.out[from..to + length], distance);
        Ok(())
    }

    fn finish(&self) -> Result<(), LzoError> {
        if self.read != self.input.len() {
            return Err(LzoError::BytesAfterEnd { count: self.input.len() - self.read });
        }
        Ok(())
    }
}

/// Moves one chunk forward by `distance`, both counted from the start of `window`.
#[inline(always)]
fn copy_chunk(window: &mut [u8], distance: usize, at: usize) {
    let mut chunk = [0; CHUNK];
    chunk.copy_from_slice(&window[at..at + CHUNK]);
    window[distance + at..distance + at + CHUNK].copy_from_slice(&chunk);
}

/// Copies a match in chunks; the last chunk may extend beyond its end. While source and target are
/// less than a chunk apart, the source stays: the data between them is periodic.
#[inline(always)]
fn copy_roomy(out: &mut [u8], mut from: usize, mut to: usize, length: usize) {
    let end = to + length;
    loop {
        let mut chunk = [0; CHUNK];
        chunk.copy_from_slice(&out[from..from + CHUNK]);
        out[to..to + CHUNK].copy_from_slice(&chunk);
        let apart = to - from;
        to += apart.min(CHUNK);
        if to >= end {
            return;
        }
        if apart >= CHUNK {
            from += CHUNK;
        }
    }
}

/// Fills `window` from `distance` with the bytes `distance` before.
fn copy_slowly(window: &mut [u8], distance: usize) {
    let mut filled = distance;
    // The filled part is a multiple of the period long: copying all of it keeps the period.
    while filled < window.len() {
        let count = filled.min(window.len() - filled);
        let (done, rest) = window.split_at_mut(filled);
        rest[..count].copy_from_slice(&done[..count]);
        filled += count;
    }
}
