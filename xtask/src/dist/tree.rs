//! Folders that become archives: every file with the same owner, mode and time in every run.

use crate::command::{output, repository};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder below `target` whose files are those of a package.
#[derive(Debug)]
pub(super) struct Tree(pub(super) PathBuf);

impl Tree {
    /// Makes it, empty; removes what an earlier run left.
    pub(super) fn new(name: &str) -> Result<Self> {
        let root = repository().join("target/dist-trees").join(name);
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        Ok(Self(root))
    }

    /// Copies a file to a place in it.
    pub(super) fn copy(&self, from: &Path, to: &str, mode: u32) -> Result<()> {
        let bytes = fs::read(from).with_context(|| from.display().to_string())?;
        self.write(to, &bytes, mode)
    }

    /// Writes a file.
    pub(super) fn write(&self, to: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let path = self.place(to)?;
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Makes a symbolic link.
    pub(super) fn link(&self, at: &str, target: &str) -> Result<()> {
        Ok(symlink(target, self.place(at)?)?)
    }

    /// Compresses a file; the result has no name and no time in it.
    pub(super) fn gzip(&self, at: &str) -> Result<()> {
        output(Command::new("gzip").args(["-9", "--no-name"]).arg(self.0.join(at)))?;
        Ok(())
    }

    fn place(&self, at: &str) -> Result<PathBuf> {
        let path = self.0.join(at);
        fs::create_dir_all(path.parent().context("a file")?)?;
        Ok(path)
    }

    /// Gives everything in it the time `epoch`, in seconds, and folders their usual mode.
    pub(super) fn settle(&self, epoch: &str) -> Result<()> {
        let mut find = Command::new("find");
        output(find.arg(&self.0).args(["-type", "d", "-exec", "chmod", "755", "{}", "+"]))?;
        let time = format!("@{epoch}");
        let mut find = Command::new("find");
        find.arg(&self.0).args(["-depth", "-exec", "touch", "--no-dereference", "--date", &time]);
        output(find.args(["{}", "+"]))?;
        Ok(())
    }

    /// Packs it as a tar archive of root's files, sorted by name, whose names begin with `prefix`.
    pub(super) fn tar(&self, archive: &Path, epoch: &str, prefix: &str) -> Result<()> {
        self.settle(epoch)?;
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--format=posix", "--numeric-owner"]);
        tar.args(["--owner=0", "--group=0", "--pax-option=delete=atime,delete=ctime"]);
        tar.arg(format!("--transform=flags=r;s,^\\.,{prefix},")).arg(format!("--mtime=@{epoch}"));
        output(tar.arg("--file").arg(archive).arg("--directory").arg(&self.0).arg("."))?;
        Ok(())
    }
}
