//! Selects the master node (spec: ubifs-format 14; ubifs-runtime 6.3 to 6.6).

use crate::codes;
use crate::error::UbifsError;
use crate::report::{Report, leb_start};
use crate::volume::Volume;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::constants::{MASTER_LEB, NODE_MAGIC, NodeType, master_flags};
use eraseblock_ubifs_format::decode::{self, Node};
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{FormatError, Master, verify};

/// Bytes of a master node that both copies share: all but header and HMAC.
const SAME: [std::ops::Range<usize>; 2] = [24..296, 360..512];

/// The selected master node.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) master: Master,
    /// Its place.
    pub(crate) at: Location,
    /// Whether the copies disagreed, so that the volume is unclean regardless of the flag in the
    /// chosen copy (5.3.2).
    pub(crate) was_recovered: bool,
}

/// Reads both master LEBs and chooses a node. Returns `None` if salvaging finds no usable one.
///
/// If the copies agree, the part that was never written is not read.
pub(crate) fn select(volume: &Volume, report: &mut Report) -> Result<Option<Selected>, UbifsError> {
    let mut lebs = [Vec::new(), Vec::new()];
    let mut ends = [Ok(0), Ok(0)];
    for ((number, bytes), end) in (MASTER_LEB..).zip(&mut lebs).zip(&mut ends) {
        *end = volume.read_written(Leb::new(number), bytes);
    }
    let [first, second] = copies(volume, &lebs);
    let are_whole = ends.iter().all(Result::is_ok);
    let agreed = if are_whole { first.agrees_with(&second) } else { None };
    if agreed.is_none() {
        for ((number, bytes), end) in (MASTER_LEB..).zip(&mut lebs).zip(ends) {
            let rest = end.and_then(|end| volume.read_rest(Leb::new(number), end, bytes));
            if let Err(error) = rest {
                report.refuse_read(leb_start(number), "master-unreadable", error)?;
                bytes.fill(0);
            }
        }
    }
    let [first, second] = copies(volume, &lebs);
    let (chosen, was_recovered) = match agreed {
        Some(slot) => (Some(slot), false),
        None => (recover(&first, &second, report)?, true),
    };
    if let Some((leb, offset)) = chosen {
        let leb = if leb == first.leb { &first } else { &second };
        if let Some(selected) = leb.accept(offset, was_recovered, report)? {
            return Ok(Some(selected));
        }
    }
    Ok(newest(&first, &second, report))
}

fn copies<'a>(volume: &'a Volume, lebs: &'a [Vec<u8>; 2]) -> [MasterLeb<'a>; 2] {
    [0, 1].map(|index| MasterLeb {
        leb: Leb::new(MASTER_LEB + index),
        bytes: &lebs[index as usize],
        volume,
    })
}

/// One of the two master LEBs.
struct MasterLeb<'a> {
    leb: Leb,
    bytes: &'a [u8],
    volume: &'a Volume,
}

/// The state of a master LEB for recovery.
struct Candidate<'a> {
    /// Offset and bytes of the last good node.
    node: Option<(u32, &'a [u8])>,
    /// Whether the slot after it is not empty.
    is_followed_by_damage: bool,
}

impl<'a> MasterLeb<'a> {
    fn at(&self, offset: u32) -> Location {
        Location::Leb(self.leb, offset)
    }

    fn slot_size(&self) -> u32 {
        512_u32.next_multiple_of(self.volume.sb.min_io_size)
    }

    fn node(&self, offset: u32) -> Result<Node<'a>, FormatError> {
        let bytes = self.bytes.get(offset as usize..).unwrap_or_default();
        decode::node(bytes, &self.volume.limits, self.at(offset))
    }

    /// Returns the last node of a strict scan that finds only masters, and their number.
    fn last_of_clean_scan(&self) -> Option<(usize, u32, Node<'a>)> {
        let mut scanner = Scanner::new(self.leb, self.bytes, 0, self.volume.limits);
        let nodes: Vec<_> = scanner.by_ref().collect();
        let clean = scanner.strict_error(self.volume.sb.min_io_size).is_none();
        let masters = nodes.iter().all(|(_, node)| node.header.node_type == NodeType::Master);
        if !clean || !masters {
            return None;
        }
        let (offset, node) = nodes.last()?;
        Some((nodes.len(), *offset, *node))
    }

    /// Returns the clean case (6.3): place of the current master.
    fn agrees_with(&self, other: &Self) -> Option<(Leb, u32)> {
        let (count, offset, node) = self.last_of_clean_scan()?;
        let (other_count, other_offset, other_node) = other.last_of_clean_scan()?;
        let same = count == other_count
            && offset == other_offset
            && same_body(node.bytes(), other_node.bytes());
        same.then_some((self.leb, offset))
    }

    /// Returns the last good slot as used by recovery (6.4), or `None` for a LEB that no power cut
    /// explains.
    fn candidate(&self) -> Option<Candidate<'a>> {
        let slot = self.slot_size();
        let has_magic = |offset: &u32| {
            let bytes = self.bytes.get(*offset as usize..).unwrap_or_default();
            bytes.len() >= 512 && bytes.starts_with(&NODE_MAGIC.to_le_bytes())
        };
        let slots = (0_u32..).map(|index| index.saturating_mul(slot)).take_while(has_magic);
        let count = u32::try_from(slots.count()).ok()?;
        let valid = |index: u32| {
            let node = self.node(index * slot).ok()?;
            let is_master = node.header.node_type == NodeType::Master;
            is_master.then_some((index * slot, node.bytes()))
        };
        let node = match count {
            0 => None,
            1 => valid(0),
            _ => Some(valid(count - 1).or_else(|| valid(count - 2))?),
        };
        let end = node.map_or(0, |(offset, _)| offset + slot) as usize;
        let behind = self.bytes.get(end..).unwrap_or_default();
        let (next, rest) = behind.split_at(behind.len().min(slot as usize));
        is_erased(rest).then(|| Candidate { node, is_followed_by_damage: !is_erased(next) })
    }

    /// Decodes and verifies the chosen node.
    fn accept(
        &self,
        offset: u32,
        was_recovered: bool,
        report: &mut Report,
    ) -> Result<Option<Selected>, UbifsError> {
        let at = self.at(offset);
        let master = self.node(offset)?.master()?;
        match verify::master(&master, &self.volume.sb, at) {
            Ok(()) => Ok(Some(Selected { master, at, was_recovered })),
            Err(error) => {
                report.of_row("M3").refuse_node("master-refused", error)?;
                // Wrong totals do not affect readers.
                let usable = self.volume.sb.is_main(master.root_lnum);
                Ok(usable.then_some(Selected { master, at, was_recovered }))
            }
        }
    }
}

fn same_body(one: &[u8], other: &[u8]) -> bool {
    SAME.iter().all(|range| one.get(range.clone()) == other.get(range.clone()))
}

/// Handles the cases of 6.4. Returns `None` for case X, in which salvaging continues.
fn recover(
    first: &MasterLeb<'_>,
    second: &MasterLeb<'_>,
    report: &mut Report,
) -> Result<Option<(Leb, u32)>, UbifsError> {
    let case = match (first.candidate(), second.candidate()) {
        (Some(one), Some(two)) => recovery_case(first, &one, &two),
        _ => None,
    };
    let Some((name, use_first, offset)) = case else {
        let message = "the two master LEBs disagree in a way no power cut explains";
        report.refuse(first.at(0), "master-disagreement", message)?;
        return Ok(None);
    };
    let leb = if use_first { first.leb } else { second.leb };
    let message = format!("master node recovered after a power cut (case {name})");
    report.findings.note(Location::Leb(leb, offset), codes::MASTER_RECOVERED, message);
    Ok(Some((leb, offset)))
}

fn recovery_case(
    first: &MasterLeb<'_>,
    one: &Candidate<'_>,
    two: &Candidate<'_>,
) -> Option<(&'static str, bool, u32)> {
    let slot = first.slot_size();
    let size = first.volume.leb_size();
    let clean = !one.is_followed_by_damage;
    match (one.node, two.node) {
        (Some((0, bytes)), _) if clean && has_recovery_flag(bytes) => Some(("R", true, 0)),
        (Some((o1, m1)), Some((o2, m2))) if o1 == o2 && same_body(m1, m2) => Some(("A", true, o1)),
        (Some((o1, _)), Some((o2, _))) if o2 + slot == o1 && clean => Some(("B", true, o1)),
        (Some((0, _)), Some((o2, _))) if o2 + 2 * slot > size && clean => Some(("C", true, 0)),
        (Some((0, _)), None) if clean => Some(("D", true, 0)),
        (None, Some((o2, _))) if o2 + 2 * slot > size => Some(("E", false, o2)),
        _ => None,
    }
}

fn has_recovery_flag(bytes: &[u8]) -> bool {
    bytes.get(40).is_some_and(|flags| u32::from(*flags) & master_flags::RECOVERY != 0)
}

/// Returns all valid master nodes of both LEBs.
pub(crate) fn all(volume: &Volume) -> Vec<(Location, Master)> {
    let mut lebs = [Vec::new(), Vec::new()];
    for (number, bytes) in (MASTER_LEB..).zip(&mut lebs) {
        if volume.read_leb(Leb::new(number), bytes).is_err() {
            bytes.clear();
        }
    }
    let [first, second] = copies(volume, &lebs);
    valid(&first, &second).map(|selected| (selected.at, selected.master)).collect()
}

/// Returns the valid master nodes in any slot of both LEBs.
fn valid<'a>(
    first: &'a MasterLeb<'a>,
    second: &'a MasterLeb<'a>,
) -> impl Iterator<Item = Selected> + 'a {
    let slots = [first, second].into_iter().flat_map(|leb| {
        (0..leb.volume.leb_size()).step_by(leb.slot_size() as usize).map(move |o| (leb, o))
    });
    slots.filter_map(|(leb, offset)| {
        let master = leb.node(offset).ok()?.master().ok()?;
        let at = leb.at(offset);
        verify::master(&master, &leb.volume.sb, at).ok()?;
        Some(Selected { master, at, was_recovered: true })
    })
}

/// Returns the valid master with the highest sequence number in any slot: used by salvaging where
/// Linux refuses.
fn newest(first: &MasterLeb<'_>, second: &MasterLeb<'_>, report: &mut Report) -> Option<Selected> {
    let best = valid(first, second).max_by_key(|selected| selected.master.sqnum);
    match &best {
        Some(selected) => report.findings.warn(
            selected.at,
            "master-forced",
            format!("the newest valid master is used (commit {})", selected.master.cmt_no),
        ),
        None => report.findings.error(first.at(0), "master-lost", "no valid master node is left"),
    }
    best
}
