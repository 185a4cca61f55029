//! `eraseblock completions`: completion scripts for shells.

use crate::failure::Failure;
use crate::session::Session;
use clap::Command;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script for the command line `command`.
pub(crate) fn run(
    args: &CompletionsArgs,
    mut command: Command,
    session: &mut Session,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "eraseblock", &mut script);
    session.out.write_all(&script)?;
    Ok(())
}
