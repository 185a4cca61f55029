//! Repair of UBI: headers, eraseblocks that belong to no LEB, volume table, fastmap.
//!
//! [`examine`] reads a flash and returns a [`FlashRepair`]: the plan, and the eraseblocks that change.
//! The modules, in the order of the work: `work` (the flash as planned so far), `headers` (erase
//! counters), `strays` (eraseblocks that no LEB claims; `content` identifies some of them), `table`
//! (the volume table), `verify`. The file systems in the volumes are repaired afterwards, each by
//! [`crate::examine`].
//!
//! # Invariants
//! 1. Sequence numbers and erase counters go up only.
//! 2. A volume never becomes smaller than its mapped LEBs.
//! 3. A LEB that a reader delivered before the repair has the same bytes afterwards.

mod content;
mod headers;
mod strays;
mod table;
mod verify;
mod work;

use crate::error::RepairError;
use crate::flash::{Blocks, PatchedFlash};
use crate::plan::{Action, Level, Plan};
use crate::rules::Quarantined;
use eraseblock_base::{Finding, Location, Peb};
use eraseblock_mtd::Mtd;
use eraseblock_ubi::{AttachOptions, FastmapStatus, PebState};
use eraseblock_ubi_format::HeaderLayout;
use std::sync::Arc;
use work::Work;

/// How a flash may be repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UbiOptions {
    /// How it is attached.
    pub attach: AttachOptions,
    /// From [`Level::Drop`] on, eraseblocks whose content nothing identifies are erased.
    pub level: Level,
    /// Whether eraseblocks may be added at its end: it is a file that is shorter than its flash.
    pub can_grow: bool,
}

/// A repair of a flash that was planned and verified in memory.
#[derive(Clone, Debug)]
pub struct FlashRepair {
    pub(crate) plan: Plan,
    pub(crate) blocks: Blocks,
    pub(crate) quarantine: Vec<Quarantined>,
    pub(crate) left: Vec<Finding>,
}

impl FlashRepair {
    /// Adds a repair of the flash as it will be after this one.
    pub(crate) fn append(&mut self, next: Self) {
        self.plan.append(&next.plan, None, |at| at);
        self.blocks.extend(next.blocks);
        self.quarantine.extend(next.quarantine);
        self.left = next.left;
    }

    /// Returns what is going to be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the eraseblocks that change.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns the bytes of what is removed.
    pub fn quarantine(&self) -> &[Quarantined] {
        &self.quarantine
    }

    /// Returns the problems that no rule repairs.
    pub fn left(&self) -> &[Finding] {
        &self.left
    }

    /// Returns the flash as it will be.
    ///
    /// # Errors
    ///
    /// Fails if `flash` has another geometry than the one that was examined.
    pub fn planned(&self, flash: Arc<dyn Mtd>) -> Result<Arc<dyn Mtd>, RepairError> {
        if self.blocks.is_empty() {
            return Ok(flash);
        }
        Ok(Arc::new(PatchedFlash::new(flash, self.blocks.clone())?))
    }
}

/// Reads a flash, plans the repair of its UBI, and verifies the result in memory. A flash without
/// problems gives an empty plan.
///
/// # Errors
///
/// Fails if the flash cannot be read or repaired, or if the repaired flash would still have problems
/// of the kinds that were repaired, or deliver other bytes than before.
pub fn examine(
    flash: &Arc<dyn Mtd>,
    layout: &HeaderLayout,
    options: UbiOptions,
) -> Result<FlashRepair, RepairError> {
    let repair = make(flash, layout, options)?;
    if !repair.plan.is_empty() {
        let after = repair.planned(Arc::clone(flash))?;
        let again = make(&after, layout, options)?;
        verify::verify(flash, &after, layout, options.attach, &again)?;
    }
    Ok(repair)
}

fn make(
    flash: &Arc<dyn Mtd>,
    layout: &HeaderLayout,
    options: UbiOptions,
) -> Result<FlashRepair, RepairError> {
    let mut work = Work::new(Arc::clone(flash), *layout, options);
    headers::repair(&mut work)?;
    strays::repair(&mut work)?;
    table::repair(&mut work)?;
    strays::identify(&mut work)?;
    fastmap(&mut work)?;
    let left = verify::problems(&work.attach()?);
    Ok(FlashRepair { plan: work.plan, blocks: work.blocks, quarantine: work.quarantine, left })
}

/// Erases a fastmap that attaching rejects, or that does not know about the changes.
fn fastmap(work: &mut Work) -> Result<(), RepairError> {
    let attachment = work.attach()?;
    let is_map = |peb: &u32| {
        attachment.peb(Peb::new(*peb)).is_some_and(|info| info.state == PebState::Fastmap)
    };
    let pebs: Vec<u32> = (0..attachment.peb_count).filter(is_map).collect();
    let Some(first) = pebs.first() else { return Ok(()) };
    let status = FastmapStatus::of(&*work.flash()?, &work.layout)?;
    let why = match status {
        FastmapStatus::Unusable { reason } => reason,
        _ if !work.blocks.is_empty() => "it does not know about the changes".to_owned(),
        _ => return Ok(()),
    };
    let at = Location::peb(Peb::new(*first));
    let why = format!("the fastmap is dropped: {why}");
    work.plan.push(Action::new(Level::Safe, "fastmap-unusable", "", at, "remove", why));
    for peb in pebs {
        let erased = work.erased(&attachment, peb);
        work.blocks.insert(peb, erased);
    }
    Ok(())
}
