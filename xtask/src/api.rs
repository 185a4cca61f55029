//! `cargo xtask api`: the public interface of the library, listed in `api/eraseblock.txt`.
//!
//! Each change of the interface changes the list, so that a reviewer sees it. What breaks programs
//! that worked with the last release is refused.

use crate::command::{output, repository};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const LIST: &str = "api/eraseblock.txt";
const PACKAGE: &str = "eraseblock";
/// How many differences are shown.
const SHOWN: usize = 20;

/// Compares the interface with the list and with the last release; `--baseline REVISION` names
/// another state to compare with.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let baseline = match args {
        [] => last_release()?,
        [option, revision] if option == "--baseline" => Some(revision.clone()),
        _ => anyhow::bail!("usage: cargo xtask api [--baseline REVISION]"),
    };
    let items = check_list(&repository().join(LIST), &list()?)?;
    let Some(revision) = baseline else {
        println!("{items} passed, 0 failed: public items as listed; no release to compare with");
        return Ok(true);
    };
    let mut command = tool("cargo-semver-checks");
    command.args(["semver-checks", "--package", PACKAGE, "--baseline-rev", &revision]);
    output(&mut command).with_context(|| format!("the interface breaks users of {revision}"))?;
    let functions = crate::abi::ensure_compatible(&revision)?;
    println!(
        "{} passed, 0 failed: public items as listed; they and {functions} functions for C are \
         compatible with {revision}",
        items + functions
    );
    Ok(true)
}

/// Returns the tag of the last release, if there is one.
fn last_release() -> Result<Option<String>> {
    let mut command = Command::new("git");
    command.args(["tag", "--list", "v*", "--sort=-version:refname"]);
    let tags = output(command.current_dir(repository()))?;
    Ok(tags.lines().next().map(str::to_owned))
}

/// Returns the public items, one a line.
fn list() -> Result<String> {
    let mut command = tool("cargo-public-api");
    command.args(["public-api", "--package", PACKAGE, "--all-features", "-sss"]);
    output(&mut command)
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(repository().join("target/tools/bin").join(name));
    command.current_dir(repository()).env("CARGO_TARGET_DIR", repository().join("target/api"));
    command
}

/// Compares the items with the list; returns their number. `ERASEBLOCK_BLESS=1` renews the list.
fn check_list(path: &Path, found: &str) -> Result<usize> {
    if env::var_os("ERASEBLOCK_BLESS").is_some() {
        fs::create_dir_all(path.parent().context("the list lies in a folder")?)?;
        fs::write(path, found)?;
    }
    let listed = fs::read_to_string(path).with_context(|| format!("cannot read {LIST}"))?;
    let differences = differences(&listed, found);
    ensure!(
        differences.is_empty(),
        "the interface differs from {LIST}:\n{differences}\
         if this is intended: ERASEBLOCK_BLESS=1 make api"
    );
    Ok(found.lines().count())
}

/// Returns the first differences, one a line.
fn differences(listed: &str, found: &str) -> String {
    let lines = |text| str::lines(text).collect::<BTreeSet<&str>>();
    let (before, after) = (lines(listed), lines(found));
    let missing = listed.lines().filter(|item| !after.contains(item));
    let new = found.lines().filter(|item| !before.contains(item));
    let all: Vec<String> = missing
        .map(|item| format!("- {item}"))
        .chain(new.map(|item| format!("+ {item}")))
        .collect();
    let mut text = String::new();
    for difference in all.iter().take(SHOWN) {
        let _ = writeln!(text, "{difference}");
    }
    if all.len() > SHOWN {
        let _ = writeln!(text, "and {} more", all.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_new_items_are_differences() {
        assert_eq!(differences("a\nb\n", "a\nc\n"), "- b\n+ c\n");
        assert_eq!(differences("a\n", "a\n"), "");
        let many: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        assert!(differences("", &many.join("\n")).ends_with("and 10 more\n"));
    }
}
