//! The guest of an evaluation: what it measures is kept.

use super::kept::{Inputs, Kept, Part, Trust};
use crate::command::find_program;
use crate::guest::Guest;
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::{Paths, machine};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest that a guest may run.
const MINUTES: u64 = 90;

/// A guest, and the results that it left.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) guest: Guest,
    pub(super) paths: Paths,
    pub(super) kept: Kept,
}

impl Lab {
    /// Prepares the guest; `ours` is our command.
    pub(super) fn new(ours: PathBuf, trust: Trust) -> Result<Self> {
        let (mut guest, paths) = machine(ours, false)?;
        guest.timeout = Duration::from_mins(MINUTES);
        println!("Linux {}", guest.release());
        Ok(Self { guest, paths, kept: Kept::new(trust) })
    }

    /// Returns the inputs that every part has.
    pub(super) fn inputs(&self) -> Result<Inputs> {
        let library = include_str!("../../guest/lib.sh");
        Ok(Inputs::default().with("guest", self.guest.description()?).with("lib.sh", library))
    }

    /// Runs cases in one guest, or takes what they left; the part has a folder for each case, without
    /// the files that the case was given.
    pub(super) fn batch(&mut self, name: &str, cases: &[BatchCase]) -> Result<Part> {
        let mut inputs = self.inputs()?;
        for case in cases {
            inputs = inputs.with("case", &case.name).with("script", case.script);
            for (variable, value) in &case.variables {
                inputs = inputs.with(variable, value);
            }
            for (file, from) in &case.files {
                inputs = inputs.with_file(file, from)?;
            }
        }
        let (guest, paths) = (&self.guest, &self.paths);
        let part = self.kept.part(name, &inputs, |folder| {
            // busybox has none.
            let split = find_program("split").context("no split in PATH")?;
            let batch = Batch::run(guest, paths, &format!("evaluate-{name}"), &[&split], cases)?;
            for case in cases {
                let dir = batch.case_dir(&case.name).with_context(|| case.name.clone())?;
                copy_results(case, &dir, &folder.join(&case.name))?;
            }
            println!("      {name}: {:.0} s", batch.seconds());
            paths.finish(batch)
        })?;
        if part.is_kept {
            println!("      {name}: kept from an earlier run");
        }
        Ok(part)
    }
}

/// Copies what a case left.
fn copy_results(case: &BatchCase, from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_given = case.files.iter().any(|(file, _)| name == *file);
        if !is_given && entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
