//! The main area while it is filled with consecutive nodes, LEB by LEB.
//!
//! # Invariants
//! 1. `props` has one entry per complete LEB, from the first of the main area; the current LEB
//!    comes next.
//! 2. Sequence numbers are assigned in the order in which nodes are placed.
//! 3. LEBs beyond the limit of the volume are only counted and not passed to the sink.

use super::error::MkfsError;
use super::sink::LebSink;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::layout::Layout;
use eraseblock_ubifs_format::lpt::LebProps;
use sha2::{Digest, Sha256};

/// The position of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) leb: Leb,
    pub(super) offset: u32,
}

pub(super) struct MainArea<'s> {
    pub(super) sink: &'s mut dyn LebSink,
    pub(super) props: Vec<LebProps>,
    layout: Layout,
    buffer: Vec<u8>,
    holds_index: bool,
    next_sqnum: u64,
    digest: Sha256,
}

impl<'s> MainArea<'s> {
    pub(super) fn new(sink: &'s mut dyn LebSink, layout: &Layout, first_sqnum: u64) -> Self {
        Self {
            sink,
            props: Vec::new(),
            layout: *layout,
            buffer: Vec::with_capacity(layout.leb_size as usize),
            holds_index: false,
            next_sqnum: first_sqnum,
            digest: Sha256::new(),
        }
    }

    /// Returns the next sequence number and uses it up.
    pub(super) fn sqnum(&mut self) -> u64 {
        self.next_sqnum += 1;
        self.next_sqnum - 1
    }

    /// Places a node and seals it with the next sequence number.
    pub(super) fn place(&mut self, node: &[u8]) -> Result<Place, MkfsError> {
        let mut offset = encode::start(&mut self.buffer);
        if offset + node.len() > self.layout.leb_size as usize {
            self.flush()?;
            offset = 0;
        }
        self.buffer.extend_from_slice(node);
        let sqnum = self.sqnum();
        encode::seal(&mut self.buffer[offset..], sqnum);
        // Checksum, sequence number and length represent the node: equal contents, equal UUIDs.
        self.digest.update(&self.buffer[offset + 4..offset + 20]);
        Ok(Place { leb: self.current(), offset: offset as u32 })
    }

    /// Ends the data LEBs, reserves one for garbage collection and begins the index LEBs. Returns
    /// the reserved LEB.
    pub(super) fn begin_index(&mut self) -> Result<Leb, MkfsError> {
        self.flush()?;
        let gc = self.current();
        self.props.push(LebProps::empty(self.layout.leb_size));
        self.holds_index = true;
        Ok(gc)
    }

    /// Writes the current LEB if it is not empty.
    pub(super) fn flush(&mut self) -> Result<(), MkfsError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let used = encode::start(&mut self.buffer) as u32;
        encode::pad(&mut self.buffer, self.layout.min_io);
        let end = self.buffer.len() as u32;
        let leb = self.current();
        if leb.get() < self.layout.max_leb_cnt {
            self.sink.write_leb(leb, &self.buffer).map_err(MkfsError::Sink)?;
        }
        self.props.push(LebProps {
            free: self.layout.leb_size - end,
            dirty: end - used,
            index: self.holds_index,
        });
        self.buffer.clear();
        Ok(())
    }

    /// Writes a LEB outside the main area that holds one node, which is padded.
    pub(super) fn write_alone(&mut self, leb: Leb, node: &mut Vec<u8>) -> Result<(), MkfsError> {
        encode::pad(node, self.layout.min_io);
        self.sink.write_leb(leb, node).map_err(MkfsError::Sink)
    }

    /// Returns the number of LEBs that are complete.
    pub(super) fn lebs(&self) -> u32 {
        self.props.len() as u32
    }

    /// Returns a digest of all nodes placed.
    pub(super) fn digest(&self) -> Sha256 {
        self.digest.clone()
    }

    fn current(&self) -> Leb {
        Leb::new(self.layout.main_first().get().saturating_add(self.lebs()))
    }
}
