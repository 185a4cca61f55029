//! Performs operations on the device.

use super::{Bench, Op, style};
use crate::powercut::Broken;
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::{NewVolume, UbiDevice, UbiError};
use eraseblock_ubi_format::{VolumeFlags, VolumeKind, VolumeName};

impl Bench {
    /// Performs the operation on the device; returns a problem with the result, if any.
    pub(super) fn apply(&mut self, op: &Op) -> Result<Option<Broken>, UbiError> {
        match op {
            Op::Reattach { detach } => self.reattach(*detach),
            Op::Read { volume, leb } => {
                Ok(self.compare(*volume, *leb)?.map(|problem| ("leb-content", problem)))
            }
            _ => self.apply_to_lebs(op).map(|()| None),
        }
    }

    /// Reads a LEB; bits that had to be corrected make UBI scrub it.
    fn compare(&self, volume: u32, leb: u32) -> Result<Option<String>, UbiError> {
        let device = self.ubi.volume(VolumeId::new(volume))?;
        let expected = &self.model.volumes[&volume].lebs[leb as usize].content;
        let mut found = vec![0; expected.len()];
        let outcome = device.read(Leb::new(leb), 0, &mut found)?;
        let same = found == **expected && !outcome.uncorrectable;
        Ok((!same).then(|| format!("volume {volume} LEB {leb} is not what was written")))
    }

    fn apply_to_lebs(&mut self, op: &Op) -> Result<(), UbiError> {
        let open = |id: &u32| self.ubi.volume(VolumeId::new(*id));
        match op {
            Op::Append { volume, leb, data } => {
                let end = self.model.volumes[volume].lebs[*leb as usize].content.len();
                let offset = u32::try_from(end - data.len()).expect("within a LEB");
                Ok(open(volume)?.write(Leb::new(*leb), offset, data)?)
            }
            Op::Change { volume, leb, data } => Ok(open(volume)?.change(Leb::new(*leb), data)?),
            Op::Map { volume, leb } => Ok(open(volume)?.map(Leb::new(*leb))?),
            Op::Unmap { volume, leb } => Ok(open(volume)?.unmap(Leb::new(*leb))?),
            Op::Erase { volume, leb } => open(volume)?.erase(Leb::new(*leb)),
            Op::Scrub { peb } => {
                self.ubi.request_scrub(Peb::new(*peb));
                Ok(())
            }
            Op::Step => self.ubi.background_step().map(|_| ()),
            Op::Flush => self.ubi.flush(),
            _ => self.apply_to_volumes(op),
        }
    }

    fn apply_to_volumes(&mut self, op: &Op) -> Result<(), UbiError> {
        let name = |id: &u32| {
            let name = self.model.volumes[id].name.as_str();
            VolumeName::new(name).expect("a short name")
        };
        match op {
            Op::Create { id, is_static, lebs } => {
                let kind = if *is_static { VolumeKind::Static } else { VolumeKind::Dynamic };
                let new = NewVolume {
                    id: Some(VolumeId::new(*id)),
                    name: name(id),
                    kind,
                    lebs: *lebs,
                    alignment: 1,
                    flags: VolumeFlags::default(),
                };
                self.ubi.create_volume(&new).map(|_| ())
            }
            Op::Remove { volume } => self.ubi.remove_volume(VolumeId::new(*volume)),
            Op::Resize { volume, lebs } => self.ubi.resize_volume(VolumeId::new(*volume), *lebs),
            Op::Swap { volume, other } => self.ubi.rename_volumes(&[
                (VolumeId::new(*volume), name(volume)),
                (VolumeId::new(*other), name(other)),
            ]),
            Op::Replace { volume, .. } => {
                self.ubi.rename_volumes(&[(VolumeId::new(*volume), name(volume))])
            }
            Op::Update { volume, data } => {
                let len = data.len() as u64;
                match data.len() {
                    0 => self.count(style::EMPTY_UPDATES, 1),
                    len if len == self.unit() => self.count(style::UNIT_UPDATES, 1),
                    _ => {}
                }
                self.ubi.update_volume(VolumeId::new(*volume), len, &mut &data[..])
            }
            _ => Ok(()),
        }
    }

    /// Attaches again. A device that was detached is attached by its fastmap, if it has fastmaps.
    fn reattach(&mut self, detach: bool) -> Result<Option<Broken>, UbiError> {
        self.ubi.flush()?;
        if detach {
            self.ubi.detach()?;
        }
        self.past = self.background();
        let options = self.target.open_options();
        let (ubi, attachment) =
            UbiDevice::open_with_report(self.chip.clone(), &self.layout, &options)?;
        self.ubi = ubi;
        let fell_back = detach && options.fastmap && !attachment.is_by_fastmap();
        Ok(fell_back.then(|| ("fastmap-refused", super::super::judge::why_scanned(&attachment).1)))
    }
}
