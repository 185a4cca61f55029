//! Operations on logical eraseblocks (spec: ubi 13).
//!
//! # Invariants
//! 1. The map entry changes after everything is on flash, and before the old block is returned.
//! 2. A block with a failed write is returned for a torture test, never used as it is.

use crate::core::{Core, Volume};
use crate::error::UbiError;
use crate::io::is_eio;
use crate::runtime::ReadOnlyReason;
use crate::wl::Erasing;
use crate::wl::mover::used_len;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_mtd::{MtdError, ReadOutcome};
use eraseblock_ubi_format::{HeaderState, ReadQuality, VidHeader, VolumeKind};

/// Number of blocks tried for one operation.
const ATTEMPTS: u32 = 4;

/// The result of a read, without the bytes.
pub(crate) struct LebRead {
    pub(crate) outcome: ReadOutcome,
    /// The block to scrub, if the read had bit flips.
    pub(crate) scrub: Option<Peb>,
}

impl Core {
    fn range<'a>(
        &self,
        volume: &'a Volume,
        leb: Leb,
        offset: u32,
        len: usize,
    ) -> Result<&'a Volume, UbiError> {
        if leb.get() >= volume.record.reserved_lebs {
            let expected = "a LEB of the volume";
            return Err(UbiError::Request { field: "LEB", found: leb.get().into(), expected });
        }
        let end = u64::from(offset) + len as u64;
        if end > u64::from(self.usable(volume)) {
            let expected = "an offset inside the LEB";
            return Err(UbiError::Request { field: "end of the data", found: end, expected });
        }
        Ok(volume)
    }

    /// Returns the volume if `offset` and `len` can be written to one of its LEBs.
    fn writable_range(
        &self,
        id: VolumeId,
        leb: Leb,
        offset: u32,
        len: usize,
    ) -> Result<&Volume, UbiError> {
        self.check_writable()?;
        let volume = self.range(self.volume(id)?, leb, offset, len)?;
        if !volume.is_dynamic() {
            let expected = "a dynamic volume";
            return Err(UbiError::Request { field: "volume", found: id.get().into(), expected });
        }
        if volume.record.upd_marker {
            return Err(UbiError::Damaged { id });
        }
        let unit = self.io.layout.min_io();
        for (field, found) in [("offset", u64::from(offset)), ("length", len as u64)] {
            if !found.is_multiple_of(u64::from(unit)) {
                let expected = "a multiple of the minimum I/O unit";
                return Err(UbiError::Request { field, found, expected });
            }
        }
        Ok(volume)
    }

    /// Reads bytes of a LEB; an unmapped one reads as 0xFF (spec: ubi 13.2).
    pub(crate) fn read_leb(
        &self,
        id: VolumeId,
        leb: Leb,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<LebRead, UbiError> {
        let volume = self.range(self.volume(id)?, leb, offset, buf.len())?;
        if volume.record.upd_marker {
            return Err(UbiError::Damaged { id });
        }
        let Some(peb) = volume.peb(leb) else {
            buf.fill(0xFF);
            return Ok(LebRead { outcome: ReadOutcome::CLEAN, scrub: None });
        };
        let outcome = self.read_data(peb, offset, buf)?;
        let flips = self.io.quality(outcome) == ReadQuality::Bitflips;
        Ok(LebRead { outcome, scrub: flips.then_some(peb) })
    }

    /// Reads data of a block. After an ECC error, the checksum of a complete copy may prove that
    /// the bytes are correct: the power cut came after the data was programmed and before its ECC.
    pub(crate) fn read_data(
        &self,
        peb: Peb,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        let start = self.io.layout.data_offset();
        let outcome = self.io.read(peb, start + offset, buf)?;
        if !outcome.uncorrectable {
            return Ok(outcome);
        }
        let (HeaderState::Ok(header) | HeaderState::Bitflips(header)) = self.io.read_vid(peb)?
        else {
            return Ok(outcome);
        };
        let mut proved = vec![0; header.data_size as usize];
        self.io.read(peb, start, &mut proved)?;
        let inside = proved.len().saturating_sub(offset as usize).min(buf.len());
        let is_proof = header.copy_flag || header.kind == VolumeKind::Static;
        if !is_proof || inside == 0 || crc32(&proved) != header.data_crc {
            return Ok(outcome);
        }
        let (front, behind) = buf.split_at_mut(inside);
        front.copy_from_slice(&proved[offset as usize..][..inside]);
        let corrected = ReadOutcome { corrected_bits: u16::MAX, uncorrectable: false };
        // The rest of the last unit of a static LEB is filled with zeros (spec: ubi 13.5): an ECC
        // error in this known filling does not lose the LEB.
        let unit = self.io.layout.min_io() as usize;
        let filling = (proved.len().next_multiple_of(unit) - proved.len()).min(behind.len());
        let (filling, rest) = behind.split_at_mut(filling);
        filling.fill(0);
        if rest.is_empty() {
            return Ok(corrected);
        }
        let end = proved.len().next_multiple_of(unit);
        let end = u32::try_from(end).expect("within an eraseblock");
        Ok(corrected.merge(self.io.read(peb, start + end, rest)?))
    }

    /// Verifies the checksum in the header of a static volume's LEB.
    pub(crate) fn check_static_leb(&self, id: VolumeId, leb: Leb) -> Result<(), UbiError> {
        let at = Location::VolumeLeb(id, leb, 0);
        let Some(peb) = self.volume(id)?.peb(leb) else {
            return Err(UbiError::DataCrc { at, stored: 0, computed: 0 });
        };
        let (HeaderState::Ok(header) | HeaderState::Bitflips(header)) = self.io.read_vid(peb)?
        else {
            return Err(UbiError::DataCrc { at, stored: 0, computed: 0 });
        };
        let mut data = vec![0; header.data_size as usize];
        self.io.read(peb, self.io.layout.data_offset(), &mut data)?;
        let (stored, computed) = (header.data_crc, crc32(&data));
        if stored == computed { Ok(()) } else { Err(UbiError::DataCrc { at, stored, computed }) }
    }

    /// Releases the block of a LEB (spec: ubi 13.3). The old content can reappear until the block
    /// has been erased.
    pub(crate) fn unmap_leb(&mut self, id: VolumeId, leb: Leb) -> Result<(), UbiError> {
        self.check_writable()?;
        self.range(self.volume(id)?, leb, 0, 0)?;
        let old = self.volume_mut(id)?.forget(leb);
        if let Some(peb) = old {
            self.put_peb(peb, Erasing::Plain, Some((id, leb)));
        }
        Ok(())
    }

    /// Unmaps a LEB and waits for the erase, so that the old content cannot reappear.
    pub(crate) fn erase_leb(&mut self, id: VolumeId, leb: Leb) -> Result<(), UbiError> {
        self.unmap_leb(id, leb)?;
        self.flush_erasures(id, Some(leb))
    }

    /// Writes to a LEB of a dynamic volume; maps it if necessary (spec: ubi 13.4).
    pub(crate) fn write_leb(
        &mut self,
        id: VolumeId,
        leb: Leb,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        self.check_leb(id, leb)?;
        let volume = self.writable_range(id, leb, offset, data.len())?;
        let Some(peb) = volume.peb(leb) else {
            let header = self.vid_header(id, leb)?;
            let peb = self.place_leb(header, offset, data)?;
            self.volume_mut(id)?.map[leb.index()] = Some(peb);
            return Ok(());
        };
        if data.is_empty() {
            return Ok(());
        }
        match self.io.write_data(peb, offset, data) {
            Ok(()) => Ok(()),
            Err(error) if is_eio(&error) && self.io.can_have_bad_blocks() => {
                self.rescue(id, leb, offset, data)
            }
            Err(error) => self.fail(ReadOnlyReason::WriteFailed, error),
        }
    }

    /// Binds a block to a LEB (spec: ubi 13.4).
    pub(crate) fn map_leb(&mut self, id: VolumeId, leb: Leb) -> Result<(), UbiError> {
        self.write_leb(id, leb, 0, &[])
    }

    /// Writes a LEB of a static volume of `used` LEBs (spec: ubi 13.5).
    pub(crate) fn write_static(
        &mut self,
        id: VolumeId,
        leb: Leb,
        data: &[u8],
        used: u32,
    ) -> Result<(), UbiError> {
        self.check_writable()?;
        self.range(self.volume(id)?, leb, 0, data.len())?;
        let mut header = self.vid_header(id, leb)?;
        header.used_lebs = used;
        header.data_size = u32::try_from(data.len()).expect("within a LEB");
        header.data_crc = crc32(data);
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(self.io.layout.min_io() as usize), 0);
        let peb = self.place_leb(header, 0, &padded)?;
        self.volume_mut(id)?.map[leb.index()] = Some(peb);
        Ok(())
    }

    /// Replaces the content of a LEB atomically, if it is mapped (spec: ubi 13.6, 18.3).
    pub(crate) fn change_leb(
        &mut self,
        id: VolumeId,
        leb: Leb,
        data: &[u8],
    ) -> Result<(), UbiError> {
        self.check_leb(id, leb)?;
        self.writable_range(id, leb, 0, data.len())?;
        let data = &data[..used_len(data, self.io.layout.min_io() as usize)];
        if data.is_empty() {
            self.unmap_leb(id, leb)?;
            return self.map_leb(id, leb);
        }
        let mut header = self.vid_header(id, leb)?;
        header.copy_flag = true;
        header.data_size = u32::try_from(data.len()).expect("within a LEB");
        header.data_crc = crc32(data);
        let new = self.place_leb(header, 0, data)?;
        let old = self.volume_mut(id)?.map[leb.index()].replace(new);
        if let Some(old) = old {
            self.put_peb(old, Erasing::Plain, Some((id, leb)));
        }
        Ok(())
    }

    /// Writes a header and data to a new block, and tries others if one fails. The caller changes
    /// the map.
    fn place_leb(
        &mut self,
        mut header: VidHeader,
        offset: u32,
        data: &[u8],
    ) -> Result<Peb, UbiError> {
        let mut attempt = 1;
        loop {
            header.sqnum = self.next_sqnum();
            let peb = self.get_peb()?;
            let Err(error) = self.fill_peb(peb, &header, offset, data) else { return Ok(peb) };
            self.counters.write_errors += 1;
            self.put_peb(peb, Erasing::Tortured, Some((header.volume, header.leb)));
            let again = is_eio(&error) && self.io.can_have_bad_blocks() && attempt < ATTEMPTS;
            if !again {
                return self.fail(ReadOnlyReason::WriteFailed, error);
            }
            attempt += 1;
        }
    }

    fn fill_peb(
        &self,
        peb: Peb,
        header: &VidHeader,
        offset: u32,
        data: &[u8],
    ) -> Result<(), MtdError> {
        self.io.write_vid(peb, header)?;
        if data.is_empty() { Ok(()) } else { self.io.write_data(peb, offset, data) }
    }

    /// Moves a mapped LEB and the new data to another block after a failed write (spec: ubi 13.8).
    fn rescue(&mut self, id: VolumeId, leb: Leb, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.counters.write_errors += 1;
        match self.copy_and_append(id, leb, offset, data) {
            Ok((old, new)) => {
                self.volume_mut(id)?.map[leb.index()] = Some(new);
                self.put_peb(old, Erasing::Tortured, Some((id, leb)));
                Ok(())
            }
            Err(error) => self.fail(ReadOnlyReason::WriteFailed, error),
        }
    }

    fn copy_and_append(
        &mut self,
        id: VolumeId,
        leb: Leb,
        offset: u32,
        data: &[u8],
    ) -> Result<(Peb, Peb), UbiError> {
        let failed = || MtdError::Failed {
            at: Location::VolumeLeb(id, leb, offset),
            operation: "rescue after a failed program",
        };
        let old = self.volume(id)?.peb(leb).ok_or_else(failed)?;
        let (HeaderState::Ok(mut header) | HeaderState::Bitflips(mut header)) =
            self.io.read_vid(old)?
        else {
            return Err(failed().into());
        };
        let mut content = vec![0; offset as usize];
        let outcome = self.io.read(old, self.io.layout.data_offset(), &mut content)?;
        if outcome.uncorrectable {
            return Err(failed().into());
        }
        content.extend_from_slice(data);
        header.copy_flag = true;
        header.data_size = u32::try_from(content.len()).expect("within a LEB");
        header.data_crc = crc32(&content);
        debug_assert_eq!(header.kind, VolumeKind::Dynamic, "static LEBs are written once");
        let new = self.place_leb(header, 0, &content)?;
        Ok((old, new))
    }
}
