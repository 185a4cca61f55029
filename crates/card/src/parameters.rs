//! The parameters of a card: sizes, and the times of its operations.

use crate::error::CardError;
use serde::Serialize;

/// What a card does when the host trims whole allocation units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trim {
    /// Nothing.
    Ignore,
    /// Drops the log of an open unit without a merge.
    DropLog,
    /// Erases the unit.
    Erase,
}

/// The sizes and times of a card. Times are nanoseconds, rates bytes a second; a rate of 0 costs no
/// time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Parameters {
    /// Bytes that the host sees.
    pub capacity: u64,
    /// Bytes of an allocation unit.
    pub unit: u32,
    /// Bytes that the card programs together; a power of two.
    pub page: u32,
    /// Units that can have a log at the same time.
    pub open_units: u32,
    /// Units at the start of the card that are mapped by pages.
    pub fat_units: u32,
    /// Pages that the log of a unit holds when they are not in order.
    pub unordered_pages: u32,
    /// Cost of a write command.
    pub write_command_ns: u64,
    /// Rate of programming what the host sends.
    pub write_rate: u64,
    /// Rate of copying inside the card.
    pub copy_rate: u64,
    /// Erase of a unit.
    pub erase_ns: u64,
    /// Write to another unit than the last.
    pub unit_change_ns: u64,
    /// Write of part of a page that does not continue the last write.
    pub partial_page_ns: u64,
    /// Cost of a read command.
    pub read_command_ns: u64,
    /// Rate of reading.
    pub read_rate: u64,
    /// Load of a further page by one read; the transfer of the page before hides it.
    pub read_page_ns: u64,
    /// Further unit touched by one read.
    pub read_unit_ns: u64,
    /// What trimming does.
    pub trim: Trim,
    /// Whether erased bytes read as 0xFF instead of 0.
    pub erased_ones: bool,
    /// Pages of a volatile cache: a power cut may lose that many until a flush.
    pub cache_pages: u32,
}

/// The longest time of one operation: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// More units than any card has.
const MAX_UNITS: u64 = 1 << 20;

impl Parameters {
    /// Returns the same card with another capacity.
    #[must_use]
    pub fn with_capacity(self, capacity: u64) -> Self {
        Self { capacity, ..self }
    }

    /// Returns the same card with allocation units of `unit` bytes; the share of a log that may be
    /// out of order stays.
    #[must_use]
    pub fn with_unit(self, unit: u32) -> Self {
        let share = (self.unit / self.page.max(1)).checked_div(self.unordered_pages).unwrap_or(1);
        let pages = unit / self.page.max(1);
        Self { unit, unordered_pages: (pages / share.max(1)).max(1), ..self }
    }

    /// Returns the number of pages in an allocation unit.
    pub fn unit_pages(&self) -> u32 {
        self.unit / self.page
    }

    /// Returns the number of allocation units.
    pub fn units(&self) -> u32 {
        u32::try_from(self.capacity.div_ceil(u64::from(self.unit))).unwrap_or(u32::MAX)
    }

    /// Returns the number of physical units: 2 % more than the host sees, and enough for all logs
    /// and a merge.
    pub fn physical_units(&self) -> u32 {
        let units = self.units();
        (units + units / 50).max(units + self.open_units + 2)
    }

    /// Checks that such a card can exist.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Parameter`] that names the first impossible value.
    pub fn check(&self) -> Result<(), CardError> {
        let sizes = [
            (
                "page",
                self.page.into(),
                self.page.is_power_of_two() && (512..=1 << 20).contains(&self.page),
                "a power of two from 512 to 1048576",
            ),
            (
                "unit",
                self.unit.into(),
                self.unit <= 1 << 28
                    && self.page != 0
                    && self.unit.is_multiple_of(self.page)
                    && (1..=1 << 16).contains(&(self.unit / self.page.max(1))),
                "1 to 65536 pages, at most 256 MiB",
            ),
        ];
        let Some((field, found, _, expected)) = sizes.into_iter().find(|row| !row.2) else {
            return self.check_counts();
        };
        Err(CardError::Parameter { field, found, expected })
    }

    fn check_counts(&self) -> Result<(), CardError> {
        let units = self.capacity.div_ceil(u64::from(self.unit));
        let rate = |rate: u64| rate == 0 || (1000..=1 << 40).contains(&rate);
        let time = |time: u64| time <= LONGEST_NS;
        let rows = [
            ("capacity", self.capacity, self.capacity.is_multiple_of(512), "a multiple of 512"),
            ("capacity", self.capacity, (1..=MAX_UNITS).contains(&units), "1 to 1048576 units"),
            ("open units", self.open_units.into(), (1..=64).contains(&self.open_units), "1 to 64"),
            (
                "FAT units",
                self.fat_units.into(),
                u64::from(self.fat_units) <= units.min(64),
                "at most 64, and no more than the card has",
            ),
            (
                "unordered pages",
                self.unordered_pages.into(),
                (1..=self.unit_pages()).contains(&self.unordered_pages),
                "1 to the pages of a unit",
            ),
            ("cache pages", self.cache_pages.into(), self.cache_pages <= 1 << 16, "at most 65536"),
            ("write rate", self.write_rate, rate(self.write_rate), RATE),
            ("copy rate", self.copy_rate, rate(self.copy_rate), RATE),
            ("read rate", self.read_rate, rate(self.read_rate), RATE),
            ("write command time", self.write_command_ns, time(self.write_command_ns), TIME),
            ("erase time", self.erase_ns, time(self.erase_ns), TIME),
            ("unit change time", self.unit_change_ns, time(self.unit_change_ns), TIME),
            ("partial page time", self.partial_page_ns, time(self.partial_page_ns), TIME),
            ("read command time", self.read_command_ns, time(self.read_command_ns), TIME),
            ("read page time", self.read_page_ns, time(self.read_page_ns), TIME),
            ("read unit time", self.read_unit_ns, time(self.read_unit_ns), TIME),
        ];
        let wrong = rows.into_iter().find(|row| !row.2);
        wrong.map_or(Ok(()), |(field, found, _, expected)| {
            Err(CardError::Parameter { field, found, expected })
        })
    }
}

const RATE: &str = "0, or 1000 to 2^40 bytes a second";
const TIME: &str = "at most a minute";

/// Returns the nanoseconds that `bytes` take at `rate` bytes a second.
pub(crate) fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    if rate == 0 {
        return 0;
    }
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}
