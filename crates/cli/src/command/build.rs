//! `eraseblock build`: a whole UBI image from a layout file (docs/layout-file.md).

use crate::failure::Failure;
use crate::session::Session;
use eraseblock::Build;
use std::path::PathBuf;

/// Arguments of `build`.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// The layout file
    layout: PathBuf,
    /// The image; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Only check whether everything fits
    #[arg(long)]
    preflight: bool,
}

/// Builds the image.
pub(crate) fn run(args: &BuildArgs, session: &mut Session) -> Result<(), Failure> {
    let build = Build::open(&args.layout)?;
    session.reads(&args.layout);
    let mut prepared = build.prepare(&args.output, session)?;
    let mut plan = prepared.check()?;
    if args.preflight && plan.is_open() {
        prepared.settle(session)?;
        plan = prepared.check()?;
    }
    session.remark(&plan.line());
    if args.preflight {
        return if session.options.json { session.json(&plan) } else { Ok(()) };
    }
    let output = session.create(&args.output)?;
    let report = prepared.write(&output.file, session)?;
    output.commit()?;
    session.remark(&report.line(&args.output));
    if session.options.json { session.json(&report) } else { Ok(()) }
}
