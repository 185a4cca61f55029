//! Repair of UBIFS: a plan of every change and every loss, then the changes, verified before anything
//! is written.
//!
//! [`examine`] reads a volume and returns a [`Repair`]: the [`Plan`], and the LEBs that change. The
//! modules, in the order of the work: `superblock`; `scan` (every node) and `view` (which leaves are in
//! use); `model` and `rules` (what they say, put right); `write` (index, LPT, log and master for them);
//! `compare` (nothing is lost that the plan does not name). [`undo`] takes back changes of files.
//!
//! # Invariants
//! 1. The volume is only read; [`Repair::apply`] writes to the one that it is given.
//! 2. A repair that `check` would not find consistent, or that loses what its plan does not name, is an
//!    error.

// Lengths and offsets refer to one LEB; block numbers have 29 bits by the size limit.
#![allow(clippy::cast_possible_truncation)]

mod compare;
mod error;
mod findings;
pub mod flash;
pub mod jffs2;
mod model;
mod patched;
pub mod plan;
mod rules;
mod scan;
mod superblock;
pub mod ubi;
pub mod undo;
mod view;
mod write;

pub use error::RepairError;
pub use plan::{Action, Level, Loss, Part, Plan, Value};
pub use rules::Quarantined;

use compare::Named;
use eraseblock_base::{Findings, Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_ubifs_format::{Limits, Superblock};
use eraseblock_vfs::FileSystem;
use model::Model;
use patched::{Changes, Patched};
use rules::Rules;
use std::sync::Arc;
use superblock::Settled;
use view::View;

/// A repair that was planned and verified in memory.
#[derive(Debug)]
pub struct Repair {
    plan: Plan,
    changes: Changes,
    quarantine: Vec<Quarantined>,
}

impl Repair {
    /// Returns what is going to be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the bytes of what is removed.
    pub fn quarantine(&self) -> &[Quarantined] {
        &self.quarantine
    }

    /// Returns how many LEBs change.
    pub fn lebs(&self) -> usize {
        self.changes.len()
    }

    /// Writes the changes to the volume that was examined, or to a copy of it. New leaves and the new
    /// index go first, the superblock last.
    ///
    /// # Errors
    ///
    /// Fails if the device does; then the volume holds a part of the changes.
    pub fn apply(&self, device: &dyn LebDevice) -> Result<(), RepairError> {
        for (leb, change) in self.changes.iter().rev() {
            let leb = Leb::new(*leb);
            match change {
                Some(bytes) => device.change(leb, bytes)?,
                None => device.unmap(leb)?,
            }
        }
        device.sync()?;
        Ok(())
    }
}

/// Reads a volume, plans its repair, and verifies the result in memory. A consistent volume gives an
/// empty plan.
///
/// # Errors
///
/// Fails if nothing of a UBIFS is found, if the volume cannot be repaired, or if the repaired volume
/// would not be consistent or would lose what the plan does not name.
pub fn examine(device: &Arc<dyn LebDevice>) -> Result<Repair, RepairError> {
    let settled = superblock::settle(&**device)?;
    let start = with_superblock(device, &settled);
    let found = findings::of(&start)?;
    if settled.action.is_none() && !findings::needs_repair(&found) {
        return Ok(Repair {
            plan: Plan::default(),
            changes: Changes::new(),
            quarantine: Vec::new(),
        });
    }
    let repair = make(device, &start, settled, &found)?;
    verify(device, &start, &repair)?;
    Ok(repair)
}

/// Returns the volume with the superblock that every later pass relies on.
fn with_superblock(device: &Arc<dyn LebDevice>, settled: &Settled) -> Arc<dyn LebDevice> {
    if settled.action.is_none() {
        return Arc::clone(device);
    }
    let mut bytes = Vec::new();
    eraseblock_ubifs_format::encode::superblock(&mut bytes, &settled.sb);
    let changes = Changes::from([(0, Some(bytes))]);
    Arc::new(Patched::new(Arc::clone(device), changes))
}

fn make(
    device: &Arc<dyn LebDevice>,
    start: &Arc<dyn LebDevice>,
    settled: Settled,
    found: &Findings,
) -> Result<Repair, RepairError> {
    let Settled { sb, action } = settled;
    let grown = sb.grown(device.leb_count());
    let scan = scan::scan(&**start, &grown);
    let opened = Ubifs::open(Arc::clone(start), &OpenOptions { strict: false });
    let fs = opened.as_ref().ok().map(|(fs, _)| fs);
    let view = fs.and_then(view::of_mount);
    let is_scanned = view.is_none();
    let View { mut leaves, damaged, outdated, actions } =
        view.unwrap_or_else(|| view::of_scan(&scan));
    leaves.extend(damaged);
    if leaves.is_empty() {
        return Err(RepairError::Unsupported {
            at: Location::Whole,
            what: "no inode, no entry and no content is left".to_owned(),
        });
    }
    let is_journal_lost = !is_scanned && scan.has_more_journal(&leaves);
    let size_of = |ino: u32| {
        let attr = fs.filter(|_| !is_scanned)?.attr(ino.into()).ok()?;
        Some(attr.size)
    };
    let limits = Limits::of(&sb);
    let model = Model::new(&**start, limits, leaves);
    let mut rules = Rules::new(model, &scan, &grown, &**start, &size_of);
    rules.is_scanned = is_scanned;
    rules.run();
    rules.outdated(outdated);
    let mut plan = Plan::default();
    let is_new_sb = action.is_some();
    action.into_iter().chain(actions).for_each(|action| plan.push(action));
    let has_rules = !rules.actions.is_empty();
    let known = findings::Known { has_rules, is_scanned, is_journal_lost };
    for action in findings::derived(found, &scan, &known) {
        plan.push(action);
    }
    rules.actions.drain(..).for_each(|action| plan.push(action));
    let changes = changes(start, &sb, is_new_sb, &rules)?;
    Ok(Repair { plan, changes, quarantine: rules.quarantine })
}

fn changes(
    start: &Arc<dyn LebDevice>,
    sb: &Superblock,
    is_new_sb: bool,
    rules: &Rules<'_>,
) -> Result<Changes, RepairError> {
    write::write(&write::Input {
        device: &**start,
        sb,
        is_new_sb,
        scan: rules.scan,
        highest_inum: rules.highest,
        wanted: rules.model.wanted(),
    })
}

/// Opens the repaired volume in memory: `check` is silent, and nothing is lost that the plan does not
/// name.
fn verify(
    device: &Arc<dyn LebDevice>,
    start: &Arc<dyn LebDevice>,
    repair: &Repair,
) -> Result<(), RepairError> {
    let after: Arc<dyn LebDevice> =
        Arc::new(Patched::new(Arc::clone(device), repair.changes.clone()));
    superblock::settle(&*after)?;
    let left = findings::of(&after)?;
    if findings::needs_repair(&left) {
        return Err(RepairError::StillWrong(left));
    }
    let (after, _) =
        Ubifs::open(after, &OpenOptions { strict: true }).map_err(RepairError::Unreadable)?;
    let opened = Ubifs::open(Arc::clone(start), &OpenOptions { strict: false });
    let Ok((before, found)) = opened else { return Ok(()) };
    let mut named = Named::new(repair.plan.losses());
    if found.iter().any(|finding| finding.code.name() == "root-lost") {
        named = named.made_up(before.root());
    }
    let unnamed = compare::unnamed(&before, &after, &named);
    if unnamed.is_empty() { Ok(()) } else { Err(RepairError::UnnamedLoss(unnamed)) }
}
