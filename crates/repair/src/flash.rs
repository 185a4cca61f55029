//! A flash with some eraseblocks replaced in memory: what it will be once the changes are written.

use crate::error::RepairError;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Geometry, Location, Peb};
use eraseblock_jffs2::Source;
use eraseblock_mtd::file::{check_range, locate};
use eraseblock_mtd::{Mtd, MtdError, ReadAt, ReadOutcome};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// New contents of eraseblocks by number. Bytes that are missing at the end of a block are erased.
pub type Blocks = BTreeMap<u32, Vec<u8>>;

/// Writes eraseblocks to a flash: erases each, then programs the pages that are not erased.
///
/// # Errors
///
/// Fails if the device does; then it holds a part of the changes.
pub fn write(device: &dyn Mtd, blocks: &Blocks) -> Result<(), RepairError> {
    let geometry = device.geometry();
    let unit = geometry.write_buffer().max(geometry.min_io()) as usize;
    for (peb, bytes) in blocks {
        let peb = Peb::new(*peb);
        device.erase(peb)?;
        let start = geometry.address_of(peb);
        for (number, page) in bytes.chunks(unit).enumerate() {
            if is_erased(page) {
                continue;
            }
            let mut page = page.to_vec();
            page.resize(page.len().next_multiple_of(geometry.min_io() as usize), 0xFF);
            device.program(start + (number * unit) as u64, &page)?;
        }
    }
    device.sync()?;
    Ok(())
}

/// A flash that cannot be written to, with changes on top. It is as large as the changes need.
#[derive(Debug)]
pub(crate) struct PatchedFlash {
    below: Arc<dyn Mtd>,
    geometry: Geometry,
    blocks: Blocks,
}

impl PatchedFlash {
    pub(crate) fn new(below: Arc<dyn Mtd>, blocks: Blocks) -> Result<Self, RepairError> {
        let old = *below.geometry();
        let last = blocks.last_key_value().map_or(0, |(peb, _)| peb.saturating_add(1));
        let count = old.peb_count().max(last);
        let (page, subpage, oob) = (old.min_io(), old.subpage(), old.oob_size());
        let geometry =
            Geometry::new(old.kind(), old.peb_size(), count, page, subpage, oob).map_err(
                |error| RepairError::Unsupported { at: Location::Whole, what: error.to_string() },
            )?;
        Ok(Self { below, geometry, blocks })
    }

    fn refused<T>(&self, addr: u64, operation: &'static str) -> Result<T, MtdError> {
        Err(MtdError::ReadOnly { at: locate(&self.geometry, addr), operation })
    }

    fn is_below(&self, peb: u32) -> bool {
        peb < self.below.geometry().peb_count()
    }

    /// Reads from one eraseblock.
    fn read_block(&self, peb: u32, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let Some(bytes) = self.blocks.get(&peb) else {
            if self.is_below(peb) {
                let start = self.geometry.address_of(Peb::new(peb));
                return self.below.read(start + u64::from(offset), buf);
            }
            buf.fill(0xFF);
            return Ok(ReadOutcome::CLEAN);
        };
        buf.fill(0xFF);
        let stored = bytes.get(offset as usize..).unwrap_or_default();
        let len = stored.len().min(buf.len());
        buf[..len].copy_from_slice(&stored[..len]);
        Ok(ReadOutcome::CLEAN)
    }
}

/// A file with some eraseblocks replaced in memory. Between its end and blocks after that, it reads as
/// erased.
#[derive(Debug)]
pub(crate) struct PatchedSource {
    below: Arc<dyn ReadAt>,
    start: u64,
    block: u32,
    blocks: Blocks,
}

impl PatchedSource {
    /// Returns the source of a JFFS2, whose blocks of this size begin at `start`, with changes on top.
    pub(crate) fn of(
        source: &Source,
        start: u64,
        block: u32,
        blocks: &Blocks,
    ) -> Result<Source, RepairError> {
        let blocks = blocks.clone();
        Ok(match source {
            Source::Image(below) => {
                let below = Arc::clone(below);
                Source::Image(Arc::new(Self { below, start, block, blocks }))
            }
            Source::Device(below) => {
                Source::Device(Arc::new(PatchedFlash::new(Arc::clone(below), blocks)?))
            }
        })
    }
}

impl ReadAt for PatchedSource {
    fn size(&self) -> io::Result<u64> {
        let last = self.blocks.last_key_value().map_or(0, |(peb, _)| u64::from(*peb) + 1);
        Ok(self.below.size()?.max(self.start + last * u64::from(self.block)))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let there = self.below.size()?.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        self.below.read_exact_at(&mut buf[..there], offset)?;
        buf[there..].fill(0xFF);
        let size = u64::from(self.block);
        let end = offset + buf.len() as u64;
        for (peb, bytes) in &self.blocks {
            let start = self.start + u64::from(*peb) * size;
            let (from, to) = (start.max(offset), (start + size).min(end));
            if from >= to {
                continue;
            }
            let part = &mut buf[(from - offset) as usize..(to - offset) as usize];
            part.fill(0xFF);
            let stored = bytes.get((from - start) as usize..).unwrap_or_default();
            let len = stored.len().min(part.len());
            part[..len].copy_from_slice(&stored[..len]);
        }
        Ok(())
    }
}

/// Reads a block of a JFFS2, erased where the file ends before; `None` for a bad one.
pub(crate) fn read_block(
    source: &Source,
    start: u64,
    size: u32,
    peb: u32,
) -> Result<Option<Vec<u8>>, RepairError> {
    let mut block = vec![0xFF; size as usize];
    let at = start + u64::from(peb) * u64::from(size);
    match source {
        Source::Image(image) => {
            let there = image.size()?.saturating_sub(at);
            let there = usize::try_from(there).unwrap_or(usize::MAX).min(block.len());
            image.read_exact_at(&mut block[..there], at)?;
        }
        Source::Device(device) => {
            if device.is_bad(Peb::new(peb))? {
                return Ok(None);
            }
            device.read(at, &mut block)?;
        }
    }
    Ok(Some(block))
}

impl Mtd for PatchedFlash {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        check_range(&self.geometry, "read", addr, buf.len())?;
        let size = u64::from(self.geometry.peb_size());
        let (mut at, mut rest, mut outcome) = (addr, buf, ReadOutcome::CLEAN);
        while !rest.is_empty() {
            let inside = at % size;
            let len = usize::try_from(size - inside).unwrap_or(usize::MAX).min(rest.len());
            let (part, behind) = rest.split_at_mut(len);
            outcome = outcome.merge(self.read_block((at / size) as u32, inside as u32, part)?);
            at += len as u64;
            rest = behind;
        }
        Ok(outcome)
    }

    fn program(&self, addr: u64, _data: &[u8]) -> Result<(), MtdError> {
        self.refused(addr, "program")
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.refused(self.geometry.address_of(peb), "erase")
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        if self.is_below(peb.get()) { self.below.is_bad(peb) } else { Ok(false) }
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.refused(self.geometry.address_of(peb), "marking a block bad")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.below.read_oob(addr, offset, buf)
    }
}
