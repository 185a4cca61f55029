//! Finds LEBs for each purpose (layer 3; spec: ubifs-runtime 13.9, 13.10, 14.4).
//!
//! # Invariants
//! 1. A LEB that is returned is taken; the caller makes it available again if it does not use it.
//! 2. A LEB that is returned as empty was unmapped after it was taken: its old content may not be
//!    read as a part of its new one.

use super::error::Step;
use super::flash::Flash;
use super::lprops::{Category, Listed, Lp, Lprops, Use};
use super::place::Place;
use super::supply::Supply;

/// Which LEBs a journal head prefers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Prefer {
    Empty,
    /// Partly used ones, so that small nodes fill them up.
    PartlyUsed,
}

/// Whether a victim may be a LEB that is already empty or has no live nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Empties {
    Count,
    /// They do not free more space; only the index may still need them.
    DoNotCount,
}

/// The least space that makes a LEB worth collecting, and what is known about empty ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) min_space: u32,
    pub(super) empties: Empties,
    pub(super) supply: Supply,
}

impl Lprops {
    /// Takes a LEB with `len` free bytes at its end; returns the start of its free space, or
    /// nothing if garbage must be collected first.
    pub(super) fn find_room(
        &mut self,
        flash: &mut Flash,
        supply: Supply,
        len: u32,
        prefer: Prefer,
    ) -> Step<Option<Place>> {
        let empty = if supply.may_give_empty(self) { self.an_empty_leb() } else { None };
        let partly = self.a_free_leb(len);
        let chosen = match prefer {
            Prefer::Empty => empty.or(partly),
            Prefer::PartlyUsed => partly.or(empty),
        };
        let chosen = match chosen.or_else(|| self.a_dirty_leb(flash, len)) {
            Some(leb) => Some(leb),
            None => self.scan_for_room(flash, supply, len)?,
        };
        let Some(leb) = chosen else { return Ok(None) };
        self.set_use(flash, leb, Use::Taken)?;
        let offset = flash.leb_size - self.get(flash, leb)?.free;
        if offset == 0 {
            flash.unmap(leb)?;
        }
        Ok(Some(Place { leb, offset }))
    }

    fn an_empty_leb(&self) -> Option<u32> {
        self.set(Category::Empty).first().map(|listed| listed.leb)
    }

    fn a_free_leb(&self, len: u32) -> Option<u32> {
        let roomiest = self.set(Category::Free).last()?;
        (roomiest.space >= len).then_some(roomiest.leb)
    }

    fn a_dirty_leb(&mut self, flash: &Flash, len: u32) -> Option<u32> {
        let lebs: Vec<u32> =
            self.set(Category::Dirty).iter().rev().map(|listed| listed.leb).collect();
        lebs.into_iter().find(|leb| self.get(flash, *leb).is_ok_and(|lp| lp.free >= len))
    }

    /// Searches the LEBs that are not loaded yet.
    fn scan_for_room(&mut self, flash: &Flash, supply: Supply, len: u32) -> Step<Option<u32>> {
        let may_be_empty = supply.may_give_empty(self);
        let size = flash.leb_size;
        self.scan(flash, |lp| {
            let is_empty = lp.free == size;
            let is_freeable = !is_empty && lp.reclaimable() == size;
            !lp.index && lp.free >= len && !is_freeable && (may_be_empty || !is_empty)
        })
    }

    /// Takes an empty LEB for the index and marks it as such.
    pub(super) fn find_index_leb(&mut self, flash: &mut Flash) -> Step<Option<u32>> {
        let known = self
            .an_empty_leb()
            .or_else(|| self.set(Category::Freeable).first().map(|listed| listed.leb));
        let size = flash.leb_size;
        let leb = if let Some(leb) = known {
            leb
        } else {
            let good = |lp: &Lp| !lp.index && lp.reclaimable() == size;
            match self.scan(flash, good)? {
                Some(leb) => leb,
                None => return Ok(None),
            }
        };
        self.update(flash, leb, |lp| {
            lp.free = size;
            lp.dirty = 0;
            lp.taken = true;
            lp.index = true;
        })?;
        flash.unmap(leb)?;
        Ok(Some(leb))
    }

    /// Takes the LEB that is most worth collecting, or one that is already empty.
    pub(super) fn find_victim(&mut self, flash: &Flash, wanted: Wanted) -> Step<Option<u32>> {
        let chosen = self.choose_victim(flash, wanted)?;
        if let Some(leb) = chosen {
            self.set_use(flash, leb, Use::Taken)?;
        }
        Ok(chosen)
    }

    fn choose_victim(&mut self, flash: &Flash, wanted: Wanted) -> Step<Option<u32>> {
        let Wanted { min_space, empties, supply } = wanted;
        let any_empty = empties == Empties::Count;
        if any_empty
            && supply.may_give_empty(self)
            && let Some(leb) = self.an_empty_leb()
        {
            return Ok(Some(leb));
        }
        if (any_empty || supply.reserved_idx_lebs(self) > 0)
            && let Some(listed) = self.set(Category::Freeable).first()
        {
            return Ok(Some(listed.leb));
        }
        let may_take_index = supply.may_take_index(self);
        let index = if may_take_index { self.dirtiest_index(flash, min_space) } else { None };
        let best = match (self.dirtiest(flash, min_space), index) {
            (Some(data), Some(index)) if data.space > index.space => Some(data),
            (data, index) => index.or(data),
        };
        match best {
            Some(candidate) => Ok(Some(candidate.leb)),
            None => self.scan_for_victim(flash, min_space, may_take_index),
        }
    }

    /// Returns the index LEB with the most space, at least half a LEB.
    fn dirtiest_index(&self, flash: &Flash, min_space: u32) -> Option<Listed> {
        let dirtiest = self.set(Category::DirtyIndex).last().copied()?;
        (dirtiest.space >= min_space.max(flash.leb_size / 2)).then_some(dirtiest)
    }

    /// Returns the LEB with the most reclaimable space among those with the most dirty bytes.
    fn dirtiest(&mut self, flash: &Flash, min_space: u32) -> Option<Listed> {
        let lebs: Vec<u32> =
            self.set(Category::Dirty).iter().rev().take(16).map(|listed| listed.leb).collect();
        let candidates = lebs.into_iter().filter_map(|leb| {
            let space = self.get(flash, leb).ok()?.reclaimable();
            (space >= min_space).then_some(Listed { space, leb })
        });
        candidates.max()
    }

    fn scan_for_victim(
        &mut self,
        flash: &Flash,
        min_space: u32,
        may_take_index: bool,
    ) -> Step<Option<u32>> {
        let (dead, size) = (flash.dead_wm, flash.leb_size);
        self.scan(flash, |lp| {
            let is_spare = lp.reclaimable() == size;
            if lp.index {
                return may_take_index && !is_spare && lp.reclaimable() >= min_space.max(size / 2);
            }
            !is_spare && lp.dirty >= dead && lp.reclaimable() >= min_space
        })
    }
}
