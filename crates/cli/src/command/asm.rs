//! `eraseblock asm`: the image that a text of `disasm` describes.

use super::disasm::folder_of;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::census::text;
use eraseblock::target::structures::Folder;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

/// Arguments of `asm`.
#[derive(Debug, clap::Args)]
pub(crate) struct AsmArgs {
    /// Text that `disasm` wrote; contents that it names are in the folder TEXT.d
    #[arg(value_name = "TEXT")]
    text: PathBuf,
    /// The image, or `-` for standard output
    #[arg(short, long, value_name = "IMAGE")]
    output: PathBuf,
}

/// What was written, as JSON.
#[derive(Debug, Serialize)]
struct Assembled {
    bytes: u64,
}

/// Writes the image.
pub(crate) fn run(args: &AsmArgs, session: &mut Session) -> Result<(), Failure> {
    let path = &args.text;
    let file = File::open(path).context(path.display())?;
    session.reads(path);
    let output = session.create(&args.output)?;
    let mut folder = Folder::new(folder_of(path));
    let mut out = BufWriter::new(&output.file);
    let bytes = text::assemble(&mut BufReader::new(file), Some(&mut folder), &mut out)
        .context(path.display())?;
    out.flush().context(args.output.display())?;
    drop(out);
    output.commit()?;
    if session.options.json { session.json(&Assembled { bytes }) } else { Ok(()) }
}
