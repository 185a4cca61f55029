//! The sources with those of all dependencies: they build without a network.

use super::VERSION;
use super::tree::Tree;
use crate::command::{cargo, output, repository};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the dependencies lie in the archive.
const THIRD_PARTY: &str = "third-party";

/// Packs the sources of the commit into `dist` as `eraseblock-VERSION.tar.xz`.
pub(super) fn write(dist: &Path, epoch: &str) -> Result<()> {
    let tree = Tree::new("source")?;
    let archive = tree.0.with_extension("tar");
    let mut git = Command::new("git");
    output(git.args(["archive", "--output"]).arg(&archive).arg("HEAD").current_dir(repository()))?;
    output(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(&tree.0),
    )?;
    fs::remove_file(&archive)?;
    let mut vendor = cargo();
    vendor.args(["vendor", "--quiet", "--locked", THIRD_PARTY]).current_dir(&tree.0);
    let configuration = output(&mut vendor)?;
    let path = tree.0.join(".cargo/config.toml");
    let configured = format!("{}\n{}", fs::read_to_string(&path)?, configuration.trim_start());
    fs::write(path, configured)?;
    let prefix = format!("eraseblock-{VERSION}");
    let archive = dist.join(format!("{prefix}.tar"));
    tree.tar(&archive, epoch, &prefix)?;
    output(Command::new("xz").args(["-6", "--threads=1", "--force"]).arg(&archive))?;
    Ok(())
}
