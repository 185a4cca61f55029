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
use super::error::{self, Fault, Step};
use super::tnc::Zbranch;
use eraseblock_base::{Findings, Location, Severity};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::lpt::LebProps;
use eraseblock_ubifs_format::{Key, KeyKind, Master, Reference};
use eraseblock_vfs::walk::paths;
use eraseblock_vfs::{FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};

/// The code of the note that a check ended early.
pub const CHECK_INCOMPLETE: &str = "check-incomplete";

/// What does not hold, collected.
#[derive(Debug, Default)]
struct Breaches {
    findings: Findings,
    /// The inodes that findings are about, by their position.
    about: BTreeMap<usize, Ino>,
    /// The volume was unmounted, and is looked at as that left it.
    is_clean: bool,
}

impl Breaches {
    /// Something does not hold: the row `id` of the specification's section 21.
    fn add(&mut self, at: Location, code: &'static str, id: &str, message: impl std::fmt::Display) {
        self.findings.error(at, code, format!("{message} ({id})"));
    }

    /// Something that an earlier power cut may have left, and that does no harm.
    fn note(
        &mut self,
        at: Location,
        code: &'static str,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.findings.note(at, code, format!("{message} ({id})"));
    }

    /// What is found next is about this inode.
    fn next_is_about(&mut self, ino: u32) {
        self.about.insert(self.findings.iter().len(), ino.into());
    }

    /// A leaf does not hold.
    fn leaf(
        &mut self,
        branch: &Zbranch,
        code: &'static str,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.next_is_about(branch.key.ino());
        let place = error::at(branch.leb, branch.offset);
        let message = message.to_string();
        let message = message.strip_prefix(&format!("{place}: ")).unwrap_or(&message);
        self.add(place, code, id, format!("{}: {message}", held(branch.key)));
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

/// What of its inode a leaf holds.
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

/// What a check found.
#[derive(Debug)]
pub(super) struct Verdict {
    findings: Findings,
    about: BTreeMap<usize, Ino>,
}

impl Verdict {
    /// Returns the findings, with the paths of the inodes that they are about.
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
    pub(super) fn check(&mut self) -> Step<Verdict> {
        let mut breaches = Breaches::default();
        self.check_all(&mut breaches)?;
        let Breaches { findings, about, .. } = breaches;
        Ok(Verdict { findings, about })
    }

    fn check_all(&mut self, breaches: &mut Breaches) -> Step<()> {
        let Some(committed) = self.check_areas(breaches)? else { return Ok(()) };
        breaches.is_clean = self.options.read_only && !committed.may_be_torn;
        // What leads to nothing, or in circles, is not followed any further.
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
