//! `eraseblock ubi update`: a volume gets new content.

use super::{open, settle};
use crate::args::FlashTargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::target::Place;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// Arguments of `ubi update`.
#[derive(Debug, clap::Args)]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// The new content, or `-` for standard input
    #[arg(required_unless_present = "truncate")]
    content: Option<PathBuf>,
    /// Empty the volume
    #[arg(long, conflicts_with = "content")]
    truncate: bool,
}

/// Updates.
pub(super) fn run(args: &UpdateArgs, session: &mut Session) -> Result<(), Failure> {
    if let Some(content) = &args.content {
        session.reads(content);
        session.inputs().refuse(&Place::parse(&args.flash.target)?.path)?;
    }
    let change = open(&args.flash)?;
    let volume = change.named_volume()?;
    let (len, content) = match &args.content {
        None => (0, None),
        Some(path) => {
            let (len, file) = source(path).context(path.display())?;
            (len, Some(file))
        }
    };
    let bar = session.progress(len, "updating");
    let mut reader: Box<dyn Read> = match content {
        Some(file) => Box::new(bar.wrap_read(BufReader::with_capacity(1 << 20, file))),
        None => Box::new(io::empty()),
    };
    let updated = change.update(&volume, len, &mut *reader);
    bar.finish_and_clear();
    updated?;
    settle(&change, session)
}

/// The content with its length, which an update must know beforehand: what comes through a pipe is
/// kept in a temporary file.
fn source(path: &PathBuf) -> Result<(u64, File), Failure> {
    if path.as_os_str() != "-" {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_file() {
            return Ok((meta.len(), file));
        }
        return spool(file);
    }
    spool(io::stdin().lock())
}

fn spool(mut from: impl Read) -> Result<(u64, File), Failure> {
    let mut file = tempfile::tempfile()?;
    let len = io::copy(&mut from, &mut file)?;
    file.seek(SeekFrom::Start(0))?;
    Ok((len, file))
}
