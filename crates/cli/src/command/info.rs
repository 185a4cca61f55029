//! `eraseblock info`: what an image is, what is in it and how well it is.

mod print;
mod several;

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::info::Info;
use eraseblock::target::span::{self, Meant};
use eraseblock::target::{Place, image};
use serde::Serialize;

/// Arguments of `info`.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Prints what is known.
pub(crate) fn run(args: &InfoArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    session.keep_still(&place.path)?;
    let span = match span::meant(&place, &args.target.shape.shape())? {
        Meant::Device => None,
        Meant::Span(span) => Some(span),
        Meant::Several(survey) => return several::list(&place, &survey, session),
    };
    let image = image::open_span(&place, span, &args.target.shape.shape(), session)?;
    let report = Info::of(image, &place, session)?;
    let report = Located { offset: span.map_or(0, |span| span.offset), report };
    if session.options.json {
        return session.json(&report);
    }
    let lines = print::lines(&report.report, session.style);
    session.lines(lines)?;
    if report.offset > 0 {
        session.lines([format!("\n  begins at byte {} of the file", report.offset)])?;
    }
    Ok(())
}

/// An image in a file that also holds other data.
#[derive(Debug, Serialize)]
struct Located {
    /// Where the part of the file begins that the report is about.
    offset: u64,
    #[serde(flatten)]
    report: Info,
}
