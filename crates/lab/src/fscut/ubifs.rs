//! UBIFS on UBI on small chips, judged.

use super::on_ubi::OnUbi;
use super::target::{Mounted, Rules};
use crate::powercut::Shape;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::WritableFileSystem;
use std::sync::Arc;

/// UBIFS on a chip of this shape.
pub fn ubifs(shape: Shape) -> OnUbi {
    OnUbi { fs: "ubifs", shape, rules: Rules::UBIFS, mount }
}

fn mount(device: Arc<dyn LebDevice>, read_only: bool) -> Result<Box<dyn Mounted>, String> {
    let options = MountOptions { read_only, ..MountOptions::default() };
    let (fs, _) = UbifsMount::mount(device, options).map_err(|error| error.to_string())?;
    Ok(Box::new(fs))
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
}
