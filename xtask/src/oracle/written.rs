//! Images made by real Linux: those of UBIFS and of JFFS2 are made, kept and judged alike.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::{Checks, Paths};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The points at which an image of each case is taken.
const POINTS: [&str; 3] = ["cut1", "cut2", "clean"];

/// A group of images that one script of the guest makes.
pub(super) struct Group {
    /// The name of its batch.
    pub(super) batch: &'static str,
    /// What the report calls it.
    pub(super) title: &'static str,
    pub(super) script: &'static str,
    /// Messages of the kernel that are no complaints here.
    pub(super) allowed: &'static [&'static str],
    /// Everything else that determines the images.
    pub(super) inputs: String,
    /// Completes and checks an image: the results of its case, its own directory, its point.
    pub(super) complete: fn(&Path, &Path, &str) -> Result<()>,
}

/// A case: one file system of the guest, and an image of it for each point.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The variables of the script.
    pub(super) variables: Vec<(&'static str, String)>,
    /// The information that a reader of its images needs.
    pub(super) info: Value,
}

/// Returns the names of the images of a case, as checks and as directories.
pub(super) fn image_names(case: &str) -> [String; POINTS.len()] {
    POINTS.map(|point| format!("{case}-{point}"))
}

/// Returns the name of the check of a case.
pub(super) fn check_name(case: &str) -> String {
    format!("linux-writes/{case}")
}

impl Group {
    /// Creates the images of all requested cases, in one boot, and checks that Linux accepts its
    /// own images. Images are kept for the next run unless `fresh` is set or their inputs changed.
    pub(super) fn run(
        &self,
        guest: &Guest,
        paths: &Paths,
        fresh: bool,
        cases: Vec<Case>,
        checks: &mut Checks,
    ) -> Result<()> {
        let stamp = self.stamp(guest, paths)?;
        let wanted = cases.into_iter().filter(|case| checks.wants(&check_name(case.name)));
        let is_kept = |case: &Case| {
            let kept = fs::read_to_string(stamp_file(paths, case));
            !fresh && kept.is_ok_and(|kept| kept == stamp)
        };
        let (kept, made): (Vec<Case>, Vec<Case>) = wanted.partition(is_kept);
        for case in kept {
            let name = format!("{} (kept from an earlier run)", check_name(case.name));
            checks.record(&name, Ok(()));
        }
        if made.is_empty() {
            return Ok(());
        }
        let batch_case = |case: &Case| BatchCase {
            name: case.name.to_owned(),
            script: self.script,
            variables: case.variables.clone(),
            files: Vec::new(),
        };
        let batch_cases: Vec<BatchCase> = made.iter().map(batch_case).collect();
        let batch = Batch::run(guest, paths, self.batch, &[], &batch_cases)?;
        println!("      {}: {:.1} s in the guest", self.title, batch.seconds());
        for case in made {
            let outcome = batch.case_dir(case.name).and_then(|dir| {
                self.collect(guest, paths, &dir, &case)?;
                Ok(fs::write(stamp_file(paths, &case), &stamp)?)
            });
            checks.record(&check_name(case.name), outcome);
        }
        paths.finish(batch)
    }

    /// Returns everything, except chance, that determines the images.
    fn stamp(&self, guest: &Guest, paths: &Paths) -> Result<String> {
        let program = crate::command::run("sha256sum", [&paths.manifest_program])?;
        let program = program.split(' ').next().unwrap_or_default();
        let scripts = [self.script, include_str!("../../guest/lib.sh")];
        Ok(format!("{}\n{program}\n{}\n{scripts:?}\n", guest.release(), self.inputs))
    }

    /// Moves the results of a case to the directories that readers use.
    fn collect(&self, guest: &Guest, paths: &Paths, from: &Path, case: &Case) -> Result<()> {
        for (point, name) in POINTS.into_iter().zip(image_names(case.name)) {
            let place = paths.images.join(name);
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(&paths.images)?;
            fs::rename(from.join(point), &place)?;
            let log = String::from_utf8_lossy(&fs::read(place.join("dmesg"))?).into_owned();
            let found = complaints(&log, self.allowed);
            ensure!(found.is_empty(), "{point}: the kernel complains: {}", found.join("; "));
            let mut info = case.info.clone();
            info["case"] = case.name.into();
            info["point"] = point.into();
            info["kernel"] = guest.release().into();
            fs::write(place.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
            (self.complete)(from, &place, point)?;
        }
        Ok(())
    }
}

fn stamp_file(paths: &Paths, case: &Case) -> PathBuf {
    paths.images.join(format!("{}.stamp", case.name))
}
