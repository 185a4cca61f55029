//! `repair` and `fsck.ubifs` of mtd-utils on what the damage scripts damaged: what each left of the sound
//! image, as Linux lists it.

use super::linux::files;
use crate::oracle::compare::{Ignore, differences};
use anyhow::Result;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Paths that a cell of the table names.
const MOST_NAMED: usize = 3;

/// The file that the script in the guest writes.
const WRITTEN: &str = "written";

/// What Linux found after a repair.
enum Left {
    /// It does not mount that, or cannot list it.
    Nothing,
    /// The paths in which it differs from the sound image, how many objects are nowhere, and whether it
    /// can be written to.
    Differs { paths: Vec<String>, lost: usize, is_written: bool },
}

impl Left {
    /// What is moved to `lost+found` is not lost: objects count before their paths.
    fn rank(&self) -> (usize, bool, usize) {
        match self {
            Self::Nothing => (usize::MAX, true, usize::MAX),
            Self::Differs { paths, lost, is_written } => (*lost, !is_written, paths.len()),
        }
    }
}

impl Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Differs { paths, lost, is_written } = self else {
            return f.write_str("unusable");
        };
        write!(f, "{lost} / {}", paths.len())?;
        if !is_written {
            f.write_str(", not written to")?;
        }
        for (index, path) in paths.iter().take(MOST_NAMED).enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            write!(f, "`{path}`")?;
        }
        if paths.len() > MOST_NAMED { f.write_str(", ...") } else { Ok(()) }
    }
}

/// The scripts by how the two compare.
#[derive(Default)]
struct Tally {
    less: Vec<String>,
    more: Vec<String>,
    /// As much, in the same number of runs, with the same exit codes.
    alike: Vec<String>,
    /// As much, but the peer left something that `check` names.
    unfinished: Vec<String>,
    /// As much, after another number of runs.
    runs: Vec<String>,
    /// As much, but the peer ends with 0 although the damage is gone: the kernel put it right when it
    /// attached, or the peer did, and does not say so.
    silent: Vec<String>,
    /// As much, but with other exit codes.
    unlike: Vec<String>,
}

impl Tally {
    fn print(&self) {
        for (what, names) in [
            ("less is lost by `repair`", &self.less),
            ("more is lost by `repair`", &self.more),
            ("as much, and the same exit codes", &self.alike),
            ("as much, but `check` finds damage after `fsck.ubifs`", &self.unfinished),
            ("as much, but another number of runs", &self.runs),
            ("as much, but `fsck.ubifs` does not say that something was put right", &self.silent),
            ("as much, but other exit codes", &self.unlike),
        ] {
            println!("{what}: {}: {}", names.len(), names.join(", "));
        }
    }
}

/// Repairs what no script has repaired, at any level. What cannot be repaired stays as it is.
pub(super) fn complete(ours: &Path, folder: &Path) -> Result<()> {
    for damaged in files(folder, "damaged")? {
        let fixed = damaged.with_extension("fixed");
        if fixed.exists() {
            continue;
        }
        let mut repair = Command::new(ours);
        repair.arg("repair").arg(&damaged).args(["-q", "--level", "rebuild", "-o"]).arg(&fixed);
        repair.stdout(Stdio::null()).stderr(Stdio::null());
        let is_repaired = repair.status()?.success() || fixed.exists();
        if !is_repaired || !fixed.exists() {
            fs::copy(&damaged, &fixed)?;
        }
    }
    Ok(())
}

/// Prints a line for each script, and how often which repair lost less. Returns false if ours lost more, or
/// ended with other codes although all that it did was the same.
pub(super) fn compare(ours: &Path, folder: &Path) -> Result<bool> {
    println!("| script | `repair` | `eraseblock fsck.ubifs` | `fsck.ubifs` 2.3 | its exit |");
    println!("|---|---|---|---|---|");
    let mut tally = Tally::default();
    for damaged in files(folder, "damaged")? {
        let name = damaged.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let read = |name: String| fs::read_to_string(folder.join(name)).ok();
        let Some(whole) = read(format!("{name}-whole.found")) else {
            // A JFFS2, or a file system whose journal does not fit the volume here.
            println!("| `{name}` | not tried | | | |");
            continue;
        };
        let left = |kind: &str| {
            let is_written = folder.join(format!("{name}-{kind}.ok")).exists();
            let found = read(format!("{name}-{kind}.found")).filter(|found| !found.is_empty());
            found.map_or(Left::Nothing, |found| {
                let (paths, lost) = (paths(&whole, &found), lost(&whole, &found));
                Left::Differs { paths, lost, is_written }
            })
        };
        let (here, there) = (left("fixed"), left("damaged"));
        let (exit, peers) =
            (ours_exit(ours, &damaged)?, peer_exit(read(format!("{name}.peer")).as_deref()));
        println!("| `{name}` | {here} | {exit} | {there} | {peers} |");
        let runs = |codes: &str| codes.split(", ").count();
        let list = match here.rank().cmp(&there.rank()) {
            Ordering::Less => &mut tally.less,
            Ordering::Greater => &mut tally.more,
            Ordering::Equal if !is_consistent(ours, &damaged.with_extension("left"))? => {
                &mut tally.unfinished
            }
            Ordering::Equal if runs(&exit) != runs(&peers) => &mut tally.runs,
            Ordering::Equal if exit != peers && peers.ends_with(" 0") => &mut tally.silent,
            Ordering::Equal if exit != peers => &mut tally.unlike,
            Ordering::Equal => &mut tally.alike,
        };
        list.push(name);
    }
    tally.print();
    Ok(tally.more.is_empty() && tally.unlike.is_empty())
}

fn is_consistent(ours: &Path, image: &Path) -> Result<bool> {
    let mut check = Command::new(ours);
    check.arg("check").arg(image).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(check.status()?.success())
}

/// Counts the objects of the sound image that are nowhere: files and links by owner, mode and content,
/// directories by owner and mode.
fn lost(whole: &str, found: &str) -> usize {
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for object in objects(found) {
        *there.entry(object).or_default() += 1;
    }
    let mut lost = 0;
    for object in objects(whole) {
        match there.get_mut(&object) {
            Some(count) if *count > 0 => *count -= 1,
            _ => lost += 1,
        }
    }
    lost
}

fn objects(list: &str) -> Vec<String> {
    let own = ["nlink=", "mtime=", "group="];
    let line = |line: &str| {
        let fields = line.split(' ').skip(1);
        let is_dir = line.split(' ').nth(1) == Some("d");
        let is_own = |field: &str| {
            own.iter().any(|start| field.starts_with(start)) || is_dir && field.starts_with("size=")
        };
        fields.filter(|field| !is_own(field)).collect::<Vec<_>>().join(" ")
    };
    list.lines().map(line).collect()
}

fn paths(whole: &str, found: &str) -> Vec<String> {
    let differences = differences(whole, found, Ignore::OwnSizes);
    let path = |text: &String| text.split(": ").next().unwrap_or_default().to_owned();
    let mut paths: Vec<String> = differences.iter().map(path).collect();
    // What the test wrote, if the first mount failed then.
    if let Some(own) = paths.iter().position(|path| path == WRITTEN) {
        paths.remove(own);
        paths.retain(|path| path != ".");
    }
    paths
}

/// The exit codes of our `fsck.ubifs -y`, and then of `-y -b` if something is left.
fn ours_exit(ours: &Path, damaged: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("image");
    fs::copy(damaged, &image)?;
    let run = |options: &[&str]| -> Result<i32> {
        let mut fsck = Command::new(ours);
        fsck.arg("fsck.ubifs").args(options).arg(&image);
        fsck.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(fsck.status()?.code().unwrap_or(-1))
    };
    let first = run(&["-y"])?;
    if first <= 1 {
        return Ok(format!("-y {first}"));
    }
    Ok(format!("-y {first}, -y -b {}", run(&["-y", "-b"])?))
}

fn peer_exit(codes: Option<&str>) -> String {
    match codes {
        None => "not attached".to_owned(),
        Some(codes) => codes.lines().collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_is_not_lost() {
        let line = |path: &str, content: &str| {
            format!(
                "{path} - 0644 0:0 nlink=1 mtime=1 size=3 dev=- group=- content={content} xattrs=-\n"
            )
        };
        let whole = [line("a", "1"), line("b", "1"), line("c", "2")].concat();
        let moved = [line("a", "1"), line("lost+found/x", "1"), line("lost+found/y", "2")].concat();
        assert_eq!((lost(&whole, &whole), lost(&whole, &moved)), (0, 0));
        assert_eq!(lost(&whole, &[line("a", "1"), line("c", "2")].concat()), 1);
        let differs = |count, lost, is_written| {
            Left::Differs { paths: vec![String::new(); count], lost, is_written }.rank()
        };
        let (moved, removed) = (differs(3, 0, true), differs(1, 1, true));
        assert!(moved < removed && moved < differs(0, 0, false) && removed < Left::Nothing.rank());
    }
}
