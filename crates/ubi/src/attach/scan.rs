//! Reading the headers of eraseblocks (spec: ubi 8, 9.1).

use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};
use eraseblock_ubi_format::decode::HEADER_BYTES;
use eraseblock_ubi_format::{
    EcHeader, HeaderLayout, HeaderState, ReadQuality, VidHeader, classify_ec, classify_vid,
};
use rayon::prelude::*;
use std::ops::Range;

/// A device and where its headers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pub(crate) device: &'a dyn Mtd,
    pub(crate) layout: HeaderLayout,
    pub(crate) threshold: u16,
}

/// What reading the headers of one block delivered.
#[derive(Debug)]
pub(super) enum PebReading {
    /// Marked bad.
    Bad,
    /// No erase-counter header, all 0xFF; the flag says whether the read had bit-flips.
    Empty { bitflips: bool },
    /// Everything else.
    Headers {
        ec: HeaderState<EcHeader>,
        vid: HeaderState<VidHeader>,
        /// The data area, looked at only where the headers are good and bad.
        data: Option<DataState>,
    },
    /// The device failed.
    Failed(MtdError),
}

/// What the data area of a block without a readable volume identifier header holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DataState {
    /// All 0xFF, or read with errors: the trace of a power cut.
    Disposable,
    /// Data.
    Content,
}

impl Scanner<'_> {
    /// Reads the headers of the blocks in `range`, several at a time; the result is in order.
    pub(super) fn read_range(&self, range: Range<u32>) -> Vec<PebReading> {
        let read = |peb| self.read_peb(Peb::new(peb));
        if range.len() <= WORTH_A_THREAD {
            return range.map(read).collect();
        }
        range.into_par_iter().with_min_len(WORTH_A_THREAD).map(read).collect()
    }

    /// Reads the headers of a block.
    pub(super) fn read_peb(&self, peb: Peb) -> PebReading {
        self.try_read_peb(peb).unwrap_or_else(PebReading::Failed)
    }

    fn try_read_peb(&self, peb: Peb) -> Result<PebReading, MtdError> {
        if self.device.geometry().can_have_bad_blocks() && self.device.is_bad(peb)? {
            return Ok(PebReading::Bad);
        }
        let (ec, vid) = self.read_headers(peb)?;
        match ec {
            HeaderState::Erased => return Ok(PebReading::Empty { bitflips: false }),
            HeaderState::ErasedBitflips => return Ok(PebReading::Empty { bitflips: true }),
            _ => {}
        }
        let data = if vid.is_bad() && !ec.is_bad() { Some(self.read_data(peb)?) } else { None };
        Ok(PebReading::Headers { ec, vid, data })
    }

    /// Reads both headers, with one read if they are near each other and nothing is wrong with it.
    /// Where the erase-counter header is erased the other one is not looked at.
    fn read_headers(
        &self,
        peb: Peb,
    ) -> Result<(HeaderState<EcHeader>, HeaderState<VidHeader>), MtdError> {
        let mut bytes = [0_u8; NEAR];
        let offset = self.layout.vid_hdr_offset();
        let start = offset as usize;
        if let Some(both) = bytes.get_mut(..start + HEADER_BYTES)
            && let Ok(ReadQuality::Clean) = self.read(peb, 0, both)
        {
            let ec = classify_ec(both, ReadQuality::Clean, &self.layout, Location::peb(peb));
            let at = Location::Peb(peb, offset);
            let vid = classify_vid(&both[start..], ReadQuality::Clean, &self.layout, at);
            return Ok((ec, vid));
        }
        let bytes = &mut bytes[..HEADER_BYTES];
        let quality = self.read(peb, 0, bytes)?;
        let ec = classify_ec(bytes, quality, &self.layout, Location::peb(peb));
        if matches!(ec, HeaderState::Erased | HeaderState::ErasedBitflips) {
            return Ok((ec, HeaderState::Erased));
        }
        Ok((ec, self.read_vid(peb)?))
    }

    /// Reads the volume identifier header of a block.
    pub(super) fn read_vid(&self, peb: Peb) -> Result<HeaderState<VidHeader>, MtdError> {
        let mut bytes = [0_u8; HEADER_BYTES];
        let offset = self.layout.vid_hdr_offset();
        let quality = self.read(peb, offset, &mut bytes)?;
        Ok(classify_vid(&bytes, quality, &self.layout, Location::Peb(peb, offset)))
    }

    fn read_data(&self, peb: Peb) -> Result<DataState, MtdError> {
        let mut buf = vec![0_u8; self.layout.leb_size().min(PIECE) as usize];
        let mut offset = self.layout.data_offset();
        let mut erased = true;
        while offset < self.layout.peb_size() {
            let len = (self.layout.peb_size() - offset).min(PIECE);
            let part = &mut buf[..len as usize];
            if self.read(peb, offset, part)? != ReadQuality::Clean {
                return Ok(DataState::Disposable);
            }
            erased &= is_erased(part);
            offset += len;
        }
        Ok(if erased { DataState::Disposable } else { DataState::Content })
    }

    /// Reads bytes of a block.
    pub(super) fn read(
        &self,
        peb: Peb,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<ReadQuality, MtdError> {
        let addr = self.device.geometry().address_of(peb) + u64::from(offset);
        self.device.read(addr, buf).map(|outcome| self.quality(outcome))
    }

    fn quality(&self, outcome: ReadOutcome) -> ReadQuality {
        if outcome.uncorrectable {
            ReadQuality::Uncorrectable
        } else if outcome.corrected_bits >= self.threshold.max(1) {
            ReadQuality::Bitflips
        } else {
            ReadQuality::Clean
        }
    }
}

/// Bytes at the start of a block that are read at once if they hold both headers.
const NEAR: usize = 4096 + HEADER_BYTES;

/// Blocks whose headers are read faster than a thread is woken.
const WORTH_A_THREAD: usize = 64;

/// Bytes read at a time where much has to be read.
const PIECE: u32 = 1 << 16;
