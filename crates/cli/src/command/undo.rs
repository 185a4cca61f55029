//! `eraseblock undo`: takes a change in place back, by the file that was written before it.

use super::debug::store::{InFile, hash, open_undo};
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::census::undo::{self, UndoError};
use eraseblock::raw::mtd::Access;
use eraseblock::target::lock;
use serde::Serialize;
use std::fs::File;
use std::path::PathBuf;

/// Arguments of `undo`.
#[derive(Debug, clap::Args)]
pub(crate) struct UndoArgs {
    /// The undo file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The image that was changed
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Compare, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// What was taken back, as JSON.
#[derive(Debug, Serialize)]
struct Undone {
    places: u32,
    bytes: u64,
    old_already: u32,
    written: bool,
}

/// Takes a change back.
pub(crate) fn run(args: &UndoArgs, session: &mut Session) -> Result<(), Failure> {
    let (path, target) = (&args.file, &args.target);
    let mut file = open_undo(path).context(path.display())?;
    let head = undo::read_head(&mut file).map_err(|error| failure(error, args))?;
    if head.kind != undo::Kind::File {
        let message = format!("{}: it belongs to a device, not to a file", path.display());
        return Err(Failure::new(message));
    }
    let _lock = lock::lock(target, Access::Write)?;
    let opened = File::options().read(true).write(!args.dry_run).open(target);
    let opened = opened.context(target.display())?;
    let size = opened.metadata().context(target.display())?.len();
    if size != head.size {
        let message = format!("{}: {size} bytes, expected {}", target.display(), head.size);
        return Err(Failure::new(message).hint("the undo file belongs to another image"));
    }
    let mut in_file = InFile(opened);
    let undone = undo::revert(&mut || open_undo(path), &mut in_file, args.dry_run)
        .map_err(|error| failure(error, args))?;
    if !args.dry_run {
        in_file.0.sync_all().context(target.display())?;
        if hash(&in_file.0).context(target.display())? != head.before {
            let message = format!(
                "{}: the change is taken back, but other bytes have changed since",
                target.display()
            );
            return Err(Failure::finding(message));
        }
    }
    let undo::Reverted { places, bytes, old_already } = undone;
    if session.options.json {
        return session.json(&Undone { places, bytes, old_already, written: !args.dry_run });
    }
    let verb = if args.dry_run { "would be restored" } else { "restored" };
    session.remark(&format!("{}: {bytes} bytes in {places} places {verb}", target.display()));
    Ok(())
}

fn failure(error: UndoError, args: &UndoArgs) -> Failure {
    match error {
        UndoError::Damaged(message) => Failure::new(message).context(args.file.display()),
        UndoError::Differs(message) => Failure::new(message)
            .context(args.target.display())
            .hint("it is another image, or was changed since"),
        UndoError::Host(error) => Failure::from(error).context(args.file.display()),
    }
}
