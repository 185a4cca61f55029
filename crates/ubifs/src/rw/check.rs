//! Checks everything that must hold between two operations, without writing (spec: ubifs-format 21;
//! ubifs-runtime 28).
//!
//! First the areas on flash, without the repairs that a read-only mount makes in memory: `areas`
//! (superblock, master, log, orphans), `journal`, `lpt` (the committed LEB properties) and `index`
//! (the committed index nodes). Then the state in memory, journal included: `space` (each LEB of
//! the main area compared with its properties), `leaves` (each node of the index) and `inodes`
//! (inodes, entries and content compared with each other). Every finding names the row of the
//! specification's section 21 in brackets.
//!
//! # Invariants
//! 1. Nothing is written, and only data loaded on demand changes in memory.
//! 2. Memory is bounded by the leaves of the index (their places) and the inodes (a few numbers
//!    each); damage costs no more memory.

mod areas;
mod index;
mod inodes;
mod journal;
mod leaves;
mod lpt;
mod space;

use super::core::Core;
use super::error::{self, Fault, Step};
use super::tnc::Zbranch;
use eraseblock_base::{Code, Findings, Location, Severity};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::lpt::LebProps;
use eraseblock_ubifs_format::{Key, KeyKind, Master, Reference};
use eraseblock_vfs::walk::paths;
use eraseblock_vfs::{FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};

/// The code of the note that a check ended early.
pub const CHECK_INCOMPLETE: &str = "check-incomplete";

/// The collected breaches.
#[derive(Debug, Default)]
struct Breaches {
    findings: Findings,
    /// The inodes of findings, by position.
    about: BTreeMap<usize, Ino>,
    /// Whether the volume was unmounted and is checked in that state.
    is_clean: bool,
}

impl Breaches {
    /// Adds a breach of row `id` of the specification's section 21.
    fn add(
        &mut self,
        at: Location,
        code: impl Into<Code>,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.findings.error(at, code, format!("{message} ({id})"));
    }

    /// Adds a note about harmless remains of an earlier power cut.
    fn note(
        &mut self,
        at: Location,
        code: impl Into<Code>,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.findings.note(at, code, format!("{message} ({id})"));
    }

    /// Assigns the next finding to this inode.
    fn next_is_about(&mut self, ino: u32) {
        self.about.insert(self.findings.iter().len(), ino.into());
    }

    /// Adds a breach of a leaf.
    fn leaf(
        &mut self,
        branch: &Zbranch,
        code: impl Into<Code>,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.next_is_about(branch.key.ino());
        let place = error::at(branch.leb, branch.offset);
        let message = message.to_string();
        let message = message.strip_prefix(&format!("{place}: ")).unwrap_or(&message);
        self.add(place, code, id, format!("{}: {message}", held(branch.key)));
    }

    /// Adds something unreadable or invalid.
    fn fault(&mut self, at: Location, code: impl Into<Code>, id: &str, fault: &Fault) {
        self.add(at, code, id, fault.describe());
    }

    /// Adds the problems found by a reader of an area; returns whether there were any.
    fn take(&mut self, found: &Findings, id: &str) -> bool {
        for finding in found.iter().filter(|finding| finding.severity > Severity::Note) {
            self.add(finding.at, finding.code, id, &finding.message);
        }
        found.has_problems()
    }
}

/// Describes the part of its inode that a leaf holds.
fn held(key: Key) -> String {
    let number = u64::from(key.value());
    match key.kind() {
        Some(KeyKind::Data) => {
            let start = number * u64::from(BLOCK_SIZE);
            format!("bytes {start} to {}", start + u64::from(BLOCK_SIZE))
        }
        Some(KeyKind::Inode) => "attributes".to_owned(),
        Some(KeyKind::Dent) => format!("an entry with hash {number:#x}"),
        Some(KeyKind::Xent) => format!("an extended attribute with hash {number:#x}"),
        None => key.to_string(),
    }
}

/// The result of a check.
#[derive(Debug)]
pub(super) struct Verdict {
    findings: Findings,
    about: BTreeMap<usize, Ino>,
}

impl Verdict {
    /// Returns the findings, with the paths of their inodes.
    pub(super) fn named(self, fs: &dyn FileSystem) -> Findings {
        let wanted: BTreeSet<Ino> = self.about.values().copied().collect();
        if wanted.is_empty() {
            return self.findings;
        }
        let paths = paths(fs, &wanted);
        self.findings.reword(|index, finding| {
            let ino = self.about.get(&index)?;
            let path = paths.get(ino).map(|path| String::from_utf8_lossy(path).into_owned());
            let name = match (path, finding.at) {
                (Some(path), _) => path,
                (None, Location::Inode(_)) => return None,
                (None, _) => format!("inode {ino}"),
            };
            Some(format!("{}: {}", name.escape_debug(), finding.message))
        })
    }
}

/// The last commit on flash.
#[derive(Debug)]
struct Committed {
    /// The copy of the first master LEB.
    master: Master,
    /// Whether the volume was not unmounted after the current master was written, and nothing has
    /// repaired the consequences.
    may_be_torn: bool,
    /// The live references of the log, the first of each LEB.
    buds: Vec<Reference>,
    /// The inodes in the orphan area; `None` if it is not in use.
    orphans: Option<BTreeSet<u32>>,
    /// Properties of the LEBs of the main area; `None` when they cannot be read.
    props: Option<Vec<LebProps>>,
}

impl Core {
    /// Returns findings, one for each breach.
    pub(super) fn check(&mut self) -> Step<Verdict> {
        let mut breaches = Breaches::default();
        self.check_all(&mut breaches)?;
        let Breaches { findings, about, .. } = breaches;
        Ok(Verdict { findings, about })
    }

    fn check_all(&mut self, breaches: &mut Breaches) -> Step<()> {
        let Some(committed) = self.check_areas(breaches)? else { return Ok(()) };
        breaches.is_clean = self.options.read_only && !committed.may_be_torn;
        // Stop at an index with dangling or circular branches.
        let Some(places) = self.check_committed_index(&committed, breaches) else {
            let message = "the index cannot be followed: what it leads to was not checked";
            breaches.findings.note(Location::Whole, CHECK_INCOMPLETE, message);
            return Ok(());
        };
        let nodes = self.all_nodes()?;
        let seen = self.check_main_area(&nodes, breaches)?;
        self.check_orphans_listed(&seen, &places, &committed, breaches);
        self.check_inodes(&seen, breaches);
        let is_settled = self.pages.len() == 0 && self.inodes.dirty().is_empty();
        if is_settled && !self.owes_nothing() {
            breaches.findings.error(
                Location::Whole,
                "promises-left",
                "space is promised for nothing",
            );
        }
        Ok(())
    }
}
