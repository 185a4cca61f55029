//! fsck.ubifs(8): checks and repairs a UBIFS in a file. What changes goes to an undo file first.

use super::fsck;
use crate::failure::Failure;
use crate::session::Session;
use clap::{ArgGroup, Parser};
use eraseblock::raw::repair::Level;
use eraseblock::target::Shape;
use std::ffi::OsString;

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
    let allowed = match (args.no, args.yes, args.rebuild) {
        (true, ..) => None,
        (_, true, true) => Some(Level::Rebuild),
        (_, true, false) => Some(Level::Drop),
        _ => Some(Level::Safe),
    };
    fsck::run(&args.volume, &Shape::default(), allowed, session)
}
