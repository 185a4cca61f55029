//! Detects other users of a device.

use crate::error::HostError;
use eraseblock_mtd::Access;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::Path;

/// Locks an open node while it is open: against all others for writing, against writers for
/// reading.
pub(crate) fn lock(file: &File, path: &Path, access: Access) -> Result<(), HostError> {
    let operation = match access {
        Access::Write => FlockOperation::NonBlockingLockExclusive,
        Access::Read => FlockOperation::NonBlockingLockShared,
    };
    flock(file, operation).map_err(|errno| match errno {
        Errno::WOULDBLOCK => {
            HostError::Busy { path: path.to_owned(), by: "another program has it open".to_owned() }
        }
        other => HostError::refused(path, "flock", other),
    })
}

/// Refuses an MTD device to which UBI is attached or from which a file system is mounted.
pub(crate) fn refuse_used_mtd(path: &Path, mtd_name: &str, label: &str) -> Result<(), HostError> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let by = attached_as(mtd_name).or_else(|| mounted_at(&mounts, mtd_name, label));
    match by {
        None => Ok(()),
        Some(by) => Err(HostError::Busy { path: path.to_owned(), by }),
    }
}

fn attached_as(mtd_name: &str) -> Option<String> {
    let devices = fs::read_dir("/sys/class/ubi").ok()?;
    devices.flatten().find_map(|device| {
        let number = fs::read_to_string(device.path().join("mtd_num")).ok()?;
        let is_it = format!("mtd{}", number.trim()) == mtd_name;
        is_it.then(|| format!("attached as {}", device.file_name().display()))
    })
}

fn mounted_at(mounts: &str, mtd_name: &str, label: &str) -> Option<String> {
    let number = mtd_name.strip_prefix("mtd")?;
    // The list shows spaces of a label as octal escapes.
    let label = format!("mtd:{}", label.replace(' ', "\\040"));
    let names = [mtd_name.to_owned(), format!("/dev/mtdblock{number}"), label];
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (source, place) = (fields.next()?, fields.next()?);
        names.iter().any(|name| name == source).then(|| format!("mounted at {place}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_opener_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(file.path()).unwrap();
        let (first, second) = (open(), open());
        lock(&first, file.path(), Access::Read).unwrap();
        lock(&second, file.path(), Access::Read).unwrap();
        let error = lock(&open(), file.path(), Access::Write).unwrap_err();
        assert!(matches!(error, HostError::Busy { .. }), "{error}");
        drop((first, second));
        let writer = open();
        lock(&writer, file.path(), Access::Write).unwrap();
        assert!(lock(&open(), file.path(), Access::Read).is_err());
    }

    #[test]
    fn mounts_are_found_by_all_names() {
        let mounts = "/dev/mtdblock3 /mnt jffs2 rw 0 0\nmtd:my\\040label /a\\040b jffs2 rw 0 0\n\
                      mtd5 /five jffs2 ro 0 0\n";
        assert_eq!(mounted_at(mounts, "mtd3", "x").unwrap(), "mounted at /mnt");
        assert_eq!(mounted_at(mounts, "mtd4", "my label").unwrap(), "mounted at /a\\040b");
        assert_eq!(mounted_at(mounts, "mtd5", "x").unwrap(), "mounted at /five");
        assert_eq!(mounted_at(mounts, "mtd6", "x"), None);
    }
}
