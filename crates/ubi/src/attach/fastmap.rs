//! Attaches by fastmap: reads few blocks instead of all (spec: ubi 16.3).
//!
//! # Invariants
//! 1. A fastmap is used only if nothing that was read contradicts it; otherwise everything is
//!    scanned.
//! 2. The number of reads depends on the size of the fastmap and of its pools, not on the device.

use super::collect::{Candidate, Collected, Order, PebRecord};
use super::scan::{PebReading, Scanner};
use super::{PebState, is_fastmap};
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_ubi_format::constants::{
    FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, FIRST_INTERNAL_VOLUME, LAYOUT_VOLUME,
};
use eraseblock_ubi_format::fastmap::{ANCHOR_RANGE, CountedPeb, SuperBlock, fastmap_size};
use eraseblock_ubi_format::{
    Compat, EraseCount, Fastmap, FastmapVolume, HeaderState, SqNum, VidHeader, VolumeKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// The information that a device in use needs about its fastmap.
#[derive(Clone, Debug, Default)]
pub(crate) struct InUse {
    /// The blocks of the fastmap, the anchor first.
    pub(crate) blocks: Vec<Peb>,
    /// Blocks of the pools that are still free.
    pub(crate) user_pool: Vec<Peb>,
    pub(crate) wl_pool: Vec<Peb>,
    /// Largest sizes of the pools.
    pub(crate) pool_sizes: (u16, u16),
    /// The volumes it lists.
    pub(crate) volumes: Vec<VolumeId>,
    /// Blocks whose content is known only from the fastmap, which may be out of date.
    pub(crate) unsure: Vec<bool>,
}

/// The result of attaching by fastmap.
pub(super) enum Attempt {
    /// The device has none; the headers of the first blocks were read on the way.
    Absent(Vec<PebReading>),
    /// The device has one that cannot be used, for this reason.
    Unusable(String),
    Usable(Box<(Collected, InUse)>),
}

/// Finds a fastmap and reads it.
pub(super) fn attempt(scanner: &Scanner<'_>) -> Attempt {
    let count = scanner.device.geometry().peb_count();
    if count <= ANCHOR_RANGE {
        return Attempt::Absent(Vec::new());
    }
    let readings = scanner.read_range(0..ANCHOR_RANGE);
    let Some(anchor) = newest_anchor(&readings) else { return Attempt::Absent(readings) };
    let stage = Stage { scanner, readings: &readings, count };
    match stage
        .read(anchor)
        .and_then(|(map, image_seq, sqnum)| Builder::new(&stage, map, image_seq, sqnum).build())
    {
        Ok(found) => Attempt::Usable(Box::new(found)),
        Err(message) => Attempt::Unusable(format!("fastmap in {anchor:?}: {message}")),
    }
}

/// Returns the number of eraseblocks of the flash that the newest fastmap describes: each is listed
/// once, or counted as bad. `None` if there is no fastmap; an error says why it cannot be read.
pub(super) fn flash_size(scanner: &Scanner<'_>) -> Option<Result<u32, String>> {
    let count = scanner.device.geometry().peb_count();
    let readings = scanner.read_range(0..ANCHOR_RANGE.min(count));
    let anchor = newest_anchor(&readings)?;
    let stage = Stage { scanner, readings: &readings, count };
    let read = stage.read_parts(anchor, None).map(|(map, ..)| {
        let lists = [&map.blocks, &map.free, &map.used, &map.scrub, &map.erase];
        let pools = map.user_pool.pebs.len() + map.wl_pool.pebs.len();
        let listed = lists.iter().map(|list| list.len()).sum::<usize>() + pools;
        u32::try_from(listed).unwrap_or(u32::MAX).saturating_add(map.bad_pebs)
    });
    Some(read.map_err(|message| format!("fastmap in {anchor:?}: {message}")))
}

/// Returns all super blocks among the first blocks.
fn anchors(readings: &[PebReading]) -> impl Iterator<Item = (SqNum, Peb)> + '_ {
    (0..).zip(readings).filter_map(|(number, reading)| {
        let header = vid(reading).filter(|header| header.volume == FASTMAP_ANCHOR_VOLUME)?;
        Some((header.sqnum, Peb::new(number)))
    })
}

fn newest_anchor(readings: &[PebReading]) -> Option<Peb> {
    anchors(readings).max().map(|(_, peb)| peb)
}

fn vid(reading: &PebReading) -> Option<&VidHeader> {
    match reading {
        PebReading::Headers {
            vid: HeaderState::Ok(header) | HeaderState::Bitflips(header),
            ..
        } => Some(header),
        _ => None,
    }
}

fn ec(reading: &PebReading) -> Option<(EraseCount, u32)> {
    match reading {
        PebReading::Headers {
            ec: HeaderState::Ok(header) | HeaderState::Bitflips(header), ..
        } => Some((header.erase_count, header.image_seq)),
        _ => None,
    }
}

struct Stage<'a> {
    scanner: &'a Scanner<'a>,
    readings: &'a [PebReading],
    count: u32,
}

impl Stage<'_> {
    /// Returns the headers of a block, read only once.
    fn with<T>(&self, peb: Peb, use_it: impl FnOnce(&PebReading) -> T) -> T {
        match self.readings.get(peb.index()) {
            Some(reading) => use_it(reading),
            None => use_it(&self.scanner.read_peb(peb)),
        }
    }

    /// Reads the fastmap; returns it with the number of the image and the highest sequence number.
    fn read(&self, anchor: Peb) -> Result<(Fastmap, u32, SqNum), String> {
        let bad_header = self.readings.iter().position(|reading| {
            matches!(reading, PebReading::Failed(_))
                || matches!(reading, PebReading::Headers { vid, .. } if vid.is_bad())
        });
        if let Some(peb) = bad_header {
            return Err(format!("the VID header of peb {peb} is damaged"));
        }
        let leb_size = self.scanner.layout.leb_size();
        let size = fastmap_size(self.count, leb_size).ok_or("the device is too large")?;
        self.read_parts(anchor, Some(size))
    }

    /// Like [`Self::read`]; for a flash of unknown size, the fastmap has as many bytes as it
    /// states.
    fn read_parts(
        &self,
        anchor: Peb,
        size: Option<usize>,
    ) -> Result<(Fastmap, u32, SqNum), String> {
        let leb_size = self.scanner.layout.leb_size() as usize;
        let mut bytes = vec![0; leb_size];
        let image_seq = self.with(anchor, ec).ok_or("the EC header is damaged")?.1;
        let mut sqnum = self.read_block(anchor, 0, image_seq, &mut bytes)?;
        let at = Location::peb(anchor);
        let start = SuperBlock::decode(&bytes, at).map_err(|error| error.to_string())?;
        let size = size.unwrap_or(start.blocks.len() * leb_size);
        if start.blocks.len() * leb_size != size || start.blocks[0].0 != anchor {
            return Err(format!(
                "it has {} blocks, expected {}",
                start.blocks.len(),
                size / leb_size
            ));
        }
        bytes.resize(size, 0);
        for (number, (peb, _)) in (0..).zip(&start.blocks).skip(1) {
            let part = &mut bytes[number as usize * leb_size..][..leb_size];
            sqnum = sqnum.max(self.read_block(*peb, number, image_seq, part)?);
        }
        let map = Fastmap::decode(&bytes, at).map_err(|error| error.to_string())?;
        Ok((map, image_seq, sqnum))
    }

    fn read_block(
        &self,
        peb: Peb,
        number: u32,
        image_seq: u32,
        bytes: &mut [u8],
    ) -> Result<SqNum, String> {
        if peb.get() >= self.count {
            return Err(format!("its block {number} is {peb:?}, beyond the device"));
        }
        let expected = if number == 0 { FASTMAP_ANCHOR_VOLUME } else { FASTMAP_DATA_VOLUME };
        let sqnum = self.with(peb, |reading| {
            let (_, seq) = ec(reading)?;
            let header = vid(reading)?;
            let right = header.volume == expected && header.leb == Leb::new(number);
            (right && fits(seq, image_seq)).then_some(header.sqnum)
        });
        let sqnum = sqnum.ok_or_else(|| format!("{peb:?} is not its block {number}"))?;
        let offset = self.scanner.layout.data_offset();
        self.scanner.read(peb, offset, bytes).map_err(|error| error.to_string())?;
        Ok(sqnum)
    }
}

fn fits(seq: u32, image_seq: u32) -> bool {
    seq == 0 || image_seq == 0 || seq == image_seq
}

/// Converts a fastmap to the result of a scan.
struct Builder<'a> {
    stage: &'a Stage<'a>,
    map: Fastmap,
    image_seq: u32,
    sqnum: SqNum,
    all: Collected,
    /// Blocks already listed.
    listed: Vec<bool>,
    in_use: InUse,
}

impl<'a> Builder<'a> {
    fn new(stage: &'a Stage<'a>, map: Fastmap, image_seq: u32, sqnum: SqNum) -> Self {
        let count = stage.count as usize;
        let pebs = vec![PebRecord::known(PebState::Bad, None); count];
        let all = Collected::known(pebs, image_seq, sqnum);
        let in_use = InUse {
            blocks: map.blocks.iter().map(|(peb, _)| *peb).collect(),
            pool_sizes: (map.user_pool.max, map.wl_pool.max),
            volumes: map.volumes.iter().map(|volume| volume.id).collect(),
            unsure: vec![false; count],
            ..InUse::default()
        };
        Self { stage, map, image_seq, sqnum, all, listed: vec![false; count], in_use }
    }

    fn build(mut self) -> Result<(Collected, InUse), String> {
        let lists = [
            (std::mem::take(&mut self.map.blocks), PebState::Fastmap, false),
            (std::mem::take(&mut self.map.free), PebState::Free, false),
            (std::mem::take(&mut self.map.used), PebState::Foreign, false),
            (std::mem::take(&mut self.map.scrub), PebState::Foreign, true),
            (std::mem::take(&mut self.map.erase), PebState::Erase, false),
        ];
        for (list, state, scrub) in lists {
            for entry in list {
                self.list(entry, state)?;
                self.all.pebs[entry.0.index()].scrub = scrub;
            }
        }
        let mapped = self.map_lebs()?;
        let pooled = self.scan_pools()?;
        self.all.candidates = settle(mapped, pooled, &mut self.all.pebs);
        self.check_start()?;
        self.check_bad()?;
        self.finish();
        Ok((self.all, self.in_use))
    }

    /// A block that holds a LEB is `Foreign` until its LEB is known.
    fn list(&mut self, entry: CountedPeb, state: PebState) -> Result<(), String> {
        let (peb, mut ec) = entry;
        // It may have been erased since.
        if let Some((now, _)) = self.stage.readings.get(peb.index()).and_then(self::ec) {
            ec = ec.max(now);
        }
        match self.listed.get_mut(peb.index()) {
            Some(listed) if !*listed => *listed = true,
            Some(_) => return Err(format!("{peb:?} is listed twice")),
            None => return Err(format!("{peb:?} is beyond the device")),
        }
        let record = &mut self.all.pebs[peb.index()];
        *record = PebRecord::known(state, Some(ec));
        self.all.erase_counters.add(ec);
        self.in_use.unsure[peb.index()] = matches!(state, PebState::Foreign | PebState::Erase);
        Ok(())
    }

    fn map_lebs(&mut self) -> Result<Vec<Candidate>, String> {
        let mut mapped = Vec::new();
        let mut known = BTreeSet::new();
        for volume in &self.map.volumes {
            let id = volume.id;
            let legal = id.get() < FIRST_INTERNAL_VOLUME || id == LAYOUT_VOLUME;
            if !legal || !known.insert(id) {
                return Err(format!("volume {id} is there twice, or cannot be"));
            }
            for (leb, peb) in (0..).zip(&volume.map) {
                let Some(peb) = *peb else { continue };
                let record = self.all.pebs.get_mut(peb.index());
                let Some(record) = record.filter(|record| record.state == PebState::Foreign) else {
                    return Err(format!(
                        "LEB {leb} of volume {id} is in {peb:?}, which is not used"
                    ));
                };
                record.state = PebState::Used;
                let usable = self.stage.scanner.layout.leb_size().saturating_sub(volume.data_pad);
                mapped.push(Candidate::new(peb, &header_of(volume, leb, usable)));
            }
        }
        Ok(mapped)
    }

    /// Reads the pools as in a scan: all later writes are there.
    fn scan_pools(&mut self) -> Result<Vec<Candidate>, String> {
        let mut pooled = Vec::new();
        let user = std::mem::take(&mut self.map.user_pool.pebs);
        let moves = std::mem::take(&mut self.map.wl_pool.pebs);
        for peb in user {
            if self.scan_pool_peb(peb, &mut pooled)? {
                self.in_use.user_pool.push(peb);
            }
        }
        for peb in moves {
            if self.scan_pool_peb(peb, &mut pooled)? {
                self.in_use.wl_pool.push(peb);
            }
        }
        Ok(pooled)
    }

    /// Reads a block of a pool; returns whether it is still free.
    fn scan_pool_peb(&mut self, peb: Peb, pooled: &mut Vec<Candidate>) -> Result<bool, String> {
        if peb.get() >= self.stage.count {
            return Err(format!("{peb:?} of a pool is beyond the device"));
        }
        let found = self.stage.with(peb, |reading| match reading {
            PebReading::Headers { ec, vid, .. } => Some((ec.clone(), vid.clone())),
            _ => None,
        });
        let Some((HeaderState::Ok(ec) | HeaderState::Bitflips(ec), vid)) = found else {
            return Err(format!("the EC header of {peb:?} of a pool is damaged"));
        };
        if !fits(ec.image_seq, self.image_seq) {
            return Err(format!("{peb:?} of a pool belongs to image {}", ec.image_seq));
        }
        self.list((peb, ec.erase_count), PebState::Free)?;
        match vid {
            HeaderState::Erased => Ok(true),
            HeaderState::ErasedBitflips => {
                self.all.discard(peb, Order::First);
                Ok(false)
            }
            HeaderState::Ok(header) | HeaderState::Bitflips(header) => {
                if !self.in_use.volumes.contains(&header.volume) {
                    return Err(format!("{peb:?} of a pool has volume {}", header.volume));
                }
                let record = &mut self.all.pebs[peb.index()];
                record.state = PebState::Used;
                record.scrub = matches!(vid, HeaderState::Bitflips(_));
                pooled.push(Candidate::new(peb, &header));
                Ok(false)
            }
            _ => Err(format!("the VID header of {peb:?} of a pool is damaged")),
        }
    }

    /// Checks that the first blocks, which were read, are not newer than the fastmap, and that free
    /// ones are erased.
    fn check_start(&mut self) -> Result<(), String> {
        for (number, reading) in (0..).zip(self.stage.readings) {
            let peb = Peb::new(number);
            let state = self.all.pebs[peb.index()].state;
            let in_pool = !self.in_use.unsure[peb.index()] && state == PebState::Used;
            let header = vid(reading);
            if header.is_some_and(|header| is_fastmap(header.volume)) {
                let expected = matches!(state, PebState::Fastmap | PebState::Erase);
                if !expected {
                    return Err(format!("{peb:?} holds a fastmap, expected {state:?}"));
                }
                continue;
            }
            if !in_pool && header.is_some_and(|header| header.sqnum > self.sqnum) {
                return Err(format!("{peb:?} is newer than the fastmap"));
            }
            if state == PebState::Free {
                match reading {
                    PebReading::Headers { ec, vid: HeaderState::Erased, .. } if !ec.is_bad() => {}
                    _ if header.is_some() => return Err(format!("{peb:?} is not free")),
                    _ => self.all.discard(peb, Order::First),
                }
            }
        }
        let blocks = &self.in_use.blocks;
        let stale = anchors(self.stage.readings).filter(|(_, peb)| !blocks.contains(peb));
        self.all.anchors = stale.collect();
        Ok(())
    }

    /// Checks that unlisted blocks are bad; others may have gone bad since.
    fn check_bad(&mut self) -> Result<(), String> {
        let device = self.stage.scanner.device;
        let can_be_bad = device.geometry().can_have_bad_blocks();
        for peb in device.geometry().pebs() {
            let bad = can_be_bad && device.is_bad(peb).map_err(|error| error.to_string())?;
            match (self.listed[peb.index()], bad) {
                (false, false) => return Err(format!("{peb:?} is missing")),
                // Not one of the fastmap's own: these were read.
                (true, true) => {
                    self.all.pebs[peb.index()] = PebRecord::known(PebState::Bad, None);
                    self.all.candidates.retain(|one| one.peb != peb);
                    self.in_use.user_pool.retain(|one| *one != peb);
                    self.in_use.wl_pool.retain(|one| *one != peb);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Marks used blocks without a LEB, and those waiting to be erased, for erasing.
    fn finish(&mut self) {
        let free = |peb: &Peb| self.all.pebs[peb.index()].state == PebState::Free;
        self.in_use.user_pool.retain(free);
        self.in_use.wl_pool.retain(free);
        let listed = &self.all.erase_order();
        let waiting: Vec<Peb> = (0..self.stage.count)
            .map(Peb::new)
            .filter(|peb| {
                matches!(self.all.pebs[peb.index()].state, PebState::Foreign | PebState::Erase)
                    && !listed.contains(peb)
            })
            .collect();
        for peb in waiting {
            self.all.discard(peb, Order::Last);
        }
    }
}

/// Returns the header that a LEB of the fastmap would have, as far as it matters: every real header
/// is newer.
fn header_of(volume: &FastmapVolume, leb: u32, usable: u32) -> VidHeader {
    let is_static = volume.kind == VolumeKind::Static;
    let last = leb.checked_add(1) == Some(volume.used_lebs);
    VidHeader {
        kind: volume.kind,
        copy_flag: false,
        compat: Compat::None,
        volume: volume.id,
        leb: Leb::new(leb),
        data_size: if is_static && last { volume.last_leb_bytes } else { usable },
        used_lebs: if is_static { volume.used_lebs } else { 0 },
        data_pad: volume.data_pad,
        data_crc: 0,
        sqnum: SqNum::default(),
    }
}

/// Combines both lists. A static volume has as many LEBs as its newest header says; further LEBs of
/// the fastmap, or in a block of a pool, are dropped.
fn settle(
    mut mapped: Vec<Candidate>,
    mut pooled: Vec<Candidate>,
    pebs: &mut [PebRecord],
) -> Vec<Candidate> {
    let mut newest = BTreeMap::new();
    pooled.sort_by_key(|one| one.sqnum);
    for one in pooled.iter().filter(|one| one.traits().is_static) {
        newest.insert(one.volume, one.used_lebs);
    }
    mapped.retain_mut(|one| {
        let Some(used) = newest.get(&one.volume) else { return true };
        one.used_lebs = *used;
        let keep = one.leb.get() < *used;
        if !keep {
            pebs[one.peb.index()].state = PebState::Foreign;
        }
        keep
    });
    mapped.extend(pooled);
    mapped
}
