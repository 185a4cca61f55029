//! Scratch copies of the sources, in which something is planted.

use crate::command::{output, repository};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies every file of the sources, tracked or new, to an empty folder.
pub(crate) fn export(to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let names = output(Command::new("git").current_dir(repository()).args(list))?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, copy) = (repository().join(name), to.join(name));
        // A file that is deleted and not committed yet is still listed.
        if from.is_file() {
            fs::create_dir_all(copy.parent().expect("a file lies in a folder"))?;
            fs::copy(&from, &copy).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    Ok(())
}

/// Gives the packages of a copy a version of their own. With the same one, cargo would take the
/// builds of the copy and of the sources for each other, since they share a target folder.
pub(crate) fn rename_version(copy: &Path, suffix: &str) -> Result<()> {
    let manifest = copy.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    let version = concat!("version = \"", env!("CARGO_PKG_VERSION"));
    let (old, new) = (format!("{version}\"\nedition"), format!("{version}+{suffix}\"\nedition"));
    ensure!(text.contains(&old), "{}: no version of the workspace", manifest.display());
    Ok(fs::write(manifest, text.replacen(&old, &new, 1))?)
}

/// Makes `to` equal to `from`, leaving files alone that are equal already.
pub(crate) fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let path = to.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    for name in wanted {
        let (source, copy) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            mirror(&source, &copy)?;
        } else if fs::read(&copy).ok() != Some(fs::read(&source)?) {
            fs::copy(&source, &copy)?;
        }
    }
    Ok(())
}

/// Returns the names in a folder.
pub(crate) fn names(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_keeps_what_is_equal() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/same"), "same").unwrap();
        fs::write(from.join("new"), "new").unwrap();
        fs::create_dir_all(to.join("a")).unwrap();
        fs::write(to.join("a/same"), "same").unwrap();
        fs::write(to.join("old"), "old").unwrap();
        let before = fs::metadata(to.join("a/same")).unwrap().modified().unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::metadata(to.join("a/same")).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read(to.join("new")).unwrap(), b"new");
        assert!(!to.join("old").exists());
    }
}
