//! Writes fastmaps, and verifies LEBs known only from a fastmap (spec: ubi 16.4 to 16.6).
//!
//! # Invariants
//! 1. Between two fastmaps, blocks are taken only from the pools listed in the fastmap on flash.
//!    Any other block holds what the fastmap says, or was erased since.
//! 2. If the pools in memory are not those on flash, the fastmap on flash is unusable.
//! 3. A super block is erased after all older ones: alone, an older one would be taken for the newest,
//!    and its fastmap knows nothing of the pools from which blocks were taken since.

use crate::core::{Core, Volume};
use crate::error::UbiError;
use crate::io::is_eio;
use crate::runtime::ReadOnlyReason;
use crate::wl::{Erasing, Place, Shares, Work};
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_mtd::MtdError;
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, LAYOUT_VOLUME};
use eraseblock_ubi_format::fastmap::{ANCHOR_RANGE, CountedPeb, fastmap_size, pool_sizes};
use eraseblock_ubi_format::{
    Compat, EraseCount, Fastmap, FastmapPool, FastmapVolume, HeaderState, SqNum, VidHeader,
    VolumeKind,
};
use std::collections::BTreeSet;

/// Number of attempts to write a fastmap.
const ATTEMPTS: u32 = 4;

/// The fastmap state of a device that writes fastmaps.
#[derive(Clone, Debug)]
pub(crate) struct FastmapState {
    /// Bytes of a fastmap: whole LEBs.
    size: usize,
    /// Largest sizes of the pools.
    pool_sizes: (u16, u16),
    /// Volumes that the fastmap on flash lists.
    pub(crate) volumes: BTreeSet<VolumeId>,
    /// Super blocks on flash, or in the course of being written, the oldest first.
    anchors: Vec<Peb>,
}

impl FastmapState {
    /// Returns `None` if fastmaps are not used: on devices of at most 64 blocks, and on those too
    /// large for one.
    pub(crate) fn new(peb_count: u32, leb_size: u32) -> Option<Self> {
        if peb_count <= ANCHOR_RANGE {
            return None;
        }
        let size = fastmap_size(peb_count, leb_size)?;
        let (volumes, anchors) = (BTreeSet::new(), Vec::new());
        Some(Self { size, pool_sizes: pool_sizes(peb_count), volumes, anchors })
    }

    /// Returns whether a fastmap is on flash.
    pub(crate) fn resume(&mut self, sizes: (u16, u16), volumes: &[VolumeId], anchor: Peb) {
        self.pool_sizes = sizes;
        self.volumes = volumes.iter().copied().collect();
        self.anchors = vec![anchor];
    }

    /// Returns the number of blocks a fastmap takes.
    pub(crate) fn block_count(&self, leb_size: u32) -> u32 {
        u32::try_from(self.size / leb_size as usize).expect("at most 32")
    }
}

impl Core {
    /// Returns the distribution of blocks, if fastmaps are written.
    pub(crate) fn share_out(&mut self) {
        let Some(state) = &self.fastmap else { return };
        let blocks = state.block_count(self.io.layout.leb_size()) as usize;
        let (user, moves) = state.pool_sizes;
        self.wl.shares = Some(Shares {
            user: user.max(1).into(),
            moves: moves.max(1).into(),
            keep: blocks - 1,
            reserve: self.books.beb_reserved as usize,
        });
    }

    /// Returns the next block for new data; writes a fastmap if the pool is empty (spec: ubi 16.4).
    pub(crate) fn pool_peb(&mut self) -> Result<Option<Peb>, UbiError> {
        let mut patience = 4 * self.wl.ecs().len() + 4;
        while self.wl.data_target().is_none() && patience > 0 {
            patience -= 1;
            if self.wl.can_refill() {
                self.refresh_fastmap()?;
            } else if !self.step()? {
                break;
            }
        }
        Ok(self.wl.data_target())
    }

    /// Fills the pools and writes a fastmap (spec: ubi 16.5). If that fails, invalidates the one on
    /// flash; if that fails, too, the device becomes read-only.
    pub(crate) fn refresh_fastmap(&mut self) -> Result<(), UbiError> {
        if self.fastmap.is_none() {
            return Ok(());
        }
        self.share_out();
        self.wl.refill();
        if self.read_only.is_some() {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            match self.try_fastmap() {
                Ok(true) => {
                    self.counters.fastmaps += 1;
                    self.wl.schedule_move();
                    return Ok(());
                }
                Ok(false) => break,
                // Nothing may be written any more, and above all no fastmap erased.
                Err(error) if self.read_only.is_some() => return Err(error),
                Err(UbiError::Device(error)) if is_eio(&error) => self.counters.write_errors += 1,
                Err(error) => return self.fail(ReadOnlyReason::Fastmap, error),
            }
        }
        self.drop_fastmap()
    }

    /// Returns `false` if there is no space.
    fn try_fastmap(&mut self) -> Result<bool, UbiError> {
        let count = self
            .fastmap
            .as_ref()
            .map_or(1, |state| state.block_count(self.io.layout.leb_size()) as usize);
        let mut old: Vec<Peb> = self.wl.line(Place::Fastmap).iter().copied().collect();
        let mut new = Vec::with_capacity(count);
        while new.len() + 1 < count {
            let Some(peb) = self.fastmap_block(&mut old)? else { break };
            new.push(peb);
        }
        let anchor = if new.len() + 1 == count { self.fastmap_anchor(&mut old)? } else { None };
        let Some(anchor) = anchor else {
            for peb in new {
                self.wl.put_free(peb);
            }
            return Ok(false);
        };
        new.insert(0, anchor);
        for peb in old {
            self.wl.take(peb);
            self.wl.queue_erase(peb, Erasing::Plain, None);
        }
        if let Some(state) = &mut self.fastmap {
            state.anchors.push(anchor);
        }
        match self.write_fastmap(&new) {
            Ok(()) => {
                for peb in new {
                    self.wl.put(peb, Place::Fastmap);
                }
                self.wl.reserve_anchor();
                Ok(true)
            }
            Err(error) => {
                for peb in new {
                    self.wl.queue_erase(peb, Erasing::Tortured, None);
                }
                Err(error.into())
            }
        }
    }

    /// Returns a block for a part that is not the first: a free one, or an old one erased at once.
    fn fastmap_block(&mut self, old: &mut Vec<Peb>) -> Result<Option<Peb>, UbiError> {
        let free = self.wl.free.pebs().find(|peb| peb.get() >= ANCHOR_RANGE);
        if let Some(peb) = free.or_else(|| self.wl.free.first()) {
            self.wl.take(peb);
            return Ok(Some(peb));
        }
        match old.len() {
            0 | 1 => Ok(None),
            last => self.reuse(old, last - 1),
        }
    }

    /// Returns the block for the first part: the reserved one, or the old one erased at once.
    fn fastmap_anchor(&mut self, old: &mut Vec<Peb>) -> Result<Option<Peb>, UbiError> {
        if let Some(peb) = self.wl.line(Place::Anchor).front().copied() {
            self.wl.take(peb);
            return Ok(Some(peb));
        }
        if old.is_empty() { Ok(None) } else { self.reuse(old, 0) }
    }

    fn reuse(&mut self, old: &mut Vec<Peb>, index: usize) -> Result<Option<Peb>, UbiError> {
        let peb = old.remove(index);
        self.wl.take(peb);
        match self.try_erase(peb, Erasing::Plain) {
            Ok(()) => Ok(Some(peb)),
            Err(UbiError::Device(error)) if is_eio(&error) => {
                self.retire(peb, error.into()).map(|()| None)
            }
            Err(error) => {
                self.wl.put(peb, Place::Corrupted);
                Err(error)
            }
        }
    }

    fn write_fastmap(&mut self, pebs: &[Peb]) -> Result<(), MtdError> {
        let size = self.fastmap.as_ref().map_or(0, |state| state.size);
        let map = self.compose(pebs);
        let unsupported = MtdError::Unsupported { operation: "a fastmap of this size" };
        let bytes = map.encode(size).ok_or(unsupported)?;
        for (number, peb) in (0..).zip(pebs) {
            let header = fastmap_header(number, self.next_sqnum());
            self.io.write_vid(*peb, &header)?;
        }
        for (peb, data) in pebs.iter().zip(bytes.chunks(self.io.layout.leb_size() as usize)) {
            self.io.write_data(*peb, 0, data)?;
        }
        if let Some(state) = &mut self.fastmap {
            state.volumes = map.volumes.iter().map(|volume| volume.id).collect();
        }
        Ok(())
    }

    /// Returns a fastmap of the current state, which will be written to `blocks`.
    fn compose(&self, blocks: &[Peb]) -> Fastmap {
        let count = |peb: Peb| -> CountedPeb {
            (peb, EraseCount::new(self.wl.ec(peb).into()).unwrap_or_default())
        };
        let all = |pebs: &mut dyn Iterator<Item = Peb>| pebs.map(count).collect::<Vec<_>>();
        let pool =
            |place, max| FastmapPool { max, pebs: self.wl.line(place).iter().copied().collect() };
        let sizes = self.fastmap.as_ref().map_or((0, 0), |state| state.pool_sizes);
        let mut anchor = self.wl.line(Place::Anchor).iter().copied();
        let user = self.volumes.iter().filter(|(id, _)| **id != LAYOUT_VOLUME);
        let table = self.volumes.iter().filter(|(id, _)| **id == LAYOUT_VOLUME);
        // An erroneous block still holds its LEB. An attach refuses a map with a block in no list,
        // and a scan finds this one as used, too.
        let erroneous = self.wl.erroneous.pebs();
        Fastmap {
            blocks: all(&mut blocks.iter().copied()),
            bad_pebs: self.books.bad,
            user_pool: pool(Place::UserPool, sizes.0),
            wl_pool: pool(Place::MovePool, sizes.1),
            free: all(&mut self.wl.free.pebs().chain(&mut anchor)),
            used: all(&mut self.wl.used.pebs().chain(self.wl.protected()).chain(erroneous)),
            scrub: all(&mut self.wl.scrub.pebs()),
            erase: all(&mut self.wl.pending()),
            volumes: user.chain(table).map(|(id, volume)| self.describe(*id, volume)).collect(),
        }
    }

    fn describe(&self, id: VolumeId, volume: &Volume) -> FastmapVolume {
        let (used_lebs, last_leb_bytes) = match volume.record.kind {
            // Linux writes these two numbers for the volume table.
            _ if id == LAYOUT_VOLUME => (2, 2),
            VolumeKind::Dynamic => (volume.record.reserved_lebs, self.usable(volume)),
            VolumeKind::Static => (volume.used_lebs, volume.last_leb_bytes),
        };
        FastmapVolume {
            id,
            kind: volume.record.kind,
            data_pad: volume.record.data_pad,
            used_lebs,
            last_leb_bytes,
            map: volume.map.clone(),
        }
    }

    /// Invalidates the fastmap on flash by erasing its super block.
    fn drop_fastmap(&mut self) -> Result<(), UbiError> {
        for peb in self.wl.line(Place::Fastmap).clone() {
            self.wl.take(peb);
            self.wl.queue_erase(peb, Erasing::Plain, None);
        }
        let Some(state) = &mut self.fastmap else { return Ok(()) };
        state.volumes.clear();
        let anchors = state.anchors.clone();
        self.erase_pending(&anchors)
    }

    /// Erases the super blocks older than the one in `peb`, if it holds one.
    pub(crate) fn erase_older_anchors(&mut self, peb: Peb) -> Result<(), UbiError> {
        let Some(state) = &self.fastmap else { return Ok(()) };
        let Some(index) = state.anchors.iter().position(|anchor| *anchor == peb) else {
            return Ok(());
        };
        let older = state.anchors[..index].to_vec();
        self.erase_pending(&older).map_err(|error| match (error, self.read_only) {
            // A failure of another block: the caller must not give up its own for it.
            (UbiError::Device(error), Some(reason)) if is_eio(&error) => {
                UbiError::ReadOnly { reason }
            }
            (error, _) => error,
        })
    }

    /// Erases those of the blocks that are to be erased, one after the other.
    fn erase_pending(&mut self, pebs: &[Peb]) -> Result<(), UbiError> {
        for one in pebs {
            let is_it = |work: &Work| matches!(work, Work::Erase { peb, .. } if peb == one);
            if let Some(work) = self.wl.next_work(is_it) {
                self.run(work)?;
            }
        }
        Ok(())
    }

    /// A block that is erased or bad holds no super block.
    pub(crate) fn forget_anchor(&mut self, peb: Peb) {
        if let Some(state) = &mut self.fastmap {
            state.anchors.retain(|anchor| *anchor != peb);
        }
    }

    /// Returns whether the position of the LEB is known only from a fastmap.
    pub(crate) fn is_unchecked(&self, id: VolumeId, leb: Leb) -> bool {
        let flags = self.volumes.get(&id).map(|volume| &volume.unchecked);
        flags.and_then(|flags| flags.get(leb.index())).copied().unwrap_or(false)
    }

    /// Verifies that the block of a LEB is as listed in a fastmap (spec: ubi 16.6). If it was
    /// erased since, the LEB is unmapped.
    pub(crate) fn check_leb(&mut self, id: VolumeId, leb: Leb) -> Result<(), UbiError> {
        if !self.is_unchecked(id, leb) {
            return Ok(());
        }
        let Some(peb) = self.volume(id)?.peb(leb) else { return Ok(()) };
        let state = self.io.read_vid(peb)?;
        let flips = matches!(state, HeaderState::Bitflips(_));
        match &state {
            HeaderState::Ok(header) | HeaderState::Bitflips(header) => {
                if (header.volume, header.leb) != (id, leb) {
                    let expected = "the LEB the fastmap says";
                    let found = peb.get().into();
                    let error = UbiError::Request { field: "eraseblock", found, expected };
                    return self.fail(ReadOnlyReason::Fastmap, error);
                }
                let ec = self.io.read_ec(peb)?;
                if matches!(ec, HeaderState::Erased | HeaderState::ErasedBitflips) {
                    self.give_up(id, leb, peb, Erasing::Tortured);
                    return Ok(());
                }
            }
            HeaderState::Erased => return self.reclaim(id, leb, peb),
            _ => {
                self.give_up(id, leb, peb, Erasing::Tortured);
                return Ok(());
            }
        }
        self.volume_mut(id)?.unchecked[leb.index()] = false;
        if flips {
            self.request_scrub(peb);
        }
        Ok(())
    }

    /// Calls [`Self::check_leb`] for all LEBs.
    pub(crate) fn check_lebs(&mut self) -> Result<(), UbiError> {
        let mut doubtful = Vec::new();
        for (id, volume) in &self.volumes {
            let lebs = (0..).zip(&volume.unchecked).filter(|(_, unchecked)| **unchecked);
            doubtful.extend(lebs.map(|(leb, _)| (*id, Leb::new(leb))));
        }
        doubtful.into_iter().try_for_each(|(id, leb)| self.check_leb(id, leb))
    }

    /// Unmaps a LEB whose block has no VID header: the block is free if it was erased since the
    /// fastmap was written. If that cannot be read, it is erased, so that it is not lost.
    fn reclaim(&mut self, id: VolumeId, leb: Leb, peb: Peb) -> Result<(), UbiError> {
        self.unmap_listed(id, leb, peb);
        let was_erased = self.was_erased(peb);
        if matches!(was_erased, Ok(true)) {
            self.wl.put_free(peb);
        } else {
            self.wl.queue_erase(peb, Erasing::Plain, Some((id, leb)));
        }
        was_erased.map(drop)
    }

    fn give_up(&mut self, id: VolumeId, leb: Leb, peb: Peb, how: Erasing) {
        self.unmap_listed(id, leb, peb);
        self.wl.queue_erase(peb, how, Some((id, leb)));
    }

    /// Unmaps a LEB that a fastmap lists. Its block is in no set then.
    fn unmap_listed(&mut self, id: VolumeId, leb: Leb, peb: Peb) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.forget(leb);
        }
        self.wl.take(peb);
    }

    /// Handles a block without a header that was chosen for a move. If only a fastmap listed a LEB
    /// in it, it was erased since; the block is then in no list.
    pub(crate) fn drop_stale(&mut self, peb: Peb) -> bool {
        let owner = self.volumes.iter().find_map(|(id, volume)| {
            let leb = volume.map.iter().position(|one| *one == Some(peb))?;
            let leb = Leb::new(u32::try_from(leb).ok()?);
            self.is_unchecked(*id, leb).then_some((*id, leb))
        });
        if let Some((id, leb)) = owner {
            self.give_up(id, leb, peb, Erasing::Tortured);
        }
        owner.is_some()
    }
}

impl Volume {
    /// Unmaps a LEB in memory; returns the block it had.
    pub(crate) fn forget(&mut self, leb: Leb) -> Option<Peb> {
        if let Some(unchecked) = self.unchecked.get_mut(leb.index()) {
            *unchecked = false;
        }
        self.map.get_mut(leb.index())?.take()
    }
}

/// Returns the header of a fastmap block. Its compat makes a Linux without fastmap delete the
/// block, since that kernel would not keep the fastmap up to date.
fn fastmap_header(number: u32, sqnum: SqNum) -> VidHeader {
    VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat: Compat::Delete,
        volume: if number == 0 { FASTMAP_ANCHOR_VOLUME } else { FASTMAP_DATA_VOLUME },
        leb: Leb::new(number),
        data_size: 0,
        used_lebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum,
    }
}
