//! Sampled pages of an image, and what a layout makes of them.

use crate::layout::{DataEcc, Layout, Version};
use crate::medium::{Pages, RawPage, Source};
use crate::page::Tagged;
use eraseblock_base::Location;
use eraseblock_base::align::is_erased;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::constants::{CHECKPOINT_SEQUENCE, MAX_CHUNK, SEQUENCES, object};
use eraseblock_yaffs_format::small::{PAGE_STATUS, SPARE, SmallTags, is_programmed};
use eraseblock_yaffs_format::{ByteOrder, Header, Tags, checkpoint};

/// Pages in use that are looked at.
const ENOUGH: usize = 512;
/// Pages read at a time.
const RUN: u32 = 16;
/// Runs spread over an image; if they hold less than [`FEW`] pages in use, all pages are looked at.
const RUNS: u32 = 16;
const FEW: usize = 32;

/// Pages of one size that are not erased.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(super) page: u32,
    pub(super) spare: u32,
    used: Vec<Pages>,
}

impl Sample {
    /// Samples an image of `count` pages.
    pub(super) fn take(
        source: &Source,
        page: u32,
        spare: u32,
        count: u32,
    ) -> Result<Self, ReadError> {
        let mut sample = Self { page, spare, used: Vec::new() };
        let step = (count / RUNS).max(RUN);
        for first in (0..count).step_by(step as usize) {
            sample.add(source, first, count)?;
        }
        if sample.used.len() < FEW && step > RUN {
            sample = Self { used: Vec::new(), ..sample };
            for first in (0..count).step_by(RUN as usize) {
                sample.add(source, first, count)?;
                if sample.used.len() >= ENOUGH {
                    break;
                }
            }
        }
        Ok(sample)
    }

    /// Makes a sample of pages that were read.
    pub(crate) fn of(pages: &Pages, page: u32, spare: u32, count: u32) -> Self {
        let mut sample = Self { page, spare, used: Vec::new() };
        sample.keep_used(pages, count);
        sample
    }

    fn add(&mut self, source: &Source, first: u32, count: u32) -> Result<(), ReadError> {
        let len = RUN.min(count - first);
        self.keep_used(&source.pages(self.page, self.spare, first, len)?, len);
        Ok(())
    }

    fn keep_used(&mut self, pages: &Pages, count: u32) {
        let is_used = |page: RawPage<'_>| !is_erased(page.data) || !is_erased(page.spare);
        let used = (0..count).filter(|index| is_used(pages.get(*index)));
        self.used.extend(used.map(|index| pages.only(index)));
    }

    /// Returns the number of pages in use.
    pub(super) fn used(&self) -> u64 {
        self.used.len() as u64
    }

    fn pages(&self) -> impl Iterator<Item = RawPage<'_>> {
        self.used.iter().map(|page| page.get(0))
    }

    /// Returns the number of pages with plausible tags of YAFFS2 under a layout, or `None` if they
    /// do not prove it.
    pub(super) fn tagged_pages(&self, layout: &Layout) -> Option<u64> {
        let (mut tagged, mut proofs, mut refuted) = (0, 0_u64, 0_u64);
        // Tags with a wrong bit are few, and most bytes of most places are refused without their ECC.
        let bare = Layout { tags_ecc: false, ..layout.clone() };
        let may_be = |page: &RawPage<'_>| match bare.tags(*page) {
            Tagged::Good(tags) => is_plausible(layout, &tags),
            _ => false,
        };
        for page in self.pages().filter(may_be) {
            let Tagged::Good(tags) = layout.tags(page) else { continue };
            tagged += 1;
            match proof(layout, &tags, page) {
                Some(true) => proofs += 1,
                Some(false) => refuted += 1,
                None => {}
            }
        }
        let share = if layout.tags_ecc { tagged * 2 } else { tagged * 10 / 7 };
        (share >= self.used() && proofs > refuted).then_some(tagged)
    }

    /// Returns the number of pages with plausible tags of YAFFS1, or `None` if they do not prove it.
    pub(super) fn small_pages(&self, order: ByteOrder) -> Option<u64> {
        let (mut tagged, mut proofs, mut refuted) = (0, 0_u64, 0_u64);
        for page in self.pages() {
            let Some(tags) = small_tags(page) else { continue };
            if tags.chunk > 0 && page.spare.get(PAGE_STATUS).is_some_and(|it| is_programmed(*it)) {
                continue;
            }
            tagged += 1;
            if tags.chunk == 0 {
                let header = Header::decode(order, page.data, Location::Whole);
                let is_one = header.is_ok_and(|header| header.parent <= object::MAX);
                *(if is_one { &mut proofs } else { &mut refuted }) += 1;
            }
        }
        (tagged * 2 >= self.used() && proofs > refuted).then_some(tagged)
    }

    /// Returns how the data of the pages is protected: by the code whose bytes fit most of them.
    ///
    /// The code of a page of equal bytes is FF, as blank spare bytes are: only other codes that fit
    /// show that there are any, and they must outnumber those that do not.
    pub(super) fn data_ecc(&self, layout: &Layout) -> DataEcc {
        let places = DataEcc::usual_places(self.page, self.spare).into_iter();
        let codes = places.flat_map(|places| {
            [false, true].map(|is_swapped| DataEcc::Hamming { places: places.clone(), is_swapped })
        });
        let mut fitting = codes.filter(|code| {
            let layout = Layout { data_ecc: code.clone(), ..layout.clone() };
            if !layout.is_disjoint() {
                return false;
            }
            let DataEcc::Hamming { places, .. } = code else { return false };
            let is_blank = |page: RawPage<'_>| {
                places
                    .iter()
                    .all(|at| page.spare.get(usize::from(*at)).is_none_or(|it| *it == 0xFF))
            };
            let fits = |page: &RawPage<'_>| layout.data_of(*page).is_some();
            let (fitting, others): (Vec<_>, Vec<_>) = self.pages().partition(fits);
            let shown = fitting.iter().filter(|page| !is_blank(**page)).count();
            fitting.len() * 2 > self.used.len() && shown > others.len()
        });
        fitting.next().unwrap_or(DataEcc::None)
    }
}

/// Returns the tags of a page of YAFFS1, deleted or not, if they are plausible.
fn small_tags(page: RawPage<'_>) -> Option<SmallTags> {
    let spare = page.spare.first_chunk::<SPARE>()?;
    let (tags, wrong) = SmallTags::decode(spare)?;
    let is_object = (1..=object::MAX).contains(&tags.object);
    (is_object && wrong == 0).then_some(tags)
}

impl Layout {
    /// Returns whether a page has plausible tags.
    pub(crate) fn is_plausible(&self, page: RawPage<'_>) -> bool {
        if self.version == Version::Yaffs1 {
            return small_tags(page).is_some();
        }
        matches!(self.tags(page), Tagged::Good(tags) if is_plausible(self, &tags))
    }
}

/// Returns whether tags can be those of a page.
pub(super) fn is_plausible(layout: &Layout, tags: &Tags) -> bool {
    let is_object = SEQUENCES.contains(&tags.sequence)
        && (1..=object::MAX).contains(&tags.object)
        && tags.chunk <= MAX_CHUNK
        && (tags.chunk == 0 || (1..=layout.data()).contains(&tags.bytes))
        && tags.extra.is_none_or(|extra| extra.parent <= object::MAX);
    let is_checkpoint =
        tags.sequence == CHECKPOINT_SEQUENCE && tags.extra.is_none() && tags.bytes == layout.data();
    is_object || is_checkpoint
}

/// Returns whether the data of a page agrees with its tags; `None` for data of a file.
fn proof(layout: &Layout, tags: &Tags, page: RawPage<'_>) -> Option<bool> {
    if tags.sequence == CHECKPOINT_SEQUENCE {
        let first = checkpoint::Sums::default();
        return (tags.chunk == 1).then(|| first.fit(layout.order, 0, page.data));
    }
    if tags.chunk != 0 {
        return None;
    }
    let Ok(header) = Header::decode(layout.order, page.data, Location::Whole) else {
        return Some(false);
    };
    let agrees = tags.extra.is_none_or(|extra| extra.kind == header.kind);
    Some(agrees && header.parent <= object::MAX)
}
