//! The model file system: the required behaviour of every writable file system, in memory and as
//! simple as possible. Property tests compare real file systems with it, and the power-cut lab
//! keeps one copy for each moment of a workload.
//!
//! # Invariants
//! 1. A copy (`clone`) costs a few machine words; copies share what neither has changed.
//! 2. Everything is durable at once; returning to a copy models a cut.
//! 3. A block of 4 KiB that was never written, or was truncated away, is a hole; written zeros are
//!    not.
//! 4. An inode without names exists while it is open.

mod change;
mod content;
mod read;
mod state;

use eraseblock_vfs::attr::{Attr, FileKind, InodeFlags, Timestamp};
use eraseblock_vfs::fs::Ino;
use state::{Body, Inode, State};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use content::BLOCK;

/// Properties in which file systems differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a property of its own
pub struct ModelRules {
    /// Maximum name length in bytes.
    pub name_max: usize,
    /// Maximum length of a symbolic link's target in bytes.
    pub target_max: usize,
    /// Maximum length of an xattr value in bytes.
    pub xattr_value_max: usize,
    /// Maximum total length of the xattr names of an inode, each with its terminating NUL.
    pub xattr_list_max: usize,
    /// Maximum file size in bytes.
    pub size_max: u64,
    /// Maximum number of names of one inode.
    pub links_max: u32,
    /// Granularity of times in nanoseconds; 10^9 for whole seconds.
    pub granularity_ns: u32,
    /// Link count of an empty root directory.
    pub root_links: u32,
    /// Whether the link count of a directory includes its sub-directories; otherwise it is 1.
    pub directory_links: bool,
    /// The reported size of directories.
    pub directory_size: DirectorySize,
    /// The reported size of device nodes, except whiteouts left by a rename.
    pub device_size: u64,
    /// The highest major and minor number of a device node.
    pub device_max: u32,
    /// Whether flags of chattr are stored.
    pub flags: bool,
    /// Whether names can be exchanged and whiteouts created by a rename.
    pub rename_forms: bool,
    /// Whether files can be created without a name.
    pub unnamed: bool,
}

/// The reported size of directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectorySize {
    /// 160 bytes and, for each entry, 57 bytes and its name rounded up to 8
    /// (spec: ubifs-runtime 8.5).
    Entries,
    /// Always 0.
    Zero,
}

impl ModelRules {
    /// Rules of UBIFS with default options.
    pub const UBIFS: Self = Self {
        name_max: 255,
        target_max: 4095,
        xattr_value_max: 4096,
        xattr_list_max: 65_536,
        size_max: 2 << 40,
        links_max: u32::MAX,
        granularity_ns: 1_000_000_000,
        root_links: 2,
        directory_links: true,
        directory_size: DirectorySize::Entries,
        device_size: 4,
        device_max: u32::MAX,
        flags: true,
        rename_forms: true,
        unnamed: true,
    };

    /// Rules of JFFS2.
    pub const JFFS2: Self = Self {
        name_max: 254,
        target_max: 254,
        xattr_value_max: 65_535,
        size_max: 0xFFFF_FFFF,
        root_links: 3,
        directory_size: DirectorySize::Zero,
        device_size: 0,
        flags: false,
        rename_forms: false,
        unnamed: false,
        ..Self::UBIFS
    };

    /// Rules of YAFFS2.
    pub const YAFFS2: Self = Self {
        name_max: 254,
        target_max: 159,
        xattr_value_max: 65_535,
        size_max: ((1 << 28) - 1) * 1024,
        root_links: 1,
        directory_links: false,
        device_max: 0xFF,
        ..Self::JFFS2
    };
}

impl Default for ModelRules {
    fn default() -> Self {
        Self::UBIFS
    }
}

/// The model file system.
///
/// ```
/// use eraseblock_vfs::{Caller, FileSystem, NewInode, NewKind, Timestamp, WritableFileSystem};
/// use eraseblock_vfs_testkit::ModelFs;
///
/// let fs = ModelFs::default();
/// let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
/// let ino = fs.create(fs.root(), b"a", &inode, &Caller::owner(Timestamp::from_seconds(1))).unwrap();
/// let earlier = fs.clone();
/// fs.write(ino, 0, b"text", &Caller::owner(Timestamp::from_seconds(2))).unwrap();
/// assert_eq!(fs.attr(ino).unwrap().size, 4);
/// assert_eq!(earlier.attr(ino).unwrap().size, 0);
/// ```
#[derive(Debug)]
pub struct ModelFs {
    state: RwLock<Arc<State>>,
}

impl ModelFs {
    /// The root's inode number.
    pub const ROOT: Ino = 1;

    /// Creates an empty file system; its root is owned by 0:0, has mode 0o755 and was created at
    /// `now`.
    pub fn new(rules: ModelRules, now: Timestamp) -> Self {
        let attr = Attr {
            ino: Self::ROOT,
            kind: FileKind::Directory,
            permissions: 0o755,
            nlink: rules.root_links,
            uid: 0,
            gid: 0,
            size: 0,
            rdev: (0, 0),
            atime: now,
            mtime: now,
            ctime: now,
            flags: InodeFlags::default(),
        };
        let body = Body::Directory { entries: state::Entries::default(), parent: Self::ROOT };
        let root = Inode { attr, body, xattrs: BTreeMap::new(), opens: 0, never_named: false };
        let inodes = BTreeMap::from([(Self::ROOT, Arc::new(root))]);
        let state = State { rules, inodes, next_ino: Self::ROOT + 1, read_only: false };
        Self { state: RwLock::new(Arc::new(state)) }
    }

    /// Returns the rules.
    pub fn rules(&self) -> ModelRules {
        self.shared().rules
    }

    /// Returns the number of inodes, including those without names.
    pub fn inode_count(&self) -> usize {
        self.shared().inodes.len()
    }

    /// Sets all attributes of the root that creation leaves open, to start like another file
    /// system.
    pub fn set_root_attr(&self, attr: &Attr) {
        let mut state = self.exclusive();
        let state = Arc::make_mut(&mut *state);
        if let Some(root) = state.inodes.get_mut(&Self::ROOT) {
            let root = &mut Arc::make_mut(root).attr;
            *root = Attr { ino: root.ino, kind: root.kind, nlink: root.nlink, ..attr.clone() };
        }
    }

    /// Deletes every inode that only an open file keeps alive, as a power cut does.
    pub fn drop_open(&self) {
        Arc::make_mut(&mut *self.exclusive()).drop_open();
    }

    // A poisoned lock means a panic in another test thread; each change is a single assignment.
    fn shared(&self) -> RwLockReadGuard<'_, Arc<State>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Arc<State>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ModelFs {
    fn default() -> Self {
        Self::new(ModelRules::default(), Timestamp::default())
    }
}

impl Clone for ModelFs {
    fn clone(&self) -> Self {
        Self { state: RwLock::new(self.shared().clone()) }
    }
}

#[cfg(test)]
mod tests;
