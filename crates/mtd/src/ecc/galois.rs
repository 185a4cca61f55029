//! Arithmetic in GF(2^m) of at most 2^15 elements, using logarithms.

/// A field with its tables.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The order of the multiplicative group: 2^m - 1.
    pub(super) order: u32,
    pub(super) degree: u32,
    powers: Vec<u16>,
    logs: Vec<u16>,
}

impl Field {
    /// Returns the field of 2^`degree` elements whose generator is a root of `polynomial`; `None`
    /// if the degree is not 5 to 15, or if the polynomial is not primitive or of another degree.
    pub(super) fn new(degree: u32, polynomial: u32) -> Option<Self> {
        if !(5..=15).contains(&degree) || polynomial >> degree != 1 {
            return None;
        }
        let order = (1_u32 << degree) - 1;
        let mut powers = vec![0; order as usize];
        let mut logs = vec![0; order as usize + 1];
        let mut value = 1_u32;
        for (exponent, power) in (0_u16..).zip(&mut powers) {
            // The powers of the generator repeat before all elements have occurred.
            if value == 0 || value == 1 && exponent > 0 {
                return None;
            }
            *power = u16::try_from(value).unwrap_or(0);
            logs[value as usize] = exponent;
            value <<= 1;
            if value > order {
                value ^= polynomial;
            }
        }
        Some(Self { order, degree, powers, logs })
    }

    /// Returns the generator raised to `exponent`.
    pub(super) fn power(&self, exponent: u32) -> u16 {
        self.powers[(exponent % self.order) as usize]
    }

    /// Returns the element with the given logarithm, which must be below the order.
    pub(super) fn element(&self, log: u32) -> u16 {
        self.powers[log as usize]
    }

    /// Returns the logarithm of a non-zero element.
    pub(super) fn log(&self, element: u16) -> u32 {
        u32::from(self.logs[usize::from(element)])
    }

    pub(super) fn multiply(&self, left: u16, right: u16) -> u16 {
        if left == 0 || right == 0 { 0 } else { self.power(self.log(left) + self.log(right)) }
    }

    /// Returns `left / right`; `right` must not be 0.
    pub(super) fn divide(&self, left: u16, right: u16) -> u16 {
        if left == 0 { 0 } else { self.power(self.log(left) + self.order - self.log(right)) }
    }

    /// Returns the coefficients (lowest first, 0 or 1) of the minimal polynomial of the generator
    /// to the power of `exponent`, and the exponents of all its roots.
    pub(super) fn minimal_polynomial(&self, exponent: u32) -> (Vec<bool>, Vec<u32>) {
        let mut roots = vec![exponent % self.order];
        loop {
            let next = roots[roots.len() - 1] * 2 % self.order;
            if next == roots[0] {
                break;
            }
            roots.push(next);
        }
        let mut polynomial = vec![1_u16];
        for root in &roots {
            let root = self.power(*root);
            let mut product = vec![0; polynomial.len() + 1];
            for (place, coefficient) in polynomial.iter().enumerate() {
                product[place + 1] ^= coefficient;
                product[place] ^= self.multiply(*coefficient, root);
            }
            polynomial = product;
        }
        (polynomial.into_iter().map(|coefficient| coefficient == 1).collect(), roots)
    }
}
