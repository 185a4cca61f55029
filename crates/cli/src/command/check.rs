//! `eraseblock check`: every structure of a file system verified, nothing changed.

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use crate::target::writable::{self, Mode};
use eraseblock_base::{Findings, Location};
use serde::Serialize;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// What a check came to, as JSON.
#[derive(Debug, Serialize)]
struct Verdict {
    /// Whether all structures agree.
    consistent: bool,
}

/// Checks.
pub(crate) fn run(args: &CheckArgs, session: &mut Session) -> Result<(), Failure> {
    let opened = writable::open(&args.target, Mode::READ_ONLY, session)?;
    let verdict = opened.check();
    opened.close(session)?;
    let consistent = verdict.as_ref().is_ok_and(Findings::is_empty);
    match verdict {
        Ok(findings) => session.report(findings),
        Err(error) => session.trouble(Location::Whole, &error),
    }
    if session.options.json {
        return session.json(&Verdict { consistent });
    }
    if consistent {
        session.remark("consistent");
    }
    Ok(())
}
