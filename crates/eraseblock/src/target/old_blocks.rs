//! What LEBs of a UBI volume held before: eraseblocks that have lost their LEB and are not erased yet. They are
//! shown as further LEBs of the volume.
//!
//! # Invariants
//! 1. An old block is not older than the block of LEB 0, which a file system writes first: a volume that was
//!    removed, or whose file system was replaced, may have had the same number.

use crate::error::Error;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, Mtd, MtdError, ReadOutcome, read_only_leb};
use eraseblock_ubi::Ubi;
use eraseblock_ubi::attach::PebState;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubi_format::decode::decode_vid;
use eraseblock_ubi_format::types::VidHeader;
use std::sync::Arc;

/// A volume with its old blocks after it; read-only.
#[derive(Debug)]
pub(super) struct WithOld {
    volume: Arc<dyn LebDevice>,
    flash: Arc<dyn Mtd>,
    layout: HeaderLayout,
    old: Vec<(Leb, Peb)>,
}

impl WithOld {
    /// Finds the old blocks of the volume `id` of `ubi`. Fails if a header cannot be read.
    pub(super) fn new(volume: Arc<dyn LebDevice>, ubi: &Ubi, id: VolumeId) -> Result<Self, Error> {
        let (attachment, flash) = (ubi.attachment(), ubi.shared_device());
        let layout = attachment.layout;
        let header = |peb: Peb| -> Result<Option<VidHeader>, MtdError> {
            let mut bytes = [0; 64];
            let at = u64::from(peb.get()) * u64::from(layout.peb_size());
            flash.read(at + u64::from(layout.vid_hdr_offset()), &mut bytes)?;
            Ok(decode_vid(&bytes, &layout, Location::Peb(peb, 0)).ok())
        };
        let first = attachment.map(id).and_then(|map| map.get(Leb::new(0)));
        let first = first.map(header).transpose()?.flatten();
        let mut old = Vec::new();
        for peb in (0..attachment.peb_count).map(Peb::new) {
            let is_old = attachment.peb(peb).is_some_and(|info| info.state == PebState::Erase);
            let Some(found) = (if is_old { header(peb)? } else { None }) else { continue };
            let is_later = first.as_ref().is_some_and(|first| found.sqnum >= first.sqnum);
            if found.volume == id && is_later {
                old.push((found.sqnum, found.leb, peb));
            }
        }
        old.sort_unstable_by_key(|(sqnum, leb, peb)| (*sqnum, *leb, *peb));
        let old = old.into_iter().map(|(_, leb, peb)| (leb, peb)).collect();
        Ok(Self { volume, flash, layout, old })
    }

    /// Returns the old blocks.
    pub(super) fn pebs(&self) -> impl Iterator<Item = Peb> {
        self.old.iter().map(|(_, peb)| *peb)
    }

    /// Returns which LEB an old block held, and the block.
    pub(super) fn block(&self, leb: Leb) -> Option<(Leb, Peb)> {
        let index = leb.get().checked_sub(self.volume.leb_count())?;
        self.old.get(index as usize).copied()
    }
}

impl LebDevice for WithOld {
    fn leb_size(&self) -> u32 {
        self.volume.leb_size()
    }

    fn min_io(&self) -> u32 {
        self.volume.min_io()
    }

    fn max_write(&self) -> u32 {
        self.volume.max_write()
    }

    fn leb_count(&self) -> u32 {
        let old = u32::try_from(self.old.len()).unwrap_or(u32::MAX);
        self.volume.leb_count().saturating_add(old)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let Some((_, peb)) = self.block(leb) else { return self.volume.read(leb, offset, buf) };
        let at = u64::from(peb.get()) * u64::from(self.layout.peb_size());
        self.flash.read(at + u64::from(self.layout.data_offset()) + u64::from(offset), buf)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        if self.block(leb).is_some() { Ok(true) } else { self.volume.is_mapped(leb) }
    }

    fn write(&self, leb: Leb, _offset: u32, _data: &[u8]) -> Result<(), MtdError> {
        read_only_leb(leb, "write")
    }

    fn change(&self, leb: Leb, _data: &[u8]) -> Result<(), MtdError> {
        read_only_leb(leb, "change")
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        read_only_leb(leb, "map")
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        read_only_leb(leb, "unmap")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}
