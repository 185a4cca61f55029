//! `cargo xtask tidy`: what the repository promises about itself and a compiler does not check.

use crate::command::{self, repository};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The rooms from the bottom up: a crate depends only on crates above it in this list.
const ROOMS: &[&str] = &[
    "eraseblock-base",
    "eraseblock-codec",
    "eraseblock-ubi-format",
    "eraseblock-ubifs-format",
    "eraseblock-jffs2-format",
    "eraseblock-mtd",
    "eraseblock-mtd-host",
    "eraseblock-nandsim",
    "eraseblock-ubi",
    "eraseblock-vfs",
    "eraseblock-ubifs",
    "eraseblock-jffs2",
    "eraseblock-tree",
    "eraseblock-lab",
    "eraseblock",
    "oracle-manifest",
    "xtask",
];
/// The one room that may talk to the operating system without a typed layer in between.
const UNSAFE_ROOM: &str = "crates/mtd-host/";
/// Longest file and longest function of product code, in lines.
const FILE_LINES: usize = 1000;
const FUNCTION_LINES: usize = 100;
/// Words that have no place in the repository, in two halves so that this file passes.
const UNFINISHED: &[(&str, &str)] =
    &[("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("#[ign", "ore"), ("todo", "!("), ("dbg", "!(")];

/// What one check has to say against the repository.
type Complaints = Vec<String>;

/// Runs every check; a line each and the count at the end.
pub(crate) fn run() -> Result<bool> {
    let files = tracked()?;
    let rust: Vec<Source> = files
        .iter()
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "rs"))
        .map(|name| Source::read(name))
        .collect::<Result<_>>()?;
    let checks: [(&str, Complaints); 8] = [
        ("arrows between rooms point down", arrows()?),
        (
            "no unsafe outside mtd-host",
            lines(&rust, |source, line| {
                !source.name.starts_with(UNSAFE_ROOM) && code(line).contains(concat!("un", "safe "))
            }),
        ),
        ("source is ASCII outside texts", lines(&rust, |_, line| !is_plain(line))),
        (
            "every file begins with what it is",
            whole(&rust, |source| {
                let first = source.text.lines().next().unwrap_or_default();
                (!first.starts_with("//!")).then(|| "does not begin with `//!`".to_owned())
            }),
        ),
        (
            "no mod.rs",
            whole(&rust, |source| {
                source.name.ends_with("/mod.rs").then(|| "is named mod.rs".to_owned())
            }),
        ),
        (
            "files stay readable",
            whole(&rust, |source| {
                let count = source.text.lines().count();
                (count > FILE_LINES)
                    .then(|| format!("has {count} lines, at most {FILE_LINES} wanted"))
            }),
        ),
        ("functions stay readable", rust.iter().flat_map(long_functions).collect()),
        (
            "nothing is left unfinished",
            lines(&rust, |_, line| {
                UNFINISHED.iter().any(|(a, b)| line.contains(&format!("{a}{b}")))
            }),
        ),
    ];
    let failed = checks.iter().filter(|(_, complaints)| !complaints.is_empty()).count();
    for (what, complaints) in &checks {
        println!("{} {what}", if complaints.is_empty() { "pass" } else { "FAIL" });
        for complaint in complaints {
            println!("     {complaint}");
        }
    }
    println!("{} passed, {failed} failed", checks.len() - failed);
    Ok(failed == 0)
}

struct Source {
    name: String,
    text: String,
}

impl Source {
    fn read(name: &str) -> Result<Self> {
        let text = fs::read_to_string(repository().join(name)).with_context(|| name.to_owned())?;
        Ok(Self { name: name.to_owned(), text })
    }
}

/// The files that are part of the repository.
fn tracked() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    let out = command::output(git.arg("ls-files").current_dir(repository()))?;
    let exists = |name: &&str| Path::new(&repository().join(name)).is_file();
    Ok(out.lines().filter(exists).map(str::to_owned).collect())
}

fn whole(sources: &[Source], judge: impl Fn(&Source) -> Option<String>) -> Complaints {
    let complain = |source| judge(source).map(|what| format!("{}: {what}", source.name));
    sources.iter().filter_map(complain).collect()
}

fn lines(sources: &[Source], is_wrong: impl Fn(&Source, &str) -> bool) -> Complaints {
    let mut complaints = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            if is_wrong(source, line) {
                complaints.push(format!("{}:{}: {}", source.name, number + 1, line.trim()));
            }
        }
    }
    complaints
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Pure ASCII, but for texts in quotes: what is drawn on a terminal may be more.
fn is_plain(line: &str) -> bool {
    line.split(['"', '\'']).step_by(2).all(str::is_ascii)
}

/// Functions that are too long, by counting lines from `fn` to the brace at its indentation.
fn long_functions(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    let mut open: Option<(usize, usize, &str)> = None;
    for (number, line) in source.text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let head = line.trim_start();
        let is_function = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn "]
            .iter()
            .any(|start| head.starts_with(start));
        if is_function && open.is_none() {
            open = Some((number, indent, head));
        } else if let Some((start, depth, name)) = open
            && indent == depth
            && head.starts_with('}')
        {
            let count = number - start + 1;
            if count > FUNCTION_LINES {
                let start = start + 1;
                complaints.push(format!("{}:{start}: {count} lines: {name}", source.name));
            }
            open = None;
        } else if let Some((start, _, _)) = open
            && number == start + 1
            && source.text.lines().nth(start).is_some_and(|line| line.ends_with(';'))
        {
            open = None;
        }
    }
    complaints
}

/// Dependencies that point up, from what cargo says about the workspace.
fn arrows() -> Result<Complaints> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(repository());
    let metadata: Value = serde_json::from_str(&command::output(&mut cargo)?)?;
    let place = |name: &str| ROOMS.iter().position(|room| *room == name);
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(here) = place(name) else {
            complaints.push(format!("{name} has no place in the order of rooms"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let is_for_tests = dependency["kind"].as_str() == Some("dev");
            if !is_for_tests && place(target).is_some_and(|there| there >= here) {
                complaints.push(format!("{name} depends on {target}, which is not below it"));
            }
        }
    }
    Ok(complaints)
}
