//! `eraseblock ubi format`.

use crate::args::FlashTargetArgs;
use crate::failure::Failure;
use crate::session::{Session, say};
use eraseblock::target::volumes::{UbiOptions, format_flash};
use eraseblock::text;

/// Arguments of `ubi format`.
#[derive(Debug, clap::Args)]
pub(super) struct FormatArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// Give all blocks this erase counter instead of their own
    #[arg(long, value_name = "NUMBER")]
    erase_counter: Option<u32>,
    /// Number of the new image; one more than that of the image before when left out
    #[arg(long, value_name = "NUMBER")]
    image_seq: Option<u32>,
    /// Make a flash of a block device or a plain file before; --peb and --page state its sizes
    #[arg(long)]
    block_device: bool,
}

/// Formats.
pub(super) fn run(args: &FormatArgs, session: &mut Session) -> Result<(), Failure> {
    let how = UbiOptions::default()
        .image_seq(args.image_seq)
        .erase_counter(args.erase_counter)
        .make_flash(args.block_device);
    let report = format_flash(&args.flash.options(), &how, say)?;
    if session.options.json {
        return session.json(&report);
    }
    let blocks = text::count(u64::from(report.formatted), "block", "blocks");
    session.remark(&format!(
        "{blocks} formatted, {} of them with their erase counter kept; {} bad, {} of them new",
        text::grouped(u64::from(report.counters_kept)),
        text::grouped(u64::from(report.bad + report.newly_bad)),
        text::grouped(u64::from(report.newly_bad))
    ));
    Ok(())
}
