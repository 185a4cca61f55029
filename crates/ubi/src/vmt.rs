//! Creating, removing, resizing and renaming volumes (spec: ubi 17).
//!
//! # Invariants
//! 1. The volume table on flash changes in one step; a cut leaves the old or the new one.
//! 2. When a record is added, no LEB of an earlier volume of this number is left. When a smaller
//!    size is written, no LEB beyond it is left.

use crate::core::{Core, Volume};
use crate::error::UbiError;
use eraseblock_base::{Leb, VolumeId};
use eraseblock_ubi_format::{Compat, VolumeFlags, VolumeKind, VolumeName, VolumeRecord};

/// A volume to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewVolume {
    /// Its number; the lowest free one if not given.
    pub id: Option<VolumeId>,
    /// Its name.
    pub name: VolumeName,
    /// Its kind.
    pub kind: VolumeKind,
    /// Its size in LEBs.
    pub lebs: u32,
    /// Alignment of the usable LEB size: 1 or a multiple of the minimum I/O unit.
    pub alignment: u32,
    /// Its flags.
    pub flags: VolumeFlags,
}

impl Core {
    /// Creates a volume.
    pub(crate) fn create_volume(&mut self, new: &NewVolume) -> Result<VolumeId, UbiError> {
        self.check_writable()?;
        let id = self.free_id(new)?;
        let request = |field, found, expected| UbiError::Request { field, found, expected };
        if new.lebs == 0 {
            return Err(request("size", 0, "at least one LEB"));
        }
        let leb_size = self.io.layout.leb_size();
        let aligned = new.alignment == 1 || new.alignment.is_multiple_of(self.io.layout.min_io());
        if new.alignment == 0 || new.alignment > leb_size || !aligned {
            let expected = "1, or a multiple of the minimum I/O unit up to the LEB size";
            return Err(request("alignment", new.alignment.into(), expected));
        }
        if new.flags.contains(VolumeFlags::SKIP_CHECK) && new.kind != VolumeKind::Static {
            let expected = "a static volume, where checks are to be skipped";
            return Err(request("volume type", new.kind.code().into(), expected));
        }
        let record = VolumeRecord {
            reserved_lebs: new.lebs,
            alignment: new.alignment,
            data_pad: leb_size % new.alignment,
            kind: new.kind,
            upd_marker: false,
            name: new.name.clone(),
            flags: new.flags,
        };
        self.reserve(new.lebs)?;
        let written = self.flush_and_record(id, &record);
        if let Err(error) = written {
            self.books.release(new.lebs);
            return Err(error);
        }
        self.volumes.insert(id, Volume::empty(record));
        self.refresh_fastmap()?;
        Ok(id)
    }

    fn flush_and_record(&mut self, id: VolumeId, record: &VolumeRecord) -> Result<(), UbiError> {
        self.flush_erasures(id, None)?;
        // A fastmap that lists an earlier volume of this number would give it LEBs.
        if self.fastmap.as_ref().is_some_and(|state| state.volumes.contains(&id)) {
            self.refresh_fastmap()?;
        }
        self.write_record(id, Some(record.clone()))
    }

    fn free_id(&self, new: &NewVolume) -> Result<VolumeId, UbiError> {
        let slots = self.io.layout.volume_slots();
        let taken = |id: &VolumeId| self.volumes.contains_key(id);
        let mut names = self.volumes.values().map(|volume| &volume.record.name);
        if names.any(|name| *name == new.name) {
            return Err(UbiError::Exists { what: new.name.to_string() });
        }
        match new.id {
            Some(id) if id.get() >= slots => {
                let expected = "a slot of the volume table";
                Err(UbiError::Request { field: "volume id", found: id.get().into(), expected })
            }
            Some(id) if taken(&id) => Err(UbiError::Exists { what: id.to_string() }),
            Some(id) => Ok(id),
            None => (0..slots).map(VolumeId::new).find(|id| !taken(id)).ok_or(UbiError::NoSpace {
                wanted: u64::from(slots) + 1,
                available: u64::from(slots),
            }),
        }
    }

    fn reserve(&mut self, lebs: u32) -> Result<(), UbiError> {
        let short = |available| UbiError::NoSpace {
            wanted: u64::from(lebs),
            available: u64::from(available),
        };
        self.books.reserve(lebs).map_err(short)
    }

    /// Returns the volume if it is not open.
    fn idle_volume(&self, id: VolumeId) -> Result<&Volume, UbiError> {
        let volume = self.user_volume(id)?;
        if volume.openers > 0 { Err(UbiError::Busy { id }) } else { Ok(volume) }
    }

    pub(crate) fn user_volume(&self, id: VolumeId) -> Result<&Volume, UbiError> {
        if id.get() >= self.io.layout.volume_slots() {
            return Err(UbiError::NoVolume { wanted: id.to_string() });
        }
        self.volume(id)
    }

    /// Removes a volume; its LEBs are erased in the background.
    pub(crate) fn remove_volume(&mut self, id: VolumeId) -> Result<(), UbiError> {
        self.check_writable()?;
        let lebs = self.idle_volume(id)?.record.reserved_lebs;
        self.write_record(id, None)?;
        self.drop_volume(id, lebs)?;
        self.refresh_fastmap()
    }

    fn drop_volume(&mut self, id: VolumeId, lebs: u32) -> Result<(), UbiError> {
        self.unmap_from(id, 0)?;
        self.volumes.remove(&id);
        self.books.release(lebs);
        Ok(())
    }

    /// Unmaps all LEBs from `first` on.
    pub(crate) fn unmap_from(&mut self, id: VolumeId, first: u32) -> Result<(), UbiError> {
        let lebs = self.volume(id)?.record.reserved_lebs;
        (first..lebs).try_for_each(|leb| self.unmap_leb(id, Leb::new(leb)))
    }

    /// Changes the size of a volume. Shrinking discards the LEBs beyond the new end.
    pub(crate) fn resize_volume(&mut self, id: VolumeId, lebs: u32) -> Result<(), UbiError> {
        self.check_writable()?;
        let volume = self.user_volume(id)?;
        let old = volume.record.reserved_lebs;
        let least = if volume.is_dynamic() { 1 } else { volume.used_lebs.max(1) };
        if lebs < least {
            let expected = "at least one LEB, and not below the data of a static volume";
            return Err(UbiError::Request { field: "size", found: lebs.into(), expected });
        }
        if lebs < old {
            self.idle_volume(id)?;
        }
        let record = VolumeRecord { reserved_lebs: lebs, ..self.volume(id)?.record.clone() };
        if lebs > old {
            self.reserve(lebs - old)?;
            if let Err(error) = self.write_record(id, Some(record.clone())) {
                self.books.release(lebs - old);
                return Err(error);
            }
        } else if lebs < old {
            self.shrink(id, &record)?;
            self.books.release(old - lebs);
        }
        let volume = self.volume_mut(id)?;
        volume.record = record;
        volume.map.resize(lebs as usize, None);
        if lebs == old { Ok(()) } else { self.refresh_fastmap() }
    }

    fn shrink(&mut self, id: VolumeId, record: &VolumeRecord) -> Result<(), UbiError> {
        self.unmap_from(id, record.reserved_lebs)?;
        self.flush_erasures(id, None)?;
        // A fastmap with LEBs beyond the size in the table would not be accepted.
        self.refresh_fastmap()?;
        self.write_record(id, Some(record.clone()))
    }

    /// Renames volumes in one step. A volume whose name is taken by another one is removed unless
    /// it is renamed, too.
    pub(crate) fn rename_volumes(
        &mut self,
        renames: &[(VolumeId, VolumeName)],
    ) -> Result<(), UbiError> {
        self.check_writable()?;
        for (index, (id, name)) in renames.iter().enumerate() {
            self.user_volume(*id)?;
            let twice = renames[..index].iter().any(|(other, to)| other == id || to == name);
            if twice {
                let expected = "each volume and each name once";
                let found = u64::from(id.get());
                return Err(UbiError::Request { field: "renamed volume", found, expected });
            }
        }
        let renamed = |id: &VolumeId| renames.iter().find(|(other, _)| other == id);
        let mut records = self.records();
        let replaced: Vec<(VolumeId, u32)> = records
            .iter()
            .filter(|(id, record)| {
                renamed(id).is_none() && renames.iter().any(|(_, name)| *name == record.name)
            })
            .map(|(id, record)| (*id, record.reserved_lebs))
            .collect();
        for (id, _) in &replaced {
            self.idle_volume(*id)?;
        }
        records.retain(|(id, _)| !replaced.iter().any(|(gone, _)| gone == id));
        for (id, record) in &mut records {
            if let Some((_, name)) = renamed(id) {
                record.name = name.clone();
            }
        }
        let old = self.records();
        if records == old {
            return Ok(());
        }
        self.write_table(&records)?;
        for (id, name) in renames {
            self.volume_mut(*id)?.record.name = name.clone();
        }
        replaced.into_iter().try_for_each(|(id, lebs)| self.drop_volume(id, lebs))?;
        self.refresh_fastmap()
    }
}

impl Volume {
    /// A volume without LEBs.
    pub(crate) fn empty(record: VolumeRecord) -> Self {
        Self {
            map: vec![None; record.reserved_lebs as usize],
            record,
            compat: Compat::None,
            used_lebs: 0,
            last_leb_bytes: 0,
            corrupted: false,
            unchecked: Vec::new(),
            openers: 0,
        }
    }
}
