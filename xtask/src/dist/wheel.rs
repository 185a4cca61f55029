//! The wheels of the Python package, which contain the command as well: one for the GNU C library, one
//! for musl. Each serves all versions of Python from 3.11 on.
//!
//! Zig compiles the parts in C and links: it has the headers and symbols of old C libraries, so that
//! the wheels run on systems older than this one.

use super::tree::Tree;
use super::{LICENCES, SBOM, SHARED, Sources, TARGET};
use crate::command::output;
use crate::python::{search, tools};
use anyhow::{Context, Result, anyhow, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kind of system that a wheel is for.
#[derive(Debug)]
pub(super) struct System {
    /// The build target.
    target: &'static str,
    /// The system as installers of wheels call it.
    platform: &'static str,
    /// The last part of the wheel's name, and what auditwheel must find.
    pub(super) tag: &'static str,
}

/// The oldest ones for which Rust's own libraries are made.
pub(super) const SYSTEMS: [System; 2] = [
    System { target: SHARED, platform: "manylinux2014", tag: "manylinux_2_17_x86_64" },
    System { target: TARGET, platform: "musllinux_1_2", tag: "musllinux_1_2_x86_64" },
];

/// Builds the wheels into `dist`, with the licences and the SBOM that are there.
pub(super) fn write(sources: &Sources, dist: &Path, epoch: &str) -> Result<()> {
    let package = package(sources, dist)?;
    // Most of the time of a build is that of its last step, which uses one processor.
    let build = |system| build(sources, system, &package, dist, epoch);
    std::thread::scope(|scope| {
        let builds = SYSTEMS.each_ref().map(|system| scope.spawn(move || build(system)));
        builds.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a panic"))?)
    })?;
    for system in &SYSTEMS {
        let opened = Tree::new("wheel")?;
        unpack(&system.wheel(dist)?, &opened.0)?;
        super::ensure_no_path(&opened.0.join("eraseblock/_native.abi3.so"))?;
    }
    Ok(())
}

impl System {
    /// Returns the wheel for it in `dist`.
    pub(super) fn wheel(&self, dist: &Path) -> Result<PathBuf> {
        let mut files = fs::read_dir(dist)?.flatten().map(|entry| entry.path());
        let is_it = |path: &PathBuf| {
            path.extension() == Some(OsStr::new("whl"))
                && path.to_string_lossy().ends_with(&format!("{}.whl", self.tag))
        };
        files.find(is_it).with_context(|| format!("there is no wheel for {}", self.tag))
    }
}

/// Unpacks a wheel into a folder.
pub(super) fn unpack(wheel: &Path, folder: &Path) -> Result<()> {
    let mut unzip = Command::new(tools()?);
    output(unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder))?;
    Ok(())
}

/// Copies the package to a folder of its own, with the licences of what others wrote.
fn package(sources: &Sources, dist: &Path) -> Result<Tree> {
    let tree = Tree::new("python")?;
    let from = sources.root.join("python");
    for folder in ["", "eraseblock"] {
        for entry in fs::read_dir(from.join(folder))? {
            let path = entry?.path();
            if path.is_file() {
                let to = path.strip_prefix(&from)?.to_string_lossy().into_owned();
                tree.copy(&path, &to, 0o644)?;
            }
        }
    }
    tree.copy(&dist.join(LICENCES), LICENCES, 0o644)?;
    let mut text = fs::read_to_string(from.join("pyproject.toml"))?;
    let manifest = sources.root.join("crates/python/Cargo.toml");
    for (old, new) in [
        ("\"../crates/python/Cargo.toml\"", format!("{:?}", manifest.display().to_string())),
        ("\"LICENSE-*\"", format!("\"LICENSE-*\", \"{LICENCES}\"")),
    ] {
        ensure!(text.contains(old), "pyproject.toml does not contain {old}");
        text = text.replace(old, &new);
    }
    tree.write("pyproject.toml", text.as_bytes(), 0o644)?;
    Ok(tree)
}

fn build(
    sources: &Sources,
    system: &System,
    package: &Tree,
    dist: &Path,
    epoch: &str,
) -> Result<()> {
    let python = tools()?;
    let mut command = Command::new(python.with_file_name("maturin"));
    command.args(["build", "--quiet", "--zig", "--locked", "--profile", "portable"]);
    command.args(["--target", system.target, "--compatibility", system.platform]);
    command.arg("--interpreter").arg(&python).arg("--out").arg(dist);
    command.arg("--sbom-include").arg(dist.join(SBOM));
    if sources.are_packed() {
        command.arg("--offline");
    }
    // A build locks its folder.
    let parts = sources.root.join("target/wheel-parts").join(system.platform);
    command.arg("--target-dir").arg(parts);
    sources.settle(&mut command);
    // maturin asks the first Python for Zig.
    command.env("PATH", search(&python)?);
    // This time is that of the files in the wheel.
    command.env("SOURCE_DATE_EPOCH", epoch).env_remove("RUSTC_WORKSPACE_WRAPPER");
    let status = command.current_dir(&package.0).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "the wheel for {} cannot be built", system.tag);
    Ok(())
}
