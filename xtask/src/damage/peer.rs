//! `repair` and `fsck.ubifs` of mtd-utils on what the damage scripts damaged: what each left of the sound
//! image, as Linux lists it.

use super::linux::files;
use crate::oracle::compare::{Ignore, differences};
use anyhow::Result;
use std::cmp::Ordering;
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
    /// It does not mount that, or cannot write to it.
    Nothing,
    /// The paths in which it differs from the sound image.
    Differs(Vec<String>),
}

impl Left {
    fn rank(&self) -> usize {
        match self {
            Self::Nothing => usize::MAX,
            Self::Differs(paths) => paths.len(),
        }
    }
}

impl Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Differs(paths) = self else { return f.write_str("no mount") };
        write!(f, "{}", paths.len())?;
        for (index, path) in paths.iter().take(MOST_NAMED).enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            write!(f, "`{path}`")?;
        }
        if paths.len() > MOST_NAMED { f.write_str(", ...") } else { Ok(()) }
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

/// Prints a line for each script, and how often which repair lost less.
pub(super) fn compare(ours: &Path, folder: &Path) -> Result<()> {
    println!("| script | `repair` | `eraseblock fsck.ubifs` | `fsck.ubifs` 2.3 | its exit |");
    println!("|---|---|---|---|---|");
    let (mut less, mut equal, mut more) = (Vec::new(), 0, Vec::new());
    let mut unlike = Vec::new();
    for damaged in files(folder, "damaged")? {
        let name = damaged.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let read = |name: String| fs::read_to_string(folder.join(name)).ok();
        let Some(whole) = read(format!("{name}-whole.found")) else {
            // A JFFS2, or a file system whose journal does not fit the volume here.
            println!("| `{name}` | not tried | | | |");
            continue;
        };
        let left = |kind: &str| {
            let is_used = folder.join(format!("{name}-{kind}.ok")).exists();
            let found = read(format!("{name}-{kind}.found")).filter(|_| is_used);
            found.map_or(Left::Nothing, |found| Left::Differs(paths(&whole, &found)))
        };
        let (here, there) = (left("fixed"), left("damaged"));
        let (exit, peers) =
            (ours_exit(ours, &damaged)?, peer_exit(read(format!("{name}.peer")).as_deref()));
        println!("| `{name}` | {here} | {exit} | {there} | {peers} |");
        match here.rank().cmp(&there.rank()) {
            Ordering::Less => less.push(name),
            Ordering::Equal => {
                equal += 1;
                if exit != peers {
                    unlike.push(format!("{name}: {exit} and {peers}"));
                }
            }
            Ordering::Greater => more.push(name),
        }
    }
    let (count, worse) = (less.len() + equal + more.len(), more.len());
    println!("of {count} scripts: we lose less {}, as much {equal}, more {worse}", less.len());
    println!("more: {}", more.join(", "));
    println!("as much, with other exits: {}: {}", unlike.len(), unlike.join("; "));
    Ok(())
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
