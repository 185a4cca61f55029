//! Scans LEBs that a power cut or worse may have damaged (spec: ubifs-runtime 17.1 to 17.5).

use crate::codes;
use crate::error::UbifsError;
use crate::report::Report;
use crate::volume::Volume;
use eraseblock_base::align::align_down;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::constants::{NODE_ALIGN, NODE_MAGIC, group};
use eraseblock_ubifs_format::decode::{self, Limits, Node};
use eraseblock_ubifs_format::scan::Scanner;

/// The GC head, whose nodes are copies and not grouped.
const GC_HEAD: u32 = 0;

/// Nodes of a LEB with their offsets.
pub(crate) type Nodes<'a> = Vec<(u32, Node<'a>)>;

/// Scans a LEB that must be undamaged.
pub(crate) fn strict<'a>(
    volume: &Volume,
    leb: Leb,
    bytes: &'a [u8],
    start: u32,
    report: &mut Report,
) -> Result<Nodes<'a>, UbifsError> {
    let mut scanner = Scanner::new(leb, bytes, start, volume.limits);
    let nodes = scanner.by_ref().collect();
    match scanner.strict_error(volume.sb.min_io_size) {
        None => Ok(nodes),
        Some(error) => {
            report.refuse_node("journal-corrupt", error)?;
            Ok(all_nodes(leb, bytes, start, volume.limits))
        }
    }
}

/// Scans the last bud of a journal head, or with `head` `None` an orphan LEB, after an unclean
/// stop: drops torn ends and incomplete groups.
pub(crate) fn recover<'a>(
    volume: &Volume,
    leb: Leb,
    bytes: &'a [u8],
    start: u32,
    head: Option<u32>,
    report: &mut Report,
) -> Result<Nodes<'a>, UbifsError> {
    let mut scanner = Scanner::new(leb, bytes, start, volume.limits);
    let mut nodes: Nodes<'a> = scanner.by_ref().collect();
    let problem = scanner.strict_error(1);
    if !scanner.is_torn(volume.max_write()) {
        let at = Location::Leb(leb, scanner.offset());
        report.refuse_node("journal-corrupt", crate::log::first_error(problem, at))?;
        return Ok(all_nodes(leb, bytes, start, volume.limits));
    }
    if let Some(error) = problem {
        report.findings.note(
            error.at(),
            codes::JOURNAL_TORN,
            "torn write of a power cut discarded",
        );
    }
    let end = scanner.offset();
    let dropped = match head {
        Some(GC_HEAD) => drop_unit(&mut nodes, end, volume.sb.min_io_size),
        Some(_) => drop_group(&mut nodes),
        None => 0,
    };
    if dropped > 0 {
        let message = format!("{dropped} nodes of an unfinished operation dropped");
        report.findings.note(Location::Leb(leb, end), codes::GROUP_DROPPED, message);
    }
    Ok(nodes)
}

/// Drops the trailing nodes of a group whose last node is missing (17.5).
fn drop_group(nodes: &mut Nodes<'_>) -> usize {
    let kept = nodes.iter().rposition(|(_, node)| node.header.group != group::IN);
    let kept = kept.map_or(0, |index| index + 1);
    let dropped = nodes.len() - kept;
    nodes.truncate(kept);
    dropped
}

/// Drops nodes until the damaged minimum I/O unit is free (17.5).
fn drop_unit(nodes: &mut Nodes<'_>, end: u32, min_io: u32) -> usize {
    let unit = align_down(end, min_io);
    let before = nodes.len();
    let mut end = end;
    while end > unit {
        let Some((offset, _)) = nodes.pop() else { break };
        end = offset;
    }
    before - nodes.len()
}

/// How many times the size of a LEB is checksummed without success before the rest of it is
/// abandoned: only a LEB made to be slow needs more.
const MAX_WASTE: usize = 8;

/// Returns every valid node of a LEB; continues after damage at the next position where a node
/// could start.
pub(crate) fn all_nodes(leb: Leb, bytes: &[u8], start: u32, limits: Limits) -> Nodes<'_> {
    let mut nodes = Vec::new();
    let mut offset = start;
    let mut wasted = 0;
    while (offset as usize) < bytes.len() && wasted < bytes.len() * MAX_WASTE {
        let mut scanner = Scanner::new(leb, bytes, offset, limits);
        nodes.extend(scanner.by_ref());
        let stopped = bytes.get(scanner.offset() as usize..).unwrap_or_default();
        wasted += decode::header(stopped, &limits, Location::leb(leb))
            .map_or(0, |header| header.len as usize);
        let behind = (scanner.offset() + 1).next_multiple_of(NODE_ALIGN);
        let Some(next) = next_magic(bytes, behind) else { break };
        offset = next;
    }
    nodes
}

/// Returns the next multiple of 8 from `from` with the magic.
fn next_magic(bytes: &[u8], from: u32) -> Option<u32> {
    let magic = NODE_MAGIC.to_le_bytes();
    let words = bytes.get(from as usize..)?.chunks(NODE_ALIGN as usize);
    let index = words.into_iter().position(|word| word.starts_with(&magic))?;
    u32::try_from(index).ok()?.checked_mul(NODE_ALIGN)?.checked_add(from)
}
