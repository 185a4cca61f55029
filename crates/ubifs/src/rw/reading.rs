//! The read interface: content, holes and directories (layer 14). Methods named `_loaded` run in
//! parallel with other readers; they return nothing if something must be loaded first.
//!
//! # Invariants
//! 1. Nothing on flash changes, and in memory only what is loaded on demand.

use super::bulk::{BLOCK, Reading, copy_block, keys_of};
use super::core::Core;
use super::dir::Entry;
use super::error::Step;
use super::inode::ino_number;
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

/// What is searched for in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seek {
    Data,
    Hole,
}

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
        let dir = ino_number(dir)?;
        if self.known(dir).is_none_or(|attr| attr.kind != FileKind::Directory) {
            return Ok(None);
        }
        let key = self.dent_key(dir, name);
        let (mut found, mut buf) = (None, Vec::new());
        let mut branches: Vec<Zbranch> = Vec::new();
        let is_loaded = self.store.nodes.tnc.scan_loaded(key, key, &mut |branch| {
            branches.push(*branch);
            true
        });
        if !is_loaded {
            return Ok(None);
        }
        for branch in &branches {
            let dent = self.store.nodes.leaf(branch, &mut buf)?.dent()?;
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

    /// Performs the first half of a read: finds the nodes of `len` bytes from `offset` on, which
    /// may load parts of the index. The result is valid until the next change.
    pub(super) fn plan_read(
        &mut self,
        ino: u32,
        offset: u64,
        len: usize,
        reading: &mut Reading,
    ) -> Step<()> {
        reading.branches.clear();
        let len = self.window(ino, offset, len);
        let Some((first, last)) = keys_of(ino, offset, len) else { return Ok(()) };
        self.store.nodes.scan(first, last, &mut |branch| {
            reading.branches.push(*branch);
            true
        })
    }

    /// Like the first half, without loading anything; returns whether that was sufficient.
    pub(super) fn plan_loaded(
        &self,
        ino: u32,
        offset: u64,
        len: usize,
        reading: &mut Reading,
    ) -> bool {
        reading.branches.clear();
        let len = self.window(ino, offset, len);
        let Some((first, last)) = keys_of(ino, offset, len) else { return true };
        self.store.nodes.tnc.scan_loaded(first, last, &mut |branch| {
            reading.branches.push(*branch);
            true
        })
    }

    /// Performs the second half of a read, which may run in parallel. The range ends at or before
    /// the file's size.
    pub(super) fn read_planned(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
        reading: &mut Reading,
    ) -> Step<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let (first, behind) = ((offset / BLOCK) as u32, offset + buf.len() as u64);
        let blocks = behind.div_ceil(BLOCK) - u64::from(first);
        let last = ((behind - 1) / BLOCK) as u32;
        let is_within = |branch: &&Zbranch| branch.key.value() <= last;
        let found = reading.branches.iter().take_while(is_within).count();
        if (found as u64) < blocks {
            buf.fill(0);
        }
        self.read_nodes(ino, offset, buf, reading)?;
        for block in self.pages.blocks(ino, first).take_while(|block| *block <= last) {
            let Some(page) = self.pages.get(ino, block) else { continue };
            copy_block(offset, buf, block, page);
        }
        Ok(())
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
        let number = ino_number(ino)?;
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
        self.store.nodes.scan(
            Key::dent(dir, start),
            Key::dent(dir, VALUE_MASK),
            &mut |branch| {
                // All entries of a hash, because those of the first may all have been listed before.
                let value = branch.key.value();
                let has_enough = branches.len() >= DIR_BATCH && value != start;
                let goes_on =
                    !has_enough || branches.last().is_some_and(|last| last.key == branch.key);
                if goes_on {
                    branches.push(*branch);
                }
                goes_on
            },
        )?;
        let (mut entries, mut buf) = (Vec::new(), Vec::new());
        let mut listing = Listing::behind(cookie);
        let mut give = |dent: OwnedDent, cookie| {
            entries.push(dir_entry(&dent, is_encrypted, cookie));
            ControlFlow::Continue(())
        };
        for branch in branches {
            let _ =
                listing.add(self.store.nodes.leaf(&branch, &mut buf)?.dent()?.into(), &mut give);
        }
        let _ = listing.give_rest(&mut give);
        Ok(entries)
    }

    /// Returns the first block from `first`, before the end of the file, that has content on flash
    /// or in memory, or that has none.
    pub(super) fn next_block(
        &mut self,
        ino: u32,
        first: u32,
        end: u32,
        wanted: Seek,
    ) -> Step<Option<u32>> {
        let mut stored = Vec::new();
        let wants_data = wanted == Seek::Data;
        let mut next = first;
        self.store.nodes.scan(
            Key::data(ino, first),
            Key::data(ino, VALUE_MASK),
            &mut |branch| {
                let block = branch.key.value();
                stored.push(block);
                let goes_on = !wants_data && block == next;
                next = next.saturating_add(1);
                goes_on || (!wants_data && stored.len() < 4096)
            },
        )?;
        let mut dirty = self.pages.blocks(ino, first).peekable();
        if wants_data {
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
