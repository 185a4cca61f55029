//! `eraseblock disasm`: an image as text, one line for each structure.

use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::census::text::{self, Contents};
use eraseblock::raw::census::walk::Tables;
use eraseblock::target::Place;
use eraseblock::target::structures::{self, Folder};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Arguments of `disasm`.
#[derive(Debug, clap::Args)]
pub(crate) struct DisasmArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Write the text to FILE, and contents of more than 64 bytes to the folder FILE.d [default:
    /// everything to standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write long contents into the text, too
    #[arg(long)]
    inline: bool,
}

/// What was written, as JSON.
#[derive(Debug, Serialize)]
struct Written {
    bytes: u64,
    contents: usize,
}

/// Returns the folder of the long contents of a text.
pub(crate) fn folder_of(text: &Path) -> PathBuf {
    let mut name = OsString::from(text);
    name.push(".d");
    name.into()
}

/// Writes the text.
pub(crate) fn run(args: &DisasmArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    let cut = structures::cut(&place, &args.target.shape.shape(), session)?;
    let (image, tables) = (cut.image.as_ref(), Tables::new());
    let path = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    let Some(path) = path else {
        session.take_out()?;
        return Ok(text::disassemble(image, &cut.plan, &tables, None, &mut session.out)?);
    };
    let output = session.create(path)?;
    let mut folder = Folder::new(folder_of(path));
    let contents = (!args.inline).then_some(&mut folder as &mut dyn Contents);
    let mut out = BufWriter::new(&output.file);
    text::disassemble(image, &cut.plan, &tables, contents, &mut out)
        .and_then(|()| out.flush())
        .context(path.display())?;
    drop(out);
    output.commit()?;
    if session.options.json {
        return session.json(&Written { bytes: cut.plan.size, contents: folder.len() });
    }
    Ok(())
}
