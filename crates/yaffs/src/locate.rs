//! Finds a YAFFS that begins anywhere in a larger image, from the header of an object in its root
//! directory (spec: yaffs2 4, 12).
//!
//! # Invariants
//! 1. Memory is bounded by a run of pages; the image is read once from the header to the end of the
//!    YAFFS, and back to its start.

use crate::detect::{Candidate, Hints, SIZES, Sample, explain};
use crate::layout::Layout;
use crate::medium::Pages;
use eraseblock_base::align::is_erased;
use eraseblock_mtd::ReadAt;
use std::io;

/// What the header of an object in the root directory has after its type, in each byte order: the
/// number of the root, and a checksum that is no longer used.
pub const HEADER_MAGICS: [[u8; 6]; 2] = [[1, 0, 0, 0, 0xFF, 0xFF], [0, 0, 0, 1, 0xFF, 0xFF]];
/// Where that is in the header.
pub const HEADER_MAGIC_AT: u64 = 4;

/// Pages that are looked at to find the layout: as many as there are.
const SAMPLES: [u32; 4] = [256, 64, 16, 4];
/// Pages without plausible tags after which a YAFFS has ended: those of the largest usual block.
const MOST_DAMAGED: u32 = 256;
/// Pages read at a time.
const RUN: u32 = 64;
/// Bytes in which the tags under different layouts are counted.
const WINDOW: u64 = 1 << 20;

/// Where a YAFFS is in an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Located {
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes, with erased pages at its end.
    pub length: u64,
    /// How its pages look. The number of pages in a block is not looked for.
    pub layout: Layout,
}

/// Finds the YAFFS with a page at byte `page` of an image that begins with the header of an object;
/// `None` if there is none. What lies before byte `floor` is not looked at.
///
/// # Errors
///
/// Fails if the image cannot be read.
pub fn locate(image: &dyn ReadAt, page: u64, floor: u64) -> io::Result<Option<Located>> {
    let size = image.size()?;
    let mut best: Option<(u32, Layout)> = None;
    for (len, spare) in SIZES.into_iter().filter(|(_, spare)| *spare > 0) {
        let raw = u64::from(len + spare);
        let room = u32::try_from(size.saturating_sub(page) / raw).unwrap_or(u32::MAX);
        let sampled = |count: u32| -> io::Result<_> {
            let pages = read(image, page, len, spare, count)?;
            Ok(explain(&Sample::of(&pages, len, spare, count), &Hints::default()))
        };
        // Most places that look like a header are none.
        if room == 0 || sampled(1)?.is_none() {
            continue;
        }
        for count in SAMPLES {
            let Some(Candidate { layout, .. }) = sampled(count.min(room))? else { continue };
            // Not their bytes: two small pages may look like one with the tags of the second.
            let tagged = Walk { image, layout: &layout, size }.tagged(page)?;
            if best.as_ref().is_none_or(|(most, _)| tagged > *most) {
                best = Some((tagged, layout));
            }
            break;
        }
    }
    let Some((_, layout)) = best else { return Ok(None) };
    let walk = Walk { image, layout: &layout, size };
    let start = walk.back(page, floor)?;
    let end = walk.forth(page)?;
    Ok(Some(Located { start, length: end - start, layout }))
}

fn read(image: &dyn ReadAt, at: u64, page: u32, spare: u32, count: u32) -> io::Result<Pages> {
    let mut bytes = vec![0; (page + spare) as usize * count as usize];
    image.read_exact_at(&mut bytes, at)?;
    Ok(Pages::of(bytes, page, spare))
}

/// What a page says about where a YAFFS ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// It is one of the YAFFS.
    Tagged,
    /// It may be.
    Erased,
    /// It is damaged, or of something else.
    Other,
}

struct Walk<'a> {
    image: &'a dyn ReadAt,
    layout: &'a Layout,
    size: u64,
}

impl Walk<'_> {
    fn seen(&self, at: u64, count: u32) -> io::Result<Vec<Seen>> {
        let Layout { page, spare, .. } = *self.layout;
        let pages = read(self.image, at, page, spare, count)?;
        let of = |index| {
            let page = pages.get(index);
            if is_erased(page.data) && is_erased(page.spare) {
                Seen::Erased
            } else if self.layout.is_plausible(page) {
                Seen::Tagged
            } else {
                Seen::Other
            }
        };
        Ok((0..count).map(of).collect())
    }

    /// Returns the number of pages with plausible tags after `from`, in a window.
    fn tagged(&self, from: u64) -> io::Result<u32> {
        let count = (self.size - from).min(WINDOW) / u64::from(self.layout.raw());
        let seen = self.seen(from, u32::try_from(count).unwrap_or(u32::MAX))?;
        let tagged = seen.iter().filter(|seen| **seen == Seen::Tagged).count();
        Ok(u32::try_from(tagged).unwrap_or(u32::MAX))
    }

    /// Returns where the YAFFS ends that has a page at `from`.
    fn forth(&self, from: u64) -> io::Result<u64> {
        let raw = u64::from(self.layout.raw());
        let (mut at, mut end, mut damaged) = (from, from + raw, 0);
        loop {
            let room = (self.size - at) / raw;
            let count = u32::try_from(room).unwrap_or(u32::MAX).min(RUN);
            if count == 0 {
                return Ok(end);
            }
            for seen in self.seen(at, count)? {
                at += raw;
                damaged = match seen {
                    Seen::Other => damaged + 1,
                    _ => 0,
                };
                // Erased pages after other data are not those of the YAFFS.
                if seen == Seen::Tagged || seen == Seen::Erased && end + raw == at {
                    end = at;
                }
                if damaged > MOST_DAMAGED {
                    return Ok(end);
                }
            }
        }
    }

    /// Returns where the YAFFS begins that has a page at `from`.
    fn back(&self, from: u64, floor: u64) -> io::Result<u64> {
        let raw = u64::from(self.layout.raw());
        let (mut at, mut start, mut damaged) = (from, from, 0);
        loop {
            let room = at.saturating_sub(floor) / raw;
            let count = u32::try_from(room).unwrap_or(u32::MAX).min(RUN);
            if count == 0 {
                return Ok(start);
            }
            let first = at - u64::from(count) * raw;
            for seen in self.seen(first, count)?.into_iter().rev() {
                at -= raw;
                damaged = if seen == Seen::Other { damaged + 1 } else { 0 };
                if seen == Seen::Tagged {
                    start = at;
                }
                if damaged > MOST_DAMAGED {
                    return Ok(start);
                }
            }
        }
    }
}
