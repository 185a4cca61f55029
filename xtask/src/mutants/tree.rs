//! The scratch copy with all mutants, and its build.
//!
//! Mutants that do not compile are left out: the compiler names the place of each error, and the
//! mutant around it goes. This is repeated until the copy compiles.

use super::edit::{self, Edit, Written};
use super::scope::{self, Source};
use crate::command::{cargo_in, repository};
use crate::copy::{export, mirror, rename_version};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What is checked of the copy, and then built.
const CHECKED: &str = "check --keep-going --package eraseblock-ubi --package eraseblock-ubifs \
    --package eraseblock-jffs2";
const TESTED: &str = "test --no-run --package eraseblock-ubi --package eraseblock-ubifs \
    --package eraseblock-jffs2 --package eraseblock-lab --lib --test it --test cuts";
const TESTED_WITHOUT_LAB: &str = "test --no-run --package eraseblock-ubi \
    --package eraseblock-ubifs --package eraseblock-jffs2 --lib --test it";

/// The file of mutants that do not compile.
const REFUSED: &str = "refused.json";

/// The most rounds until the copy must compile.
const ROUNDS: usize = 60;

/// The tests that judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judges {
    All,
    /// Those inside the mutated crates.
    OfTheCrates,
}

/// The copy with its mutants.
#[derive(Debug)]
pub(super) struct Tree {
    /// `target/mutants`.
    pub(super) root: PathBuf,
    pub(super) sources: Vec<Source>,
    /// Numbers of mutants that do not compile.
    pub(super) refused: BTreeSet<usize>,
    /// Test programs.
    pub(super) programs: Vec<Program>,
}

/// A built test program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The folder of its crate.
    pub(super) folder: PathBuf,
    /// `lib`, `it` or `cuts`.
    pub(super) name: String,
}

impl Program {
    /// Returns the name of the folder of its crate, with which the names of mutants begin.
    pub(super) fn room(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "message")]
    diagnostic: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    spans: Vec<Place>,
}

#[derive(Deserialize, Clone, Debug)]
struct Place {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

impl Tree {
    /// Copies the sources and finds the mutants. Those that do not compile are known if the same
    /// sources were built before.
    pub(super) fn open() -> Result<Self> {
        let root = repository().join("target/mutants");
        let clean = root.join("clean");
        export(&clean)?;
        rename_version(&clean, "mutants")?;
        let sources = scope::sources(&clean)?;
        let refused = remembered(&root.join(REFUSED), &sources).unwrap_or_default();
        Ok(Self { root, sources, refused, programs: Vec::new() })
    }

    /// Plants every mutant that compiles and builds the tests.
    pub(super) fn build(&mut self, judges: Judges) -> Result<()> {
        let clean = self.root.join("clean");
        prepare(&clean)?;
        let memory = digest(&self.sources);
        let tested = match judges {
            Judges::All => TESTED,
            Judges::OfTheCrates => TESTED_WITHOUT_LAB,
        };
        for command in [CHECKED, tested] {
            self.programs = self.settle(&clean, command)?;
            let known = serde_json::to_vec(&(&memory, &self.refused))?;
            fs::write(self.root.join(REFUSED), known)?;
        }
        Ok(())
    }

    /// Builds until nothing is refused; returns the test programs.
    fn settle(&mut self, clean: &Path, command: &str) -> Result<Vec<Program>> {
        for _ in 0..ROUNDS {
            let written = self.write(clean)?;
            let (programs, errors) = self.compile(command)?;
            if errors.is_empty() {
                return Ok(programs);
            }
            let found = errors.iter().flat_map(|error| culprits(error, &written));
            let found: BTreeSet<usize> = found.collect();
            let before = self.refused.len();
            self.refused.extend(found);
            let refused = self.refused.len() - before;
            println!("{} errors, {refused} mutants left out", errors.len());
            if refused == 0 {
                let texts: Vec<String> =
                    errors.iter().map(|it| format!("{} {:?}", it.message, it.spans)).collect();
                bail!("the copy does not compile:\n{}", texts.join("\n"));
            }
        }
        bail!("the copy does not compile after {ROUNDS} rounds")
    }

    /// Writes the sources with every mutant that is not refused.
    fn write(&self, clean: &Path) -> Result<BTreeMap<&str, Vec<Written>>> {
        let fresh = self.root.join("fresh");
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        mirror(clean, &fresh)?;
        let mut places = BTreeMap::new();
        for source in &self.sources {
            let edits: Vec<&Edit> = source.mutants.iter().map(|mutant| &mutant.edit).collect();
            let (text, written) = edit::plant(&source.text, &edits, source.first, &self.refused);
            fs::write(fresh.join(&source.path), text)?;
            places.insert(source.path.as_str(), written);
        }
        mirror(&fresh, &self.root.join("tree"))?;
        Ok(places)
    }

    fn compile(&self, command: &str) -> Result<(Vec<Program>, Vec<Diagnostic>)> {
        let mut cargo = cargo_in(&self.root.join("tree"));
        cargo.env("CARGO_TARGET_DIR", repository().join("target"));
        cargo.args(command.split_whitespace()).arg("--message-format=json");
        let done = cargo.stdin(Stdio::null()).output().context("cannot run cargo")?;
        let text = String::from_utf8_lossy(&done.stdout);
        let (mut programs, mut errors) = (Vec::new(), Vec::new());
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let Ok(found) = serde_json::from_str::<Message>(line) else { continue };
            errors
                .extend(found.diagnostic.filter(|it| it.level == "error" && !it.spans.is_empty()));
            if let (Some(path), Some(manifest), Some(target)) =
                (found.executable, found.manifest_path, found.target)
            {
                let folder = manifest.parent().context("a manifest without a folder")?.to_owned();
                let is_lib = target.kind.iter().any(|kind| kind == "lib");
                let name = if is_lib { "lib".to_owned() } else { target.name };
                programs.push(Program { path, folder, name });
            }
        }
        ensure!(
            done.status.success() || !errors.is_empty(),
            "cargo: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        Ok((programs, errors))
    }

    /// Returns every mutant that compiles, by number.
    pub(super) fn viable(&self) -> impl Iterator<Item = (usize, &super::operators::Mutant)> {
        let all = self.sources.iter().flat_map(|source| (source.first..).zip(&source.mutants));
        all.filter(|(number, _)| !self.refused.contains(number))
    }
}

/// Adds the switch and the campaigns to the copy.
fn prepare(clean: &Path) -> Result<()> {
    let kept = clean.join("xtask/mutants");
    fs::copy(kept.join("switch.rs"), clean.join("crates/base/src/mutant.rs"))?;
    fs::copy(kept.join("cuts.rs"), clean.join("crates/lab/tests/cuts.rs"))?;
    let head = clean.join("crates/base/src/lib.rs");
    let text = fs::read_to_string(&head)? + "\npub mod mutant;\n";
    fs::write(head, text)?;
    Ok(())
}

/// Returns the mutants to which an error belongs: the one in whose insertion it lies, otherwise all
/// that it spans, otherwise the smallest one around it, otherwise those between its places.
fn culprits(error: &Diagnostic, written: &BTreeMap<&str, Vec<Written>>) -> BTreeSet<usize> {
    let (first, rest): (Vec<&Place>, Vec<&Place>) =
        error.spans.iter().partition(|it| it.is_primary);
    for places in [first, rest] {
        for place in places {
            let Some(mutants) = written.get(place.file_name.as_str()) else { continue };
            let at = place.byte_start..place.byte_end;
            let found = around(&at, mutants);
            if !found.is_empty() {
                return found;
            }
        }
    }
    between(&error.spans, written)
}

/// Returns the mutants between the places of an error, which may have made a borrow longer.
fn between(places: &[Place], written: &BTreeMap<&str, Vec<Written>>) -> BTreeSet<usize> {
    let Some(file) = places.iter().find_map(|it| written.get_key_value(it.file_name.as_str()))
    else {
        return BTreeSet::new();
    };
    let here = || places.iter().filter(|it| it.file_name == *file.0);
    let start = here().map(|it| it.byte_start).min().unwrap_or(0);
    let end = here().map(|it| it.byte_end).max().unwrap_or(0);
    // A borrow that a loop passes on ends in an assignment after the places.
    let widened = [0, 200, 1000].map(|by| start.saturating_sub(by)..end + by);
    let overlapping = widened.into_iter().map(|range| overlapping(&range, file.1));
    overlapping.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

fn overlapping(range: &Range<usize>, mutants: &[Written]) -> BTreeSet<usize> {
    let found =
        mutants.iter().filter(|it| it.whole.start < range.end && range.start < it.whole.end);
    found.map(|it| it.number).collect()
}

fn around(at: &Range<usize>, mutants: &[Written]) -> BTreeSet<usize> {
    let within = |outer: &Range<usize>| outer.start <= at.start && at.end <= outer.end;
    let inserted = mutants.iter().filter(|it| it.inserted.iter().any(within));
    let smallest = |found: Vec<&Written>| {
        found.into_iter().min_by_key(|it| it.whole.len()).map(|it| it.number).into_iter().collect()
    };
    let inserted: Vec<&Written> = inserted.collect();
    if !inserted.is_empty() {
        return smallest(inserted);
    }
    let enclosing: Vec<&Written> = mutants.iter().filter(|it| within(&it.whole)).collect();
    let spanned = mutants.iter().filter(|it| at.start <= it.whole.start && it.whole.end <= at.end);
    let spanned: BTreeSet<usize> = spanned.map(|it| it.number).collect();
    if spanned.is_empty() { smallest(enclosing) } else { spanned }
}

/// Returns the mutants that did not compile the last time, if the sources are the same.
fn remembered(path: &Path, sources: &[Source]) -> Option<BTreeSet<usize>> {
    let bytes = fs::read(path).ok()?;
    let (known, refused): (String, BTreeSet<usize>) = serde_json::from_slice(&bytes).ok()?;
    (known == digest(sources)).then_some(refused)
}

/// Returns a hash of the sources with their mutants.
fn digest(sources: &[Source]) -> String {
    use sha2::Digest;
    let mut hash = sha2::Sha256::new();
    for source in sources {
        hash.update(&source.text);
        for mutant in &source.mutants {
            hash.update(format!("{:?}", mutant.edit));
        }
    }
    format!("{:x?}", hash.finalize().as_slice())
}
