//! Properties of each LEB of the main area, in memory: free and dirty bytes, whether it is in use,
//! and its category (layer 3; spec: ubifs-runtime 13).
//!
//! # Invariants
//! 1. `stats` are the sums over all LEBs, those not loaded from the LPT included.
//! 2. Every loaded LEB is in exactly the set of its category; LEBs that are taken are in none.
//! 3. A change of what the LPT stores marks its leaf dirty.

use super::error::{Fault, Step, at};
use super::flash::{Flash, MIN_NODE, align8};
use super::lpt::Lpt;
use eraseblock_ubifs_format::Master;
use eraseblock_ubifs_format::constants::sb_flags;
use eraseblock_ubifs_format::lpt::LebProps;
use std::collections::BTreeSet;

/// The possible uses of a LEB (spec: ubifs-runtime 13.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Category {
    Empty = 0,
    Freeable = 1,
    FreeableIndex = 2,
    DirtyIndex = 3,
    Dirty = 4,
    Free = 5,
    None = 6,
}

/// Whether a LEB may be given away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// It is in use: a journal head, the index head, the journal or a collection needs it.
    Taken,
    /// It may be chosen for another use.
    Available,
}

/// Number of sets of LEBs: one for each category except the last.
const SETS: usize = 6;

/// Properties of one LEB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lp {
    pub(super) free: u32,
    /// May temporarily exceed the LEB while the journal is replayed.
    pub(super) dirty: u32,
    pub(super) index: bool,
    pub(super) taken: bool,
    category: Category,
    /// Its space in the set of its category.
    listed: u32,
}

impl Lp {
    pub(super) const fn empty(leb_size: u32) -> Self {
        Self {
            free: leb_size,
            dirty: 0,
            index: false,
            taken: false,
            category: Category::None,
            listed: 0,
        }
    }

    pub(super) fn reclaimable(&self) -> u32 {
        self.free.saturating_add(self.dirty)
    }
}

/// Sums over the main area (spec: ubifs-runtime 13.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stats {
    pub(super) empty_lebs: i64,
    pub(super) taken_empty_lebs: i64,
    pub(super) idx_lebs: i64,
    pub(super) total_free: i64,
    pub(super) total_dirty: i64,
    pub(super) total_used: i64,
    pub(super) total_dead: i64,
    pub(super) total_dark: i64,
}

impl Stats {
    /// Returns the sums stated by a master, grown with the volume.
    pub(super) fn of_master(flash: &Flash, master: &Master) -> Self {
        let grown = i64::from(flash.leb_cnt - master.leb_cnt.min(flash.leb_cnt));
        Self {
            empty_lebs: i64::from(master.empty_lebs) + grown,
            taken_empty_lebs: 0,
            idx_lebs: i64::from(master.idx_lebs),
            total_free: master.total_free.cast_signed() + grown * i64::from(flash.leb_size),
            total_dirty: master.total_dirty.cast_signed(),
            total_used: master.total_used.cast_signed(),
            total_dead: master.total_dead.cast_signed(),
            total_dark: master.total_dark.cast_signed() + grown * i64::from(flash.dark_wm),
        }
    }

    /// Returns the sums over these LEBs, none of which is taken.
    pub(super) fn of_props(flash: &Flash, props: &[LebProps]) -> Self {
        let mut stats = Self::default();
        for &LebProps { free, dirty, index } in props {
            stats.add(flash, &Lp { free, dirty, index, ..Lp::empty(flash.leb_size) }, 1);
        }
        stats
    }

    /// Adds the contribution of a LEB, or subtracts it with `sign` -1.
    fn add(&mut self, flash: &Flash, lp: &Lp, sign: i64) {
        let (used, dead, dark) = shares(flash, lp);
        let empty = lp.free == flash.leb_size;
        self.empty_lebs += sign * i64::from(empty);
        self.taken_empty_lebs += sign * i64::from(empty && lp.taken);
        self.idx_lebs += sign * i64::from(lp.index);
        self.total_free += sign * i64::from(lp.free);
        self.total_dirty += sign * i64::from(lp.dirty);
        self.total_used += sign * used;
        self.total_dead += sign * dead;
        self.total_dark += sign * dark;
    }
}

/// LEBs whose properties one leaf of the LPT holds.
const LEBS_PER_LEAF: usize = 4;

/// A LEB and its space, ordered by space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Listed {
    pub(super) space: u32,
    pub(super) leb: u32,
}

/// The LEBs of a category.
pub(super) type BySpace = BTreeSet<Listed>;

/// LEB properties, categories and the tree they are stored in.
#[derive(Debug)]
pub(super) struct Lprops {
    pub(super) lpt: Lpt,
    lebs: Vec<Lp>,
    sets: [BySpace; SETS],
    pub(super) stats: Stats,
    /// Where the last scan for a LEB ended.
    pub(super) lscan: u32,
}

/// Returns the contribution of one LEB to the sums: (used, dead, dark).
fn shares(flash: &Flash, lp: &Lp) -> (i64, i64, i64) {
    if lp.index {
        return (0, 0, 0);
    }
    let space = lp.reclaimable();
    let used = i64::from(flash.leb_size) - i64::from(space);
    if space < flash.dead_wm {
        (used, i64::from(space), 0)
    } else {
        (used, 0, i64::from(dark(flash, space)))
    }
}

/// Returns the space at the end of a LEB that may be unusable (spec: ubifs-runtime 13.2).
pub(super) fn dark(flash: &Flash, space: u32) -> u32 {
    if space < flash.dark_wm {
        space
    } else if space - flash.dark_wm < MIN_NODE {
        space - MIN_NODE
    } else {
        flash.dark_wm
    }
}

impl Lprops {
    /// Returns the properties that `master` refers to, grown with the volume.
    pub(super) fn new(flash: &Flash, master: &Master) -> Step<Self> {
        Ok(Self {
            lpt: Lpt::load(flash, master)?,
            lebs: vec![Lp::empty(flash.leb_size); flash.main_lebs() as usize],
            sets: Default::default(),
            stats: Stats::of_master(flash, master),
            lscan: master.lscan_lnum,
        })
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let listed: usize = self.sets.iter().map(BySpace::len).sum();
        self.lpt.memory() + self.lebs.capacity() * size_of::<Lp>() + listed * size_of::<Listed>()
    }

    fn index_of(flash: &Flash, leb: u32) -> Step<usize> {
        if leb >= flash.main_first && leb < flash.leb_cnt {
            return Ok((leb - flash.main_first) as usize);
        }
        Err(Fault::refused(at(leb, 0), "leb-not-main", "not a LEB of the main area"))
    }

    /// Returns the properties of a LEB; loads them if necessary.
    pub(super) fn get(&mut self, flash: &Flash, leb: u32) -> Step<Lp> {
        let index = Self::index_of(flash, leb)?;
        if !self.lpt.is_loaded(index / LEBS_PER_LEAF) {
            self.load(flash, index / LEBS_PER_LEAF)?;
        }
        Ok(self.lebs[index])
    }

    fn load(&mut self, flash: &Flash, pnode: usize) -> Step<()> {
        let props = self.lpt.load_pnode(flash, pnode)?;
        for (slot, stored) in props.iter().enumerate() {
            let index = pnode * LEBS_PER_LEAF + slot;
            let Some(lp) = self.lebs.get_mut(index) else { break };
            lp.free = stored.free;
            lp.dirty = stored.dirty;
            lp.index = stored.index;
            self.categorize(flash, index);
        }
        Ok(())
    }

    /// Loads all properties that are not loaded yet.
    pub(super) fn load_all(&mut self, flash: &Flash) -> Step<()> {
        for pnode in 0..self.lebs.len().div_ceil(LEBS_PER_LEAF) {
            if !self.lpt.is_loaded(pnode) {
                self.load(flash, pnode)?;
            }
        }
        Ok(())
    }

    /// Changes the properties of a LEB and returns the new ones.
    pub(super) fn update(
        &mut self,
        flash: &Flash,
        leb: u32,
        change: impl FnOnce(&mut Lp),
    ) -> Step<Lp> {
        let old = self.get(flash, leb)?;
        let index = Self::index_of(flash, leb)?;
        let mut new = old;
        change(&mut new);
        debug_assert!(new.free <= flash.leb_size, "{leb}: {new:?}");
        let stored = |lp: &Lp| (lp.free, lp.dirty, lp.index);
        if stored(&old) != stored(&new) {
            self.lpt.dirty_pnode(flash, index / LEBS_PER_LEAF)?;
        }
        self.stats.add(flash, &old, -1);
        self.stats.add(flash, &new, 1);
        self.lebs[index] = new;
        self.categorize(flash, index);
        Ok(self.lebs[index])
    }

    /// Returns the sums, recounted over all LEBs.
    pub(super) fn recount(&mut self, flash: &Flash) -> Step<Stats> {
        self.load_all(flash)?;
        let mut stats = Stats::default();
        for lp in &self.lebs {
            stats.add(flash, lp, 1);
        }
        Ok(stats)
    }

    /// Asserts invariant 2.
    #[cfg(debug_assertions)]
    pub(super) fn assert_sets(&self, flash: &Flash) {
        let mut listed = 0;
        for (leb, lp) in (flash.main_first..).zip(&self.lebs) {
            let is_loaded = self.is_loaded(flash, leb);
            let expected = if is_loaded { category(flash, lp) } else { Category::None };
            assert_eq!(lp.category, expected, "LEB {leb}: {lp:?}");
            if let Some(set) = self.sets.get(lp.category as usize) {
                assert!(
                    set.contains(&Listed { space: lp.listed, leb }),
                    "LEB {leb} is in no set: {lp:?}"
                );
                listed += 1;
            }
        }
        assert_eq!(listed, self.sets.iter().map(BySpace::len).sum::<usize>(), "a LEB in two sets");
    }

    /// Returns whether the properties of a LEB are in memory.
    #[cfg(debug_assertions)]
    fn is_loaded(&self, flash: &Flash, leb: u32) -> bool {
        self.lpt.is_loaded((leb - flash.main_first) as usize / LEBS_PER_LEAF)
    }

    /// Asserts that a LEB of the main area is taken, if its properties are in memory.
    #[cfg(debug_assertions)]
    pub(super) fn assert_taken(&self, flash: &Flash, leb: u32) {
        let lp = self.lebs[(leb - flash.main_first) as usize];
        assert!(lp.taken || !self.is_loaded(flash, leb), "LEB {leb} is not taken: {lp:?}");
    }

    fn categorize(&mut self, flash: &Flash, index: usize) {
        let leb = flash.main_first + index as u32;
        let lp = &mut self.lebs[index];
        let category = category(flash, lp);
        let space = match category {
            Category::DirtyIndex => lp.reclaimable(),
            Category::Dirty => lp.dirty,
            Category::Free => lp.free,
            _ => 0,
        };
        if (category, space) == (lp.category, lp.listed) {
            return;
        }
        if let Some(set) = self.sets.get_mut(lp.category as usize) {
            set.remove(&Listed { space: lp.listed, leb });
        }
        if let Some(set) = self.sets.get_mut(category as usize) {
            set.insert(Listed { space, leb });
        }
        lp.category = category;
        lp.listed = space;
    }

    /// Returns the LEBs of a category, in the order of their space.
    pub(super) fn set(&self, category: Category) -> &BySpace {
        &self.sets[category as usize]
    }

    /// Adds dirty bytes to a LEB: `len` on the grid of nodes.
    pub(super) fn add_dirt(&mut self, flash: &Flash, leb: u32, len: u32) -> Step<()> {
        self.update(flash, leb, |lp| lp.dirty += align8(len)).map(drop)
    }

    /// Marks a LEB as in use, or makes it available.
    pub(super) fn set_use(&mut self, flash: &Flash, leb: u32, wanted: Use) -> Step<()> {
        self.update(flash, leb, |lp| lp.taken = wanted == Use::Taken).map(drop)
    }

    /// Makes a LEB empty; it stays in use if it was.
    pub(super) fn set_empty(&mut self, flash: &Flash, leb: u32) -> Step<()> {
        let size = flash.leb_size;
        self.update(flash, leb, |lp| {
            lp.free = size;
            lp.dirty = 0;
            lp.index = false;
        })
        .map(drop)
    }

    /// Returns the first LEB after the end of the last scan for which `good` holds; loads LEBs on
    /// the way.
    pub(super) fn scan(&mut self, flash: &Flash, good: impl Fn(&Lp) -> bool) -> Step<Option<u32>> {
        let count = flash.main_lebs();
        let start = self.lscan.clamp(flash.main_first, flash.leb_cnt - 1) - flash.main_first;
        for step in 1..=count {
            let leb = flash.main_first + (start + step) % count;
            let lp = self.get(flash, leb)?;
            if !lp.taken && good(&lp) {
                self.lscan = leb;
                return Ok(Some(leb));
            }
        }
        Ok(None)
    }
}

fn category(flash: &Flash, lp: &Lp) -> Category {
    if lp.taken {
        Category::None
    } else if lp.free == flash.leb_size {
        Category::Empty
    } else if lp.reclaimable() == flash.leb_size {
        if lp.index { Category::FreeableIndex } else { Category::Freeable }
    } else if lp.index {
        if lp.reclaimable() >= flash.min_idx_node { Category::DirtyIndex } else { Category::None }
    } else if lp.dirty >= flash.dead_wm && lp.dirty > lp.free {
        Category::Dirty
    } else if lp.free > 0 {
        Category::Free
    } else {
        Category::None
    }
}

impl Lprops {
    /// In the small model, marks the whole tree dirty when its space runs short, so that the commit
    /// moves all of it (spec: ubifs-runtime 12.6).
    fn make_room_small(&mut self, flash: &Flash) -> Step<()> {
        if self.lpt.is_short_of_room(flash) {
            self.load_all(flash)?;
            for pnode in 0..self.lebs.len().div_ceil(LEBS_PER_LEAF) {
                self.lpt.dirty_pnode(flash, pnode)?;
            }
        }
        Ok(())
    }

    /// In the big model, marks the nodes of the dirtiest LPT LEBs dirty until there is space for
    /// two trees after the starting commit has moved them (spec: ubifs-runtime 12.8). Marks made at
    /// the end of a commit would be lost by a power cut, and each recovery takes space.
    fn collect_lpt(&mut self, flash: &mut Flash) -> Step<()> {
        for _ in 0..flash.sb.lpt_lebs {
            if !self.lpt.is_short_of_room(flash) {
                break;
            }
            let Some(leb) = self.lpt.victim(flash) else { break };
            if let Some(big) = &mut flash.activity.big_lpt {
                big.lebs_collected += 1;
            }
            for node in self.lpt.nodes_in(flash, leb)? {
                if node.0 == 0 && !self.lpt.is_loaded(node.1) {
                    self.load(flash, node.1)?;
                }
                self.lpt.dirty(flash, node)?;
            }
        }
        Ok(())
    }

    /// Returns the LEBs for the save table, the most useful for the next mount first (12.7).
    fn fill_lsave(&mut self, flash: &Flash) {
        use Category::{Dirty, DirtyIndex, Empty, Free, Freeable, FreeableIndex};
        let sets = [Empty, Freeable, FreeableIndex, DirtyIndex, Dirty, Free];
        let worth =
            sets.into_iter().flat_map(|set| self.set(set).iter().rev().map(|listed| listed.leb));
        let mut lebs: Vec<u32> = worth.take(flash.sb.lsave_cnt as usize).collect();
        lebs.resize(flash.sb.lsave_cnt as usize, flash.main_first);
        self.lpt.lsave = lebs;
    }

    /// Loads the LEBs that the save table names; skips entries outside of the main area.
    pub(super) fn load_saved(&mut self, flash: &mut Flash) -> Step<()> {
        let mut is_used = false;
        for leb in self.lpt.lsave.clone() {
            if Self::index_of(flash, leb).is_ok() {
                self.get(flash, leb)?;
                is_used |= leb != flash.main_first;
            }
        }
        if let Some(big) = &mut flash.activity.big_lpt {
            big.save_tables_used += u64::from(is_used);
        }
        Ok(())
    }

    /// Writes the changed part of the LPT.
    pub(super) fn write(&mut self, flash: &mut Flash) -> Step<()> {
        if self.lpt.is_dirty() {
            if flash.sb.has(sb_flags::BIG_LPT) {
                self.collect_lpt(flash)?;
                self.fill_lsave(flash);
                if let Some(big) = &mut flash.activity.big_lpt {
                    big.save_tables += 1;
                }
            } else {
                self.make_room_small(flash)?;
            }
        }
        let Self { lpt, lebs, .. } = self;
        let props = |index: usize| {
            let Lp { free, dirty, index, .. } = lebs[index];
            LebProps { free, dirty, index }
        };
        lpt.write(flash, &props)
    }
}
