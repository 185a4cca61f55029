//! The volume for writers: primitives that stop permanently at the first failure that cannot be
//! repaired, and the sizes from which others follow (layer 2; spec: ubifs-runtime 1.5, 2, 23).
//!
//! # Invariants
//! 1. After a primitive failed permanently nothing is written any more: `why_read_only` has the
//!    reason.
//! 2. Cached data of a LEB is discarded before the LEB changes.

use super::activity::{Activity, BigLptActivity};
use super::ahead::Ahead;
use super::error::{Fault, Step, at};
use crate::error::UbifsError;
use eraseblock_base::align::align_up;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError};
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, MAX_INODE_DATA, sb_flags};
use eraseblock_ubifs_format::encode::{self, index_len};
use eraseblock_ubifs_format::lpt::LptGeometry;
use eraseblock_ubifs_format::raw::{DataNode, InodeNode, MasterNode, ReferenceNode};
use eraseblock_ubifs_format::{Limits, Superblock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Least space that is worth keeping: a data node with a few bytes.
pub(super) const MIN_NODE: u32 = DataNode::SIZE as u32 + 8;
/// Largest node of the journal: an inode with inline data.
const MAX_NODE: u32 = InodeNode::SIZE as u32 + MAX_INODE_DATA as u32;
/// Largest data node.
pub(super) const MAX_DATA_NODE: u32 = DataNode::SIZE as u32 + BLOCK_SIZE;
/// Number of journal heads.
pub(super) const HEADS: u32 = 3;

/// The device, the superblock and the sizes derived from it.
#[derive(Debug)]
pub(super) struct Flash {
    device: Arc<dyn LebDevice>,
    pub(super) sb: Superblock,
    pub(super) limits: Limits,
    pub(super) lpt: LptGeometry,
    pub(super) leb_size: u32,
    pub(super) min_io: u32,
    pub(super) max_write: u32,
    pub(super) main_first: u32,
    pub(super) leb_cnt: u32,
    pub(super) dead_wm: u32,
    pub(super) dark_wm: u32,
    pub(super) ref_alsz: u32,
    pub(super) mst_alsz: u32,
    pub(super) min_idx_node: u32,
    pub(super) max_idx_node: u32,
    pub(super) max_bud_bytes: u64,
    pub(super) bg_bud_bytes: u64,
    /// Why writing has ended, if it has.
    pub(super) why_read_only: Option<String>,
    /// Counts of activities.
    pub(super) activity: Activity,
    /// The page that [`Flash::read_near`] read last.
    near: Mutex<Page>,
    /// Read-ahead data.
    ahead: Mutex<Ahead>,
}

/// A page of a LEB in memory; empty if there is none.
#[derive(Debug, Default)]
struct Page {
    leb: u32,
    offset: u32,
    bytes: Vec<u8>,
}

impl Flash {
    /// Creates the volume for a verified superblock, already grown to the volume.
    pub(super) fn new(device: Arc<dyn LebDevice>, sb: Superblock) -> Self {
        let min_io = sb.min_io_size;
        let leb_size = sb.leb_size;
        let limits = Limits::of(&sb);
        let size = u64::from(leb_size);
        let lpt = LptGeometry::new(sb.lpt_inputs());
        Self {
            max_write: device.max_write().max(min_io),
            main_first: sb.main_first(),
            leb_cnt: sb.leb_cnt,
            dead_wm: align_up(MIN_NODE, min_io),
            dark_wm: align_up(MAX_NODE, min_io),
            ref_alsz: align_up(ReferenceNode::SIZE as u32, min_io),
            mst_alsz: align_up(MasterNode::SIZE as u32, min_io),
            min_idx_node: align_up(index_len(1), 8),
            max_idx_node: align_up(index_len(sb.fanout), 8),
            max_bud_bytes: sb.max_bud_bytes.max(u64::from(HEADS + 2) * size + 1),
            bg_bud_bytes: (sb.max_bud_bytes / 16 * 13).max(u64::from(HEADS + 1) * size + 1),
            device,
            limits,
            lpt,
            leb_size,
            min_io,
            why_read_only: None,
            activity: Activity {
                big_lpt: sb.has(sb_flags::BIG_LPT).then(BigLptActivity::default),
                ..Activity::default()
            },
            near: Mutex::default(),
            ahead: Mutex::default(),
            sb,
        }
    }

    pub(super) fn main_lebs(&self) -> u32 {
        self.leb_cnt - self.main_first
    }

    pub(super) fn device(&self) -> &Arc<dyn LebDevice> {
        &self.device
    }

    /// Fails if writing has ended.
    pub(super) fn check_writable(&self) -> Step<()> {
        match &self.why_read_only {
            None => Ok(()),
            Some(reason) => Err(UbifsError::ReadOnly { reason: reason.clone() }.into()),
        }
    }

    /// Ends writing for this reason.
    pub(super) fn turn_read_only(&mut self, reason: &str) {
        self.why_read_only.get_or_insert_with(|| reason.to_owned());
    }

    /// Turns read-only if a step failed that must not fail, because memory and flash may disagree.
    pub(super) fn must<T>(&mut self, result: Step<T>, what: &str) -> Step<T> {
        if let Err(fault) = &result {
            self.turn_read_only(&format!("{what}: {}", fault.describe()));
        }
        result
    }

    /// Turns read-only if a primitive failed permanently.
    fn done<T>(&mut self, place: Location, result: Result<T, MtdError>) -> Step<T> {
        result.map_err(|error| {
            let said = error.to_string();
            // A write that failed is repeated from the start of its LEB.
            let is_placed = match place {
                Location::Leb(leb, _) => said.contains(&format!("leb {leb}:")),
                _ => true,
            };
            let reason = if is_placed { said } else { format!("{place}: {said}") };
            self.turn_read_only(&reason);
            Fault::from(error)
        })
    }

    /// Reads bytes of a LEB. A LEB after the end of the device reads as erased: an image file may
    /// be shorter than its volume.
    pub(super) fn read(&self, leb: u32, offset: u32, buf: &mut [u8]) -> Step<()> {
        if buf.is_empty() {
            return Ok(());
        }
        match self.device.read(Leb::new(leb), offset, buf) {
            // Asked afterwards only: this is the most frequent call there is.
            Err(MtdError::Range { .. }) if leb >= self.device.leb_count() => buf.fill(0xFF),
            result => {
                result?;
            }
        }
        Ok(())
    }

    /// Like [`Flash::read`], for small adjacent nodes: reads their page only once.
    pub(super) fn read_near(&self, leb: u32, offset: u32, buf: &mut [u8]) -> Step<()> {
        let from = (offset % self.min_io) as usize;
        if from + buf.len() > self.min_io as usize {
            return self.read(leb, offset, buf);
        }
        let start = offset - from as u32;
        let mut page = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        if page.bytes.is_empty() || (page.leb, page.offset) != (leb, start) {
            let mut bytes = std::mem::take(&mut page.bytes);
            bytes.resize(self.min_io as usize, 0);
            self.read(leb, start, &mut bytes)?;
            *page = Page { leb, offset: start, bytes };
        }
        buf.copy_from_slice(&page.bytes[from..from + buf.len()]);
        Ok(())
    }

    /// Returns the bytes of memory taken by cached data.
    pub(super) fn memory(&self) -> usize {
        let near = self.near.lock().unwrap_or_else(PoisonError::into_inner).bytes.capacity();
        near + self.ahead().memory()
    }

    /// Returns read-ahead data.
    pub(super) fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards cached data of a LEB that is about to change.
    fn forget(&mut self, leb: u32) {
        let page = self.near.get_mut().unwrap_or_else(PoisonError::into_inner);
        if page.leb == leb {
            page.bytes.clear();
        }
        self.ahead.get_mut().unwrap_or_else(PoisonError::into_inner).forget(leb);
    }

    pub(super) fn read_leb(&self, leb: u32, buf: &mut Vec<u8>) -> Step<()> {
        buf.resize(self.leb_size as usize, 0);
        self.read(leb, 0, buf)
    }

    /// Appends to a LEB.
    pub(super) fn write(&mut self, leb: u32, offset: u32, data: &[u8]) -> Step<()> {
        self.check_writable()?;
        self.forget(leb);
        let result = self.device.write(Leb::new(leb), offset, data);
        self.done(at(leb, offset), result)
    }

    /// Replaces a LEB.
    pub(super) fn change(&mut self, leb: u32, data: &[u8]) -> Step<()> {
        self.check_writable()?;
        self.forget(leb);
        let result = self.device.change(Leb::new(leb), data);
        self.done(at(leb, 0), result)
    }

    /// Replaces a LEB; empties it permanently if no content is left. The old content of a LEB that
    /// is only unmapped may reappear after a power cut. Once a clean unmount lies between, a mount
    /// would refuse that content or program over it.
    pub(super) fn renew(&mut self, leb: u32, data: &[u8]) -> Step<()> {
        if data.is_empty() {
            return self.wipe(leb);
        }
        self.change(leb, data)
    }

    /// Rewrites the LEB of a head up to `end` (spec: ubifs-runtime 17.8), even if it looks right: a
    /// torn page may read correctly now and not later, and one that looks erased may not be. It
    /// must not have been read before.
    pub(super) fn renew_head(&mut self, leb: u32, end: u32) -> Step<()> {
        let mut front = vec![0; end as usize];
        self.read(leb, 0, &mut front)?;
        encode::pad(&mut front, self.min_io);
        self.renew(leb, &front)
    }

    pub(super) fn unmap(&mut self, leb: u32) -> Step<()> {
        self.check_writable()?;
        self.forget(leb);
        let result = self.device.unmap(Leb::new(leb));
        self.done(at(leb, 0), result)
    }

    /// Empties a LEB permanently by mapping another block. Use only if nothing in it is needed any
    /// more.
    pub(super) fn wipe(&mut self, leb: u32) -> Step<()> {
        self.unmap(leb)?;
        self.map(leb)
    }

    pub(super) fn map(&mut self, leb: u32) -> Step<()> {
        self.check_writable()?;
        self.forget(leb);
        let result = self.device.map(Leb::new(leb));
        self.done(at(leb, 0), result)
    }

    pub(super) fn sync(&mut self) -> Step<()> {
        let result = self.device.sync();
        self.done(Location::Whole, result)
    }
}

/// Returns `value` rounded up to the grid of nodes.
pub(super) const fn align8(value: u32) -> u32 {
    value.next_multiple_of(8)
}

#[cfg(test)]
mod tests;
