//! The tags and the data of a raw page.

use crate::layout::{DataEcc, Layout, TagsPlace};
use crate::medium::RawPage;
use eraseblock_mtd::ecc::Hamming;
use eraseblock_yaffs_format::constants::{TAGS_ECC_LEN, TAGS_LEN};
use eraseblock_yaffs_format::ecc::TagsEcc;
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
    /// Returns the tags of a page, if it has some that can be read.
    pub fn tags_of(&self, data: &[u8], spare: &[u8]) -> Option<Tags> {
        let is_whole = data.len() == self.page as usize;
        let tagged = self.tags(RawPage { data, spare, is_uncorrectable: !is_whole });
        if let Tagged::Good(tags) = tagged { Some(tags) } else { None }
    }

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

impl Layout {
    /// Returns a page as a dump has it: data, tags and ECC. What the data does not fill is erased.
    pub(crate) fn raw_page(&self, tags: PackedTags, data: &[u8]) -> Vec<u8> {
        let mut raw = vec![0xFF; self.raw() as usize];
        let (page, spare) = raw.split_at_mut(self.page as usize);
        page[..data.len()].copy_from_slice(data);
        let tags = tags.encode(self.order);
        match &self.place {
            TagsPlace::InBand => page[self.data() as usize..].copy_from_slice(&tags),
            TagsPlace::Spare(places) => {
                let ecc = TagsEcc::of(&tags).encode(self.order);
                let bytes = tags.iter().chain(&ecc);
                places
                    .iter()
                    .zip(bytes)
                    .for_each(|(place, byte)| spare[usize::from(*place)] = *byte);
            }
        }
        if let (DataEcc::Hamming { places, is_swapped }, Some(code)) =
            (&self.data_ecc, Hamming::new(DataEcc::STEP as usize))
        {
            let steps = places.chunks_exact(Hamming::ECC_BYTES);
            for (places, step) in steps.zip(page.chunks_exact(code.step())) {
                let mut ecc = code.encode(step);
                if *is_swapped {
                    ecc.swap(0, 1);
                }
                places.iter().zip(ecc).for_each(|(place, byte)| spare[usize::from(*place)] = byte);
            }
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Version;
    use crate::medium::Source;
    use eraseblock_yaffs_format::ByteOrder;
    use std::sync::Arc;

    #[test]
    fn pages_are_read_as_they_are_written_with_one_wrong_bit_anywhere() {
        let packed = PackedTags { sequence: 0x1001, object: 0x101, chunk: 7, bytes: 900 };
        let data: Vec<u8> = (0..900_u32).map(|byte| byte as u8).collect();
        let spare = TagsPlace::spare(2, true);
        for (place, tags_ecc) in [(spare, true), (TagsPlace::InBand, false)] {
            for order in ByteOrder::ALL {
                let places = DataEcc::usual_places(1024, 64).remove(1);
                let layout = Layout {
                    version: Version::Yaffs2,
                    page: 1024,
                    spare: 64,
                    pages_per_block: 64,
                    order,
                    place: place.clone(),
                    tags_ecc,
                    data_ecc: DataEcc::Hamming { places, is_swapped: false },
                };
                let raw = layout.raw_page(packed, &data);
                for bit in (0..raw.len() * 8).step_by(11).filter(|bit| *bit < 8200 || tags_ecc) {
                    let mut raw = raw.clone();
                    raw[bit / 8] ^= 1 << (bit % 8);
                    let pages = Source::Image(Arc::new(raw)).pages(1024, 64, 0, 1).unwrap();
                    assert_eq!(
                        layout.tags(pages.get(0)),
                        Tagged::Good(Tags::unpack(packed).unwrap())
                    );
                    assert_eq!(layout.data_of(pages.get(0)).unwrap()[..900], data, "{bit}");
                }
            }
        }
    }
}
