//! A device in use: [`UbiDevice`], opened for writing on any [`Mtd`], and the handles of its
//! volumes ([`Volume`], a [`LebDevice`](eraseblock_mtd::LebDevice)). There are no threads and no
//! clock: the owner runs the background work of Linux with [`UbiDevice::background_step`].
//!
//! ```
//! use eraseblock_base::{Geometry, Leb, MediumKind};
//! use eraseblock_mtd::{LebDevice, MemoryMtd};
//! use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice};
//! use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
//! use std::sync::Arc;
//!
//! let geometry = Geometry::new(MediumKind::Nand, 16384, 64, 512, 512, 16)?;
//! let layout = HeaderLayout::new(16384, 512, 512, None)?;
//! let flash = Arc::new(MemoryMtd::new(geometry));
//! let ubi = UbiDevice::open(flash, &layout, &OpenOptions::default())?;
//! let id = ubi.create_volume(&NewVolume {
//!     id: None,
//!     name: VolumeName::new("data").expect("a short name"),
//!     kind: VolumeKind::Dynamic,
//!     lebs: 20,
//!     alignment: 1,
//!     flags: VolumeFlags::default(),
//! })?;
//! let volume = ubi.volume(id)?;
//! volume.write(Leb::new(3), 0, &[0x5A; 512])?;
//! volume.change(Leb::new(3), &[0xA5; 1024])?;
//! while ubi.background_step()? {}
//! ubi.check_invariants()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! 1. One lock protects everything: readers share it, even while they wait for the flash; changes
//!    hold it exclusively. There is no second lock that could be taken in a wrong order.
//! 2. The effect of an operation depends only on the flash, the options and earlier operations.

mod handle;
mod wear;

pub use handle::Volume;
pub use wear::{ErrorCounts, Health, Histogram, ListSizes};

use crate::attach::{Attachment, VolumeInfo};
use crate::core::Core;
use crate::error::UbiError;
use crate::open::open;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::vmt::NewVolume;
use eraseblock_base::{Peb, VolumeId};
use eraseblock_mtd::Mtd;
use eraseblock_ubi_format::constants::FIRST_INTERNAL_VOLUME;
use eraseblock_ubi_format::{HeaderLayout, VolumeName};
use std::fmt;
use std::io::Read;
use std::sync::{Arc, PoisonError};

/// How to open a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
pub struct OpenOptions {
    /// Write nothing.
    pub read_only: bool,
    /// Continue with the salvaged state where Linux refuses the device.
    pub force: bool,
    /// Write although an unknown internal volume demands read-only use. Its blocks stay unchanged.
    pub force_rw: bool,
    /// Reads with at least this many corrected bits in a codeword count as having bit flips.
    pub bitflip_threshold: u16,
    /// The difference of erase counters from which wear is levelled (spec: ubi 14.1).
    pub wl_threshold: u32,
    /// Maximum number of bad blocks expected in the life of the chip; by default Linux's 20 in
    /// 1024.
    pub max_bad_blocks: Option<u32>,
    /// Number of the image, for an empty device.
    pub image_seq: u32,
    /// Use a fastmap to attach faster, and write one for the next time. Only on devices with more
    /// than 64 eraseblocks; without this, a fastmap that is found is erased (spec: ubi 16).
    pub fastmap: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            force: false,
            force_rw: false,
            bitflip_threshold: 1,
            wl_threshold: 4096,
            max_bad_blocks: None,
            image_seq: 1,
            fastmap: false,
        }
    }
}

/// Why a device is read-only (spec: ubi 15).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ReadOnlyReason {
    /// It was opened read-only.
    Asked,
    /// Both headers share a header unit.
    SharedHeaderUnit,
    /// An unknown internal volume demands it.
    InternalVolume,
    /// There are too few blocks for the volumes and the reserves.
    NotEnoughBlocks,
    /// Data or a header could not be written.
    WriteFailed,
    /// A block could not be erased, and the error does not mean that the block is bad.
    EraseFailed,
    /// A block went bad, and none is left to replace it.
    NoReserve,
    /// A block could not be marked bad.
    MarkBadFailed,
    /// Moving a LEB failed permanently.
    MoveFailed,
    /// Too many LEBs that must be moved cannot be read.
    TooManyErroneous,
    /// A fastmap contradicts the flash, or could neither be written nor invalidated.
    Fastmap,
}

impl fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "it was opened read-only",
            Self::SharedHeaderUnit => {
                "the EC and VID headers lie in the same page or sub-page, and each is written alone"
            }
            Self::InternalVolume => "an unknown internal volume demands it",
            Self::NotEnoughBlocks => "too few eraseblocks for volumes and reserves",
            Self::WriteFailed => "a write failed permanently",
            Self::EraseFailed => "an erase failed permanently",
            Self::NoReserve => "an eraseblock went bad and none is left to replace it",
            Self::MarkBadFailed => "an eraseblock could not be marked bad",
            Self::MoveFailed => "moving a LEB failed permanently",
            Self::TooManyErroneous => "too many LEBs cannot be read",
            Self::Fastmap => "the fastmap is wrong and cannot be replaced",
        })
    }
}

/// A UBI device in use.
#[derive(Clone, Debug)]
pub struct UbiDevice {
    core: Arc<RwLock<Core>>,
}

impl UbiDevice {
    /// Attaches a device and makes it ready for use (spec: ubi 9 to 11). Formats an empty device.
    ///
    /// Errors: [`UbiError::Refused`] if Linux refuses, and the errors of the device.
    pub fn open(
        device: Arc<dyn Mtd>,
        layout: &HeaderLayout,
        options: &OpenOptions,
    ) -> Result<Self, UbiError> {
        Self::open_with_report(device, layout, options).map(|(ubi, _)| ubi)
    }

    /// Like [`Self::open`]; also returns the findings of the attach. Fails as that does.
    pub fn open_with_report(
        device: Arc<dyn Mtd>,
        layout: &HeaderLayout,
        options: &OpenOptions,
    ) -> Result<(Self, Attachment), UbiError> {
        let (core, attachment) = open(device, layout, options)?;
        Ok((Self { core: Arc::new(RwLock::new(core)) }, attachment))
    }

    // After a panic in another thread the state in memory may be half changed. The flash is at
    // worst in a state that a power cut can leave.
    fn shared(&self) -> RwLockReadGuard<'_, Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Core> {
        self.core.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all user volumes by ascending number.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let core = self.shared();
        let user = core.volumes.keys().filter(|id| id.get() < FIRST_INTERNAL_VOLUME);
        user.filter_map(|id| core.info(*id).ok()).collect()
    }

    /// Opens the volume of this number. Fails if there is none.
    pub fn volume(&self, id: VolumeId) -> Result<Volume, UbiError> {
        Volume::open(&self.core, id)
    }

    /// Opens the volume of this name. Fails if there is none.
    pub fn volume_named(&self, name: &[u8]) -> Result<Volume, UbiError> {
        let found = self.volumes().into_iter().find(|volume| volume.name.as_bytes() == name);
        let wanted = || String::from_utf8_lossy(name).into_owned();
        self.volume(found.ok_or_else(|| UbiError::NoVolume { wanted: wanted() })?.id)
    }

    /// Creates a volume (spec: ubi 17). Fails if the name or number is taken, or if too few LEBs
    /// are available.
    pub fn create_volume(&self, volume: &NewVolume) -> Result<VolumeId, UbiError> {
        self.exclusive().create_volume(volume)
    }

    /// Removes a volume that is not open. Fails if there is none, or if it is open.
    pub fn remove_volume(&self, id: VolumeId) -> Result<(), UbiError> {
        self.exclusive().remove_volume(id)
    }

    /// Changes the size of a volume. To shrink, it must not be open. Fails if it is open, if too
    /// few LEBs are available, or if data lies after the new end of a static volume.
    pub fn resize_volume(&self, id: VolumeId, lebs: u32) -> Result<(), UbiError> {
        self.exclusive().resize_volume(id, lebs)
    }

    /// Renames volumes in one step. A volume whose name is taken by another one is removed unless
    /// it is renamed, too. Fails if a name is given twice, or if a volume to be removed is open.
    pub fn rename_volumes(&self, renames: &[(VolumeId, VolumeName)]) -> Result<(), UbiError> {
        self.exclusive().rename_volumes(renames)
    }

    /// Replaces the content of a volume that is not open by `len` bytes. After an interruption the
    /// volume stays marked as damaged until the next update. Fails if `content` ends early, if
    /// `len` exceeds the volume, or if the device fails.
    pub fn update_volume(
        &self,
        id: VolumeId,
        len: u64,
        content: &mut dyn Read,
    ) -> Result<(), UbiError> {
        self.exclusive().update_volume(id, len, content)
    }

    /// Verifies all checksums of a static volume; returns whether they are correct. Fails if the
    /// device does.
    pub fn check_volume(&self, id: VolumeId) -> Result<bool, UbiError> {
        self.exclusive().check_static(id)
    }

    /// Performs one step of background work: erases a block or moves a LEB. Returns `false` when
    /// there is nothing to do. Fails if the device turns read-only over it.
    pub fn background_step(&self) -> Result<bool, UbiError> {
        self.exclusive().step()
    }

    /// Performs all pending background work. Fails as [`Self::background_step`] does.
    pub fn flush(&self) -> Result<(), UbiError> {
        // Wear levelling may continue while counters differ; each step is an erase.
        let mut patience = 16 * self.shared().wl.ecs().len() + 16;
        while patience > 0 && self.background_step()? {
            patience -= 1;
        }
        Ok(())
    }

    /// Marks the block for moving if it holds a LEB; returns whether it does.
    pub fn request_scrub(&self, peb: Peb) -> bool {
        let mut core = self.exclusive();
        let inside = peb.index() < core.wl.ecs().len();
        let before = core.counters.scrubs;
        if inside {
            core.request_scrub(peb);
        }
        core.counters.scrubs != before
    }

    /// Writes a fastmap if they are in use, so that the next attach is fast. Call it before closing
    /// a device. Fails if the device does.
    pub fn detach(&self) -> Result<(), UbiError> {
        let mut core = self.exclusive();
        core.refresh_fastmap()?;
        Ok(core.io.device.sync()?)
    }

    /// Makes everything written so far durable on the medium of the device. Fails if the device
    /// does.
    pub fn sync(&self) -> Result<(), UbiError> {
        Ok(self.shared().io.device.sync()?)
    }

    /// Returns why the device is read-only, if it is.
    pub fn read_only(&self) -> Option<ReadOnlyReason> {
        self.shared().read_only
    }

    /// Leaves read-only mode if the headers on flash agree with the maps in memory.
    ///
    /// Fails with the first disagreement, or with [`UbiError::ReadOnly`] if the reason is
    /// permanent.
    pub fn force_rw(&self) -> Result<(), UbiError> {
        let mut core = self.exclusive();
        match core.read_only {
            None => return Ok(()),
            Some(
                reason @ (ReadOnlyReason::Asked
                | ReadOnlyReason::SharedHeaderUnit
                | ReadOnlyReason::InternalVolume
                | ReadOnlyReason::NotEnoughBlocks),
            ) => return Err(UbiError::ReadOnly { reason }),
            Some(_) => {}
        }
        core.check().map_err(|_| UbiError::ReadOnly { reason: ReadOnlyReason::NotEnoughBlocks })?;
        core.verify_flash()?;
        core.read_only = None;
        Ok(())
    }

    /// Returns the number of blocks free for new volumes.
    pub fn available_lebs(&self) -> u32 {
        self.shared().books.available
    }

    /// Returns wear, errors and the lists of blocks.
    pub fn health(&self) -> Health {
        Health::of(&self.shared())
    }

    /// Returns the erase counter of every block.
    pub fn erase_counters(&self) -> Vec<u32> {
        self.shared().wl.ecs().to_vec()
    }

    /// Checks that the headers on flash agree with the maps and that both copies of the volume
    /// table are equal. Fails with the first place where they differ.
    pub fn verify_flash(&self) -> Result<(), UbiError> {
        let mut core = self.exclusive();
        core.check_lebs()?;
        core.verify_flash()
    }

    /// Checks the invariants that hold between operations; the error describes the broken one.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.shared().check()
    }
}
