//! Mounts for writing, and unmounts (spec: ubifs-runtime 5).

use super::MountOptions;
use super::budget::Budget;
use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::Flash;
use super::gc::Gc;
use super::log::Log;
use super::lprops::Lprops;
use super::orphan::Orphans;
use super::patient::Patient;
use super::shadow::Shadow;
use super::tnc::Tnc;
use super::{inode::InodeTable, make, pages::Pages};
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
use eraseblock_ubifs_format::{decode, encode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of the superblock node.
pub(super) const SUPERBLOCK_SIZE: usize = 4096;

/// Mounts a volume.
pub(super) fn mount(device: Arc<dyn LebDevice>, options: MountOptions) -> Result<Core, UbifsError> {
    let device: Arc<dyn LebDevice> = Arc::new(Patient(device));
    let below = Arc::clone(&device);
    let device: Arc<dyn LebDevice> =
        if options.read_only { Arc::new(Shadow::new(device)) } else { device };
    if !options.read_only && make::is_empty(&*device)? {
        make::make(&*device, &options)?;
    }
    let mut report = Report::new(true);
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
        let mut master = selected.master;
        master.flags &= !master_flags::RECOVERY;
        let Location::Leb(_, master_offset) = selected.at else {
            return Err(Fault::refused(selected.at, "master-lost", "a master without a place"));
        };
        let need_recovery = master.has(master_flags::DIRTY);
        let mut flash = flash;
        let mut master_offset = master_offset;
        if selected.was_recovered || need_recovery {
            // Write the chosen master first. A copy that is hard to read may be readable at one
            // mount and not at the next, and everything below depends on the choice.
            flash.renew_masters(&master)?;
            master_offset = 0;
        }
        if need_recovery {
            flash.renew_head(master.ihead_lnum, master.ihead_offs)?;
            flash.renew_head(master.nhead_lnum, master.nhead_offs)?;
        }
        let lprops = Lprops::new(&flash, &master)?;
        let mut core = Self {
            tnc: Tnc::new(master.root(), master.index_size),
            lprops,
            log: Log::new(&flash, master.log_lnum, 0, master.log_lnum),
            budget: Budget::new(master.index_size),
            orphans: Orphans::new(flash.sb.orph_first(), 0),
            max_sqnum: master.sqnum,
            highest_inum: u32::try_from(master.highest_inum).unwrap_or(u32::MAX),
            cmt_no: master.cmt_no,
            heads: Default::default(),
            gc: Gc::default(),
            held: BTreeSet::new(),
            inodes: InodeTable::default(),
            pages: Pages::default(),
            is_read_only: false,
            findings: eraseblock_base::Findings::new(),
            flash,
            as_found,
            master,
            master_offset,
            options,
        };
        if core.flash.sb.has(sb_flags::SPACE_FIXUP) {
            core.fix_up_space()?;
        }
        if !need_recovery {
            // The slot after a clean master may be a torn write of an interrupted mount even if it
            // looks erased, and so may the clean master itself.
            core.say_in_use()?;
        }
        core.write_superblock(volume)?;
        core.lprops.set_taken(&core.flash, core.master.ihead_lnum, true)?;
        let log = log_walk::walk(volume, &core.master, need_recovery, &mut report)?;
        core.take_log(&log, need_recovery)?;
        let sizes = core.replay(volume, &log, need_recovery, &mut report)?;
        core.take_orphans(volume, need_recovery, &mut report)?;
        let Self { lprops, flash, .. } = &mut core;
        if flash.sb.has(sb_flags::BIG_LPT) {
            lprops.load_saved(flash)?;
        }
        lprops.lpt.clean_unused(flash)?;
        if let Some(bytes) = core.options.stored_bytes {
            core.refuse_cut_short(bytes)?;
        }
        let Self { lprops, flash, .. } = &mut core;
        if lprops.stats.total_free + lprops.stats.total_dirty < flash.dark_wm.into() {
            return Err(Fault::no_space());
        }
        if need_recovery {
            core.fix_sizes(sizes, &mut report)?;
        }
        core.hold()?;
        if need_recovery {
            core.recover_gc_leb()?;
            core.clear_orphan_area()?;
        } else {
            core.take_gc_leb()?;
        }
        core.check_root()?;
        core.findings = report.findings;
        core.is_read_only = core.options.read_only;
        Ok(core)
    }

    /// Fails if only the first `stored` bytes of a volume exist, but more are in use.
    fn refuse_cut_short(&mut self, stored: u64) -> Step<()> {
        let size = self.flash.leb_size;
        let first = u32::try_from(stored / u64::from(size)).unwrap_or(u32::MAX);
        for leb in first.max(self.flash.main_first)..self.flash.leb_cnt {
            let props = self.lprops.get(&self.flash, leb)?;
            let used = size - props.free;
            let is_live = props.free + props.dirty < size;
            if is_live && u64::from(leb) * u64::from(size) + u64::from(used) > stored {
                let message = format!("the image has {stored} bytes, and more is in use");
                return Err(Fault::refused(at(leb, used), codes::IMAGE_CUT_SHORT, message));
            }
        }
        Ok(())
    }

    /// Marks the file system on flash as in use.
    fn say_in_use(&mut self) -> Step<()> {
        self.master.flags |= master_flags::DIRTY;
        self.flash.renew_masters(&self.master)?;
        self.master_offset = 0;
        Ok(())
    }

    /// Takes the reserved LEB stated by a clean unmount.
    fn take_gc_leb(&mut self) -> Step<()> {
        let leb = self.master.gc_lnum;
        self.lprops.set_empty(&self.flash, leb)?;
        self.lprops.set_taken(&self.flash, leb, true)?;
        self.flash.unmap(leb)?;
        self.gc.gc_lnum = leb;
        Ok(())
    }

    fn take_log(&mut self, log: &log_walk::Log, need_recovery: bool) -> Step<()> {
        self.max_sqnum = self.max_sqnum.max(log.max_sqnum);
        let end = log.head_offset.next_multiple_of(self.flash.min_io);
        if need_recovery {
            self.flash.renew_head(log.head, log.head_offset)?;
        }
        self.log.head = log.head;
        self.log.head_offset = end;
        self.consolidate_log()
    }

    /// Writes the superblock when the volume grew or its space was fixed up.
    fn write_superblock(&mut self, volume: &Volume) -> Step<()> {
        let mut bytes = vec![0; SUPERBLOCK_SIZE];
        self.flash.read(0, 0, &mut bytes)?;
        let stored = decode::node(&bytes, &volume.limits, at(0, 0))?.superblock()?;
        if stored.leb_cnt == self.flash.sb.leb_cnt && stored.flags == self.flash.sb.flags {
            return Ok(());
        }
        let mut node = Vec::new();
        encode::superblock(&mut node, &self.flash.sb);
        encode::pad(&mut node, self.flash.min_io);
        self.flash.change(0, &node)
    }

    /// Writes a clean master (spec: ubifs-runtime 5.5).
    pub(super) fn write_clean_master(&mut self) -> Step<()> {
        self.master.flags &= !master_flags::DIRTY;
        self.master.flags |= master_flags::NO_ORPHANS;
        self.master.gc_lnum = self.gc.gc_lnum;
        self.write_master()
    }

    /// Continues to write after [`Core::write_clean_master`].
    pub(super) fn become_writable(&mut self) -> Step<()> {
        self.flash.check_writable()?;
        if self.options.read_only {
            return Err(eraseblock_vfs::rules::read_only().into());
        }
        if !self.master.has(master_flags::DIRTY) {
            self.master.flags |= master_flags::DIRTY;
            self.write_master()?;
        }
        self.is_read_only = false;
        Ok(())
    }

    /// Fixes up the free space of an image that was written page by page (spec: ubifs-runtime 5.6).
    fn fix_up_space(&mut self) -> Step<()> {
        let master_end = self.master_offset + self.flash.mst_alsz;
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            self.rewrite(leb, master_end)?;
        }
        let tail = self.master.log_lnum;
        let mut leb = Log::next_leb(&self.flash, tail);
        while leb != tail {
            self.flash.unmap(leb)?;
            leb = Log::next_leb(&self.flash, leb);
        }
        self.rewrite(tail, 32)?;
        let size = self.flash.leb_size;
        for (leb, free) in (self.flash.sb.lpt_first()..).zip(self.lprops.lpt.free_of_lebs()) {
            if free > 0 {
                self.rewrite(leb, size - free)?;
            }
        }
        for leb in self.flash.sb.orph_first()..=self.flash.sb.orph_last() {
            self.flash.unmap(leb)?;
        }
        for leb in self.flash.main_first..self.flash.leb_cnt {
            let free = self.lprops.get(&self.flash, leb)?.free;
            if free > 0 {
                self.rewrite(leb, size - free)?;
            }
        }
        self.flash.sb.flags &= !sb_flags::SPACE_FIXUP;
        Ok(())
    }

    /// Rewrites the first bytes of a LEB, so that the rest is erased.
    fn rewrite(&mut self, leb: u32, len: u32) -> Step<()> {
        if len == 0 {
            return self.flash.unmap(leb);
        }
        let len = len.next_multiple_of(self.flash.min_io).min(self.flash.leb_size);
        let mut bytes = vec![0; len as usize];
        self.flash.read(leb, 0, &mut bytes)?;
        self.flash.change(leb, &bytes)
    }
}
