//! `eraseblock man`: the manual pages, one for the command and one for each sub-command.

use crate::args::Cli;
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::CommandFactory;
use std::fs;
use std::path::PathBuf;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder; made if it does not exist
    folder: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(args: &ManArgs, session: &mut Session) -> Result<(), Failure> {
    let folder = &args.folder;
    fs::create_dir_all(folder).context(folder.display())?;
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).context(folder.display())?;
    session.remark(&format!("manual pages written to {}", folder.display()));
    Ok(())
}
