//! fsck.ubifs(8): checks and repairs a UBIFS in a file. What changes goes to an undo file first.

use crate::failure::Failure;
use crate::session::Session;
use clap::{ArgGroup, Parser};
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

/// Check and repair a UBIFS.
#[derive(Debug, Parser)]
#[command(name = "fsck.ubifs", version, args_override_self = true)]
#[command(group = ArgGroup::new("mode").required(true).args(["no", "auto", "yes"]))]
pub(super) struct FsckUbifsArgs {
    /// Check only, and write nothing
    #[arg(short, long)]
    no: bool,
    /// Repair what can be repaired without a loss
    #[arg(short, long, visible_short_alias = 'p')]
    auto: bool,
    /// Repair everything; what cannot be what it claims to be is removed
    #[arg(short, long)]
    yes: bool,
    /// With -y, also make the index from a scan of all nodes
    #[arg(short = 'b', long, requires = "yes", conflicts_with_all = ["no", "auto"])]
    rebuild: bool,
    /// Ignored, as others do
    #[arg(short = 'g', long = "debug", hide = true)]
    _debug: Option<u8>,
    /// Image file, and the UBI volume in it after a colon
    #[arg(value_name = "VOLUME")]
    volume: OsString,
}

/// Checks, and repairs.
pub(super) fn run(args: &FsckUbifsArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.volume)?;
    let access = if args.no { Access::Read } else { Access::Write };
    let allowed = match (args.no, args.yes, args.rebuild) {
        (true, ..) => None,
        (_, true, true) => Some(Level::Rebuild),
        (_, true, false) => Some(Level::Drop),
        _ => Some(Level::Safe),
    };
    let level = allowed.unwrap_or(Level::Safe);
    let examined = examine(&place, &Shape::default(), (access, level), session)?;
    let plan = examined.plan();
    session.lines(plan.actions().iter().map(Action::line))?;
    for loss in plan.losses() {
        session.lines([format!("loses {}", loss.describe())])?;
    }
    if !examined.left().is_empty() {
        session.exits_with(UNCORRECTED);
    }
    let Some(needed) = plan.level() else { return Ok(()) };
    if allowed.is_none_or(|allowed| needed > allowed) {
        session.exits_with(UNCORRECTED);
        return Ok(());
    }
    let undo = free_name(&place.path);
    examined.in_place(&undo, session)?;
    let (undo, target) = (undo.display(), place.path.display());
    session.lines([format!("repaired; `eraseblock undo {undo} {target}` takes it back")])?;
    let left = if examined.left().is_empty() { 0 } else { UNCORRECTED };
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
