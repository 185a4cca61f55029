//! Repository tasks: `cargo xtask oracle`, `cargo xtask bench` and `cargo xtask tidy`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // printing is what these tasks are for

mod bench;
mod command;
mod guest;
mod kernel;
mod mutate;
mod oracle;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask oracle [--only NAME] [--list] [--keep] [--fresh] [--bin FILE] [--builder ours|debian] | bench [--tree DIR] [--rounds N] | mutate [--count N] [--seed S] | tidy";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((word, rest)) if word == "oracle" => oracle::run(rest),
        Some((word, rest)) if word == "bench" => bench::run(rest),
        Some((word, rest)) if word == "mutate" => mutate::run(rest),
        Some((word, [])) if word == "tidy" => tidy::run(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
