//! Words that documents and comments avoid, because they hide who does what.
//!
//! Code, string literals and the code blocks of documents are not checked: they repeat what a
//! program prints.

use super::{Tracked, has_extension, source};

/// Words and phrases to avoid, in lower case.
const AVOIDED: [&str; 14] = [
    "told",
    "tells",
    "whoever",
    "whatever",
    "somebody",
    "nobody",
    "anew",
    "for good",
    "has to be",
    "is to be",
    "in front of",
    "behind",
    "beside",
    "as long as somebody",
];

/// Returns `path:line` for every line of prose with an avoided word.
pub(super) fn check(file: &Tracked) -> Vec<String> {
    let prose = if file.is_rust() {
        comments(&file.text)
    } else if has_extension(&file.path, "md") {
        outside_blocks(&file.text)
    } else {
        return Vec::new();
    };
    file.lines(&prose, |line| {
        let line = line.to_lowercase();
        AVOIDED.iter().any(|word| source::has_word(&line, word))
    })
}

/// Returns the text with all lines empty that are not comments.
fn comments(text: &str) -> String {
    let keep = |line| if str::trim_start(line).starts_with("//") { line } else { "" };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a document with the lines of its code blocks empty.
fn outside_blocks(text: &str) -> String {
    let mut is_inside = false;
    let keep = |line| {
        let is_fence = str::trim_start(line).starts_with("```");
        is_inside ^= is_fence;
        if is_inside || is_fence { "" } else { line }
    };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tracked::new(path, text.to_owned()))
    }

    #[test]
    fn a_planted_word_is_found_in_every_kind_of_prose() {
        for word in AVOIDED {
            for (path, text) in [
                ("docs/a.md", format!("First line.\nThe caller {word} x.")),
                ("crates/base/a.rs", format!("//! First line.\n//! The caller {word} x.")),
                ("crates/base/a.rs", format!("//! x\n    /// The caller {word} x.")),
                ("crates/base/a.rs", format!("//! x\n    // {}", word.to_uppercase())),
            ] {
                assert_eq!(found(path, &text), [format!("{path}:2")], "{text}");
            }
        }
    }

    #[test]
    fn output_of_programs_and_names_are_not_prose() {
        assert!(found("docs/a.md", "```console\n$ x\nbehind\n```\nfine\n").is_empty());
        assert_eq!(found("docs/a.md", "```\nx\n```\nbehind\n"), ["docs/a.md:4"]);
        assert!(found("crates/base/a.rs", "//! x\nlet behind = \"told\";\n").is_empty());
        assert!(found("docs/a.md", "`cli: a_mount_tells_why` and besides\n").is_empty());
        assert!(found("demo.sh", "# behind\n").is_empty());
    }
}
