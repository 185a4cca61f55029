//! The values of fields as text, and back.
//!
//! # Invariants
//! 1. What is printed is parsed as the same bits, and contains no space outside quotation marks.

use eraseblock_base::field::{Field, Repr, Show, number_at, put_number};
use eraseblock_ubifs_format::Key;
use std::fmt::Write;

/// Names of the kinds of keys, by their number.
const KEYS: [&str; 4] = ["ino", "data", "dent", "xent"];
/// Bytes of a key in the index.
const SHORT_KEY: usize = 8;

/// Returns a number as text.
pub(crate) fn number(show: Show, number: u64) -> String {
    match show {
        Show::Hex | Show::Sum => format!("{number:#x}"),
        Show::Octal => format!("{number:#o}"),
        _ => number.to_string(),
    }
}

/// Parses a number in decimal, or after `0x` or `0o`.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix("0o") {
        Some(digits) => u64::from_str_radix(digits, 8).ok(),
        None => text.parse().ok(),
    }
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
        out.push(digit(byte >> 4));
        out.push(digit(byte & 0xF));
    }
}

/// Returns bytes as text: in hexadecimal, or as a run.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    match bytes {
        [first, .., last] if bytes.len() >= 4 && bytes.iter().all(|byte| byte == first) => {
            let _ = write!(text, "{last:02x}*{}", bytes.len());
        }
        _ => push_hex(&mut text, bytes),
    }
    text
}

/// Parses bytes in hexadecimal, at most `most` from a run.
pub(crate) fn parse_bytes(text: &str, most: usize) -> Option<Vec<u8>> {
    if let Some((byte, count)) = text.split_once('*') {
        let count = count.parse::<usize>().ok().filter(|count| *count <= most)?;
        return Some(vec![parse_byte(byte.as_bytes())?; count]);
    }
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(parse_byte).collect()
}

/// Parses two hexadecimal digits.
pub(crate) fn parse_byte(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    let digit =
        |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// Returns a name in quotation marks.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' | '\\' => {
                    text.push('\\');
                    text.push(letter);
                }
                ' '..='~' => text.push(letter),
                _ if letter.is_alphanumeric() => text.push(letter),
                _ => {
                    let mut buffer = [0; 4];
                    push_escapes(&mut text, letter.encode_utf8(&mut buffer).as_bytes());
                }
            }
        }
        push_escapes(&mut text, chunk.invalid());
    }
    text.push('"');
    text
}

fn push_escapes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str("\\x");
        push_hex(text, &[*byte]);
    }
}

/// Parses a name in quotation marks.
pub(crate) fn parse_quoted(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let (mut bytes, mut at) = (Vec::with_capacity(inner.len()), 0);
    while let Some(byte) = inner.get(at) {
        match (byte, inner.get(at + 1)) {
            (b'\\', Some(b'x')) => {
                bytes.push(parse_byte(inner.get(at + 2..at + 4)?)?);
                at += 4;
            }
            (b'\\', Some(letter)) => {
                bytes.push(*letter);
                at += 2;
            }
            (b'\\', None) | (b'"', _) => return None,
            _ => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    Some(bytes)
}

/// Returns a key of UBIFS as text: `66/data/3`.
pub(crate) fn key(bytes: &[u8]) -> String {
    let plain = |key: Key| match (key.kind(), key.value()) {
        (Some(kind), 0) if !kind.is_hashed() && kind as u8 == 0 => {
            Some(format!("{}/ino", key.ino()))
        }
        (Some(kind), value) if kind.is_hashed() => {
            Some(format!("{}/{}/{value:#x}", key.ino(), KEYS[kind as usize]))
        }
        (Some(kind), value) => Some(format!("{}/{}/{value}", key.ino(), KEYS[kind as usize])),
        (None, _) => None,
    };
    let (first, rest) = bytes.split_at(SHORT_KEY.min(bytes.len()));
    let known = first.first_chunk().copied().map(Key::from_bytes);
    match known.and_then(plain) {
        Some(text) if rest.iter().all(|byte| *byte == 0) => text,
        _ => self::bytes(bytes),
    }
}

/// Parses a key for a field of `len` bytes.
pub(crate) fn parse_key(text: &str, len: usize) -> Option<Vec<u8>> {
    if !text.contains('/') {
        return parse_bytes(text, len);
    }
    let mut parts = text.splitn(3, '/');
    let ino: u32 = parts.next()?.parse().ok()?;
    let kind = parts.next()?;
    let kind = KEYS.iter().position(|name| *name == kind)? as u32;
    let value = match parts.next() {
        Some(value) => u32::try_from(parse_number(value)?).ok().filter(|value| value >> 29 == 0)?,
        None => 0,
    };
    let mut bytes = ino.to_le_bytes().to_vec();
    bytes.extend((kind << 29 | value).to_le_bytes());
    bytes.resize(len.max(SHORT_KEY), 0);
    Some(bytes)
}

/// Returns the value of a field at its place in the bytes.
pub(crate) fn field(field: &Field, bytes: &[u8]) -> String {
    if field.repr != Repr::Bytes {
        let value = number_at(bytes, field.bit as usize, field.bits as usize, field.repr);
        return number(field.show, value);
    }
    let own = own(field, bytes);
    match field.show {
        Show::Key => key(own),
        Show::Text => quoted(own),
        _ => self::bytes(own),
    }
}

/// Returns the bytes of a field of whole bytes.
pub(crate) fn own<'a>(field: &Field, bytes: &'a [u8]) -> &'a [u8] {
    let start = field.bit as usize / 8;
    bytes.get(start..start + field.bits as usize / 8).unwrap_or_default()
}

/// Returns whether all bits of a field are zero.
pub(crate) fn is_zero(field: &Field, bytes: &[u8]) -> bool {
    match field.repr {
        Repr::Bytes => own(field, bytes).iter().all(|byte| *byte == 0),
        repr => number_at(bytes, field.bit as usize, field.bits as usize, repr) == 0,
    }
}

/// Returns a name of fixed size without the zeros at its end.
pub(crate) fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Writes a value to a field of fixed size. Fails with what was expected.
pub(crate) fn put(field: &Field, text: &str, bytes: &mut [u8]) -> Result<(), String> {
    if field.repr != Repr::Bytes {
        let value = parse_number(text).ok_or("a number")?;
        if !field.holds(value) {
            return Err(format!("a number of {} bits", field.bits));
        }
        put_number(bytes, field.bit as usize, field.bits as usize, field.repr, value);
        return Ok(());
    }
    let len = field.bits as usize / 8;
    let mut value = parse_any(field.show, text, len)?;
    if field.show == Show::Text && value.len() < len {
        value.resize(len, 0);
    }
    if value.len() != len {
        return Err(format!("{len} bytes, not {}", value.len()));
    }
    let start = field.bit as usize / 8;
    let place = bytes.get_mut(start..start + len).ok_or("a structure with this field")?;
    place.copy_from_slice(&value);
    Ok(())
}

/// Parses the bytes of a field, of which a run may have `most`. Fails with what was expected.
pub(crate) fn parse_any(show: Show, text: &str, most: usize) -> Result<Vec<u8>, String> {
    let (value, expected) = match show {
        Show::Key => (parse_key(text, most), "a key like 66/data/3, or hexadecimal digits"),
        Show::Text => (parse_quoted(text), "text in quotation marks"),
        _ => (parse_bytes(text, most), "pairs of hexadecimal digits, or a run like ff*16"),
    };
    value.ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_readable() {
        let data = Key::data(66, 3).to_bytes();
        assert_eq!(key(&data), "66/data/3");
        assert_eq!(key(&Key::inode(1).to_bytes()), "1/ino");
        assert_eq!(key(&[Key::dent(1, 0x1234).to_bytes(), [0; 8]].concat()), "1/dent/0x1234");
        assert_eq!(key(&[0xFF; 16]), "ff*16");
        assert_eq!(parse_key("66/data/3", 8).unwrap(), data);
        assert_eq!(parse_key("66/dada/3", 8), None);
        assert_eq!(parse_key("66/data/0x20000000", 8), None);
    }

    #[test]
    fn numbers_of_every_base_are_parsed() {
        for (text, number) in [("12", 12), ("0x1f", 31), ("0o755", 493)] {
            assert_eq!(parse_number(text), Some(number));
        }
        assert_eq!(parse_number("-1"), None);
        assert_eq!(parse_number(""), None);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed(bytes in prop::collection::vec(any::<u8>(), 0..40), run in any::<u8>()) {
            prop_assert_eq!(parse_quoted(&quoted(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(parse_bytes(&super::bytes(&bytes), 40).unwrap(), bytes.clone());
            let all = vec![run; bytes.len()];
            prop_assert_eq!(parse_bytes(&super::bytes(&all), 40).unwrap(), all);
            for len in [8, 16] {
                let mut field = bytes.clone();
                field.resize(len, 0);
                prop_assert_eq!(parse_key(&key(&field), len).unwrap(), field);
            }
        }
    }
}
