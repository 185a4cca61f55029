//! A line of a script taken apart as a shell would: words, quotes, backslashes, comments.

use crate::failure::Failure;

/// The words of a line.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(b'"') | None, b'\\') => {
                let next = bytes.next().ok_or_else(|| Failure::new("ends with a backslash"))?;
                word.get_or_insert_default().push(next);
            }
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b'#') if word.is_none() => break,
            (None, byte) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (_, byte) => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err(Failure::new("a quote is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fall_apart_as_in_a_shell() {
        let words = |line: &str| -> Vec<String> {
            let words = split(line.as_bytes()).unwrap();
            words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        assert_eq!(words("  rm  -r /a\t"), ["rm", "-r", "/a"]);
        assert_eq!(words(r#"put 'a b' "c\"d" e\ f ''"#), ["put", "a b", "c\"d", "e f", ""]);
        assert_eq!(words("ls # all"), ["ls"]);
        assert_eq!(words("ls a#b"), ["ls", "a#b"]);
        assert_eq!(words(""), Vec::<String>::new());
        assert!(split(b"a \"b").is_err());
        assert!(split(b"a \\").is_err());
    }
}
