//! `eraseblock card`: simulated SD cards, each in a file.

mod new;
mod serve;
mod stats;

use crate::failure::Failure;
use crate::session::Session;
use clap::Subcommand;

pub(super) use new::presets;

/// Arguments of `card`.
#[derive(Debug, clap::Args)]
pub(crate) struct CardArgs {
    #[command(subcommand)]
    command: CardCommand,
}

/// What can be done with cards.
#[derive(Debug, Subcommand)]
enum CardCommand {
    /// Make an erased card in a sparse file
    New(new::NewArgs),
    /// Show what a card is, what it has been made to do, and its wear
    Stats(stats::StatsArgs),
    /// Serve a card as a disk over NBD, for QEMU and others; ends with Ctrl-C
    Serve(serve::ServeArgs),
}

/// Does what was asked.
pub(crate) fn run(args: &CardArgs, session: &mut Session) -> Result<(), Failure> {
    match &args.command {
        CardCommand::New(args) => new::run(args, session),
        CardCommand::Stats(args) => stats::run(args, session),
        CardCommand::Serve(args) => serve::run(args, session),
    }
}
