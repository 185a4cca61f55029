//! Describes flash events: the programmed bytes and their owner, and what is erased.

use eraseblock_base::{Leb, Location, Peb};
use eraseblock_jffs2_format::{ByteOrder, constants::node_type, decode as jffs2};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{EventKind, Recorded};
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, LAYOUT_VOLUME};
use eraseblock_ubi_format::decode::{decode_ec, decode_vid};
use eraseblock_ubi_format::{HeaderLayout, VidHeader};
use eraseblock_ubifs_format::decode::Limits;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_yaffs::Layout;
use eraseblock_yaffs_format::{Extra, Tags};
use std::collections::BTreeMap;

/// Describes an event of any device.
pub(crate) fn plain(event: &Recorded) -> String {
    match &event.event.kind {
        EventKind::Program { peb, offset, data, oob, .. } if data.is_empty() => {
            format!("program peb {peb}:{offset}, {} out-of-band bytes", oob.len())
        }
        EventKind::Program { peb, offset, data, .. } => {
            format!("program peb {peb}:{offset}, {} bytes", data.len())
        }
        EventKind::Erase { peb } => format!("erase peb {peb}"),
        EventKind::MarkBad { peb } => format!("mark peb {peb} bad"),
    }
}

/// Describes an event of a device with UBI; `content` describes data.
pub(crate) fn on_ubi(
    event: &Recorded,
    layout: &HeaderLayout,
    content: &dyn Fn(&[u8]) -> Option<String>,
) -> String {
    let words = plain(event);
    let detail = match &event.event.kind {
        EventKind::Program { peb, offset, data, .. } => {
            of_program(event, layout, *peb, *offset, data, content)
        }
        EventKind::Erase { peb } => {
            held(event, layout, *peb).map(|header| format!("held {}", of_header(&header)))
        }
        EventKind::MarkBad { .. } => None,
    };
    detail.map_or(words.clone(), |detail| format!("{words}: {detail}"))
}

fn of_program(
    event: &Recorded,
    layout: &HeaderLayout,
    peb: Peb,
    offset: u32,
    data: &[u8],
    content: &dyn Fn(&[u8]) -> Option<String>,
) -> Option<String> {
    let at = Location::Peb(peb, offset);
    if let Ok(header) = decode_ec(data, at) {
        return Some(format!("EC header, erase counter {}", header.erase_count));
    }
    let vid_at = layout.vid_hdr_offset().checked_sub(offset).map(|from| from as usize);
    let vid = vid_at.and_then(|from| data.get(from..));
    if let Some(header) = vid.and_then(|bytes| decode_vid(bytes, layout, at).ok()) {
        return Some(format!("VID header of {}", of_header(&header)));
    }
    let header = held(event, layout, peb)?;
    let start = offset.saturating_sub(layout.data_offset());
    let words = format!("data of {} at {start}", of_leb(&header));
    Some(content(data).map_or(words.clone(), |content| format!("{words}: {content}")))
}

/// Returns the owner of a block before the event.
fn held(event: &Recorded, layout: &HeaderLayout, peb: Peb) -> Option<VidHeader> {
    let chip = event.before.to_chip();
    chip.power_on();
    let mut bytes = vec![0; 64];
    let at = chip.geometry().address_of(peb) + u64::from(layout.vid_hdr_offset());
    chip.read(at, &mut bytes).ok()?;
    decode_vid(&bytes, layout, Location::peb(peb)).ok()
}

fn of_leb(header: &VidHeader) -> String {
    let leb = header.leb;
    match header.volume {
        LAYOUT_VOLUME => format!("the volume table, copy {leb}"),
        FASTMAP_ANCHOR_VOLUME => "the fastmap".to_owned(),
        FASTMAP_DATA_VOLUME => format!("the fastmap, part {leb}"),
        volume => format!("volume {volume} LEB {leb}"),
    }
}

fn of_header(header: &VidHeader) -> String {
    let copy = if header.copy_flag {
        format!(", a copy of {} bytes", header.data_size)
    } else {
        String::new()
    };
    format!("{}, sequence number {}{copy}", of_leb(header), header.sqnum)
}

/// Returns the nodes of UBIFS that begin in these bytes.
pub(crate) fn ubifs_nodes(bytes: &[u8]) -> Option<String> {
    let leb_size = u32::try_from(bytes.len()).ok()?;
    let scanner = Scanner::new(Leb::new(0), bytes, 0, Limits::unknown(leb_size.max(1 << 17)));
    listed(scanner.map(|(_, node)| format!("{:?}", node.header.node_type).to_lowercase()))
}

/// Describes an event of a device with JFFS2.
pub(crate) fn on_jffs2(event: &Recorded) -> String {
    let words = plain(event);
    match &event.event.kind {
        EventKind::Program { data, .. } => {
            jffs2_nodes(data).map_or(words.clone(), |nodes| format!("{words}: {nodes}"))
        }
        _ => words,
    }
}

/// Returns the nodes of JFFS2 that begin in these bytes.
fn jffs2_nodes(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    let mut names = Vec::new();
    while let Ok(header) = jffs2::header(ByteOrder::Little, rest, Location::Whole) {
        names.push(match header.node_type {
            node_type::DIRENT => "dirent",
            node_type::INODE => "inode",
            node_type::CLEANMARKER => "cleanmarker",
            node_type::PADDING => "padding",
            node_type::SUMMARY => "summary",
            node_type::XATTR => "xattr",
            node_type::XREF => "xref",
            _ => "unknown",
        });
        let len = (header.totlen as usize).next_multiple_of(4).min(rest.len());
        rest = &rest[len..];
    }
    listed(names.into_iter().map(str::to_owned))
}

/// Describes an event of a device with YAFFS2.
pub(crate) fn on_yaffs2(event: &Recorded, layout: &Layout) -> String {
    let words = plain(event);
    match &event.event.kind {
        EventKind::Program { data, oob, .. } => match layout.tags_of(data, oob) {
            Some(tags) => format!("{words}: {}", of_tags(&tags)),
            None => words,
        },
        _ => words,
    }
}

fn of_tags(tags: &Tags) -> String {
    let Tags { sequence, object, chunk, bytes, extra } = tags;
    let what = match extra {
        Some(Extra { parent: 4, .. }) => format!("the deletion of object {object}"),
        Some(extra) => {
            let shrink = if extra.is_shrink { ", older data after its size is void" } else { "" };
            let shadows = if extra.shadows { ", it replaces another object" } else { "" };
            format!("the header of object {object} in {}{shrink}{shadows}", extra.parent)
        }
        None => format!("chunk {chunk} of object {object}, {bytes} bytes"),
    };
    format!("{what}, sequence number {sequence:#x}")
}

/// Returns text such as `2 inode, 1 dirent nodes`, or nothing if no node begins there.
fn listed(names: impl Iterator<Item = String>) -> Option<String> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_insert(0_u32) += 1);
    let words: Vec<String> =
        counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    (!words.is_empty()).then(|| format!("{} of its nodes begin", words.join(", ")))
}
