//! Polynomials over GF(2): long ones for codewords, short ones (bits of a `u64`) for registers.

/// A polynomial of any degree; the lowest coefficient is bit 0 of the first word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Polynomial(Vec<u64>);

impl Polynomial {
    /// Returns the polynomial whose highest coefficient is the highest bit of the first byte.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let words = bytes
            .rchunks(8)
            .map(|chunk| chunk.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte)));
        let mut polynomial = Self(words.collect());
        polynomial.trim();
        polynomial
    }

    /// Returns the polynomial with these coefficients, lowest first.
    pub(crate) fn from_bits(bits: &[bool]) -> Self {
        let word = |chunk: &[bool]| {
            chunk.iter().rev().fold(0_u64, |word, bit| word << 1 | u64::from(*bit))
        };
        let mut polynomial = Self(bits.chunks(64).map(word).collect());
        polynomial.trim();
        polynomial
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the degree; 0 for zero.
    pub(crate) fn degree(&self) -> usize {
        self.0.last().map_or(0, |last| self.0.len() * 64 - 1 - last.leading_zeros() as usize)
    }

    /// Returns the exponent of the lowest term; 0 for zero.
    pub(crate) fn valuation(&self) -> usize {
        let zeros = self.0.iter().take_while(|word| **word == 0).count();
        self.0.get(zeros).map_or(0, |word| zeros * 64 + word.trailing_zeros() as usize)
    }

    /// Divides by a power of x, without a rest.
    pub(crate) fn shifted_down(&self, by: usize) -> Self {
        let (words, bits) = (by / 64, by % 64);
        let mut out: Vec<u64> = self.0.iter().skip(words).copied().collect();
        if bits > 0 {
            for index in 0..out.len() {
                let next = out.get(index + 1).copied().unwrap_or(0);
                out[index] = out[index] >> bits | next << (64 - bits);
            }
        }
        let mut out = Self(out);
        out.trim();
        out
    }

    /// Adds `other` times x to the power of `by`; the sum must not be longer.
    fn add_shifted(&mut self, other: &Self, by: usize) {
        let (words, bits) = (by / 64, by % 64);
        let mut carry = 0;
        for (target, word) in self.0[words..].iter_mut().zip(&other.0) {
            *target ^= word << bits | carry;
            carry = if bits > 0 { word >> (64 - bits) } else { 0 };
        }
        if carry > 0
            && let Some(target) = self.0.get_mut(words + other.0.len())
        {
            *target ^= carry;
        }
        self.trim();
    }

    /// Replaces the polynomial by its rest modulo `divisor`, which must not be zero.
    pub(crate) fn reduce(&mut self, divisor: &Self) {
        let degree = divisor.degree();
        while !self.is_zero() && self.degree() >= degree {
            self.add_shifted(divisor, self.degree() - degree);
        }
    }

    /// Returns whether `divisor` divides it.
    pub(crate) fn is_multiple_of(&self, divisor: &Self) -> bool {
        let mut rest = self.clone();
        rest.reduce(divisor);
        rest.is_zero()
    }

    /// Returns the greatest common divisor.
    pub(crate) fn gcd(mut self, mut other: Self) -> Self {
        while !other.is_zero() {
            self.reduce(&other);
            std::mem::swap(&mut self, &mut other);
        }
        self
    }
}

/// Returns the product of two short polynomials modulo a third one of degree `degree`.
fn multiply(left: u64, right: u64, modulus: u64, degree: u32) -> u64 {
    let mut product = 0;
    let mut shifted = left;
    for bit in 0..degree {
        if right >> bit & 1 == 1 {
            product ^= shifted;
        }
        shifted <<= 1;
        if shifted >> degree & 1 == 1 {
            shifted ^= modulus;
        }
    }
    product
}

/// Returns whether a polynomial of degree 2 to 31 is irreducible (Rabin's test).
pub(crate) fn is_irreducible(polynomial: u64) -> bool {
    let degree = polynomial.checked_ilog2().unwrap_or(0);
    if !(2..=31).contains(&degree) || polynomial & 1 == 0 {
        return false;
    }
    let frobenius =
        |times: u32| (0..times).fold(2_u64, |value, _| multiply(value, value, polynomial, degree));
    if frobenius(degree) != 2 {
        return false;
    }
    let primes = (2..=degree).filter(|prime| {
        degree.is_multiple_of(*prime) && (2..*prime).all(|factor| !prime.is_multiple_of(factor))
    });
    primes.into_iter().all(|prime| {
        let value = Polynomial(vec![frobenius(degree / prime) ^ 2]);
        let mut value = value;
        value.trim();
        Polynomial(vec![polynomial]).gcd(value).degree() == 0
    })
}

/// Returns all primitive polynomials of a degree of at most 15, ascending.
pub(crate) fn primitive(degree: u32) -> Vec<u32> {
    let order = (1_u64 << degree) - 1;
    let mut factors = Vec::new();
    let mut rest = order;
    for prime in 2..=order {
        if rest.is_multiple_of(prime) {
            factors.push(prime);
            while rest.is_multiple_of(prime) {
                rest /= prime;
            }
        }
        if rest == 1 {
            break;
        }
    }
    let power = |exponent: u64, modulus: u64| {
        let (mut value, mut square) = (1, 2);
        for bit in 0..64 - exponent.leading_zeros() {
            if exponent >> bit & 1 == 1 {
                value = multiply(value, square, modulus, degree);
            }
            square = multiply(square, square, modulus, degree);
        }
        value
    };
    let candidates = ((1_u64 << degree) + 1..1 << (degree + 1)).step_by(2);
    candidates
        .filter(|modulus| power(order, *modulus) == 1)
        .filter(|modulus| factors.iter().all(|factor| power(order / factor, *modulus) != 1))
        .filter_map(|modulus| u32::try_from(modulus).ok())
        .collect()
}

/// Berlekamp-Massey over bits, at most 128 of them, the first one lowest: returns the length of the
/// shortest register that makes them and its feedback, in which bit i is the coefficient of the
/// bit i + 1 places before; `None` if it is longer than `most`.
pub(crate) fn shortest_register(sequence: u128, count: u32, most: u32) -> Option<(u32, u128)> {
    let (mut current, mut previous) = (1_u128, 1_u128);
    let (mut length, mut gap) = (0_u32, 1_u32);
    // The bits so far, the latest lowest.
    let mut window = 0_u128;
    for at in 0..count {
        window = window << 1 | sequence >> at & 1;
        let discrepancy = (window & current).count_ones() & 1;
        if discrepancy == 0 {
            gap += 1;
            continue;
        }
        let before = current;
        current ^= previous.checked_shl(gap).unwrap_or(0);
        if 2 * length <= at {
            (length, previous, gap) = (at + 1 - length, before, 1);
            if length > most {
                return None;
            }
        } else {
            gap += 1;
        }
    }
    Some((length, current >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitive_polynomials_are_as_many_as_there_are() {
        for (degree, count) in [(5, 6), (10, 60), (13, 630), (14, 756), (15, 1800)] {
            assert_eq!(primitive(degree).len(), count, "{degree}");
        }
        let thirteen = primitive(13);
        assert!(thirteen.contains(&0x201B) && !thirteen.contains(&0x2001));
        assert!(is_irreducible(0x201B) && !is_irreducible(0x2003) && is_irreducible(0x13));
    }

    #[test]
    fn divisors_are_found() {
        let factor = Polynomial::from_bytes(&[0x1B, 0xAD, 0xCA, 0xFE, 0x01]);
        let product = |bytes: &[u8]| {
            let other = Polynomial::from_bytes(bytes);
            let mut out = Polynomial(vec![0; 4]);
            let degree = other.degree();
            for bit in (0..=degree).filter(|bit| other.0[bit / 64] >> (bit % 64) & 1 == 1) {
                out.0.resize(6, 0);
                out.add_shifted(&factor, bit);
            }
            out
        };
        let (left, right) = (product(&[0x12, 0x35, 0x81]), product(&[0x77, 0x01, 0x99, 0x31]));
        assert!(left.is_multiple_of(&factor) && right.is_multiple_of(&factor));
        let gcd = left.clone().gcd(right);
        assert!(gcd.is_multiple_of(&factor) && gcd.degree() < factor.degree() + 8);
        let shifted = Polynomial::from_bytes(&[0x12, 0x34, 0, 0]);
        assert_eq!(shifted.valuation(), 18);
        assert_eq!(shifted.shifted_down(16), Polynomial::from_bytes(&[0x12, 0x34]));
    }

    #[test]
    fn registers_are_found() {
        // s[n + 15] = s[n] ^ s[n + 1]
        let mut bits = 0x4A80_u128;
        for at in 0..113 {
            bits |= (bits >> at & 1 ^ bits >> (at + 1) & 1) << (at + 15);
        }
        assert_eq!(shortest_register(bits, 128, 15), Some((15, 1 << 14 | 1 << 13)));
        assert_eq!(shortest_register(bits, 128, 14), None);
    }
}
