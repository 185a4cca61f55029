//! `oracle-manifest`: the helper program next to real Linux, in the guest and on the host.
//!
//! - `oracle-manifest list DIR` prints the manifest of a tree (`eraseblock_vfs_testkit::manifest`).
//! - `oracle-manifest exotic DIR SEED [big|jffs2]` fills an empty directory with unusual entries,
//!   on request limited to those that JFFS2 supports.
//! - `oracle-manifest dump DEVICE OUT` copies a device that is not being written to.
//! - `oracle-manifest mutate DIR SEED OPERATIONS PAUSES LIVE_KIB` changes a tree at random, the
//!   same way for the same seed. After each of PAUSES equal parts it prints a line and waits for a
//!   line on standard input, holding its open and unlinked files.
//! - `oracle-manifest play DIR SCRIPT CONTROL` performs the steps of a script and writes its marks to a
//!   disk.
//! - `oracle-manifest blocks DIR` lists a tree with the values of the blocks of its files.

mod content;
mod dump;
mod exotic;
mod list;
mod mutate;
mod play;
mod rng;

use exotic::Limits;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "oracle-manifest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> io::Result<()> {
    let usage =
        || io::Error::other("usage: list | exotic | mutate | dump | play | blocks, see the source");
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    match args {
        ["list", dir] => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            for line in list::list(Path::new(dir))? {
                writeln!(out, "{line}")?;
            }
            out.flush()
        }
        ["exotic", dir, seed, rest @ ..] => {
            let (big, limits) = match rest {
                [] => (false, Limits::USUAL),
                ["big"] => (true, Limits::USUAL),
                ["jffs2"] => (false, Limits::JFFS2),
                _ => return Err(usage()),
            };
            exotic::fill(Path::new(dir), number(seed)?, big, &limits)
        }
        ["play", dir, script, control] => {
            play::play(Path::new(dir), Path::new(script), Path::new(control))
        }
        ["blocks", dir] => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            play::list(Path::new(dir), &mut out)?;
            out.flush()
        }
        ["dump", device, out] => dump::dump(Path::new(device), Path::new(out)),
        ["mutate", dir, seed, operations, pauses, live_kib] => {
            let plan = mutate::Plan {
                seed: number(seed)?,
                operations: number(operations)?,
                pauses: number(pauses)?.max(1),
                live_max: number(live_kib)? << 10,
            };
            mutate::run(Path::new(dir), &plan)
        }
        _ => Err(usage()),
    }
}
