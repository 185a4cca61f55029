//! The effect of operations on the model.

use super::super::model::{Content, LebModel, Model, Torn, VolumeModel};
use super::style::Style;
use super::{Bench, Op};
use eraseblock_base::{Leb, VolumeId};
use eraseblock_mtd::LebDevice;

impl Bench {
    /// Returns the data that an interruption of the operation may leave half written.
    pub(super) fn torn(&self, op: &Op) -> Option<Torn> {
        match op {
            Op::Append { volume, leb, data } => {
                let base = self.model.volumes[volume].lebs[*leb as usize].content.clone();
                Some(Torn { volume: *volume, leb: *leb, base, data: data.clone() })
            }
            // A change of a LEB that is not mapped is not atomic (spec: ubi 20.4).
            Op::Change { volume, leb, data } if !self.is_mapped(*volume, *leb) => {
                let base = Content::default();
                Some(Torn { volume: *volume, leb: *leb, base, data: data.clone() })
            }
            _ => None,
        }
    }

    pub(super) fn is_mapped(&self, volume: u32, leb: u32) -> bool {
        let volume = self.ubi.volume(VolumeId::new(volume));
        volume.is_ok_and(|volume| volume.is_mapped(Leb::new(leb)).unwrap_or(false))
    }

    /// Performs the operation in the model.
    pub(super) fn imagine(&mut self, op: &Op) {
        let model = &mut self.model;
        let name = |stamp: u64| format!("volume-{stamp}");
        match op {
            Op::Append { volume, leb, data } => {
                let leb = &mut volume_mut(model, *volume).lebs[*leb as usize];
                let content = leb.content.iter().chain(data).copied().collect();
                leb.set(content);
            }
            Op::Change { volume, leb, data } => {
                volume_mut(model, *volume).lebs[*leb as usize].set(data.clone());
            }
            Op::Map { volume, leb } => {
                volume_mut(model, *volume).lebs[*leb as usize].ghosts.clear();
            }
            Op::Unmap { volume, leb } => volume_mut(model, *volume).lebs[*leb as usize].unmap(),
            Op::Erase { volume, leb } => {
                volume_mut(model, *volume).lebs[*leb as usize].set(Vec::new());
            }
            Op::Flush | Op::Reattach { .. } => model.forget_ghosts(),
            Op::Read { .. } | Op::Scrub { .. } | Op::Step => {}
            Op::Create { id, is_static, lebs } => {
                let lebs = vec![LebModel::default(); *lebs as usize];
                let name = name(self.operations);
                let volume = VolumeModel { name, is_static: *is_static, lebs, used: 0 };
                model.volumes.insert(*id, volume);
            }
            Op::Remove { volume } => {
                model.volumes.remove(volume);
            }
            Op::Resize { volume, lebs } => {
                volume_mut(model, *volume).lebs.resize(*lebs as usize, LebModel::default());
            }
            Op::Swap { volume, other } => {
                let name = volume_mut(model, *other).name.clone();
                let name = std::mem::replace(&mut volume_mut(model, *volume).name, name);
                volume_mut(model, *other).name = name;
            }
            Op::Replace { volume, other } => {
                if let Some(gone) = model.volumes.remove(other) {
                    volume_mut(model, *volume).name = gone.name;
                }
            }
            Op::Update { volume, data } => self.imagine_update(*volume, data),
        }
        if self.style == Style::Eager {
            self.model.forget_ghosts();
        }
    }

    fn imagine_update(&mut self, volume: u32, data: &[u8]) {
        let (leb_size, unit) = (self.layout.leb_size() as usize, self.layout.min_io() as usize);
        let volume = volume_mut(&mut self.model, volume);
        volume.used = if volume.is_static { data.len() as u64 } else { 0 };
        let mut parts = data.chunks(leb_size);
        for leb in &mut volume.lebs {
            let mut part = parts.next().unwrap_or_default().to_vec();
            let fill = if volume.is_static { 0 } else { 0xFF };
            part.resize(part.len().next_multiple_of(unit), fill);
            leb.set(part);
        }
    }
}

fn volume_mut(model: &mut Model, id: u32) -> &mut VolumeModel {
    model.volumes.get_mut(&id).expect("an operation is chosen among the volumes there are")
}
