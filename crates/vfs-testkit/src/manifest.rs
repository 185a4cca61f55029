//! The manifest of a tree: one canonical line of text for each path, the same for a directory of
//! the host, a file system mounted by Linux and an image read by us, so that two trees are equal
//! when their manifests are.
//!
//! A line is made of fields separated by one space:
//!
//! ```text
//! PATH TYPE MODE UID:GID nlink=N mtime=SECONDS size=BYTES dev=MAJOR:MINOR group=N content=C xattrs=X
//! ```
//!
//! - PATH has no leading slash; the root is `.`. Bytes outside 0x21..=0x7e, and `\`, are `\xHH`.
//! - TYPE is the letter of `ls -l`, MODE four or more octal digits (permission bits only).
//! - `dev` is `-` for anything but block and character devices.
//! - `group` is `-` for inodes with one path in the tree. Inodes with several are numbered from 1
//!   in the order of their first paths.
//! - `content` is `-`, `target:` with the escaped target of a symbolic link, `sha256:` with the
//!   hash of a regular file, `ends:` with the hash of the first and the last MiB of a file above
//!   [`WHOLE_HASH_MAX`], or `error`.
//! - `xattrs` is `-`, or `NAME:HEX` joined by commas, sorted by the bytes of the names; commas and
//!   colons in names are escaped.
//!
//! Lines are sorted by the bytes of the unescaped paths, the root first.

use eraseblock_vfs::attr::{Attr, FileKind};
use eraseblock_vfs::error::FsError;
use eraseblock_vfs::fs::{FileSystem, Ino};
use eraseblock_vfs::walk::{Descend, Visit, walk};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter, Write};

/// Files above this many bytes are hashed at both ends only.
pub const WHOLE_HASH_MAX: u64 = 64 << 20;

/// Number of bytes hashed at each end of a large file.
pub const END_LEN: u64 = 1 << 20;

/// The content of an inode, as far as a manifest describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ManifestContent {
    /// Nothing: directories, devices, pipes, sockets.
    None,
    /// The target of a symbolic link.
    Target(Vec<u8>),
    /// SHA-256 of a regular file.
    Sha256([u8; 32]),
    /// SHA-256 of the first and the last [`END_LEN`] bytes of a large regular file.
    Ends([u8; 32]),
    /// Content that could not be read.
    Unreadable,
}

/// The information of a manifest about one path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestLine {
    /// Path from the root, without leading slash; empty for the root itself.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits, set-id bits and the sticky bit (0o7777).
    pub permissions: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Link count as stored in the inode.
    pub nlink: u32,
    /// Last change of content, whole seconds since 1970.
    pub mtime: i64,
    /// Length in bytes.
    pub size: u64,
    /// Device number as (major, minor); printed for devices only.
    pub device: (u32, u32),
    /// Number of the inode among those with several paths.
    pub group: Option<u32>,
    /// Its content.
    pub content: ManifestContent,
    /// Xattrs with full names; printed in the order of their names.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ManifestLine {
    /// Creates a line from an inode's attributes.
    pub fn from_attr(
        path: Vec<u8>,
        attr: &Attr,
        content: ManifestContent,
        xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Self {
        Self {
            path,
            kind: attr.kind,
            permissions: attr.permissions,
            uid: attr.uid,
            gid: attr.gid,
            nlink: attr.nlink,
            mtime: attr.mtime.seconds,
            size: attr.size,
            device: attr.rdev,
            group: None,
            content,
            xattrs,
        }
    }
}

impl Display for ManifestLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_char('.')?;
        } else {
            escape(f, &self.path, b"")?;
        }
        write!(
            f,
            " {} {:04o} {}:{} nlink={} mtime={} size={}",
            self.kind.letter(),
            self.permissions,
            self.uid,
            self.gid,
            self.nlink,
            self.mtime,
            self.size
        )?;
        match self.kind {
            FileKind::BlockDevice | FileKind::CharDevice => {
                write!(f, " dev={}:{}", self.device.0, self.device.1)?;
            }
            _ => f.write_str(" dev=-")?,
        }
        match self.group {
            Some(group) => write!(f, " group={group}")?,
            None => f.write_str(" group=-")?,
        }
        f.write_str(" content=")?;
        match &self.content {
            ManifestContent::None => f.write_char('-')?,
            ManifestContent::Target(target) => {
                f.write_str("target:")?;
                escape(f, target, b"")?;
            }
            ManifestContent::Sha256(hash) => write_hex(f, "sha256:", hash)?,
            ManifestContent::Ends(hash) => write_hex(f, "ends:", hash)?,
            ManifestContent::Unreadable => f.write_str("error")?,
        }
        self.fmt_xattrs(f)
    }
}

impl ManifestLine {
    fn fmt_xattrs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(" xattrs=")?;
        if self.xattrs.is_empty() {
            return f.write_char('-');
        }
        let mut sorted: Vec<_> = self.xattrs.iter().collect();
        sorted.sort();
        for (index, (name, value)) in sorted.into_iter().enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            escape(f, name, b",:")?;
            write_hex(f, ":", value)?;
        }
        Ok(())
    }
}

fn escape(f: &mut Formatter<'_>, bytes: &[u8], also: &[u8]) -> fmt::Result {
    for &byte in bytes {
        if (0x21..=0x7e).contains(&byte) && byte != b'\\' && !also.contains(&byte) {
            f.write_char(byte as char)?;
        } else {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

fn write_hex(f: &mut Formatter<'_>, label: &str, bytes: &[u8]) -> fmt::Result {
    f.write_str(label)?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Hashes a regular file of `size` bytes through `read_at(offset, buf)`, which fills `buf` as far
/// as the file extends and returns the number of bytes. A file that ends early is an error of the
/// reader; the existing part is hashed.
///
/// # Errors
///
/// Fails with the error of `read_at`.
pub fn hash_content<E>(
    size: u64,
    mut read_at: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<ManifestContent, E> {
    let mut hasher = Sha256::new();
    let mut buf = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(128 << 10)];
    let mut feed = |mut at: u64, end: u64| {
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(buf.len());
            let got = read_at(at, &mut buf[..len])?;
            if got == 0 {
                break;
            }
            hasher.update(&buf[..got]);
            at += got as u64;
        }
        Ok(())
    };
    if size <= WHOLE_HASH_MAX {
        feed(0, size)?;
        return Ok(ManifestContent::Sha256(hasher.finalize().into()));
    }
    feed(0, END_LEN)?;
    feed(size - END_LEN, size)?;
    Ok(ManifestContent::Ends(hasher.finalize().into()))
}

/// Lines collected in any order, sorted and numbered at the end.
#[derive(Debug, Default)]
pub struct Manifest {
    lines: Vec<(u64, ManifestLine)>,
}

impl Manifest {
    /// Adds the line of a path; lines with equal `inode` are names of one inode.
    pub fn push(&mut self, inode: u64, line: ManifestLine) {
        self.lines.push((inode, line));
    }

    /// Returns all lines in order, with numbered link groups.
    pub fn finish(mut self) -> Vec<ManifestLine> {
        self.lines.sort_by(|a, b| a.1.path.cmp(&b.1.path));
        let mut names: HashMap<u64, u32> = HashMap::new();
        for (inode, _) in &self.lines {
            *names.entry(*inode).or_default() += 1;
        }
        let mut groups: HashMap<u64, u32> = HashMap::new();
        let mut lines = Vec::with_capacity(self.lines.len());
        for (inode, mut line) in self.lines {
            if names.get(&inode).is_some_and(|count| *count > 1) {
                let next = u32::try_from(groups.len() + 1).unwrap_or(u32::MAX);
                line.group = Some(*groups.entry(inode).or_insert(next));
            }
            lines.push(line);
        }
        lines
    }
}

/// Returns the manifest of a whole file system. Unreadable paths are passed to `problem` and left
/// out, or printed with `content=error` if only the content is unreadable.
pub fn manifest_of(
    fs: &dyn FileSystem,
    problem: &mut dyn FnMut(&[u8], &FsError),
) -> Vec<ManifestLine> {
    let mut manifest = Manifest::default();
    add_inode(fs, fs.root(), b"", &mut manifest, problem);
    let walked = walk::<std::convert::Infallible>(fs, fs.root(), &mut |visit| {
        match visit {
            Visit::Entry { path, entry } => {
                add_inode(fs, entry.ino, path, &mut manifest, problem);
            }
            Visit::Unreadable { path, error } => problem(path, error),
        }
        Ok(Descend::Yes)
    });
    match walked {
        Ok(()) => manifest.finish(),
        Err(never) => match never {},
    }
}

fn add_inode(
    fs: &dyn FileSystem,
    ino: Ino,
    path: &[u8],
    manifest: &mut Manifest,
    problem: &mut dyn FnMut(&[u8], &FsError),
) {
    let attr = match fs.attr(ino) {
        Ok(attr) => attr,
        Err(error) => return problem(path, &error),
    };
    let content = content_of(fs, ino, &attr).unwrap_or_else(|error| {
        problem(path, &error);
        ManifestContent::Unreadable
    });
    let xattrs = xattrs_of(fs, ino).unwrap_or_else(|error| {
        problem(path, &error);
        Vec::new()
    });
    manifest.push(ino, ManifestLine::from_attr(path.to_vec(), &attr, content, xattrs));
}

fn content_of(fs: &dyn FileSystem, ino: Ino, attr: &Attr) -> Result<ManifestContent, FsError> {
    match attr.kind {
        FileKind::Regular => hash_content(attr.size, |offset, buf| fs.read(ino, offset, buf)),
        FileKind::Symlink => Ok(ManifestContent::Target(fs.read_link(ino)?)),
        _ => Ok(ManifestContent::None),
    }
}

/// Names and values.
type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

fn xattrs_of(fs: &dyn FileSystem, ino: Ino) -> Result<Xattrs, FsError> {
    let names = fs.list_xattrs(ino)?;
    names.into_iter().map(|name| fs.xattr(ino, &name).map(|value| (name, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::attr::Timestamp;

    fn line(path: &[u8], kind: FileKind) -> ManifestLine {
        let attr = Attr {
            ino: 0,
            kind,
            permissions: 0o4755,
            nlink: 1,
            uid: 1000,
            gid: 4_294_967_294,
            size: 3,
            rdev: (4095, 1_048_575),
            atime: Timestamp::default(),
            mtime: Timestamp::from_seconds(-1),
            ctime: Timestamp::default(),
            flags: eraseblock_vfs::attr::InodeFlags::default(),
        };
        ManifestLine::from_attr(path.to_vec(), &attr, ManifestContent::None, Vec::new())
    }

    #[test]
    fn lines_print_canonically() {
        let mut file = line(b"a b\\\xff", FileKind::Regular);
        file.content = hash_content::<()>(3, |at, buf| {
            let rest = &b"abc"[usize::try_from(at).unwrap()..];
            buf.copy_from_slice(&rest[..buf.len()]);
            Ok(buf.len())
        })
        .unwrap();
        file.xattrs = vec![(b"user.b".to_vec(), vec![]), (b"user.a,:".to_vec(), vec![0, 255])];
        assert_eq!(
            file.to_string(),
            "a\\x20b\\x5c\\xff - 4755 1000:4294967294 nlink=1 mtime=-1 size=3 dev=- group=- \
             content=sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad \
             xattrs=user.a\\x2c\\x3a:00ff,user.b:"
        );
        let device = line(b"", FileKind::CharDevice);
        assert_eq!(
            device.to_string(),
            ". c 4755 1000:4294967294 nlink=1 mtime=-1 size=3 dev=4095:1048575 group=- content=- \
             xattrs=-"
        );
    }

    #[test]
    fn links_are_grouped_by_their_first_path() {
        let mut manifest = Manifest::default();
        for (inode, path) in [(7, "z"), (9, "b"), (7, "c"), (5, "a"), (9, "d"), (1, "")] {
            manifest.push(inode, line(path.as_bytes(), FileKind::Regular));
        }
        let groups: Vec<_> =
            manifest.finish().into_iter().map(|line| (line.path, line.group)).collect();
        let expected = [("", None), ("a", None), ("b", Some(1)), ("c", Some(2)), ("d", Some(1))];
        for (have, want) in groups.iter().zip(expected) {
            assert_eq!((have.0.as_slice(), have.1), (want.0.as_bytes(), want.1));
        }
        assert_eq!(groups[5], (b"z".to_vec(), Some(2)));
    }

    #[test]
    fn large_files_are_hashed_at_their_ends() {
        let mut reads = Vec::new();
        let content = hash_content::<()>(WHOLE_HASH_MAX + 1, |at, buf| {
            reads.push(at);
            Ok(buf.len())
        })
        .unwrap();
        assert!(matches!(content, ManifestContent::Ends(_)));
        assert_eq!(reads[0], 0);
        assert!(reads.iter().all(|at| *at < END_LEN || *at > WHOLE_HASH_MAX - END_LEN));
        let cut_short = hash_content::<()>(10, |_, _| Ok(0)).unwrap();
        assert!(matches!(cut_short, ManifestContent::Sha256(_)));
    }
}
