//! The escapes in which names are printed, read back.

/// The bytes that an escaped name stands for; `None` if there is no escape in it, or a wrong one.
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    if !text.contains(&b'\\') {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'\\' {
            let (escaped, len) = escape(rest)?;
            bytes.extend_from_slice(&escaped);
            rest = &rest[len..];
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}

/// What the characters after a backslash stand for, and how many they are: `\\`, `\n`, `\r`, `\t`,
/// `\xFF` for a byte, `\u{1F}` for a character.
pub fn escape(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let byte = match text.first()? {
        b'\\' => b'\\',
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'x' => return Some((vec![u8::try_from(hex(text.get(1..3)?)?).ok()?], 3)),
        b'u' => {
            let digits = text.strip_prefix(b"u{")?;
            let end = digits.iter().position(|byte| *byte == b'}')?;
            let c = char::from_u32(hex(&digits[..end])?)?;
            return Some((c.to_string().into_bytes(), end + 3));
        }
        _ => return None,
    };
    Some((vec![byte], 1))
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn what_is_printed_is_read_back() {
        let all: Vec<u8> = (1..=255).collect();
        for name in [&all[..], b"a\x1b[31m\n\\\xff", "\u{85}\u{e4}\u{1F600}".as_bytes()] {
            assert_eq!(unescape(text::name(name).as_bytes()).as_deref(), Some(name));
        }
        for text in
            [&br"plain"[..], br"\", br"\x4", br"\xzz", br"\u{110000}", br"\u{41", br"\q", br"\x+4"]
        {
            assert_eq!(unescape(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
