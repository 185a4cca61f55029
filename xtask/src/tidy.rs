//! `cargo xtask tidy`: the rules of the repository that neither the compiler nor clippy checks.

mod arrows;
mod errors;
mod flags;
mod footprint;
mod licences;
mod options;
mod source;
mod words;

use crate::circles;
use crate::command::{repository, run as run_program};
use anyhow::{Context, Result};
use std::cell::OnceCell;
use std::fs;

/// The longest file, in lines.
const FILE_MAX: usize = 1000;
/// The longest function, in lines from its name to its closing brace.
const FUNCTION_MAX: usize = 100;

/// Folders whose files must not call each other in circles.
const LAYERED: [&str; 8] = [
    "crates/base/src",
    "crates/jffs2-format/src",
    "crates/jffs2/src/rw",
    "crates/lab/src/powercut",
    "crates/mtd/src",
    "crates/ubi-format/src",
    "crates/ubifs/src/rw",
    "crates/yaffs-format/src",
];

/// A tracked text file.
struct Tracked {
    path: String,
    text: String,
    /// Rust source without comments and without the contents of literals; the text itself for
    /// anything else.
    code: String,
    tree: OnceCell<Option<syn::File>>,
}

impl Tracked {
    fn new(path: &str, text: String) -> Self {
        let code = if has_extension(path, "rs") { source::code(&text) } else { text.clone() };
        Self { path: path.to_owned(), text, code, tree: OnceCell::new() }
    }

    /// Returns the file parsed as Rust, which is done once; `None` if it is not Rust.
    fn tree(&self) -> Option<&syn::File> {
        self.tree.get_or_init(|| syn::parse_file(&self.text).ok()).as_ref()
    }

    fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    fn is_source(&self) -> bool {
        ["rs", "toml", "sh"].iter().any(|extension| has_extension(&self.path, extension))
    }

    /// Returns `path:line` for every line of `text` for which `is_bad` returns true.
    fn lines(&self, text: &str, is_bad: impl Fn(&str) -> bool) -> Vec<String> {
        let numbered = text.lines().enumerate().filter(|(_, line)| is_bad(line));
        numbered.map(|(index, _)| format!("{}:{}", self.path, index + 1)).collect()
    }
}

/// Returns whether a file is code of tests.
fn is_of_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Returns whether an item is compiled for tests only.
pub(crate) fn is_for_tests(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

fn has_extension(path: &str, extension: &str) -> bool {
    path.strip_suffix(extension).is_some_and(|rest| rest.ends_with('.'))
}

type Rule = fn(&Tracked) -> Vec<String>;

/// Rules about single files.
const RULES: [(&str, Rule); 13] = [
    ("unsafe code is in mtd-host and capi only", unsafe_code),
    ("source is ASCII", ascii),
    ("Rust files open with //!", opening_docs),
    ("no mod.rs", mod_files),
    ("files have at most 1000 lines", file_length),
    ("functions have at most 100 lines", function_length),
    ("no paths of a machine", machine_paths),
    ("the project speaks of itself only", foreign_words),
    ("no notes to do something later", later),
    ("no ignored tests", ignored_tests),
    ("words: prose names who acts", words::check),
    ("public functions document their errors", errors::check),
    ("the library names no options of the command", options::check),
];

/// Runs all checks; false when one failed.
pub(crate) fn run() -> Result<bool> {
    let files = tracked()?;
    let mut outcomes = vec![("arrows between rooms point down", arrows::check()?)];
    outcomes.push(("reading alone needs few crates", footprint::check()?));
    outcomes.push(("dependencies have allowed licences and sources", licences::check()?));
    outcomes.push(("the oracle does not use what it judges", oracle_is_independent(&files)));
    outcomes.push(("no argument is a literal true or false", flags::check(&files)));
    let layered = LAYERED.iter().map(|folder| circles::faults(&repository().join(folder)));
    let layered: Vec<Vec<String>> = layered.collect::<Result<_>>()?;
    outcomes.push(("calls between files go down only", layered.concat()));
    for (name, rule) in RULES {
        outcomes.push((name, files.iter().flat_map(rule).collect()));
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.1.is_empty()).count();
    for (name, faults) in &outcomes {
        println!("{}  {name}", if faults.is_empty() { "pass" } else { "FAIL" });
        for fault in faults {
            println!("      {fault}");
        }
    }
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    Ok(failed == 0)
}

/// Returns every tracked text file, without vendored ones.
fn tracked() -> Result<Vec<Tracked>> {
    let root = repository();
    let root_text = root.to_str().context("the path of the repository is not UTF-8")?;
    let listed = run_program("git", ["-C", root_text, "ls-files", "-z"])?;
    let mut files = Vec::new();
    let is_ours = |path: &&str| !path.is_empty() && !path.starts_with("vendor/");
    for path in listed.split('\0').filter(is_ours) {
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        files.push(Tracked::new(path, text));
    }
    Ok(files)
}

fn oracle_is_independent(files: &[Tracked]) -> Vec<String> {
    let is_oracle = |file: &&Tracked| {
        ["xtask/src/oracle", "xtask/src/guest", "xtask/src/kernel"]
            .iter()
            .any(|start| file.path.starts_with(start))
    };
    let uses_us = |line: &str| line.contains("eraseblock_");
    files.iter().filter(is_oracle).flat_map(|file| file.lines(&file.code, uses_us)).collect()
}

fn unsafe_code(file: &Tracked) -> Vec<String> {
    let may = ["crates/mtd-host/", "crates/capi/"].iter().any(|it| file.path.starts_with(it));
    if !file.is_rust() || may {
        return Vec::new();
    }
    file.lines(&file.code, |line| source::has_word(line, "unsafe"))
}

fn ascii(file: &Tracked) -> Vec<String> {
    if file.is_source() { file.lines(&file.text, |line| !line.is_ascii()) } else { Vec::new() }
}

fn opening_docs(file: &Tracked) -> Vec<String> {
    let is_bad = file.is_rust() && !file.text.starts_with("//!") && !file.text.starts_with("#![");
    if is_bad { vec![file.path.clone()] } else { Vec::new() }
}

fn mod_files(file: &Tracked) -> Vec<String> {
    if file.path.ends_with("/mod.rs") { vec![file.path.clone()] } else { Vec::new() }
}

fn file_length(file: &Tracked) -> Vec<String> {
    let lines = file.text.lines().count();
    let is_bad = file.is_rust() && lines > FILE_MAX;
    if is_bad { vec![format!("{}: {lines} lines", file.path)] } else { Vec::new() }
}

fn function_length(file: &Tracked) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    let long = source::functions(&file.code).into_iter().filter(|found| found.lines > FUNCTION_MAX);
    long.map(|found| format!("{}:{}: {} lines", file.path, found.line, found.lines)).collect()
}

// The words are concatenated, so that this file does not contain them.

fn machine_paths(file: &Tracked) -> Vec<String> {
    let forbidden = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp", "/eb")];
    file.lines(&file.text, |line| {
        forbidden
            .iter()
            .any(|path| line.match_indices(path).any(|(at, _)| !continues_a_path(&line[..at])))
    })
}

/// Returns whether the text before a slash is part of a longer path.
fn continues_a_path(before: &str) -> bool {
    before.ends_with(|last: char| last.is_ascii_alphanumeric() || "._-$})".contains(last))
}

fn foreign_words(file: &Tracked) -> Vec<String> {
    let words = [concat!("ag", "ent"), concat!("ag", "ents")];
    let phrase = concat!("helper", " session");
    file.lines(&file.text, |line| {
        let lower = line.to_lowercase();
        lower.contains(phrase) || words.iter().any(|word| source::has_word(&lower, word))
    })
}

fn later(file: &Tracked) -> Vec<String> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    file.lines(&file.text, |line| words.iter().any(|word| source::has_word(line, word)))
}

fn ignored_tests(file: &Tracked) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    file.lines(&file.code, |line| line.trim_start().starts_with("#[ignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Tracked {
        Tracked::new(path, text.to_owned())
    }

    #[test]
    fn every_rule_finds_its_fault() {
        let long_function = format!("//! x\nfn f() {{\n{}}}\n", "a();\n".repeat(FUNCTION_MAX));
        let long_file = "//! x\n".repeat(FILE_MAX + 1);
        let machine = format!("//! in {}x\n", concat!("/wo", "rk/"));
        let foreign = format!("//! an {}\n", concat!("Ag", "ent"));
        let later = format!("//! {}: x\n", concat!("TO", "DO"));
        let faulty: [&str; 11] = [
            "//! x\nunsafe { a() }",
            "//! \u{fc}",
            "fn f() {}",
            "",
            &long_file,
            &long_function,
            &machine,
            &foreign,
            &later,
            "//! x\n    #[ignore]\n",
            "//! x\n/// whoever calls\n",
        ];
        for ((name, rule), text) in RULES.iter().zip(faulty) {
            let path = if *name == "no mod.rs" { "a/mod.rs" } else { "a.rs" };
            assert_eq!(rule(&file(path, text)).len(), 1, "{name}");
            assert_eq!(
                rule(&file("a.rs", "//! fine\nfn f() { \"unsafe\"; }\n")).len(),
                0,
                "{name}"
            );
        }
    }

    #[test]
    fn paths_inside_the_repository_are_no_machine_paths() {
        let text = format!("//! target/oracle{}x\n", concat!("/wo", "rk/"));
        assert_eq!(machine_paths(&file("a.rs", &text)).len(), 0);
    }
}
