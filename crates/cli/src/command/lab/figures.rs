//! What attaching, writing and wear cost, as tables.

use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::lab::figures::side_by_side::{
    Cost, Medium, MountBytes, Summaries, mount_bytes, table,
};
use eraseblock::raw::lab::figures::{Figure, Row, ubi as measure};
use std::time::Instant;

/// Measures UBI.
pub(super) fn ubi(session: &mut Session) -> Result<(), Failure> {
    let start = Instant::now();
    let rows = measure(&|| start.elapsed().as_secs_f64())?;
    if session.options.json {
        return session.json(&serde_json::json!({ "rows": rows }));
    }
    let mut last: Option<&Row> = None;
    for row in &rows {
        if last.is_none_or(|last| last.table != row.table) {
            let space = if last.is_some() { "\n" } else { "" };
            session.lines([format!("{space}{}", row.table)])?;
        }
        let figures: Vec<String> = row.figures.iter().map(phrase).collect();
        session.lines([format!("  {}: {}", row.case, figures.join(", "))])?;
        last = Some(row);
    }
    let figures = || rows.iter().flat_map(|row| &row.figures);
    let missed = figures().filter(|figure| !figure.is_met()).count();
    session.lines([format!("\n{missed} of {} figures missed", figures().count())])
}

/// Mebibytes of the chip whose mount is measured with and without summaries.
const MOUNTED: u32 = 256;

/// Holds UBIFS and JFFS2 against each other, in seconds on the chip.
pub(super) fn fs(session: &mut Session) -> Result<(), Failure> {
    let costs = table()?;
    let mount = |summaries| mount_bytes(MOUNTED, summaries);
    let mounts = [mount(Summaries::Written)?, mount(Summaries::LeftOut)?];
    if session.options.json {
        return session.json(&serde_json::json!({ "costs": costs, "mounts": mounts }));
    }
    session.lines(costs.iter().map(tell_cost))?;
    session.lines(mounts.iter().map(tell_mount))
}

fn tell_cost(cost: &Cost) -> String {
    let medium = match cost.medium {
        Medium::Nand => "",
        Medium::AgedNand => " in use",
        Medium::Nor => " of NOR",
    };
    format!(
        "{} MiB{medium}, {:?}: write {} MiB {:.3} s, mount {:.4} s ({} bytes read, {} bytes of memory), \
         read {:.3} s, delete {:.4} s",
        cost.mebibytes,
        cost.side,
        cost.content,
        cost.write,
        cost.mount,
        cost.mount_bytes,
        cost.memory,
        cost.read,
        cost.delete
    )
}

fn tell_mount(mount: &MountBytes) -> String {
    format!(
        "JFFS2 of {MOUNTED} MiB, {} summaries: mount {:.3} s, {} bytes read, {} demanded, {} nodes, \
         {} bytes of memory",
        mount.summaries, mount.seconds, mount.read, mount.demanded, mount.nodes, mount.memory
    )
}

fn phrase(figure: &Figure) -> String {
    let limit = match (figure.at_most, figure.at_least) {
        (Some(most), _) => format!(" (at most {})", number(most)),
        (_, Some(least)) => format!(" (at least {})", number(least)),
        _ => String::new(),
    };
    let missed = if figure.is_met() { "" } else { " MISSED" };
    format!("{} {}{limit}{missed}", figure.what, number(figure.value))
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
