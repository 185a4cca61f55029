//! A minimal subset of Rust's syntax, to count lines of functions and to search code without
//! comments and literals.

/// Returns the source with comments and the insides of string and character literals blanked out.
/// Line numbers stay.
pub(crate) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        if let Some(end) = literal_end(&chars, at) {
            let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
            out.extend(chars[at..end].iter().map(blank));
            at = end;
        } else {
            out.push(first);
            at += 1;
        }
    }
    out
}

/// Returns the end of the comment or literal that begins at `at`, if one does.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1);
    let follows_word = at > 0 && is_word(chars[at - 1]);
    match chars[at] {
        '/' if next == Some(&'/') => Some(find(chars, at, |c| c == '\n')),
        '/' if next == Some(&'*') => Some(block_comment_end(chars, at)),
        '"' => Some(string_end(chars, at)),
        'r' if !follows_word || chars[at - 1] == 'b' => raw_string_end(chars, at),
        '\'' => char_end(chars, at),
        _ => None,
    }
}

fn find(chars: &[char], from: usize, is_wanted: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|c| is_wanted(*c)).map_or(chars.len(), |found| from + found)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut index = at;
    while index < chars.len() {
        match (chars[index], chars.get(index + 1)) {
            ('/', Some('*')) => depth += 1,
            ('*', Some('/')) => depth -= 1,
            _ => {
                index += 1;
                continue;
            }
        }
        index += 2;
        if depth == 0 {
            return index;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut index = at + 1;
    while let Some(c) = chars.get(index) {
        match c {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

/// Returns the end of `r"..."` or `r#"..."#`, or `None` for anything else.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let quote = find(chars, at + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - at - 1;
    let mut index = quote + 1;
    while index < chars.len() {
        let closes = chars[index] == '"'
            && chars[index + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
        if closes {
            return Some(index + 1 + hashes);
        }
        index += 1;
    }
    Some(chars.len())
}

/// Returns the end of a character literal, or `None` for a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    match chars.get(at + 1)? {
        '\\' => Some((find(chars, at + 3, |c| c == '\'') + 1).min(chars.len())),
        _ => (chars.get(at + 2) == Some(&'\'')).then_some(at + 3),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns whether a line contains a word that is not part of a longer one.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// A function with a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    /// The line of its `fn`, from 1.
    pub(crate) line: usize,
    /// Lines to its closing brace, both included.
    pub(crate) lines: usize,
}

/// Returns all functions in blanked source.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let starts = code.match_indices("fn ").map(|found| found.0);
    let starts = starts.filter(|at| !code[..*at].ends_with(is_word));
    starts.filter_map(|at| function_at(code, at)).collect()
}

fn function_at(code: &str, at: usize) -> Option<Function> {
    let mut brackets = 0_i32;
    let mut braces = 0_i32;
    for (offset, c) in code[at..].char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            // A declaration, or the type of a function pointer.
            ';' | '}' if braces == 0 && brackets <= 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 {
                    let lines = code[at..at + offset].matches('\n').count() + 1;
                    return Some(Function { line: code[..at].matches('\n').count() + 1, lines });
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "a // unsafe\n/* b /* c */ d */ e \"f\\\"g\" r#\"h\"i\"# 'j' '\\'' &'k l b\"m\"";
        let blanked = code(text);
        let words: Vec<&str> = blanked.split_whitespace().collect();
        assert_eq!(words, ["a", "e", "&'k", "l", "b"]);
        assert_eq!(blanked.matches('\n').count(), 1);
    }

    #[test]
    fn functions_are_measured() {
        let text =
            "fn a();\nfn b<T: X<Y = Z>, U>(x: [u8; 2]) -> T\nwhere\n    T: C,\n{\n  if x {}\n}\n";
        assert_eq!(functions(&code(text)), [Function { line: 2, lines: 6 }]);
        assert_eq!(functions("type F = fn (u8) -> u8;"), []);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an x, too", "x"));
        assert!(!has_word("unsafe_code", "unsafe"));
    }
}
