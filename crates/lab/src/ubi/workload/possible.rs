//! Decides whether an operation is possible without some that were chosen before it.

use super::{Bench, Op};

impl Bench {
    /// Returns whether an operation that was chosen in another state is possible in this one.
    pub(super) fn is_possible(&self, op: &Op) -> bool {
        let volumes = &self.model.volumes;
        let leb_size = self.layout.leb_size() as usize;
        let leb_of = |volume: &u32, leb: &u32| {
            let model = volumes.get(volume).filter(|model| !model.is_static)?;
            model.lebs.get(*leb as usize)
        };
        match op {
            Op::Append { volume, leb, data } => leb_of(volume, leb)
                .is_some_and(|model| model.content.len() + data.len() <= leb_size),
            Op::Change { volume, leb, .. }
            | Op::Map { volume, leb }
            | Op::Unmap { volume, leb }
            | Op::Erase { volume, leb } => leb_of(volume, leb).is_some(),
            Op::Read { volume, leb } => {
                volumes.get(volume).is_some_and(|model| (*leb as usize) < model.lebs.len())
            }
            Op::Scrub { .. } | Op::Step | Op::Flush | Op::Reattach { .. } => true,
            Op::Create { id, lebs, .. } => {
                !volumes.contains_key(id) && *lebs <= self.ubi.available_lebs()
            }
            Op::Remove { volume } => volumes.contains_key(volume),
            Op::Resize { volume, lebs } => volumes.get(volume).is_some_and(|model| {
                let used = model.used.div_ceil(u64::from(self.layout.leb_size()));
                let most = model.lebs.len() + self.ubi.available_lebs() as usize;
                u64::from(*lebs) >= used.max(1) && *lebs as usize <= most
            }),
            Op::Swap { volume, other } | Op::Replace { volume, other } => {
                volume != other && volumes.contains_key(volume) && volumes.contains_key(other)
            }
            Op::Update { volume, data } => {
                volumes.get(volume).is_some_and(|model| data.len() <= model.lebs.len() * leb_size)
            }
        }
    }

    /// Returns whether a planned operation is possible now.
    pub(crate) fn can_perform(&self, planned: &super::Planned) -> bool {
        self.is_possible(&planned.op)
    }
}
