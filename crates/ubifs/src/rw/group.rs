//! The nodes of one operation on their way to the base head (layer 6; spec: ubifs-runtime 7.6,
//! 8.1).
//!
//! # Invariants
//! 1. Every node but the last is marked as part of a group, the last as its end: a replay drops a
//!    group that a power cut left without its end, so that an operation happens completely or not
//!    at all.

use super::error::Step;
use super::flash::align8;
use super::nodes::Nodes;
use super::place::Written;
use super::wbuf::Head;
use eraseblock_ubifs_format::constants::group;
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::raw::{CommonHeader, DentNode, InodeNode, TruncationNode};
use eraseblock_ubifs_format::{Dent, Inode, Truncation};
use std::mem::offset_of;

/// Length of an inode node without inline data.
pub(super) const INODE_LEN: u32 = InodeNode::SIZE as u32;
/// Length of a truncation node.
pub(super) const TRUNCATION_LEN: u32 = TruncationNode::SIZE as u32;
/// Length of an entry node with an empty name, including the byte after the name.
const DENT_LEN: u32 = DentNode::SIZE as u32 + 1;

/// Whether a node is the last one of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Follow {
    /// More nodes follow.
    More,
    /// It is the last one.
    Last,
}

impl Follow {
    /// Returns the mark of the node at `index` of `len`, after which nothing follows.
    pub(super) fn of(index: usize, len: usize) -> Self {
        if index + 1 == len { Self::Last } else { Self::More }
    }

    fn mark(self) -> u8 {
        match self {
            Self::More => group::IN,
            Self::Last => group::LAST,
        }
    }
}

/// When a group becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Durable {
    /// With the write buffer.
    Later,
    /// Before the operation returns.
    Now,
}

impl Durable {
    /// Returns `Now` if `is_sync`.
    pub(super) fn now_if(is_sync: bool) -> Self {
        if is_sync { Self::Now } else { Self::Later }
    }
}

/// A node of a group: its start in the group's buffer and its exact length.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u32,
    len: u32,
}

/// Nodes of one operation.
#[derive(Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

/// Returns the length of an entry node with this name.
pub(super) fn dent_len(name: &[u8]) -> u32 {
    align8(DENT_LEN + name.len() as u32)
}

/// Returns the length of an inode node with this much inline data.
pub(super) fn inode_len(data: usize) -> u32 {
    align8(INODE_LEN + data as u32)
}

impl Group {
    fn added(&mut self, start: usize) {
        let len = (self.bytes.len() - start) as u32;
        self.parts.push(Part { start: start as u32, len });
    }

    fn seal(nodes: &mut Nodes, follow: Follow) -> Step<Seal> {
        Ok(Seal { sqnum: nodes.next_sqnum()?, group: follow.mark() })
    }

    pub(super) fn add_dent(&mut self, nodes: &mut Nodes, dent: &Dent<'_>) -> Step<()> {
        let seal = Self::seal(nodes, Follow::More)?;
        let start = encode::start(&mut self.bytes);
        encode::dent(&mut self.bytes, dent, seal);
        self.added(start);
        Ok(())
    }

    pub(super) fn add_inode(
        &mut self,
        nodes: &mut Nodes,
        inode: &Inode<'_>,
        follow: Follow,
    ) -> Step<()> {
        let seal = Self::seal(nodes, follow)?;
        let start = encode::start(&mut self.bytes);
        encode::inode(&mut self.bytes, inode, seal);
        self.added(start);
        Ok(())
    }

    pub(super) fn add_truncation(
        &mut self,
        nodes: &mut Nodes,
        node: &Truncation,
        follow: Follow,
    ) -> Step<()> {
        let seal = Self::seal(nodes, follow)?;
        let start = encode::start(&mut self.bytes);
        encode::truncation(&mut self.bytes, node, seal);
        self.added(start);
        Ok(())
    }

    /// Adds a data node that is complete except for its sequence number, as the last of its group.
    pub(super) fn add_last_data(&mut self, nodes: &mut Nodes, framed: &[u8]) -> Step<()> {
        let sqnum = nodes.next_sqnum()?;
        let start = encode::start(&mut self.bytes);
        self.bytes.extend_from_slice(framed);
        self.bytes[start + offset_of!(CommonHeader, group_type)] = Follow::Last.mark();
        encode::seal(&mut self.bytes[start..], sqnum);
        self.added(start);
        Ok(())
    }

    /// Writes the group to the base head, in reserved space; returns the places of its nodes. The
    /// durability of `inos` depends on it.
    pub(super) fn write(
        &self,
        nodes: &mut Nodes,
        inos: &[u32],
        durable: Durable,
    ) -> Step<Vec<Written>> {
        let Nodes { flash, lprops, journal, .. } = &mut *nodes;
        let first = journal.append(flash, lprops, Head::Base, &self.bytes)?;
        match durable {
            Durable::Now => nodes.sync_head(Head::Base)?,
            Durable::Later => journal.depends(Head::Base, inos),
        }
        let written = |part: &Part| Written { place: first.after(part.start), len: part.len };
        Ok(self.parts.iter().map(written).collect())
    }
}
