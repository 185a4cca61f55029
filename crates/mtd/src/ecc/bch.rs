//! Binary BCH codes: as Linux's software ECC stores them, 1 to 16 bits per step, and any other up to
//! 72 bits per codeword with fields of up to 2^15 elements.
//!
//! A remainder is kept left-aligned in 64-bit words, so that eight data bytes are combined with its
//! first word at once.

use super::galois::Field;
use std::error::Error;
use std::fmt;

/// Words in the longest remainder: 15 * 72 bits.
const WORDS: usize = 17;
type Remainder = [u64; WORDS];

/// An unsupported BCH code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BchError {
    /// Bytes per step.
    pub step: usize,
    /// Correctable bits per step.
    pub strength: u16,
}

impl fmt::Display for BchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, strength } = self;
        write!(
            f,
            "BCH over {step} bytes with {strength} bits is not supported: expected steps of 512 or 1024 bytes and 1 to 16 bits"
        )
    }
}

impl Error for BchError {}

/// The parameters of any BCH code over bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BchParameters {
    /// The field has 2^`field_degree` elements.
    pub field_degree: u32,
    /// The primitive polynomial of the field, its leading bit included.
    pub polynomial: u32,
    /// Correctable bits per codeword.
    pub strength: u16,
    /// Bits of a codeword that are not parity.
    pub message_bits: u32,
}

impl BchParameters {
    /// The highest strength.
    pub const STRENGTH_MAX: u16 = 72;
}

impl fmt::Display for BchParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field_degree, polynomial, strength, message_bits } = self;
        write!(
            f,
            "BCH with {strength} bits over {message_bits} in GF(2^{field_degree}) of {polynomial:#x}"
        )
    }
}

/// Parameters that are no code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParameterError(BchParameters);

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not supported: expected a primitive polynomial of degree 5 to 15, 1 to 72 bits, and a codeword that is shorter than the field",
            self.0
        )
    }
}

impl Error for ParameterError {}

/// A BCH code: corrects up to its strength of wrong bits in a step and its ECC bytes together.
#[derive(Clone, Debug)]
pub struct Bch {
    field: Field,
    step: usize,
    step_bits: u32,
    /// Bits of the codeword before the remainder; those of the step before them are zeros.
    message_bits: u32,
    strength: u16,
    /// The length of the remainder in bits: the degree of the generator polynomial.
    degree: u32,
    ecc_bytes: usize,
    /// The contributions of the eight bytes before the remainder, each alone: 256 entries for each
    /// byte, each with as many words as the remainder.
    tables: Vec<u64>,
    /// Turns the ECC of an erased step into 0xFF.
    mask: Vec<u8>,
}

impl Bch {
    /// Returns the code for steps of 512 bytes (GF(2^13)) or 1024 bytes (GF(2^14)), 1 to 16 bits.
    ///
    /// # Errors
    ///
    /// Fails for other steps or strengths.
    pub fn new(step: usize, strength: u16) -> Result<Self, BchError> {
        let field_degree = match step {
            512 => 13,
            1024 => 14,
            _ => return Err(BchError { step, strength }),
        };
        if !(1..=16).contains(&strength) {
            return Err(BchError { step, strength });
        }
        let polynomial = if field_degree == 13 { 0x201B } else { 0x402B };
        let message_bits = if step == 512 { 4096 } else { 8192 };
        let parameters = BchParameters { field_degree, polynomial, strength, message_bits };
        let mut code = Self::with(parameters).map_err(|_| BchError { step, strength })?;
        let mut erased = vec![0; code.ecc_bytes];
        code.encode(&vec![0xFF; step], &mut erased);
        code.mask = erased.iter().map(|byte| !byte).collect();
        Ok(code)
    }

    /// Returns any code, with its remainder as it is: the ECC of an erased step is not 0xFF.
    ///
    /// A step is the message after zero bits that make it a multiple of eight bytes. These zeros
    /// are no part of the codeword, and no error is located in them.
    ///
    /// # Errors
    ///
    /// Fails if the polynomial is not primitive, if the strength is not 1 to 72, or if the codeword
    /// is not shorter than the field.
    pub fn with(parameters: BchParameters) -> Result<Self, ParameterError> {
        let BchParameters { field_degree, polynomial, strength, message_bits } = parameters;
        let fail = ParameterError(parameters);
        let field = Field::new(field_degree, polynomial).ok_or(fail)?;
        let strengths = 1..=BchParameters::STRENGTH_MAX;
        if !strengths.contains(&strength) || 2 * u32::from(strength) >= field.order {
            return Err(fail);
        }
        let generator = generator(&field, u32::from(strength));
        let degree = u32::try_from(generator.len() - 1).unwrap_or(u32::MAX);
        let length = message_bits.checked_add(degree).ok_or(fail)?;
        if message_bits == 0 || length > field.order || degree as usize > 64 * WORDS {
            return Err(fail);
        }
        let ecc_bytes = (degree as usize).div_ceil(8);
        let tables = tables(&generator, ecc_bytes.div_ceil(8));
        let step_bits = message_bits.next_multiple_of(64);
        let step = step_bits as usize / 8;
        let mask = vec![0; ecc_bytes];
        Ok(Self { field, step, step_bits, message_bits, strength, degree, ecc_bytes, tables, mask })
    }

    /// Returns the number of bytes in a step.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Returns the number of bits that can be corrected in a step.
    pub fn strength(&self) -> u16 {
        self.strength
    }

    /// Returns the number of ECC bytes per step.
    pub fn ecc_bytes(&self) -> usize {
        self.ecc_bytes
    }

    /// Returns the number of parity bits: the degree of the generator polynomial.
    pub fn parity_bits(&self) -> u32 {
        self.degree
    }

    /// Returns the generator polynomial, lowest coefficient first.
    pub fn generator(&self) -> Vec<bool> {
        generator(&self.field, u32::from(self.strength))
    }

    /// Writes the ECC of a step to the first [`Self::ecc_bytes`] bytes of `ecc`. Both slices must
    /// be long enough.
    pub fn encode(&self, data: &[u8], ecc: &mut [u8]) {
        // A remainder of constant length keeps the loop in registers.
        macro_rules! by_words {
            ($($words:literal)*) => {
                match self.ecc_bytes.div_ceil(8) {
                    $($words => self.encode_words::<$words>(data, ecc),)*
                    _ => self.encode_words::<WORDS>(data, ecc),
                }
            };
        }
        by_words!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    }

    fn encode_words<const W: usize>(&self, data: &[u8], ecc: &mut [u8]) {
        let mut rest = [0_u64; W];
        let (entries, _) = self.tables.as_chunks::<W>();
        let (tables, _) = entries.as_chunks::<256>();
        for chunk in data[..self.step].chunks_exact(8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            let front = (rest[0] ^ u64::from_be_bytes(bytes)).to_be_bytes();
            rest.copy_within(1.., 0);
            rest[W - 1] = 0;
            for (byte, table) in front.into_iter().zip(tables) {
                let entry = &table[usize::from(byte)];
                for (word, add) in rest.iter_mut().zip(entry) {
                    *word ^= add;
                }
            }
        }
        let bytes = rest.iter().flat_map(|word| word.to_be_bytes());
        for ((out, byte), mask) in ecc.iter_mut().zip(bytes).zip(&self.mask) {
            *out = byte ^ mask;
        }
    }

    /// Corrects a step in place, using its stored ECC. Returns the number of wrong bits, including
    /// those in the ECC, or `None` if there are too many; then nothing is changed.
    pub fn correct(&self, data: &mut [u8], stored: &[u8]) -> Option<u16> {
        let mut difference = vec![0; self.ecc_bytes];
        self.encode(data, &mut difference);
        for (byte, stored) in difference.iter_mut().zip(stored) {
            *byte ^= stored;
        }
        // Padding below the remainder is not part of the code.
        let padding = (8 - self.degree % 8) % 8;
        if let Some(last) = difference.last_mut() {
            *last &= 0xFF << padding;
        }
        if difference.iter().all(|byte| *byte == 0) {
            return Some(0);
        }
        let locator = self.locator(&self.syndromes(&difference))?;
        let wrong = self.roots(&locator)?;
        for position in &wrong {
            if let Some(bit) = position.checked_sub(self.degree) {
                // Position 0 is the last bit of the last byte.
                let from_start = self.step_bits - 1 - bit;
                data[from_start as usize / 8] ^= 0x80 >> (from_start % 8);
            }
        }
        u16::try_from(wrong.len()).ok()
    }

    /// Returns the difference polynomial at the powers 1 to 2t of the generator.
    fn syndromes(&self, difference: &[u8]) -> Vec<u16> {
        let count = 2 * usize::from(self.strength);
        let mut syndromes = vec![0; count];
        let positions = (0..self.degree).filter(|at| {
            let from_start = self.degree - 1 - at;
            difference[from_start as usize / 8] >> (7 - from_start % 8) & 1 == 1
        });
        for at in positions {
            for (power, syndrome) in (1_u32..).zip(&mut syndromes).step_by(2) {
                *syndrome ^= self.field.power(at * power);
            }
        }
        // In characteristic 2, the value at a square is the square of the value.
        for index in (1..count).step_by(2) {
            let root = syndromes[index / 2];
            syndromes[index] = self.field.multiply(root, root);
        }
        syndromes
    }

    /// Berlekamp-Massey: returns the shortest polynomial (lowest coefficient first) whose roots can
    /// be the inverses of the error positions, or `None` if it needs more than t errors.
    fn locator(&self, syndromes: &[u16]) -> Option<Vec<u16>> {
        let field = &self.field;
        let size = syndromes.len() + 1;
        let (mut current, mut previous) = (vec![0; size], vec![0; size]);
        (current[0], previous[0]) = (1, 1);
        let (mut length, mut gap, mut last) = (0_usize, 1_usize, 1_u16);
        for step in 0..syndromes.len() {
            let discrepancy = (0..=length)
                .fold(0, |sum, at| sum ^ field.multiply(current[at], syndromes[step - at]));
            if discrepancy == 0 {
                gap += 1;
                continue;
            }
            let factor = field.divide(discrepancy, last);
            let before = current.clone();
            for at in gap..size {
                current[at] ^= field.multiply(factor, previous[at - gap]);
            }
            if 2 * length <= step {
                (length, previous, last, gap) = (step + 1 - length, before, discrepancy, 1);
            } else {
                gap += 1;
            }
        }
        current.truncate(length + 1);
        let fits = length <= usize::from(self.strength) && current.last() != Some(&0);
        fits.then_some(current)
    }

    /// Returns the error positions, if the locator has as many roots inside the code word as its
    /// degree.
    fn roots(&self, locator: &[u16]) -> Option<Vec<u32>> {
        let field = &self.field;
        let bits = self.message_bits + self.degree;
        // Terms as logarithms; the step to the next position divides term k by the k-th power.
        let mut terms: Vec<(u32, u32)> = (1_u32..)
            .zip(&locator[1..])
            .filter(|(_, coefficient)| **coefficient != 0)
            .map(|(power, coefficient)| (field.order - power, field.log(*coefficient)))
            .collect();
        let mut found = Vec::new();
        for position in 0..bits {
            let mut sum = locator[0];
            for (step, log) in &mut terms {
                sum ^= field.element(*log);
                *log += *step;
                if *log >= field.order {
                    *log -= field.order;
                }
            }
            if sum == 0 {
                found.push(position);
                if found.len() + 1 == locator.len() {
                    return Some(found);
                }
            }
        }
        None
    }
}

/// Returns the generator polynomial, lowest coefficient first: the least common multiple of the
/// minimal polynomials of the odd powers 1, 3, ..., 2t - 1.
fn generator(field: &Field, strength: u32) -> Vec<bool> {
    let mut product = vec![true];
    let mut covered = std::collections::BTreeSet::new();
    for exponent in (1..2 * strength).step_by(2) {
        if covered.contains(&exponent) {
            continue;
        }
        let (factor, roots) = field.minimal_polynomial(exponent);
        debug_assert!(factor.len() <= field.degree as usize + 1);
        covered.extend(roots);
        let mut next = vec![false; product.len() + factor.len() - 1];
        for (left, _) in product.iter().enumerate().filter(|(_, set)| **set) {
            for (right, _) in factor.iter().enumerate().filter(|(_, set)| **set) {
                next[left + right] ^= true;
            }
        }
        product = next;
    }
    product
}

/// Computes, for each of eight bytes before the remainder, its left-aligned contribution.
fn tables(generator: &[bool], words: usize) -> Vec<u64> {
    // The generator below its leading term, left-aligned.
    let mut below = [0; WORDS];
    for (place, _) in generator.iter().rev().skip(1).enumerate().filter(|(_, set)| **set) {
        below[place / 64] |= 1 << (63 - place % 64);
    }
    let shifted = |mut rest: Remainder| {
        let carry = rest[0] >> 63 == 1;
        for word in 0..WORDS {
            let next = rest.get(word + 1).map_or(0, |next| next >> 63);
            rest[word] = rest[word] << 1 | next;
        }
        if carry {
            rest.iter_mut().zip(below).for_each(|(word, add)| *word ^= add);
        }
        rest
    };
    let mut tables = vec![0; 8 * 256 * words];
    // The leading byte is shifted out bit by bit at any distance. This equals a byte at the start
    // of the remainder itself, followed by 8 * distance further shifts.
    for byte in 1..=255_u8 {
        let mut rest = [0; WORDS];
        rest[0] = u64::from(byte) << 56;
        for distance in 0..8 {
            (0..8).for_each(|_| rest = shifted(rest));
            let at = ((7 - distance) * 256 + usize::from(byte)) * words;
            tables[at..at + words].copy_from_slice(&rest[..words]);
        }
    }
    tables
}
