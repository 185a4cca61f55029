//! Entries of directories, and all that is known of one file.

use crate::text;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{Attr, DirEntry, FileKind, FileSystem, FsError, Ino, Timestamp};
use serde::Serialize;

/// One entry; what could not be read is absent.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The name, with bytes that are not text as escapes.
    pub name: String,
    /// Inode number.
    pub ino: u64,
    /// `regular`, `directory`, `symlink`, ...
    pub kind: Option<&'static str>,
    /// Permission bits in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Names that refer to the inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nlink: Option<u32>,
    /// Owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Last change of content, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<i64>,
    /// Device number of a device node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<(u32, u32)>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Why the inode could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it is; `None` if that could not be read.
    #[serde(skip)]
    pub file_kind: Option<FileKind>,
    /// Permission bits.
    #[serde(skip)]
    pub mode: u32,
}

impl Entry {
    /// Returns what a directory says by itself, without reading the inode.
    pub fn brief(entry: &DirEntry) -> Self {
        Self::new(&entry.name, entry.ino, Some(entry.kind))
    }

    /// Returns an inode with its attributes.
    pub fn of(fs: &dyn FileSystem, ino: Ino, name: &[u8]) -> Self {
        match fs.attr(ino) {
            Ok(attr) => Self::with_attributes(fs, name, &attr),
            Err(error) => Self { error: Some(error.to_string()), ..Self::new(name, ino, None) },
        }
    }

    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_kind == Some(FileKind::Directory)
    }

    fn new(name: &[u8], ino: Ino, kind: Option<FileKind>) -> Self {
        Self {
            name: text::name(name),
            ino,
            kind: kind.map(kind_word),
            permissions: None,
            nlink: None,
            uid: None,
            gid: None,
            size: None,
            mtime: None,
            device: None,
            target: None,
            error: None,
            file_kind: kind,
            mode: 0,
        }
    }

    fn with_attributes(fs: &dyn FileSystem, name: &[u8], attr: &Attr) -> Self {
        let is_device = matches!(attr.kind, FileKind::BlockDevice | FileKind::CharDevice);
        let mut entry = Self {
            permissions: Some(format!("{:04o}", attr.permissions)),
            nlink: Some(attr.nlink),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            size: Some(attr.size),
            mtime: Some(attr.mtime.seconds),
            device: is_device.then_some(attr.rdev),
            mode: attr.permissions,
            ..Self::new(name, attr.ino, Some(attr.kind))
        };
        if attr.kind == FileKind::Symlink {
            match fs.read_link(attr.ino) {
                Ok(target) => entry.target = Some(text::name(&target)),
                Err(error) => entry.error = Some(error.to_string()),
            }
        }
        entry
    }
}

/// Returns the word for a kind.
pub fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::BlockDevice => "block-device",
        FileKind::CharDevice => "char-device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// Everything that an image says about one file: what `stat` prints.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// Its path, with bytes that are not text as escapes.
    pub path: String,
    /// Inode number.
    pub ino: u64,
    /// `regular`, `directory`, `symlink`, ...
    pub kind: &'static str,
    /// Permission bits in octal.
    pub permissions: String,
    /// Names that refer to the inode.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Device number of a device node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<(u32, u32)>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Last access.
    pub atime: Moment,
    /// Last change of content.
    pub mtime: Moment,
    /// Last change of the inode.
    pub ctime: Moment,
    /// Flags, by name.
    pub flags: Vec<&'static str>,
    /// Extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
    /// Stretches that are not holes, as (first byte, length).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<(u64, u64)>>,
}

/// A moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: u32,
}

/// An extended attribute.
#[derive(Debug, Serialize)]
pub struct Xattr {
    /// Its name.
    pub name: String,
    /// The value as hexadecimal digits.
    pub value: String,
    /// The value.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// Stretches of data listed at most.
const MOST_STRETCHES: usize = 1000;

impl FileReport {
    /// Reads an inode; `path` is shown as its path.
    ///
    /// # Errors
    ///
    /// Fails if the inode, its link or an attribute cannot be read.
    pub fn of(fs: &dyn FileSystem, ino: Ino, path: String) -> Result<Self, FsError> {
        let attr = fs.attr(ino)?;
        let is_device = matches!(attr.kind, FileKind::BlockDevice | FileKind::CharDevice);
        let is_link = attr.kind == FileKind::Symlink;
        let target = if is_link { Some(text::name(&fs.read_link(ino)?)) } else { None };
        let data = match attr.kind {
            FileKind::Regular => Some(stretches(fs, &attr)?),
            _ => None,
        };
        Ok(Self {
            path,
            ino,
            kind: kind_word(attr.kind),
            permissions: format!("{:04o}", attr.permissions),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            device: is_device.then_some(attr.rdev),
            target,
            atime: attr.atime.into(),
            mtime: attr.mtime.into(),
            ctime: attr.ctime.into(),
            flags: flag_words(attr.flags),
            xattrs: xattrs(fs, ino)?,
            data,
        })
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }
}

fn flag_words(flags: InodeFlags) -> Vec<&'static str> {
    let table = [
        (flags.compress, "compress"),
        (flags.sync, "sync"),
        (flags.immutable, "immutable"),
        (flags.append, "append"),
        (flags.dirsync, "dirsync"),
        (flags.encrypted, "encrypted"),
    ];
    table.iter().filter(|row| row.0).map(|row| row.1).collect()
}

fn xattrs(fs: &dyn FileSystem, ino: Ino) -> Result<Vec<Xattr>, FsError> {
    let mut names = fs.list_xattrs(ino)?;
    names.sort();
    let mut xattrs = Vec::with_capacity(names.len());
    for name in names {
        let bytes = fs.xattr(ino, &name)?;
        let value = text::hex(&bytes);
        xattrs.push(Xattr { name: text::name(&name), value, bytes });
    }
    Ok(xattrs)
}

fn stretches(fs: &dyn FileSystem, attr: &Attr) -> Result<Vec<(u64, u64)>, FsError> {
    let mut found = Vec::new();
    let mut offset = 0;
    while let Some(start) = fs.seek_data(attr.ino, offset)? {
        let end = fs.seek_hole(attr.ino, start)?.min(attr.size);
        if end <= start || found.len() == MOST_STRETCHES {
            break;
        }
        found.push((start, end - start));
        offset = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_words() {
        let flags = InodeFlags { compress: true, immutable: true, ..InodeFlags::default() };
        assert_eq!(flag_words(flags), ["compress", "immutable"]);
    }
}
