//! What went into a report: everything needed to measure it again.
//!
//! # Invariants
//! 1. The hash changes if any input does. What only describes the run (time, processor) is not in it.

use super::kept::{Inputs, Kept};
use crate::command::{output, repository, run};
use crate::guest::Guest;
use anyhow::Result;
use eraseblock_card::presets::PRESETS;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The packages whose programs take part.
const PACKAGES: [&str; 10] = [
    "qemu-system-x86",
    "mtd-utils",
    "busybox-static",
    "squashfs-tools",
    "f2fs-tools",
    "nilfs-tools",
    "btrfs-progs",
    "xfsprogs",
    "dosfstools",
    "e2fsprogs",
];

/// Inputs by name, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Manifest {
    entries: Vec<(String, String)>,
    /// Circumstances, which are not inputs.
    about: Vec<(String, String)>,
}

impl Manifest {
    pub(super) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.entries.push((name.to_owned(), value.into()));
    }

    /// Returns the inputs.
    pub(super) fn entries(&self) -> &[(String, String)] {
        &self.entries
    }

    /// Returns the hash of all inputs.
    pub(super) fn hash(&self) -> String {
        let add = |inputs: Inputs, entry: &(String, String)| inputs.with(&entry.0, &entry.1);
        self.entries.iter().fold(Inputs::default(), add).stamp()
    }

    /// Returns everything as JSON.
    pub(super) fn to_json(&self) -> Result<String> {
        let object = |pairs: &[(String, String)]| -> serde_json::Map<String, serde_json::Value> {
            pairs.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect()
        };
        let json = serde_json::json!({
            "hash": self.hash(),
            "inputs": object(&self.entries),
            "about": object(&self.about),
        });
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }

    /// Describes this repository and this machine.
    pub(super) fn of_here() -> Result<Self> {
        let mut manifest = Self::default();
        manifest.add("commit", commit());
        manifest.add("rustc", first_line("rustc", &["--version"]));
        let versions = PACKAGES.map(|package| format!("{package} {}", version(package)));
        manifest.add("packages", versions.join(", "));
        for preset in PRESETS {
            let parameters = serde_json::to_string(&preset.parameters)?;
            manifest.add(&format!("card {}", preset.name), parameters);
        }
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        manifest.about.push(("seconds since 1970".to_owned(), seconds.to_string()));
        manifest.about.push(("processor".to_owned(), processor()));
        Ok(manifest)
    }

    /// Adds a guest.
    pub(super) fn add_guest(&mut self, guest: &Guest) -> Result<()> {
        self.add("guest kernel", guest.release());
        self.add("guest kernel, SHA-256", guest.kernel_hash()?);
        self.add("emulator", first_line("qemu-system-x86_64", &["--version"]));
        let description = Inputs::default().with("guest", guest.description()?).stamp();
        self.add("guest, hash of its description", description);
        Ok(())
    }

    /// Adds the hashes of what went into the measured parts.
    pub(super) fn add_parts(&mut self, kept: &Kept) {
        for part in kept.parts() {
            self.add(&format!("inputs of {}", part.name), &part.stamp);
        }
    }
}

/// Returns the commit, with a mark if files differ from it.
fn commit() -> String {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        output(git.args(args).current_dir(repository())).unwrap_or_default().trim().to_owned()
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    let mark = if changes.is_empty() { "" } else { ", with changes" };
    format!("{}{mark}", git(&["rev-parse", "HEAD"]))
}

fn first_line(program: &str, args: &[&str]) -> String {
    let text = run(program, args).unwrap_or_else(|_| "not installed".to_owned());
    text.lines().next().unwrap_or_default().to_owned()
}

fn version(package: &str) -> String {
    let shown = run("dpkg-query", ["-W", "-f", "${Version}", package]);
    shown.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "not installed".to_owned())
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut manifest = Manifest::default();
        for (name, value) in [("commit", "1"), ("seed", "7"), ("kernel", "6.1")] {
            manifest.add(name, value);
        }
        manifest.about.push(("processor".to_owned(), "one".to_owned()));
        manifest
    }

    #[test]
    fn every_input_is_part_of_the_hash_and_circumstances_are_not() {
        let hash = manifest().hash();
        for changed in 0..3 {
            let mut other = manifest();
            other.entries[changed].1.push('x');
            assert_ne!(other.hash(), hash);
            let mut other = manifest();
            other.entries[changed].0.push('x');
            assert_ne!(other.hash(), hash);
        }
        let mut other = manifest();
        other.about[0].1.push('x');
        assert_eq!(other.hash(), hash);
        assert!(manifest().to_json().unwrap().contains(&hash));
    }

    #[test]
    fn this_repository_has_a_manifest() {
        let manifest = Manifest::of_here().unwrap();
        let names: Vec<&str> = manifest.entries().iter().map(|entry| entry.0.as_str()).collect();
        assert!(names.contains(&"commit") && names.contains(&"card sd-2012-c10"), "{names:?}");
    }
}
