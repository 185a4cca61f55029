//! The fastmap: a checkpoint of the state of every eraseblock, so that attaching reads only a few
//! of them (spec: ubi 16).
//!
//! # Invariants
//! 1. [`Fastmap::decode`] reads what [`Fastmap::encode`] writes.
//! 2. Memory while decoding is bounded by the size of the input.

use crate::error::{Expected, FormatError};
use crate::types::{EraseCount, VolumeKind};
use alloc::vec::Vec;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Location, Peb, VolumeId};

/// The anchor lies in one of this many eraseblocks at the start of the device (spec: ubi 16.1).
pub const ANCHOR_RANGE: u32 = 64;

/// The maximum number of eraseblocks of a fastmap.
pub const MAX_BLOCKS: usize = 32;

/// The maximum number of entries of a pool.
pub const MAX_POOL: usize = 256;

pub(crate) const SUPER_MAGIC: u32 = 0x7B11_D69F;
pub(crate) const HEADER_MAGIC: u32 = 0xD4B8_2EF7;
pub(crate) const POOL_MAGIC: u32 = 0x67AF_4D08;
pub(crate) const VOLUME_MAGIC: u32 = 0xFA37_0ED1;
pub(crate) const EBA_MAGIC: u32 = 0xF0C0_40A8;
const VERSION: u32 = 1 << 24;
const UNMAPPED: u32 = u32::MAX;

const CRC_OFFSET: usize = 8;
const SUPER_SIZE: usize = 312;
const POOL_PADDING: usize = 16;
const WHAT: &str = "fastmap";

/// An eraseblock and its erase counter.
pub type CountedPeb = (Peb, EraseCount);

/// Eraseblocks that may have been used since the fastmap was written and must therefore be scanned.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastmapPool {
    /// The maximum number of entries; 0 to 256.
    pub max: u16,
    /// The blocks, at most 256.
    pub pebs: Vec<Peb>,
}

/// A volume in a fastmap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastmapVolume {
    /// Its number.
    pub id: VolumeId,
    /// Its kind.
    pub kind: VolumeKind,
    /// Unused bytes at the end of each LEB.
    pub data_pad: u32,
    /// LEBs its data occupies.
    pub used_lebs: u32,
    /// Bytes in the last of them.
    pub last_leb_bytes: u32,
    /// The eraseblock of each LEB.
    pub map: Vec<Option<Peb>>,
}

/// The contents of a fastmap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fastmap {
    /// The blocks of the fastmap, the anchor first; 1 to 32.
    pub blocks: Vec<CountedPeb>,
    /// The number of bad blocks of the device.
    pub bad_pebs: u32,
    /// The pool for new data.
    pub user_pool: FastmapPool,
    /// The pool for moved LEBs.
    pub wl_pool: FastmapPool,
    /// Blocks that are ready for use and in no pool.
    pub free: Vec<CountedPeb>,
    /// Blocks that hold a LEB.
    pub used: Vec<CountedPeb>,
    /// Blocks that hold a LEB and must be moved.
    pub scrub: Vec<CountedPeb>,
    /// Blocks that wait to be erased.
    pub erase: Vec<CountedPeb>,
    /// User volumes by ascending number, then the layout volume.
    pub volumes: Vec<FastmapVolume>,
}

/// Returns the size in bytes of the fastmap of a device, a whole number of LEBs, or `None` if it
/// needs too many (spec: ubi 16.1).
pub fn fastmap_size(peb_count: u32, leb_size: u32) -> Option<usize> {
    let bytes =
        312 + 32 + 2 * 1048 + 8 * u64::from(peb_count) + 40 * 129 + 4 * u64::from(peb_count);
    let blocks = bytes.div_ceil(u64::from(leb_size.max(1)));
    let blocks = usize::try_from(blocks).ok().filter(|blocks| *blocks <= MAX_BLOCKS)?;
    blocks.checked_mul(leb_size as usize)
}

/// Returns the largest sizes of the user pool and of the pool for moves (spec: ubi 16.4).
pub fn pool_sizes(peb_count: u32) -> (u16, u16) {
    let user = (peb_count / 100 * 5).clamp(8, 256);
    let user = u16::try_from(user).expect("at most 256");
    (user, user / 2)
}

/// The information about the fastmap in its first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuperBlock {
    /// The blocks of the fastmap, the anchor first.
    pub blocks: Vec<CountedPeb>,
}

impl SuperBlock {
    /// Decodes the start of the first block.
    ///
    /// # Errors
    ///
    /// Fails if magic, version, or number of blocks is wrong.
    pub fn decode(bytes: &[u8], at: Location) -> Result<Self, FormatError> {
        let mut reader = Reader { bytes, pos: 0, at };
        reader.magic(SUPER_MAGIC)?;
        let version = reader.word()?;
        reader.rule(version >> 24 == 1, "version", version >> 24, Expected::Number(1))?;
        reader.word()?;
        let count = reader.word()?;
        let legal = (1..=MAX_BLOCKS).contains(&(count as usize));
        reader.rule(legal, "number of blocks", count, Expected::Words("1 to 32"))?;
        let mut words = Vec::with_capacity(2 * MAX_BLOCKS);
        for _ in 0..2 * MAX_BLOCKS {
            words.push(reader.word()?);
        }
        let (pebs, counters) = words.split_at(MAX_BLOCKS);
        let blocks = pebs.iter().zip(counters).take(count as usize);
        let blocks = blocks.map(|(peb, ec)| Ok((Peb::new(*peb), reader.counter(*ec)?)));
        Ok(Self { blocks: blocks.collect::<Result<_, _>>()? })
    }
}

impl Fastmap {
    /// Returns the bytes, zero-filled up to `size`, or `None` if they do not fit or if there are
    /// too many blocks or pool entries.
    pub fn encode(&self, size: usize) -> Option<Vec<u8>> {
        let fits = self.blocks.len() <= MAX_BLOCKS
            && [&self.user_pool, &self.wl_pool].iter().all(|pool| pool.pebs.len() <= MAX_POOL);
        if !fits {
            return None;
        }
        let mut out = Writer { bytes: Vec::with_capacity(size) };
        self.write_super(&mut out);
        self.write_header(&mut out);
        for pool in [&self.user_pool, &self.wl_pool] {
            write_pool(&mut out, pool);
        }
        for (peb, ec) in [&self.free, &self.used, &self.scrub, &self.erase].into_iter().flatten() {
            out.words(&[peb.get(), ec.get()]);
        }
        for volume in &self.volumes {
            write_volume(&mut out, volume);
        }
        if out.bytes.len() >= size {
            return None;
        }
        out.bytes.resize(size, 0);
        let crc = crc32(&out.bytes).to_be_bytes();
        out.bytes[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
        Some(out.bytes)
    }

    fn write_super(&self, out: &mut Writer) {
        out.words(&[SUPER_MAGIC, VERSION, 0, len(&self.blocks)]);
        let rest = MAX_BLOCKS - self.blocks.len();
        self.blocks.iter().for_each(|(peb, _)| out.words(&[peb.get()]));
        out.zeros(4 * rest);
        self.blocks.iter().for_each(|(_, ec)| out.words(&[ec.get()]));
        out.zeros(4 * rest + 8 + 32);
    }

    fn write_header(&self, out: &mut Writer) {
        let counts = [len(&self.free), len(&self.used), len(&self.scrub)];
        out.words(&[HEADER_MAGIC]);
        out.words(&counts);
        out.words(&[self.bad_pebs, len(&self.erase), len(&self.volumes), 0]);
    }

    /// Decodes the data of all blocks, concatenated. `at` is the anchor.
    ///
    /// # Errors
    ///
    /// Fails if a magic or the checksum is wrong, a number is illegal, or a structure extends
    /// beyond the end.
    pub fn decode(bytes: &[u8], at: Location) -> Result<Self, FormatError> {
        let blocks = SuperBlock::decode(bytes, at)?.blocks;
        check_crc(bytes, at)?;
        let mut reader = Reader { bytes, pos: SUPER_SIZE, at };
        reader.magic(HEADER_MAGIC)?;
        let mut counts = [0; 7];
        for count in &mut counts {
            *count = reader.word()?;
        }
        let [free, used, scrub, bad_pebs, erase, volumes, _] = counts;
        let user_pool = read_pool(&mut reader)?;
        let wl_pool = read_pool(&mut reader)?;
        let [free, used, scrub, erase] = [free, used, scrub, erase].map(|n| reader.records(n));
        let (free, used, scrub, erase) = (free?, used?, scrub?, erase?);
        let volumes = (0..volumes).map(|_| read_volume(&mut reader)).collect::<Result<_, _>>()?;
        Ok(Self { blocks, bad_pebs, user_pool, wl_pool, free, used, scrub, erase, volumes })
    }
}

fn check_crc(bytes: &[u8], at: Location) -> Result<(), FormatError> {
    let mut reader = Reader { bytes, pos: CRC_OFFSET, at };
    let stored = reader.word()?;
    let mut copy = bytes.to_vec();
    copy[CRC_OFFSET..CRC_OFFSET + 4].fill(0);
    let computed = crc32(&copy);
    if stored == computed {
        return Ok(());
    }
    Err(FormatError::Crc { at, what: WHAT, stored, computed })
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn words(&mut self, words: &[u32]) {
        self.bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }

    fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }
}

fn write_pool(out: &mut Writer, pool: &FastmapPool) {
    out.words(&[POOL_MAGIC, len(&pool.pebs) << 16 | u32::from(pool.max)]);
    pool.pebs.iter().for_each(|peb| out.words(&[peb.get()]));
    out.zeros(4 * (MAX_POOL - pool.pebs.len()) + POOL_PADDING);
}

/// The numbers of the kinds differ from those in headers (spec: ubi 16.2).
fn write_volume(out: &mut Writer, volume: &FastmapVolume) {
    let kind = match volume.kind {
        VolumeKind::Dynamic => 3,
        VolumeKind::Static => 4,
    };
    out.words(&[VOLUME_MAGIC, volume.id.get(), kind << 24, volume.data_pad]);
    out.words(&[volume.used_lebs, volume.last_leb_bytes, 0, 0]);
    out.words(&[EBA_MAGIC, len(&volume.map)]);
    volume.map.iter().for_each(|peb| out.words(&[peb.map_or(UNMAPPED, Peb::get)]));
}

struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    at: Location,
}

impl Reader<'_> {
    fn word(&mut self) -> Result<u32, FormatError> {
        let (at, found, expected) = (self.at, self.bytes.len(), self.pos.saturating_add(4));
        let word = self.bytes.get(self.pos..expected).and_then(|word| word.first_chunk::<4>());
        let word = word.ok_or(FormatError::Short { at, what: WHAT, found, expected })?;
        self.pos = expected;
        Ok(u32::from_be_bytes(*word))
    }

    fn magic(&mut self, expected: u32) -> Result<(), FormatError> {
        let found = self.word()?;
        if found == expected {
            return Ok(());
        }
        Err(FormatError::Magic { at: self.at, what: WHAT, found, expected })
    }

    fn rule(
        &self,
        holds: bool,
        field: &'static str,
        found: u32,
        expected: Expected,
    ) -> Result<(), FormatError> {
        if holds { Ok(()) } else { Err(self.broken(field, found, expected)) }
    }

    fn broken(&self, field: &'static str, found: u32, expected: Expected) -> FormatError {
        let (at, what, found) = (self.at, WHAT, u64::from(found));
        FormatError::Field { at, what, field, found, expected }
    }

    fn counter(&self, word: u32) -> Result<EraseCount, FormatError> {
        let at_most = Expected::AtMost(0x7FFF_FFFF);
        let (at, what, found) = (self.at, WHAT, u64::from(word));
        let field = "erase counter";
        EraseCount::new(found).ok_or(FormatError::Field {
            at,
            what,
            field,
            found,
            expected: at_most,
        })
    }

    fn records(&mut self, count: u32) -> Result<Vec<CountedPeb>, FormatError> {
        let mut records = Vec::new();
        for _ in 0..count {
            let (peb, ec) = (self.word()?, self.word()?);
            records.push((Peb::new(peb), self.counter(ec)?));
        }
        Ok(records)
    }
}

fn read_pool(reader: &mut Reader<'_>) -> Result<FastmapPool, FormatError> {
    reader.magic(POOL_MAGIC)?;
    let sizes = reader.word()?;
    let (size, max) = (sizes >> 16, sizes & 0xFFFF);
    for (field, found) in [("pool size", size), ("largest pool size", max)] {
        reader.rule(found as usize <= MAX_POOL, field, found, Expected::AtMost(MAX_POOL as u64))?;
    }
    let mut pebs = Vec::with_capacity(MAX_POOL);
    for _ in 0..MAX_POOL {
        pebs.push(Peb::new(reader.word()?));
    }
    pebs.truncate(size as usize);
    reader.pos += POOL_PADDING;
    Ok(FastmapPool { max: u16::try_from(max).unwrap_or(u16::MAX), pebs })
}

fn read_volume(reader: &mut Reader<'_>) -> Result<FastmapVolume, FormatError> {
    reader.magic(VOLUME_MAGIC)?;
    let (id, kind, data_pad) = (reader.word()?, reader.word()? >> 24, reader.word()?);
    let kind = match kind {
        3 => VolumeKind::Dynamic,
        4 => VolumeKind::Static,
        found => return Err(reader.broken("volume type", found, Expected::Words("3 or 4"))),
    };
    let (used_lebs, last_leb_bytes) = (reader.word()?, reader.word()?);
    reader.pos += 8;
    reader.magic(EBA_MAGIC)?;
    let count = reader.word()?;
    let mut map = Vec::new();
    for _ in 0..count {
        let peb = reader.word()?;
        map.push((peb != UNMAPPED).then(|| Peb::new(peb)));
    }
    let id = VolumeId::new(id);
    Ok(FastmapVolume { id, kind, data_pad, used_lebs, last_leb_bytes, map })
}

#[cfg(test)]
mod tests;
