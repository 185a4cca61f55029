//! `jefferson`: the files of every JFFS2 in a file.

use super::reader::{self, Range};
use crate::failure::Failure;
use crate::session::Session;
use clap::{ArgAction, Parser};
use eraseblock::raw::tree::extract::{ExtractOptions, Owners};
use eraseblock::target::image::Image;
use std::path::PathBuf;

/// Extracts the files of a JFFS2.
#[derive(Debug, Parser)]
#[command(name = "jefferson", version)]
pub(super) struct Args {
    /// The image
    file: PathBuf,
    /// The folder that the files go into; made if it does not exist
    #[arg(short, long, value_name = "DIRECTORY", default_value = "jffs2-root")]
    dest: PathBuf,
    /// Extract into a folder that exists, and replace what is in the way
    #[arg(short, long)]
    force: bool,
    /// Name what is extracted; may be repeated
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

/// Runs.
pub(super) fn run(args: &Args, session: &mut Session) -> Result<(), Failure> {
    let dest = args.dest.display();
    if args.dest.exists() && !args.force {
        return Err(Failure::new(format!("{dest}: exists already"))
            .hint("--force extracts into it and replaces what is in the way"));
    }
    let found = reader::images(&args.file, &Range::default(), session)?;
    let systems: Vec<_> = found
        .into_iter()
        .filter_map(|found| match found.image {
            Image::Jffs2(image) => Some((found.offset, image)),
            _ => None,
        })
        .collect();
    if systems.is_empty() {
        return Err(Failure::new(format!("{}: there is no JFFS2 in it", args.file.display())));
    }
    let options = ExtractOptions::default()
        .force(true)
        .kept(session.inputs().files())
        .owners(Owners::Skip)
        .xattrs(false);
    let several = systems.len() > 1;
    for (offset, system) in systems {
        let dest = reader::folder(&args.dest, offset, several);
        if args.verbose > 0 {
            session.lines([format!("JFFS2 at byte {offset} -> {}", dest.display())])?;
        }
        reader::extract(system.opened, &dest, &options, session)?;
    }
    Ok(())
}
