//! A file system as extraction sees it: only the members that were chosen, until it is stopped.

use eraseblock::raw::vfs::{Attr, DirEntry, FileSystem, FsError, FsErrorKind, Ino, StatFs};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which entries the directories above the members show.
#[derive(Debug, Default)]
pub(crate) struct Members(HashMap<Ino, HashSet<Vec<u8>>>);

impl Members {
    /// Finds the members at these paths, whose symbolic links are not followed. Fails if one is missing.
    pub(crate) fn new(fs: &dyn FileSystem, paths: &[Vec<u8>]) -> eraseblock::Result<Self> {
        let (mut shown, mut complete) = (HashMap::<Ino, HashSet<Vec<u8>>>::new(), HashSet::new());
        for path in paths {
            let mut ino = fs.root();
            for name in path.split(|byte| *byte == b'/') {
                if matches!(name, b"" | b".") {
                    continue;
                }
                shown.entry(ino).or_default().insert(name.to_vec());
                ino = fs.lookup(ino, name).map_err(|error| {
                    eraseblock::Error::from(error).context(eraseblock::text::name(path))
                })?;
            }
            complete.insert(ino);
        }
        shown.retain(|ino, _| !complete.contains(ino));
        Ok(Self(shown))
    }
}

/// A file system with its other entries hidden. Once `stop` is set, everything fails.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) members: Option<Members>,
    pub(crate) stop: &'a AtomicBool,
}

impl View<'_> {
    fn going(&self) -> Result<&dyn FileSystem, FsError> {
        if self.stop.load(Ordering::Acquire) {
            return Err(FsError::new(FsErrorKind::Io, "interrupted"));
        }
        Ok(self.fs)
    }
}

impl FileSystem for View<'_> {
    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.going()?.lookup(dir, name)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.going()?.attr(ino)
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let shown = self.members.as_ref().and_then(|members| members.0.get(&dir));
        // Of a large directory, each entry may take a read.
        self.going()?.read_dir(dir, cookie, &mut |entry| match shown {
            _ if self.going().is_err() => ControlFlow::Break(()),
            Some(names) if !names.contains(&entry.name) => ControlFlow::Continue(()),
            _ => sink(entry),
        })?;
        self.going().map(drop)
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.going()?.read_link(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.going()?.read(ino, offset, buf)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.going()?.seek_data(ino, offset)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.going()?.seek_hole(ino, offset)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.going()?.list_xattrs(ino)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.going()?.xattr(ino, name)
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        self.going()?.stat_fs()
    }
}
