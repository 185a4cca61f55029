//! The list of a block's nodes, collected while the block is filled and written at its end
//! (spec: jffs2 5.7, 16).

use super::nodelist::{NodeRef, RefKind, RefState};
use super::state::State;
use eraseblock_jffs2_format::summary::{self, Record, RecordNode, Summary};
use eraseblock_mtd::MtdError;
use eraseblock_vfs::FsError;

/// Maximum number of bytes of records in a summary.
const MAX_RECORDS: u32 = 65_536;

/// Records of the nodes of the open block.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    records: Vec<Record>,
    size: u32,
    is_active: bool,
}

impl Collector {
    /// Starts with an empty block.
    pub(crate) fn start(&mut self, active: bool) {
        self.records.clear();
        self.size = 0;
        self.is_active = active;
    }

    /// Records that the open block gets no summary.
    pub(crate) fn stop(&mut self) {
        self.start(false);
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

    /// Adds the record of a written node.
    pub(crate) fn add(&mut self, record: Record) {
        if self.is_active {
            self.size += record.len();
            self.records.push(record);
            self.is_active = self.size <= MAX_RECORDS;
        }
    }

    fn is_useful(&self) -> bool {
        self.is_active && !self.records.is_empty()
    }
}

/// Returns the number of bytes that the record of a node takes in a summary.
pub(crate) fn record_len(kind: RefKind, name: usize) -> u32 {
    match kind {
        RefKind::Inode | RefKind::Broken | RefKind::Xattr => 18,
        RefKind::Dirent => 24 + name as u32,
        RefKind::Xref => 6,
        RefKind::Copy | RefKind::Filler => 0,
    }
}

impl State {
    /// Fills the rest of the open block with its summary, if it gets one.
    pub(crate) fn write_summary(&mut self, block: u32) -> Result<(), FsError> {
        let free = self.blocks.get(block).sizes.free;
        let fits = self.summary.is_useful() && free >= self.summary.needed(0);
        if !fits || self.blocks.get(block).without_summary {
            self.summary.stop();
            return Ok(());
        }
        let offset = self.flash.block - free;
        let records = std::mem::take(&mut self.summary.records);
        let node = Summary { offset, cleanmarker: self.marker_of(block), records };
        self.summary.stop();
        let mut bytes = Vec::with_capacity(free as usize);
        summary::encode(self.flash.order, &node, self.flash.block, &mut bytes);
        let place = self.flash.start(block) + offset;
        match self.write_flash(place, &bytes) {
            Ok(()) => {
                let node = NodeRef::new(place, free, RefKind::Filler, 0, RefState::Normal);
                self.blocks.append(block, node);
                Ok(())
            }
            Err(error) => self.write_failed(block, error),
        }
    }

    /// Returns the length of the cleanmarker at the start of a block; 0 if it has none. A block
    /// written by another system may lack one even on a medium with cleanmarkers.
    fn marker_of(&self, block: u32) -> u32 {
        let (start, marker) = (self.flash.start(block), self.flash.cleanmarker());
        let refs = &self.blocks.get(block).refs;
        let has = refs.iter().any(|node| {
            node.kind() == RefKind::Filler && node.place() == start && node.len() == marker
        });
        if has { marker } else { 0 }
    }

    /// Returns the records of a block that was written before mounting and will be continued;
    /// `None` if it must not get a summary.
    pub(crate) fn records_of(&self, block: u32) -> Result<Option<Vec<Record>>, MtdError> {
        let entry = self.blocks.get(block);
        let mut records = Vec::with_capacity(entry.refs.len());
        for node in &entry.refs {
            if node.kind() == RefKind::Copy {
                return Ok(None);
            }
            if node.kind() == RefKind::Filler {
                continue;
            }
            let mut bytes = vec![0; node.len() as usize];
            self.read_flash(node.place(), &mut bytes)?;
            let at = self.flash.location(node.place());
            let order = self.flash.order;
            let Ok(header) = eraseblock_jffs2_format::decode::header(order, &bytes, at) else {
                return Ok(None);
            };
            let Some(bytes) = bytes.get(..header.totlen as usize) else { return Ok(None) };
            let offset = node.place() % self.flash.block;
            match Record::of(order, header.kind(), bytes, offset) {
                Ok(Some(record)) => records.push(record),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
        Ok(Some(records))
    }
}

/// Returns the record of a node about to be written.
pub(crate) fn record(place: u32, block: u32, totlen: u32, node: RecordNode) -> Record {
    Record { offset: place % block, totlen, node }
}
