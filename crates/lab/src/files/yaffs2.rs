//! YAFFS2 on small chips, judged.

use super::stack::{Mounted, Order, Rules, Stack};
use crate::Shape;
use crate::story::flash;
use eraseblock_base::{ByteOrder, Geometry, MediumKind, Peb};
use eraseblock_mtd::{Access, Mtd};
use eraseblock_nandsim::{Chip, ChipConfig, FaultPlan, ReadFlips, Recorded};
use eraseblock_vfs::WritableFileSystem;
use eraseblock_vfs_testkit::{CompareOptions, ModelRules};
use eraseblock_yaffs::{
    DataEcc, Layout, OpenOptions, Origin, RwOptions, TagsPlace, Version, YaffsRw,
};
use eraseblock_yaffs_format::constants::MAX_CHUNK;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages of a block of the small chips.
const PAGES: u32 = 16;

/// The rare events of a mount.
const RESTORED: &str = "mounts from a checkpoint";
const SUMMARISED: &str = "scans that read summaries";

/// YAFFS2 on a small chip, or on any other one.
#[derive(Clone, Debug)]
pub struct Yaffs2Stack {
    name: &'static str,
    page: u32,
    spare: u32,
    in_band: bool,
    is_failing: bool,
    other: Option<Shape>,
}

impl Yaffs2Stack {
    /// The names of the available chips.
    pub const CHIPS: [&'static str; 5] = ["nand", "inband", "large", "failing", "plain"];

    /// With pages of 1024 bytes (`nand`), with the tags in the data (`inband`), with pages of 2048
    /// bytes (`large`), with bad blocks, and programs and erases that fail (`failing`), or without
    /// checkpoints and summaries (`plain`).
    pub fn find(chip: &str) -> Option<Self> {
        let name = Self::CHIPS.into_iter().find(|name| *name == chip)?;
        let (page, spare) = if name == "large" { (2048, 64) } else { (1024, 32) };
        let (in_band, is_failing) = (name == "inband", name == "failing");
        Some(Self { name, page, spare, in_band, is_failing, other: None })
    }

    /// On another chip; `None` if its pages are too small for YAFFS2.
    pub fn on(shape: Shape) -> Option<Self> {
        let chip = shape.chip();
        let (page, spare) = (chip.geometry().min_io(), chip.geometry().oob_size());
        let (name, in_band, is_failing) = (shape.name(), false, false);
        let other = Some(shape);
        let target = Self { name, page, spare, in_band, is_failing, other };
        (page >= 1024 && spare >= 32).then_some(target)
    }

    fn layout(&self) -> Layout {
        let tags_ecc = !self.in_band;
        let place = if self.in_band { TagsPlace::InBand } else { TagsPlace::spare(2, tags_ecc) };
        let pages = self.other.map(|shape| shape.chip().geometry().pages_per_peb());
        Layout {
            version: Version::Yaffs2,
            page: self.page,
            spare: self.spare,
            pages_per_block: pages.unwrap_or(PAGES),
            order: ByteOrder::Little,
            place,
            tags_ecc,
            // The chip corrects.
            data_ecc: DataEcc::None,
        }
    }

    fn chip(&self) -> Result<Chip, String> {
        if let Some(shape) = self.other {
            return Ok(shape.chip());
        }
        let (page, blocks) = (self.page, if self.is_failing { 26 } else { 20 });
        let block = page * PAGES;
        let geometry = Geometry::new(MediumKind::Nand, block, blocks, page, page, self.spare);
        let config = ChipConfig::of_geometry(geometry.map_err(|error| error.to_string())?);
        Ok(Chip::new(config.map_err(|error| error.to_string())?))
    }
}

/// Two blocks that fail to erase, two with a page that cannot be programmed, and reads that are
/// corrected.
fn faults() -> FaultPlan {
    let page = |block: u32, page: u32| u64::from(block * PAGES + page);
    FaultPlan {
        failing_erases: BTreeMap::from([(7, 1), (13, 3)]),
        failing_programs: BTreeMap::from([(page(5, 9), 0), (page(15, 2), 1)]),
        read_flips: Some(ReadFlips { per_billion: 100_000_000, max_bits: 1 }),
        ..FaultPlan::new(1)
    }
}

impl Stack for Yaffs2Stack {
    fn name(&self) -> (&'static str, &'static str) {
        ("yaffs2", self.name)
    }

    fn rules(&self) -> Rules {
        let size_max = u64::from(MAX_CHUNK) * u64::from(self.layout().data());
        let gone_bad = if self.is_failing { u64::from(3 * PAGES) } else { 0 };
        Rules {
            model: ModelRules { size_max, ..ModelRules::YAFFS2 },
            compare: CompareOptions { holes: false, ..CompareOptions::ALL },
            order: Order::Returned,
            rename_leaves_both: false,
            decay_may_fail: true,
            slack_blocks: 4 + gone_bad,
            cut_blocks: 8 + gone_bad,
            probe_blocks: 8,
        }
    }

    fn format(&self) -> Result<Chip, String> {
        let chip = Arc::new(self.chip()?);
        if self.is_failing {
            for block in [3, 11] {
                chip.mark_bad(Peb::new(block)).map_err(|error| error.to_string())?;
            }
        }
        let mounted = self.mount(&chip, Access::Write)?;
        mounted.fs().unmount().map_err(|error| error.to_string())?;
        drop(mounted);
        if self.is_failing {
            chip.set_plan(faults());
        }
        Ok(chip.snapshot().to_chip())
    }

    fn describe(&self, event: &Recorded) -> String {
        flash::on_yaffs2(event, &self.layout())
    }

    fn mount(&self, chip: &Arc<Chip>, access: Access) -> Result<Box<dyn Mounted>, String> {
        let open = OpenOptions { layout: Some(self.layout()), ..OpenOptions::default() };
        let read_only = !access.is_write();
        let is_plain = self.name == "plain";
        // The chips are smaller than those that get checkpoints by default.
        let checkpoint_from = (!is_plain).then_some(0);
        let options = RwOptions { open, read_only, summaries: !is_plain, checkpoint_from };
        let (fs, _) = YaffsRw::mount(chip.clone(), &options).map_err(|error| error.to_string())?;
        Ok(Box::new(fs))
    }
}

impl Mounted for YaffsRw {
    fn fs(&self) -> &dyn WritableFileSystem {
        self
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self).map_err(|error| error.to_string())
    }

    fn met(&self) -> Option<&'static str> {
        let info = self.info();
        match info.origin {
            Origin::Checkpoint => Some(RESTORED),
            Origin::Scan => (info.summaries > 0).then_some(SUMMARISED),
        }
    }

    fn activity(&self) -> Vec<(&'static str, u64)> {
        let count = |name| (name, u64::from(self.met() == Some(name)));
        vec![count(RESTORED), count(SUMMARISED)]
    }
}
