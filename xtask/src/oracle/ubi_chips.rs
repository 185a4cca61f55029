//! `ubi-chips`: Linux attaches UBI that we created, wore and cut on simulated chips, and we attach
//! UBI that ubi-utils wore.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::{Checks, Paths, views};
use crate::subject;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both sides simulate the same chip.
#[derive(Debug)]
struct Chip {
    /// Shell function and arguments that load it in the guest.
    load: &'static str,
    /// Arguments of `chip new`.
    new: &'static [&'static str],
    /// A size that is certainly between one and two LEBs.
    content: usize,
}

const NAND_2K: Chip = Chip {
    load: "load_nand 0x20,0xa1,0x00,0x15 64",
    new: &["--size", "8MiB", "--peb", "128KiB", "--page", "2KiB", "--subpage", "512"],
    content: 200_000,
};
const NAND_512: Chip = Chip {
    load: "load_nand 0x98,0x76 512",
    new: &["--size", "8MiB", "--peb", "16KiB", "--page", "512", "--subpage", "256"],
    content: 25_000,
};
const NOR: Chip = Chip {
    load: "load_nor 8192 64",
    new: &["--size", "8MiB", "--peb", "64KiB", "--page", "1"],
    content: 100_000,
};

/// The history of a chip before the other side attaches it.
#[derive(Clone, Copy, Debug)]
enum Story {
    /// Ours: filled and worn.
    Worn,
    /// Ours: worn, then cut in a volume update after this many operations, leaving these variants.
    Cut { after: u32, program: &'static str, erase: &'static str },
    /// Worn by ubi-utils.
    Linux,
}

#[derive(Debug)]
struct Case {
    name: &'static str,
    chip: &'static Chip,
    story: Story,
}

const fn cut(after: u32, program: &'static str, erase: &'static str) -> Story {
    Story::Cut { after, program, erase }
}

const CASES: [Case; 11] = [
    Case { name: "ours-nand2k-worn", chip: &NAND_2K, story: Story::Worn },
    Case { name: "ours-nand2k-cut-early", chip: &NAND_2K, story: cut(1, "P3", "E2") },
    Case { name: "ours-nand2k-cut-late", chip: &NAND_2K, story: cut(60, "P1", "E1") },
    Case { name: "ours-nand512-worn", chip: &NAND_512, story: Story::Worn },
    Case { name: "ours-nand512-cut-early", chip: &NAND_512, story: cut(2, "P2half", "E2") },
    Case { name: "ours-nand512-cut-late", chip: &NAND_512, story: cut(30, "P3", "E2") },
    Case { name: "ours-nor-worn", chip: &NOR, story: Story::Worn },
    Case { name: "ours-nor-cut", chip: &NOR, story: cut(3, "P3", "E2") },
    Case { name: "linux-nand2k", chip: &NAND_2K, story: Story::Linux },
    Case { name: "linux-nand512", chip: &NAND_512, story: Story::Linux },
    Case { name: "linux-nor", chip: &NOR, story: Story::Linux },
];

/// The kernel's message about the update that ubi-utils abandon.
const GIVEN_UP: &str = "update of volume 3 not finished";

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(check_name).collect()
}

fn check_name(case: &Case) -> String {
    format!("ubi-chips/{}", case.name)
}

/// Runs the wanted cases in one boot.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&Case> = CASES.iter().filter(|case| checks.wants(&check_name(case))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let dir = paths.work.join("ubi-chips-made");
    fs::create_dir_all(&dir)?;
    let cases: Result<Vec<BatchCase>> =
        wanted.iter().map(|case| batch_case(case, paths, &dir)).collect();
    let batch = Batch::run(guest, paths, "ubi-chips", &[], &cases?)?;
    println!("      ubi-chips: {:.1} s in the guest", batch.seconds());
    for case in wanted {
        let outcome = batch.case_dir(case.name).and_then(|dir| judge(&dir));
        checks.record(&check_name(case), outcome);
    }
    fs::remove_dir_all(&dir)?;
    paths.finish(batch)
}

fn batch_case(case: &Case, paths: &Paths, dir: &Path) -> Result<BatchCase> {
    let linux = matches!(case.story, Story::Linux);
    let script = if linux {
        include_str!("../../guest/ubi-wear.sh")
    } else {
        include_str!("../../guest/ubi-attach.sh")
    };
    let files = if linux { Vec::new() } else { vec![("image", make(case, paths, dir)?)] };
    let variables = vec![("LOAD", case.chip.load.to_owned())];
    Ok(BatchCase { name: case.name.to_owned(), script, variables, files })
}

/// Compares both views; Linux must not complain.
fn judge(dir: &Path) -> Result<()> {
    let found = complaints(&fs::read_to_string(dir.join("dmesg"))?, &[GIVEN_UP]);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let ours = subject::of(&dir.join("image"))?;
    views::compare(&views::of_linux(&dir.join("linux"))?, &ours)
}

/// Returns the image of a chip that our command formatted, wore and cut.
fn make(case: &Case, paths: &Paths, dir: &Path) -> Result<PathBuf> {
    let maker = Maker { ours: &paths.ours, dir };
    maker.command(&[&["chip", "new", "chip", "--force"], case.chip.new].concat())?;
    maker.command(&["ubi", "format", "chip"])?;
    maker.command(&["ubi", "mkvol", "chip", "data", "--lebs", "12"])?;
    maker.command(&["ubi", "mkvol", "chip", "kernel", "--lebs", "4", "--type", "static"])?;
    maker.command(&["ubi", "mkvol", "chip", "gone", "--lebs", "3"])?;
    for round in 1..=6_u8 {
        maker.update("chip:data", case.chip.content / usize::from(round), round)?;
        maker.update("chip:kernel", case.chip.content, !round)?;
        maker.update("chip:gone", case.chip.content / 3, round)?;
        maker.command(&["ubi", "rename", "chip", "data", "kernel", "kernel", "data"])?;
    }
    maker.command(&["ubi", "rmvol", "chip", "gone"])?;
    maker.command(&["ubi", "rsvol", "chip", "0", "--lebs", "14"])?;
    if let Story::Cut { after, program, erase } = case.story {
        let after = after.to_string();
        let variants = ["--program", program, "--erase", erase];
        maker.command(&[&["chip", "cut", "chip", "--after", &after], &variants[..]].concat())?;
        let is_cut = maker.update("chip:0", case.chip.content, 99).is_err();
        ensure!(is_cut, "the update ended before the power cut");
    }
    let image = format!("{}.image", case.name);
    maker.command(&["chip", "export", "chip", &image])?;
    Ok(dir.join(image))
}

/// Runs our command in a directory.
struct Maker<'a> {
    ours: &'a Path,
    dir: &'a Path,
}

impl Maker<'_> {
    fn command(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.ours);
        let run = command.args(arguments).current_dir(self.dir).output().context("no command")?;
        let words = String::from_utf8_lossy(&run.stderr);
        ensure!(run.status.success(), "{}: {words}", arguments.join(" "));
        Ok(())
    }

    /// Writes `len` bytes of content into a volume.
    fn update(&self, volume: &str, len: usize, salt: u8) -> Result<()> {
        fs::write(self.dir.join("content"), subject::pattern(len, salt))?;
        self.command(&["ubi", "update", volume, "content"])
    }
}
