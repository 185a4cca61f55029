//! Scripts of commands for [`Debugger`](crate::debug::Debugger), and what must be found afterwards.
//!
//! ```text
//! # The entry of a file says that it is a directory.
//! image ubifs
//! set key 1/dent/motd .kind=dir
//! expect check X4
//! also X7 X9
//! ```
//!
//! A line that begins with `#` is skipped. `image` names the image that the commands are for,
//! `expect check` the identifiers that `check` must name, `also` those that follow from the damage,
//! `expect repair` the level at which a repair is possible. All other lines are commands.
//!
//! An identifier is a row of the specification (`X4`) or the code of a finding
//! (`vid-header-illegal`).

use eraseblock_base::{Finding, Severity};
use std::collections::BTreeSet;

/// A script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// The name of the image.
    pub image: Option<String>,
    /// The commands with the numbers of their lines.
    pub commands: Vec<(usize, String)>,
    /// What `check` must name.
    pub expected: Vec<String>,
    /// What follows from it.
    pub also: Vec<String>,
    /// The level of a repair, which [`Script::judge`] leaves to its caller.
    pub repair: Option<String>,
}

/// The levels of a repair.
const LEVELS: [&str; 4] = ["safe", "drop", "rebuild", "none"];

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// Fails with the line if it says something about the image or the result that makes no sense.
    /// Commands are judged when they are run.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        for (index, line) in text.lines().enumerate() {
            let (number, line) = (index + 1, line.trim());
            let words: Vec<&str> = line.split_whitespace().collect();
            let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
            match words.as_slice() {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["image", name] => script.image = Some((*name).to_owned()),
                ["expect", "check", ids @ ..] if !ids.is_empty() => script.expected = own(ids),
                ["expect", "repair", level] if LEVELS.contains(level) => {
                    script.repair = Some((*level).to_owned());
                }
                ["also", ids @ ..] if !ids.is_empty() => {
                    script.also.extend(ids.iter().map(|&id| id.to_owned()));
                }
                ["image" | "expect" | "also", ..] => {
                    return Err(format!(
                        "line {number}: `{line}`: expected `image NAME`, `expect check ID`, \
                         `expect repair {}` or `also ID`",
                        LEVELS.join("|")
                    ));
                }
                _ => script.commands.push((number, line.to_owned())),
            }
        }
        Ok(script)
    }

    /// Compares what was found with what is expected; returns what is wrong with it. Notes count if
    /// they name a row, or if they are expected.
    pub fn judge<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for finding in findings {
            let rows = rows(&finding.message);
            let fits = |id: &&String| finding.code == id.as_str() || rows.contains(&id.as_str());
            let all = self.expected.iter().chain(&self.also);
            let before = named.len();
            let fitting: Vec<&str> = all.filter(fits).map(String::as_str).collect();
            if finding.severity == Severity::Note && rows.is_empty() && fitting.is_empty() {
                continue;
            }
            named.extend(&fitting);
            if fitting.is_empty() && before == named.len() {
                wrong.push(format!("not expected: {finding}"));
            }
        }
        for id in self.expected.iter().chain(&self.also) {
            if !named.contains(id.as_str()) {
                wrong.push(format!("nothing names {id}"));
            }
        }
        wrong
    }
}

/// Returns the rows of the specification that a message names, in parentheses at its end.
pub fn rows(message: &str) -> Vec<&str> {
    let inner = message.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    let Some((_, inner)) = inner else { return Vec::new() };
    let rows: Vec<&str> = inner.split(", ").collect();
    let is_row = |row: &&str| {
        let mut letters = row.chars();
        letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && row.len() > 1
            && letters.all(|digit| digit.is_ascii_digit())
    };
    if rows.iter().all(is_row) { rows } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::{Findings, Location};

    #[test]
    fn a_script_is_judged_by_rows_and_codes() {
        let text = "# why\nimage ubifs\nset .kind=dir\n\nexpect check X4\nalso X9 leaf-wrong\n";
        let script = Script::parse(text).unwrap();
        assert_eq!(script.image.as_deref(), Some("ubifs"));
        assert_eq!(script.commands, [(3, "set .kind=dir".to_owned())]);
        let mut findings = Findings::new();
        let at = Location::Whole;
        findings.error(at, "inode-wrong", "another type (X4)");
        findings.error(at, "inode-wrong", "size 3, expected 4 (X9)");
        findings.error(at, "leaf-wrong", "something (N3, N4)");
        findings.note(at, "journal-replayed", "3 buds");
        assert_eq!(script.judge(&findings), Vec::<String>::new());
        findings.note(at, "inode-wrong", "content (X11)");
        assert_eq!(script.judge(&findings).len(), 1);
        assert_eq!(script.judge(&Findings::new()).len(), 3);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for text in ["expect check", "expect repair soon", "image", "also", "\nexpect X4"] {
            assert!(Script::parse(text).unwrap_err().contains("expected `image"), "{text}");
        }
    }

    #[test]
    fn rows_stand_at_the_end() {
        assert_eq!(rows("size 3, expected 4 (X9)"), ["X9"]);
        assert_eq!(rows("key 3 (N1, N9)"), ["N1", "N9"]);
        for none in ["size 3 (4)", "no (X9) here", "(x9)", "", "size (X9"] {
            assert_eq!(rows(none), Vec::<&str>::new(), "{none}");
        }
    }
}
