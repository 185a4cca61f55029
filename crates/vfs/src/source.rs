//! Source trees for builders: trees of named inodes with lazily opened contents. The `tree` crate
//! creates them from a directory, a tar or cpio stream or a device table; `mkfs` builds images from
//! them.
//!
//! # Invariants
//! 1. Node 0 is the root and a directory.
//! 2. Every other directory is named exactly once; other nodes at least once (hard links).
//! 3. Names in a directory are distinct, non-empty, at most 255 bytes, without `/` and NUL, and
//!    neither `.` nor `..`; entries are ordered by the bytes of their names, so that equal sources
//!    give equal trees.

use crate::attr::{FileKind, InodeFlags, Timestamp};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fmt::Debug;
use std::io::{self, Read};
use std::sync::Arc;

/// The content of a regular file, opened when it is needed.
pub trait Content: Send + Sync + Debug {
    /// Returns the length in bytes.
    fn size(&self) -> u64;

    /// Opens the content for one pass from the start. If it delivers fewer or more bytes than
    /// [`Content::size`], it was changed in the meantime; the reader must report this.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>>;

    /// Fills `buf` from `offset`; short only at the end. The default reads everything before
    /// `offset`; contents with random access override it.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut reader = self.open()?;
        if io::copy(&mut reader.by_ref().take(offset), &mut io::sink())? < offset {
            return Ok(0);
        }
        let mut filled = 0;
        while filled < buf.len() {
            match reader.read(&mut buf[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Content held in memory.
impl Content for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(self.as_slice()))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let rest = &self[start..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Fills `out` with the next bytes of a content. Returns `false` if the content was changed since
/// its size was determined: if it has fewer bytes, or more although `is_last` marks these as its
/// last.
///
/// # Errors
///
/// Fails with the error of the reader.
pub fn read_part(reader: &mut dyn Read, out: &mut [u8], is_last: bool) -> io::Result<bool> {
    match reader.read_exact(out) {
        Ok(()) if is_last => reader.read(&mut [0]).map(|extra| extra == 0),
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Number of a node within its [`SourceTree`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: Self = Self(0);

    /// Returns the number, for indexing a table with one entry per node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a source node, with the data specific to the kind.
#[derive(Clone, Debug)]
pub enum SourceKind {
    /// A directory and its entries, in the order of their names' bytes.
    Directory(BTreeMap<Vec<u8>, NodeId>),
    /// A regular file.
    Regular(Arc<dyn Content>),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A block device with its (major, minor).
    BlockDevice(u32, u32),
    /// A character device with its (major, minor).
    CharDevice(u32, u32),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// One inode of a source tree.
#[derive(Clone, Debug)]
pub struct SourceNode {
    /// Its kind.
    pub kind: SourceKind,
    /// Permission bits, set-id bits, sticky bit (0o7777).
    pub permissions: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Flags of the attribute ioctl.
    pub flags: InodeFlags,
    /// Xattrs with full names, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SourceNode {
    /// Creates a node of the given kind and permissions, owned by root, all times 1970, no xattrs.
    pub fn new(kind: SourceKind, permissions: u32) -> Self {
        Self {
            kind,
            permissions,
            uid: 0,
            gid: 0,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            flags: InodeFlags::default(),
            xattrs: Vec::new(),
        }
    }

    /// Returns the kind without its data.
    pub fn file_kind(&self) -> FileKind {
        match self.kind {
            SourceKind::Directory(_) => FileKind::Directory,
            SourceKind::Regular(_) => FileKind::Regular,
            SourceKind::Symlink(_) => FileKind::Symlink,
            SourceKind::BlockDevice(..) => FileKind::BlockDevice,
            SourceKind::CharDevice(..) => FileKind::CharDevice,
            SourceKind::Fifo => FileKind::Fifo,
            SourceKind::Socket => FileKind::Socket,
        }
    }
}

/// An entry that cannot be part of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// The name breaks invariant 3.
    Name {
        /// The name.
        name: Vec<u8>,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// The name already exists.
    Duplicate {
        /// The name.
        name: Vec<u8>,
    },
    /// The parent is not a directory, or a directory would get a second name.
    Structure {
        /// The name.
        name: Vec<u8>,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// More nodes than inode numbers.
    TooMany,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, reason } => {
                write!(f, "name `{}` is not allowed: {reason}", String::from_utf8_lossy(name))
            }
            Self::Duplicate { name } => {
                write!(f, "name `{}` occurs twice in one directory", String::from_utf8_lossy(name))
            }
            Self::Structure { name, reason } => {
                write!(f, "name `{}`: {reason}", String::from_utf8_lossy(name))
            }
            Self::TooMany => write!(f, "more than {} files", u32::MAX),
        }
    }
}

impl Error for SourceError {}

/// A source tree, ready to be built into a file system.
#[derive(Clone, Debug)]
pub struct SourceTree {
    nodes: Vec<SourceNode>,
}

impl SourceTree {
    /// Creates a tree with only a root directory. `root` must be a directory without entries.
    pub fn new(root: SourceNode) -> Self {
        assert!(
            matches!(&root.kind, SourceKind::Directory(entries) if entries.is_empty()),
            "the root of a tree is an empty directory"
        );
        Self { nodes: vec![root] }
    }

    /// Returns the node with this number.
    pub fn node(&self, id: NodeId) -> &SourceNode {
        &self.nodes[id.index()]
    }

    /// Returns the node with this number, for changing its attributes (not its entries).
    pub fn node_mut(&mut self, id: NodeId) -> &mut SourceNode {
        &mut self.nodes[id.index()]
    }

    /// Returns all nodes with their numbers, in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &SourceNode)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the bytes of all file contents.
    pub fn content_bytes(&self) -> u64 {
        let size = |node: &SourceNode| match &node.kind {
            SourceKind::Regular(content) => content.size(),
            _ => 0,
        };
        self.nodes.iter().map(size).sum()
    }

    /// Returns false: a tree has a root.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the entries of a directory in name order; none for any other node.
    pub fn entries(&self, dir: NodeId) -> impl ExactSizeIterator<Item = (&[u8], NodeId)> {
        static NONE: BTreeMap<Vec<u8>, NodeId> = BTreeMap::new();
        let entries = match &self.node(dir).kind {
            SourceKind::Directory(entries) => entries,
            _ => &NONE,
        };
        entries.iter().map(|(name, id)| (name.as_slice(), *id))
    }

    /// Returns the node that `name` refers to in `dir`.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(dir).kind {
            SourceKind::Directory(entries) => entries.get(name).copied(),
            _ => None,
        }
    }

    /// Adds a node under a name. A directory is added without entries.
    ///
    /// # Errors
    ///
    /// Fails if the name breaks invariant 3 or already exists, or if `dir` is not a directory.
    pub fn add(
        &mut self,
        dir: NodeId,
        name: &[u8],
        node: SourceNode,
    ) -> Result<NodeId, SourceError> {
        let id = NodeId(u32::try_from(self.nodes.len()).map_err(|_| SourceError::TooMany)?);
        self.insert_name(dir, name, id)?;
        self.nodes.push(node);
        Ok(id)
    }

    /// Adds one more name (a hard link) for a node that is not a directory.
    ///
    /// # Errors
    ///
    /// Fails if the name breaks invariant 3 or already exists, or if `dir` is not or `target` is a
    /// directory.
    pub fn link(&mut self, dir: NodeId, name: &[u8], target: NodeId) -> Result<(), SourceError> {
        if matches!(self.node(target).kind, SourceKind::Directory(_)) {
            let reason = "a directory cannot have a second name";
            return Err(SourceError::Structure { name: name.to_vec(), reason });
        }
        self.insert_name(dir, name, target)
    }

    /// Returns the number of names of each node, by [`NodeId::index`]; 0 for the root.
    pub fn name_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes.len()];
        for node in &self.nodes {
            if let SourceKind::Directory(entries) = &node.kind {
                for id in entries.values() {
                    counts[id.index()] += 1;
                }
            }
        }
        counts
    }

    fn insert_name(&mut self, dir: NodeId, name: &[u8], id: NodeId) -> Result<(), SourceError> {
        check_name(name)?;
        let SourceKind::Directory(entries) = &mut self.nodes[dir.index()].kind else {
            let reason = "its parent is not a directory";
            return Err(SourceError::Structure { name: name.to_vec(), reason });
        };
        if entries.contains_key(name) {
            return Err(SourceError::Duplicate { name: name.to_vec() });
        }
        entries.insert(name.to_vec(), id);
        Ok(())
    }
}

/// Checks invariant 3 for one name.
///
/// # Errors
///
/// Fails if the name breaks invariant 3.
pub fn check_name(name: &[u8]) -> Result<(), SourceError> {
    let reason = match name {
        b"" => "it is empty",
        b"." | b".." => "it names a directory itself",
        _ if name.len() > 255 => "it is longer than 255 bytes",
        _ if name.contains(&b'/') => "it contains a slash",
        _ if name.contains(&0) => "it contains a NUL byte",
        _ => return Ok(()),
    };
    Err(SourceError::Name { name: name.to_vec(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> SourceNode {
        SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755)
    }

    #[test]
    fn names_are_sorted_and_checked() {
        let mut tree = SourceTree::new(dir());
        let b = tree.add(NodeId::ROOT, b"b", dir()).unwrap();
        tree.add(NodeId::ROOT, b"a", SourceNode::new(SourceKind::Fifo, 0o644)).unwrap();
        let names: Vec<_> = tree.entries(NodeId::ROOT).map(|e| e.0.to_vec()).collect();
        assert_eq!(names, [b"a", b"b"]);
        assert_eq!(tree.lookup(NodeId::ROOT, b"b"), Some(b));
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(matches!(tree.add(b, name, dir()), Err(SourceError::Name { .. })));
        }
        assert!(matches!(tree.add(NodeId::ROOT, b"a", dir()), Err(SourceError::Duplicate { .. })));
        assert_eq!(tree.len(), 3);
    }

    #[test]
    fn contents_are_read_in_the_middle() {
        #[derive(Debug)]
        struct Plain(Vec<u8>);
        impl Content for Plain {
            fn size(&self) -> u64 {
                self.0.size()
            }
            fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
                self.0.open()
            }
        }
        let bytes: Vec<u8> = (0..=255).collect();
        for content in [&bytes as &dyn Content, &Plain(bytes.clone())] {
            let mut buf = [0; 10];
            assert_eq!(content.read_at(250, &mut buf).unwrap(), 6);
            assert_eq!(buf[..6], bytes[250..]);
            assert_eq!(content.read_at(300, &mut buf).unwrap(), 0);
            assert_eq!(content.read_at(u64::MAX, &mut buf).unwrap(), 0);
        }
    }

    #[test]
    fn directories_have_one_name_and_files_many() {
        let mut tree = SourceTree::new(dir());
        let d = tree.add(NodeId::ROOT, b"d", dir()).unwrap();
        let file = SourceNode::new(SourceKind::Regular(Arc::new(b"x".to_vec())), 0o644);
        let f = tree.add(d, b"f", file).unwrap();
        tree.link(NodeId::ROOT, b"g", f).unwrap();
        assert!(matches!(tree.link(f, b"h", f), Err(SourceError::Structure { .. })));
        assert!(matches!(tree.link(NodeId::ROOT, b"e", d), Err(SourceError::Structure { .. })));
        assert_eq!(tree.name_counts(), [0, 1, 2]);
    }
}
