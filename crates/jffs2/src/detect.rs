//! Byte order, position and eraseblock size of an image, from its nodes alone (spec: jffs2 2).

use crate::error::Jffs2Error;
use crate::medium::Source;
use crate::mount::OpenOptions;
use crate::rw;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Findings, Location};
use eraseblock_jffs2_format::constants::{HEADER_LEN, SUMMARY_MARKER_LEN, pad};
use eraseblock_jffs2_format::{ByteOrder, Header, NodeKind, scan, summary};
use std::sync::Arc;

/// Bytes read at a time.
const WINDOW: usize = 1 << 20;
/// Maximum number of nodes examined.
const ENOUGH: usize = 100_000;
/// Eraseblock sizes that are tried, as powers of two.
const SIZES: std::ops::RangeInclusive<u32> = 12..=26;
/// The largest node that is accepted while nothing is known yet.
const LARGEST_NODE: u32 = 1 << 24;

/// The properties of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The offset of the first eraseblock in the image in bytes.
    pub start: u64,
    /// Bytes in an erase block.
    pub erase_size: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Length of the cleanmarkers in bytes, 0 if there are none.
    pub cleanmarker: u32,
    /// Whether the eraseblock size was given or is proven by markers, not guessed.
    pub is_certain: bool,
}

struct Seen {
    offset: u64,
    header: Header,
}

/// Determines what `options` leave open.
pub(crate) fn detect(
    source: &Source,
    options: &OpenOptions,
    findings: &mut Findings,
) -> Result<Shape, Jffs2Error> {
    let size = source.size()?;
    let from = options.start.unwrap_or(0);
    // Nodes lie on a grid of 4 bytes that may differ from the file's.
    let (mut little, mut big) = nodes(source, from, size)?;
    for shift in 1..4 {
        if little.is_empty() && big.is_empty() && options.start.is_none() {
            (little, big) = nodes(source, from + shift, size)?;
        }
    }
    let order = options.order.unwrap_or(if big.len() > little.len() {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    });
    let (seen, other) = match order {
        ByteOrder::Little => (little, big),
        ByteOrder::Big => (big, little),
    };
    let Some(first) = seen.first() else {
        return Err(Jffs2Error::NotJffs2 { bytes: size.saturating_sub(from) });
    };
    if let Some(foreign) = other.first() {
        let message = format!("{} nodes are not {order}, the first one here", other.len());
        findings.warn(Location::Byte(foreign.offset), "mixed-byte-order", message);
    }
    let markers: Vec<&Seen> =
        seen.iter().filter(|node| node.header.kind() == NodeKind::Cleanmarker).collect();
    let given = match source {
        Source::Device(device) => Some(device.geometry().peb_size()),
        Source::Image(_) => options.erase_size,
    };
    let proven = given.map(|size| (size, None)).or_else(|| by_summary(source, order, &seen));
    let proven = proven.or_else(|| by_markers(&markers));
    let anchor = options.start.or(match source {
        Source::Device(_) => Some(0),
        Source::Image(_) => None,
    });
    let phase = anchor.or(proven.and_then(|(_, anchor)| anchor));
    let phase = phase.or(markers.first().map(|marker| marker.offset));
    let erase_size = match proven {
        Some((size, _)) => size,
        None => by_borders(&seen, phase.unwrap_or(0))
            .or_else(|| by_borders(&seen, first.offset))
            .unwrap_or(1 << 16),
    };
    let start = anchor.unwrap_or_else(|| {
        whole_flash(source, block_start(first.offset, phase, erase_size), erase_size)
    });
    Ok(Shape {
        start,
        erase_size,
        order,
        cleanmarker: markers.first().map_or(0, |marker| marker.header.totlen),
        is_certain: proven.is_some(),
    })
}

/// Returns the shape of an empty file system, which has no node to prove it (spec: jffs2 12.6);
/// `None` if it is not one.
pub(crate) fn blank(source: &Source, options: &OpenOptions) -> Result<Option<Shape>, Jffs2Error> {
    let (start, cleanmarker) = (options.start.unwrap_or(0), 0);
    match source {
        Source::Device(device) => {
            let found = rw::blank(Arc::clone(device), options.order)?;
            let found = found.filter(|blank| blank.is_marked || options.empty);
            let erase_size = device.geometry().peb_size();
            Ok(found.map(|blank| {
                let order = blank.order;
                Shape { start: 0, erase_size, order, cleanmarker, is_certain: true }
            }))
        }
        Source::Image(_) if options.empty && is_blank(source, start)? => Ok(Some(Shape {
            start,
            erase_size: options.erase_size.unwrap_or(1 << 16),
            order: options.order.unwrap_or_default(),
            cleanmarker,
            is_certain: options.erase_size.is_some(),
        })),
        Source::Image(_) => Ok(None),
    }
}

/// Returns whether there is something, and all of it is erased.
fn is_blank(source: &Source, start: u64) -> Result<bool, Jffs2Error> {
    let size = source.size()?;
    Ok(start < size && is_range_erased(source, start, size)?)
}

/// Returns whether all bytes from one place to before another are erased.
fn is_range_erased(source: &Source, from: u64, end: u64) -> Result<bool, Jffs2Error> {
    let length = |position: u64| usize::try_from(end - position).unwrap_or(WINDOW).min(WINDOW);
    let mut buf = vec![0; length(from)];
    let mut position = from;
    while position < end {
        let piece = &mut buf[..length(position)];
        source.read(position, piece)?;
        if !is_erased(piece) {
            return Ok(false);
        }
        position += piece.len() as u64;
    }
    Ok(true)
}

/// Returns the start of the block of the first node: on the grid of `phase`, or of the image when
/// there is no other.
fn block_start(first: u64, phase: Option<u64>, erase_size: u32) -> u64 {
    let size = u64::from(erase_size);
    let phase = phase.unwrap_or(0) % size;
    if first < phase { first } else { first - (first - phase) % size }
}

/// Returns the first block of a dump of a whole flash: erased ones before `start` belong to it, if
/// there is nothing else.
fn whole_flash(source: &Source, start: u64, erase_size: u32) -> u64 {
    let is_grid = start.is_multiple_of(erase_size.into());
    if is_grid && is_range_erased(source, 0, start).unwrap_or(false) { 0 } else { start }
}

/// Valid headers in little and in big endian, until there are enough.
fn nodes(source: &Source, from: u64, size: u64) -> Result<(Vec<Seen>, Vec<Seen>), Jffs2Error> {
    let (mut little, mut big) = (Vec::new(), Vec::new());
    let mut buf = vec![0; WINDOW];
    let mut position = from;
    while position.saturating_add(HEADER_LEN.into()) <= size && little.len() + big.len() < ENOUGH {
        // A hole has no node; positions stay on their grid.
        let hole = source.next_data(position)?.saturating_sub(position) & !3;
        if hole >= WINDOW as u64 {
            position += hole;
            continue;
        }
        let len = usize::try_from(size - position).unwrap_or(WINDOW).min(WINDOW);
        let window = &mut buf[..len];
        if let Err(error) = source.read(position, window) {
            if position == from && len < WINDOW {
                return Err(error.into());
            }
            position += len as u64;
            continue;
        }
        let mut at = 0;
        while at + HEADER_LEN as usize <= len {
            let Some((order, header)) = scan::header_order(&window[at..]) else {
                at += 4;
                continue;
            };
            let seen = Seen { offset: position + at as u64, header };
            match order {
                ByteOrder::Little => little.push(seen),
                ByteOrder::Big => big.push(seen),
            }
            let step = pad(header.totlen).filter(|len| *len <= LARGEST_NODE).unwrap_or(4);
            at = at.saturating_add(step as usize);
        }
        // The last words may be the start of a header: examine them again.
        position += (at.max(4) & !3) as u64;
    }
    Ok((little, big))
}

/// Uses a summary: it gives the start of its block and ends where the block ends.
fn by_summary(source: &Source, order: ByteOrder, seen: &[Seen]) -> Option<(u32, Option<u64>)> {
    let summaries = seen.iter().filter(|node| node.header.kind() == NodeKind::Summary);
    summaries.take(16).find_map(|node| {
        let end = node.offset.checked_add(node.header.totlen.into())?;
        let mut marker = [0; SUMMARY_MARKER_LEN as usize];
        source.read(end.checked_sub(marker.len() as u64)?, &mut marker).ok()?;
        let offset = summary::marked_offset(order, &marker)?;
        let start = node.offset.checked_sub(offset.into())?;
        let size = offset.checked_add(node.header.totlen)?;
        (1 << 12..=1 << 26).contains(&size).then_some((size, Some(start)))
    })
}

/// Uses cleanmarkers: they are at the starts of blocks.
fn by_markers(markers: &[&Seen]) -> Option<(u32, Option<u64>)> {
    let first = markers.first()?.offset;
    let distance =
        markers.iter().fold(0, |gcd, marker| greatest_divisor(gcd, marker.offset - first));
    let size = u32::try_from(distance).ok().filter(|size| (1 << 12..=1 << 26).contains(size))?;
    Some((size, Some(first)))
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the smallest size at whose boundaries no node lies.
fn by_borders(seen: &[Seen], phase: u64) -> Option<u32> {
    SIZES.map(|power| 1_u32 << power).find(|size| {
        let block = |offset: u64| offset.wrapping_sub(phase % u64::from(*size)) / u64::from(*size);
        seen.iter().all(|node| {
            block(node.offset) == block(node.offset + u64::from(node.header.totlen) - 1)
        })
    })
}
