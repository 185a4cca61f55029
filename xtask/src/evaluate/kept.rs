//! Results of expensive parts, kept with a hash of everything that went into them.
//!
//! # Invariants
//! 1. A kept result is taken only if all inputs are the same; a part that failed leaves nothing.
//! 2. What a part leaves is what it measured, not what was computed from it: other rules and other
//!    tables need no new run.

use crate::command::repository;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the parts are kept.
const KEPT: &str = "target/evaluate/kept";
/// The file with the hash of the inputs, in the folder of a part.
const STAMP: &str = "inputs";

/// Returns a hash as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Everything that goes into a part, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    hash: Sha256,
}

impl Inputs {
    /// Adds an input; its length is part of the hash, so that none can continue the one before.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        for bytes in [name.as_bytes(), value.as_ref()] {
            self.hash.update((bytes.len() as u64).to_le_bytes());
            self.hash.update(bytes);
        }
        self
    }

    /// Adds the content of a file.
    pub(super) fn with_file(self, name: &str, path: &Path) -> Result<Self> {
        let content = fs::read(path).with_context(|| path.display().to_string())?;
        Ok(self.with(name, Sha256::digest(content)))
    }

    /// Returns the hash as text.
    pub(super) fn stamp(&self) -> String {
        hex(&self.hash.clone().finalize())
    }
}

/// A part that was measured now or is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    /// The hash of its inputs.
    pub(super) stamp: String,
    pub(super) folder: PathBuf,
    pub(super) is_kept: bool,
}

/// The folder of all parts.
#[derive(Debug)]
pub(super) struct Kept {
    root: PathBuf,
    /// Whether kept results may be taken.
    is_trusted: bool,
    parts: Vec<Part>,
}

/// Whether kept results may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Trust {
    #[default]
    Kept,
    Fresh,
}

impl Kept {
    /// Returns the parts of this repository.
    pub(super) fn new(trust: Trust) -> Self {
        Self::at(repository().join(KEPT), trust)
    }

    fn at(root: PathBuf, trust: Trust) -> Self {
        Self { root, is_trusted: trust == Trust::Kept, parts: Vec::new() }
    }

    /// Returns the folder of a part. `measure` fills it, unless it is kept with the same inputs.
    pub(super) fn part(
        &mut self,
        name: &str,
        inputs: &Inputs,
        measure: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Part> {
        let folder = self.root.join(name);
        let stamp = inputs.stamp();
        let known = fs::read_to_string(folder.join(STAMP)).ok();
        let is_kept = self.is_trusted && known.as_ref() == Some(&stamp);
        if !is_kept {
            let partial = self.root.join(format!("{name}.partial"));
            let _ = fs::remove_dir_all(&partial);
            fs::create_dir_all(&partial).with_context(|| partial.display().to_string())?;
            measure(&partial)?;
            fs::write(partial.join(STAMP), &stamp)?;
            let _ = fs::remove_dir_all(&folder);
            fs::rename(&partial, &folder).with_context(|| folder.display().to_string())?;
        }
        let part = Part { name: name.to_owned(), stamp, folder, is_kept };
        self.parts.push(part.clone());
        Ok(part)
    }

    /// Returns what was taken so far.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::cell::Cell;

    #[test]
    fn a_part_runs_again_only_if_an_input_changes() {
        let root = tempfile::tempdir().unwrap();
        let runs = Cell::new(0);
        let measure = |folder: &Path| {
            runs.set(runs.get() + 1);
            Ok(fs::write(folder.join("counts"), runs.get().to_string())?)
        };
        let take = |trust, inputs: &Inputs| {
            let mut kept = Kept::at(root.path().to_path_buf(), trust);
            let part = kept.part("steps", inputs, measure).unwrap();
            assert_eq!(kept.parts(), std::slice::from_ref(&part));
            (fs::read_to_string(part.folder.join("counts")).unwrap(), part.is_kept)
        };
        let inputs = Inputs::default().with("script", "tar").with("blocks", "64");
        assert_eq!(take(Trust::Kept, &inputs), ("1".to_owned(), false));
        assert_eq!(take(Trust::Kept, &inputs), ("1".to_owned(), true));
        assert_eq!(take(Trust::Kept, &inputs.clone().with("more", "")), ("2".to_owned(), false));
        assert_eq!(take(Trust::Fresh, &inputs), ("3".to_owned(), false));
        assert_eq!(take(Trust::Kept, &inputs), ("3".to_owned(), true));
    }

    #[test]
    fn a_part_that_fails_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let mut kept = Kept::at(root.path().to_path_buf(), Trust::Kept);
        let inputs = Inputs::default().with("script", "tar");
        let failed = kept.part("steps", &inputs, |folder| {
            fs::write(folder.join("counts"), "1")?;
            bail!("the guest stopped")
        });
        assert!(failed.is_err() && kept.parts().is_empty());
        let part = kept.part("steps", &inputs, |_| Ok(())).unwrap();
        assert!(!part.is_kept && !part.folder.join("counts").exists());
    }

    #[test]
    fn inputs_differ_by_name_value_and_border() {
        let stamp = |pairs: &[(&str, &str)]| {
            let add = |inputs: Inputs, pair: &(&str, &str)| inputs.with(pair.0, pair.1);
            pairs.iter().fold(Inputs::default(), add).stamp()
        };
        let mut all = vec![
            stamp(&[("a", "b")]),
            stamp(&[("a", "c")]),
            stamp(&[("b", "b")]),
            stamp(&[("ab", "")]),
            stamp(&[("", "ab")]),
            stamp(&[("a", "b"), ("", "")]),
        ];
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
    }
}
