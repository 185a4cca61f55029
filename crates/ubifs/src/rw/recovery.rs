//! Repairs the consequences of a power cut outside the journal (spec: ubifs-runtime 6.4, 17, 18.6).

use super::core::Core;
use super::error::{Fault, Step};
use super::flash::Flash;
use super::gc::Collected;
use super::lprops::{Category, Lp};
use super::tnc::Zbranch;
use super::wbuf::GC_HEAD;
use crate::codes;
use crate::orphan;
use crate::replay::Sizes;
use crate::report::Report;
use crate::volume::Volume;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::constants::{MASTER_LEB, master_flags};
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::{Key, Master};

impl Flash {
    /// Replaces both master LEBs atomically by a single master, which keeps its sequence number
    /// (6.4).
    pub(super) fn renew_masters(&mut self, master: &Master) -> Step<()> {
        let mut master = master.clone();
        master.flags |= master_flags::RECOVERY;
        let mut node = Vec::new();
        encode::master(&mut node, &master);
        encode::pad(&mut node, self.min_io);
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            self.change(leb, &node)?;
        }
        Ok(())
    }
}

impl Core {
    /// Deletes the inodes that were orphans at the power cut (18.6). After a clean unmount, only
    /// empties the area.
    pub(super) fn take_orphans(
        &mut self,
        volume: &Volume,
        need_recovery: bool,
        report: &mut Report,
    ) -> Step<()> {
        if !need_recovery || self.master.has(master_flags::NO_ORPHANS) {
            return self.clear_orphan_area();
        }
        let listed = orphan::read(volume, report)?;
        self.cmt_no = self.cmt_no.max(listed.cmt_no);
        for ino in listed.inos {
            let Some(branch) = self.find(Key::inode(ino))? else { continue };
            if self.is_orphan(&branch)? {
                self.held.insert(branch.leb);
                self.remove_dead_inode(ino)?;
            }
        }
        Ok(())
    }

    /// Returns whether an inode has no names, or was erased by a mount that was cut before its
    /// commit.
    fn is_orphan(&self, branch: &Zbranch) -> Step<bool> {
        if !self.flash.device().is_mapped(Leb::new(branch.leb))? {
            return Ok(true);
        }
        let mut buf = Vec::new();
        Ok(self.leaf(branch, &mut buf)?.inode()?.nlink == 0)
    }

    /// Protects held LEBs from being erased, unless they are already in use.
    pub(super) fn hold(&mut self) -> Step<()> {
        for leb in std::mem::take(&mut self.held) {
            if !self.lprops.get(&self.flash, leb)?.taken {
                self.lprops.set_taken(&self.flash, leb, true)?;
                self.held.insert(leb);
            }
        }
        Ok(())
    }

    /// Releases held LEBs after a commit, which no longer needs them.
    pub(super) fn let_go(&mut self) -> Step<()> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().try_for_each(|leb| self.lprops.set_taken(&self.flash, leb, false))
    }

    /// Raises the sizes of inodes whose content extends further, in place (17.9).
    pub(super) fn fix_sizes(&mut self, sizes: Sizes, report: &mut Report) -> Step<()> {
        for (ino, known) in sizes.of {
            if known.inode.is_some_and(|size| size >= known.data) {
                continue;
            }
            let Some(branch) = self.find(Key::inode(ino))? else {
                if known.inode.is_none() {
                    let message = "content of an inode that is not there is dropped";
                    report.findings.note(Location::Inode(ino.into()), codes::INODE_UNBORN, message);
                    self.remove_dead_inode(ino)?;
                }
                continue;
            };
            let mut buf = Vec::new();
            let node = self.leaf(&branch, &mut buf)?;
            let sqnum = node.header.sqnum;
            if node.inode()?.size >= known.data {
                continue;
            }
            let message = format!("size raised to {}, where its content ends", known.data);
            report.findings.note(Location::Inode(ino.into()), codes::SIZE_FIXED, message);
            encode::set_inode_size(&mut buf, known.data, sqnum);
            self.patch(branch.leb, branch.offset, &buf)?;
        }
        Ok(())
    }

    /// Changes bytes of a LEB in place.
    fn patch(&mut self, leb: u32, offset: u32, bytes: &[u8]) -> Step<()> {
        let mut whole = Vec::new();
        self.flash.read_leb(leb, &mut whole)?;
        let start = offset as usize;
        whole[start..start + bytes.len()].copy_from_slice(bytes);
        let used = whole.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        let end = (used as u32).next_multiple_of(self.flash.min_io).min(self.flash.leb_size);
        // The last byte of a head's last unit may look erased.
        let end = self
            .heads
            .iter()
            .filter(|head| head.leb == leb)
            .fold(end, |end, head| end.max(head.offset));
        self.flash.change(leb, &whole[..end as usize])
    }

    /// Finds an empty LEB for garbage collection and commits (17.7).
    pub(super) fn recover_gc_leb(&mut self) -> Step<()> {
        self.gc.gc_lnum = 0;
        if let Some(leb) = self.spare_leb()? {
            self.lprops.set_taken(&self.flash, leb, true)?;
            self.lprops.set_empty(&self.flash, leb)?;
            self.flash.unmap(leb)?;
            self.gc.gc_lnum = leb;
            return self.commit_always();
        }
        let used = self.heads[GC_HEAD].end();
        let has_head = self.heads[GC_HEAD].leb != 0 && self.heads[GC_HEAD].room(&self.flash) > 0;
        let fits = |lp: &Lp| !lp.index && lp.reclaimable() >= used;
        let victim = if has_head { self.lprops.scan(&self.flash, fits)? } else { None };
        let Some(victim) = victim else { return Err(Fault::no_space()) };
        self.lprops.set_taken(&self.flash, victim, true)?;
        self.commit_always()?;
        if self.collect_leb(victim)? != Collected::Retained {
            return Err(Fault::no_space());
        }
        self.sync_head(GC_HEAD)?;
        self.flash.unmap(victim)
    }

    fn spare_leb(&mut self) -> Step<Option<u32>> {
        for category in [Category::Empty, Category::Freeable] {
            if let Some((_, leb)) = self.lprops.set(category).first() {
                return Ok(Some(*leb));
            }
        }
        let size = self.flash.leb_size;
        self.lprops.scan(&self.flash, |lp| !lp.index && lp.reclaimable() == size)
    }
}
