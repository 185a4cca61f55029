//! The tags and the data of a raw page.

use crate::layout::{DataEcc, Layout, TagsPlace};
use crate::medium::RawPage;
use eraseblock_mtd::ecc::Hamming;
use eraseblock_yaffs_format::constants::{TAGS_ECC_LEN, TAGS_LEN};
use eraseblock_yaffs_format::{PackedTags, Tags};
use std::borrow::Cow;

/// The tags of a page of YAFFS2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tagged {
    /// Nothing was written.
    Unused,
    /// More wrong bits than the ECC corrects, or an unknown type.
    Damaged,
    Good(Tags),
}

impl Layout {
    /// Reads the tags of a page. In-band tags have the ECC of the data.
    pub(crate) fn tags(&self, page: RawPage<'_>) -> Tagged {
        let mut bytes = [0xFF; TAGS_LEN + TAGS_ECC_LEN];
        match &self.place {
            TagsPlace::Spare(places) => {
                for (byte, place) in bytes.iter_mut().zip(places) {
                    *byte = page.spare.get(usize::from(*place)).copied().unwrap_or(0xFF);
                }
            }
            TagsPlace::InBand => {
                let Some(data) = self.data_of(page) else { return Tagged::Damaged };
                bytes[..TAGS_LEN].copy_from_slice(&data[data.len() - TAGS_LEN..]);
            }
        }
        self.decode_tags(bytes)
    }

    fn decode_tags(&self, bytes: [u8; TAGS_LEN + TAGS_ECC_LEN]) -> Tagged {
        // Whether a page is used is decided by the bytes as they are, before any correction.
        if bytes[..4] == [0xFF; 4] {
            return Tagged::Unused;
        }
        let (mut tags, mut ecc) = ([0; TAGS_LEN], [0; TAGS_ECC_LEN]);
        tags.copy_from_slice(&bytes[..TAGS_LEN]);
        ecc.copy_from_slice(&bytes[TAGS_LEN..]);
        let packed = if self.tags_ecc {
            PackedTags::decode_with_ecc(self.order, &tags, &ecc).map(|(tags, _)| tags)
        } else {
            Some(PackedTags::decode(self.order, &tags))
        };
        packed.and_then(Tags::unpack).map_or(Tagged::Damaged, Tagged::Good)
    }

    /// Returns the whole data of a page, corrected; `None` if its ECC fails.
    pub(crate) fn data_of<'a>(&self, page: RawPage<'a>) -> Option<Cow<'a, [u8]>> {
        if page.is_uncorrectable {
            return None;
        }
        let mut data = Cow::Borrowed(page.data);
        let DataEcc::Hamming { places, is_swapped } = &self.data_ecc else { return Some(data) };
        let code = Hamming::new(DataEcc::STEP as usize)?;
        for (index, places) in places.chunks_exact(Hamming::ECC_BYTES).enumerate() {
            let mut ecc = [0; Hamming::ECC_BYTES];
            for (byte, place) in ecc.iter_mut().zip(places) {
                *byte = *page.spare.get(usize::from(*place))?;
            }
            if *is_swapped {
                ecc.swap(0, 1);
            }
            let range = index * code.step()..(index + 1) * code.step();
            if code.encode(&data[range.clone()]) != ecc {
                code.correct(&mut data.to_mut()[range], &ecc)?;
            }
        }
        Some(data)
    }
}
