//! Named rounding functions. Alignments are powers of two unless a function says otherwise.

/// Returns `value` rounded up to a multiple of `alignment` (any positive number), or `None` on
/// overflow.
pub const fn checked_align_up(value: u64, alignment: u64) -> Option<u64> {
    value.checked_next_multiple_of(alignment)
}

/// Returns `value` rounded up to a multiple of `alignment`. The caller ensures that the result
/// fits.
pub const fn align_up(value: u32, alignment: u32) -> u32 {
    value.next_multiple_of(alignment)
}

/// Returns `value` rounded up to a multiple of `alignment`, as a `usize`.
pub const fn align_up_usize(value: usize, alignment: usize) -> usize {
    value.next_multiple_of(alignment)
}

/// Returns `value` rounded down to a multiple of `alignment`.
pub const fn align_down(value: u32, alignment: u32) -> u32 {
    value - value % alignment
}

/// Returns the number of bits needed for `value`: the index of its highest set bit counted from 1,
/// and 0 for 0 (the `fls` of the specifications).
pub const fn bit_length(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// Returns whether every byte reads as erased flash (0xFF).
pub fn is_erased(bytes: &[u8]) -> bool {
    is_all(bytes, 0xFF)
}

/// Returns whether every byte is 0, as in a hole of a file.
pub fn is_zero(bytes: &[u8]) -> bool {
    is_all(bytes, 0)
}

fn is_all(bytes: &[u8], value: u8) -> bool {
    let [first, rest @ ..] = bytes else { return true };
    // Compares each byte with its predecessor: one memory comparison, which is faster than a loop.
    *first == value && rest == &bytes[..rest.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_lengths_are_those_of_the_specification() {
        assert_eq!([0, 1, 2, 3, 4, 15360].map(bit_length), [0, 1, 2, 2, 3, 14]);
    }

    #[test]
    fn one_zero_bit_anywhere_is_not_erased() {
        let mut bytes = [0xFF_u8; 77];
        assert!(is_erased(&bytes));
        for index in 0..bytes.len() {
            bytes[index] = 0xFE;
            assert!(!is_erased(&bytes));
            bytes[index] = 0xFF;
        }
        assert!(!is_zero(&bytes));
        assert!(is_zero(&[0; 77]));
    }

    #[test]
    fn rounding() {
        assert_eq!(align_up(1, 8), 8);
        assert_eq!(align_down(15, 8), 8);
        assert_eq!(checked_align_up(u64::MAX, 8), None);
    }
}
