//! Reads the content of loaded files (spec: jffs2 8).
//!
//! Layer: above `tree`. Reads only.
//!
//! # Invariants
//! 1. Lost content is an error, never zeros.

use super::failure::damaged;
use super::inode::Source;
use super::store::Data;
use super::tree::Tree;
use crate::damage::{Range, unread};
use eraseblock_vfs::FsError;

impl Tree {
    /// Fills `buf` with the content of a loaded file from `offset`; holes, and everything after the
    /// end, are zeros.
    pub(crate) fn read_content(
        &self,
        ino: u32,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<(), FsError> {
        buf.fill(0);
        let end = u64::from(offset) + buf.len() as u64;
        // Consecutive fragments often come from one node: read it once.
        let mut last: Option<(u32, Data)> = None;
        for (start, fragment) in self.inode(ino).fragments.from(offset) {
            if u64::from(start) >= end {
                break;
            }
            let place = match fragment.source {
                None | Some(Source::Hole(_)) => continue,
                Some(Source::Data(place)) => place,
                Some(lost) => return Err(self.lost(ino, Range { start, end: fragment.end }, lost)),
            };
            let data = match last.take() {
                Some((of, data)) if of == place => data,
                _ => self.store.data(place)?,
            };
            let first = start.max(offset);
            let until = u64::from(fragment.end).min(end);
            let count = (until - u64::from(first)) as usize;
            let part = first
                .checked_sub(data.offset)
                .and_then(|skip| data.bytes.get(skip as usize..)?.get(..count));
            let part = part.ok_or_else(|| damaged(ino, "a node is shorter than it was"))?;
            buf[(first - offset) as usize..][..count].copy_from_slice(part);
            last = Some((place, data));
        }
        Ok(())
    }

    /// Returns why a range of a file is lost.
    fn lost(&self, ino: u32, range: Range, source: Source) -> FsError {
        match source.place().map(|place| self.store.payload(place)) {
            None => unread(ino.into(), range, &self.remains.unassigned),
            Some(Err(error)) => unread(ino.into(), range, &error),
            Some(Ok(_)) => unread(ino.into(), range, &"the node was damaged when it was checked"),
        }
    }
}
