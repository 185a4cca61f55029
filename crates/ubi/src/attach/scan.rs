//! Reads the headers of eraseblocks (spec: ubi 8, 9.1).

use crate::io::read_patiently;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};
use eraseblock_ubi_format::decode::HEADER_BYTES;
use eraseblock_ubi_format::{
    EcHeader, HeaderLayout, HeaderState, ReadQuality, VidHeader, classify_ec, classify_vid,
};
#[cfg(feature = "parallel")]
use rayon::prelude::*;
use std::ops::Range;

/// A device and the positions of its headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pub(crate) device: &'a dyn Mtd,
    pub(crate) layout: HeaderLayout,
    pub(crate) threshold: u16,
}

/// The result of reading the headers of one block.
#[derive(Debug)]
pub(super) enum PebReading {
    /// Marked bad.
    Bad,
    /// No erase-counter header, all 0xFF; the flag says whether the read had bit flips.
    Empty { bitflips: bool },
    /// Everything else.
    Headers {
        ec: HeaderState<EcHeader>,
        vid: HeaderState<VidHeader>,
        /// The data area, examined only if one header is good and the other bad.
        data: Option<DataState>,
    },
    /// The device failed.
    Failed(MtdError),
}

/// The content of the data area of a block without a readable volume identifier header.
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
        if range.len() <= WORTH_A_THREAD {
            return self.read_together(range);
        }
        let starts: Vec<u32> = range.clone().step_by(BATCH as usize).collect();
        let batch = |start: u32| self.read_together(start..range.end.min(start + BATCH));
        #[cfg(feature = "parallel")]
        return starts.into_par_iter().flat_map_iter(batch).collect();
        #[cfg(not(feature = "parallel"))]
        starts.into_iter().flat_map(batch).collect()
    }

    /// Reads the headers of a block.
    pub(super) fn read_peb(&self, peb: Peb) -> PebReading {
        let bad = self.is_bad(peb);
        let reading =
            bad.and_then(|bad| if bad { Ok(PebReading::Bad) } else { self.read_good(peb) });
        reading.unwrap_or_else(PebReading::Failed)
    }

    /// Reads the headers of the blocks in `range` in one batch, if the two headers of a block are
    /// near each other.
    fn read_together(&self, range: Range<u32>) -> Vec<PebReading> {
        let len = self.near_headers();
        let pebs: Vec<Peb> = range.map(Peb::new).collect();
        if len == 0 {
            return pebs.into_iter().map(|peb| self.read_peb(peb)).collect();
        }
        let bad: Vec<Result<bool, MtdError>> = pebs.iter().map(|peb| self.is_bad(*peb)).collect();
        let mut bytes = vec![0; len * pebs.len()];
        let is_good = |number: &usize| matches!(bad[*number], Ok(false));
        let address = |number: usize| self.device.geometry().address_of(pebs[number]);
        let numbered = bytes.chunks_exact_mut(len).enumerate();
        let good = numbered.filter(|(number, _)| is_good(number));
        let mut ranges: Vec<_> = good.map(|(number, buf)| (address(number), buf)).collect();
        // A batch fails as a whole: then read each block separately.
        let outcomes = self.device.read_batch(&mut ranges).ok();
        let mut outcomes = outcomes.into_iter().flatten();
        let read = |((peb, bad), both): ((Peb, Result<bool, MtdError>), &[u8])| {
            if bad? {
                return Ok(PebReading::Bad);
            }
            match outcomes.next() {
                Some(outcome) => self.judge_near(peb, both, self.quality(outcome)),
                None => self.read_good(peb),
            }
        };
        let read = pebs.iter().copied().zip(bad).zip(bytes.chunks_exact(len)).map(read);
        read.map(|reading| reading.unwrap_or_else(PebReading::Failed)).collect()
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        Ok(self.device.geometry().can_have_bad_blocks() && self.device.is_bad(peb)?)
    }

    /// Returns the number of bytes at the start of a block that include both headers; 0 if they are
    /// not near each other.
    fn near_headers(&self) -> usize {
        let (_, end) = self.vid_unit();
        if end <= NEAR { end } else { 0 }
    }

    /// Reads the headers of a block that is not bad, with one read if they are near each other and
    /// the read has no errors.
    fn read_good(&self, peb: Peb) -> Result<PebReading, MtdError> {
        let mut both = vec![0; self.near_headers()];
        if both.is_empty() {
            return self.judge_apart(peb);
        }
        match self.read(peb, 0, &mut both) {
            Ok(quality) => self.judge_near(peb, &both, quality),
            Err(_) => self.judge_apart(peb),
        }
    }

    /// Evaluates both headers if both were read without errors.
    ///
    /// The whole unit of the second header has been read, which costs no further page: its first 64
    /// bytes may look erased although a power cut interrupted its program.
    fn judge_near(
        &self,
        peb: Peb,
        both: &[u8],
        quality: ReadQuality,
    ) -> Result<PebReading, MtdError> {
        if quality != ReadQuality::Clean {
            return self.judge_apart(peb);
        }
        let offset = self.layout.vid_hdr_offset();
        let ec = classify_ec(both, quality, &self.layout, Location::peb(peb));
        let at = Location::Peb(peb, offset);
        let vid = classify_vid(&both[offset as usize..], quality, &self.layout, at);
        let shared = self.layout.headers_share_a_unit();
        let torn = vid == HeaderState::Erased && !shared && !is_erased(&both[self.vid_unit().0..]);
        self.conclude(peb, ec, if torn { HeaderState::ErasedBitflips } else { vid })
    }

    /// Reads one header after the other. Skips the second one if the erase-counter header is
    /// erased.
    fn judge_apart(&self, peb: Peb) -> Result<PebReading, MtdError> {
        let mut bytes = [0_u8; HEADER_BYTES];
        let quality = self.read(peb, 0, &mut bytes)?;
        let ec = classify_ec(&bytes, quality, &self.layout, Location::peb(peb));
        if matches!(ec, HeaderState::Erased | HeaderState::ErasedBitflips) {
            return self.conclude(peb, ec, HeaderState::Erased);
        }
        let vid = self.read_vid(peb)?;
        let torn = vid == HeaderState::Erased && !self.is_vid_unit_erased(peb)?;
        self.conclude(peb, ec, if torn { HeaderState::ErasedBitflips } else { vid })
    }

    /// Examines the data if the headers are not conclusive.
    fn conclude(
        &self,
        peb: Peb,
        ec: HeaderState<EcHeader>,
        vid: HeaderState<VidHeader>,
    ) -> Result<PebReading, MtdError> {
        match ec {
            HeaderState::Erased => return Ok(PebReading::Empty { bitflips: false }),
            HeaderState::ErasedBitflips => return Ok(PebReading::Empty { bitflips: true }),
            _ => {}
        }
        let data = if vid.is_bad() && !ec.is_bad() { Some(self.read_data(peb)?) } else { None };
        Ok(PebReading::Headers { ec, vid, data })
    }

    /// Returns the start and the end of the unit of the volume identifier header.
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
        read_patiently(self.device, addr, buf).map(|outcome| self.quality(outcome))
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

/// Bytes at the start of a block that are read at once if they include both headers.
const NEAR: usize = 8192;

/// Number of blocks whose headers can be read in the time to wake a thread.
const WORTH_A_THREAD: usize = 64;

/// Blocks whose headers are read with one call.
const BATCH: u32 = 128;

/// Size of a read when much must be read.
const PIECE: u32 = 1 << 16;
