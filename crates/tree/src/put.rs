//! Writes a source tree into a mounted file system, as `mkfs` does for an empty one.
//!
//! # Invariants
//! 1. Existing names are merged: directories keep their entries, anything else is replaced by the
//!    source; a directory is never replaced by another kind, nor the reverse.
//! 2. Blocks of zeros are not written, so holes stay holes.

use crate::error::TreeError;
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode, SourceTree};
use eraseblock_vfs::{
    Caller, FileKind, FsError, FsErrorKind, Ino, NewInode, NewKind, SetAttr, WritableFileSystem,
    XattrMode,
};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PutReport {
    /// Regular files.
    pub files: u64,
    /// Directories created or merged, the top included.
    pub directories: u64,
    /// Links, devices, fifos and sockets.
    pub others: u64,
    /// Further names of files that have several.
    pub hard_links: u64,
    /// Bytes of regular files, holes included.
    pub bytes: u64,
}

/// Size of a write in bytes, and the unit of holes.
const CHUNK: usize = 64 << 10;
const BLOCK: usize = 4096;

/// Writes the content of `source` into directory `dir`, which gets the attributes of its root.
/// `now` is the ctime of everything. `progress` is called with the number of bytes of each piece of
/// content that was written.
///
/// # Errors
///
/// Fails if the source cannot be read or the file system refuses an operation. What was written
/// before the error remains.
pub fn into_fs(
    fs: &dyn WritableFileSystem,
    dir: Ino,
    source: &SourceTree,
    by: &Caller,
    progress: &dyn Fn(u64),
) -> Result<PutReport, TreeError> {
    let report = PutReport::default();
    let mut put = Put { fs, source, by, made: HashMap::new(), report, progress };
    let mut finished = Vec::new();
    let mut waiting = vec![(NodeId::ROOT, dir)];
    while let Some((id, dir)) = waiting.pop() {
        put.report.directories += 1;
        for (name, child) in source.entries(id) {
            let ino = put.entry(dir, name, child)?;
            if source.node(child).file_kind() == FileKind::Directory {
                waiting.push((child, ino));
            }
        }
        finished.push((id, dir));
    }
    // Set the times of directories last, because entries change them.
    for (id, dir) in finished.into_iter().rev() {
        put.attributes(dir, source.node(id))?;
    }
    Ok(put.report)
}

/// Writes one node that is not a directory as `name` in directory `dir`, replacing an existing
/// entry.
///
/// # Errors
///
/// Fails if the source cannot be read or the file system refuses an operation.
pub fn node_into_fs(
    fs: &dyn WritableFileSystem,
    dir: Ino,
    name: &[u8],
    node: SourceNode,
    by: &Caller,
    progress: &dyn Fn(u64),
) -> Result<PutReport, TreeError> {
    let top = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut source = SourceTree::new(top);
    let id = source
        .add(NodeId::ROOT, name, node)
        .map_err(|error| TreeError::Fs(FsError::from_source(FsErrorKind::Invalid, error)))?;
    let report = PutReport::default();
    let mut put = Put { fs, source: &source, by, made: HashMap::new(), report, progress };
    put.entry(dir, name, id)?;
    Ok(put.report)
}

struct Put<'a> {
    fs: &'a dyn WritableFileSystem,
    source: &'a SourceTree,
    by: &'a Caller,
    /// Inodes that already have a name, for hard links.
    made: HashMap<NodeId, Ino>,
    report: PutReport,
    progress: &'a dyn Fn(u64),
}

impl Put<'_> {
    /// Creates one name; returns the inode it then refers to.
    fn entry(&mut self, dir: Ino, name: &[u8], id: NodeId) -> Result<Ino, TreeError> {
        let node = self.source.node(id);
        if let Some(ino) = self.existing(dir, name, node)? {
            return Ok(ino);
        }
        if let Some(ino) = self.made.get(&id) {
            self.fs.link(*ino, dir, name, self.by)?;
            self.report.hard_links += 1;
            return Ok(*ino);
        }
        let ino = self.fs.create(dir, name, &new_inode(node), self.by)?;
        match &node.kind {
            SourceKind::Directory(_) => return Ok(ino),
            SourceKind::Regular(_) => {
                self.content(ino, name, node)?;
                self.report.files += 1;
            }
            _ => self.report.others += 1,
        }
        self.made.insert(id, ino);
        self.attributes(ino, node)?;
        Ok(ino)
    }

    /// Returns an existing directory to merge with; removes anything else with that name.
    fn existing(&self, dir: Ino, name: &[u8], node: &SourceNode) -> Result<Option<Ino>, TreeError> {
        let ino = match self.fs.lookup(dir, name) {
            Ok(ino) => ino,
            Err(error) if error.kind() == FsErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_directory = self.fs.attr(ino)?.kind == FileKind::Directory;
        match (is_directory, node.file_kind() == FileKind::Directory) {
            (true, true) => Ok(Some(ino)),
            (false, false) => {
                self.fs.unlink(dir, name, self.by)?;
                Ok(None)
            }
            _ => {
                let name = String::from_utf8_lossy(name);
                let message = format!("`{name}` exists, and only one of the two is a directory");
                Err(FsError::new(FsErrorKind::Exists, message).into())
            }
        }
    }

    fn content(&mut self, ino: Ino, name: &[u8], node: &SourceNode) -> Result<(), TreeError> {
        let SourceKind::Regular(content) = &node.kind else { return Ok(()) };
        let failed =
            |error| TreeError::host("read", Path::new(&*String::from_utf8_lossy(name)), error);
        let mut reader = content.open().map_err(failed)?;
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        loop {
            let mut filled = 0;
            while filled < CHUNK {
                match reader.read(&mut chunk[filled..]) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            self.chunk(ino, at, &chunk[..filled])?;
            at += filled as u64;
            (self.progress)(filled as u64);
            if filled < CHUNK {
                break;
            }
        }
        self.report.bytes += at;
        if self.fs.attr(ino)?.size < at {
            let changes = SetAttr { size: Some(at), ..SetAttr::default() };
            self.fs.set_attr(ino, &changes, self.by)?;
        }
        Ok(())
    }

    /// Writes the runs of blocks that are not all zeros.
    fn chunk(&self, ino: Ino, at: u64, bytes: &[u8]) -> Result<(), FsError> {
        let is_data = |block: &&[u8]| block.iter().any(|byte| *byte != 0);
        let mut start = 0;
        while start < bytes.len() {
            let rest = &bytes[start..];
            let run: usize = rest.chunks(BLOCK).take_while(is_data).map(<[u8]>::len).sum();
            if run > 0 {
                self.fs.write(ino, at + start as u64, &rest[..run], self.by)?;
            }
            start += run.max(BLOCK);
        }
        Ok(())
    }

    /// Sets xattrs, mode, owner and times; mode and owner again for existing inodes.
    fn attributes(&self, ino: Ino, node: &SourceNode) -> Result<(), TreeError> {
        for (name, value) in &node.xattrs {
            self.fs.set_xattr(ino, name, value, XattrMode::Either, self.by)?;
        }
        let is_link = node.file_kind() == FileKind::Symlink;
        let changes = SetAttr {
            permissions: (!is_link).then_some(node.permissions),
            uid: Some(node.uid),
            gid: Some(node.gid),
            atime: Some(node.atime),
            mtime: Some(node.mtime),
            ..SetAttr::default()
        };
        Ok(self.fs.set_attr(ino, &changes, self.by)?)
    }
}

fn new_inode(node: &SourceNode) -> NewInode<'_> {
    let kind = match &node.kind {
        SourceKind::Directory(_) => NewKind::Directory,
        SourceKind::Regular(_) => NewKind::Regular,
        SourceKind::Symlink(target) => NewKind::Symlink(target),
        SourceKind::BlockDevice(major, minor) => NewKind::BlockDevice(*major, *minor),
        SourceKind::CharDevice(major, minor) => NewKind::CharDevice(*major, *minor),
        SourceKind::Fifo => NewKind::Fifo,
        SourceKind::Socket => NewKind::Socket,
    };
    NewInode { kind, permissions: node.permissions, uid: node.uid, gid: node.gid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::Timestamp;
    use eraseblock_vfs_testkit::{CompareOptions, MemoryFs, ModelFs, ModelRules, same_tree};
    use std::sync::Arc;

    fn dir(permissions: u32) -> SourceNode {
        SourceNode::new(SourceKind::Directory(BTreeMap::new()), permissions)
    }

    fn source() -> SourceTree {
        let mut tree = SourceTree::new(dir(0o750));
        let d = tree.add(NodeId::ROOT, b"d", dir(0o2755)).unwrap();
        let mut bytes = vec![0; 200_000];
        bytes[100_000] = 1;
        let mut file = SourceNode::new(SourceKind::Regular(Arc::new(bytes)), 0o4711);
        (file.uid, file.mtime) = (7, Timestamp::from_seconds(77));
        file.xattrs.push((b"user.a".to_vec(), b"1".to_vec()));
        let f = tree.add(d, b"f", file).unwrap();
        tree.link(NodeId::ROOT, b"g", f).unwrap();
        let link = SourceNode::new(SourceKind::Symlink(b"d/f".to_vec()), 0o777);
        tree.add(NodeId::ROOT, b"l", link).unwrap();
        tree.add(d, b"n", SourceNode::new(SourceKind::CharDevice(1, 3), 0o600)).unwrap();
        tree
    }

    #[test]
    fn a_tree_arrives_whole_once_and_twice() {
        let rules = ModelRules { device_size: 0, ..ModelRules::UBIFS };
        let fs = ModelFs::new(rules, Timestamp::default());
        let expected = MemoryFs::new(source());
        let options = CompareOptions { times: true, holes: true, ..CompareOptions::BASIC };
        for links in [1, 1] {
            let by = &Caller::owner(Timestamp::from_seconds(9));
            let report = into_fs(&fs, ModelFs::ROOT, &source(), by, &|_| {}).unwrap();
            assert_eq!((report.files, report.directories, report.others), (1, 2, 2));
            assert_eq!((report.hard_links, report.bytes), (links, 200_000));
            assert_eq!(same_tree(&fs, &expected, &options), []);
        }
    }

    #[test]
    fn directories_and_files_do_not_replace_each_other() {
        let fs = ModelFs::default();
        let by = &Caller::owner(Timestamp::default());
        fs.create(1, b"d", &new_inode(&SourceNode::new(SourceKind::Fifo, 0)), by).unwrap();
        assert!(into_fs(&fs, 1, &source(), by, &|_| {}).is_err());
        let fs = ModelFs::default();
        fs.create(1, b"g", &new_inode(&dir(0)), by).unwrap();
        assert!(into_fs(&fs, 1, &source(), by, &|_| {}).is_err());
    }
}
