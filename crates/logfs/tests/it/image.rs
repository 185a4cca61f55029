//! Makes LogFS images from the specification alone (spec: readonly-formats A), so that the reader is
//! judged by code that shares nothing with it.

use std::collections::BTreeMap;

pub(crate) const SEGMENT: usize = 64 << 10;
const SEGMENTS: usize = 16;

pub(crate) const BLOCK: u8 = 4;
pub(crate) const INODE: u8 = 5;
pub(crate) const DENTRY: u8 = 6;

pub(crate) const DYNAMIC: u16 = 3;
pub(crate) const ANCHOR: u16 = 4;
pub(crate) const ALIAS: u16 = 0x0D;
pub(crate) const AREA: u16 = 0x0E;

/// The CRC of section A.2, bit by bit.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
        })
    })
}

/// Where the hash of a name puts its entry (section A.9), for unsigned characters.
fn slot(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0_u32, |h, byte| h.wrapping_mul(293).wrapping_add((*byte).into()));
    u64::from(hash % 16)
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(eraseblock_codec::zlib::Encoder::new(3).unwrap().compress(bytes, 9000, &mut out));
    out
}

/// Blocks of a file by position.
pub(crate) type Blocks = BTreeMap<u64, Vec<u8>>;

/// Where the blocks of a file are.
pub(crate) type Places = BTreeMap<u64, u64>;

/// The attributes of a new inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) mode: u16,
    pub(crate) size: u64,
}

/// An image in the making.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    write_shift: u8,
    /// Segments in bad eraseblocks, which are left out.
    bad: &'static [usize],
    /// Where the next object begins.
    pub(crate) at: usize,
    /// Where the next entry of the journal begins.
    journal_at: usize,
    /// Inodes by number.
    pub(crate) inodes: Places,
    pub(crate) entries: BTreeMap<u64, BTreeMap<u64, Vec<u8>>>,
}

impl Image {
    pub(crate) fn new(write_shift: u8) -> Self {
        Self::on_flash(write_shift, &[])
    }

    /// The same on a flash with bad eraseblocks, each with one segment.
    pub(crate) fn on_flash(write_shift: u8, bad: &'static [usize]) -> Self {
        let mut good = (0..SEGMENTS).filter(|segment| !bad.contains(segment));
        let [first, journal, objects] = [(); 3].map(|()| good.next().unwrap());
        let mut image = Self {
            bytes: vec![0xFF; SEGMENT * SEGMENTS],
            write_shift,
            bad,
            at: objects * SEGMENT,
            journal_at: journal * SEGMENT + 32,
            inodes: Places::new(),
            entries: BTreeMap::new(),
        };
        let superblock = image.superblock(journal);
        image.bytes[first * SEGMENT..][..256].copy_from_slice(&superblock);
        let second = (SEGMENTS - 1) * SEGMENT - 4096;
        image.bytes[second..][..256].copy_from_slice(&superblock);
        image.segment(journal, 2);
        image.segment(objects, 3);
        image
    }

    fn superblock(&self, journal: usize) -> Vec<u8> {
        let mut sb = vec![0; 256];
        sb[6] = 1;
        let sum = crc(&sb[4..24]);
        sb[..4].copy_from_slice(&sum.to_be_bytes());
        sb[24..32].copy_from_slice(&0x7A3A_8E5C_B9D5_BF67_u64.to_be_bytes());
        sb[36..42].copy_from_slice(&[3, 4, 1, 16, 12, self.write_shift]);
        sb[48..56].copy_from_slice(&(self.bytes.len() as u64).to_be_bytes());
        sb[112..116].copy_from_slice(&(journal as u32).to_be_bytes());
        let sum = crc(&sb[36..]);
        sb[32..36].copy_from_slice(&sum.to_be_bytes());
        sb
    }

    fn segment(&mut self, number: usize, kind: u8) {
        let mut header = vec![0; 24];
        header[6] = kind;
        header[8..12].copy_from_slice(&(number as u32).to_be_bytes());
        header[16..24].copy_from_slice(&7_u64.to_be_bytes());
        let sum = crc(&header[4..]);
        header[..4].copy_from_slice(&sum.to_be_bytes());
        self.bytes[number * SEGMENT..][..24].copy_from_slice(&header);
    }

    /// Writes an object; returns its place.
    pub(crate) fn object(
        &mut self,
        kind: u8,
        ino: u64,
        bix: u64,
        data: &[u8],
        packed: bool,
    ) -> u64 {
        let payload = if packed { zlib(data) } else { data.to_vec() };
        let mut header = vec![0; 28];
        header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        header[6] = kind;
        header[7] = packed.into();
        header[8..16].copy_from_slice(&ino.to_be_bytes());
        header[16..24].copy_from_slice(&bix.to_be_bytes());
        let sum = crc(&header[4..24]);
        header[..4].copy_from_slice(&sum.to_be_bytes());
        header[24..28].copy_from_slice(&crc(&payload).to_be_bytes());
        header.extend(payload);
        if self.at.is_multiple_of(SEGMENT) || self.at % SEGMENT + header.len() > SEGMENT {
            self.at = self.at.next_multiple_of(SEGMENT);
            while self.bad.contains(&(self.at / SEGMENT)) {
                self.at += SEGMENT;
            }
            self.segment(self.at / SEGMENT, 3);
        }
        if self.at.is_multiple_of(SEGMENT) {
            self.at += 24;
        }
        let at = self.at;
        self.bytes[at..][..header.len()].copy_from_slice(&header);
        self.at += header.len();
        at as u64
    }

    /// Writes the blocks of pointers above `places`; returns the height and the 17 pointers.
    pub(crate) fn tree(&mut self, ino: u64, places: &Places) -> (u8, [u64; 17]) {
        let mut pointers = [0; 17];
        for (bix, place) in places.range(..16) {
            pointers[*bix as usize] = *place;
        }
        let mut level: Places = places.range(16..).map(|(bix, place)| (*bix, *place)).collect();
        let Some(last) = level.keys().last().copied() else { return (0, pointers) };
        let mut height = 1;
        while last >> (9 * height) != 0 {
            height += 1;
        }
        for height in 1..=height {
            let mut blocks: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            for (index, place) in level {
                let block = blocks.entry(index / 512).or_insert_with(|| vec![0; 4096]);
                let child = (index % 512) as usize * 8;
                // The hint in the highest bit must not matter.
                let pointer = place | u64::from(index % 2 == 0) << 63;
                block[child..child + 8].copy_from_slice(&pointer.to_be_bytes());
            }
            level = Places::new();
            for (index, block) in blocks {
                // The low bits of the position may be any.
                let bix = (index << (9 * height)) + 3;
                level.insert(index, self.object(BLOCK, ino, bix, &block, false));
            }
        }
        pointers[16] = level[&0];
        (u8::try_from(height).unwrap(), pointers)
    }

    /// Writes an inode with the pointers of its tree.
    pub(crate) fn inode(&mut self, ino: u64, meta: Meta, (height, pointers): (u8, [u64; 17])) {
        let mut inode = vec![0; 200];
        inode[..2].copy_from_slice(&meta.mode.to_be_bytes());
        inode[2] = height;
        inode[8..12].copy_from_slice(&1000_u32.to_be_bytes());
        inode[12..16].copy_from_slice(&100_u32.to_be_bytes());
        inode[24..32].copy_from_slice(&1_234_567_890_000_000_007_u64.to_be_bytes());
        inode[40..44].copy_from_slice(&1_u32.to_be_bytes());
        inode[56..64].copy_from_slice(&meta.size.to_be_bytes());
        for (index, pointer) in pointers.iter().enumerate() {
            inode[64 + index * 8..][..8].copy_from_slice(&pointer.to_be_bytes());
        }
        let place = self.object(INODE, 1, ino, &inode, ino.is_multiple_of(2));
        self.inodes.insert(ino, place);
    }

    /// Writes a file.
    pub(crate) fn file(&mut self, ino: u64, size: u64, blocks: &Blocks, packed: bool) {
        let places: Places = blocks
            .iter()
            .map(|(bix, data)| (*bix, self.object(BLOCK, ino, *bix, data, packed)))
            .collect();
        let tree = self.tree(ino, &places);
        self.inode(ino, Meta { mode: 0o100_640, size }, tree);
    }

    /// Adds a name to a directory, which [`Self::directory`] writes. Returns its position.
    pub(crate) fn name(&mut self, dir: u64, name: &[u8], ino: u64, kind: u8) -> u64 {
        let mut dentry = vec![0; 266];
        dentry[..8].copy_from_slice(&ino.to_be_bytes());
        dentry[8..10].copy_from_slice(&(name.len() as u16).to_be_bytes());
        dentry[10] = kind;
        dentry[11..11 + name.len()].copy_from_slice(name);
        let entries = self.entries.entry(dir).or_default();
        let mut at = slot(name);
        // Linux has further places; any place is read.
        while entries.contains_key(&at) {
            at = if at < 16 { 16 + at } else { at + 700 };
        }
        entries.insert(at, dentry);
        at
    }

    pub(crate) fn directory(&mut self, ino: u64) {
        let entries = self.entries.remove(&ino).unwrap_or_default();
        let last = entries.keys().last().map_or(0, |last| last + 1);
        let places: Places = entries
            .iter()
            .map(|(bix, data)| (*bix, self.object(DENTRY, ino, *bix, data, bix % 2 == 0)))
            .collect();
        let tree = self.tree(ino, &places);
        self.inode(ino, Meta { mode: 0o040_755, size: last * 4096 }, tree);
    }

    /// Writes an entry of the journal; returns its place.
    pub(crate) fn journal(&mut self, kind: u16, data: &[u8], packed: bool) -> u64 {
        let payload = if packed { zlib(data) } else { data.to_vec() };
        let mut entry = vec![0; 16];
        entry[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        entry[6..8].copy_from_slice(&(data.len() as u16).to_be_bytes());
        entry[8..10].copy_from_slice(&kind.to_be_bytes());
        entry[10] = packed.into();
        entry.extend(&payload);
        let sum = crc(&entry[4..]);
        entry[..4].copy_from_slice(&sum.to_be_bytes());
        let at = self.journal_at;
        self.bytes[at..][..entry.len()].copy_from_slice(&entry);
        self.journal_at += entry.len().next_multiple_of(16);
        at as u64
    }

    /// Writes the inode file and a commit that lists it and other entries.
    pub(crate) fn commit(&mut self, others: &[u64]) {
        let inodes = self.inodes.clone();
        let (height, pointers) = self.tree(1, &inodes);
        let mut anchor = vec![0; 168];
        anchor[24] = height;
        for (index, pointer) in pointers.iter().enumerate() {
            anchor[32 + index * 8..][..8].copy_from_slice(&pointer.to_be_bytes());
        }
        let mut places = vec![self.journal(ANCHOR, &anchor, true)];
        places.extend(others);
        let list: Vec<u8> = places.iter().flat_map(|place| place.to_be_bytes()).collect();
        self.journal(2, &list, false);
    }
}

/// An alias: pointer `child` of a block is `value`.
pub(crate) fn alias(ino: u64, bix: u64, level: u8, child: u16, value: u64) -> Vec<u8> {
    let mut alias = vec![0; 32];
    alias[..8].copy_from_slice(&ino.to_be_bytes());
    alias[8..16].copy_from_slice(&bix.to_be_bytes());
    alias[16..24].copy_from_slice(&value.to_be_bytes());
    alias[24] = level;
    alias[30..32].copy_from_slice(&child.to_be_bytes());
    alias
}
