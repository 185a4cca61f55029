//! The `eraseblock` command: argument parsing, output and exit codes. Everything it does is done by
//! the library rooms below it.

mod args;
mod command;
mod failure;
mod session;
mod style;
mod table;
mod target;
mod text;

use clap::Parser;
use session::Session;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let mut session = Session::new(cli.global);
    let result = command::run(&cli.command, &mut session);
    ExitCode::from(session.finish(result) as u8)
}
