//! Reed-Solomon codes over GF(2^m), as some controllers store them: a byte of data is a symbol, the
//! parity symbols have m bits.

use super::galois::Field;
use std::error::Error;
use std::fmt;

/// The parameters of a Reed-Solomon code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RsParameters {
    /// Bits in a symbol.
    pub field_degree: u32,
    /// The primitive polynomial of the field, its leading bit included.
    pub polynomial: u32,
    /// Correctable symbols per codeword.
    pub strength: u16,
    /// The exponent of the first root of the generator.
    pub first_root: u32,
    /// Bytes of a codeword that are not parity.
    pub message_bytes: u32,
}

/// Parameters that are no code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RsError(RsParameters);

impl fmt::Display for RsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RsParameters { field_degree, polynomial, strength, message_bytes, .. } = self.0;
        write!(
            f,
            "Reed-Solomon with {strength} symbols over {message_bytes} bytes in GF(2^{field_degree}) of {polynomial:#x} is not supported: expected a primitive polynomial of degree 8 to 15, 1 to 32 symbols, and a codeword that is shorter than the field"
        )
    }
}

impl Error for RsError {}

/// A Reed-Solomon code: corrects up to its strength of wrong symbols.
#[derive(Clone, Debug)]
pub struct ReedSolomon {
    field: Field,
    parameters: RsParameters,
    /// The number of parity symbols.
    count: usize,
    /// For each symbol its products with the generator's coefficients, highest power first, without
    /// the leading one.
    products: Vec<u16>,
}

impl ReedSolomon {
    /// Returns a code.
    ///
    /// # Errors
    ///
    /// Fails if the polynomial is not primitive, if the strength is not 1 to 32, or if the codeword
    /// is not shorter than the field.
    pub fn new(parameters: RsParameters) -> Result<Self, RsError> {
        let RsParameters { field_degree, polynomial, strength, first_root, message_bytes } =
            parameters;
        let fail = RsError(parameters);
        if field_degree < 8 || !(1..=32).contains(&strength) {
            return Err(fail);
        }
        let field = Field::new(field_degree, polynomial).ok_or(fail)?;
        let count = 2 * u32::from(strength);
        let length = message_bytes.checked_add(count).ok_or(fail)?;
        if message_bytes == 0 || length > field.order || first_root >= field.order {
            return Err(fail);
        }
        // The product of x - root over all roots, highest power first.
        let mut product = vec![1_u16];
        for exponent in first_root..first_root + count {
            let root = field.power(exponent);
            let mut next = product.clone();
            next.push(0);
            for (place, coefficient) in product.iter().enumerate() {
                next[place + 1] ^= field.multiply(*coefficient, root);
            }
            product = next;
        }
        let symbols = (0..=field.order).filter_map(|symbol| u16::try_from(symbol).ok());
        let coefficients = &product[1..];
        let products = symbols
            .flat_map(|symbol| coefficients.iter().map(move |coefficient| (symbol, *coefficient)))
            .map(|(symbol, coefficient)| field.multiply(symbol, coefficient))
            .collect();
        Ok(Self { field, parameters, count: coefficients.len(), products })
    }

    /// Returns the number of parity symbols.
    pub fn parity_symbols(&self) -> usize {
        self.count
    }

    /// Returns the number of correctable symbols.
    pub fn strength(&self) -> u16 {
        self.parameters.strength
    }

    /// Returns the parity symbols of a message, highest power first.
    pub fn encode(&self, message: &[u8]) -> Vec<u16> {
        let mut rest = vec![0_u16; self.count];
        for byte in message {
            let factor = usize::from(rest[0] ^ u16::from(*byte));
            rest.copy_within(1.., 0);
            rest[self.count - 1] = 0;
            let products = &self.products[factor * self.count..][..self.count];
            for (symbol, product) in rest.iter_mut().zip(products) {
                *symbol ^= product;
            }
        }
        rest
    }

    /// Corrects a message and its parity in place. Returns the number of wrong bits, or `None` if
    /// more symbols than the strength are wrong; then nothing is changed.
    pub fn correct(&self, message: &mut [u8], parity: &mut [u16]) -> Option<u32> {
        let computed = self.encode(message);
        let difference: Vec<u16> =
            computed.iter().zip(&*parity).map(|(left, right)| left ^ right).collect();
        if difference.iter().all(|symbol| *symbol == 0) {
            return Some(0);
        }
        let syndromes = self.syndromes(&difference);
        let locator = self.locator(&syndromes)?;
        let wrong = self.values(&locator, &syndromes, message.len() + parity.len())?;
        let symbols = message.len() + parity.len();
        let is_possible = |(position, value): &(usize, u16)| {
            let index = symbols - 1 - position;
            let width = if index < message.len() { 8 } else { self.parameters.field_degree };
            u32::from(*value) >> width == 0
        };
        if !wrong.iter().all(is_possible) {
            return None;
        }
        for (position, value) in &wrong {
            let index = symbols - 1 - position;
            match index.checked_sub(message.len()) {
                None => message[index] ^= value.to_le_bytes()[0],
                Some(index) => parity[index] ^= value,
            }
        }
        Some(wrong.iter().map(|(_, value)| value.count_ones()).sum())
    }

    /// Returns the difference polynomial at the roots of the generator.
    fn syndromes(&self, difference: &[u16]) -> Vec<u16> {
        let first = self.parameters.first_root;
        let count = u32::try_from(self.count).unwrap_or(0);
        let at = |exponent| {
            let root = self.field.power(exponent);
            difference.iter().fold(0, |sum, symbol| self.field.multiply(sum, root) ^ symbol)
        };
        (first..first + count).map(at).collect()
    }

    /// Berlekamp-Massey: returns the error locator, lowest coefficient first, or `None` if it needs
    /// more than t errors.
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
        let fits = length <= usize::from(self.parameters.strength) && current.last() != Some(&0);
        fits.then_some(current)
    }

    /// Forney: returns the positions (0 is the last symbol) and values of the errors.
    fn values(
        &self,
        locator: &[u16],
        syndromes: &[u16],
        symbols: usize,
    ) -> Option<Vec<(usize, u16)>> {
        let field = &self.field;
        let evaluate = |polynomial: &[u16], log: u32| {
            let point = field.power(log);
            polynomial.iter().rev().fold(0, |sum, term| field.multiply(sum, point) ^ term)
        };
        let degree = locator.len() - 1;
        // The evaluator: syndromes times locator, modulo x^2t.
        let evaluator: Vec<u16> = (0..degree)
            .map(|at| {
                (0..=at).fold(0, |sum, low| sum ^ field.multiply(locator[low], syndromes[at - low]))
            })
            .collect();
        let derivative: Vec<u16> = (1..locator.len())
            .map(|power| if power % 2 == 1 { locator[power] } else { 0 })
            .collect();
        let mut found = Vec::new();
        for (position, log) in (0..symbols).zip(0_u32..) {
            let inverse = (field.order - log) % field.order;
            if evaluate(locator, inverse) != 0 {
                continue;
            }
            let slope = evaluate(&derivative, inverse);
            if slope == 0 {
                return None;
            }
            let value = field.divide(evaluate(&evaluator, inverse), slope);
            // The value has the position to the power of 1 - b as a factor.
            let order = u64::from(field.order);
            let shift = u64::from(log) * (order + 1 - u64::from(self.parameters.first_root));
            let shift = u32::try_from(shift % order).unwrap_or(0);
            found.push((position, field.multiply(value, field.power(shift))));
        }
        (found.len() == degree).then_some(found)
    }
}
