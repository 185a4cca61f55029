//! The manifest of a mounted tree.

use eraseblock_vfs::FileKind;
use eraseblock_vfs_testkit::manifest::{
    END_LEN, Manifest, ManifestContent, ManifestLine, WHOLE_HASH_MAX, hash_content,
};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Space for the names of an inode's xattrs, the maximum that Linux returns.
const NAMES_MAX: usize = 64 << 10;

/// Returns the lines of the tree of `top`, without following symbolic links.
pub(crate) fn list(top: &Path) -> io::Result<Vec<ManifestLine>> {
    let mut manifest = Manifest::default();
    let mut pending: Vec<(PathBuf, Vec<u8>)> = vec![(top.to_path_buf(), Vec::new())];
    while let Some((host, path)) = pending.pop() {
        let meta = fs::symlink_metadata(&host).map_err(|error| named(&host, &error))?;
        if meta.is_dir() {
            for entry in fs::read_dir(&host).map_err(|error| named(&host, &error))? {
                let name = entry?.file_name();
                pending.push((host.join(&name), join(&path, name)));
            }
        }
        let line = line(&host, path, &meta).map_err(|error| named(&host, &error))?;
        manifest.push(meta.ino(), line);
    }
    Ok(manifest.finish())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

fn join(path: &[u8], name: OsString) -> Vec<u8> {
    let mut joined = path.to_vec();
    if !joined.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(&name.into_vec());
    joined
}

fn line(host: &Path, path: Vec<u8>, meta: &Metadata) -> io::Result<ManifestLine> {
    let kind = FileKind::from_mode(meta.mode())
        .ok_or_else(|| io::Error::other(format!("unknown type in mode {:o}", meta.mode())))?;
    let content = match kind {
        FileKind::Regular => hash_file(host, meta.size())?,
        FileKind::Symlink => {
            ManifestContent::Target(fs::read_link(host)?.as_os_str().as_bytes().to_vec())
        }
        _ => ManifestContent::None,
    };
    let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    Ok(ManifestLine {
        path,
        kind,
        permissions: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        nlink: u32::try_from(meta.nlink()).unwrap_or(u32::MAX),
        mtime: meta.mtime(),
        size: meta.size(),
        device: (major, minor),
        group: None,
        content,
        xattrs: xattrs(host)?,
    })
}

// The ends of a large file do not overlap.
const _: () = assert!(END_LEN < WHOLE_HASH_MAX);

fn hash_file(host: &Path, size: u64) -> io::Result<ManifestContent> {
    let file = File::open(host)?;
    hash_content(size, |offset, buf| file.read_at(buf, offset))
}

fn xattrs(host: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; NAMES_MAX];
    let len = match rustix::fs::llistxattr(host, &mut names[..]) {
        Ok(len) => len,
        Err(rustix::io::Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    if len == 0 {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut value = vec![0; 64 << 10];
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let len = rustix::fs::lgetxattr(host, name, &mut value[..])?;
        found.push((name.to_vec(), value[..len].to_vec()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, lsetxattr};

    /// A listing that requested the length with an empty buffer found no attributes at all.
    #[test]
    fn attributes_are_listed() {
        let dir = std::env::temp_dir().join(format!("oracle-list-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("file"), b"x").unwrap();
        let set = lsetxattr(dir.join("file"), "user.a", b"v", XattrFlags::empty());
        let lines = list(&dir).unwrap();
        assert_eq!(lines[1].path, b"file");
        // File systems without user attributes prove nothing.
        if set.is_ok() {
            assert_eq!(lines[1].xattrs, [(b"user.a".to_vec(), b"v".to_vec())]);
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
