//! Chips of any part or geometry, which their names describe: `64xW25N01GV` has 64 blocks of that
//! part; `64x131072-2048-512-64` has blocks of 131072 bytes, pages of 2048, sub-pages of 512 and 64
//! out-of-band bytes of each page. A page of 1 byte makes a NOR chip. `-fastmap` at the end makes UBI
//! use fastmaps.

use eraseblock_base::{Geometry, MediumKind};
use eraseblock_nandsim::ChipConfig;
use eraseblock_nandsim::parts::{self, Part};
use eraseblock_ubi_format::HeaderLayout;

/// The most blocks of a chip.
const MOST_BLOCKS: u32 = 1 << 16;

/// The end of the name of a chip with fastmaps.
const FASTMAP: &str = "-fastmap";

/// A chip of a part or of other sizes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Custom {
    pub(super) name: String,
    part: Option<&'static str>,
    /// Block, page, sub-page, out-of-band bytes.
    pub(super) sizes: [u32; 4],
    pub(super) blocks: u32,
    /// The number of bytes the chip programs at once.
    pub(super) buffer: u32,
    pub(super) fastmap: bool,
}

impl Custom {
    /// Reads a name. Fails if the text is no name, or if there can be no such chip.
    pub(super) fn of_name(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no chip: expected BLOCKSxPART or BLOCKSxBLOCK-PAGE-SUBPAGE-OOB, \
                 with {FASTMAP} for fastmaps"
            )
        };
        let (flash, fastmap) = match text.strip_suffix(FASTMAP) {
            Some(flash) => (flash, true),
            None => (text, false),
        };
        let (blocks, flash) = flash.split_once('x').ok_or_else(wrong)?;
        let blocks = blocks.parse().map_err(|_| wrong())?;
        let numbers: Option<Vec<u32>> = flash.split('-').map(|it| it.parse().ok()).collect();
        let (part, sizes) = match numbers.as_deref() {
            Some([block, page, subpage, oob]) => (None, [*block, *page, *subpage, *oob]),
            Some(_) => return Err(wrong()),
            None => {
                let part = parts::find(flash).map_err(|error| error.to_string())?;
                let geometry = part.geometry();
                let (page, subpage) = (geometry.min_io(), geometry.subpage());
                (Some(part.name), [part.peb_size, page, subpage, part.oob])
            }
        };
        let mut custom = Self { name: String::new(), part, sizes, blocks, buffer: 0, fastmap };
        custom.buffer = custom.config()?.page();
        custom.name = custom.canonical();
        Ok(custom)
    }

    /// Returns the name that says all.
    fn canonical(&self) -> String {
        let Self { part, sizes: [block, page, subpage, oob], blocks, fastmap, .. } = self;
        let end = if *fastmap { FASTMAP } else { "" };
        match part {
            Some(part) => format!("{blocks}x{part}{end}"),
            None => format!("{blocks}x{block}-{page}-{subpage}-{oob}{end}"),
        }
    }

    pub(super) fn kind(&self) -> MediumKind {
        if self.sizes[1] == 1 { MediumKind::Nor } else { MediumKind::Nand }
    }

    /// Returns the configuration of the chip. Fails if there can be no such chip.
    pub(super) fn config(&self) -> Result<ChipConfig, String> {
        if self.blocks == 0 || self.blocks > MOST_BLOCKS {
            return Err(format!("{} blocks: expected 1 to {MOST_BLOCKS}", self.blocks));
        }
        if let Some(name) = self.part {
            let part = parts::find(name).map_err(|error| error.to_string())?;
            return Ok(ChipConfig::of_part(&Part { peb_count: self.blocks, ..*part }));
        }
        let [block, page, subpage, oob] = self.sizes;
        let geometry = Geometry::new(self.kind(), block, self.blocks, page, subpage, oob);
        let geometry = geometry.map_err(|error| error.to_string())?;
        ChipConfig::of_geometry(geometry).map_err(|error| error.to_string())
    }

    /// Returns the layout of UBI's headers. Fails if UBI does not fit the blocks.
    pub(super) fn layout(&self) -> Result<HeaderLayout, String> {
        let [block, page, subpage, _] = self.sizes;
        HeaderLayout::new(block, page, subpage, None).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::Shape;

    #[test]
    fn names_of_chips_are_read_as_they_are_written() {
        for name in [
            "64x131072-2048-512-64",
            "40x16384-1-1-0",
            "64xW25N01GV",
            "1024xW25N01GV-fastmap",
            "80x16384-512-512-16-fastmap",
        ] {
            let shape = Shape::named(name).unwrap();
            assert_eq!(shape.name(), name);
            assert_eq!(Shape::named(name), Ok(shape));
            assert_eq!(shape.chip().snapshot().config().geometry().peb_count(), shape.pebs());
        }
        assert_eq!(Shape::named("64xw25n01gv").unwrap().name(), "64xW25N01GV");
        assert_eq!(Shape::named("mini"), Ok(Shape::Mini));
        for wrong in [
            "",
            "x",
            "64x",
            "64xNOSUCHPART",
            "0x131072-2048-512-64",
            "64x131072-2000-512-64",
            "64x131072-2048",
            "-1x131072-2048-512-64",
            "99999999x131072-2048-512-64",
            "64x16384-4096-1-0",
        ] {
            assert!(Shape::named(wrong).is_err(), "{wrong}");
        }
    }
}
