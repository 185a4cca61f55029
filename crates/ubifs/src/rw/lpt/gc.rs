//! Frees space in the LPT area (layer 3; spec: ubifs-runtime 12.6, 12.8).

use super::Lpt;
use crate::rw::error::Step;
use crate::rw::flash::Flash;

/// A node of the tree by level (0 for leaves) and index in it.
pub(in crate::rw) type NodeId = (usize, usize);

impl Lpt {
    /// Marks a loaded node and its ancestors dirty.
    pub(in crate::rw) fn dirty(&mut self, flash: &Flash, (level, index): NodeId) -> Step<()> {
        self.dirty_node(flash, level, index)
    }

    /// Returns the LEB whose collection frees most.
    pub(in crate::rw) fn victim(&self, flash: &Flash) -> Option<u32> {
        let head = self.head.leb;
        (flash.sb.lpt_first()..)
            .zip(&self.ltab)
            .filter(|(leb, row)| {
                *leb != head && row.dirty > 0 && row.free + row.dirty < flash.leb_size
            })
            .max_by_key(|(leb, row)| (row.dirty, *leb))
            .map(|(leb, _)| leb)
    }

    /// Returns the nodes in a LEB; loads inner nodes for that.
    pub(in crate::rw) fn nodes_in(&mut self, flash: &Flash, leb: u32) -> Step<Vec<NodeId>> {
        let mut found = Vec::new();
        let top = self.levels.len() - 1;
        for level in (1..=top).rev() {
            for index in 0..self.levels[level].len() {
                self.load_nnode(flash, level, index)?;
            }
        }
        for (level, slots) in self.levels.iter().enumerate() {
            let here = slots
                .iter()
                .enumerate()
                .filter(|(_, slot)| slot.place.is_some_and(|place| place.leb == leb));
            found.extend(here.map(|(index, _)| (level, index)));
        }
        if self.ltab_at.leb == leb || self.lsave_at.leb == leb {
            found.push((top, 0));
        }
        Ok(found)
    }
}
