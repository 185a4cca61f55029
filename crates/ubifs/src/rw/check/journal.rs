//! The content of the journal (layer 15; spec: ubifs-format 21.3, 21.10).

use super::breaches::{Breaches, read_leb};
use super::{Areas, Committed};
use crate::replay::is_last;
use crate::rw::error::at;
use crate::rw::wbuf::Head;
use crate::volume::Volume;
use eraseblock_base::Location;
use eraseblock_ubifs_format::Reference;
use eraseblock_ubifs_format::constants::{NodeType, group};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::scan::Scanner;

/// The journal part of a LEB while it is checked.
pub(super) struct Journal {
    head: Option<Head>,
    start: u32,
    sqnum: u64,
    is_open: bool,
}

/// Returns whether nodes of this type, leaves and related ones, may be in the journal.
pub(super) fn may_be_in_journal(node_type: NodeType) -> bool {
    matches!(
        node_type,
        NodeType::Inode
            | NodeType::Data
            | NodeType::Dent
            | NodeType::Xent
            | NodeType::Truncation
            | NodeType::Auth
    )
}

impl Journal {
    /// Of a head, from an offset on.
    pub(super) fn new(head: Option<Head>, start: u32) -> Self {
        Self { head, start, sqnum: 0, is_open: false }
    }

    /// Q3, L7: checks the next node of the LEB.
    pub(super) fn node(&mut self, offset: u32, node: &Node<'_>, breaches: &mut Breaches) {
        if self.head == Some(Head::Gc) || offset < self.start {
            return;
        }
        let sqnum = node.header.sqnum;
        if sqnum <= self.sqnum {
            let message = format!("sequence number {sqnum} follows {}", self.sqnum);
            breaches.add(node.at, "journal-wrong", "Q3", message);
        }
        self.sqnum = sqnum;
        if self.head != Some(Head::Base) {
            return;
        }
        if self.is_open && node.header.group == group::NONE {
            let message = "a node of no group inside of one";
            breaches.add(node.at, "journal-wrong", "L7", message);
        }
        self.is_open = node.header.group == group::IN;
    }

    /// L7: no group is left open at the end.
    pub(super) fn end(&self, place: Location, breaches: &mut Breaches) {
        if self.is_open {
            let message = "the last group of nodes is not complete";
            breaches.add(place, "journal-wrong", "L7", message);
        }
    }
}

impl Areas<'_> {
    /// L4, L7, Q3: checks the journal on flash, which a read-only mount may have committed in
    /// memory.
    pub(super) fn check_journal_on_flash(
        &self,
        volume: &Volume,
        committed: &Committed,
        breaches: &mut Breaches,
    ) {
        for (index, bud) in committed.buds.iter().enumerate() {
            let may_be_torn = committed.may_be_torn && is_last(volume, &committed.buds, index);
            let mut bytes = Vec::new();
            if read_leb(volume, bud.leb.get(), &mut bytes, "L4", breaches) {
                self.check_bud(volume, bud, &bytes, may_be_torn, breaches);
            }
        }
    }

    fn check_bud(
        &self,
        volume: &Volume,
        bud: &Reference,
        bytes: &[u8],
        may_be_torn: bool,
        breaches: &mut Breaches,
    ) {
        let mut journal = Journal::new(Head::of(bud.head), bud.offset);
        let mut scanner = Scanner::new(bud.leb, bytes, bud.offset, volume.limits);
        for (offset, node) in scanner.by_ref() {
            let node_type = node.header.node_type;
            if !may_be_in_journal(node_type) {
                let message = format!("{} in the journal", node_type.name());
                breaches.add(node.at, "journal-wrong", "L4", message);
            }
            journal.node(offset, &node, breaches);
        }
        if may_be_torn && scanner.is_torn(volume.max_write()) {
            return;
        }
        if let Some(problem) = scanner.strict_error(self.flash.min_io) {
            breaches.add(problem.at(), "journal-wrong", "L4", &problem);
        }
        journal.end(at(bud.leb.get(), scanner.offset()), breaches);
    }
}
