//! One pass over all blocks: which nodes there are (spec: jffs2 12.2).

use crate::detect::Shape;
use crate::medium::Source;
use crate::mount::NodeCounts;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Findings, Location, Peb};
use eraseblock_jffs2_format::constants::pad;
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::{FormatError, NodeKind, UnknownClass, decode};
use rayon::prelude::*;

/// Bytes of blocks that are in memory at a time.
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
    pub(crate) findings: Findings,
}

impl Found {
    fn append(&mut self, other: Found) {
        let shift = self.names.len() as u32;
        self.nodes.extend(other.nodes);
        self.entries.extend(
            other.entries.into_iter().map(|entry| EntryRef { name: entry.name + shift, ..entry }),
        );
        self.names.extend(other.names);
        self.pairs.extend(other.pairs);
        self.xrefs.extend(other.xrefs);
        self.live += other.live;
        self.counts.add(&other.counts);
        self.findings.append(other.findings);
    }
}

/// Scans `len` bytes from the start of the first block. Blocks are read in parallel; the result is
/// in flash order.
pub(crate) fn scan(source: &Source, shape: &Shape, len: u64) -> Found {
    let size = u64::from(shape.erase_size);
    let blocks = len.div_ceil(size) as u32;
    let batch = (BATCH / size).clamp(1, 1 << 12) as u32;
    let mut found = Found::default();
    let mut first = 0;
    while first < blocks {
        let last = blocks.min(first.saturating_add(batch));
        let parts: Vec<Found> = (first..last)
            .into_par_iter()
            .map(|block| scan_block(source, shape, Peb::new(block), len))
            .collect();
        for part in parts {
            found.append(part);
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
            Item::Dirt { offset, len, expected: false } => {
                dirt += u64::from(len);
                first_dirt = first_dirt.or(Some(offset));
            }
            Item::Dirt { .. } | Item::Obsolete { .. } | Item::Free { .. } => {}
        }
    }
    if let Some(offset) = first_dirt {
        let at = Location::Peb(peb, offset);
        let message = format!("{dirt} bytes of the block are no node");
        if nodes == 0 {
            found.findings.note(at, "foreign-block", message);
        } else {
            found.findings.warn(at, "no-node", message);
        }
    }
    found
}

/// Reads a block, the unreadable parts of it as zeros, which no node is.
fn read_block(source: &Source, addr: u64, peb: Peb, block: &mut [u8], findings: &mut Findings) {
    if source.read(addr, block).is_ok() {
        return;
    }
    for (number, piece) in block.chunks_mut(PIECE).enumerate() {
        let offset = number * PIECE;
        if let Err(error) = source.read(addr + offset as u64, piece) {
            piece.fill(0);
            findings.error(Location::Peb(peb, offset as u32), "unreadable", error);
        }
    }
}

fn report(findings: &mut Findings, error: &FormatError) {
    let text = error.to_string();
    let place = format!("{}: ", error.at());
    let message = text.strip_prefix(&place).unwrap_or(&text);
    findings.warn(error.at(), "node-damaged", message);
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
            let inode = decode::inode(order, bytes, at)?;
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
