//! `linux-mounts-ours`: real Linux checks, lists and uses images that our builder made.

use crate::command::output;
use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::linux_writes::{CHIPS, Chip};
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// The tools that build the images.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Builder {
    /// Our command.
    #[default]
    Ours,
    /// Debian's mtd-utils, to verify the check itself.
    Debian,
}

impl FromStr for Builder {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "ours" => Ok(Self::Ours),
            "debian" => Ok(Self::Debian),
            other => bail!("unknown builder {other}: ours or debian"),
        }
    }
}

/// How an image is built and written to the chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// `mkfs ubifs`, written into a volume that Linux made.
    Volume,
    /// `build` from a layout of three volumes, flashed with `ubiformat`.
    Layout,
    /// The personalities `mkfs.ubifs` and `ubinize`, flashed as raw pages.
    Personality,
}

#[derive(Debug)]
struct Case {
    name: &'static str,
    chip: usize,
    form: Form,
    compressor: &'static str,
    max_lebs: u32,
    /// The tree with thousands of entries instead of the small one.
    big: bool,
    space_fixup: bool,
    /// The image is damaged and repaired before Linux gets it.
    damage: Option<Damage>,
    /// The required kernel message.
    said: &'static str,
}

/// Damage that a repair without a loss makes good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Damage {
    /// Everything between the superblock and the leaves is zeros: masters, log, LPT and orphans.
    Areas,
    /// The same, and all index nodes.
    AreasAndIndex,
}

const PLAIN: Case = Case {
    name: "",
    chip: 0,
    form: Form::Volume,
    compressor: "lzo",
    max_lebs: 100,
    big: false,
    space_fixup: false,
    damage: None,
    said: "small LPT model",
};

const CASES: [Case; 13] = [
    Case { name: "repaired", damage: Some(Damage::Areas), ..PLAIN },
    Case {
        name: "repaired-big-lpt",
        chip: 2,
        max_lebs: 9000,
        big: true,
        damage: Some(Damage::AreasAndIndex),
        said: "big LPT model",
        ..PLAIN
    },
    Case { name: "lzo", ..PLAIN },
    Case { name: "zlib", compressor: "zlib", ..PLAIN },
    Case { name: "zstd", compressor: "zstd", ..PLAIN },
    Case { name: "none", compressor: "none", ..PLAIN },
    Case { name: "big-tree", big: true, ..PLAIN },
    Case { name: "no-subpage", chip: 1, ..PLAIN },
    Case { name: "small-pages", chip: 2, compressor: "zlib", max_lebs: 900, ..PLAIN },
    Case { name: "big-lpt", chip: 2, max_lebs: 9000, big: true, said: "big LPT model", ..PLAIN },
    Case { name: "nor", chip: 4, compressor: "zstd", max_lebs: 240, ..PLAIN },
    Case {
        name: "layout",
        form: Form::Layout,
        compressor: "zstd",
        max_lebs: 60,
        space_fixup: true,
        said: "start fixing up free space",
        ..PLAIN
    },
    Case {
        name: "personality",
        form: Form::Personality,
        space_fixup: true,
        said: "start fixing up free space",
        ..PLAIN
    },
];

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(check_name).collect()
}

fn check_name(case: &Case) -> String {
    format!("linux-mounts-ours/{}", case.name)
}

/// Builds the images of all requested cases on the host, then lets Linux judge them in one boot.
pub(crate) fn run(
    guest: &Guest,
    paths: &Paths,
    builder: Builder,
    checks: &mut Checks,
) -> Result<()> {
    let wanted: Vec<&Case> = CASES.iter().filter(|case| checks.wants(&check_name(case))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let sources = Sources::make(paths)?;
    let mut built = Vec::new();
    for case in wanted {
        let bench = Bench { case, chip: CHIPS[case.chip], builder, paths, sources: &sources };
        match bench.build() {
            Ok(batch_case) => built.push((case, batch_case)),
            Err(error) => checks.record(&check_name(case), Err(error)),
        }
    }
    if built.is_empty() {
        return Ok(());
    }
    let (cases, batch_cases): (Vec<&Case>, Vec<BatchCase>) = built.into_iter().unzip();
    let batch = Batch::run(guest, paths, "linux-mounts-ours", &[], &batch_cases)?;
    println!("      linux-mounts-ours: {:.1} s in the guest", batch.seconds());
    for case in cases {
        let outcome = batch.case_dir(case.name).and_then(|dir| judge(&dir, case, &sources));
        checks.record(&check_name(case), outcome);
    }
    paths.finish(batch)
}

/// The source trees of the images, and their manifests as the host lists them.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) small: (PathBuf, String),
    big: (PathBuf, String),
    pub(super) firmware: PathBuf,
}

impl Sources {
    pub(super) fn make(paths: &Paths) -> Result<Self> {
        let top = paths.work.join("sources");
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(&top)?;
        let tree = |name: &str, extra: &[&str]| -> Result<(PathBuf, String)> {
            let dir = top.join(name);
            let program = &paths.manifest_program;
            let seed = if extra.is_empty() { "21" } else { "22" };
            output(Command::new(program).arg("exotic").arg(&dir).arg(seed).args(extra))?;
            let manifest = output(Command::new(program).arg("list").arg(&dir))?;
            Ok((dir, manifest))
        };
        let firmware = top.join("firmware.bin");
        fs::write(&firmware, (0..300_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>())?;
        Ok(Self { small: tree("small", &[])?, big: tree("big", &["big"])?, firmware })
    }

    fn of(&self, case: &Case) -> &(PathBuf, String) {
        if case.big { &self.big } else { &self.small }
    }
}

/// Everything needed to build the image of one case.
#[derive(Debug)]
struct Bench<'a> {
    case: &'a Case,
    chip: Chip,
    builder: Builder,
    paths: &'a Paths,
    sources: &'a Sources,
}

impl Bench<'_> {
    fn build(&self) -> Result<BatchCase> {
        let dir = self.paths.work.join("built");
        fs::create_dir_all(&dir)?;
        let image = dir.join(format!("{}.image", self.case.name));
        let _ = fs::remove_file(&image);
        let (put, volumes) = match self.case.form {
            Form::Volume => {
                self.mkfs(&image)?;
                ("volume", "data")
            }
            Form::Layout if self.builder == Builder::Ours => {
                let layout = dir.join("layout.toml");
                fs::write(&layout, self.layout_toml())?;
                let ours = &self.paths.ours;
                output(Command::new(ours).arg("build").arg(&layout).arg("-o").arg(&image))?;
                ("ubiformat", "data second")
            }
            Form::Layout => {
                self.ubinize(&dir, &image, &["data", "second"])?;
                ("ubiformat", "data second")
            }
            Form::Personality => {
                self.ubinize(&dir, &image, &["data"])?;
                ("raw", "data")
            }
        };
        let mut files = vec![("image", image)];
        if self.case.form == Form::Layout {
            files.push(("firmware.bin", self.sources.firmware.clone()));
        }
        let variables = vec![
            ("LOAD", self.chip.load.to_owned()),
            ("FORMAT", self.chip.offset_args.0.to_owned()),
            ("ATTACH", self.chip.offset_args.1.to_owned()),
            ("PUT", put.to_owned()),
            ("VOLUMES", volumes.to_owned()),
        ];
        let script = include_str!("../../guest/mounts.sh");
        Ok(BatchCase { name: self.case.name.to_owned(), script, variables, files })
    }

    /// A bare UBIFS image.
    fn mkfs(&self, image: &Path) -> Result<()> {
        if self.builder == Builder::Debian {
            return self.classic_mkfs(Command::new("mkfs.ubifs"), image);
        }
        let mut mkfs = Command::new(&self.paths.ours);
        mkfs.args(["mkfs", "ubifs"]).arg(&self.sources.of(self.case).0).arg("-o").arg(image);
        mkfs.args(["--peb", &self.chip.peb_size.to_string()]);
        mkfs.args(["--page", &self.chip.page_size.to_string()]);
        mkfs.args(["--subpage", &self.chip.subpage_size.to_string()]);
        mkfs.args(["--max-lebs", &self.case.max_lebs.to_string()]);
        mkfs.args(["--compressor", self.case.compressor]);
        if self.case.space_fixup {
            mkfs.arg("--space-fixup");
        }
        output(&mut mkfs)?;
        self.case.damage.map_or(Ok(()), |damage| self.repair(image, damage))
    }

    /// Damages an image and repairs it.
    fn repair(&self, image: &Path, damage: Damage) -> Result<()> {
        let mut bytes = fs::read(image)?;
        let word = |bytes: &[u8], at: usize| {
            let word = bytes.get(at..at + 4).and_then(<[u8]>::first_chunk);
            word.map_or(0, |word| u32::from_le_bytes(*word) as usize)
        };
        let [leb_size, log, lpt, orphans] = [36, 56, 60, 64].map(|at| word(&bytes, at));
        let main = (3 + log + lpt + orphans) * leb_size;
        ensure!(leb_size > 0 && main < bytes.len(), "{}: no superblock", image.display());
        bytes[leb_size..main].fill(0);
        if damage == Damage::AreasAndIndex {
            for at in (main..bytes.len() - 24).step_by(8) {
                let is_index =
                    bytes[at..].starts_with(&[0x31, 0x18, 0x10, 0x06]) && bytes[at + 20] == 9;
                if is_index {
                    bytes[at + 28] ^= 1;
                }
            }
        }
        let damaged = image.with_extension("damaged");
        fs::write(&damaged, bytes)?;
        let mut repair = Command::new(&self.paths.ours);
        repair.arg("repair").arg(&damaged).arg("-o").arg(image).args(["--level", "rebuild"]);
        output(&mut repair).map(drop)
    }

    /// The same with the command line of mkfs.ubifs.
    fn classic_mkfs(&self, mut mkfs: Command, image: &Path) -> Result<()> {
        let leb_size = self.chip.peb_size - self.chip.data_offset;
        mkfs.arg("-r").arg(&self.sources.of(self.case).0).arg("-o").arg(image);
        mkfs.args(["-m", &self.chip.page_size.max(8).to_string(), "-e", &leb_size.to_string()]);
        mkfs.args(["-c", &self.case.max_lebs.to_string(), "-x", self.case.compressor]);
        if self.case.space_fixup {
            mkfs.arg("-F");
        }
        output(&mut mkfs).map(drop)
    }

    fn personality(&self, name: &str) -> Command {
        match self.builder {
            Builder::Debian => Command::new(name),
            Builder::Ours => {
                let mut command = Command::new(&self.paths.ours);
                command.arg(name);
                command
            }
        }
    }

    /// A whole image with the command lines of mkfs.ubifs and ubinize.
    fn ubinize(&self, dir: &Path, image: &Path, volumes: &[&str]) -> Result<()> {
        let file_system = dir.join("classic.ubifs");
        self.classic_mkfs(self.personality("mkfs.ubifs"), &file_system)?;
        let mut config = String::new();
        let mut volume = |name: &str, kind: &str, size: u32, content: &Path| {
            let number = config.matches("[v").count();
            writeln!(
                config,
                "[v{number}]\nmode=ubi\nimage={}\nvol_id={number}\nvol_size={size}MiB\n\
                 vol_type={kind}\nvol_name={name}",
                content.display()
            )
        };
        if volumes.len() > 1 {
            volume("firmware", "static", 2, &self.sources.firmware)?;
        }
        for name in volumes {
            volume(name, "dynamic", if volumes.len() > 1 { 5 } else { 10 }, &file_system)?;
        }
        let config_file = dir.join("ubinize.cfg");
        fs::write(&config_file, config)?;
        let mut ubinize = self.personality("ubinize");
        ubinize.arg("-o").arg(image);
        ubinize.args(["-p", &self.chip.peb_size.to_string()]);
        ubinize.args(["-m", &self.chip.page_size.to_string()]);
        ubinize.args(["-s", &self.chip.subpage_size.to_string()]).arg(config_file);
        output(&mut ubinize).map(drop)
    }

    fn layout_toml(&self) -> String {
        let Chip { peb_size, page_size, subpage_size, pebs, .. } = self.chip;
        let mut text = format!(
            "[flash]\npeb = {peb_size}\npage = {page_size}\nsubpage = {subpage_size}\n\
             blocks = {pebs}\n\n[[volume]]\nname = \"firmware\"\ntype = \"static\"\n\
             size = \"2MiB\"\ncontent = {{ file = '{}' }}\n",
            self.sources.firmware.display()
        );
        let volume = |name| {
            format!(
                "name = \"{name}\"\nsize = \"5MiB\"\n\
                 content = {{ ubifs = '{}', compressor = \"{}\", space-fixup = {} }}\n",
                self.sources.of(self.case).0.display(),
                self.case.compressor,
                self.case.space_fixup
            )
        };
        for name in ["data", "second"] {
            text.push_str("\n[[volume]]\n");
            text.push_str(&volume(name));
        }
        text
    }
}

/// Compares what Linux listed with the source, and reads the kernel's log.
fn judge(dir: &Path, case: &Case, sources: &Sources) -> Result<()> {
    let log = String::from_utf8_lossy(&fs::read(dir.join("dmesg"))?).into_owned();
    let found = complaints(&log, &[]);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    ensure!(log.contains(case.said), "the kernel did not say `{}`", case.said);
    let expected = &sources.of(case).1;
    let volumes: &[&str] = if case.form == Form::Layout { &["data", "second"] } else { &["data"] };
    for volume in volumes {
        let listed = fs::read_to_string(dir.join(format!("manifest-{volume}")))
            .context("Linux listed nothing")?;
        let differences = differences(expected, &listed, Ignore::OwnSizes);
        ensure!(differences.is_empty(), "volume {volume}: {}", summary(&differences));
    }
    Ok(())
}
