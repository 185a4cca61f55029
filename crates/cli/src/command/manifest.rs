//! `eraseblock manifest`: one canonical line for each file, to be compared with what Linux sees.

use crate::args::{PastArgs, TargetArgs};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::base::Location;
use eraseblock::raw::vfs::FsError;
use eraseblock::raw::vfs_testkit::manifest::manifest_of;
use eraseblock::target;
use eraseblock::text;
use std::io::Write;

/// Arguments of `manifest`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManifestArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
}

/// Prints the lines.
pub(crate) fn run(args: &ManifestArgs, session: &mut Session) -> Result<(), Failure> {
    let opened = target::open_file_system(&args.past.of(&args.target), session)?;
    let mut problem = |path: &[u8], error: &FsError| {
        let message = format!("{}: {error}", text::name(path));
        session.trouble_text(Location::Whole, error.kind(), message);
    };
    let lines = manifest_of(opened.fs(), &mut problem);
    for line in lines {
        writeln!(session.out, "{line}")?;
    }
    opened.finish(session);
    Ok(())
}
