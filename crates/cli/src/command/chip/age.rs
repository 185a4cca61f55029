//! `eraseblock chip age`: bits leak while a chip is used or lies about.

use super::stats::Report;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::nandsim::Retention;
use std::path::PathBuf;

/// Arguments of `chip age`.
#[derive(Debug, clap::Args)]
pub(super) struct AgeArgs {
    /// The chip's file
    file: PathBuf,
    /// From now on, how many of a billion cleared bits leak in the time of one flash operation;
    /// ten times as many on blocks at the end of their endurance
    #[arg(long, value_name = "NUMBER")]
    leak: Option<u32>,
    /// Chooses the bits that leak
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "leak")]
    seed: u64,
    /// Let the time of this many flash operations pass
    #[arg(long, value_name = "OPERATIONS", required_unless_present_any = ["leak", "off"])]
    pass: Option<u64>,
    /// From now on cells hold for ever; what has leaked is back
    #[arg(long, conflicts_with = "leak")]
    off: bool,
}

/// Lets it age.
pub(super) fn run(args: &AgeArgs, session: &mut Session) -> Result<(), Failure> {
    let chip = super::open(&args.file, Access::Write)?;
    if args.leak.is_some() || args.off {
        let leaks = |per_billion| Retention { per_billion, seed: args.seed };
        chip.set_retention(args.leak.map(leaks)).context(args.file.display())?;
    }
    if let Some(operations) = args.pass {
        chip.pass_time(operations).context(args.file.display())?;
    }
    Report::of(&args.file, &chip).print_change(session)
}
