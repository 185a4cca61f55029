//! What must hold between two operations, checked without writing (spec: ubifs-format 21;
//! ubifs-runtime 28).
//!
//! First the areas as they are on flash, below what a read-only mount repairs in memory: `areas`
//! (superblock, master, log, orphans), `journal`, `lpt` (the committed LEB properties) and `index` (the
//! committed index nodes). Then the state in memory, journal included: `space` (each LEB of the main
//! area against its properties), `leaves` (each node that the index leads to) and `inodes` (inodes,
//! entries and content against each other). Every finding names the row of the specification's
//! section 21 in brackets.
//!
//! # Invariants
//! 1. Nothing is written, and nothing but what is loaded on demand changes in memory.
//! 2. Memory is bounded by the leaves of the index (their places) and the inodes (a few numbers
//!    each); what is damaged costs no more than what is not.

mod areas;
mod index;
mod inodes;
mod journal;
mod leaves;
mod lpt;
mod space;

use super::core::Core;
use super::error::{Fault, Step};
use eraseblock_base::{Findings, Location, Severity};
use eraseblock_ubifs_format::lpt::LebProps;
use eraseblock_ubifs_format::{Master, Reference};
use std::collections::BTreeSet;

/// What does not hold, collected.
#[derive(Debug, Default)]
struct Breaches {
    findings: Findings,
}

impl Breaches {
    /// Something does not hold: the row `id` of the specification's section 21.
    fn add(&mut self, at: Location, code: &'static str, id: &str, message: impl std::fmt::Display) {
        self.findings.error(at, code, format!("{message} ({id})"));
    }

    /// Something could not be read, or is not what it should be.
    fn fault(&mut self, at: Location, code: &'static str, id: &str, fault: &Fault) {
        self.add(at, code, id, fault.describe());
    }

    /// Takes the problems that a reader of an area met, and says whether there was any.
    fn take(&mut self, found: &Findings, id: &str) -> bool {
        for finding in found.iter().filter(|finding| finding.severity > Severity::Note) {
            self.add(finding.at, finding.code, id, &finding.message);
        }
        found.has_problems()
    }
}

/// The last commit as it is on flash.
#[derive(Debug)]
struct Committed {
    /// The copy of the first master LEB.
    master: Master,
    /// The master that was current was on a volume that was not unmounted, and nothing has repaired
    /// what that may have left.
    may_be_torn: bool,
    /// The live references of the log, the first of each LEB.
    buds: Vec<Reference>,
    /// What the orphan area lists; `None` when it says nothing.
    orphans: Option<BTreeSet<u32>>,
    /// Properties of the LEBs of the main area; `None` when they cannot be read.
    props: Option<Vec<LebProps>>,
}

impl Core {
    /// Findings, one for each thing that does not hold.
    pub(super) fn check(&mut self) -> Step<Findings> {
        let mut breaches = Breaches::default();
        let Some(committed) = self.check_areas(&mut breaches)? else {
            return Ok(breaches.findings);
        };
        // What leads to nothing, or in circles, is not followed any further.
        let Some(places) = self.check_committed_index(&committed, &mut breaches) else {
            return Ok(breaches.findings);
        };
        let nodes = self.all_nodes()?;
        let seen = self.check_main_area(&nodes, &mut breaches)?;
        self.check_orphans_listed(&seen, &places, &committed, &mut breaches);
        self.check_inodes(&seen, &mut breaches);
        let is_settled = self.pages.len() == 0 && self.inodes.dirty().is_empty();
        if is_settled && !self.owes_nothing() {
            breaches.findings.error(
                Location::Whole,
                "promises-left",
                "space is promised for nothing",
            );
        }
        Ok(breaches.findings)
    }
}
