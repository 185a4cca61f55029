//! `eraseblock mkfs`: a file-system image from a folder or an archive.

use crate::args::axfs;
use crate::args::flash::FlashArgs;
use crate::args::jffs2;
use crate::args::size32;
use crate::args::ubifs;
use crate::args::yaffs2;
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Subcommand;
use eraseblock::accounting;
use eraseblock::builder::{self, Summary, VolumeShape};
use eraseblock::raw::base::MediumKind;
use eraseblock::raw::ubi_format::HeaderLayout;
use eraseblock::raw::ubifs::mkfs::FileSink;
use eraseblock::source;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Environment variables of commands that make images.
pub(crate) const HEEDED: &str = "With SOURCE_DATE_EPOCH in the environment, no time in the image is \
     later than that many seconds since 1970. Under fakeroot and pseudo, the image has the owners, \
     devices and attributes that they show.";

/// Arguments of `mkfs`.
#[derive(Debug, clap::Args)]
pub(crate) struct MkfsArgs {
    #[command(subcommand)]
    kind: Kind,
}

/// The file systems.
#[derive(Debug, Subcommand)]
enum Kind {
    /// A UBIFS image, to be put into a UBI volume
    #[command(after_help = HEEDED)]
    Ubifs(Box<UbifsArgs>),
    /// A JFFS2 image, to be put onto a flash
    #[command(after_help = HEEDED)]
    Jffs2(Box<Jffs2Args>),
    /// A YAFFS2 image, to be put onto a NAND: pages with their spare bytes
    #[command(after_help = HEEDED)]
    Yaffs2(Box<Yaffs2Args>),
    /// An AXFS image, to be put onto NOR flash that programs are executed from
    #[command(after_help = HEEDED)]
    Axfs(Box<AxfsArgs>),
}

/// Where an image comes from and goes to.
#[derive(Debug, clap::Args)]
struct PathArgs {
    /// Folder, tar or cpio archive; `-` for an archive on standard input
    source: PathBuf,
    /// The image; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Only say how large the image will be
    #[arg(long)]
    preflight: bool,
}

/// Arguments of file systems that depend on the sizes of a flash.
#[derive(Debug, clap::Args)]
struct ImageArgs {
    #[command(flatten)]
    paths: PathArgs,
    #[command(flatten)]
    flash: FlashArgs,
}

/// Arguments of `mkfs axfs`.
#[derive(Debug, clap::Args)]
struct AxfsArgs {
    #[command(flatten)]
    paths: PathArgs,
    #[command(flatten)]
    options: axfs::AxfsOptionArgs,
}

/// Arguments of `mkfs yaffs2`.
#[derive(Debug, clap::Args)]
struct Yaffs2Args {
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    options: yaffs2::Yaffs2OptionArgs,
}

/// Arguments of `mkfs jffs2`.
#[derive(Debug, clap::Args)]
struct Jffs2Args {
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    options: jffs2::Jffs2OptionArgs,
}

/// Arguments of `mkfs ubifs`.
#[derive(Debug, clap::Args)]
struct UbifsArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Size of a logical eraseblock, instead of the flash's sizes
    #[arg(long, value_name = "SIZE", value_parser = size32, help_heading = "Flash")]
    leb: Option<u32>,
    /// Smallest unit that can be written, together with --leb
    #[arg(long, value_name = "SIZE", value_parser = size32, help_heading = "Flash")]
    min_io: Option<u32>,
    #[command(flatten)]
    options: ubifs::UbifsOptionArgs,
}

/// Makes the image.
pub(crate) fn run(args: &MkfsArgs, session: &mut Session) -> Result<(), Failure> {
    match &args.kind {
        Kind::Ubifs(args) => make_ubifs(args, session),
        Kind::Jffs2(args) => make_jffs2(args, session),
        Kind::Yaffs2(args) => make_yaffs2(args, session),
        Kind::Axfs(args) => make_axfs(args, session),
    }
}

/// Length of a cleanmarker on NOR flash.
const NOR_MARKER: u32 = 12;

fn make_jffs2(args: &Jffs2Args, session: &mut Session) -> Result<(), Failure> {
    let choices = args.options.choices();
    let mut flash = args.image.flash.clone();
    if flash.flash.is_none() && flash.page.is_none() {
        // Bytes are programmed one by one: NOR.
        flash.page = Some(1);
    }
    let flash = flash.choice().resolve(None)?;
    let geometry = &flash.geometry;
    let block_size = geometry.peb_size();
    let marker = if geometry.kind() == MediumKind::Nor { NOR_MARKER } else { 0 };
    let limit = flash.chip_blocks.map(|blocks| u64::from(blocks) * u64::from(block_size));
    let options = builder::jffs2::options(block_size, marker, limit, &choices)?;
    let adjustments = choices.adjustments();
    args.options.append_to.iter().for_each(|path| session.reads(path));
    let tree =
        source::load(&args.image.paths.source, &adjustments, &args.image.paths.output, session)?;
    let build = |out: &mut (dyn Write + Send), session: &Session| {
        let report = builder::jffs2::build(&tree, &options, out, session)?;
        let summary = builder::jffs2::Summary::of(&report);
        Ok((summary.line(), summary))
    };
    put_out(&args.image.paths.output, args.image.paths.preflight, &build, session)
}

/// Pages of a YAFFS2 when neither a part nor a size is named: those of its usual image tool.
const YAFFS2_PAGE: u32 = 2048;
/// Pages in a block of it.
const YAFFS2_PAGES: u32 = 64;

fn make_yaffs2(args: &Yaffs2Args, session: &mut Session) -> Result<(), Failure> {
    let choices = args.options.choices();
    let mut flash = args.image.flash.clone();
    if flash.flash.is_none() {
        let page = *flash.page.get_or_insert(YAFFS2_PAGE);
        flash.peb.get_or_insert(page.saturating_mul(YAFFS2_PAGES));
    }
    let flash = flash.choice().resolve(None)?;
    let options = builder::yaffs2::options(&flash.geometry, flash.chip_blocks, &choices)?;
    let tree = source::load(
        &args.image.paths.source,
        &choices.adjustments(),
        &args.image.paths.output,
        session,
    )?;
    let build = |out: &mut (dyn Write + Send), session: &Session| {
        let report = builder::yaffs2::build(&tree, &options, out, session)?;
        let summary = builder::yaffs2::Summary::of(&report);
        Ok((summary.line(), summary))
    };
    put_out(&args.image.paths.output, args.image.paths.preflight, &build, session)
}

fn make_axfs(args: &AxfsArgs, session: &mut Session) -> Result<(), Failure> {
    let choices = args.options.choices();
    args.options.xip_list.iter().for_each(|path| session.reads(path));
    let options = builder::axfs::options(&choices)?;
    let paths = &args.paths;
    let tree = source::load(&paths.source, &choices.adjustments(), &paths.output, session)?;
    let build = |out: &mut (dyn Write + Send), session: &Session| {
        let report = builder::axfs::build(&tree, &options, out, session)?;
        let summary = builder::axfs::Summary::of(&report);
        Ok((summary.line(), summary))
    };
    put_out(&paths.output, paths.preflight, &build, session)
}

/// Makes an image in one pass: what was made, in one line and as a document.
type Make<'a, S> = dyn Fn(&mut (dyn Write + Send), &Session) -> Result<(String, S), Failure> + 'a;

/// Puts an image into a file or to standard output, or throws it away.
fn put_out<S: Serialize>(
    path: &Path,
    preflight: bool,
    make: &Make<'_, S>,
    session: &mut Session,
) -> Result<(), Failure> {
    if preflight {
        let (line, summary) = make(&mut std::io::sink(), session)?;
        session.remark(&format!("preflight: {line}: fits"));
        return if session.options.json { session.json(&summary) } else { Ok(()) };
    }
    if path == Path::new("-") {
        session.take_out()?;
        let (line, _) = make(&mut std::io::stdout(), session)?;
        session.remark(&format!("-: {line}"));
        return Ok(());
    }
    let output = session.create(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, &output.file);
    let (line, summary) = make(&mut out, session)?;
    out.flush().context(path.display())?;
    drop(out);
    output.commit()?;
    session.remark(&format!("{}: {line}", path.display()));
    if session.options.json { session.json(&summary) } else { Ok(()) }
}

fn make_ubifs(args: &UbifsArgs, session: &mut Session) -> Result<(), Failure> {
    let shape = args.shape()?;
    let choices = args.options.choices();
    let tree = source::load(
        &args.image.paths.source,
        &choices.adjustments(),
        &args.image.paths.output,
        session,
    )?;
    let options = builder::options(shape, &choices);
    let bounds = if args.image.paths.preflight {
        builder::settled_preflight(&tree, &options, session)?
    } else {
        builder::preflight(&tree, &options)?
    };
    session.remark(&builder::preflight_line(&bounds));
    if args.image.paths.preflight {
        #[derive(Serialize)]
        struct Bounds {
            lebs_least: u32,
            lebs_most: u32,
            max_lebs: u32,
        }
        let (lebs_least, lebs_most) = (bounds.image_lebs_least, bounds.image_lebs_most);
        let bounds = Bounds { lebs_least, lebs_most, max_lebs: bounds.layout.max_leb_cnt };
        return if session.options.json { session.json(&bounds) } else { Ok(()) };
    }
    let output = session.create(&args.image.paths.output)?;
    let mut sink = FileSink::new(&output.file, shape.leb_size);
    let report = builder::build(&tree, &options, &mut sink, session)?;
    output.commit()?;
    let summary = Summary::of(&report);
    session.remark(&format!("{}: {}", args.image.paths.output.display(), summary.line()));
    if session.options.json { session.json(&summary) } else { Ok(()) }
}

impl UbifsArgs {
    /// The volume the image is for: stated, or computed from the flash.
    fn shape(&self) -> Result<VolumeShape, Failure> {
        if let Some(leb_size) = self.leb {
            let min_io = self.min_io.or(self.image.flash.page).ok_or_else(|| {
                Failure::usage("the smallest unit that can be written is missing").hint("--min-io")
            })?;
            return Ok(VolumeShape { leb_size, min_io, max_lebs: self.max_lebs(None)? });
        }
        let flash = self.image.flash.choice().resolve(None)?;
        let geometry = &flash.geometry;
        let layout =
            HeaderLayout::new(geometry.peb_size(), geometry.min_io(), geometry.subpage(), None)?;
        let min_io = self.min_io.unwrap_or(geometry.min_io());
        let max_lebs = self.max_lebs(flash.chip_blocks)?;
        Ok(VolumeShape { leb_size: layout.leb_size(), min_io, max_lebs })
    }

    /// How far it may grow: stated, or all that UBI has for volumes on a chip of `blocks`.
    fn max_lebs(&self, blocks: Option<u32>) -> Result<u32, Failure> {
        let whole_chip = blocks
            .map(|blocks| accounting::for_volumes(blocks, accounting::bad_block_reserve(blocks)));
        self.options.max_lebs.or(whole_chip).ok_or_else(|| {
            Failure::usage("how far the file system may grow is not known")
                .hint("--max-lebs says it; --flash PART takes the whole chip")
        })
    }
}
