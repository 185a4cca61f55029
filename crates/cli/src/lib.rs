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
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Runs the command with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(code(arguments))
}

/// The same within a program written in another language, which the file `program` starts. Returns the
/// exit code.
pub fn run_within(program: &Path, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // A second run in the same process began in the same way.
    let _ = START.set((program.to_owned(), arguments.clone()));
    code(arguments)
}

/// How this program was started, if the process says something else: the file, and the arguments with the
/// program's name first.
static START: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Returns how this program was started: the file, and the arguments with the program's name first.
pub(crate) fn start() -> std::io::Result<(PathBuf, Vec<OsString>)> {
    match START.get() {
        Some(start) => Ok(start.clone()),
        None => Ok((std::env::current_exe()?, std::env::args_os().collect())),
    }
}

fn code(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    if let Some(failure) = preload::refusal(preload::IS_STATIC, |name| std::env::var_os(name)) {
        let session = Session::new(GlobalOptions::default());
        return session.finish(Err(failure)) as u8;
    }
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(personality) = personality::of(&mut arguments) {
        return personality::run(personality, &arguments);
    }
    let matches = cli::command().try_get_matches_from(&arguments);
    let cli = match matches.and_then(|mut matches| cli::Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &arguments) as u8,
    };
    let mut session = Session::new(cli.global);
    let result = cli::run(&cli.command, &mut session);
    session.finish(result) as u8
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
