//! Finds the nodes of an eraseblock exactly as Linux does (spec: jffs2 12.2), so that both see the
//! same nodes.
//!
//! # Invariants
//! 1. A [`Scanner`] advances by at least 4 bytes with every step, so it terminates.
//! 2. Every byte of the block belongs to exactly one [`Item`].

use crate::constants::{HEADER_LEN, MAGIC, pad};
use crate::decode;
use crate::node::{Header, NodeKind};
use eraseblock_base::align::is_erased;
use eraseblock_base::{ByteOrder, Location, Peb};

/// The number of bytes that Linux checks before it treats a block as empty.
const FIRST_LOOK: usize = 256;
/// The number of bytes that must be erased in a block with a cleanmarker to treat it as empty.
const MARKED_LOOK: usize = FIRST_LOOK / 8;

/// The parameters of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanRules {
    /// The image's byte order.
    pub order: ByteOrder,
    /// Length of the cleanmarkers of the medium, 0 if it has none; `None` accepts any.
    pub cleanmarker: Option<u32>,
    /// Whether a block with erased first bytes is treated as empty without reading further, as
    /// Linux does. Only correct if the positions of blocks are known.
    pub trust_empty_start: bool,
}

/// A part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A node with a valid header that lies completely inside the block. Its other checksums are
    /// not checked yet.
    Node {
        /// The offset of its start.
        offset: u32,
        /// Its header.
        header: Header,
        /// The node without its alignment bytes.
        bytes: &'a [u8],
    },
    /// A node whose ACCURATE bit is cleared.
    Obsolete {
        /// The offset of its start.
        offset: u32,
        /// Its length with alignment.
        len: u32,
    },
    /// Unusable bytes: bytes that are not a node, padding, erased bytes before a node.
    Dirt {
        /// The offset of its start.
        offset: u32,
        /// Its length.
        len: u32,
        /// Whether writers leave such bytes: erased or zero bytes, padding nodes.
        expected: bool,
    },
    /// Erased up to the end of the block.
    Free {
        /// The offset of its start.
        offset: u32,
    },
}

/// Iterates over one block.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    peb: Peb,
    block: &'a [u8],
    rules: ScanRules,
    offset: usize,
}

impl<'a> Scanner<'a> {
    /// Scans `block`, the eraseblock `peb` or its existing part.
    pub fn new(peb: Peb, block: &'a [u8], rules: ScanRules) -> Self {
        Self { peb, block, rules, offset: 0 }
    }

    /// Passes bytes that no node explains.
    fn dirt(&mut self, len: usize) -> Item<'a> {
        let (offset, len) = self.pass(len);
        Item::Dirt { offset, len, expected: false }
    }

    /// Passes bytes that hold nothing, as they may.
    fn padding(&mut self, len: usize) -> Item<'a> {
        let (offset, len) = self.pass(len);
        Item::Dirt { offset, len, expected: true }
    }

    fn pass(&mut self, len: usize) -> (u32, u32) {
        let offset = self.offset as u32;
        let len = len.min(self.block.len() - self.offset);
        self.offset += len;
        (offset, len as u32)
    }

    fn free(&mut self) -> Item<'a> {
        let offset = core::mem::replace(&mut self.offset, self.block.len());
        Item::Free { offset: offset as u32 }
    }

    /// Returns the erased bytes from the current position.
    fn erased(&mut self) -> Item<'a> {
        let rest = &self.block[self.offset..];
        if self.rules.trust_empty_start && self.is_empty_start() {
            return self.free();
        }
        let run = erased_run(rest);
        if run == rest.len() { self.free() } else { self.padding(run) }
    }

    /// Returns whether Linux would treat the block as empty here (spec: jffs2 12.2, steps 3 and
    /// 5b).
    fn is_empty_start(&self) -> bool {
        let end = match self.offset {
            0 => FIRST_LOOK,
            offset if offset < MARKED_LOOK && self.starts_with_marker(offset) => MARKED_LOOK,
            _ => return false,
        };
        is_erased(&self.block[self.offset..end.min(self.block.len()).max(self.offset)])
    }

    fn starts_with_marker(&self, len: usize) -> bool {
        let at = Location::peb(self.peb);
        decode::header(self.rules.order, self.block, at).is_ok_and(|header| {
            header.kind() == NodeKind::Cleanmarker
                && self.rules.cleanmarker.is_none_or(|length| length == header.totlen)
                && pad(header.totlen) == Some(len as u32)
        })
    }

    fn step(&mut self) -> Item<'a> {
        let rest = &self.block[self.offset..];
        if rest.len() < HEADER_LEN as usize {
            return if is_erased(rest) { self.free() } else { self.dirt(rest.len()) };
        }
        if is_erased(&rest[..4]) {
            return self.erased();
        }
        if rest[..4] == [0; 4] {
            let words = rest.chunks_exact(4).take_while(|word| **word == [0; 4]).count();
            return self.padding(words * 4);
        }
        let at = Location::Peb(self.peb, self.offset as u32);
        let Ok(header) = decode::header(self.rules.order, rest, at) else {
            return self.dirt(4);
        };
        let Some(bytes) = rest.get(..header.totlen as usize) else {
            return self.dirt(4);
        };
        self.node(header, bytes)
    }

    fn node(&mut self, header: Header, bytes: &'a [u8]) -> Item<'a> {
        let offset = self.offset as u32;
        let padded = (bytes.len().next_multiple_of(4)).min(self.block.len() - self.offset);
        let is_marker = header.kind() == NodeKind::Cleanmarker && header.is_accurate();
        let is_right = self.rules.cleanmarker.is_none_or(|length| length == header.totlen);
        if is_marker && !(is_right && offset == 0) {
            return self.dirt(HEADER_LEN as usize);
        }
        if header.is_accurate() && header.kind() == NodeKind::Padding {
            return self.padding(padded);
        }
        self.offset += padded;
        if header.is_accurate() {
            return Item::Node { offset, header, bytes };
        }
        Item::Obsolete { offset, len: padded as u32 }
    }
}

/// Returns the length of the erased words at the start of `bytes`; all of them if only a shorter
/// erased rest follows.
fn erased_run(bytes: &[u8]) -> usize {
    let mut run = 0;
    for chunk in bytes.chunks(1024) {
        if is_erased(chunk) {
            run += chunk.len();
            continue;
        }
        let words = chunk.chunks_exact(4).take_while(|word| is_erased(word)).count();
        return run + words * 4;
    }
    run
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Item<'a>;

    /// Returns the next part; consecutive bytes that are not a node form one part.
    fn next(&mut self) -> Option<Item<'a>> {
        if self.offset >= self.block.len() {
            return None;
        }
        let first = self.step();
        let Item::Dirt { offset, expected: false, .. } = first else { return Some(first) };
        while self.offset < self.block.len() {
            let before = self.offset;
            if !matches!(self.step(), Item::Dirt { expected: false, .. }) {
                self.offset = before;
                break;
            }
        }
        let len = self.offset as u32 - offset;
        Some(Item::Dirt { offset, len, expected: false })
    }
}

/// Returns the byte order and header if a node starts at `bytes`.
pub fn header_order(bytes: &[u8]) -> Option<(ByteOrder, Header)> {
    let order = match bytes.first_chunk()? {
        magic if *magic == MAGIC.to_le_bytes() => ByteOrder::Little,
        magic if *magic == MAGIC.to_be_bytes() => ByteOrder::Big,
        _ => return None,
    };
    let header = decode::header(order, bytes, Location::Whole).ok()?;
    Some((order, header))
}

#[cfg(test)]
mod tests;
