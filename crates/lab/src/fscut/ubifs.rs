//! UBIFS on UBI on small chips, judged.

use super::on_ubi::{MOST_LEBS, OnUbi};
use super::target::{Mounted, Rules};
use crate::powercut::Shape;
use eraseblock_ubifs::rw::sabotage::Sabotage;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::WritableFileSystem;
use std::sync::Arc;

/// LEBs of a tight volume: little more than UBIFS asks for.
const FEW_LEBS: u32 = 30;

/// UBIFS on a chip of this shape.
pub fn ubifs(shape: Shape) -> OnUbi {
    target(shape.name(), shape, MOST_LEBS, Sabotage::None)
}

/// UBIFS on a chip of the smallest shape, on a volume so small that garbage is collected all the
/// time.
pub fn tight_ubifs() -> OnUbi {
    target("mini-tight", Shape::Mini, FEW_LEBS, Sabotage::None)
}

/// [`tight_ubifs`] with a planted bug.
#[doc(hidden)]
pub fn sabotaged_ubifs(sabotage: Sabotage) -> OnUbi {
    target("mini-tight", Shape::Mini, FEW_LEBS, sabotage)
}

fn target(name: &'static str, shape: Shape, lebs: u32, sabotage: Sabotage) -> OnUbi {
    let mount = move |device, read_only| {
        let options = MountOptions { read_only, sabotage, ..MountOptions::default() };
        let (fs, _) = UbifsMount::mount(device, options).map_err(|error| error.to_string())?;
        Ok(Box::new(fs) as Box<dyn Mounted>)
    };
    OnUbi { fs: "ubifs", name, shape, lebs, rules: Rules::UBIFS, mount: Arc::new(mount) }
}

impl Mounted for UbifsMount {
    fn fs(&self) -> &dyn WritableFileSystem {
        self
    }

    fn check(&self) -> Result<(), String> {
        let findings = Self::check(self).map_err(|error| error.to_string())?;
        match findings.iter().next() {
            None => Ok(()),
            Some(first) => Err(format!("{}: {}", first.at, first.message)),
        }
    }

    fn activity(&self) -> Vec<(&'static str, u64)> {
        Self::activity(self).named().to_vec()
    }
}
