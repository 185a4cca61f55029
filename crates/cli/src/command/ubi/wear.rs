//! `eraseblock ubi wear`: the wear of a device.

use crate::args::FlashTargetArgs;
use crate::failure::Failure;
use crate::map;
use crate::session::Session;
use crate::style::Ink;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::ubi::Health;
use eraseblock::target::Place;
use eraseblock::target::flash::Flash;
use eraseblock::text;
use serde::Serialize;

/// Characters of the longest bar.
const BAR: usize = 40;

/// Arguments of `ubi wear`.
#[derive(Debug, clap::Args)]
pub(super) struct WearArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// With --json, the erase counter of every block too
    #[arg(long)]
    each: bool,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    health: Health,
    #[serde(skip_serializing_if = "Option::is_none")]
    erase_counters: Option<Vec<u32>>,
}

/// Shows it. Nothing is written.
pub(super) fn run(args: &WearArgs, session: &mut Session) -> Result<(), Failure> {
    session.keep_still(&Place::parse(&args.flash.target)?.path)?;
    let options = args.flash.options();
    let flash = Flash::open(&options, Access::Read)?;
    flash.refuse_volume()?;
    let ubi = flash.ubi(&options, Access::Read)?;
    let health = ubi.health();
    if session.options.json {
        let erase_counters = args.each.then(|| ubi.erase_counters());
        return session.json(&Report { health, erase_counters });
    }
    let lines = lines(&health, session);
    session.lines(lines)
}

fn lines(health: &Health, session: &Session) -> Vec<String> {
    let label = |name: &str| session.style.paint(Ink::Faint, format!("{name:<16}"));
    let (reserved, wanted) = health.bad_block_reserve;
    let mut lines = vec![
        format!(
            "{}{} to {}, {} on average, over {}",
            label("erase counters"),
            health.min_ec,
            health.max_ec,
            health.mean_ec,
            text::count(u64::from(health.pebs), "block", "blocks")
        ),
        format!(
            "{}{} bad, {} reserved for more of them (wanted: {wanted})",
            label("bad blocks"),
            health.errors.bad,
            reserved
        ),
        format!(
            "{}{} free, {} used, {} to be renewed, {} to be erased, {} unreadable",
            label("blocks"),
            health.lists.free,
            health.lists.used + health.lists.protected,
            health.lists.scrub,
            health.lists.erase,
            health.errors.corrupted + health.errors.erroneous
        ),
        format!("{}{} LEBs for new volumes", label("available"), health.available),
        String::new(),
    ];
    let most = health.histogram.iter().map(|row| row.pebs).max().unwrap_or(0);
    let width = health.histogram.iter().map(|row| range(row.from, row.to).len()).max();
    for row in &health.histogram {
        let range = range(row.from, row.to);
        let bar = map::bar(u64::from(row.pebs), u64::from(most), BAR);
        let bar = session.style.paint(Ink::Cyan, bar);
        lines.push(format!("{range:>width$}  {bar} {}", row.pebs, width = width.unwrap_or(0)));
    }
    lines
}

fn range(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("{from}-{to}") }
}
