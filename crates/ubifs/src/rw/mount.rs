//! Mounts for writing (layer 14; spec: ubifs-runtime 5).
//!
//! # Invariants
//! 1. After a power cut, a mount writes again the ends that it reads and relies on: a torn page may
//!    be readable now and not at the next mount.
//! 2. A mount that is cut can be repeated: nothing that the next one needs is erased before the
//!    commit or master that replaces it is on flash.

use super::MountOptions;
use super::budget::Budget;
use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::Flash;
use super::gc::Gc;
use super::inode::InodeTable;
use super::journal::Journal;
use super::log::Log;
use super::lprops::{Lprops, Use};
use super::make;
use super::master::MasterArea;
use super::nodes::Nodes;
use super::orphan::{self, Orphans};
use super::pages::Pages;
use super::patient::Patient;
use super::place::Place;
use super::recovery::Recovery;
use super::shadow::Shadow;
use super::sqnum::Sqnums;
use super::store::Store;
use super::tnc::Tnc;
use crate::codes;
use crate::error::UbifsError;
use crate::log as log_walk;
use crate::master::{self, Selected};
use crate::report::Report;
use crate::sb;
use crate::volume::{Recut, Volume};
use eraseblock_base::Location;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::constants::{MASTER_LEB, master_flags, sb_flags};
use eraseblock_ubifs_format::raw::{CommitStartNode, SuperblockNode};
use eraseblock_ubifs_format::{decode, encode};
use std::sync::Arc;

/// Mounts a volume.
pub(super) fn mount(device: Arc<dyn LebDevice>, options: MountOptions) -> Result<Core, UbifsError> {
    let device: Arc<dyn LebDevice> = Arc::new(Patient(device));
    let below = Arc::clone(&device);
    let device: Arc<dyn LebDevice> =
        if options.read_only { Arc::new(Shadow::new(device)) } else { device };
    if !options.read_only && make::is_empty(&*device)? {
        make::make(&*device, &options)?;
    }
    let mut report = Report::strict();
    let found = sb::load(device, &mut report)?;
    let is_writable_format = found.sb.fmt_version <= 5 && found.sb.ro_compat_version == 0;
    if found.is_guess || !is_writable_format {
        return Err(UbifsError::Refused {
            at: Location::Whole,
            code: "format-not-writable".into(),
            message: "a format that can only be read".to_owned(),
        });
    }
    let volume = Volume::new(Arc::clone(&found.device), found.sb.clone());
    let Some(selected) = master::select(&volume, &mut report)? else {
        let at = Location::leb(eraseblock_base::Leb::new(MASTER_LEB));
        let message = "no usable master node".to_owned();
        return Err(UbifsError::Refused { at, code: "master-lost".into(), message });
    };
    let as_found: Arc<dyn LebDevice> = if !options.read_only {
        Arc::clone(&found.device)
    } else if below.leb_size() == found.sb.leb_size {
        below
    } else {
        Arc::new(Recut::new(below, found.sb.leb_size))
    };
    let flash = Flash::new(found.device, found.sb);
    Core::mount(flash, as_found, &volume, selected, options, report).map_err(Fault::into_ubifs)
}

impl Core {
    fn mount(
        flash: Flash,
        as_found: Arc<dyn LebDevice>,
        volume: &Volume,
        selected: Selected,
        options: MountOptions,
        mut report: Report,
    ) -> Step<Self> {
        let recovery = Recovery::needed_if(selected.master.has(master_flags::DIRTY));
        let mut store = Store::open(flash, selected, recovery)?;
        if store.nodes.flash.sb.has(sb_flags::SPACE_FIXUP) {
            store.fix_up_space()?;
        }
        if recovery == Recovery::NotNeeded {
            // Before the first write: after a cut, the next mount must know that the ends of the
            // journal may be torn. The slot after a clean master may be a torn write of an
            // interrupted mount even if it looks erased, and so may the clean master itself.
            store.say_in_use()?;
        }
        // After the space fix-up: a cut in between repeats the fix-up, which must not be missed.
        store.write_superblock(volume)?;
        let index_head = store.master.index_head();
        let Nodes { flash, lprops, .. } = &mut store.nodes;
        lprops.set_use(flash, index_head.leb, Use::Taken)?;
        let log = log_walk::walk(volume, &store.master.node, recovery.is_needed(), &mut report)?;
        store.take_log(&log, recovery)?;
        let replayed = store.replay(volume, &log, recovery, &mut report)?;
        let mut pinned = replayed.read;
        // After the replay, whose links and deletions decide which orphans still exist.
        pinned.append(&mut store.take_orphans(volume, recovery, &mut report)?);
        store.finish_lprops(options.stored_bytes)?;
        if recovery.is_needed() {
            pinned.append(&mut store.fix_sizes(replayed.sizes, &mut report)?);
        }
        store.gc.pin(&mut store.nodes, pinned)?;
        match recovery {
            Recovery::Needed => {
                store.recover_gc_leb()?;
                // After the commit in it, which removed the orphans from the index. If the power
                // failed before that commit, the next mount would need their list again.
                orphan::clear_area(&mut store.nodes.flash)?;
            }
            Recovery::NotNeeded => store.take_gc_leb()?,
        }
        let mut core = Self {
            store,
            inodes: InodeTable::default(),
            pages: Pages::default(),
            as_found,
            is_read_only: false,
            options,
            findings: eraseblock_base::Findings::new(),
        };
        core.check_root()?;
        core.findings = report.findings;
        core.is_read_only = core.options.read_only;
        Ok(core)
    }
}

impl Store {
    /// Returns the state of the last commit. Writes the master again if it may be hard to read.
    fn open(mut flash: Flash, selected: Selected, recovery: Recovery) -> Step<Self> {
        let mut node = selected.master;
        node.flags &= !master_flags::RECOVERY;
        let Location::Leb(_, offset) = selected.at else {
            return Err(Fault::refused(selected.at, "master-lost", "a master without a place"));
        };
        let mut master = MasterArea::new(node, offset);
        if selected.was_recovered || recovery.is_needed() {
            // Write the chosen master first. A copy that is hard to read may be readable at one
            // mount and not at the next, and everything below depends on the choice.
            master.renew(&mut flash)?;
        }
        let node = &master.node;
        if recovery.is_needed() {
            // A commit that was cut may have written after both heads. Even if its pages look
            // erased, they may not be, and the next commit would program over them.
            flash.renew_head(node.ihead_lnum, node.ihead_offs)?;
            flash.renew_head(node.nhead_lnum, node.nhead_offs)?;
        }
        let log = Log::new(&flash, Place::start_of(node.log_lnum), node.log_lnum);
        Ok(Self {
            gc: Gc::default(),
            budget: Budget::new(node.index_size),
            orphans: Orphans::new(&flash),
            cmt_no: node.cmt_no,
            nodes: Nodes {
                lprops: Lprops::new(&flash, node)?,
                tnc: Tnc::new(node.root(), node.index_size),
                journal: Journal::new(log, Sqnums::new(node.sqnum)),
                flash,
            },
            master,
        })
    }

    /// Completes the properties of LEBs once the journal is replayed.
    fn finish_lprops(&mut self, stored_bytes: Option<u64>) -> Step<()> {
        let Nodes { flash, lprops, .. } = &mut self.nodes;
        if flash.sb.has(sb_flags::BIG_LPT) {
            lprops.load_saved(flash)?;
        }
        lprops.lpt.clean_unused(flash)?;
        if let Some(bytes) = stored_bytes {
            refuse_cut_short(flash, lprops, bytes)?;
        }
        if lprops.stats.total_free + lprops.stats.total_dirty < flash.dark_wm.into() {
            return Err(Fault::no_space());
        }
        Ok(())
    }

    /// Marks the file system on flash as in use.
    fn say_in_use(&mut self) -> Step<()> {
        self.master.node.flags |= master_flags::DIRTY;
        self.master.renew(&mut self.nodes.flash)
    }

    /// Takes the reserved LEB stated by a clean unmount.
    fn take_gc_leb(&mut self) -> Step<()> {
        let leb = self.master.node.gc_lnum;
        let Nodes { flash, lprops, .. } = &mut self.nodes;
        lprops.set_empty(flash, leb)?;
        lprops.set_use(flash, leb, Use::Taken)?;
        flash.unmap(leb)?;
        self.gc.set_reserved(Some(leb));
        Ok(())
    }

    fn take_log(&mut self, log: &log_walk::Log, recovery: Recovery) -> Step<()> {
        let Nodes { flash, journal, .. } = &mut self.nodes;
        journal.sqnums.raise(log.max_sqnum);
        let end = log.head_offset.next_multiple_of(flash.min_io);
        if recovery.is_needed() {
            // The last reference may be torn and its page look erased: the next one goes there.
            flash.renew_head(log.head, log.head_offset)?;
        }
        let head = Place { leb: log.head, offset: end };
        journal.log = Log::new(flash, head, self.master.node.log_lnum);
        journal.log.consolidate(flash)
    }

    /// Writes the superblock when the volume grew or its space was fixed up.
    fn write_superblock(&mut self, volume: &Volume) -> Step<()> {
        let mut bytes = vec![0; SuperblockNode::SIZE];
        self.nodes.flash.read(0, 0, &mut bytes)?;
        let stored = decode::node(&bytes, &volume.limits, at(0, 0))?.superblock()?;
        if stored.leb_cnt == self.nodes.flash.sb.leb_cnt
            && stored.flags == self.nodes.flash.sb.flags
        {
            return Ok(());
        }
        let mut node = Vec::new();
        encode::superblock(&mut node, &self.nodes.flash.sb);
        encode::pad(&mut node, self.nodes.flash.min_io);
        self.nodes.flash.change(0, &node)
    }

    /// Fixes up the free space of an image that was written page by page (spec: ubifs-runtime 5.6).
    fn fix_up_space(&mut self) -> Step<()> {
        let master_end = self.master.end(&self.nodes.flash);
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            self.rewrite(leb, master_end)?;
        }
        let tail = self.master.node.log_lnum;
        let mut leb = Log::next_leb(&self.nodes.flash, tail);
        while leb != tail {
            self.nodes.flash.unmap(leb)?;
            leb = Log::next_leb(&self.nodes.flash, leb);
        }
        self.rewrite(tail, CommitStartNode::SIZE as u32)?;
        let size = self.nodes.flash.leb_size;
        for (leb, free) in
            (self.nodes.flash.sb.lpt_first()..).zip(self.nodes.lprops.lpt.free_of_lebs())
        {
            if free > 0 {
                self.rewrite(leb, size - free)?;
            }
        }
        for leb in self.nodes.flash.sb.orph_first()..=self.nodes.flash.sb.orph_last() {
            self.nodes.flash.unmap(leb)?;
        }
        for leb in self.nodes.flash.main_first..self.nodes.flash.leb_cnt {
            let free = self.nodes.lprops.get(&self.nodes.flash, leb)?.free;
            if free > 0 {
                self.rewrite(leb, size - free)?;
            }
        }
        self.nodes.flash.sb.flags &= !sb_flags::SPACE_FIXUP;
        Ok(())
    }

    /// Rewrites the first bytes of a LEB, so that the rest is erased.
    fn rewrite(&mut self, leb: u32, len: u32) -> Step<()> {
        if len == 0 {
            return self.nodes.flash.unmap(leb);
        }
        let len = len.next_multiple_of(self.nodes.flash.min_io).min(self.nodes.flash.leb_size);
        let mut bytes = vec![0; len as usize];
        self.nodes.flash.read(leb, 0, &mut bytes)?;
        self.nodes.flash.change(leb, &bytes)
    }
}

/// Fails if only the first `stored` bytes of a volume exist, but more are in use.
fn refuse_cut_short(flash: &Flash, lprops: &mut Lprops, stored: u64) -> Step<()> {
    let size = flash.leb_size;
    let first = u32::try_from(stored / u64::from(size)).unwrap_or(u32::MAX);
    for leb in first.max(flash.main_first)..flash.leb_cnt {
        let props = lprops.get(flash, leb)?;
        let used = size - props.free;
        let is_live = props.free + props.dirty < size;
        if is_live && u64::from(leb) * u64::from(size) + u64::from(used) > stored {
            let message = format!("the image has {stored} bytes, and more is in use");
            return Err(Fault::refused(at(leb, used), codes::IMAGE_CUT_SHORT, message));
        }
    }
    Ok(())
}
