//! The kind of a device node, and its properties in sysfs (spec: mtd-nand 3.4, ubi 18.4).

use crate::error::HostError;
use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The kind of file or device at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// `/dev/mtdX`.
    Mtd,
    /// `/dev/ubiX`: a UBI device, whose volumes have their own nodes.
    UbiDevice,
    /// `/dev/ubiX_Y`.
    UbiVolume,
    /// A block device.
    Block,
    /// A character device of another kind.
    OtherDevice,
}

impl NodeKind {
    /// Determines the kind of a path; `None` if it is not a device node.
    ///
    /// # Errors
    ///
    /// Fails if the path or sysfs cannot be read.
    pub fn of(path: &Path) -> Result<Option<Self>, HostError> {
        let metadata = fs::metadata(path).map_err(|e| HostError::refused(path, "stat", e))?;
        if metadata.file_type().is_block_device() {
            return Ok(Some(Self::Block));
        }
        if !metadata.file_type().is_char_device() {
            return Ok(None);
        }
        let sysfs = Sysfs::at(char_dir(metadata.rdev()), path);
        Ok(Some(match sysfs.subsystem().as_deref() {
            Some("mtd") => Self::Mtd,
            Some("ubi") if sysfs.has("reserved_ebs") => Self::UbiVolume,
            Some("ubi") if sysfs.has("eraseblock_size") => Self::UbiDevice,
            _ => Self::OtherDevice,
        }))
    }
}

fn char_dir(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/char/{}:{}", major(device), minor(device)))
}

/// Returns the node of a volume of the UBI device at `path`, named by its name or number, or the
/// only volume if none is named.
///
/// # Errors
///
/// Fails if no volume matches; the error lists the existing ones.
pub fn ubi_volume_node(path: &Path, volume: Option<&[u8]>) -> Result<PathBuf, HostError> {
    let sysfs = Sysfs::of(path)?;
    let device = sysfs.name()?;
    let mut volumes = Vec::new();
    let listed = fs::read_dir(&sysfs.dir).map_err(|e| HostError::refused(path, "sysfs", e))?;
    for entry in listed.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let number = name.strip_prefix(device.as_str()).and_then(|rest| rest.strip_prefix('_'));
        let Some(number) = number.and_then(|text| text.parse::<u32>().ok()) else { continue };
        let called = fs::read(entry.path().join("name")).unwrap_or_default();
        volumes.push((number, called.trim_ascii_end().to_vec()));
    }
    volumes.sort();
    let wanted = |(number, called): &&(u32, Vec<u8>)| match volume {
        Some(wanted) => called == wanted || number.to_string().as_bytes() == wanted,
        None => volumes.len() == 1,
    };
    let by_name = volumes.iter().find(|(_, called)| Some(called.as_slice()) == volume);
    if let Some((number, _)) = by_name.or_else(|| volumes.iter().find(wanted)) {
        return Ok(path.with_file_name(format!("{device}_{number}")));
    }
    let describe = |(number, called): &(u32, Vec<u8>)| {
        format!("{} (number {number})", String::from_utf8_lossy(called))
    };
    let found: Vec<String> = volumes.iter().map(describe).collect();
    Err(HostError::Unexpected {
        path: path.to_owned(),
        field: "the list of volumes",
        found: if found.is_empty() { "empty".to_owned() } else { found.join(", ") },
        expected: "the requested volume, by name or number after a colon",
    })
}

/// The directory of a device in sysfs.
#[derive(Debug)]
pub(crate) struct Sysfs {
    dir: PathBuf,
    /// For messages.
    node: PathBuf,
}

impl Sysfs {
    /// Returns the directory of the character device at `path`.
    pub(crate) fn of(path: &Path) -> Result<Self, HostError> {
        let metadata = fs::metadata(path).map_err(|e| HostError::refused(path, "stat", e))?;
        let dir = char_dir(metadata.rdev());
        let dir = dir.canonicalize().map_err(|e| HostError::refused(path, "sysfs", e))?;
        Ok(Self::at(dir, path))
    }

    pub(crate) fn at(dir: PathBuf, node: &Path) -> Self {
        Self { dir, node: node.to_owned() }
    }

    /// Returns the directory of the parent: for a volume, its UBI device.
    pub(crate) fn parent(&self) -> Self {
        Self::at(self.dir.parent().unwrap_or(&self.dir).to_owned(), &self.node)
    }

    fn subsystem(&self) -> Option<String> {
        let link = fs::read_link(self.dir.join("subsystem")).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// Returns the kernel's name of the device: `mtd0`, `ubi0_1`.
    pub(crate) fn name(&self) -> Result<String, HostError> {
        let name = self.dir.file_name().and_then(|name| name.to_str());
        name.map(str::to_owned).ok_or_else(|| self.unexpected("the name in sysfs", "", "a name"))
    }

    fn has(&self, attribute: &str) -> bool {
        self.dir.join(attribute).exists()
    }

    /// Returns an attribute as text, without the line feed.
    pub(crate) fn text(&self, attribute: &'static str) -> Result<String, HostError> {
        let read = fs::read(self.dir.join(attribute));
        let bytes = read.map_err(|e| HostError::refused(&self.node, attribute, e))?;
        Ok(String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned())
    }

    /// Returns an attribute as a number, decimal or with 0x.
    pub(crate) fn number<T: FromStr + TryFrom<u64>>(
        &self,
        attribute: &'static str,
    ) -> Result<T, HostError> {
        let text = self.text(attribute)?;
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().and_then(|n| T::try_from(n).ok()),
            None => text.parse().ok(),
        };
        parsed.ok_or_else(|| self.unexpected(attribute, &text, "a number"))
    }

    pub(crate) fn unexpected(
        &self,
        field: &'static str,
        found: &str,
        expected: &'static str,
    ) -> HostError {
        HostError::Unexpected { path: self.node.clone(), field, found: found.to_owned(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_numbers_in_both_notations() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("flags"), "0x400\n").unwrap();
        fs::write(dir.path().join("size"), "131072\n").unwrap();
        fs::write(dir.path().join("name"), "some name\n").unwrap();
        let sysfs = Sysfs::at(dir.path().to_owned(), Path::new("/dev/mtd0"));
        assert_eq!(sysfs.number::<u32>("flags").unwrap(), 0x400);
        assert_eq!(sysfs.number::<u64>("size").unwrap(), 131_072);
        assert!(sysfs.number::<u8>("size").unwrap_err().to_string().contains("size is 131072"));
        assert_eq!(sysfs.text("name").unwrap(), "some name");
        assert!(sysfs.text("nothing").unwrap_err().to_string().contains("nothing failed"));
    }

    #[test]
    fn other_nodes_are_told_apart() {
        assert_eq!(NodeKind::of(Path::new("/dev/null")).unwrap(), Some(NodeKind::OtherDevice));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(NodeKind::of(file.path()).unwrap(), None);
        assert!(NodeKind::of(Path::new("/dev/there is no such node")).is_err());
    }
}
