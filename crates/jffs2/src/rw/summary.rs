//! The list of a block's nodes, collected while the block is filled and written at its end
//! (spec: jffs2 5.7, 16).
//!
//! Layer: data. `log` writes what [`Collector::finish`] returns.
//!
//! # Invariants
//! 1. An active collector has a record of every node of the open block that must be kept.

use super::flash::Flash;
use eraseblock_jffs2_format::summary::{self, Record, RecordNode, Summary};

/// Maximum number of bytes of records in a summary.
const MAX_RECORDS: u32 = 65_536;

/// Whether full blocks get a summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Summaries {
    /// Those that can.
    Written,
    /// None.
    Omitted,
}

impl Summaries {
    /// From the option of a mount.
    pub(crate) fn new(are_wanted: bool) -> Self {
        if are_wanted { Self::Written } else { Self::Omitted }
    }
}

/// The record of a node about to be written.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) node: RecordNode,
    /// Length of the node without alignment.
    pub(crate) totlen: u32,
}

/// Records of the nodes of the open block.
#[derive(Debug)]
pub(crate) struct Collector {
    summaries: Summaries,
    records: Vec<Record>,
    size: u32,
    is_active: bool,
}

impl Collector {
    /// Without an open block.
    pub(crate) fn new(summaries: Summaries) -> Self {
        Self { summaries, records: Vec::new(), size: 0, is_active: false }
    }

    /// Returns whether full blocks get a summary.
    pub(crate) fn summaries(&self) -> Summaries {
        self.summaries
    }

    /// Starts with an empty block.
    pub(crate) fn start(&mut self) {
        self.stop();
        self.is_active = self.summaries == Summaries::Written;
    }

    /// Records that the open block gets no summary.
    pub(crate) fn stop(&mut self) {
        self.records.clear();
        self.size = 0;
        self.is_active = false;
    }

    /// Continues a block that already holds these nodes.
    pub(crate) fn resume(&mut self, records: Vec<Record>) {
        self.size = records.iter().map(Record::len).sum();
        self.records = records;
        self.is_active = true;
    }

    /// Returns the number of bytes to keep free for a summary with one more record of `record`
    /// bytes.
    pub(crate) fn needed(&self, record: u32) -> u32 {
        if self.is_active { summary::needed(self.size + record) } else { 0 }
    }

    /// Adds the record of a node written at an offset of the open block.
    pub(crate) fn add(&mut self, offset: u32, listed: &Listed) {
        if self.is_active {
            let Listed { node, totlen } = listed.clone();
            let record = Record { offset, totlen, node };
            self.size += record.len();
            self.records.push(record);
            self.is_active = self.size <= MAX_RECORDS;
        }
    }

    /// Ends the open block. Returns the node that fills its `free` last bytes, if it gets a
    /// summary; `cleanmarker` is the length of the block's cleanmarker.
    pub(crate) fn finish(&mut self, flash: &Flash, free: u32, cleanmarker: u32) -> Option<Vec<u8>> {
        let fits = self.is_active && !self.records.is_empty() && free >= self.needed(0);
        let records = std::mem::take(&mut self.records);
        self.stop();
        fits.then(|| {
            let node = Summary { offset: flash.block - free, cleanmarker, records };
            let mut bytes = Vec::with_capacity(free as usize);
            summary::encode(flash.order, &node, flash.block, &mut bytes);
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mount would have to hold the records of a longer one.
    #[test]
    fn a_summary_that_becomes_too_long_is_given_up() {
        let mut collector = Collector::new(Summaries::Written);
        collector.start();
        let listed = Listed { node: RecordNode::Inode { ino: 2, version: 1 }, totlen: 68 };
        let most = MAX_RECORDS / RecordNode::INODE_LEN;
        for number in 0..most {
            collector.add(number * 68, &listed);
        }
        assert!(collector.needed(0) > 0, "it fits so far");
        collector.add(most * 68, &listed);
        assert_eq!(collector.needed(0), 0, "no space is kept for it");
    }
}
