//! Updates volumes: a new content for the whole volume (spec: ubi 17).
//!
//! # Invariants
//! 1. While the content is incomplete, the update marker is on flash, so that a partial image is
//!    never used as a complete one.

use crate::core::Core;
use crate::error::UbiError;
use crate::wl::mover::used_len;
use eraseblock_base::{Leb, VolumeId};
use eraseblock_ubi_format::VolumeRecord;
use std::io::Read;

/// The mark of a volume whose update is not complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Set,
    Clear,
}

impl Core {
    /// Replaces the content of the volume by `len` bytes of `content`.
    pub(crate) fn update_volume(
        &mut self,
        id: VolumeId,
        len: u64,
        content: &mut dyn Read,
    ) -> Result<(), UbiError> {
        self.check_writable()?;
        let volume = self.user_volume(id)?;
        let usable = self.usable(volume);
        let capacity = u64::from(volume.record.reserved_lebs) * u64::from(usable);
        if len > capacity {
            let expected = "at most the size of the volume";
            return Err(UbiError::Request { field: "content", found: len, expected });
        }
        if volume.openers > 0 {
            return Err(UbiError::Busy { id });
        }
        self.mark_update(id, Marker::Set)?;
        self.unmap_from(id, 0)?;
        self.flush_erasures(id, None)?;
        let lebs = u32::try_from(len.div_ceil(u64::from(usable))).expect("within the volume");
        // Both: the old length of the last LEB would be reported as content of a volume without any.
        let volume = self.volume_mut(id)?;
        (volume.used_lebs, volume.last_leb_bytes) = (0, 0);
        let mut left = len;
        for leb in (0..lebs).map(Leb::new) {
            let part = left.min(u64::from(usable));
            let mut data = vec![0; usize::try_from(part).expect("within a LEB")];
            content.read_exact(&mut data).map_err(UbiError::Content)?;
            self.write_part(id, leb, data, lebs)?;
            left -= part;
        }
        self.finish_update(id, lebs, len, usable)
    }

    fn write_part(
        &mut self,
        id: VolumeId,
        leb: Leb,
        mut data: Vec<u8>,
        lebs: u32,
    ) -> Result<(), UbiError> {
        if !self.volume(id)?.is_dynamic() {
            return self.write_static(id, leb, &data, lebs);
        }
        let unit = self.io.layout.min_io() as usize;
        data.resize(data.len().next_multiple_of(unit), 0xFF);
        data.truncate(used_len(&data, unit));
        if data.is_empty() { Ok(()) } else { self.write_marked(id, leb, &data) }
    }

    /// Writes to a volume whose marker prevents all other writes.
    fn write_marked(&mut self, id: VolumeId, leb: Leb, data: &[u8]) -> Result<(), UbiError> {
        let marker = std::mem::take(&mut self.volume_mut(id)?.record.upd_marker);
        let result = self.write_leb(id, leb, 0, data);
        self.volume_mut(id)?.record.upd_marker = marker;
        result
    }

    fn finish_update(
        &mut self,
        id: VolumeId,
        lebs: u32,
        len: u64,
        usable: u32,
    ) -> Result<(), UbiError> {
        let volume = self.volume_mut(id)?;
        let dynamic = volume.is_dynamic();
        if !dynamic {
            volume.used_lebs = lebs;
            let before = u64::from(lebs.saturating_sub(1)) * u64::from(usable);
            volume.last_leb_bytes = u32::try_from(len - before).expect("within a LEB");
            volume.corrupted = false;
            // While the marker is set, no attach uses information of an older fastmap about the
            // volume.
            self.refresh_fastmap()?;
        }
        if self.volume(id)?.record.upd_marker {
            self.mark_update(id, Marker::Clear)?;
        }
        if dynamic { Ok(()) } else { self.check_static(id).map(|_| ()) }
    }

    fn mark_update(&mut self, id: VolumeId, marker: Marker) -> Result<(), UbiError> {
        let upd_marker = marker == Marker::Set;
        let record = VolumeRecord { upd_marker, ..self.volume(id)?.record.clone() };
        self.write_record(id, Some(record.clone()))?;
        self.volume_mut(id)?.record = record;
        Ok(())
    }

    /// Verifies all LEBs of a static volume; returns whether they are intact.
    pub(crate) fn check_static(&mut self, id: VolumeId) -> Result<bool, UbiError> {
        let volume = self.volume(id)?;
        if volume.is_dynamic() {
            return Ok(true);
        }
        for leb in (0..volume.used_lebs).map(Leb::new) {
            self.check_leb(id, leb)?;
            match self.check_static_leb(id, leb) {
                Ok(()) => {}
                Err(UbiError::DataCrc { .. }) => {
                    self.volume_mut(id)?.corrupted = true;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(!self.volume(id)?.corrupted)
    }
}
