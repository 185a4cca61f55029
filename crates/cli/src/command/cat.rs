//! `eraseblock cat`: the bytes of a file, or of a whole volume.

use crate::args::{PastArgs, TargetArgs, path_bytes};
use crate::failure::{Context, Failure};
use crate::find::find;
use crate::session::Session;
use eraseblock::raw::vfs::{FileKind, FileSystem, Ino};
use eraseblock::target::filesystem::copy;
use eraseblock::target::image::{self, Image};
use eraseblock::target::{self, Place};
use eraseblock::text;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

/// Arguments of `cat`.
#[derive(Debug, clap::Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// The file; the volume's raw content when left out
    path: Option<OsString>,
    /// Write a volume's raw content to a terminal, too
    #[arg(short, long)]
    force: bool,
}

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
        return write_raw(&args.target, session);
    };
    let opened = target::open_file_system(&args.past.of(&args.target), session)?;
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
    copy(fs, &attr, &mut |_, bytes| session.out.write_all(bytes))?;
    Ok(())
}

/// Writes the raw content of the volume that is named, or of the only one, to standard output.
fn write_raw(args: &TargetArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target)?;
    session.keep_still(&place.path)?;
    let Image::Ubi(image) = image::open(&place, &args.shape.shape(), session)? else {
        return Err(Failure::usage(format!("{}: which file?", place.path.display()))
            .hint("there are no volumes in it; name a path"));
    };
    image.report(session)?;
    let volume = match (&place.volume, image.attachment().volumes.as_slice()) {
        (Some(name), _) => image.named_volume(name)?,
        (None, [only]) => image.open(only)?,
        (None, _) => return Err(image.choose("which volume?").into()),
    };
    image::check_static(&volume, session);
    io::copy(&mut volume.mapped_reader(), &mut session.out)?;
    Ok(())
}
