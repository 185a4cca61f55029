//! `eraseblock card stats`: the parameters, history and wear of a card.

use crate::failure::{Context, Failure};
use crate::session::Session;
use crate::style::Ink;
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::card::{Card, Counters, Parameters, Wear};
use eraseblock::text;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `card stats`.
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// The card's file
    file: PathBuf,
}

/// The statistics of a card.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    path: String,
    parameters: Parameters,
    counters: Counters,
    host_bytes: u64,
    programmed_bytes: u64,
    virtual_ns: u64,
    wear: Wear,
}

/// Shows it.
pub(super) fn run(args: &StatsArgs, session: &mut Session) -> Result<(), Failure> {
    session.keep_still(&args.file)?;
    let card = Card::open_read_only(&args.file).context(args.file.display())?;
    Report::of(&args.file, &card).print(session)
}

impl Report {
    pub(super) fn of(path: &Path, card: &Card) -> Self {
        let counters = card.counters();
        Self {
            path: path.display().to_string(),
            parameters: card.parameters().clone(),
            counters,
            host_bytes: counters.host_bytes(),
            programmed_bytes: counters.programmed_bytes(),
            virtual_ns: counters.total_ns(),
            wear: card.wear(),
        }
    }

    /// Shows the state after a change; nothing with `--quiet`.
    pub(super) fn print_change(&self, session: &mut Session) -> Result<(), Failure> {
        let is_silent = session.options.quiet && !session.options.json;
        if is_silent { Ok(()) } else { self.print(session) }
    }

    fn print(&self, session: &mut Session) -> Result<(), Failure> {
        if session.options.json {
            return session.json(self);
        }
        let rows = [
            ("card", self.shape()),
            ("commands", self.commands()),
            ("written", self.written()),
            ("erases", self.erases()),
            ("wear", self.worn()),
            ("time", format!("{} on the card", seconds(self.virtual_ns))),
        ];
        let label = |name: &str| session.style.paint(Ink::Faint, format!("{name:<12}"));
        let lines: Vec<String> =
            rows.iter().map(|(name, text)| format!("{}{text}", label(name))).collect();
        session.lines(lines)
    }

    fn shape(&self) -> String {
        let card = &self.parameters;
        let units = text::count(card.units().into(), "unit", "units");
        let fat = match card.fat_units {
            0 => String::new(),
            1 => ", the first one mapped by pages".to_owned(),
            more => format!(", the first {more} mapped by pages"),
        };
        format!(
            "{}, {units} of {}, pages of {}, {} open{fat}",
            format_size(card.capacity),
            format_size(card.unit.into()),
            format_size(card.page.into()),
            card.open_units,
        )
    }

    fn commands(&self) -> String {
        let counters = &self.counters;
        let count = |number, one, more| text::count(number, one, more);
        format!(
            "{}, {}, {}, {}; {} read",
            count(counters.reads, "read", "reads"),
            count(counters.writes, "write", "writes"),
            count(counters.flushes, "flush", "flushes"),
            count(counters.trims, "trim", "trims"),
            format_size(counters.read_bytes),
        )
    }

    fn written(&self) -> String {
        let counters = &self.counters;
        format!(
            "{} by the host, {} of padding, {} copied",
            format_size(self.host_bytes),
            format_size(counters.padding_bytes),
            format_size(counters.copied_bytes),
        )
    }

    fn erases(&self) -> String {
        let counters = &self.counters;
        format!(
            "{} by switches, {} by partial merges, {} by full merges, {} of page-mapped units, {} by trims",
            text::grouped(counters.switch_erases),
            text::grouped(counters.partial_erases),
            text::grouped(counters.full_erases),
            text::grouped(counters.fat_erases),
            text::grouped(counters.trim_erases),
        )
    }

    fn worn(&self) -> String {
        let wear = &self.wear;
        format!(
            "{} to {} erases a unit, {} in all, {} physical units; {} open now",
            wear.min_erases,
            wear.max_erases,
            text::grouped(wear.total_erases),
            text::grouped(wear.units.into()),
            wear.open_units,
        )
    }
}

/// Nanoseconds as seconds with three places.
pub(super) fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:03} s", nanoseconds / 1_000_000_000, nanoseconds / 1_000_000 % 1000)
}
