//! The LEB properties tree, bit by bit (spec: ubifs-format 11).
//!
//! [`LptGeometry`] has every width and size that follows from the superblock; [`Pnode`], [`Nnode`],
//! [`SpaceTable`] and [`SaveTable`] are packed and unpacked with it; [`fresh`] lays out a whole new
//! tree.
//!
//! # Invariants
//! 1. A [`LptGeometry`] has fields of at most 32 bits, node sizes that fit a LEB and a height of at
//!    most [`MAX_HEIGHT`], regardless of its inputs.
//! 2. Unpacking never reads past the given slice and returns only values within the limits of the
//!    specification's 11.10.

pub mod bits;
pub mod fresh;
mod node;

pub use fresh::{FreshLpt, LptPlace};
pub use node::{LebProps, LptError, LptNodeKind, Nnode, NnodeBranch, Pnode, SaveTable, SpaceTable};

use crate::constants::LPT_FANOUT;
use eraseblock_base::{Leb, align};

/// No tree of 32-bit LEB numbers is higher.
pub const MAX_HEIGHT: u32 = 16;

/// Whether the table of LEBs to save is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lsave {
    /// Also for the small model, which has none: Linux plans with it.
    Always,
    /// For the big model alone, which has one.
    IfBig,
}

/// The inputs of the geometry of a tree, all from the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LptInputs {
    /// Bytes in a LEB.
    pub leb_size: u32,
    /// Minimum I/O unit in bytes.
    pub min_io: u32,
    /// Current number of LEBs of the main area.
    pub main_lebs: u32,
    /// Current number of LEBs of the volume.
    pub leb_cnt: u32,
    /// Maximum number of LEBs of the volume; at least `leb_cnt`.
    pub max_leb_cnt: u32,
    /// First LEB of the LPT area.
    pub lpt_first: Leb,
    /// LEBs of the LPT area.
    pub lpt_lebs: u32,
    /// LEB numbers in the save table.
    pub lsave_cnt: u32,
    /// Whether the big model is used.
    pub big: bool,
}

/// Bit widths, node sizes and counts of a tree (spec: ubifs-format 11.3, 11.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LptGeometry {
    /// The inputs.
    pub inputs: LptInputs,
    /// Bits of `free` and `dirty`, stored divided by 8.
    pub space_bits: u32,
    /// Bits of an LPT LEB number relative to the first.
    pub lpt_lnum_bits: u32,
    /// Bits of an offset in an LPT LEB.
    pub lpt_offs_bits: u32,
    /// Bits of a byte count in the space table.
    pub lpt_spc_bits: u32,
    /// Bits of a node number (stored in the big model only).
    pub pcnt_bits: u32,
    /// Bits of a LEB number in the save table.
    pub lnum_bits: u32,
    /// Leaves ("pnodes") at the current size.
    pub pnode_cnt: u32,
    /// Inner nodes ("nnodes") at the current size, over `height` levels.
    pub nnode_cnt: u32,
    /// Levels of inner nodes; at least 1.
    pub height: u32,
    /// Bytes of a leaf.
    pub pnode_size: u32,
    /// Bytes of an inner node.
    pub nnode_size: u32,
    /// Bytes of the space table.
    pub ltab_size: u64,
    /// Bytes of the save table.
    pub lsave_size: u64,
}

/// Bits before every LPT node: CRC-16 and type.
const HEADER_BITS: u64 = 16 + 4;

impl LptGeometry {
    /// Computes the geometry. It may be impossible for a volume (a table larger than a LEB);
    /// [`LptGeometry::fits`] checks this.
    pub fn new(inputs: LptInputs) -> Self {
        let LptInputs { leb_size, main_lebs, leb_cnt, max_leb_cnt, lpt_lebs, lsave_cnt, .. } =
            inputs;
        let space_bits = align::bit_length(leb_size).saturating_sub(3);
        let lpt_lnum_bits = align::bit_length(lpt_lebs);
        let lpt_offs_bits = align::bit_length(leb_size.saturating_sub(1));
        let lpt_spc_bits = align::bit_length(leb_size);
        let pcnt_bits = align::bit_length(max_leb_cnt.div_ceil(LPT_FANOUT).saturating_sub(1));
        let lnum_bits = align::bit_length(max_leb_cnt.saturating_sub(1));
        let growth = max_leb_cnt.saturating_sub(leb_cnt);
        let height = height_for(main_lebs.saturating_add(growth).div_ceil(LPT_FANOUT));
        let pnode_cnt = main_lebs.div_ceil(LPT_FANOUT);
        let number_bits = u64::from(if inputs.big { pcnt_bits } else { 0 });
        let per_leb = u64::from(2 * space_bits + 1);
        let per_branch = u64::from(lpt_lnum_bits + lpt_offs_bits);
        let fanout = u64::from(LPT_FANOUT);
        let bytes = |bits: u64| (HEADER_BITS + bits).div_ceil(8);
        Self {
            inputs,
            space_bits,
            lpt_lnum_bits,
            lpt_offs_bits,
            lpt_spc_bits,
            pcnt_bits,
            lnum_bits,
            pnode_cnt,
            nnode_cnt: level_counts(pnode_cnt, height).sum(),
            height,
            pnode_size: bytes(number_bits + fanout * per_leb) as u32,
            nnode_size: bytes(number_bits + fanout * per_branch) as u32,
            ltab_size: bytes(u64::from(lpt_lebs) * 2 * u64::from(lpt_spc_bits)),
            lsave_size: bytes(u64::from(lsave_cnt) * u64::from(lnum_bits)),
        }
    }

    /// Returns whether every node and table fits a LEB.
    pub fn fits(&self) -> bool {
        let leb_size = u64::from(self.inputs.leb_size);
        let lsave = if self.inputs.big { self.lsave_size } else { 0 };
        self.ltab_size <= leb_size
            && lsave <= leb_size
            && self.pnode_size.max(self.nnode_size) <= self.inputs.leb_size
    }

    /// Returns the size in bytes of the whole tree with its tables and the waste at LEB ends, for
    /// planning. The format counts the save table only in the big model; `mkfs` always counts it,
    /// and so does `count_lsave` (spec: ubifs-format 11.7).
    pub fn total_size(&self, lsave: Lsave) -> u64 {
        let leb_size = u64::from(self.inputs.leb_size);
        let counts = lsave == Lsave::Always || self.inputs.big;
        let lsave = if counts { self.lsave_size } else { 0 };
        let size = u64::from(self.pnode_cnt) * u64::from(self.pnode_size)
            + u64::from(self.nnode_cnt) * u64::from(self.nnode_size)
            + self.ltab_size
            + lsave;
        let per_leb = u64::from(self.pnode_size.max(self.nnode_size));
        if per_leb >= leb_size {
            return u64::MAX;
        }
        // While more than a LEB is left, each full LEB wastes up to one node at its end.
        let first = size + per_leb;
        let full = first.saturating_sub(leb_size).div_ceil(leb_size - per_leb);
        let rest = first + full * per_leb - full * leb_size;
        let last = rest.next_multiple_of(u64::from(self.inputs.min_io.max(1))) - rest;
        size + (full + 1) * per_leb + last
    }

    /// Returns the number of inner nodes of each level, from the one above the leaves to the root.
    pub fn nnodes_per_level(&self) -> impl Iterator<Item = u32> {
        level_counts(self.pnode_cnt, self.height)
    }

    /// Returns the number of the `index`-th inner node of `level` (1 is just above the leaves; the
    /// root's is [`LptGeometry::height`]), spec: ubifs-format 11.6.
    pub fn nnode_number(&self, level: u32, index: u32) -> u32 {
        let depth = self.height.saturating_sub(level).min(MAX_HEIGHT - 1);
        let mut number = 1 << (2 * depth);
        for digit in 0..depth {
            number |= (index >> (2 * (depth - 1 - digit)) & 3) << (2 * digit);
        }
        number
    }
}

fn height_for(pnodes: u32) -> u32 {
    let mut height = 1;
    while height < MAX_HEIGHT && 4_u64.pow(height) < u64::from(pnodes) {
        height += 1;
    }
    height
}

fn level_counts(pnodes: u32, height: u32) -> impl Iterator<Item = u32> {
    let mut count = pnodes;
    (0..height).map(move |_| {
        count = count.div_ceil(LPT_FANOUT);
        count
    })
}

#[cfg(test)]
mod tests;
