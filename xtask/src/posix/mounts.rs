//! The mounts under test: new and empty, on simulated chips in memory.

use crate::command::{output, repository};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// What is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// UBIFS on a NAND chip of 256 MiB.
    Ubifs,
    /// JFFS2 on a NOR chip of 64 MiB.
    Jffs2,
    /// The model file system.
    Model,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Ubifs, Self::Jffs2, Self::Model];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ubifs => "ubifs",
            Self::Jffs2 => "jffs2",
            Self::Model => "model",
        }
    }
}

/// A mount of an empty file system.
#[derive(Debug)]
pub(super) struct Mount {
    dir: PathBuf,
    behind: Behind,
}

#[derive(Debug)]
enum Behind {
    /// The process that serves the model.
    Model(Child),
    /// A chip in a file that the command serves.
    Chip { program: PathBuf, file: PathBuf, target: String },
}

impl Mount {
    /// Creates a file system and mounts it for all users. The full suites use the release build.
    pub(super) fn new(kind: Kind, work: &Path, is_full: bool) -> Result<Self> {
        let dir = work.join("mount");
        fs::create_dir_all(&dir)?;
        let profile = repository().join(if is_full { "target/release" } else { "target/debug" });
        if kind == Kind::Model {
            return Self::model(dir);
        }
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { work };
        let file = place.join(format!("eraseblock-{}-{}.chip", std::process::id(), kind.name()));
        let _ = fs::remove_file(&file);
        let program = profile.join("eraseblock");
        let target = make(kind, &program, &file)?;
        let mut mount = Command::new(&program);
        mount.args(["mount", &target]).arg(&dir).args(["--rw", "-o", "allow_other,dev,suid"]);
        output(&mut mount)?;
        Ok(Self { dir, behind: Behind::Chip { program, file, target } })
    }

    fn model(dir: PathBuf) -> Result<Self> {
        let program = repository().join("target/debug/examples/model");
        let process = Command::new(&program).arg(&dir).arg("exact").spawn();
        let mut process = process.with_context(|| program.display().to_string())?;
        for _ in 0..500 {
            if fs::read_to_string("/proc/self/mountinfo")?.contains(&dir.display().to_string()) {
                return Ok(Self { dir, behind: Behind::Model(process) });
            }
            if let Some(status) = process.try_wait()? {
                bail!("the model could not be mounted: {status}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the model is not mounted after 5 seconds")
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts and checks the result.
    pub(super) fn end(mut self) -> Result<()> {
        match &mut self.behind {
            Behind::Model(process) => {
                output(Command::new("umount").arg(&self.dir))?;
                ensure!(process.wait()?.success(), "the model did not end well");
            }
            Behind::Chip { program, target, .. } => {
                output(Command::new(&*program).arg("umount").arg(&self.dir))?;
                output(Command::new(&*program).args(["check", target]))
                    .context("after the suite")?;
            }
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let still = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if still.contains(&self.dir.display().to_string()) {
            let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
        }
        match &mut self.behind {
            Behind::Model(process) => {
                let _ = process.wait();
            }
            Behind::Chip { file, .. } => {
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// Creates the chip and the layers that the file system needs; returns the target to mount.
fn make(kind: Kind, program: &Path, file: &Path) -> Result<String> {
    let path = file.display().to_string();
    let run = |words: &[&str]| output(Command::new(program).args(words));
    if kind == Kind::Jffs2 {
        run(&["chip", "new", &path, "--size", "64MiB", "--peb", "64KiB", "--page", "1"])?;
        return Ok(path);
    }
    let nand = ["--size", "256MiB", "--peb", "128KiB", "--page", "2048", "--subpage", "512"];
    run(&[&["chip", "new", &path, "--oob", "64"][..], &nand].concat())?;
    run(&["ubi", "format", &path])?;
    run(&["ubi", "mkvol", &path, "judged", "--all"])?;
    Ok(format!("{path}:judged"))
}
