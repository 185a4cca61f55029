//! The sources with those of all dependencies: they build without a network.

use super::VERSION;
use super::tree::Tree;
use crate::command::{cargo, output, repository};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the dependencies lie in the archive.
pub(super) const THIRD_PARTY: &str = "third-party";

/// Makes cargo take the dependencies from there.
const REPLACED: &str = "
[source.crates-io]
replace-with = \"third-party\"

[source.third-party]
directory = \"third-party\"
";

/// Returns the sources of the commit with those of all dependencies.
pub(super) fn tree() -> Result<Tree> {
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
    // The folders have the names that they have in cargo's own registry.
    let mut vendor = cargo();
    vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs", THIRD_PARTY]);
    output(vendor.current_dir(&tree.0))?;
    let path = tree.0.join(".cargo/config.toml");
    fs::write(&path, fs::read_to_string(&path)? + REPLACED)?;
    Ok(tree)
}

/// Packs them into `dist` as `eraseblock-VERSION.tar.xz`.
pub(super) fn write(tree: &Tree, dist: &Path, epoch: &str) -> Result<()> {
    let prefix = format!("eraseblock-{VERSION}");
    let archive = dist.join(format!("{prefix}.tar"));
    tree.tar(&archive, epoch, &prefix)?;
    output(Command::new("xz").args(["-6", "--threads=1", "--force"]).arg(&archive))?;
    Ok(())
}
