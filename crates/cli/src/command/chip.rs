//! `eraseblock chip`: simulated chips, each in a file, and the database of real parts.

mod age;
mod cut;
mod new;
mod parts;
mod stats;
mod transfer;

use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Subcommand;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::nandsim::Chip;
use eraseblock::target::driver;
use std::path::Path;

/// Arguments of `chip`.
#[derive(Debug, clap::Args)]
pub(crate) struct ChipArgs {
    #[command(subcommand)]
    command: ChipCommand,
}

/// What can be done with chips.
#[derive(Debug, Subcommand)]
enum ChipCommand {
    /// List the flash chips that --flash and --part know
    Parts(parts::PartsArgs),
    /// Make an erased chip in a sparse file
    New(new::NewArgs),
    /// Write what is on a chip into an image, as a programmer would read it
    Export(transfer::ExportArgs),
    /// Fill a chip from an image, as a programmer would write it
    Import(transfer::ImportArgs),
    /// Show what a chip is, what it has been made to do, and its wear
    Stats(stats::StatsArgs),
    /// Make the power go off at a flash operation to come
    Cut(cut::CutArgs),
    /// Make bits leak with time, and let time pass
    Age(age::AgeArgs),
}

/// Does what was asked.
pub(crate) fn run(args: &ChipArgs, session: &mut Session) -> Result<(), Failure> {
    match &args.command {
        ChipCommand::Parts(args) => parts::run(args, session),
        ChipCommand::New(args) => new::run(args, session),
        ChipCommand::Export(args) => transfer::export(args, session),
        ChipCommand::Import(args) => transfer::import(args, session),
        ChipCommand::Stats(args) => stats::run(args, session),
        ChipCommand::Cut(args) => cut::run(args, session),
        ChipCommand::Age(args) => age::run(args, session),
    }
}

/// The chip in a file.
fn open(path: &Path, access: Access) -> Result<Chip, Failure> {
    let shown = path.display();
    if !driver::is_chip(path).context(&shown)? {
        return Err(Failure::new(format!("{shown}: not a simulated chip")).hint(
            "`eraseblock chip new` makes one, `eraseblock chip import` fills it from an image",
        ));
    }
    Ok(driver::open_chip(path, access)?)
}
