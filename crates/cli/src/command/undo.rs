//! `eraseblock undo`: takes back what `repair --in-place` changed.

use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::repair::undo::Run;
use eraseblock::target::repair::take_back;
use eraseblock::text;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `undo`.
#[derive(Debug, clap::Args)]
pub(crate) struct UndoArgs {
    /// Undo file that `repair` wrote
    #[arg(value_name = "UNDO")]
    undo: PathBuf,
    /// The file that was repaired
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Only say whether it could be done
    #[arg(long)]
    dry_run: bool,
}

/// What was restored, as JSON.
#[derive(Debug, Serialize)]
struct Restored {
    places: u64,
    bytes: u64,
    written: bool,
}

/// Restores.
pub(crate) fn run(args: &UndoArgs, session: &mut Session) -> Result<(), Failure> {
    let run = if args.dry_run { Run::Dry } else { Run::Real };
    session.reads(&args.undo);
    let report = take_back(&args.undo, &args.target, run)?;
    if session.options.json {
        let (places, bytes) = (report.places, report.bytes);
        return session.json(&Restored { places, bytes, written: !args.dry_run });
    }
    let places = text::count(report.places, "place", "places");
    let verb = if args.dry_run { "would be restored" } else { "restored" };
    let target = args.target.display();
    session.lines([format!("{target}: {places} {verb}, {} bytes", report.bytes)])
}
