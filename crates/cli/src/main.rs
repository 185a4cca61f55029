//! The `eraseblock` command.

use std::process::ExitCode;

/// Trees of small nodes come and go in all of the file systems.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    eraseblock_cli::run(std::env::args_os())
}
