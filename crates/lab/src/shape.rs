//! The chips of the campaigns: small, so that everything happens often.

mod custom;

pub use custom::Custom;
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi_format::HeaderLayout;

/// A chip of the campaigns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shape {
    /// NAND, 64 blocks of 16 KiB, 512-byte pages without sub-pages.
    Mini,
    /// NAND, 64 blocks of 32 KiB, 2048-byte pages with sub-pages of 512: both headers in one page.
    Subpage,
    /// NAND, 64 blocks of 64 KiB, 4096-byte pages without sub-pages.
    Large,
    /// NOR, 64 blocks of 16 KiB, programmed byte by byte through a buffer of 256 bytes.
    Nor,
    /// [`Self::Nor`] with a buffer of 1024 bytes.
    NorWide,
    /// NAND, 64 blocks of 128 KiB, 2048-byte pages with sub-pages of 512: the usual size.
    Block,
    /// [`Self::Mini`] with 80 blocks and fastmaps.
    MiniFastmap,
    /// [`Self::Subpage`] with 80 blocks and fastmaps.
    SubpageFastmap,
    /// Any other one.
    Custom(&'static Custom),
}

impl Shape {
    /// All chips with a name of their own.
    pub const ALL: [Self; 8] = [
        Self::Mini,
        Self::Subpage,
        Self::Large,
        Self::Nor,
        Self::NorWide,
        Self::Block,
        Self::MiniFastmap,
        Self::SubpageFastmap,
    ];

    /// Returns the name in replay ids.
    pub fn name(self) -> &'static str {
        match self {
            Self::Custom(custom) => &custom.name,
            Self::Mini => "mini",
            Self::Subpage => "subpage",
            Self::Large => "large",
            Self::Nor => "nor",
            Self::NorWide => "nor-wide",
            Self::Block => "block",
            Self::MiniFastmap => "mini-fastmap",
            Self::SubpageFastmap => "subpage-fastmap",
        }
    }

    /// Returns the chip of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::named(name).ok()
    }

    /// Returns the chip of this name, which may be that of a part or of sizes, as described in
    /// [`Custom`]. Fails if the text is no name, or if there can be no such chip.
    pub fn named(name: &str) -> Result<Self, String> {
        if let Some(shape) = Self::ALL.into_iter().find(|shape| shape.name() == name) {
            return Ok(shape);
        }
        // A process uses one or two chips, until it ends.
        Custom::of_name(name).map(|custom| Self::Custom(Box::leak(Box::new(custom))))
    }

    /// Checks that UBI fits the blocks of the chip. Fails with the reason if it does not.
    pub fn check_ubi(self) -> Result<(), String> {
        match self {
            Self::Custom(custom) => custom.layout().map(drop),
            _ => Ok(()),
        }
    }

    fn sizes(self) -> (MediumKind, u32, u32, u32, u32) {
        match self {
            Self::Custom(custom) => {
                let [peb, page, subpage, oob] = custom.sizes;
                (custom.kind(), peb, page, subpage, oob)
            }
            Self::Mini | Self::MiniFastmap => (MediumKind::Nand, 16_384, 512, 512, 16),
            Self::Subpage | Self::SubpageFastmap => (MediumKind::Nand, 32_768, 2048, 512, 64),
            Self::Large => (MediumKind::Nand, 65_536, 4096, 4096, 128),
            Self::Nor | Self::NorWide => (MediumKind::Nor, 16_384, 1, 1, 0),
            Self::Block => (MediumKind::Nand, 131_072, 2048, 512, 64),
        }
    }

    /// Returns whether the device is opened with fastmaps.
    pub const fn uses_fastmap(self) -> bool {
        match self {
            Self::Custom(custom) => custom.fastmap,
            _ => matches!(self, Self::MiniFastmap | Self::SubpageFastmap),
        }
    }

    /// Returns whether blocks of the chip can be marked bad.
    pub fn can_have_bad_blocks(self) -> bool {
        self.sizes().0 == MediumKind::Nand
    }

    /// Returns the number of eraseblocks of the chip.
    pub const fn pebs(self) -> u32 {
        match self {
            Self::Custom(custom) => custom.blocks,
            _ if self.uses_fastmap() => 80,
            _ => 64,
        }
    }

    /// Returns the LEBs of a volume that fills the chip except for the reserve of UBI.
    pub(crate) fn most_lebs(self) -> u32 {
        match self {
            // The volume table, wear levelling, atomic changes, blocks that go bad; and a few more.
            Self::Custom(custom) => {
                custom.blocks.saturating_sub(6 + (20 * custom.blocks).div_ceil(1024))
            }
            _ => 64 - 8,
        }
    }

    /// Returns a new chip.
    pub fn chip(self) -> Chip {
        if let Self::Custom(custom) = self {
            return Chip::new(custom.config().expect("a possible chip"));
        }
        let (kind, peb, page, unit, oob) = self.sizes();
        let geometry =
            Geometry::new(kind, peb, self.pebs(), page, unit, oob).expect("a possible chip");
        let config = ChipConfig::of_geometry(geometry);
        let config = config.and_then(|config| config.with_buffer(self.chip_page()));
        Chip::new(config.expect("a possible chip"))
    }

    /// Returns the number of bytes the chip programs at once.
    pub(crate) fn chip_page(self) -> u32 {
        let (_, _, page, ..) = self.sizes();
        match self {
            Self::Nor => 256,
            Self::NorWide => 1024,
            Self::Custom(custom) => custom.buffer,
            _ => page,
        }
    }

    /// Returns the layout of UBI's headers.
    pub fn layout(self) -> HeaderLayout {
        let (_, peb, page, unit, _) = self.sizes();
        HeaderLayout::new(peb, page, unit, None).expect("a possible layout")
    }
}
