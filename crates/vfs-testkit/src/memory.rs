//! A file system in memory, created from a [`SourceTree`]: what the tree would look like once
//! mounted. Read-only; tests extract from it, and it defines the meaning of a source tree.
//!
//! # Invariants
//! 1. The inode number of a node is its [`NodeId::index`] plus 1; the root is 1.
//! 2. A directory cookie is the position of the entry in name order plus 1.
//! 3. A block of [`BLOCK`] zeros is a hole, as on a file system that stores no zeros.

use eraseblock_vfs::attr::{Attr, FileKind, StatFs};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::{DirEntry, FileSystem, Ino};
use eraseblock_vfs::source::{Content, NodeId, SourceKind, SourceNode, SourceTree};
use std::ops::ControlFlow;

/// Unit of holes and of the counts in [`StatFs`], in bytes.
pub const BLOCK: u32 = 4096;

/// A source tree as a file system.
#[derive(Debug)]
pub struct MemoryFs {
    tree: SourceTree,
    ids: Vec<NodeId>,
    nlinks: Vec<u32>,
}

impl MemoryFs {
    /// Mounts a tree.
    pub fn new(tree: SourceTree) -> Self {
        let ids: Vec<NodeId> = tree.nodes().map(|(id, _)| id).collect();
        let mut nlinks = tree.name_counts();
        for (id, node) in tree.nodes() {
            if let SourceKind::Directory(entries) = &node.kind {
                let is_dir =
                    |child: &&NodeId| tree.node(**child).file_kind() == FileKind::Directory;
                let children = entries.values().filter(is_dir).count();
                nlinks[id.index()] = 2 + u32::try_from(children).unwrap_or(u32::MAX - 2);
            }
        }
        Self { tree, ids, nlinks }
    }

    /// Returns the source tree.
    pub fn tree(&self) -> &SourceTree {
        &self.tree
    }

    fn id(&self, ino: Ino) -> Result<NodeId, FsError> {
        let index = usize::try_from(ino).ok().and_then(|ino| ino.checked_sub(1));
        index.and_then(|index| self.ids.get(index)).copied().ok_or_else(|| {
            FsError::new(FsErrorKind::NotFound, format!("inode {ino} does not exist"))
        })
    }

    fn node(&self, ino: Ino) -> Result<&SourceNode, FsError> {
        Ok(self.tree.node(self.id(ino)?))
    }

    fn directory(&self, ino: Ino) -> Result<NodeId, FsError> {
        let id = self.id(ino)?;
        if self.tree.node(id).file_kind() == FileKind::Directory {
            return Ok(id);
        }
        Err(FsError::new(FsErrorKind::NotADirectory, format!("inode {ino} is not a directory")))
    }

    fn content(&self, ino: Ino) -> Result<&dyn Content, FsError> {
        match &self.node(ino)?.kind {
            SourceKind::Regular(content) => Ok(content.as_ref()),
            SourceKind::Directory(_) => {
                Err(FsError::new(FsErrorKind::IsADirectory, format!("inode {ino} is a directory")))
            }
            _ => Err(FsError::new(
                FsErrorKind::Invalid,
                format!("inode {ino} is not a regular file"),
            )),
        }
    }

    /// Returns the start of the first such block at or after `offset`. Returns `offset` itself if
    /// it lies in such a block, and `None` if the file ends before one.
    fn seek(&self, ino: Ino, offset: u64, wanted: Stretch) -> Result<Option<u64>, FsError> {
        let content = self.content(ino)?;
        let is_hole = wanted == Stretch::Hole;
        let mut block = [0; BLOCK as usize];
        let mut at = offset - offset % u64::from(BLOCK);
        while at < content.size() {
            let count = content.read_at(at, &mut block).map_err(read_failed)?;
            if count == 0 {
                break;
            }
            if block[..count].iter().all(|byte| *byte == 0) == is_hole {
                return Ok(Some(at.max(offset)));
            }
            at += u64::from(BLOCK);
        }
        Ok(None)
    }
}

/// What is looked for in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stretch {
    Data,
    Hole,
}

fn read_failed(error: std::io::Error) -> FsError {
    FsError::from_source(FsErrorKind::Io, error)
}

fn ino_of(id: NodeId) -> Ino {
    id.index() as u64 + 1
}

impl FileSystem for MemoryFs {
    fn root(&self) -> Ino {
        ino_of(NodeId::ROOT)
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let id = self.directory(dir)?;
        self.tree.lookup(id, name).map(ino_of).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            FsError::new(FsErrorKind::NotFound, format!("`{name}` does not exist"))
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let id = self.id(ino)?;
        let node = self.tree.node(id);
        let size = match &node.kind {
            SourceKind::Regular(content) => content.size(),
            SourceKind::Symlink(target) => target.len() as u64,
            SourceKind::Directory(entries) => entries.len() as u64,
            _ => 0,
        };
        let rdev = match node.kind {
            SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor) => {
                (major, minor)
            }
            _ => (0, 0),
        };
        Ok(Attr {
            ino,
            kind: node.file_kind(),
            permissions: node.permissions,
            nlink: self.nlinks[id.index()],
            uid: node.uid,
            gid: node.gid,
            size,
            rdev,
            atime: node.atime,
            mtime: node.mtime,
            ctime: node.ctime,
            flags: node.flags,
        })
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let id = self.directory(dir)?;
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        for ((name, child), cookie) in self.tree.entries(id).zip(1..).skip(skip) {
            let kind = self.tree.node(child).file_kind();
            let entry = DirEntry { name: name.to_vec(), ino: ino_of(child), kind, cookie };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match &self.node(ino)?.kind {
            SourceKind::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::new(
                FsErrorKind::Invalid,
                format!("inode {ino} is not a symbolic link"),
            )),
        }
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.content(ino)?.read_at(offset, buf).map_err(read_failed)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.seek(ino, offset, Stretch::Data)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let size = self.content(ino)?.size();
        Ok(self.seek(ino, offset, Stretch::Hole)?.unwrap_or(size.max(offset)))
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(self.node(ino)?.xattrs.iter().map(|(name, _)| name.clone()).collect())
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let xattrs = &self.node(ino)?.xattrs;
        xattrs.iter().find(|xattr| xattr.0 == name).map(|xattr| xattr.1.clone()).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            FsError::new(FsErrorKind::NoAttribute, format!("inode {ino} has no attribute `{name}`"))
        })
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let blocks = self.tree.nodes().map(|(_, node)| match &node.kind {
            SourceKind::Regular(content) => content.size().div_ceil(u64::from(BLOCK)),
            _ => 0,
        });
        Ok(StatFs {
            block_size: BLOCK,
            blocks: blocks.fold(0, u64::saturating_add),
            blocks_free: 0,
            blocks_available: 0,
            name_max: 255,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn mounted() -> MemoryFs {
        let dir = || SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
        let mut tree = SourceTree::new(dir());
        let d = tree.add(NodeId::ROOT, b"d", dir()).unwrap();
        let mut bytes = vec![0; 3 * 4096 + 5];
        bytes[4096 + 7] = 1;
        let mut file = SourceNode::new(SourceKind::Regular(Arc::new(bytes)), 0o640);
        file.xattrs.push((b"user.a".to_vec(), b"1".to_vec()));
        let f = tree.add(d, b"f", file).unwrap();
        tree.link(NodeId::ROOT, b"g", f).unwrap();
        tree.add(NodeId::ROOT, b"l", SourceNode::new(SourceKind::Symlink(b"d/f".to_vec()), 0o777))
            .unwrap();
        tree.add(NodeId::ROOT, b"n", SourceNode::new(SourceKind::CharDevice(1, 3), 0o666)).unwrap();
        MemoryFs::new(tree)
    }

    #[test]
    fn a_tree_is_a_file_system() {
        let fs = mounted();
        let names: Vec<_> = fs.entries(1).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [b"d", b"g", b"l", b"n"]);
        let f = fs.resolve(b"/d/./f").unwrap();
        assert_eq!(fs.resolve(b"g").unwrap(), f);
        assert_eq!((fs.attr(f).unwrap().nlink, fs.attr(1).unwrap().nlink), (2, 3));
        assert_eq!(fs.read_link(fs.resolve(b"l").unwrap()).unwrap(), b"d/f");
        assert_eq!(fs.attr(fs.resolve(b"n").unwrap()).unwrap().rdev, (1, 3));
        assert_eq!(fs.list_xattrs(f).unwrap(), [b"user.a"]);
        assert_eq!(fs.xattr(f, b"user.a").unwrap(), b"1");
        let mut seen = Vec::new();
        fs.read_dir(1, 2, &mut |e| {
            seen.push(e.name);
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(seen, [b"l"]);
    }

    #[test]
    fn zero_blocks_are_holes() {
        let fs = mounted();
        let f = fs.resolve(b"g").unwrap();
        assert_eq!(fs.seek_data(f, 0).unwrap(), Some(4096));
        assert_eq!(fs.seek_data(f, 5000).unwrap(), Some(5000));
        assert_eq!(fs.seek_hole(f, 4096).unwrap(), 8192);
        assert_eq!(fs.seek_data(f, 8192).unwrap(), None);
        assert_eq!(fs.seek_hole(f, 99_999).unwrap(), 99_999);
        let mut buf = [9; 8];
        assert_eq!(fs.read(f, 3 * 4096, &mut buf).unwrap(), 5);
    }

    #[test]
    fn wrong_questions_are_refused_by_kind() {
        let fs = mounted();
        let kind = |result: Result<Vec<u8>, FsError>| result.unwrap_err().kind();
        let g = fs.resolve(b"g").unwrap();
        assert_eq!(kind(fs.read_link(1)), FsErrorKind::Invalid);
        assert_eq!(kind(fs.xattr(1, b"user.x")), FsErrorKind::NoAttribute);
        assert_eq!(fs.lookup(1, b"zz").unwrap_err().kind(), FsErrorKind::NotFound);
        assert_eq!(fs.lookup(g, b"zz").unwrap_err().kind(), FsErrorKind::NotADirectory);
        assert_eq!(fs.read(1, 0, &mut [0]).unwrap_err().kind(), FsErrorKind::IsADirectory);
        for ino in [0, 99, u64::MAX] {
            assert_eq!(fs.attr(ino).unwrap_err().kind(), FsErrorKind::NotFound);
        }
    }
}
