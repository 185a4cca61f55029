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
//! 3. A patch that does not apply is a failure, and so is a test that did not run: no bug is left
//!    out by mistake.

use crate::command::{cargo_in, output, repository};
use crate::copy::{export, mirror, names, rename_version};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The patches and the crates each of them changes.
const PATCHES: [(&str, &[&str]); 6] = [
    ("ubi", &["crates/ubi", "crates/ubi-schedule"]),
    ("ubifs", &["crates/ubifs"]),
    ("jffs2", &["crates/jffs2"]),
    ("yaffs2", &["crates/yaffs"]),
    ("lab", &["crates/lab"]),
    ("repair", &["crates/repair"]),
];

/// Tests that the patches add or extend, and what holds them.
struct Build {
    /// Arguments of `cargo test`. Naming the targets, in three builds, takes two thirds of the time that
    /// all targets of these crates take in one.
    targets: &'static str,
    /// The ends of the paths of the tests; each must run and pass.
    tests: &'static [&'static str],
    /// Whether they run if only one of several bugs is looked for.
    is_always_run: bool,
}

const BUILDS: [Build; 4] = [
    // The hunts by power cuts, and the orders in which threads take turns.
    Build {
        targets: "--package eraseblock-lab --package eraseblock-ubi-schedule --test it --test schedule",
        tests: &[
            "jffs2::planted_bugs_are_caught_and_replayed",
            "yaffs2::planted_bugs_are_caught_and_replayed",
            "jffs2::some_bugs_break_one_rule_only",
            "ubifs::planted_bugs_are_caught",
            "ubifs::some_bugs_break_one_rule_only",
            "ubi::known_bugs_are_caught_and_replayed",
            "ubifs::flags_and_rarer_forms_survive_cuts",
            "story::a_violation_of_ubi_is_told_from_its_operations_to_its_rule",
            "story::a_violation_of_ubifs_is_told",
            "a_reader_that_does_not_wait_for_the_lock_loses_its_request",
            "no_scrub_request_is_lost",
        ],
        is_always_run: true,
    },
    // What the tests of the crates themselves catch.
    Build {
        targets: "--package eraseblock-jffs2 --lib",
        tests: &[
            "cuts::every_planted_bug_is_caught",
            "cuts::nothing_is_caught_where_no_bug_is_planted",
            "every_fault::forgotten_buffers_and_torn_space_are_caught",
        ],
        is_always_run: false,
    },
    Build {
        targets: "--package eraseblock-ubi --package eraseblock-ubifs --test it",
        tests: &[
            "fastmap::a_stale_anchor_is_noticed",
            "gaps::an_index_that_goes_into_gaps_survives_cuts",
        ],
        is_always_run: false,
    },
    Build {
        targets: "--package eraseblock-repair --test it",
        tests: &[
            "planted::every_inverted_rule_is_caught",
            "planted::without_a_bug_nothing_is_caught",
        ],
        is_always_run: false,
    },
];

/// Makes the copy and runs its tests; `--table` prints how each bug showed, `--share N` looks for one
/// of N bugs by power cuts alone, `--renew` writes the patches from an edited copy instead.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let copies = Copies::new(repository().join("target/planted"));
    let patches = repository().join("planted");
    match args {
        [] => copies.plant(&patches).and_then(|()| copies.test(None, Shown::Counts)),
        [option] if option == "--table" => {
            copies.plant(&patches).and_then(|()| copies.test(None, Shown::EachBug))
        }
        [option, share] if option == "--share" => {
            copies.plant(&patches).and_then(|()| copies.test(Some(share), Shown::Counts))
        }
        [option] if option == "--renew" => copies.renew(&patches).map(|()| true),
        _ => bail!("expected nothing, --table, --share N or --renew"),
    }
}

/// The folders under `target/planted`.
struct Copies {
    root: PathBuf,
    /// The sources as they were when the copy was made.
    clean: PathBuf,
    /// The sources with the patches.
    fresh: PathBuf,
    /// What is built: `fresh`, with the times of files that have not changed.
    tree: PathBuf,
}

impl Copies {
    fn new(root: PathBuf) -> Self {
        let [clean, fresh, tree] = ["clean", "fresh", "tree"].map(|name| root.join(name));
        Self { root, clean, fresh, tree }
    }

    /// Brings the copy up to date with the sources and the patches.
    fn plant(&self, patches: &Path) -> Result<()> {
        export(&self.clean)?;
        rename_version(&self.clean, "planted")?;
        self.apply(patches)
    }

    /// Makes the tree from the clean sources and the patches. Hunks that do not apply are left in
    /// `.rej` files of the tree, where they can be merged by hand.
    fn apply(&self, patches: &Path) -> Result<()> {
        if self.fresh.exists() {
            fs::remove_dir_all(&self.fresh)?;
        }
        mirror(&self.clean, &self.fresh)?;
        let mut failed = Vec::new();
        for (name, _) in PATCHES {
            let patch = patches.join(name).with_extension("patch");
            let mut git = self.git(&self.fresh);
            let applied =
                output(git.args(["apply", "--whitespace=nowarn", "--reject"]).arg(&patch));
            failed.extend(applied.err().map(|error| refused(&patch, &format!("{error:#}"))));
        }
        mirror(&self.fresh, &self.tree)?;
        ensure!(
            failed.is_empty(),
            "{}\nthe sources changed around these bugs. The parts that do not apply are in *.rej \
             files below {}: merge each by hand into the file next to it, delete it, and run \
             `cargo xtask planted --renew`",
            failed.join("\n"),
            self.tree.display()
        );
        Ok(())
    }

    /// Writes the patches that lead from the sources to the copy.
    fn renew(&self, patches: &Path) -> Result<()> {
        ensure!(
            self.clean.is_dir() && self.tree.is_dir(),
            "there is no copy below {}: run `cargo xtask planted` first",
            self.root.display()
        );
        let left = rejected(&self.tree)?;
        ensure!(left.is_empty(), "merge and delete these first: {}", left.join(", "));
        for (name, rooms) in PATCHES {
            let mut patch = String::new();
            for room in rooms {
                patch += &self.difference(room)?;
            }
            ensure!(!patch.is_empty(), "no bug of {name} is left in {}", self.tree.display());
            let file = patches.join(name).with_extension("patch");
            fs::write(&file, patch).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    fn difference(&self, room: &str) -> Result<String> {
        let mut git = self.git(&self.root);
        git.args(["diff", "--no-index", "--no-color", "--no-ext-diff", "--no-renames"]);
        let done = git.args([format!("clean/{room}"), format!("tree/{room}")]).output()?;
        // git exits with 1 if the folders differ.
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

    /// Runs the tests of the copy, for all bugs or for one in so many. The build shares the crates of
    /// others with that of the sources.
    fn test(&self, share: Option<&str>, shown: Shown) -> Result<bool> {
        let builds = BUILDS.iter().filter(|build| build.is_always_run || share.is_none());
        let (mut passed, mut missed) = (0, Vec::new());
        for Build { targets, tests, .. } in builds {
            let mut run = cargo_in(&self.tree);
            run.env("CARGO_TARGET_DIR", repository().join("target"));
            run.env("ERASEBLOCK_PLANTED_SHARE", share.unwrap_or("1"));
            run.args(["test", "--no-fail-fast"]).args(targets.split_whitespace());
            // Not --nocapture: the panics of bugs would tear the lines of the results apart.
            run.arg("--").args(*tests).arg("--show-output");
            let done = run.stdin(Stdio::null()).output()?;
            let text = String::from_utf8_lossy(&done.stdout);
            let missing = missing(tests, &text);
            if !done.status.success() || !missing.is_empty() {
                eprint!("{}", String::from_utf8_lossy(&done.stderr));
                print!("{text}");
                ensure!(!missing.is_empty(), "cargo test {targets} failed");
            } else if shown == Shown::EachBug {
                print!("{text}");
            } else {
                let counts = text.lines().filter(|line| line.starts_with("caught: "));
                counts.for_each(|line| println!("{line}"));
            }
            passed += tests.len() - missing.len();
            missed.extend(missing);
        }
        for name in &missed {
            println!("FAIL  {name} did not pass");
        }
        println!("{passed} passed, {} failed", missed.len());
        Ok(missed.is_empty())
    }
}

/// What is printed of tests that pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Counts,
    EachBug,
}

/// What `git` says about the parts of a patch that do not apply, without those that do.
fn refused(patch: &Path, text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("error: patch failed: "));
    let lines: Vec<&str> = lines.filter_map(|line| line.strip_prefix("error: ")).collect();
    let text = if lines.is_empty() { text.to_owned() } else { lines.join(", ") };
    format!("{}: {text}", patch.display())
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

/// Those of the tests that did not run, or failed, going by what the test harness prints.
fn missing(tests: &[&'static str], text: &str) -> Vec<&'static str> {
    let passed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"))
        .collect();
    let has_passed = |name: &str| {
        passed.iter().any(|path| {
            path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
        })
    };
    tests.iter().copied().filter(|name| !has_passed(name)).collect()
}

/// The files with parts of patches that did not apply.
fn rejected(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let path = folder.join(name);
        if path.is_dir() {
            found.extend(rejected(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rej") {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_must_run_and_pass() {
        let tests = BUILDS[0].tests;
        let lines: Vec<String> =
            tests.iter().map(|name| format!("test room::{name} ... ok\n")).collect();
        assert_eq!(missing(tests, &lines.concat()), [""; 0]);
        let failed = lines.concat().replacen("... ok", "... FAILED", 1);
        assert_eq!(missing(tests, &failed), tests[..1]);
        // A longer name is another test.
        let other = lines[1..].concat() + "test room::not_jffs2::planted_bugs ... ok\n";
        assert_eq!(missing(tests, &other), tests[..1]);
    }

    /// Copies with one line for each patch to change, and the patches.
    fn planted(folder: &Path) -> (Copies, PathBuf) {
        let (copies, patches) = (Copies::new(folder.join("copies")), folder.join("patches"));
        fs::create_dir_all(&patches).unwrap();
        for (_, rooms) in PATCHES {
            for (tree, text) in [(&copies.clean, "a\nright\nb\n"), (&copies.tree, "a\nwrong\nb\n")]
            {
                fs::create_dir_all(tree.join(rooms[0])).unwrap();
                fs::write(tree.join(rooms[0]).join("file"), text).unwrap();
                for room in rooms {
                    fs::create_dir_all(tree.join(room)).unwrap();
                }
            }
        }
        copies.renew(&patches).unwrap();
        (copies, patches)
    }

    #[test]
    fn renewed_patches_lead_to_the_same_tree() {
        let folder = tempfile::tempdir().unwrap();
        let (copies, patches) = planted(folder.path());
        let file = copies.tree.join("crates/lab/file");
        fs::write(&file, "anything else").unwrap();
        copies.apply(&patches).unwrap();
        assert_eq!(fs::read(file).unwrap(), b"a\nwrong\nb\n");
    }

    /// Without the parts that were refused, the bug would be gone and nothing would miss it.
    #[test]
    fn a_patch_that_does_not_apply_is_a_failure_that_names_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let (copies, patches) = planted(folder.path());
        fs::write(copies.clean.join("crates/ubifs/file"), "a\nrewritten\nb\n").unwrap();
        let error = format!("{:#}", copies.apply(&patches).unwrap_err());
        assert!(error.contains("ubifs.patch") && error.contains("--renew"), "{error}");
        assert!(!error.contains("jffs2.patch"), "the others have been applied: {error}");
        let left = copies.tree.join("crates/ubifs/file.rej");
        assert!(left.is_file());
        let refused = format!("{:#}", copies.renew(&patches).unwrap_err());
        assert!(refused.contains("file.rej"), "{refused}");
        fs::remove_file(left).unwrap();
        let refused = format!("{:#}", copies.renew(&patches).unwrap_err());
        assert!(refused.contains("no bug of ubifs"), "{refused}");
        fs::write(copies.tree.join("crates/ubifs/file"), "a\nrewritten and wrong\nb\n").unwrap();
        copies.renew(&patches).unwrap();
        copies.apply(&patches).unwrap();
    }
}
