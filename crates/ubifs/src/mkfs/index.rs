//! The index over all leaves, bottom up (spec: ubifs-format 9, 17.5).

use super::area::MainArea;
use super::error::MkfsError;
use eraseblock_base::{Leb, align};
use eraseblock_ubifs_format::Branch;
use eraseblock_ubifs_format::constants::NODE_ALIGN;
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::layout::Layout;

/// The finished index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    /// The root node.
    pub(super) root: Branch,
    /// The LEB reserved for garbage collection.
    pub(super) gc: Leb,
    /// Bytes of all index nodes, each rounded up to 8.
    pub(super) size: u64,
}

/// Sorts the leaves, at least one, and writes the index over them.
pub(super) fn write(
    area: &mut MainArea<'_>,
    layout: &Layout,
    mut leaves: Vec<Branch>,
) -> Result<Index, MkfsError> {
    // Equal keys were written in the order of their names: so places order them.
    leaves.sort_unstable_by_key(|leaf| (leaf.key, leaf.leb, leaf.offset));
    let gc = area.begin_index()?;
    let mut size = 0;
    let mut node = Vec::new();
    let mut below = leaves;
    for level in 0.. {
        let mut above = Vec::with_capacity(below.len().div_ceil(layout.fanout as usize));
        for children in below.chunks(layout.fanout as usize) {
            node.clear();
            encode::index(&mut node, level, children, Seal::single(0));
            let place = area.place(&node)?;
            let len = node.len() as u32;
            size += u64::from(align::align_up(len, NODE_ALIGN));
            above.push(Branch { key: children[0].key, leb: place.leb, offset: place.offset, len });
        }
        below = above;
        if below.len() == 1 {
            break;
        }
    }
    area.flush()?;
    Ok(Index { root: below[0], gc, size })
}
