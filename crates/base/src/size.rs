//! Sizes in text form: `131072`, `128KiB`, `0x20000`, `2 MiB`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::error::Error;
use core::fmt;

/// A text that is not a size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SizeError {
    text: String,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(f, "`{text}` is not a size: expected a number with an optional KiB, MiB, GiB or TiB")
    }
}

impl Error for SizeError {}

/// Parses a size in bytes: decimal, octal (`0` prefix) or hexadecimal (`0x` prefix), followed by an
/// optional `KiB`, `MiB`, `GiB` or `TiB` (also `K`, `M`, `G`, `T`, in any case, optionally after
/// white space).
///
/// # Errors
///
/// Fails if the text does not have this form or the size exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let fail = || SizeError { text: text.to_owned() };
    let trimmed = text.trim();
    let is_hex = trimmed.starts_with("0x") || trimmed.starts_with("0X");
    let digits = if is_hex { &trimmed[2..] } else { trimmed };
    let radix = match (is_hex, digits.as_bytes()) {
        (true, _) => 16,
        (false, [b'0', b'0'..=b'9', ..]) => 8,
        (false, _) => 10,
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).map_err(|_| fail())?;
    let shift = match digits[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(fail()),
    };
    number.checked_mul(1 << shift).ok_or_else(fail)
}

/// Formats a size for messages: exactly if it is a whole number of binary units, otherwise with one
/// decimal (`128 KiB`, `1.4 MiB`).
pub fn format_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in UNITS {
        let one = 1_u64 << shift;
        if bytes >= one {
            if bytes.is_multiple_of(one) {
                return format!("{} {unit}", bytes >> shift);
            }
            let tenths = u128::from(bytes) * 10 / u128::from(one);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_all_spellings() {
        for (text, bytes) in [
            ("131072", 131_072),
            ("128KiB", 131_072),
            ("128 kib", 131_072),
            ("0x20000", 131_072),
            ("0400", 256),
            ("2MiB", 2 << 20),
            ("1G", 1 << 30),
            ("2T", 2 << 40),
            ("1 TiB", 1 << 40),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "12q", "-1", "99999999999GiB", "16777216T", "08"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(format_size(131_072), "128 KiB");
        assert_eq!(format_size(1_500_000), "1.4 MiB");
        assert_eq!(format_size(12), "12 bytes");
    }
}
