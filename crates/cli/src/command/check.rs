//! `eraseblock check`: every structure of a file system verified, nothing changed.

use crate::args::TargetArgs;
use crate::failure::{Exit, Failure};
use crate::recovery;
use crate::session::Session;
use crate::target;
use crate::target::writable::{self, Mode, Writable};
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
    /// What leads on from the findings, in words.
    next_steps: Vec<String>,
}

/// Checks.
pub(crate) fn run(args: &CheckArgs, session: &mut Session) -> Result<(), Failure> {
    let bar = session.busy("check");
    let opened = open(args, session)?;
    let target = opened.target().to_owned();
    let (verdict, forbids) = (opened.check(), opened.fs().why_read_only());
    opened.close(session)?;
    bar.finish_and_clear();
    let consistent = verdict.as_ref().is_ok_and(Findings::is_empty);
    match verdict {
        Ok(findings) => session.report(findings),
        Err(error) => session.trouble(Location::Whole, &error),
    }
    let mut next_steps = recovery::steps(session.findings(), &target);
    next_steps.extend(forbids.map(|reason| format!("it can only be read: {reason}")));
    if session.options.json {
        return session.json(&Verdict { consistent, next_steps });
    }
    session.advise(next_steps);
    if consistent {
        session.conclude("consistent");
    }
    Ok(())
}

/// Opens what is to be checked. What a mount refuses may still be readable: then that is the hint.
fn open(args: &CheckArgs, session: &mut Session) -> Result<Writable, Failure> {
    writable::open(&args.target, Mode::READ_ONLY, session).map_err(|failure| {
        // What it finds has been told already.
        let mut aside = Session::new(session.options.clone());
        let is_usage = failure.exit() == Exit::Usage;
        if is_usage || target::open_file_system(&args.target, &mut aside).is_err() {
            return failure;
        }
        recovery::of_refusal(failure, &args.target.target)
    })
}
