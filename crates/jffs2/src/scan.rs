//! Finds all nodes in one pass over all blocks (spec: jffs2 12.2).

use crate::codes;
use crate::damage::{Unassigned, is_remains};
use crate::detect::Shape;
use crate::medium::Source;
use crate::mount::NodeCounts;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Findings, Location, Peb};
use eraseblock_jffs2_format::constants::pad;
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::{FormatError, NodeKind, UnknownClass, decode};
#[cfg(feature = "parallel")]
use rayon::prelude::*;

/// Bytes of blocks in memory at a time.
const BATCH: u64 = 8 << 20;
/// Unreadable ranges are narrowed down to pieces of this many bytes.
const PIECE: usize = 4096;

/// An INODE node. `place` is its offset from the first block; bit 0 is set when its data is not
/// usable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NodeRef {
    pub(crate) ino: u32,
    pub(crate) version: u32,
    pub(crate) place: u32,
}

/// A DIRENT node; its name is in the list of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRef {
    pub(crate) pino: u32,
    pub(crate) version: u32,
    pub(crate) ino: u32,
    pub(crate) mctime: u32,
    pub(crate) name: u32,
    pub(crate) name_len: u8,
    pub(crate) file_type: u8,
}

/// An XATTR node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PairRef {
    pub(crate) xid: u32,
    pub(crate) version: u32,
    pub(crate) place: u32,
}

/// An XREF node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct XrefRef {
    pub(crate) ino: u32,
    pub(crate) xid: u32,
    pub(crate) xseqno: u32,
}

/// Everything found, in flash order.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) nodes: Vec<NodeRef>,
    pub(crate) entries: Vec<EntryRef>,
    pub(crate) names: Vec<u8>,
    pub(crate) pairs: Vec<PairRef>,
    pub(crate) xrefs: Vec<XrefRef>,
    pub(crate) live: u64,
    pub(crate) counts: NodeCounts,
    /// Broken nodes that may belong to any file.
    pub(crate) unassigned: Unassigned,
    pub(crate) findings: Findings,
}

/// Maximum capacity that is reserved in advance, in bytes; more if the list is already longer.
const EXPECTED: usize = 32 << 20;

/// Reserves space for `more` entries in a list that a scan fills. When it must grow, also reserves
/// space for the entries expected from the rest of the `blocks`, if they are like the `seen` ones,
/// and an eighth of all: a list that doubles leaves as much memory unused as it takes.
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize, seen: u32, blocks: u32) {
    if list.capacity() - list.len() >= more {
        return;
    }
    let (len, seen) = ((list.len() + more) as u64, u64::from(seen.max(1)));
    let rest = u64::from(blocks).saturating_sub(seen).saturating_mul(len) / seen;
    let most = len.max((EXPECTED / size_of::<T>()) as u64);
    list.reserve_exact(more + (rest + (len + rest) / 8).min(most) as usize);
}

impl Found {
    /// Adds the nodes of a part, after which `seen` of all blocks have been scanned.
    fn append(&mut self, other: Found, seen: u32, blocks: u32) {
        let shift = self.names.len() as u32;
        make_room(&mut self.nodes, other.nodes.len(), seen, blocks);
        make_room(&mut self.entries, other.entries.len(), seen, blocks);
        make_room(&mut self.names, other.names.len(), seen, blocks);
        self.nodes.extend(other.nodes);
        self.entries.extend(
            other.entries.into_iter().map(|entry| EntryRef { name: entry.name + shift, ..entry }),
        );
        self.names.extend(other.names);
        self.pairs.extend(other.pairs);
        self.xrefs.extend(other.xrefs);
        self.live += other.live;
        self.counts.add(&other.counts);
        self.unassigned.append(other.unassigned);
        self.findings.append(other.findings);
    }
}

/// Scans `len` bytes from the start of the first block. Blocks are read in parallel; the result is
/// in flash order.
pub(crate) fn scan(source: &Source, shape: &Shape, len: u64) -> Found {
    all_blocks(shape, len, |peb| scan_block(source, shape, peb, len))
}

/// Like [`scan`], but keeps nothing about nodes: only sums and findings.
pub(crate) fn survey(source: &Source, shape: &Shape, len: u64) -> Found {
    all_blocks(shape, len, |peb| {
        let Found { live, counts, findings, .. } = scan_block(source, shape, peb, len);
        Found { live, counts, findings, ..Found::default() }
    })
}

fn all_blocks(shape: &Shape, len: u64, block: impl Fn(Peb) -> Found + Sync) -> Found {
    let size = u64::from(shape.erase_size);
    let blocks = len.div_ceil(size) as u32;
    let batch = (BATCH / size).clamp(1, 1 << 12) as u32;
    let mut found = Found::default();
    let mut first = 0;
    while first < blocks {
        let last = blocks.min(first.saturating_add(batch));
        let numbers = first..last;
        #[cfg(feature = "parallel")]
        let numbers = numbers.into_par_iter();
        let parts: Vec<Found> = numbers.map(|number| block(Peb::new(number))).collect();
        for (seen, part) in (first + 1..).zip(parts) {
            found.append(part, seen, blocks);
        }
        first = last;
    }
    found
}

fn scan_block(source: &Source, shape: &Shape, peb: Peb, len: u64) -> Found {
    let mut found = Found::default();
    if let Source::Device(device) = source
        && device.is_bad(peb).unwrap_or(false)
    {
        return found;
    }
    let base = u64::from(peb.get()) * u64::from(shape.erase_size);
    let mut block = vec![0xFF; u64::from(shape.erase_size).min(len - base) as usize];
    read_block(source, shape.start + base, peb, &mut block, &mut found.findings);
    let rules = ScanRules {
        order: shape.order,
        cleanmarker: shape.is_certain.then_some(shape.cleanmarker),
        trust_empty_start: shape.is_certain,
    };
    let (mut dirt, mut first_dirt, mut nodes) = (0_u64, None, 0_u32);
    for item in Scanner::new(peb, &block, rules) {
        match item {
            Item::Node { offset, header, bytes } => {
                nodes += 1;
                let at = Location::Peb(peb, offset);
                let place = base as u32 + offset;
                match node(&mut found, shape, header.kind(), bytes, place, at) {
                    Ok(()) => found.live += u64::from(pad(header.totlen).unwrap_or(0)),
                    Err(error) => report(&mut found.findings, &error),
                }
            }
            Item::Dirt { offset, len, expected } => {
                let bytes = &block[offset as usize..][..len as usize];
                if is_remains(bytes, expected) {
                    found.unassigned.add(Location::Peb(peb, offset));
                }
                if !expected {
                    dirt += u64::from(len);
                    first_dirt = first_dirt.or(Some(offset));
                }
            }
            Item::Obsolete { .. } | Item::Free { .. } => {}
        }
    }
    if let Some(offset) = first_dirt {
        let at = Location::Peb(peb, offset);
        let message = format!("{dirt} bytes of the block are no node");
        if nodes == 0 {
            found.findings.note(at, "foreign-block", message);
        } else {
            found.findings.warn(at, codes::NO_NODE, message);
        }
    }
    found
}

/// Reads a block; unreadable parts become zeros, which are not a node.
fn read_block(source: &Source, addr: u64, peb: Peb, block: &mut [u8], findings: &mut Findings) {
    if source.read(addr, block).is_ok() {
        return;
    }
    for (number, piece) in block.chunks_mut(PIECE).enumerate() {
        let offset = number * PIECE;
        if let Err(error) = source.read(addr + offset as u64, piece) {
            piece.fill(0);
            findings.error(Location::Peb(peb, offset as u32), codes::UNREADABLE, error.to_string());
        }
    }
}

fn report(findings: &mut Findings, error: &FormatError) {
    findings.warn(error.at(), codes::NODE_DAMAGED, error.to_string());
}

fn count(counts: &mut NodeCounts, kind: NodeKind) {
    *match kind {
        NodeKind::Inode => &mut counts.inodes,
        NodeKind::Dirent => &mut counts.entries,
        NodeKind::Xattr => &mut counts.xattrs,
        NodeKind::Xref => &mut counts.xrefs,
        NodeKind::Cleanmarker => &mut counts.cleanmarkers,
        NodeKind::Padding => &mut counts.paddings,
        NodeKind::Summary => &mut counts.summaries,
        NodeKind::DamageMarker => &mut counts.damage_markers,
        NodeKind::Unknown(_) => &mut counts.unknown,
    } += 1;
}

fn node(
    found: &mut Found,
    shape: &Shape,
    kind: NodeKind,
    bytes: &[u8],
    place: u32,
    at: Location,
) -> Result<(), FormatError> {
    let order = shape.order;
    count(&mut found.counts, kind);
    match kind {
        NodeKind::Inode => {
            let inode =
                decode::inode(order, bytes, at).inspect_err(|_| found.unassigned.add(at))?;
            if inode.dsize > 0 {
                let row = &mut found.counts.compressors;
                row[usize::from(inode.compression).min(row.len() - 1)] += 1;
            }
            let usable = decode::inode_lengths(&inode, at)
                .and_then(|()| decode::inode_data(&inode, bytes, at).map(drop));
            let place = place | u32::from(usable.is_err());
            found.nodes.push(NodeRef { ino: inode.ino, version: inode.version, place });
            usable
        }
        NodeKind::Dirent => {
            let entry = decode::dirent(order, bytes, at)?;
            let name = found.names.len() as u32;
            found.names.extend_from_slice(entry.name);
            found.entries.push(EntryRef {
                pino: entry.pino,
                version: entry.version,
                ino: entry.ino,
                mctime: entry.mctime,
                name,
                name_len: entry.name.len() as u8,
                file_type: entry.file_type,
            });
            Ok(())
        }
        NodeKind::Xattr => {
            let (xid, version) = decode::xattr_head(order, bytes, at)?;
            found.pairs.push(PairRef { xid, version, place });
            Ok(())
        }
        NodeKind::Xref => {
            let xref = decode::xref(order, bytes, at)?;
            found.xrefs.push(XrefRef { ino: xref.ino, xid: xref.xid, xseqno: xref.xseqno });
            Ok(())
        }
        NodeKind::DamageMarker => {
            found.unassigned.add(at);
            Ok(())
        }
        NodeKind::Unknown(UnknownClass::Incompatible) => {
            found.findings.error(
                at,
                "unknown-node",
                "a node that Linux would refuse to mount with",
            );
            Ok(())
        }
        NodeKind::Unknown(_) => {
            let is_empty = is_erased(bytes.get(12..).unwrap_or_default());
            let what = if is_empty { "an empty node" } else { "a node" };
            found.findings.note(at, "unknown-node", format!("{what} of unknown type, left out"));
            Ok(())
        }
        NodeKind::Cleanmarker | NodeKind::Padding | NodeKind::Summary => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the elements for which lists that were given up had space, and the maximum capacity
    /// reserved beyond twice the content, when block `n` of 1000 adds `of(n)`, one at a time.
    fn left_behind(of: impl Fn(u32) -> u32) -> (usize, usize) {
        let (mut list, mut left, mut most) = (Vec::new(), 0, 0);
        for block in 0..1000 {
            for number in 0..of(block) {
                let before = list.capacity();
                make_room(&mut list, 1, block + 1, 1000);
                list.push(u64::from(number));
                if list.capacity() > before {
                    left += before;
                    most = most.max(list.capacity().saturating_sub(2 * list.len()));
                }
            }
        }
        (left, most)
    }

    #[test]
    fn a_list_filled_by_a_scan_leaves_little_behind_and_is_never_much_too_large() {
        let (left, _) = left_behind(|_| 100);
        assert!(left < 10_000, "{left} of 100000");
        // All in the first blocks.
        let (_, most) = left_behind(|block| if block < 4 { 100_000 } else { 0 });
        assert!(most <= EXPECTED / 8, "{most}");
        // All in the last block.
        let (left, most) = left_behind(|block| if block == 999 { 10_000 } else { 0 });
        assert!(left < 100_000 && most < 10, "{left} of 10000, {most}");
    }
}
