//! Flash as bytes without gaps: the logical eraseblocks of a volume, and the good eraseblocks of an MTD
//! partition.
//!
//! # Invariants
//! 1. Bytes with uncorrectable bit errors are an error: the file systems that are only read have no
//!    checksums of their own.
//! 2. Every block is asked once whether it is bad: on a chip, that reads its spare bytes.

use super::{Located, Reader, reader_at};
use crate::error::Error;
use eraseblock_base::{Leb, Peb};
use eraseblock_mtd::{LebDevice, Mtd, ReadAt, ReadOutcome, Slice};
use std::fmt::Debug;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The logical eraseblocks of a volume, one after the other.
#[derive(Debug)]
pub(crate) struct Lebs<D> {
    device: D,
    size: u64,
}

impl<D: Deref<Target: LebDevice>> Lebs<D> {
    /// All bytes of a volume.
    pub(crate) fn all(device: D) -> Self {
        let size = u64::from(device.leb_count()) * u64::from(device.leb_size());
        Self { device, size }
    }

    /// The first `size` bytes of a volume.
    pub(crate) fn new(device: D, size: u64) -> Self {
        Self { size, ..Self::all(device) }
    }
}

impl<D> ReadAt for Lebs<D>
where
    D: Deref<Target: LebDevice> + Send + Sync + Debug,
{
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        pieces(buf, offset, self.size, self.device.leb_size(), |leb, inside, part| {
            let outcome = self.device.read(Leb::new(leb), inside, part);
            good(outcome.map_err(io::Error::other)?, || format!("leb {leb}:{inside}"))
        })
    }
}

/// The good eraseblocks of a flash, one after the other.
#[derive(Debug)]
pub(super) struct GoodBlocks {
    device: Arc<dyn Mtd>,
    blocks: Vec<Peb>,
}

impl GoodBlocks {
    /// Lists them. Fails if the flash cannot say which are bad.
    pub(super) fn of(device: &Arc<dyn Mtd>) -> Result<Self, Error> {
        let mut blocks = Vec::new();
        for block in (0..device.geometry().peb_count()).map(Peb::new) {
            if !device.is_bad(block)? {
                blocks.push(block);
            }
        }
        Ok(Self { device: Arc::clone(device), blocks })
    }

    fn peb_size(&self) -> u64 {
        self.device.geometry().peb_size().into()
    }

    /// Returns where they begin and end on the flash.
    fn reach(&self) -> Range<u64> {
        let place = |block: &Peb| u64::from(block.get()) * self.peb_size();
        let end = self.blocks.last().map_or(0, |last| place(last) + self.peb_size());
        self.blocks.first().map_or(0, place)..end
    }
}

/// All eraseblocks of a flash, one after the other. What is read of a bad one is what the flash says.
#[derive(Debug)]
struct AllBlocks(Arc<dyn Mtd>);

impl ReadAt for AllBlocks {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.geometry().size())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let peb_size = self.0.geometry().peb_size();
        pieces(buf, offset, self.size()?, peb_size, |block, inside, part| {
            let at = u64::from(block) * u64::from(peb_size) + u64::from(inside);
            let outcome = self.0.read(at, part);
            good(outcome.map_err(io::Error::other)?, || format!("peb {block}:{inside}"))
        })
    }
}

impl ReadAt for GoodBlocks {
    fn size(&self) -> io::Result<u64> {
        Ok(self.blocks.len() as u64 * u64::from(self.device.geometry().peb_size()))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let peb_size = self.device.geometry().peb_size();
        pieces(buf, offset, self.size()?, peb_size, |index, inside, part| {
            let block = self.blocks.get(index as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
            let at = u64::from(block.get()) * u64::from(peb_size) + u64::from(inside);
            let outcome = self.device.read(at, part);
            good(outcome.map_err(io::Error::other)?, || format!("peb {}:{inside}", block.get()))
        })
    }
}

/// Splits a read at the borders of blocks: `read` takes the number of a block, an offset in it, and where
/// the bytes go.
fn pieces(
    buf: &mut [u8],
    offset: u64,
    size: u64,
    block_size: u32,
    read: impl Fn(u32, u32, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    if offset.checked_add(buf.len() as u64).is_none_or(|end| end > size) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (mut position, mut rest) = (offset, buf);
    while !rest.is_empty() {
        let block = u32::try_from(position / u64::from(block_size)).map_err(io::Error::other)?;
        let inside = u32::try_from(position % u64::from(block_size)).map_err(io::Error::other)?;
        let len = rest.len().min((block_size - inside) as usize);
        let (part, after) = rest.split_at_mut(len);
        read(block, inside, part)?;
        position += len as u64;
        rest = after;
    }
    Ok(())
}

fn good(outcome: ReadOutcome, place: impl Fn() -> String) -> io::Result<()> {
    if outcome.uncorrectable {
        return Err(io::Error::other(format!("{}: uncorrectable bit errors", place())));
    }
    Ok(())
}

/// Which eraseblocks are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Depth {
    /// The first one that is good.
    First,
    /// All good ones.
    All,
}

/// Finds a file system that is only read at the start of a good eraseblock of a flash. Bad blocks are
/// skipped, and so is what comes before. Fails if the flash cannot be read.
pub(super) fn find(good: &Arc<GoodBlocks>, depth: Depth) -> Result<Option<Located>, Error> {
    let peb_size = good.peb_size();
    let most = if depth == Depth::First { 1 } else { u64::MAX };
    for index in 0..most.min(good.blocks.len() as u64) {
        // An unreadable block before the file system does not matter.
        if let Ok(Some((reader, _))) = reader_at(good.as_ref(), index * peb_size) {
            return located(good, reader, index).map(Some);
        }
    }
    Ok(None)
}

/// Returns the file system of a reader that begins in a good block, by its index among them.
pub(super) fn located(
    good: &Arc<GoodBlocks>,
    reader: &'static dyn Reader,
    index: u64,
) -> Result<Located, Error> {
    let (size, start) = (good.size()?, index * good.peb_size());
    let skipping = Slice::new(Arc::clone(good) as Arc<dyn ReadAt>, start, size - start)?;
    let skipping = Located::new(reader, Arc::new(skipping))?;
    if !reader.counts_bad_blocks() || good.size()? == good.device.geometry().size() {
        return Ok(skipping);
    }
    let counting = counting(good, reader, index)?;
    // Who wrote an image to the flash may have skipped bad blocks nevertheless.
    let is_written_skipping = !counting.is_whole() && skipping.is_whole();
    Ok(if is_written_skipping { skipping } else { counting })
}

/// The same for a file system whose places count bad blocks. Bad blocks before its first good one are
/// its own, unless something else is before them.
fn counting(
    good: &Arc<GoodBlocks>,
    reader: &'static dyn Reader,
    index: u64,
) -> Result<Located, Error> {
    let all = Arc::new(AllBlocks(Arc::clone(&good.device)));
    let (size, reach) = (all.size()?, good.reach());
    let block = usize::try_from(index).ok().and_then(|index| good.blocks.get(index));
    let start = match block {
        Some(block) if index > 0 => u64::from(block.get()) * good.peb_size(),
        _ => 0,
    };
    let bytes = Arc::new(Slice::new(all, start, size - start)?);
    let superblocks = reach.start.saturating_sub(start)..reach.end.saturating_sub(start);
    Ok(Located { reader, bytes, superblocks, dump: None })
}

#[cfg(test)]
mod tests {
    use super::super::{Medium, Shape, detect, image};
    use super::*;
    use crate::target::Sizes;
    use eraseblock_base::{Geometry, MediumKind};
    use eraseblock_mtd::{MemoryMtd, MtdError};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn reads_are_split_at_blocks() {
        let mut buf = [0; 10];
        let seen = std::cell::RefCell::new(Vec::new());
        let read = |block, inside, part: &mut [u8]| {
            seen.borrow_mut().push((block, inside, part.len()));
            Ok(())
        };
        pieces(&mut buf, 6, 16, 8, read).unwrap();
        assert_eq!(*seen.borrow(), [(0, 6, 2), (1, 0, 8)]);
        for offset in [7, u64::MAX] {
            let error = pieces(&mut buf, offset, 16, 8, read).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// Counts how often a late block is asked whether it is bad.
    #[derive(Debug)]
    struct Asked {
        inner: MemoryMtd,
        count: AtomicU32,
    }

    impl Mtd for Asked {
        eraseblock_mtd::forward!(geometry, read, program, erase, mark_bad, sync);

        fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
            self.count.fetch_add(u32::from(peb.get() == 7), Ordering::Relaxed);
            self.inner.is_bad(peb)
        }
    }

    /// A flash without anything known was asked twice for all bad blocks.
    #[test]
    fn bad_blocks_are_listed_once() {
        let geometry = Geometry::new(MediumKind::Nand, 16 << 10, 8, 512, 512, 0).unwrap();
        let inner = MemoryMtd::with_bytes(geometry, vec![0x11; 8 * (16 << 10)]);
        let asked = Arc::new(Asked { inner, count: AtomicU32::new(0) });
        let medium = Medium::Device(Arc::clone(&asked) as Arc<dyn Mtd>);
        let ubi = image::layout(asked.as_ref(), &Sizes::default()).unwrap();
        let of_ubi = asked.count.swap(0, Ordering::Relaxed);
        assert!(ubi.is_none() && detect(&medium, &Shape::default()).unwrap().is_none());
        assert_eq!(asked.count.load(Ordering::Relaxed), of_ubi + 1);
    }

    #[test]
    fn uncorrectable_bytes_are_not_delivered() {
        let outcome = ReadOutcome { corrected_bits: 0, uncorrectable: true };
        let error = good(outcome, || "peb 3:0".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "peb 3:0: uncorrectable bit errors");
        assert!(good(ReadOutcome::CLEAN, String::new).is_ok());
    }
}
