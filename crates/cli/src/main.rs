//! The `eraseblock` command: argument parsing, output and exit codes. Everything it does is done by
//! the library rooms below it.

// Switches of a command line are flags, each of them independent.
#![allow(clippy::struct_excessive_bools)]

mod accounting;
mod args;
mod builder;
mod command;
mod failure;
mod inputs;
mod interrupt;
mod mounts;
mod output;
mod personality;
mod recovery;
mod session;
mod source;
mod style;
mod table;
mod target;
mod text;

use clap::Parser;
use session::Session;
use std::ffi::OsString;
use std::process::ExitCode;

/// Trees of small nodes come and go in all of the file systems.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(personality) = personality::of(&mut arguments) {
        return ExitCode::from(personality::run(personality, &arguments));
    }
    let cli = args::Cli::parse_from(arguments);
    let mut session = Session::new(cli.global);
    let result = command::run(&cli.command, &mut session);
    ExitCode::from(session.finish(result) as u8)
}
