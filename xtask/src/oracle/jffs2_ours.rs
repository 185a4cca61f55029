//! JFFS2 images that our builder made, listed and used by real Linux; and images of the classic
//! tools compared with ours, in both byte orders, without Linux.

use crate::command::output;
use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::jffs2_chips::{Jffs2Chip, NAND_2K, NAND_512, NOR};
use crate::oracle::jffs2_writes::MARKERS;
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An image that Linux mounts.
#[derive(Debug)]
struct Mounted {
    name: &'static str,
    chip: Jffs2Chip,
    /// Made with the command lines of mkfs.jffs2 and sumtool.
    classic: bool,
    options: &'static [&'static str],
}

const MOUNTED: [Mounted; 8] = [
    Mounted { name: "jffs2-nor", chip: NOR, classic: false, options: &[] },
    Mounted { name: "jffs2-nor-summary", chip: NOR, classic: false, options: &["--summary"] },
    Mounted {
        name: "jffs2-nor-lzo",
        chip: NOR,
        classic: false,
        options: &["--compressor", "lzo", "--compressor", "zlib", "--compression", "favour-lzo"],
    },
    Mounted {
        name: "jffs2-nor-rtime",
        chip: NOR,
        classic: false,
        options: &["--compressor", "rtime", "--pad"],
    },
    Mounted {
        name: "jffs2-nand2k-summary",
        chip: NAND_2K,
        classic: false,
        options: &["--summary"],
    },
    Mounted {
        name: "jffs2-nand512",
        chip: NAND_512,
        classic: false,
        options: &["--compression", "none", "--summary"],
    },
    Mounted {
        name: "jffs2-personality",
        chip: NOR,
        classic: true,
        options: &["-X", "lzo", "-m", "size"],
    },
    Mounted { name: "jffs2-personality-nand", chip: NAND_2K, classic: true, options: &["-n"] },
];

/// The lines of a listing about what Linux wrote there.
pub(crate) const LINUX_WROTE: &str = "^linux-was-here";

/// Options of mkfs.jffs2 for which our reader and the classic tools are compared.
const TOOLS: [(&str, &[&str]); 9] = [
    ("little", &["-l"]),
    ("big", &["-b"]),
    ("no-cleanmarkers", &["-l", "-n", "-e", "16"]),
    ("small-pages", &["-b", "-s", "1024"]),
    ("padded", &["-l", "-p", "-e", "128KiB"]),
    ("lzo", &["-b", "-X", "lzo"]),
    ("rtime", &["-l", "-x", "zlib"]),
    ("size", &["-b", "-m", "size", "-X", "lzo", "-e", "8KiB"]),
    ("none", &["-l", "-m", "none"]),
];

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    let mounted = MOUNTED.iter().map(mounted_name);
    let tools = TOOLS.iter().map(|(name, _)| tool_name(name));
    mounted.chain(tools).collect()
}

fn mounted_name(case: &Mounted) -> String {
    format!("linux-mounts-ours/{}", case.name)
}

fn tool_name(name: &str) -> String {
    format!("we-read/mkfs.jffs2-{name}")
}

/// Runs all checks that are wanted.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let mounted: Vec<&Mounted> =
        MOUNTED.iter().filter(|case| checks.wants(&mounted_name(case))).collect();
    let tools: Vec<_> = TOOLS.iter().filter(|(name, _)| checks.wants(&tool_name(name))).collect();
    if mounted.is_empty() && tools.is_empty() {
        return Ok(());
    }
    let source = Source::make(paths)?;
    for (name, options) in tools {
        let outcome = source.hold_against_tools(options);
        checks.record(&tool_name(name), outcome);
    }
    if mounted.is_empty() {
        return Ok(());
    }
    let mut cases = Vec::new();
    for case in &mounted {
        cases.push(source.batch_case(case)?);
    }
    let batch = Batch::run(guest, paths, "jffs2-mounts", &[], &cases)?;
    println!("      linux-mounts-ours, JFFS2: {:.1} s in the guest", batch.seconds());
    for case in mounted {
        let outcome = batch.case_dir(case.name).and_then(|dir| source.judge(&dir));
        checks.record(&mounted_name(case), outcome);
    }
    paths.finish(batch)
}

/// The source tree of the images, and its manifest.
struct Source<'a> {
    paths: &'a Paths,
    work: PathBuf,
    tree: PathBuf,
    manifest: String,
}

impl<'a> Source<'a> {
    fn make(paths: &'a Paths) -> Result<Self> {
        let work = paths.work.join("jffs2");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work)?;
        let tree = work.join("tree");
        let program = &paths.manifest_program;
        output(Command::new(program).arg("exotic").arg(&tree).args(["23", "jffs2"]))?;
        let manifest = output(Command::new(program).arg("list").arg(&tree))?;
        Ok(Self { paths, work, tree, manifest })
    }

    fn ours(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.paths.ours);
        command.args(words);
        command
    }

    fn batch_case(&self, case: &Mounted) -> Result<BatchCase> {
        let image = self.work.join(format!("{}.image", case.name));
        let block = case.chip.peb_size.to_string();
        if case.classic {
            let plain = self.work.join("plain");
            let mut mkfs = self.ours(&["mkfs.jffs2", "-l", "--with-xattr", "-e", &block]);
            output(mkfs.args(case.options).arg("-r").arg(&self.tree).arg("-o").arg(&plain))?;
            let mut sumtool = self.ours(&["sumtool", "-l", "-p", "-e", &block]);
            let markers = case.options.iter().filter(|option| **option == "-n");
            output(sumtool.args(markers).arg("-i").arg(&plain).arg("-o").arg(&image))?;
        } else {
            let page = case.chip.page_size.to_string();
            let mut mkfs = self.ours(&["mkfs", "jffs2", "--peb", &block, "--page", &page]);
            output(mkfs.args(case.options).arg(&self.tree).arg("-o").arg(&image))?;
        }
        let variables = vec![
            ("LOAD", case.chip.load.to_owned()),
            ("MARKERS", MARKERS.to_owned()),
            ("UNSTABLE", LINUX_WROTE.to_owned()),
        ];
        let script = include_str!("../../guest/jffs2-mounts.sh");
        let files = vec![("image", image)];
        Ok(BatchCase { name: case.name.to_owned(), script, variables, files })
    }

    /// Compares what Linux listed with the source, and reads the kernel's log.
    fn judge(&self, dir: &Path) -> Result<()> {
        let log = String::from_utf8_lossy(&fs::read(dir.join("dmesg"))?).into_owned();
        let mut found = complaints(&log, &["Not enough space"]);
        found.extend(log.lines().filter(|line| line.contains("ummary node")).map(str::to_owned));
        ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
        let listed = fs::read_to_string(dir.join("manifest")).context("Linux listed nothing")?;
        let differences = differences(&self.manifest, &listed, Ignore::OwnSizes);
        ensure!(differences.is_empty(), "{}", summary(&differences));
        Ok(())
    }

    /// Checks that our reader sees the same in an image of mkfs.jffs2, plain and summarised by
    /// sumtool, as in ours; and that jffs2dump accepts every checksum of ours.
    fn hold_against_tools(&self, options: &[&str]) -> Result<()> {
        let (theirs, ours) = (self.work.join("theirs"), self.work.join("ours"));
        let tree = |command: &mut Command, out: &Path| {
            output(
                command
                    .args(options)
                    .arg("--with-xattr")
                    .arg("-r")
                    .arg(&self.tree)
                    .arg("-o")
                    .arg(out),
            )
        };
        tree(&mut Command::new("mkfs.jffs2"), &theirs)?;
        tree(&mut self.ours(&["mkfs.jffs2"]), &ours)?;
        let order = if options.contains(&"-b") { "-b" } else { "-l" };
        let expected = self.manifest.as_str();
        self.compare(expected, &ours, true)?;
        self.compare(expected, &theirs, false)?;
        let dump = output(Command::new("jffs2dump").args(["-c", order]).arg(&ours))?;
        ensure!(!dump.contains("Wrong"), "jffs2dump: {dump}");
        let block = options.iter().position(|option| *option == "-e");
        let block = block.and_then(|index| options.get(index + 1)).unwrap_or(&"64KiB");
        let markers = options.iter().filter(|option| **option == "-n");
        for (input, is_exact) in [(&ours, true), (&theirs, false)] {
            let packed = self.work.join("packed");
            let words = [order, "-e", block, "-i"];
            let mut theirs = Command::new("sumtool");
            let mut ours = self.ours(&["sumtool"]);
            for sumtool in [&mut theirs, &mut ours] {
                sumtool.args(markers.clone()).args(words).arg(input).arg("-o").arg(&packed);
                output(sumtool)?;
                self.compare(expected, &packed, is_exact)?;
            }
        }
        Ok(())
    }

    /// `is_exact` allows no difference. The classic tool truncates device numbers, sets the times
    /// of directories to those of their entries, and does not store the root.
    fn compare(&self, expected: &str, image: &Path, is_exact: bool) -> Result<()> {
        let found = output(self.ours(&["manifest"]).arg(image))?;
        let mut differences = differences(expected, &found, Ignore::OwnSizes);
        if !is_exact {
            differences.retain(|text| {
                !["found dev=", "found mtime=", ".: "].iter().any(|known| text.contains(known))
            });
        }
        ensure!(differences.is_empty(), "{}: {}", image.display(), summary(&differences));
        Ok(())
    }
}
