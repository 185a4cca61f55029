//! `eraseblock check`: everything in a target verified, nothing changed: the UBI device, static
//! volumes, and every structure and every byte of the file systems.

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use crate::spelling;
use eraseblock::documents::Verdict;
use eraseblock::error::Words;
use eraseblock::target::{Place, check_place};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Checks.
pub(crate) fn run(args: &CheckArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    let report = check_place(&place, &args.target.shape.shape(), session)?;
    let spelled = |step: &Words| step.spelled(spelling::of).to_string();
    let next_steps: Vec<String> = report.next_steps().iter().map(spelled).collect();
    let consistent = report.is_consistent();
    if session.options.json {
        return session.json(&Verdict { consistent, next_steps });
    }
    session.advise(next_steps);
    if consistent {
        session.conclude("consistent");
    }
    Ok(())
}
