//! The state of a device in use, protected by one lock (see [`crate::runtime`]).
//!
//! # Invariants
//! 1. A mapped LEB points to a block that is used, protected, scrubbed or erroneous, and no two
//!    LEBs point to the same one; every such block has a LEB.
//! 2. No header gets a sequence number that another one has or had.
//! 3. Nothing is written once `read_only` is set.

use crate::account::Accounting;
use crate::attach::VolumeInfo;
use crate::error::UbiError;
use crate::fastmap::FastmapState;
use crate::io::Io;
use crate::runtime::ReadOnlyReason;
use crate::wl::{Place, Wl};
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_ubi_format::{Compat, SqNum, VidHeader, VolumeKind, VolumeRecord};
use std::collections::{BTreeMap, HashSet};

/// A volume in use.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) record: VolumeRecord,
    pub(crate) compat: Compat,
    /// The block of each LEB; one item for each LEB of the volume.
    pub(crate) map: Vec<Option<Peb>>,
    /// LEBs with data of a static volume.
    pub(crate) used_lebs: u32,
    /// Bytes in the last of them.
    pub(crate) last_leb_bytes: u32,
    pub(crate) corrupted: bool,
    /// LEBs whose position is known only from a fastmap (spec: ubi 16.6).
    pub(crate) unchecked: Vec<bool>,
    /// Number of open handles.
    pub(crate) openers: u32,
}

impl Volume {
    pub(crate) fn is_dynamic(&self) -> bool {
        self.record.kind == VolumeKind::Dynamic
    }

    pub(crate) fn peb(&self, leb: Leb) -> Option<Peb> {
        self.map.get(leb.index()).copied().flatten()
    }
}

/// The sizes of a volume that never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LebIo {
    pub(crate) leb_size: u32,
    pub(crate) min_io: u32,
    pub(crate) max_write: u32,
}

/// Counts of events since the device was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counters {
    /// Blocks erased.
    pub erasures: u64,
    /// LEBs moved to another block.
    pub moves: u64,
    /// LEBs marked for moving because of bit flips.
    pub scrubs: u64,
    /// Programs that failed and were repeated in another block.
    pub write_errors: u64,
    /// Torture tests.
    pub tortures: u64,
    /// Blocks marked bad.
    pub marked_bad: u64,
    /// Fastmaps written.
    pub fastmaps: u64,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) io: Io,
    pub(crate) wl: Wl,
    /// User volumes and the layout volume.
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) books: Accounting,
    pub(crate) sqnum: u64,
    pub(crate) read_only: Option<ReadOnlyReason>,
    /// Fastmaps are written.
    pub(crate) fastmap: Option<FastmapState>,
    pub(crate) counters: Counters,
}

impl Core {
    /// Fails if nothing may be written.
    pub(crate) fn check_writable(&self) -> Result<(), UbiError> {
        match self.read_only {
            None => Ok(()),
            Some(reason) => Err(UbiError::ReadOnly { reason }),
        }
    }

    /// Switches to read-only mode (spec: ubi 15); keeps the first reason.
    pub(crate) fn go_read_only(&mut self, reason: ReadOnlyReason) {
        self.read_only.get_or_insert(reason);
    }

    pub(crate) fn fail<T>(
        &mut self,
        reason: ReadOnlyReason,
        error: impl Into<UbiError>,
    ) -> Result<T, UbiError> {
        self.go_read_only(reason);
        Err(error.into())
    }

    pub(crate) fn next_sqnum(&mut self) -> SqNum {
        self.sqnum += 1;
        SqNum::new(self.sqnum)
    }

    pub(crate) fn volume(&self, id: VolumeId) -> Result<&Volume, UbiError> {
        self.volumes.get(&id).ok_or_else(|| UbiError::NoVolume { wanted: id.to_string() })
    }

    pub(crate) fn volume_mut(&mut self, id: VolumeId) -> Result<&mut Volume, UbiError> {
        self.volumes.get_mut(&id).ok_or_else(|| UbiError::NoVolume { wanted: id.to_string() })
    }

    pub(crate) fn usable(&self, volume: &Volume) -> u32 {
        self.io.layout.leb_size() - volume.record.data_pad
    }

    pub(crate) fn leb_io(&self, id: VolumeId) -> Result<LebIo, UbiError> {
        let leb_size = self.usable(self.volume(id)?);
        Ok(LebIo { leb_size, min_io: self.io.layout.min_io(), max_write: self.io.max_write() })
    }

    /// Returns the header for a new block of a LEB, without sequence number.
    pub(crate) fn vid_header(&self, id: VolumeId, leb: Leb) -> Result<VidHeader, UbiError> {
        let volume = self.volume(id)?;
        Ok(VidHeader {
            kind: volume.record.kind,
            copy_flag: false,
            compat: volume.compat,
            volume: id,
            leb,
            data_size: 0,
            used_lebs: 0,
            data_pad: volume.record.data_pad,
            data_crc: 0,
            sqnum: SqNum::default(),
        })
    }

    pub(crate) fn info(&self, id: VolumeId) -> Result<VolumeInfo, UbiError> {
        let volume = self.volume(id)?;
        let usable = self.usable(volume);
        let dynamic = volume.is_dynamic();
        let used = if dynamic { volume.record.reserved_lebs } else { volume.used_lebs };
        let last = if dynamic { usable } else { volume.last_leb_bytes };
        let mapped = volume.map.iter().flatten().count();
        let highest = volume.map.iter().rposition(Option::is_some);
        Ok(VolumeInfo {
            id,
            name: volume.record.name.clone(),
            kind: volume.record.kind,
            reserved_lebs: volume.record.reserved_lebs,
            alignment: volume.record.alignment,
            data_pad: volume.record.data_pad,
            usable_leb_size: usable,
            upd_marker: volume.record.upd_marker,
            flags: volume.record.flags,
            used_lebs: used,
            last_leb_bytes: last,
            used_bytes: u64::from(used.saturating_sub(1)) * u64::from(usable) + u64::from(last),
            mapped_lebs: u32::try_from(mapped).expect("PEB numbers are 32 bits"),
            highest_leb: highest.and_then(|leb| u32::try_from(leb).ok()),
            corrupted: volume.corrupted,
            synthesised: false,
        })
    }

    /// Checks the invariants of the device and of its parts.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.wl.check()?;
        self.books.check()?;
        let mut seen = HashSet::new();
        for (id, volume) in &self.volumes {
            if volume.map.len() != volume.record.reserved_lebs as usize {
                return Err(format!("volume {id} has a map of {} LEBs", volume.map.len()));
            }
            for peb in volume.map.iter().flatten() {
                let place = self.wl.place(*peb);
                if !holds_a_leb(place) {
                    return Err(format!("volume {id} has {peb:?}, which is {place:?}"));
                }
                if !seen.insert(*peb) {
                    return Err(format!("{peb:?} holds two LEBs"));
                }
            }
        }
        let orphan = self
            .io
            .device
            .geometry()
            .pebs()
            .find(|peb| holds_a_leb(self.wl.place(*peb)) && !seen.contains(peb));
        match orphan {
            None => Ok(()),
            Some(peb) => Err(format!("{peb:?} is {:?} and holds no LEB", self.wl.place(peb))),
        }
    }
}

fn holds_a_leb(place: Place) -> bool {
    matches!(place, Place::Used | Place::Protected | Place::Scrub | Place::Erroneous)
}
