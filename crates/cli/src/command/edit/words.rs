//! A line of a script taken apart as a shell would: words, quotes, backslashes, comments. Outside
//! single quotes the escapes in which names are printed are read back, too.

use crate::failure::Failure;
use eraseblock::text;

/// The words of a line.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(b'"') | None, b'\\') => {
                let next = rest.first().ok_or_else(|| Failure::new("ends with a backslash"))?;
                let (meant, len) = text::escape(rest).unwrap_or_else(|| (vec![*next], 1));
                word.get_or_insert_default().extend(meant);
                rest = &rest[len..];
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
        assert_eq!(words(r#"a\u{1b}\n "b\x41" 'c\n' \q"#), ["a\x1b\n", "bA", "c\\n", "q"]);
        assert!(split(b"a \"b").is_err());
        assert!(split(b"a \\").is_err());
    }
}
