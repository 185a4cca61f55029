//! The `eraseblock` command: arguments, sessions, printing and exit codes. What it does is done by the
//! library `eraseblock`.

// Switches of a command line are flags, each of them independent.
#![allow(clippy::struct_excessive_bools)]

mod alarm;
mod args;
mod cli;
mod command;
mod entry;
mod failure;
mod filter;
mod find;
mod get;
mod held;
mod help;
mod inputs;
mod interrupt;
mod map;
mod output;
mod personality;
mod preload;
mod session;
mod spelling;
mod style;
mod table;

use clap::FromArgMatches;
use failure::{Exit, Failure};
use session::{GlobalOptions, Session};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Some(failure) = preload::refusal(preload::IS_STATIC, |name| std::env::var_os(name)) {
        let session = Session::new(GlobalOptions::default());
        return ExitCode::from(session.finish(Err(failure)) as u8);
    }
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(personality) = personality::of(&mut arguments) {
        return ExitCode::from(personality::run(personality, &arguments));
    }
    let matches = cli::command().try_get_matches_from(&arguments);
    let cli = match matches.and_then(|mut matches| cli::Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage(&error, &arguments) as u8),
    };
    let mut session = Session::new(cli.global);
    let result = cli::run(&cli.command, &mut session);
    ExitCode::from(session.finish(result) as u8)
}

/// Prints what clap has to say: help, the version, or why it does not understand the command line.
fn usage(error: &clap::Error, arguments: &[OsString]) -> Exit {
    // A reader who leaves is no error.
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    if arguments.iter().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let message = text.trim_start_matches("error: ").lines().next().unwrap_or_default();
        let options = GlobalOptions { json: true, ..GlobalOptions::default() };
        Session::new(options).refuse(&Failure::usage(message));
    }
    Exit::Usage
}
