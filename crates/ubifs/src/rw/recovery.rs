//! Repairs the consequences of a power cut outside the journal (layer 14; spec: ubifs-runtime 17,
//! 18.6).
//!
//! # Invariants
//! 1. Until the first commit nothing is erased that an earlier mount left: a recovery that is cut
//!    is repeated from the same state.

use super::error::{Fault, Step};
use super::flash::Flash;
use super::gc::Collected;
use super::lprops::{Category, Lp, Lprops, Use};
use super::nodes::Nodes;
use super::orphan::clear_area;
use super::place::Place;
use super::store::Store;
use super::tnc::Zbranch;
use super::wbuf::{Head, Wbuf};
use crate::codes;
use crate::orphan;
use crate::replay::Sizes;
use crate::report::Report;
use crate::volume::Volume;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::Key;
use eraseblock_ubifs_format::constants::master_flags;
use eraseblock_ubifs_format::encode;
use std::collections::BTreeSet;

/// Whether the file system was in use when the power went off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recovery {
    Needed,
    /// It was unmounted cleanly.
    NotNeeded,
}

impl Recovery {
    pub(super) fn needed_if(is_dirty: bool) -> Self {
        if is_dirty { Self::Needed } else { Self::NotNeeded }
    }

    pub(super) fn is_needed(self) -> bool {
        self == Self::Needed
    }
}

impl Store {
    /// Deletes the inodes that were orphans at the power cut (18.6), and returns the LEBs that were
    /// read for it. After a clean unmount, only empties the area.
    pub(super) fn take_orphans(
        &mut self,
        volume: &Volume,
        recovery: Recovery,
        report: &mut Report,
    ) -> Step<BTreeSet<u32>> {
        let mut read = BTreeSet::new();
        if !recovery.is_needed() || self.master.node.has(master_flags::NO_ORPHANS) {
            // The deletions since the last commit are in the journal, and the replay removed them.
            clear_area(&mut self.nodes.flash)?;
            return Ok(read);
        }
        let listed = orphan::read(volume, report)?;
        self.cmt_no = self.cmt_no.max(listed.cmt_no);
        for ino in listed.inos {
            let Some(branch) = self.nodes.find(Key::inode(ino))? else { continue };
            if self.is_orphan(&branch)? {
                read.insert(branch.leb);
                read.extend(self.nodes.remove_dead_inode(ino)?.read);
            }
        }
        Ok(read)
    }

    /// Returns whether an inode has no names, or was erased by a mount that was cut before its
    /// commit.
    fn is_orphan(&self, branch: &Zbranch) -> Step<bool> {
        if !self.nodes.flash.device().is_mapped(Leb::new(branch.leb))? {
            return Ok(true);
        }
        let mut buf = Vec::new();
        Ok(self.nodes.leaf(branch, &mut buf)?.inode()?.nlink == 0)
    }

    /// Raises the sizes of inodes whose content extends further, in place (17.9): content and inode
    /// are written to different heads, and the cut may have lost only the inode. Returns the LEBs
    /// that were read for dead inodes.
    pub(super) fn fix_sizes(&mut self, sizes: Sizes, report: &mut Report) -> Step<BTreeSet<u32>> {
        let mut read = BTreeSet::new();
        for (ino, known) in sizes.of {
            if known.inode.is_some_and(|size| size >= known.data) {
                continue;
            }
            let Some(branch) = self.nodes.find(Key::inode(ino))? else {
                if known.inode.is_none() {
                    // The inode was created in a buffer that the cut lost.
                    let message = "content of an inode that is not there is dropped";
                    report.findings.note(Location::Inode(ino.into()), codes::INODE_UNBORN, message);
                    read.extend(self.nodes.remove_dead_inode(ino)?.read);
                }
                continue;
            };
            let mut buf = Vec::new();
            let node = self.nodes.leaf(&branch, &mut buf)?;
            let sqnum = node.header.sqnum;
            if node.inode()?.size >= known.data {
                continue;
            }
            let message = format!("size raised to {}, where its content ends", known.data);
            report.findings.note(Location::Inode(ino.into()), codes::SIZE_FIXED, message);
            encode::set_inode_size(&mut buf, known.data, sqnum);
            self.patch(branch.place(), &buf)?;
        }
        Ok(read)
    }

    /// Changes bytes of a LEB in place.
    fn patch(&mut self, at: Place, bytes: &[u8]) -> Step<()> {
        let Nodes { flash, journal, .. } = &mut self.nodes;
        let mut whole = Vec::new();
        flash.read_leb(at.leb, &mut whole)?;
        let start = at.offset as usize;
        whole[start..start + bytes.len()].copy_from_slice(bytes);
        let used = whole.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        let end = (used as u32).next_multiple_of(flash.min_io).min(flash.leb_size);
        // The last byte of a head's last unit may look erased.
        let head = journal.head_in(at.leb).and_then(Wbuf::place);
        let end = head.map_or(end, |head| end.max(head.offset));
        flash.change(at.leb, &whole[..end as usize])
    }

    /// Finds an empty LEB for garbage collection and commits (17.7). The master of the last commit
    /// may name a LEB that was used since.
    pub(super) fn recover_gc_leb(&mut self) -> Step<()> {
        self.gc.set_reserved(None);
        let Nodes { flash, lprops, journal, .. } = &mut self.nodes;
        if let Some(leb) = spare_leb(flash, lprops)? {
            lprops.set_use(flash, leb, Use::Taken)?;
            lprops.set_empty(flash, leb)?;
            flash.unmap(leb)?;
            self.gc.set_reserved(Some(leb));
            return self.commit_always();
        }
        // No LEB is empty if the cut came after the reserved LEB had become the GC head. That head
        // then has space for the live nodes of a victim.
        let Some(head) = journal.head(Head::Gc).place() else { return Err(Fault::no_space()) };
        let fits = |lp: &Lp| !lp.index && lp.reclaimable() >= head.offset;
        let Some(victim) = lprops.scan(flash, fits)? else { return Err(Fault::no_space()) };
        lprops.set_use(flash, victim, Use::Taken)?;
        // The commit first: replayed after a cut, the orphans and sizes of this mount must not
        // follow the copies of older nodes that the collection appends.
        self.commit_always()?;
        if self.gc.collect_leb(&mut self.nodes, victim)? != Collected::Retained {
            return Err(Fault::no_space());
        }
        // The copies before the originals are erased: a cut in between must not lose both.
        self.nodes.sync_head(Head::Gc)?;
        self.nodes.flash.unmap(victim)
    }
}

/// Returns a LEB without live nodes.
fn spare_leb(flash: &Flash, lprops: &mut Lprops) -> Step<Option<u32>> {
    for category in [Category::Empty, Category::Freeable] {
        if let Some(listed) = lprops.set(category).first() {
            return Ok(Some(listed.leb));
        }
    }
    let size = flash.leb_size;
    lprops.scan(flash, |lp| !lp.index && lp.reclaimable() == size)
}
