//! The LZO1X decoder (spec: ubifs-format 7.2).

use crate::error::LzoError;

/// Bytes that a short copy moves at once; a copy of this size needs that much room on both sides.
const CHUNK: usize = 16;

/// Distance added to a match of the far class: instruction bytes 16 to 31.
const FAR_BASE: usize = 16384;

/// What one instruction says, before its operands are acted upon.
struct Instruction {
    length: usize,
    distance: usize,
    trailing: usize,
}

/// Number of literals the previous step copied, as the next instruction sees it.
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
/// The whole of `input` must be the stream: nothing may follow its end marker. On an error the
/// content of `out` is unspecified.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), LzoError> {
    if input.len() < 3 {
        return Err(LzoError::TooShort { found: input.len() });
    }
    let mut decoder = Decoder { input, read: 0, out, written: 0 };
    decoder.run()
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
            let byte = self.byte()?;
            let Instruction { length, distance, trailing } = match byte {
                64.. => self.short_match(byte)?,
                32..=63 => self.medium_match(byte)?,
                16..=31 => match self.far_match(byte)? {
                    Some(instruction) => instruction,
                    None => return self.finish(),
                },
                0..=15 => match after {
                    After::Match => {
                        let length = 3 + self.extended(usize::from(byte), 15)?;
                        self.literals(length)?;
                        after = After::LongRun;
                        continue;
                    }
                    After::FewLiterals => self.tiny_match(byte, 2, 1)?,
                    After::LongRun => self.tiny_match(byte, 3, 2049)?,
                },
            };
            self.copy(distance, length)?;
            after = self.trailing_literals(trailing)?;
        }
    }

    /// The literals that the first byte of a stream may announce.
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

    /// A length field; 0 stands for `all_ones` and an extension made of zero bytes, 255 each, and
    /// one other byte.
    #[inline(always)]
    fn extended(&mut self, field: usize, all_ones: usize) -> Result<usize, LzoError> {
        if field != 0 {
            return Ok(field);
        }
        let rest = self.input.get(self.read..).unwrap_or(&[]);
        let zeros = rest.iter().position(|byte| *byte != 0).ok_or(LzoError::InputEnds)?;
        self.read += zeros + 1;
        // Saturated, it is more than any output has room for.
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

    /// `None` is the end marker.
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

    /// Copies a match, which may overlap what it produces.
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
        if self.written != self.out.len() {
            let (produced, expected) = (self.written, self.out.len());
            return Err(LzoError::OutputShort { produced, expected });
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

/// Fills `window` from `distance` on with the bytes `distance` before.
fn copy_slowly(window: &mut [u8], distance: usize) {
    let mut filled = distance;
    // What is filled is a multiple of the period long: copying all of it keeps the period.
    while filled < window.len() {
        let count = filled.min(window.len() - filled);
        let (done, rest) = window.split_at_mut(filled);
        rest[..count].copy_from_slice(&done[..count]);
        filled += count;
    }
}
