//! Volumes of an attached device, read-only: as LEBs ([`UbiVolume`] is a [`LebDevice`]) and as one
//! sequence of bytes ([`ReadAt`], [`VolumeReader`]).
//!
//! # Invariants
//! 1. An unmapped LEB reads as 0xFF.
//! 2. No byte beyond the usable LEB size is ever read: that is `data_pad`.

use crate::attach::{
    AttachOptions, Attachment, FastmapStatus, MAX_IMAGE_LEBS, NewestCopy, VolumeInfo, attach,
};
use crate::error::UbiError;
use crate::io::read_patiently;
use crate::map::VolumeMap;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, Mtd, MtdError, ReadAt, ReadOutcome};
use eraseblock_ubi_format::decode::{HEADER_BYTES, decode_vid};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind};
use std::io;
use std::sync::Arc;

/// An attached device.
#[derive(Clone, Debug)]
pub struct Ubi {
    device: Arc<dyn Mtd>,
    attachment: Arc<Attachment>,
}

impl Ubi {
    /// Attaches the device read-only; see [`attach`]. Fails as that does.
    pub fn attach(
        device: Arc<dyn Mtd>,
        layout: &HeaderLayout,
        options: &AttachOptions,
    ) -> Result<Self, UbiError> {
        let attachment = Arc::new(attach(device.as_ref(), layout, options)?);
        Ok(Self { device, attachment })
    }

    /// Returns the result of attaching.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Returns whether the device has a fastmap, and whether it can be attached by it. Fails if the
    /// device does.
    pub fn fastmap_status(&self) -> Result<FastmapStatus, UbiError> {
        FastmapStatus::of(self.device.as_ref(), &self.attachment.layout)
    }

    /// Returns the device that it was attached to.
    pub fn device(&self) -> &dyn Mtd {
        self.device.as_ref()
    }

    /// Returns the device that it was attached to, to be kept.
    pub fn shared_device(&self) -> Arc<dyn Mtd> {
        Arc::clone(&self.device)
    }

    /// Opens the volume of this number. Fails if there is none.
    pub fn volume(&self, id: VolumeId) -> Result<UbiVolume, UbiError> {
        self.open(self.attachment.volume(id), || id.to_string())
    }

    /// Opens the volume of this name. Fails if there is none.
    pub fn volume_named(&self, name: &[u8]) -> Result<UbiVolume, UbiError> {
        let wanted = || String::from_utf8_lossy(name).into_owned();
        self.open(self.attachment.volume_named(name), wanted)
    }

    fn open(
        &self,
        info: Option<&VolumeInfo>,
        wanted: impl FnOnce() -> String,
    ) -> Result<UbiVolume, UbiError> {
        let Some(info) = info else { return Err(UbiError::NoVolume { wanted: wanted() }) };
        Ok(UbiVolume {
            device: Arc::clone(&self.device),
            layout: self.attachment.layout,
            map: self.attachment.map(info.id).cloned().unwrap_or_default(),
            info: info.clone(),
            newest_copy: self.attachment.newest_copy.clone(),
        })
    }
}

/// A volume, read-only.
#[derive(Clone, Debug)]
pub struct UbiVolume {
    device: Arc<dyn Mtd>,
    layout: HeaderLayout,
    map: VolumeMap,
    info: VolumeInfo,
    /// The data that attaching read from the block that a power cut may have torn.
    newest_copy: Option<NewestCopy>,
}

impl UbiVolume {
    /// Returns the properties of the volume.
    pub fn info(&self) -> &VolumeInfo {
        &self.info
    }

    /// Returns the eraseblocks of its LEBs.
    pub fn map(&self) -> &VolumeMap {
        &self.map
    }

    /// Returns the volume as after its first attach, when an autoresize volume takes all free
    /// space: with `lebs` LEBs, if those are more. Other volumes do not change. In an image that is
    /// shorter than its flash such a volume may be smaller than its file system.
    #[must_use]
    pub fn resized(mut self, lebs: u32) -> Self {
        if self.info.flags.contains(VolumeFlags::AUTORESIZE) {
            self.info.reserved_lebs = self.info.reserved_lebs.max(lebs.min(MAX_IMAGE_LEBS));
        }
        self
    }

    /// Returns a reader over the whole content: the data of a static volume, all LEBs of a dynamic
    /// one.
    pub fn reader(&self) -> VolumeReader {
        self.reader_to(self.info.used_bytes)
    }

    /// Returns a reader that ends with the last mapped LEB: a volume may be far larger than the
    /// flash.
    pub fn mapped_reader(&self) -> VolumeReader {
        let lebs = self.map.highest().map_or(0, |highest| u64::from(highest.get()) + 1);
        let mapped = lebs * u64::from(self.info.usable_leb_size);
        self.reader_to(mapped.min(self.info.used_bytes))
    }

    fn reader_to(&self, end: u64) -> VolumeReader {
        VolumeReader { volume: self.clone(), position: 0, end }
    }

    /// Checks the data of a LEB of a static volume against the checksum in its header. LEBs of
    /// dynamic volumes have none (spec: ubi 22, 3); a missing LEB cannot be checked. Fails if they
    /// differ, or if the LEB cannot be read.
    pub fn check_leb(&self, leb: Leb) -> Result<(), UbiError> {
        let Some(peb) = self.map.get(leb) else { return Ok(()) };
        if self.info.kind == VolumeKind::Dynamic {
            return Ok(());
        }
        let offset = self.layout.vid_hdr_offset();
        let mut header = [0; HEADER_BYTES];
        read_patiently(&*self.device, self.address(peb, offset), &mut header)?;
        let header = decode_vid(&header, &self.layout, Location::Peb(peb, offset))?;
        let mut data = vec![0; header.data_size as usize];
        read_patiently(&*self.device, self.address(peb, self.layout.data_offset()), &mut data)?;
        let (stored, computed) = (header.data_crc, crc32(&data));
        if stored == computed {
            return Ok(());
        }
        let at = Location::VolumeLeb(self.info.id, leb, 0);
        Err(UbiError::DataCrc { at, stored, computed })
    }

    fn address(&self, peb: Peb, offset: u32) -> u64 {
        self.device.geometry().address_of(peb) + u64::from(offset)
    }

    /// Fills the start of `buf` with data that attaching has already read; returns its length.
    fn read_known(&self, peb: Peb, offset: usize, buf: &mut [u8]) -> usize {
        let copy = self.newest_copy.as_ref().filter(|copy| copy.peb == peb);
        let known = copy.and_then(|copy| copy.data.get(offset..)).unwrap_or_default();
        let len = known.len().min(buf.len());
        buf[..len].copy_from_slice(&known[..len]);
        len
    }

    fn check(
        &self,
        operation: &'static str,
        leb: Leb,
        offset: u32,
        len: usize,
    ) -> Result<(), MtdError> {
        let inside = leb.get() < self.info.reserved_lebs
            && u64::from(offset) + len as u64 <= u64::from(self.info.usable_leb_size);
        if inside {
            return Ok(());
        }
        let at = Location::VolumeLeb(self.info.id, leb, offset);
        let expected = "a range in one LEB of the volume";
        Err(MtdError::Range { at, operation, len: len as u64, expected })
    }

    fn refuse<T>(&self, operation: &'static str, leb: Leb) -> Result<T, MtdError> {
        self.check(operation, leb, 0, 0)?;
        Err(MtdError::ReadOnly { at: Location::VolumeLeb(self.info.id, leb, 0), operation })
    }
}

impl LebDevice for UbiVolume {
    fn leb_size(&self) -> u32 {
        self.info.usable_leb_size
    }

    fn min_io(&self) -> u32 {
        self.layout.min_io()
    }

    fn max_write(&self) -> u32 {
        self.layout.min_io().max(self.device.geometry().write_buffer())
    }

    fn leb_count(&self) -> u32 {
        self.info.reserved_lebs
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.check("read", leb, offset, buf.len())?;
        let Some(peb) = self.map.get(leb) else {
            buf.fill(0xFF);
            return Ok(ReadOutcome::CLEAN);
        };
        let known = self.read_known(peb, offset as usize, buf);
        let skipped = u32::try_from(known).expect("the buffer lies within a LEB");
        let (start, buf) = (offset + skipped, &mut buf[known..]);
        if buf.is_empty() {
            return Ok(ReadOutcome::CLEAN);
        }
        read_patiently(&*self.device, self.address(peb, self.layout.data_offset() + start), buf)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.check("mapping query", leb, 0, 0)?;
        Ok(self.map.get(leb).is_some())
    }

    fn write(&self, leb: Leb, _offset: u32, _data: &[u8]) -> Result<(), MtdError> {
        self.refuse("write", leb)
    }

    fn change(&self, leb: Leb, _data: &[u8]) -> Result<(), MtdError> {
        self.refuse("change", leb)
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.refuse("map", leb)
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.refuse("unmap", leb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// The volume as one sequence of bytes: consecutive LEBs without the pads.
impl ReadAt for UbiVolume {
    fn size(&self) -> io::Result<u64> {
        Ok(self.info.used_bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.info.used_bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let leb_size = u64::from(self.info.usable_leb_size);
        let (mut position, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let leb = u32::try_from(position / leb_size).map_err(io::Error::other)?;
            let inside = u32::try_from(position % leb_size).map_err(io::Error::other)?;
            let len = rest.len().min((self.info.usable_leb_size - inside) as usize);
            let (part, behind) = rest.split_at_mut(len);
            self.read(Leb::new(leb), inside, part).map_err(io::Error::other)?;
            position += len as u64;
            rest = behind;
        }
        Ok(())
    }
}

/// Reads the content of a volume from the start.
#[derive(Clone, Debug)]
pub struct VolumeReader {
    volume: UbiVolume,
    position: u64,
    end: u64,
}

impl VolumeReader {
    /// Returns the number of remaining bytes.
    pub fn remaining(&self) -> u64 {
        self.end - self.position
    }
}

impl io::Read for VolumeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.remaining()).unwrap_or(usize::MAX).min(buf.len());
        self.volume.read_exact_at(&mut buf[..len], self.position)?;
        self.position += len as u64;
        Ok(len)
    }
}
