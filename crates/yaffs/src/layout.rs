//! Where everything is on the pages of an image. YAFFS records none of it (spec: yaffs2 1, 3, 12).

use eraseblock_base::ByteOrder;
use eraseblock_mtd::oob::OobLayout;
use eraseblock_yaffs_format::constants::{TAGS_ECC_LEN, TAGS_LEN};
use eraseblock_yaffs_format::small;

/// Version of the format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// YAFFS1: pages of 512 bytes, no sequence numbers.
    Yaffs1,
    /// YAFFS2.
    Yaffs2,
}

/// Where the tags of a page are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TagsPlace {
    /// At these spare bytes, in order.
    Spare(Vec<u16>),
    /// In the last 16 bytes of the data.
    InBand,
}

impl TagsPlace {
    /// Returns the place of consecutive spare bytes from `start`.
    pub fn spare(start: u16, has_ecc: bool) -> Self {
        let len = TAGS_LEN + if has_ecc { TAGS_ECC_LEN } else { 0 };
        Self::Spare((start..).take(len).collect())
    }
}

/// How the data of a page is protected, as far as the dump shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataEcc {
    /// Not at all, or by the controller.
    None,
    /// Linux's software Hamming code, 3 bytes for each 256 of data.
    Hamming {
        /// The spare bytes with the code, in order.
        places: Vec<u16>,
        /// Whether the first two bytes of each code are exchanged.
        is_swapped: bool,
    },
}

impl DataEcc {
    /// Bytes of data that a code protects.
    pub const STEP: u32 = 256;

    /// Returns the code of YAFFS1.
    pub fn small() -> Self {
        let places = small::DATA_ECC.iter().flat_map(|start| *start..start + 3);
        Self::Hamming { places: places.map(|place| place as u16).collect(), is_swapped: true }
    }

    /// Returns where drivers put the Hamming code of a page: as Linux does, or at the end.
    pub fn usual_places(page: u32, spare: u32) -> Vec<Vec<u16>> {
        let (steps, total) = (page / Self::STEP, page / Self::STEP * 3);
        let narrow = |places: &mut dyn Iterator<Item = u32>| places.map(|it| it as u16).collect();
        let linux = OobLayout::hamming(spare, steps).ok();
        let linux = linux.map(|layout| narrow(&mut layout.ecc_positions().iter().copied()));
        let end = spare.checked_sub(total).map(|start| narrow(&mut (start..spare)));
        linux.into_iter().chain(end).collect()
    }
}

/// The layout of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Version.
    pub version: Version,
    /// Bytes of data in a page.
    pub page: u32,
    /// Spare bytes after each page.
    pub spare: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Where the tags are.
    pub place: TagsPlace,
    /// Whether the tags have an ECC.
    pub tags_ecc: bool,
    /// How the data is protected.
    pub data_ecc: DataEcc,
}

impl Layout {
    /// Returns the layout of YAFFS1.
    pub fn small() -> Self {
        Self {
            version: Version::Yaffs1,
            page: small::PAGE as u32,
            spare: small::SPARE as u32,
            pages_per_block: 32,
            order: ByteOrder::Little,
            place: TagsPlace::Spare(Vec::new()),
            tags_ecc: true,
            data_ecc: DataEcc::small(),
        }
    }

    /// Returns the number of bytes of a page in a dump.
    pub fn raw(&self) -> u32 {
        self.page + self.spare
    }

    /// Returns the number of bytes of content in a chunk.
    pub fn data(&self) -> u32 {
        match self.place {
            TagsPlace::InBand => self.page - TAGS_LEN as u32,
            TagsPlace::Spare(_) => self.page,
        }
    }

    /// Returns whether tags and the ECC of the data are at different bytes.
    pub fn is_disjoint(&self) -> bool {
        match (&self.place, &self.data_ecc) {
            (TagsPlace::Spare(tags), DataEcc::Hamming { places, .. }) => {
                !tags.iter().any(|place| places.contains(place))
            }
            _ => true,
        }
    }

    /// Returns the spare byte with the bad-block marker; `None` if tags use it.
    pub fn marker(&self) -> Option<usize> {
        let byte = match self.version {
            Version::Yaffs1 => small::BLOCK_STATUS,
            Version::Yaffs2 => 0,
        };
        let is_used = match &self.place {
            TagsPlace::Spare(places) => places.contains(&(byte as u16)),
            TagsPlace::InBand => false,
        };
        (!is_used && byte < self.spare as usize).then_some(byte)
    }
}
