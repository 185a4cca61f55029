//! The content of a disk: blocks that copies share until they are written.
//!
//! # Invariants
//! 1. Blocks that were never written have a pattern that no file system writes: a file that shows it
//!    shows what was on the disk before.
//! 2. Images with the same bytes and the same unreadable sectors have the same hash.

use super::super::kept::hex;
use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, OnceLock};

pub(super) const SECTOR: u64 = 512;
const BLOCK: usize = 4096;
/// What old data looks like.
const OLD: u8 = 0xA5;

#[derive(Debug)]
struct Block {
    bytes: [u8; BLOCK],
    hash: OnceLock<u128>,
}

/// The content of a disk.
#[derive(Clone, Debug)]
pub(super) struct Image {
    size: u64,
    blocks: BTreeMap<u64, Arc<Block>>,
    unreadable: BTreeSet<u64>,
}

impl Image {
    /// Returns a disk full of old data.
    pub(super) const fn new(size: u64) -> Self {
        Self { size, blocks: BTreeMap::new(), unreadable: BTreeSet::new() }
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buf`; fails if a sector of the range cannot be read.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let sectors = offset / SECTOR..(offset + buf.len() as u64).div_ceil(SECTOR);
        if self.unreadable.range(sectors).next().is_some() {
            return Err(io::Error::other("the page was damaged by a power cut"));
        }
        for (number, from, part) in parts(offset, buf.len()) {
            let buf = &mut buf[part];
            match self.blocks.get(&number) {
                Some(block) => buf.copy_from_slice(&block.bytes[from..from + buf.len()]),
                None => buf.fill(OLD),
            }
        }
        Ok(())
    }

    /// Writes `data`, whole sectors; they can be read again.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for sector in offset / SECTOR..(offset + data.len() as u64) / SECTOR {
            self.unreadable.remove(&sector);
        }
        for (number, from, part) in parts(offset, data.len()) {
            let old = self.blocks.get(&number);
            let mut bytes = old.map_or([OLD; BLOCK], |block| block.bytes);
            let data = &data[part];
            bytes[from..from + data.len()].copy_from_slice(data);
            self.blocks.insert(number, Arc::new(Block { bytes, hash: OnceLock::new() }));
        }
    }

    /// Makes a range, whole sectors, unreadable until it is written.
    pub(super) fn damage(&mut self, offset: u64, len: u64) {
        self.unreadable.extend(offset / SECTOR..(offset + len) / SECTOR);
    }

    /// Returns a hash of everything.
    pub(super) fn hash(&self) -> String {
        let mut all = Sha256::new();
        for (number, block) in &self.blocks {
            all.update(number.to_le_bytes());
            let hash = block.hash.get_or_init(|| {
                let digest = Sha256::digest(block.bytes);
                digest.iter().take(16).fold(0, |hash, byte| hash << 8 | u128::from(*byte))
            });
            all.update(hash.to_le_bytes());
        }
        for sector in &self.unreadable {
            all.update(sector.to_le_bytes());
        }
        hex(&all.finalize())
    }

    /// Returns the written blocks as bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.size.to_le_bytes().to_vec();
        bytes.extend((self.blocks.len() as u64).to_le_bytes());
        for (number, block) in &self.blocks {
            bytes.extend(number.to_le_bytes());
            bytes.extend(block.bytes);
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] returned, and moves `bytes` to what follows it.
    pub(super) fn from_bytes(bytes: &mut &[u8]) -> Result<Self> {
        let mut image = Self::new(take_u64(bytes)?);
        for _ in 0..take_u64(bytes)? {
            let number = take_u64(bytes)?;
            ensure!(number < image.size.div_ceil(BLOCK as u64), "block {number} of the image");
            image.write(number * BLOCK as u64, take(bytes, BLOCK)?);
        }
        Ok(image)
    }
}

/// Takes bytes from the front.
pub(super) fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    ensure!(bytes.len() >= len, "a recording ends {} bytes too early", len - bytes.len());
    let (front, rest) = bytes.split_at(len);
    *bytes = rest;
    Ok(front)
}

pub(super) fn take_u64(bytes: &mut &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(take(bytes, 8)?.try_into()?))
}

/// The parts of a range by block: its number, the first byte in it, and the range of the buffer.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let from = usize::try_from(at % BLOCK as u64).unwrap_or(0);
        let part = done..len.min(done + BLOCK - from);
        (done < len).then(|| {
            done = part.end;
            (at / BLOCK as u64, from, part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_share_nothing_that_is_written() {
        let mut image = Image::new(1 << 20);
        image.write(3584, &[1; 1024]);
        let (mut copy, hash) = (image.clone(), image.hash());
        assert_eq!(copy.hash(), hash);
        copy.write(4096, &[2; 512]);
        assert_ne!(copy.hash(), hash);
        let mut bytes = [0; 2048];
        image.read(3072, &mut bytes).unwrap();
        let expected = [[OLD; 512], [1; 512], [1; 512], [OLD; 512]].concat();
        assert_eq!(bytes.to_vec(), expected);
        copy.write(4096, &[1; 512]);
        assert_eq!(copy.hash(), hash);
        let bytes = image.to_bytes();
        assert_eq!(Image::from_bytes(&mut bytes.as_slice()).unwrap().hash(), hash);
        assert!(Image::from_bytes(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_damaged_sector_is_unreadable_until_it_is_written() {
        let mut image = Image::new(1 << 20);
        let hash = image.hash();
        image.damage(1024, 1024);
        assert_ne!(image.hash(), hash);
        let mut sector = [0; 512];
        assert!(image.read(1536, &mut sector).is_err() && image.read(2048, &mut sector).is_ok());
        image.write(1536, &[0; 512]);
        assert!(image.read(1536, &mut sector).is_ok() && image.read(1024, &mut sector).is_err());
    }
}
