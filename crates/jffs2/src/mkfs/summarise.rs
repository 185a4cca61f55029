//! Repacks an image so that full blocks end with a list of their nodes (spec: jffs2 21.2).

use super::blocks::{BlockShape, Blocks};
use super::error::MkfsError;
use super::options::{Padding, SummaryOptions, check_block};
use crate::codes;
use crate::detect;
use crate::medium::Source;
use crate::mount::OpenOptions;
use eraseblock_base::{Findings, Location, Peb};
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::{ByteOrder, FormatError, NodeKind, UnknownClass, decode};
use std::io::Write;

/// The result of repacking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryReport {
    /// Bytes of the output.
    pub image_bytes: u64,
    /// Nodes copied.
    pub nodes: u64,
    /// Blocks that end with a list.
    pub summaries: u64,
    /// Byte order found or given.
    pub order: ByteOrder,
}

/// Copies the nodes of `source` to `out`, each once and in the same order, and lists them at the
/// end of every full block.
///
/// Nodes that are damaged or obsolete are left out; findings name the damaged ones. Fails for
/// options out of their range, without any node, and for a node longer than a block.
pub fn summarise(
    source: &Source,
    options: &SummaryOptions,
    out: &mut (dyn Write + Send),
) -> Result<(SummaryReport, Findings), MkfsError> {
    check_block(options.block_size, options.cleanmarker)?;
    let mut findings = Findings::new();
    let open = OpenOptions { order: options.order, ..OpenOptions::default() };
    let shape = detect::detect(source, &open, &mut findings)?;
    let size = source.size()?.saturating_sub(shape.start);
    let rules = ScanRules { order: shape.order, cleanmarker: None, trust_empty_start: false };
    let mut blocks = Blocks::new(
        BlockShape {
            order: shape.order,
            size: options.block_size,
            cleanmarker: options.cleanmarker,
            summary: true,
            limit: None,
        },
        out,
    );
    let (mut nodes, mut peb, mut position) = (0, Peb::new(0), 0);
    let mut block = Vec::new();
    while position < size {
        let len = u64::from(shape.erase_size).min(size - position);
        block.resize(len as usize, 0);
        source.read(shape.start + position, &mut block)?;
        for item in Scanner::new(peb, &block, rules) {
            match item {
                Item::Node { offset, header, bytes } => {
                    let at = Location::Peb(peb, offset);
                    match is_wanted(shape.order, header.kind(), bytes, at) {
                        Ok(true) => nodes += 1,
                        Ok(false) => continue,
                        Err(error) => {
                            findings.warn(at, codes::NODE_DAMAGED, error.to_string());
                            continue;
                        }
                    }
                    let mut node = bytes.to_vec();
                    node.resize(bytes.len().next_multiple_of(4), 0xFF);
                    if !blocks.place(&node)? {
                        let at = shape.start + position + u64::from(offset);
                        return Err(MkfsError::NodeTooLarge { at, length: header.totlen });
                    }
                }
                Item::Dirt { offset, len, expected: false } => {
                    let message = format!("{len} bytes are no node");
                    findings.warn(Location::Peb(peb, offset), codes::NO_NODE, message);
                }
                Item::Dirt { .. } | Item::Obsolete { .. } | Item::Free { .. } => {}
            }
        }
        position += len;
        peb = Peb::new(peb.get() + 1);
    }
    blocks.finish(if options.pad { Padding::Block } else { Padding::None })?;
    let (image_bytes, summaries) = (blocks.written(), blocks.summaries());
    Ok((SummaryReport { image_bytes, nodes, summaries, order: shape.order }, findings))
}

/// Returns whether a node is copied: whole ones that mean something.
fn is_wanted(
    order: ByteOrder,
    kind: NodeKind,
    bytes: &[u8],
    at: Location,
) -> Result<bool, FormatError> {
    match kind {
        NodeKind::Inode => {
            let inode = decode::inode(order, bytes, at)?;
            decode::inode_data(&inode, bytes, at)?;
        }
        NodeKind::Dirent => drop(decode::dirent(order, bytes, at)?),
        NodeKind::Xattr => drop(decode::xattr(order, bytes, at)?),
        NodeKind::Xref => drop(decode::xref(order, bytes, at)?),
        NodeKind::Unknown(UnknownClass::Delete)
        | NodeKind::Cleanmarker
        | NodeKind::Padding
        | NodeKind::Summary => return Ok(false),
        NodeKind::DamageMarker | NodeKind::Unknown(_) => {}
    }
    Ok(true)
}
