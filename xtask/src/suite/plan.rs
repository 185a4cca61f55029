//! The steps of `make test` and `make test-full`, and their extent. CONTRIBUTING.md has the same
//! list.

use super::counts::{self, Counts};
use crate::command::{cargo_path, repository};
use anyhow::{Context, Result};

/// A step: a command that passes or fails.
#[derive(Debug)]
pub(super) struct Step {
    /// Its name, and that of its log.
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
    /// Steps that must have passed before; they precede it.
    pub(super) after: &'static [&'static str],
    /// Extracts its counts from its log.
    pub(super) counts: fn(&str) -> Counts,
}

/// A step as a line of words; `{cargo}`, `{xtask}` and `{bin}` (our command) are filled in.
struct Row {
    name: &'static str,
    /// For `make test`; empty for a step of `make test-full` only.
    short: &'static str,
    /// For `make test-full`; empty for the same as `short`.
    full: &'static str,
    after: &'static [&'static str],
    counts: fn(&str) -> Counts,
}

/// In the order of their start. The short form uses one build for everything: tests, mounts, power
/// cuts and the oracle's guest. Steps of cargo follow each other, because they would only wait for
/// its lock.
const ROWS: [Row; 28] = [
    Row {
        name: "format",
        short: "{cargo} fmt --all --check",
        full: "",
        after: &[],
        counts: counts::nothing,
    },
    Row { name: "rules", short: "{xtask} tidy", full: "", after: &[], counts: counts::last_line },
    Row {
        name: "tools",
        short: "make --no-print-directory tools",
        full: "",
        after: &[],
        counts: counts::nothing,
    },
    Row {
        name: "build",
        short: "{cargo} test --quiet --workspace --exclude eraseblock-fuser \
                --exclude eraseblock-nfs3-server --no-run",
        full: "",
        after: &["format"],
        counts: counts::warnings,
    },
    // Together all packages build with all features.
    Row {
        name: "features",
        short: "{cargo} check --quiet --package eraseblock",
        full: "",
        after: &["build"],
        counts: counts::nothing,
    },
    Row {
        name: "package",
        short: "{cargo} package --quiet --workspace --no-verify --allow-dirty",
        full: "",
        after: &["build"],
        counts: counts::nothing,
    },
    Row {
        name: "docs",
        short: "",
        full: "env RUSTDOCFLAGS=-Dwarnings {cargo} doc --quiet --workspace --exclude eraseblock-fuser \
               --exclude eraseblock-nfs3-server --no-deps",
        after: &["package"],
        counts: counts::nothing,
    },
    Row {
        name: "no-std",
        short: "",
        full: "make --no-print-directory no-std",
        after: &["docs"],
        counts: counts::nothing,
    },
    Row {
        name: "features",
        short: "",
        full: "make --no-print-directory features capi-check",
        after: &["no-std"],
        counts: counts::nothing,
    },
    Row {
        name: "release",
        short: "",
        full: "{cargo} build --quiet --release --package eraseblock-cli --package xtask",
        after: &["build"],
        counts: counts::nothing,
    },
    // Its module is built with everything else that cargo builds, and before the rest needs the lock.
    Row {
        name: "python",
        short: "{xtask} python",
        full: "",
        after: &["build"],
        counts: counts::last_line,
    },
    Row {
        name: "capi",
        short: "{xtask} capi",
        full: "",
        after: &["python"],
        counts: counts::last_line,
    },
    Row {
        name: "wheel",
        short: "",
        full: "{xtask} python --wheel",
        after: &["release"],
        counts: counts::last_line,
    },
    Row {
        name: "dist",
        short: "",
        full: "make --no-print-directory dist CHECK=1",
        after: &["release"],
        counts: counts::last_line,
    },
    Row {
        name: "site",
        short: "",
        full: "make --no-print-directory site CHECK=1",
        after: &["build"],
        counts: counts::last_line,
    },
    Row {
        name: "guest",
        short: "{xtask} oracle --prepare --bin {bin}",
        full: "",
        after: &["build", "release"],
        counts: counts::nothing,
    },
    Row {
        name: "tests",
        short: "{cargo} test --quiet --workspace --exclude eraseblock-fuser \
                --exclude eraseblock-nfs3-server --no-fail-fast",
        full: "",
        after: &["guest"],
        counts: counts::of_cargo,
    },
    Row {
        name: "oracle",
        short: "{xtask} oracle --bin {bin} --short",
        full: "{xtask} oracle --bin {bin}",
        after: &["guest"],
        counts: counts::last_line,
    },
    Row {
        name: "binwalk",
        short: "",
        full: "{xtask} binwalk",
        after: &["oracle"],
        counts: counts::of_cargo,
    },
    Row {
        name: "planted",
        short: "{xtask} planted --share 16",
        full: "{xtask} planted",
        after: &["guest"],
        counts: counts::last_line,
    },
    Row {
        name: "posix",
        short: "{xtask} posix --short",
        full: "",
        after: &["guest", "tools"],
        counts: counts::last_line,
    },
    Row {
        name: "cuts",
        short: "{xtask} cuts --bin {bin}",
        full: "{xtask} cuts --bin {bin} --full",
        after: &["guest"],
        counts: counts::last_line,
    },
    Row {
        name: "mutants",
        short: "",
        full: "{xtask} mutants --count 60 --again --jobs 2",
        after: &["guest"],
        counts: counts::last_line,
    },
    Row {
        name: "mutate",
        short: "{xtask} mutate --count 20000",
        full: "{xtask} mutate --count 100000",
        after: &["guest"],
        counts: counts::last_line,
    },
    Row {
        name: "explore",
        short: "",
        full: "{xtask} explore --bin {bin}",
        after: &["release"],
        counts: counts::last_line,
    },
    Row {
        name: "consumer",
        short: "",
        full: "{xtask} consumer",
        after: &["package"],
        counts: counts::last_line,
    },
    Row {
        name: "api",
        short: "",
        full: "make --no-print-directory api",
        after: &["package"],
        counts: counts::last_line,
    },
    Row {
        name: "deny",
        short: "",
        full: "make --no-print-directory deny",
        after: &[],
        counts: counts::nothing,
    },
];

/// Returns all steps of the short or the full form.
pub(super) fn steps(is_full: bool) -> Result<Vec<Step>> {
    let target = repository().join("target").join(if is_full { "release" } else { "debug" });
    let text = |name: &str| {
        let path = target.join(name);
        path.to_str().map(str::to_owned).context("the path of the repository is not UTF-8")
    };
    // The tidiness of the sources needs no release build.
    let this = std::env::current_exe()?.display().to_string();
    let (bin, built) = (text("eraseblock")?, text("xtask")?);
    let filled = |name: &str, word: &str| match word {
        "{cargo}" => cargo_path(),
        "{xtask}" if name == "rules" || !is_full => this.clone(),
        "{xtask}" => built.clone(),
        "{bin}" => bin.clone(),
        word => word.to_owned(),
    };
    let rows = ROWS.iter().filter(|row| is_full || !row.short.is_empty());
    let step = |row: &Row| {
        let words = if is_full && !row.full.is_empty() { row.full } else { row.short };
        let command = words.split(' ').map(|word| filled(row.name, word)).collect();
        Step { name: row.name, command, after: row.after, counts: row.counts }
    };
    Ok(rows.map(step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_stands_after_those_that_it_needs() {
        for is_full in [false, true] {
            let steps = steps(is_full).unwrap();
            let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
            for (index, step) in steps.iter().enumerate() {
                assert!(step.command.len() > 1, "{step:?}");
                for name in step.after {
                    let is_before = names[..index].contains(name);
                    assert!(is_before || !names.contains(name), "{} needs {name}", step.name);
                }
            }
        }
    }

    #[test]
    fn the_full_form_has_every_step_of_the_short_one() {
        let names = |is_full| -> Vec<_> {
            steps(is_full).unwrap().into_iter().map(|step| step.name).collect()
        };
        let (short, full) = (names(false), names(true));
        assert!(short.iter().all(|name| full.contains(name)));
        assert_eq!(full.len() - short.len(), 13);
    }

    #[test]
    fn contributing_names_every_step() {
        let page = std::fs::read_to_string(repository().join("CONTRIBUTING.md")).unwrap();
        for row in &ROWS {
            assert!(page.contains(&format!("| `{}` |", row.name)), "{}", row.name);
        }
    }
}
