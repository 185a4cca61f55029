//! Reads, writes and erases parts of eraseblocks (spec: ubi 8.1, 14.8, 14.9).
//!
//! # Invariants
//! 1. Headers are written as whole header units, zero around the 64 bytes (spec: ubi 2).
//! 2. A write is never repeated here; reads and erases are repeated up to three times.

use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, MediumKind, Peb};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};
use eraseblock_ubi_format::decode::HEADER_BYTES;
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::{
    EcHeader, EraseCount, HeaderLayout, HeaderState, ReadQuality, VidHeader, classify_ec,
    classify_vid,
};
use std::sync::Arc;

/// Number of retries of a read or an erase.
const RETRIES: u32 = 3;

/// A device and the positions of its headers.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) device: Arc<dyn Mtd>,
    pub(crate) layout: HeaderLayout,
    pub(crate) image_seq: u32,
    pub(crate) threshold: u16,
}

/// Returns whether the medium failed in a way that another eraseblock may not (EIO in the
/// specification).
pub(crate) fn is_eio(error: &MtdError) -> bool {
    matches!(error, MtdError::Failed { .. } | MtdError::Io { .. })
}

/// Reads bytes of a device; repeats the read if it fails or is uncorrectable (spec: ubi 8.1). Data
/// that only a retry could read counts as having bit flips, so that it is moved.
pub(crate) fn read_patiently(
    device: &dyn Mtd,
    addr: u64,
    buf: &mut [u8],
) -> Result<ReadOutcome, MtdError> {
    let mut result = device.read(addr, buf);
    let mut retries = RETRIES;
    while retries > 0 {
        match &result {
            Err(error) if is_eio(error) => {}
            Ok(outcome) if outcome.uncorrectable => {}
            Ok(_) if retries < RETRIES => {
                return Ok(ReadOutcome { corrected_bits: u16::MAX, uncorrectable: false });
            }
            _ => return result,
        }
        result = device.read(addr, buf);
        retries -= 1;
    }
    result
}

impl Io {
    pub(crate) fn can_have_bad_blocks(&self) -> bool {
        self.device.geometry().can_have_bad_blocks()
    }

    pub(crate) fn address(&self, peb: Peb, offset: u32) -> u64 {
        self.device.geometry().address_of(peb) + u64::from(offset)
    }

    pub(crate) fn quality(&self, outcome: ReadOutcome) -> ReadQuality {
        if outcome.uncorrectable {
            ReadQuality::Uncorrectable
        } else if outcome.corrected_bits >= self.threshold.max(1) {
            ReadQuality::Bitflips
        } else {
            ReadQuality::Clean
        }
    }

    /// Reads bytes of an eraseblock.
    pub(crate) fn read(
        &self,
        peb: Peb,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        read_patiently(&*self.device, self.address(peb, offset), buf)
    }

    /// Reads the erase-counter header.
    pub(crate) fn read_ec(&self, peb: Peb) -> Result<HeaderState<EcHeader>, MtdError> {
        let mut bytes = [0; HEADER_BYTES];
        let outcome = self.read(peb, 0, &mut bytes)?;
        Ok(classify_ec(&bytes, self.quality(outcome), &self.layout, Location::peb(peb)))
    }

    /// Reads the volume identifier header.
    pub(crate) fn read_vid(&self, peb: Peb) -> Result<HeaderState<VidHeader>, MtdError> {
        let offset = self.layout.vid_hdr_offset();
        let mut bytes = [0; HEADER_BYTES];
        let outcome = self.read(peb, offset, &mut bytes)?;
        let at = Location::Peb(peb, offset);
        Ok(classify_vid(&bytes, self.quality(outcome), &self.layout, at))
    }

    /// Writes the erase-counter header of a freshly erased block.
    pub(crate) fn write_ec(&self, peb: Peb, erase_count: EraseCount) -> Result<(), MtdError> {
        let header = EcHeader {
            erase_count,
            vid_hdr_offset: self.layout.vid_hdr_offset(),
            data_offset: self.layout.data_offset(),
            image_seq: self.image_seq,
            end_mark: false,
        };
        self.write_header(peb, 0, &encode_ec(&header))
    }

    /// Writes the volume identifier header of a free block.
    pub(crate) fn write_vid(&self, peb: Peb, header: &VidHeader) -> Result<(), MtdError> {
        self.write_header(peb, self.layout.vid_hdr_offset(), &encode_vid(header))
    }

    fn write_header(
        &self,
        peb: Peb,
        offset: u32,
        header: &[u8; HEADER_BYTES],
    ) -> Result<(), MtdError> {
        let unit = self.layout.header_unit();
        let shift = (offset % unit) as usize;
        let mut bytes = vec![0; HEADER_BYTES.next_multiple_of(unit as usize)];
        bytes[shift..shift + HEADER_BYTES].copy_from_slice(header);
        self.device.program(self.address(peb, offset - offset % unit), &bytes)
    }

    /// Returns the largest unit that a power cut can tear, in bytes (spec: ubi 2).
    pub(crate) fn max_write(&self) -> u32 {
        self.layout.min_io().max(self.device.geometry().write_buffer())
    }

    /// Writes data at an offset of the data area. No single program crosses a multiple of
    /// [`Self::max_write`] in the LEB, even if the data area begins inside a buffer of the chip, so
    /// a power cut tears at most one such unit.
    pub(crate) fn write_data(&self, peb: Peb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let unit = self.max_write();
        let start = self.layout.data_offset() + offset;
        if self.layout.data_offset().is_multiple_of(unit) {
            return self.device.program(self.address(peb, start), data);
        }
        let first = (unit - offset % unit) as usize;
        let (head, rest) = data.split_at(first.min(data.len()));
        let mut start = start;
        for part in std::iter::once(head).chain(rest.chunks(unit as usize)) {
            self.device.program(self.address(peb, start), part)?;
            start += u32::try_from(part.len()).expect("a part of an eraseblock");
        }
        Ok(())
    }

    /// Erases a block. The caller writes its erase-counter header.
    pub(crate) fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let mut retries = RETRIES;
        loop {
            match self.device.erase(peb) {
                Err(error) if is_eio(&error) && retries > 0 => retries -= 1,
                result => return result,
            }
        }
    }

    /// Invalidates the headers of a NOR block before its erase, the erase-counter header first. An
    /// interrupted erase may lose the data before the headers (spec: ubi 14.8).
    pub(crate) fn invalidate_headers(&self, peb: Peb) -> Result<(), MtdError> {
        let geometry = self.device.geometry();
        if geometry.kind() != MediumKind::Nor || geometry.min_io() != 1 {
            return Ok(());
        }
        if !matches!(
            self.read_ec(peb)?,
            HeaderState::Bad | HeaderState::BadUncorrectable | HeaderState::Erased
        ) {
            self.device.program(self.address(peb, 0), &[0; 4])?;
        }
        if !matches!(
            self.read_vid(peb)?,
            HeaderState::Bad | HeaderState::BadUncorrectable | HeaderState::Erased
        ) {
            self.device.program(self.address(peb, self.layout.vid_hdr_offset()), &[0; 4])?;
        }
        Ok(())
    }

    /// Returns whether the block can be erased, programmed and read without a wrong bit (spec: ubi
    /// 14.9). Erases it three times; afterwards it holds the last pattern.
    pub(crate) fn torture(&self, peb: Peb) -> Result<(), MtdError> {
        let failed = || MtdError::Failed { at: Location::peb(peb), operation: "torture test" };
        let mut bytes = vec![0; self.layout.peb_size() as usize];
        for pattern in [0xA5, 0x5A, 0x00] {
            self.erase(peb)?;
            let outcome = self.read(peb, 0, &mut bytes)?;
            if outcome != ReadOutcome::CLEAN || !is_erased(&bytes) {
                return Err(failed());
            }
            bytes.fill(pattern);
            self.device.program(self.address(peb, 0), &bytes)?;
            bytes.fill(!pattern);
            let outcome = self.read(peb, 0, &mut bytes)?;
            if outcome != ReadOutcome::CLEAN || bytes.iter().any(|byte| *byte != pattern) {
                return Err(failed());
            }
        }
        Ok(())
    }
}
