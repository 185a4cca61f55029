//! Attributes of inodes and of whole file systems.

/// The kind of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device node.
    BlockDevice,
    /// A character device node.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    const TABLE: [(FileKind, u32, char); 7] = [
        (FileKind::Regular, 0o100_000, '-'),
        (FileKind::Directory, 0o040_000, 'd'),
        (FileKind::Symlink, 0o120_000, 'l'),
        (FileKind::BlockDevice, 0o060_000, 'b'),
        (FileKind::CharDevice, 0o020_000, 'c'),
        (FileKind::Fifo, 0o010_000, 'p'),
        (FileKind::Socket, 0o140_000, 's'),
    ];

    /// Returns the kind for the type bits of a POSIX mode, or `None` for an unknown type.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Self::TABLE.iter().find(|row| row.1 == mode & 0o170_000).map(|row| row.0)
    }

    /// Returns the type bits of a POSIX mode.
    pub fn mode_bits(self) -> u32 {
        self.row().1
    }

    /// Returns the letter that `ls -l` prints.
    pub fn letter(self) -> char {
        self.row().2
    }

    fn row(self) -> &'static (FileKind, u32, char) {
        Self::TABLE.iter().find(|row| row.0 == self).expect("the table names every kind")
    }
}

/// A point in time: seconds since 1970 (may be negative) and nanoseconds below 10^9.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds past `seconds`.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Creates a time of whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }
}

/// The attributes of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Inode number.
    pub ino: u64,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits, set-id bits and the sticky bit (0o7777).
    pub permissions: u32,
    /// Number of names that refer to it.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Device number as (major, minor); (0, 0) except for device nodes.
    pub rdev: (u32, u32),
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Flags of the attribute ioctl as the file system stores them, translated to [`InodeFlags`].
    pub flags: InodeFlags,
}

impl Attr {
    /// Returns type and permission bits in one POSIX mode.
    pub fn mode(&self) -> u32 {
        self.kind.mode_bits() | self.permissions
    }
}

/// Inode flags that flash file systems store (the letters are those of chattr).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // one per flag of the format
pub struct InodeFlags {
    /// `c`: new data is compressed.
    pub compress: bool,
    /// `S`: writes are synchronous.
    pub sync: bool,
    /// `i`: the inode cannot be changed.
    pub immutable: bool,
    /// `a`: data may only be appended.
    pub append: bool,
    /// `D`: directory changes are synchronous.
    pub dirsync: bool,
    /// Content or names are encrypted.
    pub encrypted: bool,
}

/// Sizes and counts of a file system, as statfs(2) reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatFs {
    /// Bytes in a block, the unit of the counts below.
    pub block_size: u32,
    /// Total number of blocks.
    pub blocks: u64,
    /// Number of free blocks.
    pub blocks_free: u64,
    /// Number of free blocks available to ordinary users.
    pub blocks_available: u64,
    /// Maximum name length in bytes.
    pub name_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_modes_match() {
        for (kind, bits, letter) in FileKind::TABLE {
            assert_eq!(FileKind::from_mode(bits | 0o644), Some(kind));
            assert_eq!((kind.mode_bits(), kind.letter()), (bits, letter));
        }
        assert_eq!(FileKind::from_mode(0o644), None);
    }
}
