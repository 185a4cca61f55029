//! The guest of the tables L: a file system of Linux on a card served over NBD, in the card's speed.

use super::log::Log;
use super::{System, large_file, small_files};
use crate::command::find_program;
use crate::evaluate::card::served::Served;
use crate::evaluate::lab::Lab;
use crate::evaluate::nand::archive;
use crate::guest::{Guest, JobDir};
use crate::oracle::Paths;
use anyhow::{Context, Result, bail};
use eraseblock_card::{Card, Parameters};
use std::fs;
use std::path::{Path, PathBuf};

const SCRIPT: &str = include_str!("../../../guest/card-disk.sh");
/// Host time over card time: the guest waits as on a real card.
const PACE: &str = "1";

impl System {
    /// Returns the script's name.
    pub(in crate::evaluate) const fn script_name(self) -> &'static str {
        match self {
            Self::UbifsNc => "ubifs-nc",
            _ => self.name(),
        }
    }

    /// Returns what the guest does before the script.
    pub(in crate::evaluate) const fn preamble(self) -> Option<&'static str> {
        match self {
            // mkfs.nilfs2 refuses to work without a list of mounts.
            Self::Nilfs2 => Some("ln -sf /proc/mounts /etc/mtab\n"),
            _ => None,
        }
    }

    /// Returns the modules that the guest has not already, and the program that makes the file system.
    pub(in crate::evaluate) const fn needs(
        self,
    ) -> (&'static [&'static str], Option<&'static str>) {
        match self {
            Self::Ubifs | Self::UbifsNc => (&[], None),
            Self::F2fs => (&["crc32_generic", "f2fs"], Some("mkfs.f2fs")),
            Self::Nilfs2 => (&["nilfs2"], Some("mkfs.nilfs2")),
            Self::Ext4 => (&["ext4"], Some("mkfs.ext4")),
            Self::Btrfs => (&["blake2b_generic", "btrfs"], Some("mkfs.btrfs")),
            Self::Xfs => (&["xfs"], Some("mkfs.xfs")),
            Self::Vfat => (&["nls_ascii", "nls_cp437", "nls_utf8", "vfat"], Some("mkfs.fat")),
        }
    }
}

/// What the guest unpacks and copies.
#[derive(Debug)]
pub(super) struct Files {
    tree: PathBuf,
    large: PathBuf,
}

impl Files {
    /// Writes them into a folder.
    pub(super) fn write(folder: &Path) -> Result<Self> {
        let tree = archive(&small_files(None), folder, "tree")?;
        let large = folder.join("large");
        fs::write(&large, large_file())?;
        Ok(Self { tree, large })
    }
}

/// Returns a program of the host.
pub(in crate::evaluate) fn program(name: &str) -> Result<PathBuf> {
    let found = find_program(name);
    found.with_context(|| format!("{name} is not installed (hint: make evaluate as root)"))
}

/// Runs all steps in a guest, or takes the log of an earlier run.
pub(super) fn measure(
    lab: &mut Lab,
    system: System,
    trees: u32,
    files: &Files,
    card: &Parameters,
) -> Result<Log> {
    // Where nothing was written the flash is erased.
    let is_flash = system.compression().is_some();
    let card = Parameters { erased_ones: is_flash, ..card.clone() };
    let (modules, mkfs) = system.needs();
    let mut programs = vec![program("dd")?];
    programs.extend(mkfs.map(program).transpose()?);
    let mut inputs = lab
        .inputs()?
        .with("script", SCRIPT)
        .with("system", system.script_name())
        .with("modules", modules.join(" "))
        .with("trees", trees.to_string())
        .with("pace", PACE)
        .with("card", serde_json::to_string(&card)?)
        .with_file("tree", &files.tree)?
        .with_file("large", &files.large)?;
    if let Some(preamble) = system.preamble() {
        inputs = inputs.with("preamble", preamble);
    }
    for program in &programs {
        inputs = inputs.with_file("program", program)?;
    }
    let (guest, paths) = (&lab.guest, &lab.paths);
    let name = format!("disk-{}-{trees}", system.script_name());
    let part = lab.kept.part(&name, &inputs, |kept| {
        let job = job(guest, paths, system, trees, files, &programs)?;
        serve_and_run(guest, paths, &job, &card, kept)?;
        fs::copy(job.path().join("marks"), kept.join("marks"))?;
        fs::copy(job.path().join("queue"), kept.join("queue"))?;
        Ok(fs::remove_dir_all(job.path())?)
    })?;
    if part.is_kept {
        println!("      {name}: kept from an earlier run");
    }
    let read = |name: &str| fs::read_to_string(part.folder.join(name));
    Log::parse(&read("log.csv")?, &read("marks")?)
}

fn job(
    guest: &Guest,
    paths: &Paths,
    system: System,
    trees: u32,
    files: &Files,
    programs: &[PathBuf],
) -> Result<JobDir> {
    let job = JobDir::create(&paths.work.join(format!("disk-{}", system.script_name())))?;
    for program in programs {
        job.add_with_libraries(program)?;
    }
    add_modules(&job, guest, system.needs().0)?;
    fs::copy(&files.tree, job.path().join("tree.tar"))?;
    fs::copy(&files.large, job.path().join("large"))?;
    let card = super::card_parameters()?;
    let variables =
        format!("SYSTEM={} TREES={trees} SEGMENT={}\n", system.script_name(), card.unit);
    let preamble = system.preamble().unwrap_or_default();
    job.write("job.sh", [preamble, &variables, SCRIPT].concat())?;
    Ok(job)
}

/// Adds modules of the kernel to a job, in the order of loading.
pub(in crate::evaluate) fn add_modules(job: &JobDir, guest: &Guest, names: &[&str]) -> Result<()> {
    fs::create_dir(job.path().join("modules"))?;
    let mut order = String::new();
    for module in guest.modules(names)? {
        let name = module.file_name().context("a module has a name")?.to_string_lossy();
        fs::copy(&module, job.path().join("modules").join(name.as_ref()))?;
        order.push_str(&name);
        order.push('\n');
    }
    job.write("modules/order", order)
}

fn serve_and_run(
    guest: &Guest,
    paths: &Paths,
    job: &JobDir,
    card: &Parameters,
    kept: &Path,
) -> Result<()> {
    // The path of a socket is short.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("disk.card");
    drop(Card::create(&file, card)?);
    let log = kept.join("log.csv");
    let log = log.to_str().context("the path of the log is not UTF-8")?;
    let served = Served::serve(&paths.ours, &file, &["--pace", PACE, "--log", log])?;
    let report = guest.run_with(job, &served.device("card"))?;
    drop(served);
    let name = job.path().file_name().unwrap_or_default().to_string_lossy();
    println!("      {name}: {:.0} s", report.elapsed.as_secs_f64());
    match report.failure() {
        Some(reason) => bail!("{reason}"),
        None => Ok(()),
    }
}
