//! Inodes without names that still exist (layer 5; spec: ubifs-runtime 18).
//!
//! # Invariants
//! 1. Every inode of the committed index with link count 0 is listed in the orphan area.
//! 2. An inode becomes an orphan before the operation that removes its last name is in the journal.
//!    It ceases to be one after the operation that deletes or links it is in the journal.
//! 3. Nothing is in the area after `head`: each mount empties the area before anything is written to
//!    it.

use super::error::{Fault, Step, at};
use super::flash::Flash;
use super::place::Place;
use super::sqnum::Sqnums;
use eraseblock_base::Leb;
use eraseblock_base::align::align_up;
use eraseblock_ubifs_format::Orphan;
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::raw::OrphanNode;
use eraseblock_vfs::FsErrorKind;
use std::collections::BTreeMap;

/// Bytes of an orphan node before its numbers.
const FIXED: u32 = OrphanNode::SIZE as u32;
/// Bytes of a number.
const NUMBER: u32 = size_of::<u64>() as u32;

/// The orphans.
#[derive(Debug)]
pub(super) struct Orphans {
    /// The age of each orphan, by inode number.
    all: BTreeMap<u32, u64>,
    /// Orphans not yet in the area on flash, by age.
    new: BTreeMap<u64, u32>,
    age: u64,
    /// The end of the used part of the area.
    head: Place,
}

/// The source of the numbers of orphan nodes.
pub(super) struct Numbers<'a> {
    pub(super) sqnums: &'a mut Sqnums,
    pub(super) cmt_no: u64,
}

impl Orphans {
    /// Returns an empty list for an area that is unused.
    pub(super) fn new(flash: &Flash) -> Self {
        Self {
            all: BTreeMap::new(),
            new: BTreeMap::new(),
            age: 0,
            head: Place::start_of(flash.sb.orph_first()),
        }
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
}

/// Returns how many inode numbers fit in a node of this many bytes.
fn fitting(bytes: u32) -> u32 {
    bytes.saturating_sub(FIXED) / NUMBER
}

/// Returns the maximum number of orphans (spec: ubifs-runtime 18.1).
pub(super) fn most(flash: &Flash) -> usize {
    (flash.sb.orph_lebs as usize * fitting(flash.leb_size) as usize) / 2
}

impl Orphans {
    /// Makes an inode an orphan.
    pub(super) fn add(&mut self, flash: &Flash, ino: u32) -> Step<()> {
        if self.all.len() >= most(flash) {
            let message = "too many deleted files are open";
            return Err(Fault::fs(FsErrorKind::NoSpace, message));
        }
        self.age += 1;
        if self.all.insert(ino, self.age).is_none() {
            self.new.insert(self.age, ino);
        }
        Ok(())
    }

    /// Returns the inode numbers in the order in which they became orphans.
    fn by_age(&self) -> Vec<u32> {
        let mut ages: Vec<_> = self.all.iter().map(|(ino, age)| (*age, *ino)).collect();
        ages.sort_unstable();
        ages.into_iter().map(|(_, ino)| ino).collect()
    }

    /// Updates the orphan area (spec: ubifs-runtime 18.4). Called before the master of a commit is
    /// written: the journal with the deletions is dropped with it, and only the area then
    /// leads a mount after a cut to these inodes.
    pub(super) fn write(&mut self, flash: &mut Flash, numbers: Numbers<'_>) -> Step<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        flash.activity.orphans_written += self.new.len() as u64;
        let new: Vec<u32> = self.new.values().copied().collect();
        if self.room(flash) >= new.len() {
            self.append(flash, numbers, &new)?;
        } else {
            self.rewrite(flash, numbers)?;
        }
        self.new.clear();
        Ok(())
    }

    fn room(&self, flash: &Flash) -> usize {
        let rest = fitting(flash.leb_size - self.head.offset.min(flash.leb_size));
        let lebs = flash.sb.orph_last() - self.head.leb.min(flash.sb.orph_last());
        rest as usize + lebs as usize * fitting(flash.leb_size) as usize
    }

    fn append(&mut self, flash: &mut Flash, mut numbers: Numbers<'_>, new: &[u32]) -> Step<()> {
        let mut left = new;
        while !left.is_empty() {
            let room = fitting(flash.leb_size - self.head.offset);
            if room == 0 {
                self.head = Place::start_of(self.head.leb + 1);
                continue;
            }
            let (now, later) = left.split_at(left.len().min(room as usize));
            left = later;
            let bytes = numbers.node(flash, now, left.is_empty())?;
            flash.write(self.head.leb, self.head.offset, &bytes)?;
            self.head.offset += bytes.len() as u32;
        }
        Ok(())
    }

    /// Rewrites all orphans from the start of the area; each LEB is replaced atomically.
    fn rewrite(&mut self, flash: &mut Flash, mut numbers: Numbers<'_>) -> Step<()> {
        let all = self.by_age();
        let per_leb = fitting(flash.leb_size) as usize;
        let first = flash.sb.orph_first();
        let chunks = all.chunks(per_leb).count();
        for (index, inos) in all.chunks(per_leb).enumerate() {
            let leb = first + index as u32;
            if leb > flash.sb.orph_last() {
                return Err(Fault::refused(at(leb, 0), "orphans-full", "too many orphans"));
            }
            let bytes = numbers.node(flash, inos, index + 1 == chunks)?;
            flash.change(leb, &bytes)?;
            self.head = Place { leb, offset: align_up(bytes.len() as u32, flash.min_io) };
        }
        // Old lists after the new one, which is complete: erased earlier, a cut would lose the
        // orphans that only they name.
        for leb in self.head.leb + 1..=flash.sb.orph_last() {
            flash.unmap(leb)?;
        }
        Ok(())
    }
}

impl Numbers<'_> {
    fn node(&mut self, flash: &mut Flash, inos: &[u32], is_last: bool) -> Step<Vec<u8>> {
        let sqnum = self.sqnums.take(flash)?;
        let inos = inos.iter().map(|ino| u64::from(*ino)).collect();
        let mut bytes = Vec::new();
        let node = Orphan { cmt_no: self.cmt_no, is_last, inos };
        encode::orphan(&mut bytes, &node, Seal::single(sqnum));
        encode::pad(&mut bytes, flash.min_io);
        Ok(bytes)
    }
}

/// Empties the orphan area.
pub(super) fn clear_area(flash: &mut Flash) -> Step<()> {
    for leb in flash.sb.orph_first()..=flash.sb.orph_last() {
        if flash.device().is_mapped(Leb::new(leb))? {
            flash.unmap(leb)?;
        }
    }
    Ok(())
}
