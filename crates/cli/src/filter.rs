//! A file system of which only some paths are seen.

use crate::failure::Failure;
use crate::find::find_path;
use eraseblock::raw::vfs::{Attr, DirEntry, FileSystem, FsError, Ino, StatFs};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Shows the paths that were chosen, everything below them, and the directories on the way there.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    inner: &'a dyn FileSystem,
    /// For each directory on the way: the names in it that are seen. Others show all.
    ways: BTreeMap<Ino, BTreeSet<Vec<u8>>>,
}

impl<'a> Filter<'a> {
    /// Chooses paths; none means all.
    pub(crate) fn new(inner: &'a dyn FileSystem, paths: &[&[u8]]) -> Result<Self, Failure> {
        let mut ways: BTreeMap<Ino, BTreeSet<Vec<u8>>> = BTreeMap::new();
        let mut whole = BTreeSet::new();
        for path in paths {
            let (ino, path) = find_path(inner, path)?;
            whole.insert(ino);
            let mut dir = inner.root();
            for name in path.split(|byte| *byte == b'/').filter(|n| !matches!(*n, b"" | b".")) {
                ways.entry(dir).or_default().insert(name.to_vec());
                dir = inner.lookup(dir, name)?;
            }
        }
        ways.retain(|dir, _| !whole.contains(dir));
        Ok(Self { inner, ways })
    }

    /// Returns whether a name in a directory is seen.
    fn shows(&self, dir: Ino, name: &[u8]) -> bool {
        self.ways.get(&dir).is_none_or(|names| names.contains(name))
    }
}

impl FileSystem for Filter<'_> {
    fn root(&self) -> Ino {
        self.inner.root()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.inner.lookup(dir, name)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.inner.attr(ino)
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        self.inner.read_dir(dir, cookie, &mut |entry| {
            if self.shows(dir, &entry.name) { sink(entry) } else { ControlFlow::Continue(()) }
        })
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.inner.read_link(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.inner.read(ino, offset, buf)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.inner.seek_data(ino, offset)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.inner.seek_hole(ino, offset)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.inner.list_xattrs(ino)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.inner.xattr(ino, name)
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        self.inner.stat_fs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock::raw::vfs::source::NodeId;
    use eraseblock::raw::vfs::walk::{Descend, Visit, walk};
    use eraseblock::raw::vfs::{SourceKind, SourceNode, SourceTree};
    use eraseblock::raw::vfs_testkit::MemoryFs;

    fn sample() -> MemoryFs {
        let dir = || SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
        let mut tree = SourceTree::new(dir());
        for name in ["a", "b"] {
            let top = tree.add(NodeId::ROOT, name.as_bytes(), dir()).unwrap();
            for name in ["x", "y"] {
                let below = tree.add(top, name.as_bytes(), dir()).unwrap();
                tree.add(below, b"fifo", SourceNode::new(SourceKind::Fifo, 0o644)).unwrap();
            }
        }
        MemoryFs::new(tree)
    }

    fn seen(paths: &[&[u8]]) -> Vec<String> {
        let fs = sample();
        let filter = Filter::new(&fs, paths).unwrap();
        let mut seen = Vec::new();
        walk::<FsError>(&filter, filter.root(), &mut |visit| {
            if let Visit::Entry { path, .. } = visit {
                seen.push(String::from_utf8_lossy(path).into_owned());
            }
            Ok(Descend::Yes)
        })
        .unwrap();
        seen
    }

    #[test]
    fn only_chosen_paths_are_seen() {
        assert_eq!(seen(&[]).len(), 10);
        assert_eq!(seen(&[b"a/x"]), ["a", "a/x", "a/x/fifo"]);
        assert_eq!(seen(&[b"/a/x/fifo", b"b/"]).len(), 8);
        assert_eq!(seen(&[b"a", b"a/x"]).len(), 5);
        assert!(Filter::new(&sample(), &[b"c"]).is_err());
    }
}
