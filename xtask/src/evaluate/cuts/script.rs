//! The workload of a recording, and what must be there after a power cut.
//!
//! # Invariants
//! 1. Between two marks everything outside the directory `loose` is made durable: a file by its own
//!    fsync, a name by that of its directory.
//! 2. A name replaced by a rename shows its old content or the new one, nothing else.

use eraseblock_base::random::SplitMix64;
use eraseblock_vfs_testkit::scripted::{BLOCK, Listed, ListedContent, Step, blocks, content};
use std::collections::{BTreeMap, BTreeSet};

/// The directories of the workload.
const KEPT: &str = "kept";
const LOOSE: &str = "loose";
/// Largest file.
const MAX_LEN: u64 = 24 << 10;

/// Returns a workload with so many marks after mark 1, which follows the creation of the directories.
pub(super) fn workload(seed: u64, marks: u32) -> Vec<Step> {
    let mut steps = vec![Step::MakeDir(KEPT.to_owned()), Step::MakeDir(LOOSE.to_owned())];
    steps.extend([Step::SyncAll, Step::Mark(1)]);
    let mut chance = SplitMix64::new(seed);
    let mut version = 0;
    for mark in 2..=marks + 1 {
        let mut write = |name: String| {
            version += 1;
            let len = usize::try_from(1 + chance.below(MAX_LEN)).unwrap_or(1);
            Step::Write(name, version, len)
        };
        let file = format!("{KEPT}/f{}", mark / 4);
        let is_new = mark % 4 == 0;
        match mark % 4 {
            1 => {
                let temporary = format!("{KEPT}/t{mark}");
                steps.extend([write(temporary.clone()), Step::Sync(temporary.clone())]);
                steps.push(Step::Rename(temporary, format!("{KEPT}/r{}", mark % 3)));
            }
            2 if mark >= 16 && mark % 8 == 2 => {
                steps.push(Step::Remove(format!("{KEPT}/f{}", mark / 4 - 2)));
            }
            _ if is_new || mark % 4 == 3 => {
                let name = if is_new { file } else { format!("{KEPT}/s{mark}") };
                steps.extend([write(name.clone()), Step::Sync(name)]);
            }
            _ => steps.extend((0..3).map(|number| write(format!("{LOOSE}/l{mark}-{number}")))),
        }
        steps.push(if mark % 16 == 0 { Step::SyncAll } else { Step::Sync(KEPT.to_owned()) });
        steps.push(Step::Mark(mark));
    }
    steps
}

/// Returns a script as its text.
pub(super) fn to_text(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

/// The content of a file: seed and length.
type Version = (u32, usize);

/// What a name may show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Allowed {
    /// Whole contents; `None` is the absence of the name.
    exact: BTreeSet<Option<Version>>,
    /// Parts of these, and zeros, in any mixture: nothing made it durable.
    mixed: BTreeSet<Version>,
}

/// The files after some steps, and what is not durable of them.
#[derive(Clone, Debug, Default)]
struct Files {
    now: BTreeMap<String, Version>,
    allowed: BTreeMap<String, Allowed>,
}

impl Files {
    /// Everything that has happened is durable, except below `loose`.
    fn settle(&mut self, all: bool) {
        let is_settled = |name: &str| all || !name.starts_with(LOOSE);
        self.allowed.retain(|name, _| !is_settled(name));
        for (name, version) in &self.now {
            if is_settled(name) {
                let exact = std::iter::once(Some(*version)).collect();
                self.allowed.insert(name.clone(), Allowed { exact, mixed: BTreeSet::new() });
            }
        }
    }

    fn allow(&mut self, name: &str) -> &mut Allowed {
        let before = self.now.get(name).copied();
        let new = || Allowed { exact: std::iter::once(before).collect(), ..Allowed::default() };
        self.allowed.entry(name.to_owned()).or_insert_with(new)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(name, seed, len) => {
                self.allow(name).mixed.insert((*seed, *len));
                self.now.insert(name.clone(), (*seed, *len));
            }
            Step::Rename(from, to) => {
                self.allow(from).exact.insert(None);
                let Some(version) = self.now.remove(from) else { return };
                self.allow(to).exact.insert(Some(version));
                self.now.insert(to.clone(), version);
            }
            Step::Remove(name) => {
                self.allow(name).exact.insert(None);
                self.now.remove(name);
            }
            Step::MakeDir(_) | Step::Sync(_) | Step::SyncAll | Step::Mark(_) => {}
        }
    }
}

/// What must be there after a cut.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    allowed: BTreeMap<String, Allowed>,
    has_dirs: bool,
}

/// Something wrong with the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// Something durable is missing or has another content.
    Lost(String),
    /// A file shows what was never written to it.
    Stale(String),
    /// An entry cannot be read.
    Unreadable(String),
}

impl Expected {
    /// Returns what must be there if that mark was the last one before the cut.
    pub(super) fn after(steps: &[Step], mark: Option<u32>) -> Self {
        let mut files = Files::default();
        let mut has_dirs = false;
        let (mut last, mut all) = (None, false);
        for step in steps {
            if last == mark && matches!(step, Step::Mark(_)) {
                // What follows this mark has not begun.
                break;
            }
            match step {
                Step::Mark(number) => {
                    files.settle(all);
                    all = false;
                    has_dirs = true;
                    last = Some(*number);
                }
                Step::SyncAll => all = true,
                step => files.step(step),
            }
        }
        Self { allowed: files.allowed, has_dirs }
    }

    /// Returns what is wrong in a listing.
    pub(super) fn judge(&self, listed: &[Listed]) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        let mut found = BTreeMap::new();
        for entry in listed {
            match &entry.content {
                ListedContent::Error(error) => {
                    wrong.push(Wrong::Unreadable(format!("{}: {error}", entry.path)));
                }
                ListedContent::File(size, values) => {
                    found.insert(entry.path.as_str(), (*size, values.as_slice()));
                }
                ListedContent::Directory => {}
            }
        }
        let is_dir = |name: &str| {
            let of_name = |entry: &&Listed| entry.path == name;
            let entry = listed.iter().find(of_name);
            entry.is_some_and(|entry| entry.content == ListedContent::Directory)
        };
        if self.has_dirs && !(is_dir(KEPT) && is_dir(LOOSE)) {
            wrong.push(Wrong::Lost("a directory".to_owned()));
        }
        for (name, allowed) in &self.allowed {
            let is_unreadable = |one: &Wrong| matches!(one, Wrong::Unreadable(text) if text.starts_with(name.as_str()));
            let content = found.remove(name.as_str());
            if !wrong.iter().any(is_unreadable) {
                wrong.extend(judge_file(name, allowed, content));
            }
        }
        let is_ours = |name: &&&str| name.starts_with(KEPT) || name.starts_with(LOOSE);
        let extra = found.keys().filter(is_ours);
        wrong
            .extend(extra.map(|name| Wrong::Stale(format!("{name}: was removed, or never there"))));
        wrong
    }
}

fn judge_file(name: &str, allowed: &Allowed, content: Option<(u64, &[u64])>) -> Option<Wrong> {
    let Some((size, values)) = content else {
        let may_miss = allowed.exact.contains(&None);
        return (!may_miss).then(|| Wrong::Lost(format!("{name}: missing")));
    };
    let is =
        |version: &Version| size == version.1 as u64 && blocks(&content_of(*version)) == values;
    if allowed.exact.iter().flatten().any(is) {
        return None;
    }
    if allowed.mixed.is_empty() {
        return Some(Wrong::Lost(format!("{name}: other content, {size} bytes")));
    }
    let versions: Vec<Version> =
        allowed.mixed.iter().chain(allowed.exact.iter().flatten()).copied().collect();
    let longest = versions.iter().map(|version| version.1).max().unwrap_or(0);
    let rounded = longest.next_multiple_of(BLOCK) as u64;
    if size > rounded {
        return Some(Wrong::Stale(format!("{name}: {size} bytes of at most {longest}")));
    }
    let size = usize::try_from(size).unwrap_or(0);
    let mut candidates: Vec<Vec<u64>> =
        versions.iter().map(|version| blocks(&padded(content_of(*version), size))).collect();
    candidates.push(blocks(&vec![0; size]));
    let foreign = values.iter().enumerate().find(|(number, value)| {
        !candidates.iter().any(|candidate| candidate.get(*number) == Some(value))
    });
    foreign.map(|(number, _)| Wrong::Stale(format!("{name}: block {number} was never written")))
}

fn content_of(version: Version) -> Vec<u8> {
    content(version.0, version.1)
}

fn padded(mut bytes: Vec<u8>, size: usize) -> Vec<u8> {
    bytes.resize(size, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Vec<Step> {
        let text = "mkdir kept\nmkdir loose\nsync\nmark 1\nwrite kept/a 1 5000\nfsync kept/a\nmark 2\n\
                    write kept/t 2 6000\nfsync kept/t\nrename kept/t kept/a\nwrite loose/l 3 9000\nmark 3\n\
                    remove kept/a\nmark 4";
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn listed(files: &[(&str, Vec<u8>)]) -> Vec<Listed> {
        let dir = |path: &str| Listed { path: path.to_owned(), content: ListedContent::Directory };
        let file = |(path, bytes): &(&str, Vec<u8>)| Listed {
            path: (*path).to_owned(),
            content: ListedContent::File(bytes.len() as u64, blocks(bytes)),
        };
        let dirs = ["", "kept", "loose"].map(dir);
        dirs.into_iter().chain(files.iter().map(file)).collect()
    }

    fn judge(mark: u32, files: &[(&str, Vec<u8>)]) -> Vec<Wrong> {
        Expected::after(&steps(), Some(mark)).judge(&listed(files))
    }

    #[test]
    fn what_was_synced_must_be_there() {
        let [old, new] = [content(1, 5000), content(2, 6000)];
        assert_eq!(judge(2, &[("kept/a", old.clone())]), []);
        // The rename of the next mark may be there, and its temporary file.
        assert_eq!(judge(2, &[("kept/a", new.clone())]), []);
        assert_eq!(judge(2, &[("kept/a", old.clone()), ("kept/t", Vec::new())]), []);
        assert!(matches!(judge(2, &[])[..], [Wrong::Lost(_)]));
        assert!(matches!(judge(2, &[("kept/a", Vec::new())])[..], [Wrong::Lost(_)]));
        assert!(matches!(judge(3, &[("kept/a", old)])[..], [Wrong::Lost(_)]));
        // The removal of the next mark may be there.
        assert_eq!(judge(3, &[("kept/a", new.clone())]), []);
        assert_eq!(judge(3, &[]), []);
        assert!(matches!(judge(4, &[("kept/a", new)])[..], [Wrong::Stale(_)]));
    }

    #[test]
    fn unsynced_files_show_what_was_written_or_zeros() {
        let new = ("kept/a", content(2, 6000));
        let whole = content(3, 9000);
        let holes = [whole[..4096].to_vec(), vec![0; 4904]].concat();
        for loose in [whole.clone(), Vec::new(), whole[..4096].to_vec(), vec![0; 4096], holes] {
            assert_eq!(judge(3, &[new.clone(), ("loose/l", loose)]), []);
        }
        for loose in [vec![0xA5; 9000], content(1, 9000), vec![0; 20_000]] {
            let found = judge(3, &[new.clone(), ("loose/l", loose)]);
            assert!(matches!(found[..], [Wrong::Stale(_)]), "{found:?}");
        }
        let error = Listed {
            path: "kept/a".to_owned(),
            content: ListedContent::Error("Structure needs cleaning".to_owned()),
        };
        let mut broken = listed(&[]);
        broken.push(error);
        let found = Expected::after(&steps(), Some(3)).judge(&broken);
        assert!(matches!(found[..], [Wrong::Unreadable(_)]), "{found:?}");
    }

    #[test]
    fn a_sync_of_everything_makes_loose_files_durable() {
        let mut steps = steps();
        steps.extend([Step::SyncAll, Step::Mark(5)]);
        let expected = Expected::after(&steps, Some(5));
        assert!(!expected.judge(&listed(&[])).is_empty());
        assert_eq!(expected.judge(&listed(&[("loose/l", content(3, 9000))])), []);
    }

    #[test]
    fn the_workload_is_possible_and_has_every_step() {
        let steps = workload(1, 48);
        let mut there = BTreeSet::new();
        for step in &steps {
            match step {
                Step::Write(name, ..) => drop(there.insert(name.clone())),
                Step::Rename(from, to) => {
                    assert!(there.remove(from));
                    there.insert(to.clone());
                }
                Step::Remove(name) => assert!(there.remove(name), "{name}"),
                _ => {}
            }
        }
        assert!(steps.iter().any(|step| matches!(step, Step::Remove(_))));
        assert_eq!(steps.last(), Some(&Step::Mark(49)));
    }
}
