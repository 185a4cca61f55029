//! What the fsck personalities share: the plan, the repair in place, the exit codes of fsck(8). What
//! changes goes to an undo file first.

use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::repair::{Action, Level};
use eraseblock::target::repair::examine;
use eraseblock::target::{Place, Shape};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Problems were corrected.
const CORRECTED: u8 = 1;
/// Problems are left.
const UNCORRECTED: u8 = 4;

/// Checks, and repairs as far as `allowed`; `None` only checks.
pub(super) fn run(
    target: &OsString,
    shape: &Shape,
    allowed: Option<Level>,
    session: &mut Session,
) -> Result<(), Failure> {
    let place = Place::parse(target)?;
    let access = if allowed.is_none() { Access::Read } else { Access::Write };
    let level = allowed.unwrap_or(Level::Safe);
    let examined = examine(&place, shape, (access, level), session)?;
    let plan = examined.plan();
    session.lines(plan.actions().iter().map(Action::line))?;
    for loss in plan.losses() {
        session.lines([format!("loses {}", loss.describe())])?;
    }
    let left = if examined.left().is_empty() { 0 } else { UNCORRECTED };
    session.exits_with(left);
    let Some(needed) = plan.level() else { return Ok(()) };
    if allowed.is_none_or(|allowed| needed > allowed) {
        session.exits_with(UNCORRECTED);
        return Ok(());
    }
    let undo = free_name(&place.path);
    examined.in_place(&undo, session)?;
    let (undo, target) = (undo.display(), place.path.display());
    session.lines([format!("repaired; `eraseblock undo {undo} {target}` takes it back")])?;
    session.exits_with(CORRECTED | left);
    Ok(())
}

/// Returns an unused name for an undo file, in the folder of the image.
fn free_name(image: &Path) -> PathBuf {
    let named = |number: u32| {
        let mut name = image.as_os_str().to_owned();
        name.push(OsStr::new(".undo"));
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    let free = |path: &PathBuf| path.symlink_metadata().is_err();
    (0..u32::MAX).map(named).find(free).unwrap_or_else(|| named(0))
}
