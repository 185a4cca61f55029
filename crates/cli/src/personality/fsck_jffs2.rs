//! fsck.jffs2: checks and repairs a JFFS2 in a file, with the options and exit codes of fsck.ubifs.

use super::fsck;
use crate::args::size32;
use crate::failure::Failure;
use crate::session::Session;
use clap::{ArgGroup, Parser};
use eraseblock::raw::repair::Level;
use eraseblock::target::{Shape, Sizes};
use std::ffi::OsString;

/// Check and repair a JFFS2.
#[derive(Debug, Parser)]
#[command(name = "fsck.jffs2", version, args_override_self = true)]
#[command(group = ArgGroup::new("mode").required(true).args(["no", "auto", "yes"]))]
pub(super) struct FsckJffs2Args {
    /// Check only, and write nothing
    #[arg(short, long)]
    no: bool,
    /// Repair what can be repaired without a loss
    #[arg(short, long, visible_short_alias = 'p')]
    auto: bool,
    /// Repair everything; what cannot be what it claims to be is removed
    #[arg(short, long)]
    yes: bool,
    /// Size of an eraseblock, if nothing in the image proves it
    #[arg(short, long, value_name = "SIZE", value_parser = size32)]
    eraseblock: Option<u32>,
    /// Image file
    #[arg(value_name = "IMAGE")]
    image: OsString,
}

/// Checks, and repairs.
pub(super) fn run(args: &FsckJffs2Args, session: &mut Session) -> Result<(), Failure> {
    let allowed = match (args.no, args.yes) {
        (true, _) => None,
        (_, true) => Some(Level::Drop),
        _ => Some(Level::Safe),
    };
    let sizes = Sizes { peb: args.eraseblock, ..Sizes::default() };
    let shape = Shape { sizes, ..Shape::default() };
    fsck::run(&args.image, &shape, allowed, session)
}
