//! The device of a mounted file system: its class, cleanmarkers, and the driver's calls (spec:
//! jffs2 11).
//!
//! Layer: data, above `options`. The only file that knows how an erased block is marked.
//!
//! # Invariants
//! 1. All addresses fit 32 bits, and all blocks have the same size.

use super::options::RwOptions;
use crate::error::Jffs2Error;
use eraseblock_base::{Geometry, Location, MediumKind, Peb};
use eraseblock_jffs2_format::constants::{HEADER_LEN, MAGIC, node_type};
use eraseblock_jffs2_format::{ByteOrder, decode, encode};
use eraseblock_mtd::oob::{OobLayout, has_oob};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};
use std::sync::Arc;

/// Minimum number of eraseblocks of a file system (spec: jffs2 12.6).
pub const MIN_BLOCKS: u32 = 5;
/// Supported block sizes in bytes.
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 4096..=1 << 26;
/// Bytes of a cleanmarker in the out-of-band area.
const OOB_MARKER: usize = 8;

/// How an erased block is marked as completely erased.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    /// Not at all.
    None,
    /// By a node of this length at its start.
    InBand(u32),
    /// By bytes at these places of the out-of-band area of its first page.
    Oob(Vec<u32>),
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Flash {
    pub(crate) mtd: Arc<dyn Mtd>,
    pub(crate) order: ByteOrder,
    /// Bytes of a block.
    pub(crate) block: u32,
    /// Blocks.
    pub(crate) count: u32,
    /// Bytes programmed at once; 1 means no write buffer.
    pub(crate) page: u32,
    pub(crate) marker: Marker,
}

impl Flash {
    pub(crate) fn new(mtd: Arc<dyn Mtd>, options: &RwOptions) -> Result<Self, Jffs2Error> {
        let geometry = *mtd.geometry();
        let option = |option, found: u64, expected| Jffs2Error::Option { option, found, expected };
        let (block, page) = (geometry.peb_size(), geometry.min_io());
        if !BLOCK_SIZES.contains(&block) || !block.is_multiple_of(4) {
            let expected = "a multiple of 4 from 4 KiB to 64 MiB";
            return Err(option("erase block size", block.into(), expected));
        }
        if page >= block {
            return Err(option("page size", page.into(), "less than an erase block"));
        }
        let count = geometry.peb_count().min(u32::MAX / block);
        if count < MIN_BLOCKS {
            return Err(option("number of erase blocks", count.into(), "at least 5"));
        }
        let marker = match options.cleanmarker {
            Some(0) => Marker::None,
            Some(len) if len.is_multiple_of(4) && (HEADER_LEN..=block / 2).contains(&len) => {
                Marker::InBand(len)
            }
            Some(len) => {
                let expected = "0, or a multiple of 4 from 12 to half a block";
                return Err(option("length of the cleanmarkers", len.into(), expected));
            }
            None => usual_marker(&geometry, options)?,
        };
        let order = options.order.unwrap_or_default();
        let page = if page < 4 { 1 } else { page };
        let mut flash = Self { mtd, order, block, count, page, marker };
        if options.order.is_none() {
            flash.order = flash.find_order()?.unwrap_or_default();
        }
        Ok(flash)
    }

    /// Returns the byte order of the first header at the start of a block, or of the first marker
    /// in an out-of-band area.
    fn find_order(&self) -> Result<Option<ByteOrder>, Jffs2Error> {
        let mut head = [0; HEADER_LEN as usize];
        for block in 0..self.count {
            if self.is_bad(block)? {
                continue;
            }
            self.read(self.start(block), &mut head)?;
            if let Some((order, _)) = eraseblock_jffs2_format::scan::header_order(&head) {
                return Ok(Some(order));
            }
            for order in ByteOrder::ALL {
                if matches!(self.marker, Marker::Oob(_)) && self.has_oob_marker(block, order)? {
                    return Ok(Some(order));
                }
            }
        }
        Ok(None)
    }

    /// Returns the address of the first byte of a block.
    pub(crate) fn start(&self, block: u32) -> u32 {
        block * self.block
    }

    /// Returns the number of bytes of the cleanmarker at the start of a block; 0 if there is none.
    pub(crate) fn cleanmarker(&self) -> u32 {
        match self.marker {
            Marker::InBand(len) => len,
            Marker::None | Marker::Oob(_) => 0,
        }
    }

    pub(crate) fn has_buffer(&self) -> bool {
        self.page > 1
    }

    pub(crate) fn is_nand(&self) -> bool {
        self.mtd.geometry().kind() == MediumKind::Nand
    }

    /// Returns the location for errors.
    pub(crate) fn location(&self, place: u32) -> Location {
        Location::Peb(Peb::new(place / self.block), place % self.block)
    }

    pub(crate) fn is_bad(&self, block: u32) -> Result<bool, MtdError> {
        self.mtd.is_bad(Peb::new(block))
    }

    /// Reads; uncorrectable data is delivered, the checksums of nodes decide (spec: jffs2 16).
    pub(crate) fn read(&self, place: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.mtd.read(place.into(), buf)
    }

    fn oob_marker(order: ByteOrder) -> [u8; OOB_MARKER] {
        let mut bytes = [0; OOB_MARKER];
        bytes[..2].copy_from_slice(&order.u16_bytes(MAGIC));
        bytes[2..4].copy_from_slice(&order.u16_bytes(node_type::CLEANMARKER));
        bytes[4..].copy_from_slice(&order.u32_bytes(OOB_MARKER as u32));
        bytes
    }

    /// Returns the free out-of-band bytes of a page of a block.
    fn read_oob(&self, block: u32, page: u32, positions: &[u32]) -> Result<Vec<u8>, MtdError> {
        let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
            return Ok(Vec::new());
        };
        let mut oob = vec![0; (last - first + 1) as usize];
        let addr = self.start(block) + page * self.page;
        self.mtd.read_oob(addr.into(), *first, &mut oob)?;
        Ok(positions.iter().map(|at| oob[(at - first) as usize]).collect())
    }

    fn has_oob_marker(&self, block: u32, order: ByteOrder) -> Result<bool, MtdError> {
        let Marker::Oob(positions) = &self.marker else { return Ok(false) };
        let found = self.read_oob(block, 0, positions)?;
        Ok(found == Self::oob_marker(order)[..found.len()])
    }

    /// Returns whether the block has its marker in the out-of-band area.
    pub(crate) fn is_oob_marked(&self, block: u32) -> Result<bool, MtdError> {
        self.has_oob_marker(block, self.order)
    }

    /// Returns whether these first bytes of a block are the header of a node, even if the node is
    /// broken.
    pub(crate) fn has_header(&self, block: u32, head: &[u8]) -> bool {
        decode::header(self.order, head, Location::peb(Peb::new(block))).is_ok()
    }

    /// Returns whether a block starts with a node, as all that are not empty do. If one does not,
    /// its erase was cut, and more of what it still holds may go.
    pub(crate) fn starts_with_node(&self, block: u32) -> Result<bool, MtdError> {
        let mut head = [0; HEADER_LEN as usize];
        self.read(self.start(block), &mut head)?;
        Ok(self.has_header(block, &head))
    }

    /// Returns whether the out-of-band areas of the first pages are erased except for an existing
    /// marker (spec: jffs2 12.2, step 3).
    pub(crate) fn is_oob_erased(&self, block: u32, marked: bool) -> Result<bool, MtdError> {
        let Marker::Oob(positions) = &self.marker else { return Ok(true) };
        let from = u32::from(marked);
        for page in from..4.min(self.block / self.page) {
            if self.read_oob(block, page, positions)?.iter().any(|byte| *byte != 0xFF) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Marks an erased block as such.
    pub(crate) fn write_marker(&self, block: u32) -> Result<(), MtdError> {
        let start = u64::from(self.start(block));
        match &self.marker {
            Marker::None => Ok(()),
            Marker::InBand(len) => {
                let mut node = Vec::with_capacity(*len as usize);
                encode::cleanmarker(self.order, *len, &mut node);
                self.mtd.program(start, &node)
            }
            Marker::Oob(positions) => {
                let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
                    return Ok(());
                };
                let mut oob = vec![0xFF; (last - first + 1) as usize];
                for (at, byte) in positions.iter().zip(Self::oob_marker(self.order)) {
                    oob[(at - first) as usize] = byte;
                }
                self.mtd.program_oob(start, *first, &oob)
            }
        }
    }
}

/// Returns the marker that Linux writes on such a medium (spec: jffs2 11).
fn usual_marker(geometry: &Geometry, options: &RwOptions) -> Result<Marker, Jffs2Error> {
    let page = geometry.min_io();
    Ok(match geometry.kind() {
        MediumKind::Nor if page == 1 => Marker::InBand(HEADER_LEN),
        MediumKind::Nor => Marker::InBand(page.max(16)),
        MediumKind::Nand if has_oob(geometry) => {
            Marker::Oob(marker_positions(options, page, geometry.oob_size())?)
        }
        MediumKind::Nand => Marker::None,
    })
}

fn marker_positions(options: &RwOptions, page: u32, oob: u32) -> Result<Vec<u32>, Jffs2Error> {
    let free = match &options.marker_positions {
        Some(positions) => positions.clone(),
        None => match OobLayout::hamming(oob, page / 256) {
            Ok(layout) => layout.free_positions().to_vec(),
            Err(_) => (2.min(oob)..oob).collect(),
        },
    };
    let positions: Vec<u32> = free.into_iter().take(OOB_MARKER).collect();
    let sorted = positions.windows(2).all(|pair| pair[0] < pair[1]);
    match positions.last() {
        Some(last) if sorted && *last < oob => Ok(positions),
        last => Err(Jffs2Error::Option {
            option: "last out-of-band byte of the cleanmarker",
            found: last.copied().unwrap_or(0).into(),
            expected: "ascending places inside the out-of-band area",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux keeps the marker where its driver has free bytes. A page whose ECC does not fit into
    /// its out-of-band area has no layout, but still its factory mark of two bytes.
    #[test]
    fn markers_lie_in_the_first_free_bytes_after_the_mark_and_the_ecc() {
        let options = RwOptions::default();
        let cases: [(u32, u32, &[u32]); 5] = [
            (256, 8, &[3, 4, 6, 7]),
            (512, 8, &[2, 3, 4, 5, 6, 7]),
            (512, 16, &[8, 9, 10, 11, 12, 13, 14, 15]),
            (1024, 16, &[2, 3, 4, 5, 6, 7, 8, 9]),
            (2048, 64, &[2, 3, 4, 5, 6, 7, 8, 9]),
        ];
        for (page, oob, expected) in cases {
            assert_eq!(marker_positions(&options, page, oob).unwrap(), expected, "{page}+{oob}");
        }
    }
}
