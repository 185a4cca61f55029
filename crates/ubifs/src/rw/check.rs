//! Checks everything that must hold between two operations, without writing (layer 15; spec:
//! ubifs-format 21; ubifs-runtime 28).
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
mod breaches;
mod index;
mod inodes;
mod journal;
mod leaves;
mod lpt;
mod space;

use self::breaches::Breaches;
use super::core::Core;
use super::error::{Fault, Step};
use super::flash::Flash;
use super::orphan::Orphans;
use crate::error::UbifsError;
use crate::mount::{OpenOptions, Ubifs};
use crate::report::Report;
use crate::sb;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::lpt::LebProps;
use eraseblock_ubifs_format::{Master, Reference};
use eraseblock_vfs::walk::paths;
use eraseblock_vfs::{FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The code of the note that a check ended early.
pub const CHECK_INCOMPLETE: &str = "check-incomplete";

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

/// The volume on flash, without the state in memory of a mount.
#[derive(Clone, Copy, Debug)]
struct Areas<'a> {
    flash: &'a Flash,
    as_found: &'a Arc<dyn LebDevice>,
    /// The orphans of a mount for writing.
    orphans: Option<&'a Orphans>,
}

/// Checks what is on flash of a volume that no mount takes: the areas, the journal, and the index as far
/// as it leads. Fails if the device does.
pub(super) fn refused(device: Arc<dyn LebDevice>) -> Result<Findings, UbifsError> {
    let mut report = Report::salvaging();
    let found = sb::load(Arc::clone(&device), &mut report)?;
    let mut breaches = Breaches::default();
    // The places of all other areas follow from the superblock.
    if breaches.take(&report, "S1") {
        return Ok(breaches.findings);
    }
    let flash = Flash::new(Arc::clone(&found.device), found.sb);
    let areas = Areas { flash: &flash, as_found: &found.device, orphans: None };
    let committed = areas.check_areas(&mut breaches).map_err(Fault::into_ubifs)?;
    if let Some(committed) = committed {
        areas.check_committed_index(&committed, &mut breaches);
    }
    // A mount reads the root directory last.
    if let Ok((fs, _)) = Ubifs::open(device, &OpenOptions { strict: false }) {
        let mut report = Report::salvaging();
        fs.check_root_directory(&mut report)?;
        breaches.take(&report, "X1");
    }
    Ok(breaches.findings)
}

/// The last commit on flash.
#[derive(Debug)]
struct Committed {
    /// The copy of the first master LEB.
    master: Master,
    /// Whether its fields are in their ranges.
    is_sound: bool,
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
    fn areas(&self) -> Areas<'_> {
        let orphans = (!self.options.read_only).then_some(&self.store.orphans);
        Areas { flash: &self.store.nodes.flash, as_found: &self.as_found, orphans }
    }

    /// Returns findings, one for each breach.
    pub(super) fn check(&mut self) -> Step<Verdict> {
        let mut breaches = Breaches::default();
        self.check_all(&mut breaches)?;
        let Breaches { findings, about, .. } = breaches;
        Ok(Verdict { findings, about })
    }

    fn check_all(&mut self, breaches: &mut Breaches) -> Step<()> {
        let Some(committed) = self.areas().check_areas(breaches)? else { return Ok(()) };
        breaches.is_clean = self.options.read_only && !committed.may_be_torn;
        // Stop at an index with dangling or circular branches.
        let Some(places) = self.areas().check_committed_index(&committed, breaches) else {
            let message = "the index cannot be followed: what it leads to was not checked";
            breaches.findings.note(Location::Whole, CHECK_INCOMPLETE, message);
            return Ok(());
        };
        let nodes = self.all_nodes()?;
        let seen = self.check_main_area(&nodes, breaches)?;
        inodes::check_orphans_listed(&seen, &places, &committed, breaches);
        self.check_inodes(&seen, breaches);
        let is_settled = self.pages.len() == 0 && self.inodes.dirty().is_empty();
        if is_settled && !self.store.budget.owes_nothing() {
            breaches.findings.error(
                Location::Whole,
                "promises-left",
                "space is promised for nothing",
            );
        }
        Ok(())
    }
}
