//! `eraseblock cat`: the bytes of a file, or of a whole volume.

use crate::args::{TargetArgs, path_bytes};
use crate::failure::{Context, Failure};
use crate::session::Session;
use crate::target;
use crate::target::find::find;
use crate::text;
use eraseblock_vfs::{FileKind, FileSystem, Ino};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

/// Arguments of `cat`.
#[derive(Debug, clap::Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The file; the volume's raw content when left out
    path: Option<OsString>,
    /// Write a volume's raw content to a terminal, too
    #[arg(short, long)]
    force: bool,
}

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Writes the bytes.
pub(crate) fn run(args: &CatArgs, session: &mut Session) -> Result<(), Failure> {
    if session.options.json {
        return Err(Failure::usage("--json: `cat` writes the bytes of a file")
            .hint("`eraseblock stat --json` describes the file"));
    }
    session.take_out()?;
    let Some(path) = &args.path else {
        if io::stdout().is_terminal() && !args.force {
            return Err(Failure::usage("a volume is not text: it could disturb the terminal")
                .hint("redirect the output into a file or a pipe, or use --force"));
        }
        return target::write_raw(&args.target, session);
    };
    let opened = target::open_file_system(&args.target, session)?;
    let path = path_bytes(path);
    let shown = text::name(path);
    let ino = find(opened.fs(), path)?;
    session.ask(&args.target.target, [ino]);
    write_file(opened.fs(), ino, session).context(&shown)?;
    opened.finish(session);
    Ok(())
}

fn write_file(fs: &dyn FileSystem, ino: Ino, session: &mut Session) -> Result<(), Failure> {
    let attr = fs.attr(ino)?;
    if attr.kind == FileKind::Symlink {
        return Err(Failure::new("is a symbolic link").hint("`stat` shows where it points to"));
    }
    if attr.kind != FileKind::Regular {
        return Err(Failure::new("is not a regular file").hint("`ls -l` shows what it is"));
    }
    let mut buffer = vec![0; CHUNK];
    let mut offset = 0;
    while offset < attr.size {
        let len = fs.read(ino, offset, &mut buffer)?;
        if len == 0 {
            break;
        }
        session.out.write_all(&buffer[..len])?;
        offset += len as u64;
    }
    Ok(())
}
