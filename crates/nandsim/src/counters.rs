//! The operations of a chip, and the time they would have taken (spec: mtd-nand 12.2).

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations, bytes and virtual time since the chip was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Counters {
    /// Page reads, whole or in part.
    pub page_reads: u64,
    /// Page programs, whole or in part (out-of-band programs included).
    pub page_programs: u64,
    /// Block erases.
    pub erases: u64,
    /// Bad-block marks.
    pub bad_marks: u64,
    /// Data bytes delivered.
    pub bytes_read: u64,
    /// Data bytes programmed.
    pub bytes_programmed: u64,
    /// Bits corrected on reads.
    pub corrected_bits: u64,
    /// Codewords delivered uncorrected.
    pub failed_codewords: u64,
    /// Nanoseconds the operations would have taken on the part.
    pub virtual_ns: u64,
}

impl Counters {
    /// Returns what was counted since an earlier state of the same chip.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            page_reads: self.page_reads - before.page_reads,
            page_programs: self.page_programs - before.page_programs,
            erases: self.erases - before.erases,
            bad_marks: self.bad_marks - before.bad_marks,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_programmed: self.bytes_programmed - before.bytes_programmed,
            corrected_bits: self.corrected_bits - before.corrected_bits,
            failed_codewords: self.failed_codewords - before.failed_codewords,
            virtual_ns: self.virtual_ns - before.virtual_ns,
        }
    }
}

/// The counters of a chip in use: readers add to them concurrently.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    cells: [AtomicU64; 9],
}

/// A counter, by its position in [`Counters`].
#[derive(Clone, Copy)]
pub(crate) enum Count {
    PageReads,
    PagePrograms,
    Erases,
    BadMarks,
    BytesRead,
    BytesProgrammed,
    CorrectedBits,
    FailedCodewords,
    VirtualNs,
}

/// The cost of reads that are not yet counted.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ReadCost {
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
    pub(crate) ns: u64,
}

impl AddAssign for ReadCost {
    fn add_assign(&mut self, other: Self) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.ns += other.ns;
    }
}

impl Tally {
    /// Counts reads; returns the number of the first one.
    pub(crate) fn add_reads(&self, cost: ReadCost) -> u64 {
        self.add(Count::VirtualNs, cost.ns);
        self.add(Count::BytesRead, cost.bytes);
        self.add(Count::PageReads, cost.pages)
    }

    pub(crate) fn of(counters: &Counters) -> Self {
        let values = [
            counters.page_reads,
            counters.page_programs,
            counters.erases,
            counters.bad_marks,
            counters.bytes_read,
            counters.bytes_programmed,
            counters.corrected_bits,
            counters.failed_codewords,
            counters.virtual_ns,
        ];
        Self { cells: values.map(AtomicU64::new) }
    }

    /// Adds `amount` and returns the previous value.
    pub(crate) fn add(&self, count: Count, amount: u64) -> u64 {
        self.cells[count as usize].fetch_add(amount, Ordering::Relaxed)
    }

    pub(crate) fn set(&self, counters: &Counters) {
        for (cell, value) in self.cells.iter().zip(Self::of(counters).cells) {
            cell.store(value.into_inner(), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> Counters {
        let value = |count: Count| self.cells[count as usize].load(Ordering::Relaxed);
        Counters {
            page_reads: value(Count::PageReads),
            page_programs: value(Count::PagePrograms),
            erases: value(Count::Erases),
            bad_marks: value(Count::BadMarks),
            bytes_read: value(Count::BytesRead),
            bytes_programmed: value(Count::BytesProgrammed),
            corrected_bits: value(Count::CorrectedBits),
            failed_codewords: value(Count::FailedCodewords),
            virtual_ns: value(Count::VirtualNs),
        }
    }
}
