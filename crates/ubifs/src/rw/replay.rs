//! Replays the journal into the index (layer 14; spec: ubifs-runtime 16).
//!
//! # Invariants
//! 1. On flash, only torn ends of the last LEB of each head change.
//! 2. Afterwards, the properties of every LEB of the journal are right, and the heads point to the
//!    end of the replayed nodes.

use super::error::{Fault, Step, at};
use super::flash::{Flash, align8};
use super::log::Bud;
use super::nodes::{Dead, Nodes, Unreadable};
use super::place::{Place, Written};
use super::recovery::Recovery;
use super::store::Store;
use super::wbuf::Head;
use crate::log as log_walk;
use crate::recovery;
use crate::replay::{Change, Entry, Journal, Sizes, is_last};
use crate::report::Report;
use crate::volume::Volume;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{Key, Reference};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// A replayed bud: its end, and bytes of it that were obsolete from the start.
struct Read {
    end: u32,
    dirty: u32,
}

/// The findings of a replay.
pub(super) struct Replayed {
    /// The sizes in the journal.
    pub(super) sizes: Sizes,
    /// The LEBs that were read to delete inodes.
    pub(super) read: BTreeSet<u32>,
}

impl Store {
    /// Replays all buds of the log.
    pub(super) fn replay(
        &mut self,
        volume: &Volume,
        log: &log_walk::Log,
        recovery: Recovery,
        report: &mut Report,
    ) -> Step<Replayed> {
        let mut journal = Journal::default();
        let mut read = Vec::new();
        for (index, bud) in log.buds.iter().enumerate() {
            let recover = recovery.is_needed() && is_last(volume, &log.buds, index);
            read.push(self.read_bud(volume, bud, recover, &mut journal, report)?);
        }
        let newest = journal.put_in_order(report);
        let entries = journal.into_entries();
        let mut used: BTreeMap<Leb, u32> = BTreeMap::new();
        let mut sizes = Sizes::default();
        for entry in &entries {
            if matches!(
                entry.change,
                Change::Inode { .. } | Change::Data { .. } | Change::Name { .. }
            ) {
                *used.entry(entry.branch.leb).or_default() += align8(entry.branch.len);
            }
            sizes.take(entry);
            self.nodes.journal.sqnums.raise(entry.sqnum);
            self.master.raise_inum(entry.branch.key.ino());
        }
        let mut dead = Dead::default();
        for (index, entry) in entries.into_iter().enumerate() {
            self.apply(entry, index, &newest, &mut dead)?;
        }
        // An xattr of an unlinked, open file may have been written after the file's deletion.
        for ino in dead.values {
            self.nodes.remove_range(Key::first_of(ino), Key::last_of(ino))?;
        }
        for (bud, mut read) in log.buds.iter().zip(read) {
            read.dirty -= used.get(&bud.leb).copied().unwrap_or(0).min(read.dirty);
            self.take_bud(bud, &read)?;
        }
        Ok(Replayed { sizes, read: dead.read })
    }

    /// Reads a bud, repairs its torn end on flash, and adds its nodes to the journal.
    fn read_bud(
        &mut self,
        volume: &Volume,
        bud: &Reference,
        recover: bool,
        journal: &mut Journal,
        report: &mut Report,
    ) -> Step<Read> {
        // The content before it became a bud is read only to be rewritten.
        let flash = &mut self.nodes.flash;
        let mut bytes = vec![0; flash.leb_size as usize];
        let (front, content) = bytes.split_at_mut(bud.offset as usize);
        flash.read(bud.leb.get(), bud.offset, content)?;
        if recover {
            flash.read(bud.leb.get(), 0, front)?;
        }
        if !recover {
            let nodes = recovery::strict(volume, bud.leb, &bytes, bud.offset, report)?;
            journal.take(bud.leb, &nodes, report)?;
            let end = scan_end(flash, bud.leb, &bytes, bud.offset).0;
            return Ok(Read { end, dirty: end - bud.offset });
        }
        let head = Some(bud.head);
        let nodes = recovery::recover(volume, bud.leb, &bytes, bud.offset, head, report)?;
        journal.take(bud.leb, &nodes, report)?;
        let (end, count, is_clean) = scan_end(flash, bud.leb, &bytes, bud.offset);
        let mut front = if is_clean && count == nodes.len() {
            bytes[..end as usize].to_vec()
        } else {
            let last = nodes.last();
            let kept = last.map_or(bud.offset, |(offset, node)| align8(offset + node.header.len));
            bytes[..kept as usize].to_vec()
        };
        encode::pad(&mut front, flash.min_io);
        // Even if all is well: a page that was being written may read correctly now and not
        // later, and one that looks erased may not be.
        flash.renew(bud.leb.get(), &front)?;
        let end = front.len() as u32;
        Ok(Read { end, dirty: end - bud.offset })
    }

    fn apply(
        &mut self,
        entry: Entry,
        index: usize,
        newest: &HashMap<u32, usize>,
        dead: &mut Dead,
    ) -> Step<()> {
        let Entry { branch, change, .. } = entry;
        let key = branch.key;
        let node = Written { place: Place::of(&branch), len: branch.len };
        match change {
            Change::Inode { .. } | Change::Data { .. } => self.nodes.add_leaf(key, node),
            Change::Deletion => {
                if newest.get(&key.ino()).is_none_or(|live| *live <= index) {
                    dead.extend(self.nodes.remove_dead_inode(key.ino())?);
                }
                Ok(())
            }
            Change::Name { name } => self.nodes.add_entry(key, &name, node, Unreadable::Passes),
            Change::NoName { name } => self.nodes.remove_entry(key, &name, Unreadable::Passes),
            Change::Truncation { old_size, new_size } => {
                let (first, behind) = (new_size.div_ceil(BLOCK), old_size.div_ceil(BLOCK));
                if first < behind {
                    let ino = key.ino();
                    let last = Key::data(ino, (behind - 1) as u32);
                    self.nodes.remove_range(Key::data(ino, first as u32), last)?;
                }
                Ok(())
            }
        }
    }

    /// Makes a bud part of the journal in memory (16.8).
    fn take_bud(&mut self, bud: &Reference, read: &Read) -> Step<()> {
        let Nodes { flash, lprops, journal, .. } = &mut self.nodes;
        let (leb, size) = (bud.leb.get(), flash.leb_size);
        lprops.update(flash, leb, |lp| {
            if bud.offset == 0 {
                // Its nodes in the committed properties were collected before it became a bud.
                lp.dirty = lp.dirty.saturating_sub(size - lp.free);
            }
            lp.dirty += read.dirty;
            lp.free = size - read.end;
            lp.index = false;
            lp.taken = true;
        })?;
        let Some(head) = Head::of(bud.head) else {
            let message = format!("a reference to head {}", bud.head);
            return Err(Fault::refused(at(leb, bud.offset), "log-corrupt", message));
        };
        journal.take_replayed_bud(flash, leb, Bud { head, start: bud.offset }, read.end);
        Ok(())
    }
}

/// Returns where a scan ends, the number of its nodes, and whether nothing is damaged.
fn scan_end(flash: &Flash, leb: Leb, bytes: &[u8], start: u32) -> (u32, usize, bool) {
    let mut scanner = Scanner::new(leb, bytes, start, flash.limits);
    let count = scanner.by_ref().count();
    let is_clean = scanner.strict_error(flash.min_io).is_none();
    (scanner.offset(), count, is_clean)
}
