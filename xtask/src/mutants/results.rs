//! Results of mutants, one JSON document on each line: a run that was interrupted goes on.

use super::coverage::Group;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// A test failed.
    Caught(Caught),
    /// Every test that reaches it passed.
    Survived,
    /// The tests of its crate passed; those of the lab have not run.
    Open,
    /// No test reaches it.
    Unreached,
}

/// The first test that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Caught {
    pub(super) by: Group,
    pub(super) test: String,
    /// Whether it did not end.
    #[serde(default)]
    pub(super) is_timeout: bool,
}

/// What the short campaigns alone say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cuts {
    Caught,
    Missed,
    /// No campaign reaches the mutant.
    Unreached,
}

/// A judged mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judged {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) outcome: Outcome,
    /// If they ran.
    pub(super) cuts: Option<Cuts>,
    pub(super) seconds: f64,
}

impl Judged {
    pub(super) fn is_caught(&self) -> bool {
        matches!(self.outcome, Outcome::Caught(_))
    }
}

/// Reads the results of all shards; later ones replace earlier ones of the same mutant.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Judged>> {
    let mut found = BTreeMap::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        // The last line of a run that was killed may be torn.
        let judged = text.lines().filter_map(|line| serde_json::from_str::<Judged>(line).ok());
        found.extend(judged.map(|it| (it.name.clone(), it)));
    }
    Ok(found)
}

/// Opens a file of results to append to.
pub(super) fn append(folder: &Path, name: &str) -> Result<File> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    let file = File::options().append(true).create(true).open(&path);
    let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
    // Ends a torn line.
    file.write_all(b"\n")?;
    Ok(file)
}
