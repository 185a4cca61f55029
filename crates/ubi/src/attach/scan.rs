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
        let buffer = || self.buffer();
        let read = |buf: &mut Vec<u8>, peb| self.read_with(Peb::new(peb), buf);
        if range.len() <= WORTH_A_THREAD {
            let mut buf = buffer();
            return range.map(|peb| read(&mut buf, peb)).collect();
        }
        range.into_par_iter().with_min_len(WORTH_A_THREAD).map_init(buffer, read).collect()
    }

    /// Reads the headers of a block.
    pub(super) fn read_peb(&self, peb: Peb) -> PebReading {
        self.read_with(peb, &mut self.buffer())
    }

    /// Room for both headers, if they are near each other.
    fn buffer(&self) -> Vec<u8> {
        let (_, end) = self.vid_unit();
        vec![0; if end <= NEAR { end } else { 0 }]
    }

    fn read_with(&self, peb: Peb, buf: &mut [u8]) -> PebReading {
        self.try_read_peb(peb, buf).unwrap_or_else(PebReading::Failed)
    }

    fn try_read_peb(&self, peb: Peb, buf: &mut [u8]) -> Result<PebReading, MtdError> {
        if self.device.geometry().can_have_bad_blocks() && self.device.is_bad(peb)? {
            return Ok(PebReading::Bad);
        }
        let (ec, vid) = self.read_headers(peb, buf)?;
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
    ///
    /// All of the second header's unit is read, which costs no further page: its first 64 bytes
    /// may look erased although it was being programmed when the power went off.
    fn read_headers(
        &self,
        peb: Peb,
        buf: &mut [u8],
    ) -> Result<(HeaderState<EcHeader>, HeaderState<VidHeader>), MtdError> {
        let offset = self.layout.vid_hdr_offset() as usize;
        let (unit_start, unit_end) = self.vid_unit();
        if let Some(both) = buf.get_mut(..unit_end)
            && let Ok(ReadQuality::Clean) = self.read(peb, 0, both)
        {
            let ec = classify_ec(both, ReadQuality::Clean, &self.layout, Location::peb(peb));
            let at = Location::Peb(peb, self.layout.vid_hdr_offset());
            let vid = classify_vid(&both[offset..], ReadQuality::Clean, &self.layout, at);
            let shared = self.layout.headers_share_a_unit();
            let torn = vid == HeaderState::Erased && !shared && !is_erased(&both[unit_start..]);
            return Ok((ec, if torn { HeaderState::ErasedBitflips } else { vid }));
        }
        let mut bytes = [0_u8; HEADER_BYTES];
        let quality = self.read(peb, 0, &mut bytes)?;
        let ec = classify_ec(&bytes, quality, &self.layout, Location::peb(peb));
        if matches!(ec, HeaderState::Erased | HeaderState::ErasedBitflips) {
            return Ok((ec, HeaderState::Erased));
        }
        let vid = self.read_vid(peb)?;
        let torn = vid == HeaderState::Erased && !self.is_vid_unit_erased(peb)?;
        Ok((ec, if torn { HeaderState::ErasedBitflips } else { vid }))
    }

    /// Where the unit of the volume identifier header starts and ends.
    fn vid_unit(&self) -> (usize, usize) {
        let (offset, unit) = (self.layout.vid_hdr_offset(), self.layout.header_unit());
        let start = (offset - offset % unit) as usize;
        (start, start + HEADER_BYTES.next_multiple_of(unit as usize))
    }

    fn is_vid_unit_erased(&self, peb: Peb) -> Result<bool, MtdError> {
        if self.layout.headers_share_a_unit() {
            return Ok(true);
        }
        let (start, end) = self.vid_unit();
        let mut bytes = vec![0; end - start];
        let offset = u32::try_from(start).expect("the offset of a header");
        let quality = self.read(peb, offset, &mut bytes)?;
        Ok(quality == ReadQuality::Clean && is_erased(&bytes))
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
const NEAR: usize = 8192;

/// Blocks whose headers are read faster than a thread is woken.
const WORTH_A_THREAD: usize = 64;

/// Bytes read at a time where much has to be read.
const PIECE: u32 = 1 << 16;
