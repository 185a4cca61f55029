//! Distinguishes the UBI images in one file, using the erase-counter headers found in it (spec: ubi
//! 25).
//!
//! # Invariants
//! 1. Work and memory are bounded by the number of headers with valid checksums; at most
//!    [`MAX_ATTEMPTS`] of them are tried as the first one of an image.
//! 2. Images are in ascending order and do not overlap.

use crate::detect::{self, Image};
use eraseblock_base::{Leb, Location, VolumeId};
use eraseblock_mtd::ReadAt;
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubi_format::decode::{HEADER_BYTES, decode_ec, decode_vid, salvage_vid};
use eraseblock_ubi_format::{FormatError, HeaderLayout, SqNum};
use std::collections::HashMap;
use std::io;

/// Maximum number of headers tried as the first one of an image.
pub const MAX_ATTEMPTS: usize = 128;

/// A valid erase-counter header and information about its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Its offset in bytes.
    pub offset: u64,
    image_seq: u32,
    vid_hdr_offset: u32,
    data_offset: u32,
    /// The content of the block, if its volume identifier header is valid.
    content: Option<(VolumeId, Leb, SqNum)>,
}

/// A UBI image in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The offset of its first eraseblock in bytes.
    pub start: u64,
    /// The end of its last eraseblock in bytes; never after the end of the file.
    pub end: u64,
    /// Bytes in an eraseblock.
    pub peb_size: u32,
    /// Bytes in an eraseblock before its data.
    pub data_offset: u32,
    /// The image number in its headers.
    pub image_seq: u32,
    /// Whether a block of the volume table is among its blocks.
    pub has_table: bool,
}

/// The images of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Located {
    /// In ascending order.
    pub images: Vec<Extent>,
    /// Whether headers remain that were not examined, because too many belong to no image.
    pub more: bool,
}

impl Extent {
    /// Returns whether the data of an eraseblock of this image begins at `offset`. This also holds
    /// outside the extent, where both headers of the block are lost, if its data has `leb_size`
    /// bytes.
    pub fn is_data_start(&self, offset: u64, leb_size: u32) -> bool {
        let peb = u64::from(self.peb_size);
        let phase = (self.start % peb + u64::from(self.data_offset)) % peb;
        offset % peb == phase && self.data_offset.checked_add(leb_size) == Some(self.peb_size)
    }
}

impl Header {
    /// Decodes the header at the start of `bytes`, which lie at `offset` of `image`, and reads the
    /// volume identifier header of its block; returns `None` if there is no valid header. Fails if
    /// the image cannot be read.
    pub fn decode(image: &dyn ReadAt, bytes: &[u8], offset: u64) -> io::Result<Option<Self>> {
        let Ok(ec) = decode_ec(bytes, Location::Byte(offset)) else { return Ok(None) };
        if !detect::is_plausible(ec.vid_hdr_offset, ec.data_offset) {
            return Ok(None);
        }
        let (vid_hdr_offset, data_offset) = (ec.vid_hdr_offset, ec.data_offset);
        let mut header =
            Self { offset, image_seq: ec.image_seq, vid_hdr_offset, data_offset, content: None };
        let at = offset.saturating_add(vid_hdr_offset.into());
        let mut bytes = [0; HEADER_BYTES];
        if let Some(layout) = header.layout(detect::MAX_PEB_SIZE)
            && at.saturating_add(HEADER_BYTES as u64) <= image.size()?
        {
            image.read_exact_at(&mut bytes, at)?;
            let vid = match decode_vid(&bytes, &layout, Location::Byte(at)) {
                Ok(vid) => Some(vid),
                // The checksum is right; the LEB size, by which sizes are checked, is not known.
                Err(FormatError::Field { .. }) => salvage_vid(&bytes, &layout),
                Err(_) => None,
            };
            header.content = vid.map(|vid| (vid.volume, vid.leb, vid.sqnum));
        }
        Ok(Some(header))
    }

    fn layout(&self, peb_size: u32) -> Option<HeaderLayout> {
        let usual = detect::Hints::default();
        detect::layout_of(peb_size, self.vid_hdr_offset, self.data_offset, &usual).ok()
    }

    fn is_table(&self) -> bool {
        self.content.is_some_and(|(volume, ..)| volume == LAYOUT_VOLUME)
    }

    /// Returns whether the block is one with which image tools begin: the first LEB of a table that
    /// no device wrote.
    fn begins_image(&self) -> bool {
        let is_first = |(_, leb, sqnum): (VolumeId, Leb, SqNum)| leb.get() == 0 && sqnum.get() == 0;
        self.is_table() && self.content.is_some_and(is_first)
    }

    /// Returns a value that no two blocks of one device share (spec: ubi 7): the sequence number,
    /// or for an image that was never attached, where all of them are 0, the LEB.
    fn identity(&self) -> Option<(u32, u64, u32, u32)> {
        self.content.map(|(volume, leb, sqnum)| match sqnum.get() {
            0 => (self.image_seq, 0, volume.get(), leb.get()),
            number => (self.image_seq, number, 0, 0),
        })
    }
}

/// Returns the image of which the whole file consists, if each eraseblock begins with a valid
/// header or is erased there, and all of them belong to one image. The file then contains nothing
/// else, and a search is unnecessary. Fails if the image cannot be read.
pub fn only_image(image: &dyn ReadAt) -> io::Result<Option<Extent>> {
    let Ok(Some(found)) = detect::detect(image, &detect::Hints::default()) else {
        return Ok(None);
    };
    let (size, peb) = (image.size()?, u64::from(found.layout.peb_size()));
    if found.start != 0 || !found.peb_size_is_certain || !size.is_multiple_of(peb) {
        return Ok(None);
    }
    let file = Image { bytes: image, size };
    let mut headers = Vec::new();
    for offset in (0..u64::from(found.peb_count)).map(|block| block * peb) {
        let mut bytes = [0; HEADER_BYTES];
        image.read_exact_at(&mut bytes, offset)?;
        match Header::decode(image, &bytes, offset)? {
            Some(header) => headers.push(header),
            None if file.is_erased_at(offset)? => {}
            None => return Ok(None),
        }
    }
    let same = |header: &Header| header.image_seq == headers[0].image_seq;
    let members: Vec<&Header> = headers.iter().collect();
    let is_one = headers.iter().all(same) && next_image(&members) == members.len();
    let has_table = members.iter().any(|one| one.is_table());
    Ok(is_one.then_some(Extent {
        start: 0,
        end: size,
        peb_size: found.layout.peb_size(),
        data_offset: found.layout.data_offset(),
        image_seq: found.image_seq,
        has_table,
    }))
}

/// Groups the headers of a file, in ascending order, into images. Fails if the image cannot be
/// read.
pub fn locate(image: &dyn ReadAt, headers: &[Header]) -> io::Result<Located> {
    let file = Image { bytes: image, size: image.size()? };
    let (mut located, mut next, mut attempts) = (Located::default(), 0, 0);
    while next < headers.len() {
        // An empty block proves nothing: an image that begins with free blocks is extended later.
        if headers[next].content.is_none() {
            next += 1;
            continue;
        }
        if attempts == MAX_ATTEMPTS {
            located.more = true;
            break;
        }
        attempts += 1;
        let (extent, blocks) = extent(&file, &headers[next..])?;
        // A single header is not enough: data may contain one.
        if blocks < 2 && !extent.has_table {
            next += 1;
            continue;
        }
        // Everything between its headers is its data, including images in it.
        next += headers[next..].partition_point(|header| header.offset < extent.end);
        located.images.push(extent);
    }
    located.images = merged(located.images);
    for index in 0..located.images.len() {
        let limit = located.images.get(index + 1).map_or(file.size, |next| next.start);
        let floor = index.checked_sub(1).map_or(0, |before| located.images[before].end);
        let first = |header: &&Header| header.offset >= located.images[index].start;
        let layout = headers
            .iter()
            .find(first)
            .and_then(|header| header.layout(located.images[index].peb_size));
        if let Some(layout) = layout {
            widen(&file, headers, &mut located.images[index], &layout, floor, limit)?;
        }
    }
    Ok(located)
}

/// Returns the image that begins with the first header, and its number of headers.
fn extent(file: &Image<'_>, headers: &[Header]) -> io::Result<(Extent, usize)> {
    let first = headers[0];
    let alike: Vec<&Header> = headers
        .iter()
        .filter(|one| {
            (one.vid_hdr_offset, one.data_offset) == (first.vid_hdr_offset, first.data_offset)
        })
        .collect();
    let peb_size = peb_size(file, &alike)?;
    let size = u64::from(peb_size);
    let mut members = alike;
    members.retain(|one| (one.offset - first.offset).is_multiple_of(size));
    members.truncate(next_image(&members));
    let last = members.last().map_or(first.offset, |last| last.offset);
    let numbers = || members.iter().map(|one| one.image_seq).filter(|number| *number != 0);
    let extent = Extent {
        start: first.offset,
        end: last.saturating_add(size).min(file.size),
        peb_size,
        data_offset: first.data_offset,
        image_seq: detect::most_common(numbers()).unwrap_or(0),
        has_table: members.iter().any(|one| one.is_table()),
    };
    Ok((extent, members.len()))
}

/// Returns the index of the header with which another image begins on the same grid, or the number
/// of headers. The headers before it and those from it must each include a volume table; otherwise
/// they are blocks that one image left in another.
fn next_image(members: &[&Header]) -> usize {
    let repeated = first_repeated(members).unwrap_or(members.len());
    let number = members.iter().map(|one| one.image_seq).find(|number| *number != 0);
    // Blocks of another number between those of the first one are strays.
    let own_end = members[..repeated].iter().rposition(|one| Some(one.image_seq) == number);
    let renumbered = own_end.map_or(repeated, |last| last + 1);
    let has_table = |part: &[&Header]| part.iter().any(|one| one.is_table());
    [renumbered, repeated]
        .into_iter()
        .find(|cut| has_table(&members[..*cut]) && has_table(&members[*cut..]))
        .unwrap_or(members.len())
}

/// Returns where a second image with the same number begins: not after the first block that repeats
/// an earlier one, and after all blocks that are repeated. In between, it begins where an image
/// tool began one, otherwise at the roundest offset, because partitions start there.
fn first_repeated(members: &[&Header]) -> Option<usize> {
    let mut seen = HashMap::new();
    let (mut repeat, mut least) = (None, 0);
    for (index, member) in members.iter().enumerate() {
        let Some(identity) = member.identity() else { continue };
        let earlier = *seen.entry(identity).or_insert(index);
        if earlier == index {
            continue;
        }
        let first = *repeat.get_or_insert(index);
        if earlier >= first {
            // This is a third image.
            break;
        }
        least = least.max(earlier);
    }
    let range = least + 1..=repeat?;
    let table = range.clone().find(|index| members[*index].begins_image());
    let start = members.first()?.offset;
    table.or_else(|| range.max_by_key(|index| (members[*index].offset - start).trailing_zeros()))
}

/// Number of headers near the first one whose distances are considered.
const NEAR: usize = 64;
/// Number of eraseblocks examined for each size.
const JUDGED_BLOCKS: u64 = 1024;

/// Returns the distance that explains the headers best. Unlike [`detect()`](crate::detect()) it
/// judges each distance only up to its last header, because other data may follow.
fn peb_size(file: &Image<'_>, alike: &[&Header]) -> io::Result<u32> {
    let first = alike[0].offset;
    let near = alike.iter().map(|one| one.offset).take_while(|at| at - first < detect::WINDOW);
    let near: Vec<u64> = near.take(NEAR).collect();
    let mut best = None;
    for size in detect::distances(&near) {
        let (score, found) = judge(file, alike, size)?;
        if found >= 2 && best.is_none_or(|(known, _)| score >= known) {
            best = Some((score, size));
        }
    }
    Ok(best.map_or_else(|| file.guess_peb_size(first), |(_, size)| size))
}

/// Returns how well a distance explains the headers, and how many it explains.
fn judge(file: &Image<'_>, alike: &[&Header], size: u32) -> io::Result<(i64, u32)> {
    let (mut score, mut best, mut found) = (0, 0, 0);
    for block in 0..JUDGED_BLOCKS {
        let offset = alike[0].offset.saturating_add(block * u64::from(size));
        if offset >= file.size || score < best - 64 {
            break;
        }
        if alike.binary_search_by_key(&offset, |one| one.offset).is_ok() {
            found += 1;
            score += detect::FOR_A_HEADER;
            best = best.max(score);
        } else if !file.is_erased_at(offset)? {
            score -= 1;
        }
    }
    Ok((best, found))
}

/// Joins neighbours on one grid if one of them has no volume table: they are one image with blocks
/// that an earlier one left.
fn merged(images: Vec<Extent>) -> Vec<Extent> {
    let mut done: Vec<Extent> = Vec::new();
    for image in images {
        let main = |before: &Extent| if before.has_table { *before } else { image };
        match done.last_mut() {
            Some(before)
                if !(before.has_table && image.has_table)
                    && (image.start - before.start)
                        .is_multiple_of(main(before).peb_size.into()) =>
            {
                *before = Extent { start: before.start, end: image.end, ..main(before) };
            }
            _ => done.push(image),
        }
    }
    done
}

/// Adds eraseblocks with lost erase-counter headers at both ends, and erased ones after the end.
fn widen(
    file: &Image<'_>,
    headers: &[Header],
    extent: &mut Extent,
    layout: &HeaderLayout,
    floor: u64,
    limit: u64,
) -> io::Result<()> {
    let size = u64::from(extent.peb_size);
    let inside = |at: u64| at.saturating_add(size) <= limit;
    while inside(extent.end) && file.belongs(extent.end, layout)? {
        extent.end += size;
    }
    let is_free = |at: u64| {
        let found = headers.binary_search_by_key(&at, |one| one.offset).ok();
        found.is_some_and(|index| headers[index].layout(extent.peb_size) == Some(*layout))
    };
    let mut start = extent.start;
    while start >= floor.saturating_add(size)
        && (is_free(start - size) || file.has_vid(start - size, layout)?)
    {
        start -= size;
    }
    extent.start = start;
    extent.end = extent.end.min(limit);
    Ok(())
}
