//! The read interface: content, holes and directories. Methods named `_loaded` run in parallel with
//! other readers; they return nothing if something must be loaded first.

use super::core::Core;
use super::data::Reading;
use super::dir::Entry;
use super::error::Step;
use super::inode::number;
use super::tnc::Zbranch;
use crate::cookies::{self, Listing};
use crate::fs::dir_entry;
use crate::tnc::OwnedDent;
use eraseblock_ubifs_format::constants::inode_flags;
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::{EntryKind, Key};
use eraseblock_vfs::{Attr, DirEntry, FileKind, FsError, FsErrorKind, Ino, rules};
use std::ops::ControlFlow;

/// Number of entries read from a directory before they are passed on.
const DIR_BATCH: usize = 256;

/// Returns the size of a regular file whose content can be read.
fn readable_size(attr: &Attr) -> Step<u64> {
    rules::check_regular(attr)?;
    if attr.flags.encrypted {
        let message = format!("inode {}: content is encrypted and there is no key", attr.ino);
        return Err(FsError::new(FsErrorKind::NoKey, message).into());
    }
    Ok(attr.size)
}

/// Returns how many of `most` bytes from `offset` lie within a size.
pub(super) fn len_within(size: u64, offset: u64, most: usize) -> usize {
    usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(most)
}

impl Core {
    /// Returns the inode for a name in a directory.
    pub(super) fn lookup_loaded(&self, dir: Ino, name: &[u8]) -> Step<Option<Ino>> {
        let dir = number(dir)?;
        if self.known(dir).is_none_or(|attr| attr.kind != FileKind::Directory) {
            return Ok(None);
        }
        let key = self.dent_key(dir, name);
        let (mut found, mut buf) = (None, Vec::new());
        let mut branches: Vec<Zbranch> = Vec::new();
        let is_loaded = self.tnc.scan_loaded(key, key, &mut |branch| {
            branches.push(*branch);
            true
        });
        for branch in branches.iter().filter(|_| is_loaded) {
            let dent = self.leaf(branch, &mut buf)?.dent()?;
            if dent.name == name {
                found = Some(Entry { ino: dent.ino, kind: dent.kind });
                break;
            }
        }
        // The parents of directories must be recorded.
        let is_noted = |entry: &Entry| {
            entry.kind != EntryKind::Directory || self.inodes.parent(entry.ino) == Some(dir)
        };
        Ok(found.filter(is_noted).map(|entry| entry.ino.into()))
    }

    /// Returns the number and the size of a regular file whose content can be read.
    pub(super) fn regular(&mut self, ino: Ino) -> Step<(u32, u64)> {
        let inode = self.visible(ino)?;
        Ok((inode.ino, readable_size(&inode.attr())?))
    }

    /// Reads a regular file: finds its nodes, which may load parts of the index, then reads and
    /// decompresses them.
    pub(super) fn read_alone(
        &mut self,
        ino: Ino,
        offset: u64,
        buf: &mut [u8],
        reading: &mut Reading,
    ) -> Step<usize> {
        let (number, size) = self.regular(ino)?;
        let len = len_within(size, offset, buf.len());
        self.plan_read(number, offset, len, reading)?;
        self.read_planned(number, offset, &mut buf[..len], reading)?;
        Ok(len)
    }

    /// Like [`Self::read_alone`], in parallel with other readers; returns nothing if something must
    /// be loaded first.
    pub(super) fn read_loaded(
        &self,
        ino: Ino,
        offset: u64,
        buf: &mut [u8],
        reading: &mut Reading,
    ) -> Step<Option<usize>> {
        let number = number(ino)?;
        let Some(attr) = self.known(number) else { return Ok(None) };
        let len = len_within(readable_size(&attr)?, offset, buf.len());
        if !self.plan_loaded(number, offset, len, reading) {
            return Ok(None);
        }
        self.read_planned(number, offset, &mut buf[..len], reading)?;
        Ok(Some(len))
    }

    pub(super) fn entries_behind(&mut self, dir: u32, cookie: u64) -> Step<Vec<DirEntry>> {
        let Some(start) = cookies::first_hash(cookie) else { return Ok(Vec::new()) };
        let is_encrypted = self.inode(dir)?.has(inode_flags::ENCRYPTED);
        let mut branches: Vec<Zbranch> = Vec::new();
        self.scan(Key::dent(dir, start), Key::dent(dir, VALUE_MASK), &mut |branch| {
            // All entries of a hash, because those of the first may all have been listed before.
            let value = branch.key.value();
            let has_enough = branches.len() >= DIR_BATCH && value != start;
            let goes_on = !has_enough || branches.last().is_some_and(|last| last.key == branch.key);
            if goes_on {
                branches.push(*branch);
            }
            goes_on
        })?;
        let (mut entries, mut buf) = (Vec::new(), Vec::new());
        let mut listing = Listing::behind(cookie);
        let mut give = |dent: OwnedDent, cookie| {
            entries.push(dir_entry(&dent, is_encrypted, cookie));
            ControlFlow::Continue(())
        };
        for branch in branches {
            let _ = listing.add(self.leaf(&branch, &mut buf)?.dent()?.into(), &mut give);
        }
        let _ = listing.flush(&mut give);
        Ok(entries)
    }

    /// Returns the first block from `first`, before the end of the file, that has content on flash
    /// or in memory (`wanted`), or that has none.
    pub(super) fn next_block(
        &mut self,
        ino: u32,
        first: u32,
        end: u32,
        wanted: bool,
    ) -> Step<Option<u32>> {
        let mut stored = Vec::new();
        let mut next = first;
        self.scan(Key::data(ino, first), Key::data(ino, VALUE_MASK), &mut |branch| {
            let block = branch.key.value();
            stored.push(block);
            let goes_on = !wanted && block == next;
            next = next.saturating_add(1);
            goes_on || (!wanted && stored.len() < 4096)
        })?;
        let mut dirty = self.pages.blocks(ino, first).peekable();
        if wanted {
            let block = stored.first().copied().into_iter().chain(dirty.peek().copied()).min();
            return Ok(block.filter(|block| *block < end));
        }
        let mut stored = stored.into_iter().peekable();
        let mut block = first;
        while block < end {
            while stored.next_if(|known| *known < block).is_some() {}
            while dirty.next_if(|known| *known < block).is_some() {}
            if stored.peek() != Some(&block) && dirty.peek() != Some(&block) {
                return Ok(Some(block));
            }
            block += 1;
        }
        Ok(None)
    }
}
