//! Finds the nodes of a LEB (spec: ubifs-format 3.6; ubifs-runtime 3.8, 3.9, 17.2).
//!
//! # Invariants
//! 1. A [`Scanner`] advances by at least 8 bytes with every item, so it terminates.
//! 2. A problem ends the scan; it never yields a node after a problem.

use crate::constants::{NODE_ALIGN, NODE_MAGIC, NodeType, PADDING_BYTE};
use crate::decode::{self, Limits, Node};
use crate::error::FormatError;
use eraseblock_base::align::{checked_align_up, is_erased};
use eraseblock_base::{Leb, Location};

/// The reason why a scan stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Erased flash, or the end of the LEB.
    End,
    /// Neither a node nor padding.
    Garbage,
    /// The magic is right, but the node is not valid.
    Corrupt(FormatError),
    /// A padding node that leaves the LEB or the grid of 8 bytes.
    BadPadding(FormatError),
}

/// Iterates over the nodes of one LEB.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    leb: Leb,
    bytes: &'a [u8],
    limits: Limits,
    offset: u32,
    stop: Option<Stop>,
}

impl<'a> Scanner<'a> {
    /// Scans `bytes`, which is all of LEB `leb`, from `start`, which must be a multiple of 8.
    pub fn new(leb: Leb, bytes: &'a [u8], start: u32, limits: Limits) -> Self {
        Self { leb, bytes, limits, offset: start, stop: None }
    }

    /// Returns the current position; after the scan has stopped, its end point.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Returns the reason why the scan stopped, or `None` if it has not.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Returns the bytes from the current position to the end of the LEB.
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.offset as usize..).unwrap_or_default()
    }

    fn step(&mut self) -> Result<Option<Node<'a>>, Stop> {
        let rest = self.rest();
        let Some((word, _)) = rest.split_first_chunk::<4>() else { return Err(Stop::End) };
        if rest.len() < 8 {
            return Err(Stop::End);
        }
        match u32::from_le_bytes(*word) {
            u32::MAX => return Err(Stop::End),
            NODE_MAGIC => {}
            _ => {
                let run = rest.iter().take(28).take_while(|byte| **byte == PADDING_BYTE).count();
                // Nodes begin at multiples of 8, so the length of a run is one, too. The data after
                // it may begin with the same byte by chance: a torn page after a page that ends
                // with padding.
                let run = run - run % NODE_ALIGN as usize;
                if run == 0 {
                    return Err(Stop::Garbage);
                }
                self.offset += run as u32;
                return Ok(None);
            }
        }
        if rest.len() < 24 {
            return Err(Stop::Garbage);
        }
        let at = Location::Leb(self.leb, self.offset);
        let node = decode::node(rest, &self.limits, at).map_err(Stop::Corrupt)?;
        let len = node.header.len;
        if node.header.node_type == NodeType::Padding {
            let unused =
                node.padding(self.offset, self.bytes.len() as u32).map_err(Stop::BadPadding)?;
            self.offset += len + unused;
            return Ok(None);
        }
        self.offset = (self.offset + len.next_multiple_of(NODE_ALIGN)).min(self.bytes.len() as u32);
        Ok(Some(node))
    }

    /// Returns the error of a strict scan: for anything but a clean end at a multiple of `min_io`
    /// that is followed by erased flash (spec: ubifs-runtime 3.9). Call it after the scan has
    /// stopped.
    pub fn strict_error(&self, min_io: u32) -> Option<FormatError> {
        let at = Location::Leb(self.leb, self.offset);
        let garbage = |found| FormatError::Magic { at, found };
        match self.stop.as_ref()? {
            Stop::Corrupt(error) | Stop::BadPadding(error) => Some(error.clone()),
            Stop::Garbage => {
                Some(garbage(self.rest().first_chunk().map_or(0, |word| u32::from_le_bytes(*word))))
            }
            Stop::End if !is_erased(self.rest()) => {
                let after = self.rest().iter().position(|byte| *byte != 0xFF).unwrap_or(0);
                let at = Location::Leb(self.leb, self.offset + after as u32);
                Some(FormatError::NotErased { at })
            }
            Stop::End if !self.offset.is_multiple_of(min_io) => {
                Some(FormatError::Misaligned { at, unit: min_io })
            }
            Stop::End => None,
        }
    }

    /// Returns whether a power cut explains the damage at which the scan stopped: only erased flash
    /// follows its write unit (spec: ubifs-runtime 17.2). True for a clean end.
    pub fn is_torn(&self, max_write: u32) -> bool {
        let erased_from = |from: u64| {
            let from = checked_align_up(from, max_write.max(1).into()).unwrap_or(u64::MAX);
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            is_erased(self.bytes.get(from..).unwrap_or_default())
        };
        let position = u64::from(self.offset);
        match &self.stop {
            None => false,
            Some(Stop::End | Stop::Garbage | Stop::BadPadding(_)) => erased_from(position + 1),
            Some(Stop::Corrupt(_)) => {
                let at = Location::Leb(self.leb, self.offset);
                let whole = decode::header(self.rest(), &self.limits, at)
                    .ok()
                    .filter(|header| header.len as usize <= self.rest().len());
                erased_from(position + 24)
                    || whole.is_some_and(|header| erased_from(position + u64::from(header.len)))
            }
        }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = (u32, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.stop.is_none() {
            let offset = self.offset;
            match self.step() {
                Ok(Some(node)) => return Some((offset, node)),
                Ok(None) => {}
                Err(stop) => self.stop = Some(stop),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
