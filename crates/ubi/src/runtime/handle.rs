//! A volume in use.

use crate::attach::VolumeInfo;
use crate::core::{Core, LebIo};
use crate::error::{UbiError, to_mtd};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use std::sync::{Arc, PoisonError};

/// An open volume. It cannot be removed, shrunk or updated until this handle is dropped.
#[derive(Debug)]
pub struct Volume {
    core: Arc<RwLock<Core>>,
    id: VolumeId,
    io: LebIo,
}

impl Volume {
    pub(super) fn open(core: &Arc<RwLock<Core>>, id: VolumeId) -> Result<Self, UbiError> {
        let mut locked = core.write().unwrap_or_else(PoisonError::into_inner);
        locked.user_volume(id)?;
        let io = locked.leb_io(id)?;
        locked.volume_mut(id)?.openers += 1;
        drop(locked);
        Ok(Self { core: Arc::clone(core), id, io })
    }

    fn shared(&self) -> RwLockReadGuard<'_, Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Core> {
        self.core.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verifies a LEB on flash, once, if its position is known only from a fastmap.
    fn settle(&self, leb: Leb) -> Result<(), UbiError> {
        if self.shared().is_unchecked(self.id, leb) {
            self.exclusive().check_leb(self.id, leb)?;
        }
        Ok(())
    }

    /// Requests that a LEB be moved because its block had bit flips. Waits for the lock, so that
    /// the request is not lost. The LEB may have been moved or unmapped in the meantime.
    fn ask_for_scrub(&self, leb: Leb, peb: Peb) {
        let mut core = self.exclusive();
        if core.volume(self.id).is_ok_and(|volume| volume.peb(leb) == Some(peb)) {
            core.request_scrub(peb);
        }
    }

    /// Returns the number of the volume.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Returns the properties of the volume. Fails if the volume was removed.
    pub fn info(&self) -> Result<VolumeInfo, UbiError> {
        self.shared().info(self.id)
    }

    /// Unmaps a LEB and waits for the erase, so that the old content cannot reappear. Fails if the
    /// device is read-only, or if the block cannot be erased.
    pub fn erase(&self, leb: Leb) -> Result<(), UbiError> {
        self.exclusive().erase_leb(self.id, leb)
    }

    /// Checks a LEB of a static volume against its checksum. Fails if they differ, or if the LEB
    /// cannot be read.
    pub fn check_leb(&self, leb: Leb) -> Result<(), UbiError> {
        self.shared().check_static_leb(self.id, leb)
    }

    fn change_core<T>(
        &self,
        leb: Leb,
        offset: u32,
        operation: &'static str,
        run: impl FnOnce(&mut Core) -> Result<T, UbiError>,
    ) -> Result<T, MtdError> {
        let at = Location::VolumeLeb(self.id, leb, offset);
        run(&mut self.exclusive()).map_err(|error| to_mtd(error, at, operation))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let mut core = self.exclusive();
        if let Ok(volume) = core.volume_mut(self.id) {
            volume.openers = volume.openers.saturating_sub(1);
        }
    }
}

impl LebDevice for Volume {
    fn leb_size(&self) -> u32 {
        self.io.leb_size
    }

    fn min_io(&self) -> u32 {
        self.io.min_io
    }

    fn max_write(&self) -> u32 {
        self.io.max_write
    }

    fn leb_count(&self) -> u32 {
        self.shared().volume(self.id).map_or(0, |volume| volume.record.reserved_lebs)
    }

    fn is_read_only(&self) -> bool {
        let core = self.shared();
        core.read_only.is_some() || core.volume(self.id).is_ok_and(|volume| !volume.is_dynamic())
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let at = Location::VolumeLeb(self.id, leb, offset);
        let mut core = self.shared();
        if core.is_unchecked(self.id, leb) {
            drop(core);
            self.settle(leb).map_err(|error| to_mtd(error, at, "read"))?;
            core = self.shared();
        }
        let read = core.read_leb(self.id, leb, offset, buf);
        drop(core);
        let read = read.map_err(|error| to_mtd(error, at, "read"))?;
        if let Some(peb) = read.scrub {
            self.ask_for_scrub(leb, peb);
        }
        Ok(read.outcome)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        let at = Location::VolumeLeb(self.id, leb, 0);
        self.settle(leb).map_err(|error| to_mtd(error, at, "mapping query"))?;
        let core = self.shared();
        let volume = core.volume(self.id).map_err(|error| to_mtd(error, at, "mapping query"))?;
        let (operation, expected) = ("mapping query", "a LEB of the volume");
        let entry = volume.map.get(leb.index());
        entry.map(Option::is_some).ok_or(MtdError::Range { at, operation, len: 0, expected })
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.change_core(leb, offset, "write", |core| core.write_leb(self.id, leb, offset, data))
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.change_core(leb, 0, "change", |core| core.change_leb(self.id, leb, data))
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.change_core(leb, 0, "map", |core| core.map_leb(self.id, leb))
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.change_core(leb, 0, "unmap", |core| core.unmap_leb(self.id, leb))
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.shared().io.device.sync()
    }
}
