//! The sources in which mutants are planted.

use super::operators::{Mutant, mutants};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Files and folders, below the root of the sources.
const SOURCES: [&str; 24] = [
    "crates/ubi/src/account.rs",
    "crates/ubi/src/attach.rs",
    "crates/ubi/src/attach",
    "crates/ubi/src/core.rs",
    "crates/ubi/src/eba.rs",
    "crates/ubi/src/fastmap.rs",
    "crates/ubi/src/io.rs",
    "crates/ubi/src/map.rs",
    "crates/ubi/src/runtime.rs",
    "crates/ubi/src/runtime",
    "crates/ubi/src/upd.rs",
    "crates/ubi/src/vmt.rs",
    "crates/ubi/src/volume.rs",
    "crates/ubi/src/vtbl.rs",
    "crates/ubi/src/wl.rs",
    "crates/ubi/src/wl",
    "crates/ubifs/src/orphan.rs",
    "crates/ubifs/src/recovery.rs",
    "crates/ubifs/src/replay.rs",
    "crates/ubifs/src/log.rs",
    "crates/ubifs/src/rw.rs",
    "crates/ubifs/src/rw",
    "crates/jffs2/src/rw.rs",
    "crates/jffs2/src/rw",
];

/// Not planted: tests, and the checks that judge a state and write nothing. Each finding of a check
/// has a test of its own.
const LEFT_OUT: [&str; 4] = ["tests", "tests.rs", "check", "check.rs"];

/// A source file with its mutants; the numbers of the mutants begin with `first`.
#[derive(Debug)]
pub(super) struct Source {
    /// Below the root.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) first: usize,
    pub(super) mutants: Vec<Mutant>,
}

/// Returns every file of the scope with its mutants.
pub(super) fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for path in SOURCES {
        ensure!(root.join(path).exists(), "{path} is gone: correct the list of mutated sources");
        collect(root, path, &mut paths)?;
    }
    let mut first = 0;
    let mut sources = Vec::new();
    for path in paths {
        let text = fs::read_to_string(root.join(&path))?;
        let shown = path.replacen("crates/", "", 1).replacen("/src/", "/", 1);
        let mutants = mutants(&shown, &text).with_context(|| path.clone())?;
        first += mutants.len();
        sources.push(Source { path, text, first: first - mutants.len(), mutants });
    }
    Ok(sources)
}

fn collect(root: &Path, path: &str, paths: &mut Vec<String>) -> Result<()> {
    let full = root.join(path);
    if full.is_file() {
        paths.push(path.to_owned());
        return Ok(());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&full)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in names.iter().filter(|name| !LEFT_OUT.contains(&name.as_str())) {
        collect(root, &format!("{path}/{name}"), paths)?;
    }
    Ok(())
}
