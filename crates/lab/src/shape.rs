//! The chips of the campaigns: small, so that everything happens often.

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
}

impl Shape {
    /// All chips.
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
    pub const fn name(self) -> &'static str {
        match self {
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
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }

    const fn sizes(self) -> (MediumKind, u32, u32, u32, u32) {
        match self {
            Self::Mini | Self::MiniFastmap => (MediumKind::Nand, 16_384, 512, 512, 16),
            Self::Subpage | Self::SubpageFastmap => (MediumKind::Nand, 32_768, 2048, 512, 64),
            Self::Large => (MediumKind::Nand, 65_536, 4096, 4096, 128),
            Self::Nor | Self::NorWide => (MediumKind::Nor, 16_384, 1, 1, 0),
            Self::Block => (MediumKind::Nand, 131_072, 2048, 512, 64),
        }
    }

    /// Returns whether the device is opened with fastmaps.
    pub const fn uses_fastmap(self) -> bool {
        matches!(self, Self::MiniFastmap | Self::SubpageFastmap)
    }

    /// Returns the number of eraseblocks of the chip.
    pub const fn pebs(self) -> u32 {
        if self.uses_fastmap() { 80 } else { 64 }
    }

    /// Returns a new chip.
    pub fn chip(self) -> Chip {
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
            _ => page,
        }
    }

    /// Returns the layout of UBI's headers.
    pub fn layout(self) -> HeaderLayout {
        let (_, peb, page, unit, _) = self.sizes();
        HeaderLayout::new(peb, page, unit, None).expect("a possible layout")
    }
}
