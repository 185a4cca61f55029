//! Finds LEBs for each purpose (spec: ubifs-runtime 13.9, 13.10, 14.4).

use super::core::Core;
use super::error::{Fault, Step};
use super::lprops::Category;

impl Core {
    /// Returns whether the journal may take an empty LEB; the index keeps those it may need.
    pub(super) fn may_give_empty(&self) -> bool {
        self.reserved_idx_lebs() < self.spare_lebs()
    }

    /// Takes a LEB with `len` free bytes at its end; returns it and the offset of its free space.
    /// With `squeeze`, prefers partly used LEBs.
    pub(super) fn find_room(&mut self, len: u32, squeeze: bool) -> Step<(u32, u32)> {
        let empty = if self.may_give_empty() { self.an_empty_leb() } else { None };
        let partly = self.a_free_leb(len);
        let chosen = if squeeze { partly.or(empty) } else { empty.or(partly) };
        let chosen = match chosen.or_else(|| self.a_dirty_leb(len)) {
            Some(leb) => Some(leb),
            None => self.scan_for_room(len)?,
        };
        let Some(leb) = chosen else { return Err(Fault::no_space()) };
        self.lprops.set_taken(&self.flash, leb, true)?;
        let offset = self.flash.leb_size - self.lprops.get(&self.flash, leb)?.free;
        if offset == 0 {
            self.flash.unmap(leb)?;
        }
        Ok((leb, offset))
    }

    fn an_empty_leb(&self) -> Option<u32> {
        self.lprops.set(Category::Empty).first().map(|(_, leb)| *leb)
    }

    fn a_free_leb(&self, len: u32) -> Option<u32> {
        let (free, leb) = self.lprops.set(Category::Free).last()?;
        (*free >= len).then_some(*leb)
    }

    fn a_dirty_leb(&mut self, len: u32) -> Option<u32> {
        let lebs: Vec<u32> =
            self.lprops.set(Category::Dirty).iter().rev().map(|(_, leb)| *leb).collect();
        let Self { lprops, flash, .. } = self;
        lebs.into_iter().find(|leb| lprops.get(flash, *leb).is_ok_and(|lp| lp.free >= len))
    }

    /// Searches the LEBs that are not loaded yet.
    fn scan_for_room(&mut self, len: u32) -> Step<Option<u32>> {
        let may_be_empty = self.may_give_empty();
        let size = self.flash.leb_size;
        self.lprops.scan(&self.flash, |lp| {
            let is_empty = lp.free == size;
            let is_freeable = !is_empty && lp.reclaimable() == size;
            !lp.index && lp.free >= len && !is_freeable && (may_be_empty || !is_empty)
        })
    }

    /// Takes an empty LEB for the index and marks it as such.
    pub(super) fn find_index_leb(&mut self) -> Step<Option<u32>> {
        let known = self
            .an_empty_leb()
            .or_else(|| self.lprops.set(Category::Freeable).first().map(|(_, leb)| *leb));
        let size = self.flash.leb_size;
        let leb = if let Some(leb) = known {
            leb
        } else {
            let good = |lp: &super::lprops::Lp| !lp.index && lp.reclaimable() == size;
            match self.lprops.scan(&self.flash, good)? {
                Some(leb) => leb,
                None => return Ok(None),
            }
        };
        self.lprops.update(&self.flash, leb, |lp| {
            lp.free = size;
            lp.dirty = 0;
            lp.taken = true;
            lp.index = true;
        })?;
        self.flash.unmap(leb)?;
        Ok(Some(leb))
    }

    /// Takes the LEB that is most worth collecting, or with `any_empty` one that is already empty.
    pub(super) fn find_victim(&mut self, min_space: u32, any_empty: bool) -> Step<Option<u32>> {
        let chosen = self.choose_victim(min_space, any_empty)?;
        if let Some(leb) = chosen {
            self.lprops.set_taken(&self.flash, leb, true)?;
        }
        Ok(chosen)
    }

    fn choose_victim(&mut self, min_space: u32, any_empty: bool) -> Step<Option<u32>> {
        if any_empty
            && self.may_give_empty()
            && let Some(leb) = self.an_empty_leb()
        {
            return Ok(Some(leb));
        }
        if (any_empty || self.reserved_idx_lebs() > 0)
            && let Some((_, leb)) = self.lprops.set(Category::Freeable).first()
        {
            return Ok(Some(*leb));
        }
        let may_take_index = self.min_idx_lebs() < self.lprops.stats.idx_lebs;
        let dirty_idx = self.lprops.set(Category::DirtyIndex).last().copied();
        let half = self.flash.leb_size / 2;
        let dirty_idx =
            dirty_idx.filter(|(space, _)| may_take_index && *space >= min_space.max(half));
        let dirty = self.dirtiest(min_space);
        let best = match (dirty, dirty_idx) {
            (Some(data), Some(index)) if data.0 > index.0 => Some(data.1),
            (_, Some(index)) => Some(index.1),
            (Some(data), None) => Some(data.1),
            (None, None) => None,
        };
        match best {
            Some(leb) => Ok(Some(leb)),
            None => self.scan_for_victim(min_space, may_take_index),
        }
    }

    /// Returns the LEB with the most reclaimable space among those with the most dirty bytes.
    fn dirtiest(&mut self, min_space: u32) -> Option<(u32, u32)> {
        let lebs: Vec<u32> =
            self.lprops.set(Category::Dirty).iter().rev().take(16).map(|(_, leb)| *leb).collect();
        let Self { lprops, flash, .. } = self;
        let spaces = lebs.into_iter().filter_map(|leb| {
            let lp = lprops.get(flash, leb).ok()?;
            (lp.reclaimable() >= min_space).then_some((lp.reclaimable(), leb))
        });
        spaces.max()
    }

    fn scan_for_victim(&mut self, min_space: u32, may_take_index: bool) -> Step<Option<u32>> {
        let (dead, size) = (self.flash.dead_wm, self.flash.leb_size);
        self.lprops.scan(&self.flash, |lp| {
            let is_spare = lp.reclaimable() == size;
            if lp.index {
                return may_take_index && !is_spare && lp.reclaimable() >= min_space.max(size / 2);
            }
            !is_spare && lp.dirty >= dead && lp.reclaimable() >= min_space
        })
    }
}
