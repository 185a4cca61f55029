//! The LEB properties tree in memory, loaded on demand and written to flash (layer 3; spec:
//! ubifs-runtime 12; ubifs-format 11).
//!
//! `lprops` stores the properties themselves; this module stores the positions of their leaves.
//!
//! # Invariants
//! 1. A loaded node has a loaded parent; a dirty node has dirty ancestors.
//! 2. The old copy of a dirty node is counted as dirty in `ltab`, and its place is forgotten.
//! 3. Nodes referred to by the last master are not erased before the next master is on flash: LEBs
//!    that became free are `held` until then, and not written to.

mod commit;
mod gc;

use super::error::{Fault, Step, at};
use super::flash::Flash;
use super::place::Place;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::Master;
use eraseblock_ubifs_format::constants::sb_flags;
use eraseblock_ubifs_format::lpt::{LebProps, Lsave, Nnode, Pnode, SaveTable, SpaceTable};

/// A node of the tree; the content of leaves is in `lprops`.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Nothing if it was never written, or is dirty.
    place: Option<Place>,
    loaded: bool,
    dirty: bool,
}

/// Space of one LEB of the LPT area.
#[derive(Clone, Copy, Debug)]
struct Row {
    free: u32,
    dirty: u32,
    /// Became free, but is needed by the last commit; erased when the next master is written.
    held: bool,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Lpt {
    /// Leaves first, the root in the last level.
    levels: Vec<Vec<Slot>>,
    ltab: Vec<Row>,
    pub(super) head: Place,
    pub(super) ltab_at: Place,
    pub(super) lsave_at: Place,
    /// Whether the old copies of the tables are counted as dirty.
    tables_dirty: bool,
    /// Entries of the save table.
    pub(super) lsave: Vec<u32>,
    /// Bytes of the whole tree with its tables and waste.
    whole: u64,
}

impl Lpt {
    /// Returns the tree of a master node: root place and space table.
    pub(super) fn load(flash: &Flash, master: &Master) -> Step<Self> {
        let geometry = &flash.lpt;
        let mut levels = vec![vec![Slot::default(); geometry.pnode_cnt as usize]];
        for count in geometry.nnodes_per_level() {
            levels.push(vec![Slot::default(); count as usize]);
        }
        if let Some(root) = levels.last_mut().and_then(|level| level.first_mut()) {
            root.place = Place::on_flash(master.lpt_lnum, master.lpt_offs);
        }
        let mut lpt = Self {
            levels,
            ltab: Vec::new(),
            head: Place { leb: master.nhead_lnum, offset: master.nhead_offs },
            ltab_at: Place { leb: master.ltab_lnum, offset: master.ltab_offs },
            lsave_at: Place { leb: master.lsave_lnum, offset: master.lsave_offs },
            tables_dirty: false,
            lsave: Vec::new(),
            whole: geometry.total_size(Lsave::IfBig),
        };
        lpt.load_tables(flash)?;
        Ok(lpt)
    }

    fn load_tables(&mut self, flash: &Flash) -> Step<()> {
        let geometry = &flash.lpt;
        let needed = (2 * self.whole).div_ceil(u64::from(flash.leb_size));
        if !geometry.fits() || needed > u64::from(flash.sb.lpt_lebs) {
            let message = format!("the LPT area needs {needed} LEBs");
            return Err(Fault::refused(at(flash.sb.lpt_first(), 0), "lpt-too-small", message));
        }
        let bytes = read_node(flash, self.ltab_at, geometry.ltab_size as u32)?;
        let table = SpaceTable::unpack(&bytes, geometry, self.ltab_at.location())?;
        let row = |&(free, dirty): &(u32, u32)| Row { free, dirty, held: false };
        self.ltab = table.lebs.iter().map(row).collect();
        if flash.sb.has(sb_flags::BIG_LPT) {
            let bytes = read_node(flash, self.lsave_at, geometry.lsave_size as u32)?;
            let table = SaveTable::unpack(&bytes, geometry, self.lsave_at.location())?;
            self.lsave = table.lebs.iter().map(|leb| leb.get()).collect();
        }
        Ok(())
    }

    fn row(&mut self, flash: &Flash, leb: u32) -> Step<&mut Row> {
        let index = leb.wrapping_sub(flash.sb.lpt_first()) as usize;
        let missing = Fault::refused(at(leb, 0), "lpt-corrupt", "not a LEB of the LPT area");
        self.ltab.get_mut(index).ok_or(missing)
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let nodes: usize = self.levels.iter().map(Vec::capacity).sum();
        nodes * size_of::<Slot>()
            + self.ltab.capacity() * size_of::<Row>()
            + self.lsave.capacity() * size_of::<u32>()
    }

    pub(super) fn is_loaded(&self, pnode: usize) -> bool {
        self.levels[0].get(pnode).is_some_and(|slot| slot.loaded)
    }

    /// Returns whether anything waits to be written.
    pub(super) fn is_dirty(&self) -> bool {
        self.levels.last().is_some_and(|level| level[0].dirty)
    }

    /// Returns the place of the root.
    pub(super) fn root(&self) -> Option<Place> {
        self.levels.last().and_then(|level| level[0].place)
    }

    /// Loads an inner node, its ancestors first.
    fn load_nnode(&mut self, flash: &Flash, level: usize, index: usize) -> Step<()> {
        if self.levels[level][index].loaded {
            return Ok(());
        }
        if level + 1 < self.levels.len() {
            self.load_nnode(flash, level + 1, index / 4)?;
        }
        if let Some(place) = self.levels[level][index].place {
            let bytes = read_node(flash, place, flash.lpt.nnode_size)?;
            let number = flash.lpt.nnode_number(level as u32, index as u32);
            let nnode = Nnode::unpack(&bytes, &flash.lpt, number, level as u32, place.location())?;
            for (slot, branch) in nnode.branches.iter().enumerate() {
                let child = self.levels[level - 1].get_mut(index * 4 + slot);
                if let (Some(child), Some(branch)) = (child, branch) {
                    child.place = Place::on_flash(branch.leb.get(), branch.offset);
                }
            }
        }
        self.levels[level][index].loaded = true;
        Ok(())
    }

    /// Loads a leaf and returns its content.
    pub(super) fn load_pnode(&mut self, flash: &Flash, index: usize) -> Step<[LebProps; 4]> {
        self.load_nnode(flash, 1, index / 4)?;
        let props = match self.levels[0][index].place {
            None => [LebProps::empty(flash.leb_size); 4],
            Some(place) => {
                let bytes = read_node(flash, place, flash.lpt.pnode_size)?;
                Pnode::unpack(&bytes, &flash.lpt, index as u32, place.location())?.lebs
            }
        };
        self.levels[0][index].loaded = true;
        Ok(props)
    }

    /// Marks a leaf and its ancestors dirty.
    pub(super) fn dirty_pnode(&mut self, flash: &Flash, index: usize) -> Step<()> {
        self.dirty_node(flash, 0, index)
    }

    fn dirty_node(&mut self, flash: &Flash, level: usize, index: usize) -> Step<()> {
        let (mut level, mut index) = (level, index);
        while level < self.levels.len() && !self.levels[level][index].dirty {
            if let Some(place) = self.levels[level][index].place {
                let size = if level == 0 { flash.lpt.pnode_size } else { flash.lpt.nnode_size };
                self.row(flash, place.leb)?.dirty += size;
            }
            let slot = &mut self.levels[level][index];
            slot.dirty = true;
            slot.place = None;
            level += 1;
            index /= 4;
        }
        if level == self.levels.len() && !self.tables_dirty {
            self.tables_dirty = true;
            let leb = self.ltab_at.leb;
            self.row(flash, leb)?.dirty += flash.lpt.ltab_size as u32;
            if flash.sb.has(sb_flags::BIG_LPT) {
                let leb = self.lsave_at.leb;
                self.row(flash, leb)?.dirty += flash.lpt.lsave_size as u32;
            }
        }
        Ok(())
    }

    /// Erases remains of an interrupted commit in unused LEBs, at a mount for writing.
    pub(super) fn clean_unused(&self, flash: &mut Flash) -> Step<()> {
        for (leb, row) in (flash.sb.lpt_first()..).zip(&self.ltab) {
            if row.free == flash.leb_size && flash.device().is_mapped(Leb::new(leb))? {
                flash.unmap(leb)?;
            }
        }
        Ok(())
    }

    /// Returns the free bytes of each LEB of the area, for the space fix-up.
    pub(super) fn free_of_lebs(&self) -> Vec<u32> {
        self.ltab.iter().map(|row| row.free).collect()
    }
}

fn read_node(flash: &Flash, place: Place, len: u32) -> Step<Vec<u8>> {
    if place.offset.saturating_add(len) > flash.leb_size {
        return Err(Fault::refused(place.location(), "lpt-corrupt", "an LPT node leaves its LEB"));
    }
    let mut bytes = vec![0; len as usize];
    flash.read_near(place.leb, place.offset, &mut bytes)?;
    Ok(bytes)
}
