//! Finds the layout of an image by statistics (spec: yaffs2 12): the one under which most pages have
//! plausible tags. Headers and checkpoints that agree with their tags prove it.
//!
//! # Invariants
//! 1. Memory and time are bounded by the samples; the size of the image does not matter.
//! 2. An image is recognised only if most of its pages in use have plausible tags.

mod blocks;
mod sample;

use crate::layout::{DataEcc, Layout, TagsPlace, Version};
use crate::medium::Source;
use eraseblock_base::ByteOrder;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::constants::{TAGS_ECC_LEN, TAGS_LEN};
pub(crate) use sample::Sample;

/// What is known beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// Bytes of data in a page.
    pub page: Option<u32>,
    /// Bytes of data in a block.
    pub block: Option<u32>,
    /// Byte order.
    pub order: Option<ByteOrder>,
    /// Whether it is known to be a YAFFS: then dumps without spare bytes are tried, too.
    pub is_certain: bool,
}

/// Usual sizes of a page and of its spare area, the first of several equal sums being the likelier.
pub(crate) const SIZES: [(u32, u32); 16] = [
    (2048, 64),
    (512, 16),
    (2048, 128),
    (4096, 128),
    (4096, 224),
    (4096, 256),
    (4096, 218),
    (8192, 448),
    (8192, 256),
    (8192, 640),
    (8192, 744),
    (1024, 32),
    (16384, 1280),
    (16384, 1664),
    // In-band tags of a dump without spare bytes.
    (2048, 0),
    (4096, 0),
];

/// The last spare byte at which tags may start.
const LAST_START: u32 = 64;

/// A layout and how well it explains an image.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) layout: Layout,
    /// Bytes of the sampled pages with plausible tags.
    pub(crate) explained: u64,
}

/// Finds the layout of an image; `None` if it is no YAFFS.
///
/// # Errors
///
/// Fails if the image cannot be read.
pub fn detect(source: &Source, hints: &Hints) -> Result<Option<Layout>, ReadError> {
    let size = source.size()?;
    let mut best: Option<Candidate> = None;
    for (page, spare) in sizes(source, size, hints) {
        let pages = size / u64::from(page + spare);
        let Ok(pages) = u32::try_from(pages) else { continue };
        let sample = Sample::take(source, page, spare, pages)?;
        let Some(found) = explain(&sample, hints) else { continue };
        if best.as_ref().is_none_or(|best| found.explained > best.explained) {
            best = Some(found);
        }
    }
    let Some(Candidate { mut layout, .. }) = best else { return Ok(None) };
    let stated = hints.block.map(|block| block / layout.page).filter(|pages| *pages > 0);
    layout.pages_per_block = match (stated, source) {
        (Some(pages), _) => pages,
        (None, Source::Device(device)) => device.geometry().pages_per_peb(),
        (None, Source::Image(_)) => blocks::pages_per_block(source, &layout, size)?,
    };
    Ok(Some(layout))
}

/// The sizes of a page that an image may have: of equal ones those that the caller stated.
fn sizes(source: &Source, size: u64, hints: &Hints) -> Vec<(u32, u32)> {
    let usual: Vec<(u32, u32)> = match source {
        Source::Device(device) => {
            let geometry = device.geometry();
            vec![(geometry.min_io(), geometry.oob_size())]
        }
        Source::Image(_) => SIZES.to_vec(),
    };
    let fits = |(page, spare): &(u32, u32)| {
        size > 0
            && size.is_multiple_of(u64::from(page + spare))
            && hints.page.is_none_or(|wanted| wanted == *page)
            && (*spare > 0 || hints.is_certain)
            // A simulated NOR has no pages.
            && *page >= 512
    };
    usual.into_iter().filter(fits).collect()
}

/// Returns the layout that explains most pages of a sample, if it explains enough.
pub(crate) fn explain(sample: &Sample, hints: &Hints) -> Option<Candidate> {
    if sample.used() == 0 {
        return None;
    }
    let orders = ByteOrder::ALL.into_iter().filter(|it| hints.order.is_none_or(|want| want == *it));
    let orders: Vec<ByteOrder> = orders.collect();
    if (sample.page, sample.spare) == (512, 16) {
        let count = sample.small_pages(*orders.first()?)?;
        let layout = Layout { order: *orders.first()?, ..Layout::small() };
        let big = orders.get(1).and_then(|order| Some((*order, sample.small_pages(*order)?)));
        let (layout, count) = match big {
            Some((order, more)) if more > count => (Layout { order, ..layout }, more),
            _ => (layout, count),
        };
        return Some(Candidate { layout, explained: count * u64::from(sample.page) });
    }
    // Tags with ECC cannot be mistaken; of the others those count that explain more.
    let mut tries = [true, false].map(|tags_ecc| -> Vec<(TagsPlace, bool)> {
        spare_places(sample.spare, tags_ecc).map(|place| (place, tags_ecc)).collect()
    });
    tries[1].push((TagsPlace::InBand, false));
    let found = tries.into_iter().find_map(|places| {
        let layouts = places.into_iter().flat_map(|(place, tags_ecc)| {
            let base = sample.layout(place, tags_ecc);
            orders.iter().map(move |order| Layout { order: *order, ..base.clone() })
        });
        let judged = layouts.filter_map(|layout| Some((sample.tagged_pages(&layout)?, layout)));
        // The first of equals: tags at the lowest place.
        judged.reduce(|best, next| if next.0 > best.0 { next } else { best })
    });
    let (count, mut layout) = found?;
    layout.data_ecc = sample.data_ecc(&layout);
    Some(Candidate { layout, explained: count * u64::from(sample.page) })
}

/// Returns the places where drivers may put tags: all of them in a row, or split around the
/// bad-block marker of small pages.
fn spare_places(spare: u32, has_ecc: bool) -> impl Iterator<Item = TagsPlace> {
    let len = TAGS_LEN as u32 + if has_ecc { TAGS_ECC_LEN as u32 } else { 0 };
    let last = spare.checked_sub(len).map(|last| last.min(LAST_START));
    let row = last.into_iter().flat_map(|last| 0..=last);
    let row = row.map(move |start| TagsPlace::spare(start as u16, has_ecc));
    let split = (spare >= 8 + len - 3).then(|| (1..4).chain(8..).take(len as usize).collect());
    row.chain(split.map(TagsPlace::Spare))
}

impl Sample {
    fn layout(&self, place: TagsPlace, tags_ecc: bool) -> Layout {
        Layout {
            version: Version::Yaffs2,
            page: self.page,
            spare: self.spare,
            pages_per_block: 64,
            order: ByteOrder::Little,
            place,
            tags_ecc,
            data_ecc: DataEcc::None,
        }
    }
}
