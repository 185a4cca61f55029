//! `cargo xtask planted`: bugs planted in a scratch copy of the sources, and the tests that must
//! catch them.
//!
//! The product holds no bug on purpose and no switch for one. The patches in `planted/` add both to
//! a copy under `target/`, together with the hunts and tests that look for them.
//!
//! # Invariants
//! 1. The repository is only read; `--renew` alone writes, and only below `planted/`.
//! 2. A file of the copy is rewritten only if its content changes, so that cargo builds as little
//!    as after any other edit.
//! 3. A patch that does not apply is a failure, never a bug left out.

use crate::command::{output, repository};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The patches and the crates each of them changes.
const PATCHES: [(&str, &[&str]); 4] = [
    ("ubi", &["crates/ubi", "crates/ubi-schedule"]),
    ("ubifs", &["crates/ubifs"]),
    ("jffs2", &["crates/jffs2"]),
    ("lab", &["crates/lab"]),
];

/// The tests that the patches add or extend; each must run and pass.
const TESTS: [&str; 10] = [
    "planted_bugs_are_caught_and_replayed",
    "planted_bugs_are_caught",
    "known_bugs_are_caught_and_replayed",
    "flags_and_rarer_forms_survive_cuts",
    "every_planted_bug_is_caught",
    "nothing_is_caught_where_no_bug_is_planted",
    "forgotten_buffers_and_torn_space_are_caught",
    "a_stale_anchor_is_noticed",
    "an_index_that_goes_into_gaps_survives_cuts",
    "a_reader_that_does_not_wait_for_the_lock_loses_its_request",
];

/// The packages that hold them.
const PACKAGES: [&str; 5] = [
    "eraseblock-lab",
    "eraseblock-jffs2",
    "eraseblock-ubi",
    "eraseblock-ubifs",
    "eraseblock-ubi-schedule",
];

/// Makes the copy and runs its tests; `--table` prints how each bug showed, `--renew` writes the
/// patches again from an edited copy instead.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let copies = Copies::new();
    match args {
        [] => copies.plant().and_then(|()| copies.test(false)),
        [option] if option == "--table" => copies.plant().and_then(|()| copies.test(true)),
        [option] if option == "--renew" => copies.renew().map(|()| true),
        _ => bail!("expected nothing, --table or --renew"),
    }
}

/// The folders under `target/planted`.
struct Copies {
    root: PathBuf,
    /// The sources as they are.
    clean: PathBuf,
    /// The sources with the patches.
    fresh: PathBuf,
    /// What is built: `fresh`, with the times of files that have not changed.
    tree: PathBuf,
}

impl Copies {
    fn new() -> Self {
        let root = repository().join("target/planted");
        let [clean, fresh, tree] = ["clean", "fresh", "tree"].map(|name| root.join(name));
        Self { root, clean, fresh, tree }
    }

    /// Brings the copy up to date with the sources and the patches.
    fn plant(&self) -> Result<()> {
        export(&self.fresh)?;
        for (name, _) in PATCHES {
            let patch = repository().join("planted").join(name).with_extension("patch");
            let applied =
                output(self.git(&self.fresh).args(["apply", "--whitespace=nowarn"]).arg(&patch));
            applied.with_context(|| {
                format!(
                    "{} no longer fits the sources; in {} run `git apply --reject` with it, mend \
                     what is left over, copy the folder to {} and run `cargo xtask planted --renew`",
                    patch.display(),
                    self.fresh.display(),
                    self.tree.display()
                )
            })?;
        }
        mirror(&self.fresh, &self.tree)
    }

    /// Writes the patches that lead from the sources to the copy.
    fn renew(&self) -> Result<()> {
        export(&self.clean)?;
        for (name, rooms) in PATCHES {
            let mut patch = String::new();
            for room in rooms {
                patch += &self.difference(room)?;
            }
            let file = repository().join("planted").join(name).with_extension("patch");
            fs::write(&file, patch).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    fn difference(&self, room: &str) -> Result<String> {
        let mut git = self.git(&self.root);
        git.args(["diff", "--no-index", "--no-color", "--no-renames"]);
        let done = git.args([format!("clean/{room}"), format!("tree/{room}")]).output()?;
        // git says 1 where the folders differ.
        ensure!(done.status.code().is_some_and(|code| code <= 1), "git diff: {}", done.status);
        let text = String::from_utf8(done.stdout).context("a file that is no text")?;
        Ok(text.lines().filter(|line| !line.starts_with("index ")).map(in_the_sources).collect())
    }

    /// `git` in a folder, without the repository around it.
    fn git(&self, folder: &Path) -> Command {
        let mut git = Command::new("git");
        git.current_dir(folder).env("GIT_CEILING_DIRECTORIES", &self.root);
        git
    }

    /// Runs the tests of the copy. The build shares what is not ours with that of the sources.
    fn test(&self, table: bool) -> Result<bool> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut tests = Command::new(cargo);
        tests.current_dir(&self.tree).env("CARGO_TARGET_DIR", repository().join("target"));
        tests.args(["test", "--quiet"]).args(PACKAGES.iter().flat_map(|name| ["--package", name]));
        tests.args(["--lib", "--tests", "--"]).args(TESTS);
        if table {
            tests.arg("--nocapture");
        }
        let done = tests.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&done.stdout);
        if table || !done.status.success() {
            print!("{text}");
        }
        let passed = passed(&text);
        println!("{passed} of {} tests of planted bugs passed", TESTS.len());
        Ok(done.status.success() && passed == TESTS.len())
    }
}

/// A line of a difference between the two folders, with the names that the sources have.
fn in_the_sources(line: &str) -> String {
    let is_head = ["diff --git ", "--- ", "+++ "].iter().any(|head| line.starts_with(head));
    if !is_head {
        return format!("{line}\n");
    }
    let names = [("a/clean/", "a/"), ("a/tree/", "a/"), ("b/clean/", "b/"), ("b/tree/", "b/")];
    names.iter().fold(format!("{line}\n"), |line, (copy, source)| line.replace(copy, source))
}

/// The tests that passed, over all summaries that the test harness prints.
fn passed(text: &str) -> usize {
    let counts = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    let counts = counts.filter_map(|line| line.split_once(". ")?.1.split_once(" passed"));
    counts.filter_map(|(count, _)| count.parse::<usize>().ok()).sum()
}

/// Copies every file of the sources, tracked or new, to an empty folder.
fn export(to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let names = output(Command::new("git").current_dir(repository()).args(list))?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, copy) = (repository().join(name), to.join(name));
        // A file that is deleted and not committed yet is still listed.
        if from.is_file() {
            fs::create_dir_all(copy.parent().expect("a file lies in a folder"))?;
            fs::copy(&from, &copy).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    Ok(())
}

/// Makes `to` equal to `from`, leaving files alone that are equal already.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let path = to.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    for name in wanted {
        let (source, copy) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            mirror(&source, &copy)?;
        } else if fs::read(&copy).ok() != Some(fs::read(&source)?) {
            fs::copy(&source, &copy)?;
        }
    }
    Ok(())
}

fn names(folder: &Path) -> Result<BTreeSet<std::ffi::OsString>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_added_up() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored\nnoise\n\
                    test result: FAILED. 2 passed; 1 failed; 0 ignored\n";
        assert_eq!(passed(text), 5);
    }

    #[test]
    fn a_mirror_keeps_what_is_equal() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/same"), "same").unwrap();
        fs::write(from.join("new"), "new").unwrap();
        fs::create_dir_all(to.join("a")).unwrap();
        fs::write(to.join("a/same"), "same").unwrap();
        fs::write(to.join("old"), "old").unwrap();
        let before = fs::metadata(to.join("a/same")).unwrap().modified().unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::metadata(to.join("a/same")).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read(to.join("new")).unwrap(), b"new");
        assert!(!to.join("old").exists());
    }
}
