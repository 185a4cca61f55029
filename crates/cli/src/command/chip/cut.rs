//! `eraseblock chip cut`: arms a power cut at a later flash operation.

use super::stats::Report;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::nandsim::{ArmedCut, Variant};
use std::path::PathBuf;

/// Arguments of `chip cut`.
#[derive(Debug, clap::Args)]
pub(super) struct CutArgs {
    /// The chip's file
    file: PathBuf,
    /// Programs, erases and bad-block marks that still succeed
    #[arg(long, value_name = "NUMBER", required_unless_present = "disarm")]
    after: Option<u64>,
    /// What the cut leaves of a program: P0 to P7 as docs/format/mtd-nand.md has them
    #[arg(long, value_name = "VARIANT", default_value = "P3")]
    program: Variant,
    /// What the cut leaves of an erase: E0 to E5
    #[arg(long, value_name = "VARIANT", default_value = "E2")]
    erase: Variant,
    /// Seeds what is random in it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Take back a cut that has not come
    #[arg(long, conflicts_with = "after")]
    disarm: bool,
}

/// Arms it.
pub(super) fn run(args: &CutArgs, session: &mut Session) -> Result<(), Failure> {
    check("--program", args.program, 'P')?;
    check("--erase", args.erase, 'E')?;
    let chip = super::open(&args.file, Access::Write)?;
    let cut = args.after.map(|after| ArmedCut {
        event: chip.next_event().saturating_add(after),
        program: args.program,
        erase: args.erase,
        seed: args.seed,
    });
    chip.arm_cut(cut).context(args.file.display())?;
    Report::of(&args.file, &chip).print_change(session)
}

fn check(option: &str, variant: Variant, letter: char) -> Result<(), Failure> {
    if variant.to_string().starts_with(letter) {
        return Ok(());
    }
    Err(Failure::usage(format!("{option} {variant}: expected a variant that begins with {letter}")))
}
