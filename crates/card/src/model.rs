//! The translation layer: which operation makes the card copy, erase and wait
//! (docs/format/card.md 2).
//!
//! # Invariants
//! 1. At most `open_units` units have a log.
//! 2. Each physical unit has exactly one use: content of a unit, a log, or free.
//! 3. Every physical unit's erases are in the counters, by cause.

pub(crate) mod state;
mod units;

use crate::counters::{Counters, Wear};
use crate::parameters::{Parameters, Trim, transfer_ns};
use units::Units;

/// A unit with a log.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Open {
    unit: u32,
    /// Pages in the log.
    used: u32,
    /// Whether these are the first pages of the unit, in ascending order.
    in_order: bool,
    /// The physical unit of the log.
    log: u32,
}

/// The state of the translation layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Model {
    parameters: Parameters,
    /// The unit that was written last is the last.
    open: Vec<Open>,
    last_unit: Option<u32>,
    /// Where the last write ended; a write that continues there finds its page in the page buffer.
    write_end: Option<u64>,
    /// Pages written to each unit mapped by pages since it was erased.
    fat_used: Vec<u32>,
    units: Units,
    counters: Counters,
}

/// The part of a write that is inside one unit.
#[derive(Clone, Copy)]
struct Piece {
    unit: u32,
    /// Pages newly touched, by number in the unit.
    first: u32,
    end: u32,
    bytes: u64,
    partial: bool,
}

impl Model {
    pub(crate) fn new(parameters: Parameters) -> Self {
        let units = Units::new(parameters.units(), parameters.physical_units());
        let fat_used = vec![0; parameters.fat_units as usize];
        Self {
            parameters,
            open: Vec::new(),
            last_unit: None,
            write_end: None,
            fat_used,
            units,
            counters: Counters::default(),
        }
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn wear(&self) -> Wear {
        let open_units = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
        Wear { open_units, ..self.units.wear() }
    }

    /// Forgets what a card forgets without power: the page buffer.
    pub(crate) fn power_on(&mut self) {
        self.write_end = None;
        self.last_unit = None;
    }

    /// Takes the time of reading `len` bytes.
    pub(crate) fn read(&mut self, offset: u64, len: u64) {
        self.counters.reads += 1;
        self.counters.read_bytes += len;
        self.counters.command_ns += self.parameters.read_command_ns;
        self.counters.transfer_ns += transfer_ns(len, self.parameters.read_rate);
        let Some(last) = len.checked_sub(1).map(|more| offset + more) else { return };
        let unit = u64::from(self.parameters.unit);
        let further_units = last / unit - offset / unit;
        self.counters.seek_ns +=
            further_units * self.parameters.read_unit_ns + self.page_loads(offset, last);
    }

    /// The time that loads of further pages add: the card loads a page while it transfers the whole
    /// page before, but not while it transfers part of one.
    fn page_loads(&self, offset: u64, last: u64) -> u64 {
        let page = u64::from(self.parameters.page);
        let pages = last / page - offset / page;
        if pages == 0 {
            return 0;
        }
        let load = self.parameters.read_page_ns;
        let hidden = load.saturating_sub(transfer_ns(page, self.parameters.read_rate));
        let from_first = if offset.is_multiple_of(page) { hidden } else { load };
        from_first.saturating_add((pages - 1).saturating_mul(hidden))
    }

    /// Takes the time of writing `len` bytes.
    pub(crate) fn write(&mut self, offset: u64, len: u64) {
        self.counters.writes += 1;
        self.counters.command_ns += self.parameters.write_command_ns;
        let unit_size = u64::from(self.parameters.unit);
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let piece_end = end.min((at / unit_size + 1) * unit_size);
            self.write_piece(self.piece(at, piece_end));
            self.write_end = Some(piece_end);
            at = piece_end;
        }
    }

    fn piece(&self, at: u64, end: u64) -> Piece {
        let (unit_size, page) = (u64::from(self.parameters.unit), u64::from(self.parameters.page));
        let continues = self.write_end == Some(at);
        let number = |at: u64| u32::try_from(at % unit_size / page).unwrap_or(u32::MAX);
        let buffered = continues && !at.is_multiple_of(page);
        Piece {
            unit: u32::try_from(at / unit_size).unwrap_or(u32::MAX),
            first: number(at) + u32::from(buffered),
            end: number(end - 1) + 1,
            bytes: end - at,
            partial: !(continues || at.is_multiple_of(page) && end.is_multiple_of(page)),
        }
    }

    fn write_piece(&mut self, piece: Piece) {
        if self.last_unit.replace(piece.unit) != Some(piece.unit) {
            self.counters.seek_ns += self.parameters.unit_change_ns;
        }
        if piece.partial {
            self.counters.partial_page_ns += self.parameters.partial_page_ns;
        }
        let programmed = u64::from(piece.end - piece.first) * u64::from(self.parameters.page);
        self.counters.transfer_ns +=
            transfer_ns(piece.bytes.max(programmed), self.parameters.write_rate);
        // What continues in the page buffer fills a page that was counted as padding before.
        self.counters.padding_bytes = self.counters.padding_bytes + programmed - piece.bytes;
        if piece.unit < self.parameters.fat_units {
            self.counters.fat_bytes += piece.bytes;
            self.fill_fat(piece.unit, piece.end - piece.first);
        } else {
            self.counters.log_bytes += piece.bytes;
            self.fill_log(piece);
        }
    }

    /// Writes pages to a unit mapped by pages: each unit of them costs an erase, and nothing is
    /// copied.
    fn fill_fat(&mut self, unit: u32, pages: u32) {
        let all = self.parameters.unit_pages();
        let used = &mut self.fat_used[unit as usize];
        *used += pages;
        if *used >= all {
            *used -= all;
            let log = self.units.take();
            self.units.replace(unit, log);
            self.counters.fat_erases += 1;
            self.counters.erase_ns += self.parameters.erase_ns;
        }
    }

    /// Writes pages to the log of a unit.
    fn fill_log(&mut self, piece: Piece) {
        let all = self.parameters.unit_pages();
        let mut next = piece.first;
        while next < piece.end {
            let mut open = self.opened(piece.unit);
            let in_order = open.in_order && open.used == next;
            let limit = if in_order { all } else { self.parameters.unordered_pages };
            let count = limit.saturating_sub(open.used).min(piece.end - next);
            open.used += count;
            open.in_order = in_order;
            next += count;
            if in_order && open.used == all {
                self.switch(&open);
            } else if !in_order && open.used >= limit {
                self.merge_all(&open);
                // The unit stays open, with an empty log.
                let log = self.units.take();
                self.open.push(Open { used: 0, in_order: true, log, ..open });
            } else {
                self.open.push(open);
            }
        }
    }

    /// Removes the unit from the open ones, or opens it and closes another one for it; the caller
    /// puts it back.
    fn opened(&mut self, unit: u32) -> Open {
        if let Some(at) = self.open.iter().position(|open| open.unit == unit) {
            return self.open.remove(at);
        }
        if self.open.len() >= self.parameters.open_units as usize {
            let oldest = self.open.remove(0);
            self.close(&oldest);
        }
        Open { unit, used: 0, in_order: true, log: self.units.take() }
    }

    fn close(&mut self, open: &Open) {
        if open.used == 0 {
            self.units.put_back(open.log);
        } else if open.in_order {
            self.merge_rest(open);
        } else {
            self.merge_all(open);
        }
    }

    /// The log is the whole unit, in order: it takes the place of the unit.
    fn switch(&mut self, open: &Open) {
        self.units.replace(open.unit, open.log);
        self.counters.switch_erases += 1;
        self.counters.erase_ns += self.parameters.erase_ns;
    }

    /// The log is the beginning of the unit: the rest is copied after it.
    fn merge_rest(&mut self, open: &Open) {
        self.copy(self.parameters.unit_pages() - open.used);
        self.units.replace(open.unit, open.log);
        self.counters.partial_erases += 1;
        self.counters.erase_ns += self.parameters.erase_ns;
    }

    /// The log is out of order: the whole unit is copied to a third place.
    fn merge_all(&mut self, open: &Open) {
        self.copy(self.parameters.unit_pages());
        let merged = self.units.take();
        self.units.replace(open.unit, merged);
        self.units.free(open.log);
        self.counters.full_erases += 2;
        self.counters.erase_ns += 2 * self.parameters.erase_ns;
    }

    fn copy(&mut self, pages: u32) {
        let bytes = u64::from(pages) * u64::from(self.parameters.page);
        self.counters.copied_bytes += bytes;
        self.counters.copy_ns += transfer_ns(bytes, self.parameters.copy_rate);
    }

    pub(crate) fn flush(&mut self) {
        self.counters.flushes += 1;
    }

    /// Takes the time of trimming a range, and returns the range of whole units that read as erased
    /// from now on.
    pub(crate) fn trim(&mut self, offset: u64, len: u64) -> std::ops::Range<u64> {
        self.counters.trims += 1;
        let unit_size = u64::from(self.parameters.unit);
        let (first, end) = (offset.div_ceil(unit_size), (offset + len) / unit_size);
        if first >= end || self.parameters.trim == Trim::Ignore {
            return 0..0;
        }
        for unit in first..end {
            self.trim_unit(u32::try_from(unit).unwrap_or(u32::MAX));
        }
        self.write_end = None;
        first * unit_size..end * unit_size
    }

    fn trim_unit(&mut self, unit: u32) {
        let mut erases = 0;
        if let Some(at) = self.open.iter().position(|open| open.unit == unit) {
            let open = self.open.remove(at);
            self.units.free(open.log);
            erases += 1;
        }
        if self.parameters.trim == Trim::Erase {
            self.units.erase(unit);
            erases += 1;
        }
        self.counters.trim_erases += erases;
        self.counters.erase_ns += erases * self.parameters.erase_ns;
    }
}
