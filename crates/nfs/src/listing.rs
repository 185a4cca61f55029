//! Directories, a batch of entries at a time.

use crate::convert::{attributes, handle_status, status};
use crate::export::Handle;
use eraseblock_vfs::{DirEntry, Ino, Served};
use nfs3_server::vfs::{DirEntryPlus, FileHandleU64, NextResult, ReadDirPlusIterator};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Entries fetched at once.
const BATCH: usize = 64;

/// A position in a directory. Cookies are those of the file system.
#[derive(Debug)]
pub(crate) struct Listing {
    exported: Served,
    dir: Ino,
    cookie: u64,
    fetched: VecDeque<DirEntry>,
    at_end: bool,
}

impl Listing {
    pub(crate) fn new(exported: Served, dir: Ino, cookie: u64) -> Self {
        Self { exported, dir, cookie, fetched: VecDeque::new(), at_end: false }
    }

    fn fetch(&mut self) -> Result<(), eraseblock_vfs::FsError> {
        let mut fetched = VecDeque::new();
        self.exported.reading().read_dir(self.dir, self.cookie, &mut |entry| {
            fetched.push_back(entry);
            if fetched.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.at_end = fetched.len() < BATCH;
        self.cookie = fetched.back().map_or(self.cookie, |entry| entry.cookie);
        self.fetched = fetched;
        Ok(())
    }

    fn step(&mut self) -> NextResult<DirEntryPlus<Handle>> {
        if self.fetched.is_empty()
            && !self.at_end
            && let Err(error) = self.fetch()
        {
            return NextResult::Err(handle_status(&error));
        }
        let Some(entry) = self.fetched.pop_front() else { return NextResult::Eof };
        // An inode that cannot be read is listed anyway; a request for it gets the error.
        let attr = self.exported.reading().attr(entry.ino).map_err(|error| status(&error));
        NextResult::Ok(DirEntryPlus {
            fileid: entry.ino,
            name: entry.name.into(),
            cookie: entry.cookie,
            name_attributes: attr.as_ref().ok().map(attributes),
            name_handle: attr.is_ok().then(|| FileHandleU64::new(entry.ino)),
        })
    }
}

impl ReadDirPlusIterator<Handle> for Listing {
    async fn next(&mut self) -> NextResult<DirEntryPlus<Handle>> {
        self.step()
    }
}
