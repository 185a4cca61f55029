//! UBIFS on UBI on small chips, judged.

use super::on_ubi::{MOST_LEBS, OnUbi};
use super::stack::{Mounted, Rules};
use crate::Shape;
use eraseblock_base::Leb;
use eraseblock_mtd::{Access, LebDevice};
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{SourceTree, WritableFileSystem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// LEBs of a tight volume: little more than the minimum of UBIFS.
const FEW_LEBS: u32 = 30;

/// The model of the LPT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lpt {
    /// As the size of the volume has it.
    AsFits,
    Big,
}

/// UBIFS on a chip of this shape.
pub fn ubifs(shape: Shape) -> OnUbi {
    target(shape.name(), shape, shape.most_lebs(), Lpt::AsFits)
}

/// UBIFS on a chip of the smallest shape, on a volume so small that garbage collection never
/// pauses.
pub fn tight_ubifs() -> OnUbi {
    target("mini-tight", Shape::Mini, FEW_LEBS, Lpt::AsFits)
}

/// UBIFS on a chip of the smallest shape, with an LPT of the big model in the smallest possible
/// area, so that LPT garbage collection runs.
pub fn big_lpt_ubifs() -> OnUbi {
    target("mini-big", Shape::Mini, MOST_LEBS, Lpt::Big)
}

fn target(name: &'static str, shape: Shape, lebs: u32, lpt: Lpt) -> OnUbi {
    let mount = move |device: Arc<dyn LebDevice>, access: Access| {
        let is_mapped = device.is_mapped(Leb::new(0)).map_err(|error| error.to_string())?;
        if lpt == Lpt::Big && !is_mapped && access.is_write() {
            make_big(&*device)?;
        }
        let options = MountOptions { read_only: !access.is_write(), ..MountOptions::default() };
        let (fs, _) = UbifsMount::mount(device, options).map_err(|error| error.to_string())?;
        Ok(Box::new(fs) as Box<dyn Mounted>)
    };
    OnUbi { fs: "ubifs", name, shape, lebs, rules: Rules::UBIFS, mount: Arc::new(mount) }
}

/// Creates an empty file system with an LPT of the big model.
fn make_big(device: &dyn LebDevice) -> Result<(), String> {
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut options = MkfsOptions::new(device.leb_size(), device.min_io(), device.leb_count());
    options.layout.big_lpt = true;
    let made = mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(device), &NoProgress);
    made.map(drop).map_err(|error| error.to_string())
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
        Self::activity(self).named()
    }
}
