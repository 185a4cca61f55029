//! JFFS2 on small chips, judged.

use super::copies;
use super::habit::Habit;
use super::stack::{Happened, Mounted, Order, Rules, Stack};
use crate::Shape;
use crate::story::flash;
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_jffs2::{Jffs2Rw, RwOptions};
use eraseblock_mtd::Access;
use eraseblock_nandsim::{Chip, ChipConfig, Recorded};
use eraseblock_vfs::WritableFileSystem;
use eraseblock_vfs_testkit::{CompareOptions, ModelRules};
use std::sync::Arc;

/// JFFS2 on a chip of 14 blocks of 16 KiB, or on any other one.
#[derive(Clone, Debug)]
pub struct Jffs2Stack {
    kind: MediumKind,
    summary: bool,
    other: Option<Shape>,
}

impl Jffs2Stack {
    /// The names of the available chips.
    pub const CHIPS: [&'static str; 3] = ["nand", "nor", "nosum"];

    /// On NAND with 512-byte pages (`nand`; `nosum` without summaries) or on NOR (`nor`).
    pub fn find(chip: &str) -> Option<Self> {
        let (kind, summary) = match chip {
            "nand" => (MediumKind::Nand, true),
            "nosum" => (MediumKind::Nand, false),
            "nor" => (MediumKind::Nor, true),
            _ => return None,
        };
        Some(Self { kind, summary, other: None })
    }

    /// On another chip, with summaries.
    pub fn on(shape: Shape) -> Self {
        let nor = !shape.can_have_bad_blocks();
        let kind = if nor { MediumKind::Nor } else { MediumKind::Nand };
        Self { kind, summary: true, other: Some(shape) }
    }
}

impl Stack for Jffs2Stack {
    fn name(&self) -> (&'static str, &'static str) {
        if let Some(shape) = self.other {
            return ("jffs2", shape.name());
        }
        let chip = match (self.kind, self.summary) {
            (MediumKind::Nor, _) => "nor",
            (_, true) => "nand",
            (_, false) => "nosum",
        };
        ("jffs2", chip)
    }

    fn rules(&self) -> Rules {
        Rules {
            model: ModelRules::JFFS2,
            // ctime is kept only where a node is written for another reason; there are no holes,
            // flags or sizes of directories (spec: jffs2 8.3, 14).
            compare: CompareOptions { times: true, ..CompareOptions::BASIC },
            order: Order::Total,
            rename_leaves_both: true,
            decay_may_fail: true,
            // One erase block, the rest of a block that is not continued, and what the trial of
            // the mounted file system leaves: deletion entries, and pages filled up by `fsync`.
            slack_blocks: 5,
            cut_blocks: 12,
            probe_blocks: 8,
        }
    }

    fn format(&self) -> Result<Chip, String> {
        if let Some(shape) = self.other {
            return Ok(shape.chip());
        }
        let geometry = match self.kind {
            MediumKind::Nand => Geometry::new(self.kind, 16 << 10, 14, 512, 512, 16),
            MediumKind::Nor => Geometry::new(self.kind, 16 << 10, 14, 1, 1, 0),
        };
        let config = ChipConfig::of_geometry(geometry.map_err(|error| error.to_string())?);
        Ok(Chip::new(config.map_err(|error| error.to_string())?))
    }

    fn describe(&self, event: &Recorded) -> String {
        flash::on_jffs2(event)
    }

    fn mount(&self, chip: &Arc<Chip>, access: Access) -> Result<Box<dyn Mounted>, String> {
        let read_only = !access.is_write();
        let options = RwOptions { read_only, summary: self.summary, ..RwOptions::default() };
        let (fs, _) = Jffs2Rw::mount(chip.clone(), &options).map_err(|error| error.to_string())?;
        Ok(Box::new(fs))
    }

    fn meddle(&self, chip: &Chip, habit: Habit) -> Result<Happened, String> {
        if habit.has_copies { copies::leave(chip) } else { Ok(Happened::new()) }
    }

    fn rare(&self) -> Vec<&'static str> {
        let all = copies::RARE.into_iter();
        all.filter(|what| self.summary || *what != copies::RARE[1]).collect()
    }
}

impl Mounted for Jffs2Rw {
    fn fs(&self) -> &dyn WritableFileSystem {
        self
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self).map_err(|error| error.to_string())
    }
}
