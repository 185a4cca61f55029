//! Compares each LEB of the main area with its properties (layer 15; spec: ubifs-format 21.7, 21.3,
//! 21.10).

use super::breaches::Breaches;
use super::index::{Placed, check_order};
use super::journal::{Journal, may_be_in_journal};
use super::leaves::{Reader, Seen};
use crate::codes;
use crate::report::leb_start;
use crate::rw::core::Core;
use crate::rw::error::{Step, at};
use crate::rw::flash::align8;
use crate::rw::lprops::{Lp, Stats};
use crate::rw::place::Place;
use crate::rw::wbuf::Wbuf;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::scan::Scanner;

/// Bytes of a padding node; zeros follow.
const PADDING_LEN: u32 = 28;

impl Core {
    /// Checks P8 to P10, E4, I4, I7, L4, L7, Q3, and each leaf; returns the information of the
    /// leaves.
    pub(super) fn check_main_area(
        &mut self,
        nodes: &[Placed],
        breaches: &mut Breaches,
    ) -> Step<Seen> {
        self.store.nodes.lprops.load_all(&self.store.nodes.flash)?;
        let twins = check_order(nodes, breaches);
        let mut by_place: Vec<&Placed> = nodes.iter().collect();
        by_place.sort_unstable_by_key(|node| (node.branch.leb, node.branch.offset));
        let mut reader = Reader::new(twins);
        let mut bytes = Vec::new();
        let mut rest = by_place.as_slice();
        for leb in self.store.nodes.flash.main_first..self.store.nodes.flash.leb_cnt {
            let count = rest.iter().take_while(|node| node.branch.leb <= leb).count();
            let (here, behind) = rest.split_at(count);
            rest = behind;
            let lp = self.store.nodes.lprops.get(&self.store.nodes.flash, leb)?;
            self.check_properties(leb, lp, here, breaches);
            self.check_leb(leb, lp, here, &mut bytes, &mut reader, breaches);
        }
        check_names(nodes, &reader, breaches);
        let recounted: Stats = self.store.nodes.lprops.recount(&self.store.nodes.flash)?;
        if recounted != self.store.nodes.lprops.stats {
            let message =
                format!("sums are {:?}, expected {recounted:?}", self.store.nodes.lprops.stats);
            breaches.add(Location::Whole, "sums-wrong", "E1, E4", message);
        }
        Ok(reader.seen)
    }

    /// P8 to P10, I7, I8, I10: the nodes of the index in a LEB.
    fn check_properties(&self, leb: u32, lp: Lp, here: &[&Placed], breaches: &mut Breaches) {
        let size = self.store.nodes.flash.leb_size;
        let used: u64 = here.iter().map(|node| u64::from(align8(node.branch.len))).sum();
        let stated = u64::from(size.saturating_sub(lp.free).saturating_sub(lp.dirty));
        if stated != used || lp.free + lp.dirty > size {
            let message = format!(
                "{used} bytes are in use, but {} are said to be free and {} dirty",
                lp.free, lp.dirty
            );
            breaches.add(leb_start(leb), "lprops-wrong", "P8", message);
        }
        if lp.free == size && lp.index {
            let message = "an empty LEB is said to hold index nodes";
            breaches.add(leb_start(leb), "lprops-wrong", "P10", message);
        }
        if let Some(node) = here.first()
            && self.store.gc.reserved() == Some(leb)
        {
            let message = "a node in the LEB reserved for garbage collection";
            breaches.add(at(leb, node.branch.offset), "index-wrong", "I10", message);
        }
        for pair in here.windows(2) {
            let [one, two] = pair else { continue };
            if one.branch.offset + one.branch.len > two.branch.offset {
                let message = format!("overlaps the node at offset {}", one.branch.offset);
                breaches.add(at(leb, two.branch.offset), "index-wrong", "I7", message);
            }
        }
        let free_from = size.saturating_sub(lp.free);
        for node in here {
            let branch = &node.branch;
            let place = at(leb, branch.offset);
            if node.is_index != lp.index {
                let what = if node.is_index { "an index node" } else { "a leaf" };
                let message = format!("{what} in a LEB of the other kind");
                breaches.add(place, "index-wrong", "I8, P9", message);
            }
            if branch.offset + branch.len > free_from {
                let message = format!("a node where {} bytes at the end are free", lp.free);
                breaches.add(place, "index-wrong", "I10", message);
            }
        }
    }

    /// Checks the nodes of a LEB, live and dead.
    fn check_leb(
        &self,
        leb: u32,
        lp: Lp,
        here: &[&Placed],
        bytes: &mut Vec<u8>,
        reader: &mut Reader,
        breaches: &mut Breaches,
    ) {
        let size = self.store.nodes.flash.leb_size;
        let head = self.store.nodes.journal.head_in(leb);
        let written =
            head.and_then(Wbuf::place).map_or(size.saturating_sub(lp.free), |place| place.offset);
        let is_queued = self.store.gc.queued().iter().any(|queued| queued.leb == leb);
        // The remains of a power cut in an empty LEB are erased before it is used.
        let is_scanned = !here.is_empty() || self.store.nodes.journal.log.buds().contains_key(&leb);
        if here.is_empty() && (written == 0 || is_queued || (lp.free == 0 && !is_scanned)) {
            return;
        }
        if let Err(fault) = self.store.nodes.flash.read_leb(leb, bytes) {
            breaches.fault(leb_start(leb), "leb-unreadable", "P8", &fault);
            return self.check_one_by_one(here, reader, breaches);
        }
        let free = bytes.get(written as usize..).unwrap_or_default();
        // Nothing is appended to an index LEB except at the index head, and a commit that was cut
        // in the gaps may have extended a LEB: check it up to its end.
        let is_appended_to = !lp.index || leb == self.store.master.node.ihead_lnum;
        if lp.free > 0 && !is_queued && is_appended_to && !is_erased(free) {
            let message = "free space is not erased";
            breaches.add(at(leb, written), "free-not-erased", "P8", message);
        }
        self.store.nodes.journal.overlay(Place::start_of(leb), bytes);
        if is_scanned {
            let end = head.map_or(if is_appended_to { written } else { size }, Wbuf::end);
            self.scan_leb(leb, lp, end, here, bytes, reader, breaches);
        }
    }

    /// Checks the leaves of a LEB that cannot be read completely.
    fn check_one_by_one(&self, here: &[&Placed], reader: &mut Reader, breaches: &mut Breaches) {
        let mut buf = Vec::new();
        for node in here.iter().filter(|node| !node.is_index) {
            match self.store.nodes.leaf(&node.branch, &mut buf) {
                Ok(found) => self.take_leaf(&node.branch, &found, reader, breaches),
                Err(fault) => breaches.leaf(&node.branch, codes::LEAF_LOST, "N1", fault.describe()),
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a LEB is, and where findings go")]
    fn scan_leb(
        &self,
        leb: u32,
        lp: Lp,
        end: u32,
        here: &[&Placed],
        bytes: &[u8],
        reader: &mut Reader,
        breaches: &mut Breaches,
    ) {
        let mut journal = self
            .store
            .nodes
            .journal
            .log
            .buds()
            .get(&leb)
            .map(|bud| Journal::new(Some(bud.head), bud.start));
        let bytes = bytes.get(..end as usize).unwrap_or(bytes);
        let mut scanner = Scanner::new(Leb::new(leb), bytes, 0, self.store.nodes.flash.limits);
        let mut live = here.iter().peekable();
        let mut missed: Vec<&Placed> = Vec::new();
        let mut last_end = 0;
        for (offset, node) in scanner.by_ref() {
            last_end = offset + align8(node.header.len);
            while let Some(stray) = live.next_if(|placed| placed.branch.offset < offset) {
                missed.push(stray);
            }
            self.check_kind(&node, lp, breaches);
            if let Some(journal) = &mut journal {
                journal.node(offset, &node, breaches);
            }
            if let Some(placed) = live.next_if(|placed| placed.branch.offset == offset)
                && !placed.is_index
            {
                match Reader::same(&placed.branch, &node) {
                    Ok(()) => self.take_leaf(&placed.branch, &node, reader, breaches),
                    Err(message) => {
                        breaches.leaf(&placed.branch, codes::LEAF_LOST, "N1, N9", message);
                    }
                }
            }
        }
        missed.extend(live.copied());
        let mut is_reported = false;
        for placed in missed.into_iter().filter(|placed| !placed.is_index) {
            let start = placed.branch.offset as usize;
            let leaf = bytes.get(start..start + placed.branch.len as usize).unwrap_or_default();
            match self.store.nodes.check_leaf(&placed.branch, leaf) {
                Ok(node) => self.take_leaf(&placed.branch, &node, reader, breaches),
                Err(fault) => {
                    is_reported |= placed.branch.offset == scanner.offset();
                    breaches.leaf(&placed.branch, codes::LEAF_LOST, "N1, N9", fault.describe());
                }
            }
        }
        if let Some(journal) = journal {
            journal.end(at(leb, end), breaches);
        }
        if lp.index && breaches.is_clean {
            check_padding(leb, bytes, last_end, scanner.offset(), breaches);
        }
        // Only the sum counts for index LEBs (spec: ubifs-format 12.3).
        let is_short = scanner.offset() != end && !lp.index;
        if is_reported {
            return;
        }
        if let Some(problem) = scanner.strict_error(1) {
            breaches.add(problem.at(), "leb-corrupt", "P8, L4", &problem);
        } else if is_short {
            let found = scanner.offset();
            let message = format!("nodes end at offset {found}, expected {end}");
            breaches.add(at(leb, found), "lprops-wrong", "P8", message);
        }
    }

    /// P9, L4: a LEB of the main area holds either index nodes only, or any other allowed nodes.
    fn check_kind(&self, node: &Node<'_>, lp: Lp, breaches: &mut Breaches) {
        let node_type = node.header.node_type;
        let is_leaf = may_be_in_journal(node_type);
        let fits = if lp.index { node_type == NodeType::Index } else { is_leaf };
        if !fits {
            let what = if lp.index { "an index LEB" } else { "a LEB of leaves" };
            let message = format!("{} in {what}", node_type.name());
            breaches.add(node.at, "leb-mixed", "P9, L4", message);
        }
        // A commit that was cut leaves index nodes in gaps that no mount can distinguish from
        // others; live ones are compared with their parents (Q2, I5).
        if node.header.sqnum > self.store.nodes.journal.sqnums.highest() && !lp.index {
            let (found, most) = (node.header.sqnum, self.store.nodes.journal.sqnums.highest());
            let message = format!("sequence number {found}, the highest known is {most}");
            breaches.add(node.at, "sqnum-wrong", "Q1, N2", message);
        }
    }
}

/// P8: only padding lies between the last node of an index LEB and the end of its unit. Remains of a
/// commit that was cut are harmless there.
fn check_padding(leb: u32, bytes: &[u8], from: u32, end: u32, breaches: &mut Breaches) {
    let filling = bytes.get((from + PADDING_LEN) as usize..end as usize).unwrap_or_default();
    if let Some(index) = filling.iter().position(|byte| *byte != 0) {
        let place = at(leb, from + PADDING_LEN + index as u32);
        breaches.note(place, "padding-odd", "P8", "bytes that are no padding after the last node");
    }
}

/// I4, X12: names of entries with equal keys ascend.
fn check_names(nodes: &[Placed], reader: &Reader, breaches: &mut Breaches) {
    let mut leaves = nodes.iter().filter(|node| !node.is_index).peekable();
    while let Some(node) = leaves.next() {
        let Some(next) = leaves.peek().filter(|next| next.branch.key == node.branch.key) else {
            continue;
        };
        let name = |placed: &Placed| reader.names.get(&placed.branch.place());
        let (Some(one), Some(two)) = (name(node), name(next)) else { continue };
        if one >= two {
            let place = at(next.branch.leb, next.branch.offset);
            let shown = String::from_utf8_lossy(two);
            let (id, message) = if one == two {
                ("X12, I4", format!("the name {shown:?} occurs twice"))
            } else {
                ("I4", format!("the name {shown:?} does not sort after the previous one"))
            };
            breaches.add(place, "keys-disordered", id, message);
        }
    }
}
