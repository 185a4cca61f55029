//! What a card has done since it was made: commands, bytes, erases and the parts of its time.

use serde::Serialize;

/// Numbers that only grow. Times are virtual nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Trim commands.
    pub trims: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Bytes read by the host.
    pub read_bytes: u64,
    /// Bytes that the host wrote to units with a log.
    pub log_bytes: u64,
    /// Bytes that the host wrote to units mapped by pages.
    pub fat_bytes: u64,
    /// Bytes programmed to fill pages.
    pub padding_bytes: u64,
    /// Bytes copied by merges.
    pub copied_bytes: u64,
    /// Erases of switches: the log was complete and in order.
    pub switch_erases: u64,
    /// Erases of partial merges: the log was in order, the rest was copied.
    pub partial_erases: u64,
    /// Erases of full merges: the whole unit was copied.
    pub full_erases: u64,
    /// Erases of units mapped by pages.
    pub fat_erases: u64,
    /// Erases of trims.
    pub trim_erases: u64,
    /// Cost of commands.
    pub command_ns: u64,
    /// Transfer of data to and from the host, and programming.
    pub transfer_ns: u64,
    /// Changes of the unit, and pages and units touched by reads.
    pub seek_ns: u64,
    /// Parts of pages.
    pub partial_page_ns: u64,
    /// Copying by merges.
    pub copy_ns: u64,
    /// Erases.
    pub erase_ns: u64,
}

/// Number of counters.
pub(crate) const COUNT: usize = 20;

impl Counters {
    /// Returns the time of everything: the sum of its parts.
    pub fn total_ns(&self) -> u64 {
        let parts = [
            self.command_ns,
            self.transfer_ns,
            self.seek_ns,
            self.partial_page_ns,
            self.copy_ns,
            self.erase_ns,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the bytes that the host wrote.
    pub fn host_bytes(&self) -> u64 {
        self.log_bytes.saturating_add(self.fat_bytes)
    }

    /// Returns the bytes that the card programmed.
    pub fn programmed_bytes(&self) -> u64 {
        self.host_bytes().saturating_add(self.padding_bytes).saturating_add(self.copied_bytes)
    }

    /// Returns the number of erases of all kinds.
    pub fn erases(&self) -> u64 {
        let kinds = [
            self.switch_erases,
            self.partial_erases,
            self.full_erases,
            self.fat_erases,
            self.trim_erases,
        ];
        kinds.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns what was done since the card had these counters.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        for (field, before) in since.fields().into_iter().zip(before.words()) {
            *field -= before;
        }
        since
    }

    /// Returns all counters in the order of the card file.
    pub(crate) fn words(&self) -> [u64; COUNT] {
        let mut copy = *self;
        copy.fields().map(|field| *field)
    }

    pub(crate) fn of_words(words: [u64; COUNT]) -> Self {
        let mut counters = Self::default();
        for (field, word) in counters.fields().into_iter().zip(words) {
            *field = word;
        }
        counters
    }

    fn fields(&mut self) -> [&mut u64; COUNT] {
        [
            &mut self.reads,
            &mut self.writes,
            &mut self.trims,
            &mut self.flushes,
            &mut self.read_bytes,
            &mut self.log_bytes,
            &mut self.fat_bytes,
            &mut self.padding_bytes,
            &mut self.copied_bytes,
            &mut self.switch_erases,
            &mut self.partial_erases,
            &mut self.full_erases,
            &mut self.fat_erases,
            &mut self.trim_erases,
            &mut self.command_ns,
            &mut self.transfer_ns,
            &mut self.seek_ns,
            &mut self.partial_page_ns,
            &mut self.copy_ns,
            &mut self.erase_ns,
        ]
    }
}

/// The erases of the physical units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Wear {
    /// Physical units.
    pub units: u32,
    /// Units that have a log now.
    pub open_units: u32,
    /// Erases of the least worn unit.
    pub min_erases: u32,
    /// Erases of the most worn unit.
    pub max_erases: u32,
    /// Erases of all units.
    pub total_erases: u64,
}
