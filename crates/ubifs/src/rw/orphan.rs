//! Inodes without names that still exist (spec: ubifs-runtime 18).
//!
//! # Invariants
//! 1. Every inode of the committed index with link count 0 is listed in the orphan area.
//! 2. An inode becomes an orphan before the operation that removes its last name is in the journal.
//!    It ceases to be one after the operation that deletes or links it is in the journal.

use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::Flash;
use eraseblock_base::Leb;
use eraseblock_base::align::align_up;
use eraseblock_ubifs_format::Orphan;
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_vfs::FsErrorKind;
use std::collections::BTreeMap;

/// Bytes of an orphan node before its numbers.
const FIXED: u32 = 32;

/// The orphans.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// The age of each orphan, by inode number.
    all: BTreeMap<u32, u64>,
    /// Orphans not yet in the area on flash, by age.
    new: BTreeMap<u64, u32>,
    age: u64,
    head: u32,
    head_offset: u32,
}

impl Orphans {
    /// Returns an empty list; the area is used up to here.
    pub(super) fn new(head: u32, head_offset: u32) -> Self {
        Self { head, head_offset, ..Self::default() }
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        (self.all.len() + self.new.len()) * size_of::<(u32, u64)>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn contains(&self, ino: u32) -> bool {
        self.all.contains_key(&ino)
    }

    pub(super) fn remove(&mut self, ino: u32) {
        if let Some(age) = self.all.remove(&ino) {
            self.new.remove(&age);
        }
    }

    /// Returns the inode numbers in the order in which they became orphans.
    fn by_age(&self) -> Vec<u32> {
        let mut ages: Vec<_> = self.all.iter().map(|(ino, age)| (*age, *ino)).collect();
        ages.sort_unstable();
        ages.into_iter().map(|(_, ino)| ino).collect()
    }
}

/// Returns how many inode numbers fit in a node of this many bytes.
fn fitting(bytes: u32) -> u32 {
    bytes.saturating_sub(FIXED) / 8
}

/// Returns the maximum number of orphans (spec: ubifs-runtime 18.1).
pub(super) fn most(flash: &Flash) -> usize {
    (flash.sb.orph_lebs as usize * fitting(flash.leb_size) as usize) / 2
}

impl Core {
    /// Makes an inode an orphan.
    pub(super) fn add_orphan(&mut self, ino: u32) -> Step<()> {
        if self.orphans.all.len() >= most(&self.flash) {
            let message = "too many deleted files are open";
            return Err(Fault::fs(FsErrorKind::NoSpace, message));
        }
        let orphans = &mut self.orphans;
        orphans.age += 1;
        if orphans.all.insert(ino, orphans.age).is_none() {
            orphans.new.insert(orphans.age, ino);
        }
        Ok(())
    }

    /// Updates the orphan area (spec: ubifs-runtime 18.4).
    pub(super) fn write_orphans(&mut self) -> Step<()> {
        if self.orphans.new.is_empty() {
            return Ok(());
        }
        self.flash.activity.orphans_written += self.orphans.new.len() as u64;
        let new: Vec<u32> = self.orphans.new.values().copied().collect();
        if self.room_for_orphans() >= new.len() {
            self.append_orphans(&new)?;
        } else {
            self.rewrite_orphans()?;
        }
        self.orphans.new.clear();
        Ok(())
    }

    fn room_for_orphans(&self) -> usize {
        let Self { flash, orphans, .. } = self;
        let rest = fitting(flash.leb_size - orphans.head_offset.min(flash.leb_size));
        let lebs = flash.sb.orph_last() - orphans.head.min(flash.sb.orph_last());
        rest as usize + lebs as usize * fitting(flash.leb_size) as usize
    }

    fn orphan_node(&mut self, inos: &[u32], is_last: bool) -> Step<Vec<u8>> {
        let sqnum = self.next_sqnum()?;
        let inos = inos.iter().map(|ino| u64::from(*ino)).collect();
        let mut bytes = Vec::new();
        let node = Orphan { cmt_no: self.cmt_no, is_last, inos };
        encode::orphan(&mut bytes, &node, Seal::single(sqnum));
        encode::pad(&mut bytes, self.flash.min_io);
        Ok(bytes)
    }

    fn append_orphans(&mut self, new: &[u32]) -> Step<()> {
        let mut left = new;
        while !left.is_empty() {
            let room = fitting(self.flash.leb_size - self.orphans.head_offset);
            if room == 0 {
                self.orphans.head += 1;
                self.orphans.head_offset = 0;
                continue;
            }
            let (now, later) = left.split_at(left.len().min(room as usize));
            left = later;
            let bytes = self.orphan_node(now, left.is_empty())?;
            let (leb, offset) = (self.orphans.head, self.orphans.head_offset);
            if offset == 0 {
                self.flash.unmap(leb)?;
            }
            self.flash.write(leb, offset, &bytes)?;
            self.orphans.head_offset += bytes.len() as u32;
        }
        Ok(())
    }

    /// Rewrites all orphans from the start of the area; each LEB is replaced atomically.
    fn rewrite_orphans(&mut self) -> Step<()> {
        let all = self.orphans.by_age();
        let per_leb = fitting(self.flash.leb_size) as usize;
        let first = self.flash.sb.orph_first();
        let chunks = all.chunks(per_leb).count();
        for (index, inos) in all.chunks(per_leb).enumerate() {
            let leb = first + index as u32;
            if leb > self.flash.sb.orph_last() {
                return Err(Fault::refused(at(leb, 0), "orphans-full", "too many orphans"));
            }
            let bytes = self.orphan_node(inos, index + 1 == chunks)?;
            self.flash.change(leb, &bytes)?;
            self.orphans.head = leb;
            self.orphans.head_offset = align_up(bytes.len() as u32, self.flash.min_io);
        }
        for leb in self.orphans.head + 1..=self.flash.sb.orph_last() {
            self.flash.unmap(leb)?;
        }
        Ok(())
    }

    /// Empties the orphan area.
    pub(super) fn clear_orphan_area(&mut self) -> Step<()> {
        for leb in self.flash.sb.orph_first()..=self.flash.sb.orph_last() {
            if self.flash.device().is_mapped(Leb::new(leb))? {
                self.flash.unmap(leb)?;
            }
        }
        Ok(())
    }
}
