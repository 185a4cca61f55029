//! `eraseblock ubi format`.

use crate::args::FlashTargetArgs;
use crate::failure::{Context, Failure};
use crate::session::{Session, say};
use eraseblock::raw::ubi::{AttachOptions, FormatOptions, attach, format};
use eraseblock::raw::ubi_format::EraseCount;
use eraseblock::target::FlashOptions;
use eraseblock::target::flash::Flash;
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
    // What is on it goes: it says nothing about the size either.
    let target = FlashOptions { as_it_is: true, ..args.flash.options() };
    let mut flash =
        if args.block_device { Flash::make(&target) } else { Flash::open(&target, true) }?;
    flash.on_trouble = say;
    flash.refuse_volume()?;
    let layout = flash.layout_or_usual(&target.sizes)?;
    let path = flash.path.display();
    if args.flash.fastmap {
        flash.check_fastmap(&layout)?;
    }
    let image_seq = match (args.image_seq, flash.layout) {
        (Some(number), _) => number,
        (None, Some(layout)) => {
            let old = attach(flash.device.as_ref(), &layout, &AttachOptions::default());
            old.context(&path)?.image_seq.wrapping_add(1)
        }
        (None, None) => 1,
    };
    let erase_count = match args.erase_counter {
        Some(count) => Some(EraseCount::new(u64::from(count)).ok_or_else(|| {
            Failure::usage(format!("--erase-counter {count}: expected below 2^31"))
        })?),
        None => None,
    };
    let fastmap = args.flash.fastmap;
    let options = FormatOptions { image_seq, erase_count, fastmap };
    let report = format(&flash.device, &layout, &options).context(&path)?;
    flash.device.sync().context(&path)?;
    flash.keep();
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
