//! sumtool(1): a JFFS2 image whose full eraseblocks end with a list of their nodes
//! (spec: jffs2 21.2).

use super::mkfs_jffs2::{at_least_minimum, erase_size, number};
use super::refuse_device;
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Parser;
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::jffs2::Source;
use eraseblock::raw::jffs2::mkfs::{SummaryOptions, summarise};
use eraseblock::raw::jffs2_format::ByteOrder;
use eraseblock::text;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Convert a JFFS2 image to a summarized one.
#[derive(Debug, Parser)]
#[command(name = "sumtool", version, infer_long_args = true, args_override_self = true)]
pub(super) struct SumtoolArgs {
    /// Erase block size
    #[arg(short, long, value_name = "SIZE", value_parser = erase_size, default_value = "64KiB")]
    eraseblock: u32,
    /// Size of the cleanmarkers
    #[arg(short, long, value_name = "SIZE", value_parser = number, default_value = "12")]
    cleanmarker: u32,
    /// No cleanmarkers
    #[arg(short, long)]
    no_cleanmarkers: bool,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Input file
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The image is big-endian
    #[arg(short, long, overrides_with = "littleendian")]
    bigendian: bool,
    /// The image is little-endian
    #[arg(short, long, overrides_with = "bigendian")]
    littleendian: bool,
    /// Say what was done
    #[arg(short, long)]
    verbose: bool,
    /// Pad the output to the end of the last eraseblock
    #[arg(short, long)]
    pad: bool,
    /// Ignored, as the classic tool does
    #[arg(hide = true)]
    others: Vec<OsString>,
}

/// Makes the image.
pub(super) fn run(args: &SumtoolArgs, session: &mut Session) -> Result<(), Failure> {
    let (Some(input), Some(output)) = (&args.input, &args.output) else {
        return Err(Failure::new("You must specify input and output files!"));
    };
    refuse_device(output)?;
    let file = File::open(input).context(input.display())?;
    session.reads(input);
    let options = SummaryOptions {
        block_size: at_least_minimum(args.eraseblock),
        order: match (args.bigendian, args.littleendian) {
            (true, _) => Some(ByteOrder::Big),
            (_, true) => Some(ByteOrder::Little),
            _ => None,
        },
        cleanmarker: if args.no_cleanmarkers { 0 } else { args.cleanmarker },
        pad: args.pad,
    };
    let made = session.create_named(output)?;
    let mut out = BufWriter::with_capacity(1 << 20, &made.file);
    let source = Source::Image(Arc::new(file));
    let (report, findings) = summarise(&source, &options, &mut out).context(input.display())?;
    out.flush().context(output.display())?;
    drop(out);
    made.commit()?;
    session.report(findings);
    if args.verbose {
        session.remark(&format!(
            "{}: {} {}, {}, {}",
            output.display(),
            format_size(report.image_bytes),
            report.order,
            text::count(report.nodes, "node", "nodes"),
            text::count(report.summaries, "summary", "summaries"),
        ));
    }
    Ok(())
}
