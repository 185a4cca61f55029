//! `eraseblock chip export` and `chip import`: between a chip and an image of it.

use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::base::{Findings, Location, Peb};
use eraseblock::raw::mtd::{Access, Mtd, ReadAt};
use eraseblock::raw::nandsim::Chip;
use eraseblock::text;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

/// Arguments of `chip export`.
#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The chip's file
    file: PathBuf,
    /// The image to write, or `-` for standard output
    out: PathBuf,
    /// Let each page be followed by its out-of-band bytes
    #[arg(long)]
    oob: bool,
    /// Replace a file that exists
    #[arg(short, long)]
    force: bool,
}

/// Arguments of `chip import`.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// The chip's file
    file: PathBuf,
    /// The image, or `-` for standard input; the rest of the chip is erased
    image: PathBuf,
    /// In the image each page is followed by its out-of-band bytes
    #[arg(long)]
    oob: bool,
}

#[derive(Serialize)]
struct Transferred {
    bytes: u64,
}

/// Writes the image.
pub(super) fn export(args: &ExportArgs, session: &mut Session) -> Result<(), Failure> {
    session.keep_still(&args.file)?;
    let chip = super::open(&args.file, Access::Read)?;
    let bar = session.progress(room(&chip, args.oob), "export");
    if args.out.as_os_str() == "-" {
        session.take_out()?;
        let mut out = bar.wrap_write(&mut session.out);
        return chip.export(&mut out, args.oob).context(args.file.display());
    }
    let output = session.create_new(&args.out, args.force)?;
    let writer = BufWriter::with_capacity(1 << 20, &output.file);
    let mut writer = bar.wrap_write(writer);
    chip.export(&mut writer, args.oob).context(args.file.display())?;
    writer.flush().context(args.out.display())?;
    drop(writer);
    bar.finish_and_clear();
    let bytes = output.file.metadata()?.len();
    output.commit()?;
    report(session, bytes, "written")
}

/// Fills the chip.
pub(super) fn import(args: &ImportArgs, session: &mut Session) -> Result<(), Failure> {
    session.reads(&args.image);
    session.inputs().refuse(&args.file)?;
    let chip = super::open(&args.file, Access::Write)?;
    let bar = session.progress(room(&chip, args.oob), "import");
    let mut image: Box<dyn Read> = if args.image.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(&args.image).context(args.image.display())?;
        let (len, room) = (ReadAt::size(&file)?, room(&chip, args.oob));
        if len > room {
            let (path, len, room) = (args.image.display(), text::size(len), text::size(room));
            return Err(Failure::new(format!("{path}: {len}, more than the chip's {room}"))
                .hint("--oob is for images with out-of-band bytes; nothing was changed"));
        }
        Box::new(BufReader::with_capacity(1 << 20, file))
    };
    let mut image = bar.wrap_read(&mut *image);
    let bytes = chip.import(&mut image, args.oob).context(args.image.display())?;
    bar.finish_and_clear();
    if args.oob {
        session.report(bad_blocks(&chip)?);
    }
    report(session, bytes, "read")
}

/// What the spare bytes of an image made bad blocks: a finding, which warns if there is data in them.
fn bad_blocks(chip: &Chip) -> Result<Findings, Failure> {
    const NAMED: usize = 16;
    let geometry = chip.config().geometry();
    let (mut bad, mut with_data, mut page) =
        (Vec::new(), 0_u32, vec![0; chip.config().page() as usize]);
    for peb in (0..geometry.peb_count()).map(Peb::new) {
        if !chip.is_bad(peb)? {
            continue;
        }
        chip.read(u64::from(peb.get()) * u64::from(geometry.peb_size()), &mut page)?;
        with_data += u32::from(page.iter().any(|byte| !matches!(byte, 0 | 0xFF)));
        bad.push(peb.to_string());
    }
    let mut findings = Findings::new();
    if bad.is_empty() {
        return Ok(findings);
    }
    let count = text::count(bad.len() as u64, "eraseblock is", "eraseblocks are");
    let more = if bad.len() > NAMED { ", ..." } else { "" };
    let named = bad[..bad.len().min(NAMED)].join(", ");
    let message = format!("{count} bad now, as the marker in the spare bytes says: {named}{more}");
    if with_data > 0 {
        let why = format!(
            "{message}; {with_data} of them hold data: if the image has something else at that byte, \
             as tags from spare byte 0, the chip cannot hold it"
        );
        findings.warn(Location::Whole, "bad-blocks-made", why);
    } else {
        findings.note(Location::Whole, "bad-blocks-made", message);
    }
    Ok(findings)
}

/// Bytes of an image of the whole chip.
fn room(chip: &Chip, oob: bool) -> u64 {
    let geometry = chip.config().geometry();
    let pages = geometry.size() / u64::from(chip.config().page());
    geometry.size() + if oob { pages * u64::from(geometry.oob_size()) } else { 0 }
}

fn report(session: &mut Session, bytes: u64, done: &str) -> Result<(), Failure> {
    if session.options.json {
        return session.json(&Transferred { bytes });
    }
    session.remark(&format!("{} {done}", text::size(bytes)));
    Ok(())
}
