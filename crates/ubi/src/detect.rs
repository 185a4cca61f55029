//! Finds UBI in an image of unknown origin: its start, the eraseblock size and the header offsets
//! (spec: ubi 2).
//!
//! No single header is trusted: the first blocks of a dump may be damaged, erased or foreign, and
//! data may contain headers of another image. The eraseblock size is the distance that explains the
//! headers best, and the offsets are those stated in most headers.

use eraseblock_base::Location;
use eraseblock_base::align::is_erased;
use eraseblock_mtd::{ImageShape, Mtd, ReadAt};
use eraseblock_ubi_format::constants::{EC_MAGIC, HEADER_SIZE};
use eraseblock_ubi_format::decode::{HEADER_BYTES, decode_ec, decode_vid};
use eraseblock_ubi_format::{EcHeader, HeaderLayout, LayoutError};
use std::error::Error;
use std::fmt;
use std::io;

/// Parameters that the user knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hints {
    /// Byte offset of the first eraseblock.
    pub start: Option<u64>,
    /// Eraseblock size in bytes.
    pub peb_size: Option<u32>,
    /// The minimum I/O unit in bytes.
    pub min_io: Option<u32>,
    /// The unit of headers in bytes.
    pub subpage: Option<u32>,
    /// Offset of the volume identifier header.
    pub vid_hdr_offset: Option<u32>,
    /// How far to search for the first header, in bytes from the start of the image.
    pub search: u64,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            start: None,
            peb_size: None,
            min_io: None,
            subpage: None,
            vid_hdr_offset: None,
            search: DEFAULT_SEARCH,
        }
    }
}

/// How far the first header is searched for by default: 64 MiB.
pub const DEFAULT_SEARCH: u64 = 64 << 20;

/// The position and the layout of UBI in an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Detected {
    /// Byte offset of the first eraseblock.
    pub start: u64,
    /// Offsets and sizes.
    pub layout: HeaderLayout,
    /// Whole eraseblocks from there to the end.
    pub peb_count: u32,
    /// Number of the image in the headers that agree with the layout.
    pub image_seq: u32,
    /// Number of valid erase-counter headers examined.
    pub headers: u32,
    /// Whether the eraseblock size was determined by at least two headers or by the caller, not
    /// guessed.
    pub peb_size_is_certain: bool,
}

impl Detected {
    /// Returns the shape in which to open the image as a device.
    pub fn shape(&self) -> ImageShape {
        ImageShape {
            start: self.start,
            peb_size: self.layout.peb_size(),
            min_io: self.layout.min_io(),
            subpage: self.layout.header_unit(),
            peb_count: None,
        }
    }
}

/// A failed detection; finding no UBI is not a failure.
#[derive(Debug)]
#[non_exhaustive]
pub enum DetectError {
    /// The image cannot be read.
    Io(io::Error),
    /// There are headers, but they contradict each other or the hints.
    Layout(LayoutError),
}

impl fmt::Display for DetectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the image: {error}"),
            Self::Layout(error) => write!(f, "impossible UBI layout: {error}"),
        }
    }
}

impl Error for DetectError {}

impl From<io::Error> for DetectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LayoutError> for DetectError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl DetectError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Steps at which the first header of an embedded image is searched.
const SEARCH_STEP: u64 = 4096;
/// Headers are at multiples of this after the first one.
const HEADER_STEP: usize = 64;
const MIN_PEB_SIZE: u32 = 4096;
pub(crate) const MAX_PEB_SIZE: u32 = 4 << 20;
/// Number of bytes after the first header that are searched for others.
pub(crate) const WINDOW: u64 = 2 * MAX_PEB_SIZE as u64;
/// Number of bytes after the first header with which all candidates for the eraseblock size are
/// judged.
const JUDGED: u64 = 32 << 20;
/// The number of damaged blocks that a header at the right distance outweighs.
pub(crate) const FOR_A_HEADER: i64 = 4;
/// Number of blocks whose headers vote about the offsets.
const SAMPLES: u64 = 128;
/// Number of damaged blocks before the first header that still belong to the image.
const LEADING_DAMAGED: u64 = 2;
/// Number of headers within the window whose distances are considered.
const MAX_HITS: usize = 64;

/// Finds UBI in an image; returns `None` if there is none. Fails if the image cannot be read, or if
/// its headers contradict the hints.
pub fn detect(image: &dyn ReadAt, hints: &Hints) -> Result<Option<Detected>, DetectError> {
    let image = Image { bytes: image, size: image.size()? };
    let from = hints.start.unwrap_or(0);
    let Some(first) = image.first_header(from, hints)? else { return Ok(None) };
    let (peb_size, certain) = match hints.peb_size {
        Some(size) => (size, true),
        None => image.peb_size(first)?,
    };
    let headers = image.sample(first, peb_size)?;
    let (vid, data) = most_common(headers.iter().map(|one| (one.vid_hdr_offset, one.data_offset)))
        .unwrap_or_default();
    let layout = layout_of(peb_size, vid, data, hints)?;
    let start = match hints.start {
        Some(start) => start,
        None => image.walk_back(first, &layout)?,
    };
    let blocks = image.size.saturating_sub(start) / u64::from(peb_size.max(1));
    let agreeing =
        headers.iter().filter(|one| (one.vid_hdr_offset, one.data_offset) == (vid, data));
    Ok(Some(Detected {
        start,
        layout,
        peb_count: u32::try_from(blocks).unwrap_or(u32::MAX),
        image_seq: most_common(agreeing.map(|one| one.image_seq)).unwrap_or(0),
        headers: u32::try_from(headers.len()).unwrap_or(u32::MAX),
        peb_size_is_certain: certain,
    }))
}

/// Determines the layout from the headers of a device, as `ubiformat` does but not Linux (spec: ubi
/// 2); `None` if there is no valid header. Sizes are those of the device. Fails if the device does,
/// or if its headers contradict each other.
pub fn detect_layout(device: &dyn Mtd) -> Result<Option<HeaderLayout>, DetectError> {
    let geometry = device.geometry();
    let hints = Hints {
        start: Some(0),
        peb_size: Some(geometry.peb_size()),
        min_io: Some(geometry.min_io()),
        subpage: Some(geometry.subpage()),
        vid_hdr_offset: None,
        search: u64::MAX,
    };
    Ok(detect(&DeviceBytes(device), &hints)?.map(|found| found.layout))
}

/// The bytes of a device, as far as they can be read at all. Uncorrectable data is never trusted,
/// because headers have checksums.
#[derive(Debug)]
struct DeviceBytes<'a>(&'a dyn Mtd);

impl ReadAt for DeviceBytes<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.geometry().size())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.0.read(offset, buf).is_err() {
            buf.fill(0);
        }
        Ok(())
    }
}

/// Returns the layout of an image whose headers state these offsets. The minimum I/O unit and the
/// sub-page are not stored: the largest page that fits the offsets is used, which is right for all
/// usual chips.
pub(crate) fn layout_of(
    peb_size: u32,
    vid: u32,
    data: u32,
    hints: &Hints,
) -> Result<HeaderLayout, LayoutError> {
    let vid = hints.vid_hdr_offset.unwrap_or(vid);
    let min_io = hints.min_io.unwrap_or_else(|| guess_min_io(vid, data));
    let subpage = hints.subpage.unwrap_or_else(|| guess_subpage(vid, min_io));
    let data = if hints.vid_hdr_offset.is_some() {
        vid.saturating_add(HEADER_SIZE).checked_next_multiple_of(min_io).unwrap_or(data)
    } else {
        data
    };
    HeaderLayout::from_offsets(peb_size, min_io, subpage, vid, data)
}

fn guess_min_io(vid: u32, data: u32) -> u32 {
    if (vid, data) == (64, 128) {
        return 1;
    }
    // Without sub-pages the headers have a page each.
    if data == vid.saturating_mul(2) && vid.is_power_of_two() && vid >= 512 {
        return vid;
    }
    let largest = 1 << data.trailing_zeros().min(15);
    let fits = |unit: &u32| vid.saturating_add(64).checked_next_multiple_of(*unit) == Some(data);
    std::iter::successors(Some(largest), |unit| Some(unit / 2))
        .take_while(|unit| *unit > 0)
        .find(fits)
        .unwrap_or(1)
}

fn guess_subpage(vid: u32, min_io: u32) -> u32 {
    let alignment = 1 << vid.trailing_zeros().min(15);
    let unit = if alignment >= 256 { alignment } else { 512 };
    unit.min(min_io)
}

/// Returns the most frequent value, the earliest of several.
pub(crate) fn most_common<T: Copy + Eq + Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut all: Vec<(T, usize)> = values.zip(0..).collect();
    all.sort_unstable();
    let runs = all.chunk_by(|a, b| a.0 == b.0);
    runs.max_by_key(|run| (run.len(), std::cmp::Reverse(run[0].1))).map(|run| run[0].0)
}

/// Returns the possible eraseblock sizes: distances of neighbouring headers and their common
/// divisors.
pub(crate) fn distances(hits: &[u64]) -> Vec<u32> {
    let neighbours = || hits.windows(2).map(|pair| pair[1] - pair[0]);
    let common = neighbours().fold(0, greatest_common_divisor);
    let mut sizes: Vec<u32> =
        neighbours().chain([common]).filter_map(|size| u32::try_from(size).ok()).collect();
    sizes.retain(|size| (MIN_PEB_SIZE..=MAX_PEB_SIZE).contains(size));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

pub(crate) struct Image<'a> {
    pub(crate) bytes: &'a dyn ReadAt,
    pub(crate) size: u64,
}

impl Image<'_> {
    /// Returns the first valid erase-counter header at a search step.
    fn first_header(&self, from: u64, hints: &Hints) -> io::Result<Option<u64>> {
        let end = self.size.min(from.saturating_add(hints.search));
        // If the blocks are known, headers are nowhere else.
        let known = hints.start.and(hints.peb_size).map(|size| u64::from(size.max(1)));
        let mut offset = from;
        while offset < end {
            if self.header_at(offset)?.is_some() {
                return Ok(Some(offset));
            }
            offset = offset.saturating_add(known.unwrap_or(SEARCH_STEP));
        }
        if known.is_some() { Ok(None) } else { self.first_header_of_odd_size(from, end) }
    }

    /// Like [`Self::first_header`], for eraseblock sizes that are not a multiple of the search
    /// step, if the first block is damaged.
    fn first_header_of_odd_size(&self, from: u64, end: u64) -> io::Result<Option<u64>> {
        let end = end.min(from.saturating_add(WINDOW));
        Ok(self.headers_between(from, end, 1)?.first().copied())
    }

    fn header_at(&self, offset: u64) -> io::Result<Option<EcHeader>> {
        let mut bytes = [0; HEADER_BYTES];
        if offset.checked_add(u64::from(HEADER_SIZE)).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        self.bytes.read_exact_at(&mut bytes, offset)?;
        let header = decode_ec(&bytes, Location::Byte(offset)).ok();
        Ok(header.filter(|one| is_plausible(one.vid_hdr_offset, one.data_offset)))
    }

    /// Returns the offsets of valid headers in a part of the image, at most `limit` of them.
    fn headers_between(&self, from: u64, end: u64, limit: usize) -> io::Result<Vec<u64>> {
        const PIECE: u64 = 1 << 16;
        let magic = EC_MAGIC.to_be_bytes();
        let mut piece = vec![0; 1 << 16];
        let mut hits = Vec::new();
        let mut start = from;
        while start < end {
            let len = usize::try_from((end - start).min(PIECE)).unwrap_or(0);
            self.bytes.read_exact_at(&mut piece[..len], start)?;
            for at in (0..len).step_by(HEADER_STEP) {
                let offset = start + at as u64;
                if piece[at..len].starts_with(&magic) && self.header_at(offset)?.is_some() {
                    hits.push(offset);
                    if hits.len() == limit {
                        return Ok(hits);
                    }
                }
            }
            start += PIECE;
        }
        Ok(hits)
    }

    /// Returns the eraseblock size that explains the headers after `first` best, and whether it is
    /// more than a guess.
    fn peb_size(&self, first: u64) -> io::Result<(u32, bool)> {
        let end = self.size.min(first.saturating_add(WINDOW));
        let hits = self.headers_between(first, end, MAX_HITS)?;
        let candidates = distances(&hits);
        let mut best = None;
        for size in candidates {
            let (score, found) = self.judge(first, size)?;
            if found >= 2 && best.is_none_or(|(best_score, _)| score >= best_score) {
                best = Some((score, size));
            }
        }
        match best {
            Some((_, size)) => Ok((size, true)),
            None => Ok((self.guess_peb_size(first), false)),
        }
    }

    /// Returns how well `size` explains the image: headers at its multiples count for it, blocks
    /// that are neither erased nor have a header against it. Also returns the number of headers.
    fn judge(&self, first: u64, size: u32) -> io::Result<(i64, u32)> {
        let (mut score, mut found) = (0, 0);
        let end = self.size.min(first.saturating_add(JUDGED));
        let mut offset = first;
        while offset < end && score > -FOR_A_HEADER * 64 {
            if self.header_at(offset)?.is_some() {
                found += 1;
                score += FOR_A_HEADER;
            } else if !self.is_erased_at(offset)? {
                score -= 1;
            }
            offset += u64::from(size);
        }
        Ok((score, found))
    }

    /// Returns whether the position of a header is erased or after the end.
    pub(crate) fn is_erased_at(&self, offset: u64) -> io::Result<bool> {
        let mut bytes = [0xFF; HEADER_BYTES];
        if offset.saturating_add(u64::from(HEADER_SIZE)) <= self.size {
            self.bytes.read_exact_at(&mut bytes, offset)?;
        }
        Ok(is_erased(&bytes))
    }

    /// Guesses from a single header: the whole image if that can be a block, otherwise a power of
    /// two that divides it.
    pub(crate) fn guess_peb_size(&self, first: u64) -> u32 {
        let rest = self.size - first;
        match u32::try_from(rest) {
            Ok(rest) if rest <= MAX_PEB_SIZE => rest.max(1),
            _ => 1 << rest.trailing_zeros().clamp(17, 22),
        }
    }

    /// Returns the valid headers of the first blocks.
    fn sample(&self, first: u64, peb_size: u32) -> io::Result<Vec<EcHeader>> {
        let offsets = (0..SAMPLES).map(|index| first + index * u64::from(peb_size));
        let mut headers = Vec::new();
        for offset in offsets {
            headers.extend(self.header_at(offset)?);
        }
        Ok(headers)
    }

    /// Goes back from the first header over erased blocks and blocks with a damaged header. The
    /// image starts at 0 if only a few blocks remain before it.
    fn walk_back(&self, first: u64, layout: &HeaderLayout) -> io::Result<u64> {
        let size = u64::from(layout.peb_size());
        let mut start = first;
        while start >= size && self.belongs(start - size, layout)? {
            start -= size;
        }
        let in_front = start / size;
        let is_whole = start.is_multiple_of(size);
        Ok(if is_whole && in_front <= LEADING_DAMAGED { 0 } else { start })
    }

    /// Returns whether an eraseblock has a valid volume identifier header, or is erased.
    pub(crate) fn belongs(&self, offset: u64, layout: &HeaderLayout) -> io::Result<bool> {
        if self.has_vid(offset, layout)? {
            return Ok(true);
        }
        let is_erased = self.is_erased_at(offset + u64::from(layout.vid_hdr_offset()))?;
        Ok(is_erased && self.is_erased_at(offset)?)
    }

    /// Returns whether an eraseblock has a valid volume identifier header.
    pub(crate) fn has_vid(&self, offset: u64, layout: &HeaderLayout) -> io::Result<bool> {
        let vid_offset = offset + u64::from(layout.vid_hdr_offset());
        let mut bytes = [0; HEADER_BYTES];
        self.bytes.read_exact_at(&mut bytes, vid_offset)?;
        Ok(decode_vid(&bytes, layout, Location::Byte(vid_offset)).is_ok())
    }
}

pub(crate) fn is_plausible(vid: u32, data: u32) -> bool {
    vid >= 64 && data >= vid.saturating_add(64) && data < MAX_PEB_SIZE
}
