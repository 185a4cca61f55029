//! Turns the result of an attach into a device in use (spec: ubi 10, 11).
//!
//! # Invariants
//! 1. Nothing is written before everything has been read and found acceptable.
//! 2. Once a device is open for writing, both copies of the volume table are good and equal.

use crate::account::Accounting;
use crate::attach::{AttachOptions, Attachment, NewestCopy, PebState, VolumeInfo, attach};
use crate::core::{Core, Counters, Volume};
use crate::error::UbiError;
use crate::fastmap::FastmapState;
use crate::io::{Io, is_eio};
use crate::runtime::{OpenOptions, ReadOnlyReason};
use crate::wl::{Erasing, Place, Wl};
use eraseblock_base::align::is_erased;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_mtd::Mtd;
use eraseblock_ubi_format::constants::{LAYOUT_LEBS, LAYOUT_VOLUME};
use eraseblock_ubi_format::table::{TableVerdict, encode_table, read_table};
use eraseblock_ubi_format::{
    Compat, EraseCount, HeaderLayout, HeaderState, SqNum, VidHeader, VolumeFlags, VolumeKind,
    VolumeName, VolumeRecord,
};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

/// Number of blocks tried for a copy of the volume table.
const TABLE_ATTEMPTS: u32 = 6;

/// Attaches a device and prepares it for use.
pub(crate) fn open(
    device: Arc<dyn Mtd>,
    layout: &HeaderLayout,
    options: &OpenOptions,
) -> Result<(Core, Attachment), UbiError> {
    let attach_options = AttachOptions {
        whole_device: true,
        verify_static: false,
        bitflip_threshold: options.bitflip_threshold,
        fastmap: options.fastmap,
        end_marks: true,
    };
    let mut attachment = attach(device.as_ref(), layout, &attach_options)?;
    if let Some(refusal) = &attachment.linux_refuses
        && !options.force
    {
        return Err(UbiError::Refused(refusal.clone()));
    }
    let image_seq = if attachment.is_empty { options.image_seq } else { attachment.image_seq };
    let io = Io { device, layout: *layout, image_seq, threshold: options.bitflip_threshold };
    let mut early = Early::new(io, &mut attachment, options);
    if early.core.read_only.is_none() {
        early.erase_anchors(&attachment)?;
        early.erase_end_marks(&attachment)?;
        early.settle_newest_copy(&attachment)?;
        early.recover_table(&attachment)?;
    }
    let core = early.finish(options, &attachment)?;
    Ok((core, attachment))
}

/// A device before wear levelling starts.
struct Early {
    core: Core,
    /// Blocks to be erased, the most urgent first.
    erase: VecDeque<Peb>,
    free: VecDeque<Peb>,
}

impl Early {
    fn new(io: Io, attachment: &mut Attachment, options: &OpenOptions) -> Self {
        let mean = attachment.erase_counters.mean;
        let ec = attachment.pebs.iter().map(|peb| peb.erase_count.map_or(mean, EraseCount::get));
        let mut wl = Wl::new(ec.collect(), options.wl_threshold.max(1));
        let mut free = VecDeque::new();
        let volumes = volumes(attachment);
        let ours: HashSet<Peb> =
            volumes.values().flat_map(|volume| &volume.map).flatten().copied().collect();
        let mut books = books(&io, attachment, options);
        // Only blocks in the pools of the fastmap are known to be free on flash. Other free blocks
        // must not be used before the next fastmap has been written.
        let pools = attachment.fastmap.as_ref();
        let is_fixed = |peb: Peb| {
            pools.is_some_and(|map| !map.user_pool.contains(&peb) && !map.wl_pool.contains(&peb))
        };
        for (number, info) in (0..).zip(&attachment.pebs) {
            let peb = Peb::new(number);
            match info.state {
                PebState::Free if is_fixed(peb) => wl.put(peb, Place::Free),
                PebState::Free => free.push_back(peb),
                // A block of an unknown internal volume.
                PebState::Used if !ours.contains(&peb) => {
                    wl.put(peb, Place::Corrupted);
                    books.corrupted += 1;
                }
                PebState::Used if info.scrub => wl.put(peb, Place::Scrub),
                PebState::Used => wl.put(peb, Place::Used),
                PebState::Fastmap if attachment.is_by_fastmap() => wl.put(peb, Place::Fastmap),
                PebState::Erase | PebState::Fastmap => {}
                PebState::Bad => wl.put(peb, Place::Bad),
                PebState::Corrupted
                | PebState::Alien
                | PebState::Foreign
                | PebState::Unreadable => wl.put(peb, Place::Corrupted),
            }
        }
        let erase: VecDeque<Peb> = attachment.erase_order.iter().copied().collect();
        let read_only = read_only_reason(&io, attachment, options);
        let core = Core {
            books,
            io,
            wl,
            volumes,
            sqnum: attachment.highest_sqnum.get(),
            read_only,
            fastmap: None,
            counters: Counters::default(),
        };
        let mut early = Self { core, erase, free };
        early.doubt(attachment);
        early
    }

    /// Marks the blocks and LEBs whose state is known only from a fastmap.
    fn doubt(&mut self, attachment: &Attachment) {
        let Some(map) = &attachment.fastmap else { return };
        for peb in (0..attachment.peb_count).map(Peb::new).filter(|peb| map.unsure[peb.index()]) {
            self.core.wl.set_unsure(peb);
        }
        for volume in self.core.volumes.values_mut() {
            let unsure = |peb: &Option<Peb>| peb.is_some_and(|peb| map.unsure[peb.index()]);
            volume.unchecked = volume.map.iter().map(unsure).collect();
        }
    }

    /// Erases fastmaps that are not in use before anything changes: a later attach might use an
    /// outdated one (spec: ubi 16.3, step 13). The oldest goes first, because as long as the newest is
    /// there, the next attach takes no other.
    fn erase_anchors(&mut self, attachment: &Attachment) -> Result<(), UbiError> {
        attachment.anchors.iter().try_for_each(|peb| self.erase_now(*peb))
    }

    /// Erases the blocks hidden by end marks, then the marks, the first mark last. If a mark went
    /// first, a power cut would make the hidden blocks visible. The marks go before anything is
    /// written, because the next attach would not see data after a mark (spec: ubi 4.1).
    fn erase_end_marks(&mut self, attachment: &Attachment) -> Result<(), UbiError> {
        let Some(end) = &attachment.end_marks else { return Ok(()) };
        end.hidden.iter().chain(end.pebs.iter().rev()).try_for_each(|peb| self.erase_now(*peb))
    }

    /// Erases a block before anything is written. Afterwards it is free or bad.
    fn erase_now(&mut self, peb: Peb) -> Result<(), UbiError> {
        self.erase.retain(|one| *one != peb);
        match self.core.early_erase(peb) {
            Ok(()) => {
                let pooled = self.core.wl.line(Place::Fastmap).is_empty();
                if pooled {
                    self.free.push_back(peb);
                } else {
                    self.core.wl.put(peb, Place::Free);
                }
                Ok(())
            }
            Err(UbiError::Device(error)) if is_eio(&error) => {
                self.core.io.device.mark_bad(peb)?;
                self.core.wl.put(peb, Place::Bad);
                self.core.books.good -= 1;
                self.core.books.bad += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Erases the fastmap, because no block that it lists as unused is left.
    fn drop_fastmap(&mut self) -> Result<(), UbiError> {
        let blocks = self.core.wl.line(Place::Fastmap).clone();
        for (index, peb) in (0..).zip(&blocks) {
            self.core.wl.take(*peb);
            if index == 0 { self.erase_now(*peb)? } else { self.erase.push_back(*peb) }
        }
        for peb in self.core.wl.free.pebs().collect::<Vec<_>>() {
            self.core.wl.take(peb);
            self.free.push_back(peb);
        }
        Ok(())
    }

    /// Writes the newest copy of a LEB once more before the block that it replaces is erased. The
    /// copy may be a torn write that reads correctly only once.
    fn settle_newest_copy(&mut self, attachment: &Attachment) -> Result<(), UbiError> {
        let Some(copy) = &attachment.newest_copy else { return Ok(()) };
        let is_settled = if copy.header.volume == LAYOUT_VOLUME {
            // Copy 0 of the table decides. If copy 1 is equal, copy 0 either was complete before
            // copy 1 was started, or replaces a copy with the same table.
            attachment.tables_agree
        } else {
            // A fastmap keeps listing the rivals even after they are erased, so every attach would
            // find them again.
            attachment.is_by_fastmap()
        };
        if is_settled || !self.is_last_written(copy) {
            return Ok(());
        }
        let is_rival = |peb: &Peb| copy.rivals.contains(peb);
        let (mut rivals, others) = self.erase.iter().partition(|peb| is_rival(peb));
        self.erase = others;
        let mut bytes = copy.data.to_vec();
        bytes.resize(bytes.len().next_multiple_of(self.core.io.layout.min_io() as usize), 0xFF);
        let written = self.write_copy(&copy.header, &bytes);
        self.erase.append(&mut rivals);
        match written {
            // Without a free block the copy stays where it is.
            Err(UbiError::NoSpace { .. }) => Ok(()),
            result => result,
        }
    }

    /// Returns whether a copy is in use and nothing has been written after it.
    fn is_last_written(&self, copy: &NewestCopy) -> bool {
        let core = &self.core;
        let NewestCopy { peb, header, data, .. } = copy;
        let Ok(volume) = core.volume(header.volume) else { return false };
        if volume.peb(header.leb) != Some(*peb) {
            return false;
        }
        let start = data.len().next_multiple_of(core.io.layout.min_io() as usize);
        let mut rest = vec![0; (core.usable(volume) as usize).saturating_sub(start)];
        let Ok(offset) = u32::try_from(start) else { return false };
        let offset = core.io.layout.data_offset() + offset;
        core.io.read(*peb, offset, &mut rest).is_ok() && is_erased(&rest)
    }

    /// Makes both copies of the volume table good and equal (spec: ubi 10).
    fn recover_table(&mut self, attachment: &Attachment) -> Result<(), UbiError> {
        if attachment.tables_agree {
            return Ok(());
        }
        let first = self.read_copy(Leb::new(0), None);
        let second = self.read_copy(Leb::new(1), first.as_ref());
        let copies = [first, second];
        let salvaged = || {
            let records: Vec<_> = self.core.records();
            let mut bytes = encode_table(&attachment.layout, &records);
            bytes.resize(attachment.layout.table_size() as usize, 0);
            bytes
        };
        let [first, second] = &copies;
        let bytes = match (first, second) {
            (Some((bytes, true)), _) | (_, Some((bytes, true))) => bytes.clone(),
            // An empty device, or one that was forced open: use the salvaged records.
            _ => salvaged(),
        };
        for (leb, copy) in (0..LAYOUT_LEBS).zip(&copies) {
            if !copy.as_ref().is_some_and(|(found, good)| *good && *found == bytes) {
                self.write_table(Leb::new(leb), &bytes)?;
            }
        }
        Ok(())
    }

    /// Returns a copy of the table and whether it is good; `None` if there is none. A copy with the
    /// bytes of a good `other` is good.
    fn read_copy(&self, leb: Leb, other: Option<&(Vec<u8>, bool)>) -> Option<(Vec<u8>, bool)> {
        let core = &self.core;
        let peb = core.volume(LAYOUT_VOLUME).ok()?.peb(leb)?;
        let layout = &core.io.layout;
        let mut bytes = vec![0; layout.table_size() as usize];
        core.io.read(peb, layout.data_offset(), &mut bytes).ok()?;
        if other.is_some_and(|(known, good)| *good && *known == bytes) {
            return Some((bytes, true));
        }
        let at = |offset| Location::Peb(peb, offset);
        let reading = read_table(&bytes, layout.volume_slots(), &core.record_rules(), at);
        Some((bytes, reading.verdict == TableVerdict::Good))
    }

    /// Writes a copy of the table into another block (spec: ubi 10, step W).
    fn write_table(&mut self, leb: Leb, bytes: &[u8]) -> Result<(), UbiError> {
        let header = VidHeader {
            kind: VolumeKind::Dynamic,
            // Marked as a copy, so that a torn write does not win over the old one.
            copy_flag: true,
            compat: Compat::Reject,
            volume: LAYOUT_VOLUME,
            leb,
            data_size: u32::try_from(bytes.len()).expect("within a LEB"),
            used_lebs: 0,
            data_pad: 0,
            data_crc: crc32(bytes),
            sqnum: SqNum::default(),
        };
        self.write_copy(&header, bytes)
    }

    /// Writes a LEB into another block; ignores the sequence number of `header`.
    fn write_copy(&mut self, header: &VidHeader, bytes: &[u8]) -> Result<(), UbiError> {
        let mut attempt = 1;
        loop {
            let peb = self.early_peb()?;
            let header = VidHeader { sqnum: self.core.next_sqnum(), ..*header };
            let io = &self.core.io;
            let written = io.write_vid(peb, &header).and_then(|()| io.write_data(peb, 0, bytes));
            match written {
                Ok(()) => {
                    let volume = self.core.volume_mut(header.volume)?;
                    let old = volume.map[header.leb.index()].replace(peb);
                    self.core.wl.put(peb, Place::Used);
                    if let Some(old) = old {
                        self.core.wl.take(old);
                        self.erase.push_back(old);
                    }
                    return Ok(());
                }
                Err(error) if is_eio(&error) && attempt < TABLE_ATTEMPTS => {
                    self.erase.push_back(peb);
                }
                Err(error) => return Err(error.into()),
            }
            attempt += 1;
        }
    }

    /// Returns a free block, or erases one.
    fn early_peb(&mut self) -> Result<Peb, UbiError> {
        if self.free.is_empty() && !self.core.wl.line(Place::Fastmap).is_empty() {
            self.drop_fastmap()?;
        }
        if let Some(peb) = self.free.pop_front() {
            return Ok(peb);
        }
        for _ in 0..self.erase.len() {
            let Some(peb) = self.erase.pop_front() else { break };
            match self.core.early_erase(peb) {
                Ok(()) => return Ok(peb),
                Err(UbiError::Device(error)) if is_eio(&error) => self.erase.push_back(peb),
                Err(error) => return Err(error),
            }
        }
        Err(UbiError::NoSpace { wanted: 1, available: 0 })
    }

    fn finish(self, options: &OpenOptions, attachment: &Attachment) -> Result<Core, UbiError> {
        let Self { mut core, erase, free } = self;
        if options.fastmap && attachment.linux_refuses.is_none() {
            let layout = &core.io.layout;
            core.fastmap = FastmapState::new(attachment.peb_count, layout.leb_size());
        }
        let anchor = core.wl.line(Place::Fastmap).front().copied();
        let in_use = attachment.fastmap.as_ref().zip(anchor);
        if let (Some(state), Some((map, anchor))) = (&mut core.fastmap, in_use) {
            state.resume(map.pool_sizes, &map.volumes, anchor);
        }
        for peb in free {
            let place = match in_use {
                Some((map, _)) if map.user_pool.contains(&peb) => Place::UserPool,
                Some((map, _)) if map.wl_pool.contains(&peb) => Place::MovePool,
                _ => Place::Free,
            };
            core.wl.put(peb, place);
        }
        for peb in erase {
            core.wl.queue_erase(peb, Erasing::Plain, None);
        }
        let lebs: u64 = core.volumes.values().map(|volume| volume.map.len() as u64).sum();
        let blocks = core
            .fastmap
            .as_ref()
            .map_or(0, |state| 2 * state.block_count(core.io.layout.leb_size()));
        match core.books.open(lebs, blocks) {
            Ok(books) => core.books = books,
            Err(_) if options.force => core.go_read_only(ReadOnlyReason::NotEnoughBlocks),
            Err((wanted, available)) => return Err(UbiError::NoSpace { wanted, available }),
        }
        core.share_out();
        if core.fastmap.is_some() {
            core.wl.reserve_anchor();
        }
        core.wl.schedule_move();
        if core.read_only.is_none() {
            core.autoresize()?;
        }
        Ok(core)
    }
}

impl Core {
    /// Erases a block before wear levelling starts.
    fn early_erase(&mut self, peb: Peb) -> Result<(), UbiError> {
        if self.was_erased(peb)? {
            return Ok(());
        }
        self.io.invalidate_headers(peb)?;
        self.io.erase(peb)?;
        let ec = u64::from(self.wl.ec(peb)) + 1;
        let erase_count = EraseCount::new(ec).ok_or(UbiError::Request {
            field: "erase counter",
            found: ec,
            expected: "at most 2147483647",
        })?;
        self.io.write_ec(peb, erase_count)?;
        self.wl.set_ec(peb, erase_count.get());
        Ok(())
    }

    /// Gives all available space to the autoresize volume (spec: ubi 11.5).
    fn autoresize(&mut self) -> Result<(), UbiError> {
        let wants = |volume: &Volume| volume.record.flags.contains(VolumeFlags::AUTORESIZE);
        let found = self.volumes.iter().find(|(_, volume)| wants(volume));
        let Some((id, volume)) = found.map(|(id, volume)| (*id, volume.record.clone())) else {
            return Ok(());
        };
        let more = self.books.available;
        let flags = VolumeFlags::from_bits(volume.flags.bits() & !VolumeFlags::AUTORESIZE.bits());
        let reserved_lebs = volume.reserved_lebs + more;
        let record = VolumeRecord { flags, reserved_lebs, ..volume };
        self.write_record(id, Some(record.clone()))?;
        let _ = self.books.reserve(more);
        let volume = self.volume_mut(id)?;
        volume.map.resize(record.reserved_lebs as usize, None);
        volume.record = record;
        Ok(())
    }

    /// Checks that the header of every mapped LEB agrees with the map, and that both copies of the
    /// volume table are equal.
    pub(crate) fn verify_flash(&self) -> Result<(), UbiError> {
        self.verify_headers()?;
        let len = self.io.layout.table_size() as usize;
        let mut copies = [vec![0; len], vec![0; len]];
        for (leb, copy) in (0..).zip(&mut copies) {
            self.read_leb(LAYOUT_VOLUME, Leb::new(leb), 0, copy)?;
        }
        if copies[0] == copies[1] {
            return Ok(());
        }
        let expected = "the same bytes in both copies";
        Err(UbiError::Request { field: "volume table", found: len as u64, expected })
    }

    fn verify_headers(&self) -> Result<(), UbiError> {
        for (id, volume) in &self.volumes {
            for (leb, peb) in (0..).zip(&volume.map) {
                let Some(peb) = peb else { continue };
                let ours = |header: &VidHeader| header.volume == *id && header.leb.get() == leb;
                match self.io.read_vid(*peb)? {
                    HeaderState::Ok(header) | HeaderState::Bitflips(header) if ours(&header) => {}
                    _ => {
                        return Err(UbiError::Request {
                            field: "eraseblock",
                            found: peb.get().into(),
                            expected: "the LEB the map says",
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

fn read_only_reason(
    io: &Io,
    attachment: &Attachment,
    options: &OpenOptions,
) -> Option<ReadOnlyReason> {
    if options.read_only {
        Some(ReadOnlyReason::Asked)
    } else if io.layout.headers_share_a_unit() {
        Some(ReadOnlyReason::SharedHeaderUnit)
    } else if attachment.linux_read_only && !options.force_rw {
        Some(ReadOnlyReason::InternalVolume)
    } else {
        None
    }
}

fn books(io: &Io, attachment: &Attachment, options: &OpenOptions) -> Accounting {
    let counts = &attachment.counts;
    let geometry = io.device.geometry();
    let bad_limit = match options.max_bad_blocks {
        _ if !geometry.can_have_bad_blocks() => 0,
        Some(limit) => limit,
        None => crate::attach::bad_block_limit(geometry.peb_count()),
    };
    Accounting {
        good: attachment.peb_count - counts.bad,
        bad: counts.bad,
        corrupted: counts.corrupted + counts.alien + counts.foreign + counts.unreadable,
        bad_limit,
        ..Accounting::default()
    }
}

fn volumes(attachment: &Attachment) -> BTreeMap<VolumeId, Volume> {
    let mut volumes: BTreeMap<VolumeId, Volume> =
        attachment.volumes.iter().map(|info| (info.id, in_use(info))).collect();
    let name = VolumeName::new("layout volume").expect("short and without NUL");
    let record = VolumeRecord {
        reserved_lebs: LAYOUT_LEBS,
        alignment: 1,
        data_pad: 0,
        kind: VolumeKind::Dynamic,
        upd_marker: false,
        name,
        flags: VolumeFlags::default(),
    };
    let table = Volume { compat: Compat::Reject, ..Volume::empty(record) };
    volumes.insert(LAYOUT_VOLUME, table);
    for (id, volume) in &mut volumes {
        for (leb, peb) in attachment.map(*id).into_iter().flat_map(crate::map::VolumeMap::iter) {
            if let Some(entry) = volume.map.get_mut(leb.index()) {
                *entry = Some(peb);
            }
        }
    }
    volumes
}

fn in_use(info: &VolumeInfo) -> Volume {
    let record = VolumeRecord {
        reserved_lebs: info.reserved_lebs,
        alignment: info.alignment,
        data_pad: info.data_pad,
        kind: info.kind,
        upd_marker: info.upd_marker,
        name: info.name.clone(),
        flags: info.flags,
    };
    Volume {
        used_lebs: if info.kind == VolumeKind::Static { info.used_lebs } else { 0 },
        last_leb_bytes: if info.kind == VolumeKind::Static { info.last_leb_bytes } else { 0 },
        corrupted: info.corrupted,
        ..Volume::empty(record)
    }
}
