//! `eraseblock put` and `eraseblock get`: files and whole folders into an image and out of it.

use super::edit::editor::{Editor, copied_line};
use crate::args::{TargetArgs, path_bytes, size64};
use crate::failure::Failure;
use crate::get::{GetReport, Getter};
use crate::session::Session;
use eraseblock::raw::tree::put::PutReport;
use eraseblock::raw::vfs::FileKind;
use eraseblock::target;
use eraseblock::target::writable::{self, Mode};
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `put`.
#[derive(Debug, clap::Args)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// File or folder on this machine
    source: PathBuf,
    /// Where it goes: a folder's content into this directory, which is made if it is missing
    #[arg(default_value = "/")]
    dest: OsString,
    /// Size of the target flash, if larger than the image
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// Leave a fastmap on the flash, so that the next attach need not scan it
    #[arg(long)]
    fastmap: bool,
}

/// Arguments of `get`.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// File or directory in the image
    source: OsString,
    /// Where it goes on this machine: a file, into a folder that exists, or `-` for standard output
    dest: PathBuf,
    /// Replace a file that exists; extract into a folder that holds something
    #[arg(short, long)]
    force: bool,
}

/// What was copied, as JSON.
#[derive(Debug, Serialize)]
struct Copied {
    files: u64,
    directories: u64,
    bytes: u64,
}

/// Copies into the image.
pub(crate) fn put(args: &PutArgs, session: &mut Session) -> Result<(), Failure> {
    let mode = Mode { size: args.size, fastmap: args.fastmap, ..Mode::default() };
    let opened = writable::open(&args.target.wanted(), mode, session)?;
    let bar = session.counter("put");
    let mut editor = Editor::new(opened.fs()).reading(session.inputs()).showing(bar.clone());
    let done = editor.put(&args.source, path_bytes(&args.dest));
    let report = done.and_then(|report| opened.fs().sync().map_err(Failure::from).map(|()| report));
    let report = report.map_err(|failure| failure.map(|error| opened.explained(error)));
    let (lines, findings) = (editor.take_output(), editor.take_findings());
    let below = Arc::clone(opened.below());
    let closed = opened.close(session);
    bar.finish_and_clear();
    session.report(findings);
    let PutReport { files, directories, bytes, .. } = report?;
    closed?;
    below.keep();
    session.remark(String::from_utf8_lossy(&lines).trim_end());
    if session.options.json { session.json(&Copied { files, directories, bytes }) } else { Ok(()) }
}

/// Copies out of the image, as `cat` reads it.
pub(crate) fn get(args: &GetArgs, session: &mut Session) -> Result<(), Failure> {
    let opened = target::open_file_system(&args.target.wanted(), session)?;
    let (fs, source) = (opened.fs(), path_bytes(&args.source));
    if let Ok(ino) = fs.resolve(source)
        && fs.attr(ino).is_ok_and(|attr| attr.kind == FileKind::Regular)
    {
        session.ask(&args.target.target, [ino]);
    }
    if args.dest.as_os_str() == "-" {
        session.take_out()?;
    }
    let bar = session.counter("get");
    let getter = Getter { fs, inputs: session.inputs(), bar: &bar, force: args.force };
    let done = getter.get(source, &args.dest);
    bar.finish_and_clear();
    opened.finish(session);
    let (GetReport { files, directories, bytes }, findings) = done?;
    session.report(findings);
    session.remark(&copied_line(files, directories, bytes));
    if session.options.json { session.json(&Copied { files, directories, bytes }) } else { Ok(()) }
}
