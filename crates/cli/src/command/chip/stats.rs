//! `eraseblock chip stats`: the properties, history and wear of a chip.

use super::parts::kind_word;
use crate::failure::Failure;
use crate::session::Session;
use crate::style::Ink;
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::nandsim::{Chip, Counters, WearReport};
use eraseblock::text;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `chip stats`.
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// The chip's file
    file: PathBuf,
}

/// The statistics of a chip.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    path: String,
    part: Option<&'static str>,
    kind: &'static str,
    size: u64,
    peb_size: u32,
    peb_count: u32,
    page: u32,
    subpage: u32,
    oob: u32,
    ecc_bits: u16,
    next_event: u64,
    counters: Counters,
    wear: WearReport,
    armed_cut: Option<Cut>,
    retention: Option<Leak>,
}

/// Bits that leak.
#[derive(Debug, Serialize)]
struct Leak {
    per_billion: u32,
    seed: u64,
}

/// An armed power cut.
#[derive(Debug, Serialize)]
struct Cut {
    event: u64,
    program: String,
    erase: String,
    seed: u64,
}

/// Shows it.
pub(super) fn run(args: &StatsArgs, session: &mut Session) -> Result<(), Failure> {
    session.keep_still(&args.file)?;
    let chip = super::open(&args.file, Access::Read)?;
    Report::of(&args.file, &chip).print(session)
}

impl Report {
    pub(super) fn of(path: &Path, chip: &Chip) -> Self {
        let config = chip.config();
        let geometry = config.geometry();
        Self {
            path: path.display().to_string(),
            part: config.part(),
            kind: kind_word(geometry.kind()),
            size: geometry.size(),
            peb_size: geometry.peb_size(),
            peb_count: geometry.peb_count(),
            page: geometry.min_io(),
            subpage: geometry.subpage(),
            oob: geometry.oob_size(),
            ecc_bits: config.ecc_bits(),
            next_event: chip.next_event(),
            counters: chip.counters(),
            wear: chip.wear_report(),
            armed_cut: chip.armed_cut().map(|cut| Cut {
                event: cut.event,
                program: cut.program.to_string(),
                erase: cut.erase.to_string(),
                seed: cut.seed,
            }),
            retention: chip
                .retention()
                .map(|leak| Leak { per_billion: leak.per_billion, seed: leak.seed }),
        }
    }

    /// Shows the state after a change; nothing with `--quiet`.
    pub(super) fn print_change(&self, session: &mut Session) -> Result<(), Failure> {
        let is_silent = session.options.quiet && !session.options.json;
        if is_silent { Ok(()) } else { self.print(session) }
    }

    pub(super) fn print(&self, session: &mut Session) -> Result<(), Failure> {
        if session.options.json {
            return session.json(self);
        }
        let label = |name: &str| session.style.paint(Ink::Faint, format!("{name:<12}"));
        let wear = &self.wear;
        let counters = &self.counters;
        let mut lines = vec![
            format!("{}{}", label("chip"), session.style.paint(Ink::Bold, self.name())),
            format!(
                "{}{} blocks of {}, pages of {} with {} out-of-band bytes, sub-pages of {}",
                label("shape"),
                self.peb_count,
                format_size(u64::from(self.peb_size)),
                self.page,
                self.oob,
                self.subpage
            ),
            format!(
                "{}{} to {} erases a block, {} in all, {}",
                label("wear"),
                wear.min_erases,
                wear.max_erases,
                text::grouped(wear.total_erases),
                text::count(u64::from(wear.bad_blocks), "bad block", "bad blocks")
            ),
            format!(
                "{}{} page reads, {} page programs, {} erases; {} bits corrected{}",
                label("operations"),
                text::grouped(counters.page_reads),
                text::grouped(counters.page_programs),
                text::grouped(counters.erases),
                text::grouped(counters.corrected_bits),
                lost(counters.failed_codewords)
            ),
            format!("{}{} on the real part", label("time"), seconds(counters.virtual_ns)),
        ];
        if let Some(cut) = &self.armed_cut {
            let more = cut.event - self.next_event;
            let armed = format!(
                "after {} more, leaving {} or {}",
                text::count(more, "operation", "operations"),
                cut.program,
                cut.erase
            );
            lines.push(format!(
                "{}{}",
                label("power cut"),
                session.style.paint(Ink::Yellow, armed)
            ));
        }
        if let Some(leak) = &self.retention {
            let rate = text::grouped(leak.per_billion.into());
            lines.push(format!("{}{rate} of a billion bits leak an operation", label("retention")));
        }
        session.lines(lines)
    }

    fn name(&self) -> String {
        let size = format_size(self.size);
        self.part.map_or_else(
            || format!("{} of {size}", self.kind),
            |part| format!("{part}, {} of {size}", self.kind),
        )
    }
}

/// What reads could not correct, if there was any.
fn lost(codewords: u64) -> String {
    if codewords == 0 {
        return String::new();
    }
    format!(", {} not", text::count(codewords, "codeword", "codewords"))
}

/// Nanoseconds as seconds with three places.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:03} s", nanoseconds / 1_000_000_000, nanoseconds / 1_000_000 % 1000)
}
