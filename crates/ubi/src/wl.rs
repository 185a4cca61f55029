//! Wear levelling: the state of every eraseblock, and which one to use (spec: ubi 14).
//!
//! # Invariants
//! 1. Every eraseblock is in exactly one [`Place`]; the sets, the protection queue and the work
//!    queue hold exactly the blocks whose place says so.
//! 2. Blocks in a set are ordered by (erase counter, number), with the counter of the table.
//! 3. At most one item of work is a move.

pub(crate) mod mover;
mod set;
mod work;

use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_ubi_format::fastmap::ANCHOR_RANGE;
use set::PebSet;
use std::collections::VecDeque;

/// Slots of the protection queue: a block must not be moved for this many erases after it was
/// handed out.
const PROTECTION: usize = 10;

/// The state of an eraseblock (spec: ubi 14.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    /// Erased, with its erase-counter header.
    Free,
    /// Holds a LEB.
    Used,
    /// Holds a LEB and was handed out recently.
    Protected,
    /// Holds a LEB and must be moved.
    Scrub,
    /// Holds a LEB that could not be read when it had to be moved.
    Erroneous,
    /// Waits to be erased.
    Erase,
    /// Free, for new data.
    UserPool,
    /// Free, for LEBs that are moved.
    MovePool,
    /// Free, for the next fastmap's super block.
    Anchor,
    /// Holds a part of the fastmap.
    Fastmap,
    /// Held by the current operation.
    Held,
    /// Damaged or foreign: left untouched.
    Corrupted,
    /// Marked bad.
    Bad,
}

/// How a block is erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Erasing {
    /// At once.
    Plain,
    /// After a torture test, because an operation on it has failed.
    Tortured,
}

/// Background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Erase a block.
    Erase {
        peb: Peb,
        erasing: Erasing,
        /// The LEB it held, if known.
        owner: Option<(VolumeId, Leb)>,
    },
    /// Move a LEB, to level wear or because of bit flips.
    Move,
}

/// The distribution of blocks while a fastmap is in use (spec: ubi 16.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shares {
    /// Maximum number of blocks of the user pool.
    pub(crate) user: usize,
    /// Maximum number of blocks of the pool for moves.
    pub(crate) moves: usize,
    /// Free blocks reserved for the fastmap itself.
    pub(crate) keep: usize,
    /// Free blocks not used for moves, to replace bad ones.
    pub(crate) reserve: usize,
}

/// All eraseblocks of the device.
#[derive(Debug)]
pub(crate) struct Wl {
    ec: Vec<u32>,
    place: Vec<Place>,
    pub(crate) free: PebSet,
    pub(crate) used: PebSet,
    pub(crate) scrub: PebSet,
    pub(crate) erroneous: PebSet,
    /// User pool, pool for moves, anchor, fastmap.
    lines: [VecDeque<Peb>; 4],
    /// If set, blocks are taken from the pools only.
    pub(crate) shares: Option<Shares>,
    /// Blocks whose counter on flash may be higher than known.
    unsure: Vec<bool>,
    queue: [Vec<Peb>; PROTECTION],
    head: usize,
    works: VecDeque<Work>,
    /// Wear is levelled when two erase counters differ by this much.
    pub(crate) threshold: u32,
}

impl Wl {
    /// Creates the state for blocks with these erase counters, none of them in use.
    pub(crate) fn new(ec: Vec<u32>, threshold: u32) -> Self {
        Self {
            place: vec![Place::Held; ec.len()],
            unsure: vec![false; ec.len()],
            ec,
            lines: Default::default(),
            shares: None,
            free: PebSet::default(),
            used: PebSet::default(),
            scrub: PebSet::default(),
            erroneous: PebSet::default(),
            queue: Default::default(),
            head: 0,
            works: VecDeque::new(),
            threshold,
        }
    }

    pub(crate) fn ec(&self, peb: Peb) -> u32 {
        self.ec[peb.index()]
    }

    pub(crate) fn ecs(&self) -> &[u32] {
        &self.ec
    }

    pub(crate) fn place(&self, peb: Peb) -> Place {
        self.place[peb.index()]
    }

    /// Returns pending erases in their order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = Peb> + '_ {
        self.works.iter().filter_map(|work| match work {
            Work::Erase { peb, .. } => Some(*peb),
            Work::Move => None,
        })
    }

    pub(crate) fn is_unsure(&self, peb: Peb) -> bool {
        self.unsure[peb.index()]
    }

    /// Records that the counter may have risen since a fastmap was written.
    pub(crate) fn set_unsure(&mut self, peb: Peb) {
        self.unsure[peb.index()] = true;
    }

    /// Sets the counter of a block that is in no set.
    pub(crate) fn set_ec(&mut self, peb: Peb, ec: u32) {
        self.unsure[peb.index()] = false;
        debug_assert!(self.set_of(self.place(peb)).is_none(), "the order of a set would change");
        self.ec[peb.index()] = ec;
    }

    fn set_of(&mut self, place: Place) -> Option<&mut PebSet> {
        match place {
            Place::Free => Some(&mut self.free),
            Place::Used => Some(&mut self.used),
            Place::Scrub => Some(&mut self.scrub),
            Place::Erroneous => Some(&mut self.erroneous),
            _ => None,
        }
    }

    /// Returns the blocks of an unordered place.
    pub(crate) fn line(&self, place: Place) -> &VecDeque<Peb> {
        &self.lines[line_of(place).unwrap_or(0)]
    }

    /// Moves a block that was taken out to a place.
    pub(crate) fn put(&mut self, peb: Peb, place: Place) {
        debug_assert_eq!(self.place(peb), Place::Held, "{peb:?} is already somewhere");
        self.place[peb.index()] = place;
        let ec = self.ec(peb);
        if let Some(set) = self.set_of(place) {
            set.insert(ec, peb);
        }
        if let Some(line) = line_of(place) {
            self.lines[line].push_back(peb);
        }
        if place == Place::Protected {
            let slot = (self.head + PROTECTION - 1) % PROTECTION;
            self.queue[slot].push(peb);
        }
    }

    /// Removes a block from its place and returns that place.
    pub(crate) fn take(&mut self, peb: Peb) -> Place {
        let place = self.place(peb);
        let ec = self.ec(peb);
        if let Some(set) = self.set_of(place) {
            set.remove(ec, peb);
        }
        if let Some(line) = line_of(place) {
            self.lines[line].retain(|one| *one != peb);
        }
        if place == Place::Protected {
            self.queue.iter_mut().for_each(|slot| slot.retain(|one| *one != peb));
        }
        self.place[peb.index()] = Place::Held;
        place
    }

    /// Queues the erase of a block that was taken out.
    pub(crate) fn queue_erase(
        &mut self,
        peb: Peb,
        erasing: Erasing,
        owner: Option<(VolumeId, Leb)>,
    ) {
        self.put(peb, Place::Erase);
        self.works.push_back(Work::Erase { peb, erasing, owner });
    }

    /// Takes the first work that matches, or the first erase of the given LEBs.
    pub(crate) fn next_work(&mut self, filter: impl Fn(&Work) -> bool) -> Option<Work> {
        let index = self.works.iter().position(filter)?;
        self.works.remove(index)
    }

    /// Advances the protection queue after an erase: blocks that were protected long enough may be
    /// moved.
    pub(crate) fn serve_queue(&mut self) {
        for peb in std::mem::take(&mut self.queue[self.head]) {
            self.place[peb.index()] = Place::Held;
            self.put(peb, Place::Used);
        }
        self.head = (self.head + 1) % PROTECTION;
    }

    fn free_max_diff(&self) -> u32 {
        self.threshold.saturating_mul(2)
    }

    /// Returns the block a move would go to: worn, but not too much (spec: ubi 14.2).
    pub(crate) fn move_target(&self) -> Option<Peb> {
        match self.shares {
            None => self.free.near(self.free_max_diff()),
            Some(_) => self.line(Place::MovePool).front().copied(),
        }
    }

    /// Returns an unused move target to its place.
    pub(crate) fn put_back(&mut self, target: Peb) {
        let pooled = self.shares.is_some();
        self.put(target, if pooled { Place::MovePool } else { Place::Free });
    }

    /// Puts an erased block where it is needed most: the first blocks are needed for anchors.
    pub(crate) fn put_free(&mut self, peb: Peb) {
        let reserved = self.line(Place::Anchor).front().copied();
        let wanted = reserved.is_none_or(|reserved| self.worth(peb, reserved));
        if self.shares.is_none() || peb.get() >= ANCHOR_RANGE || !wanted {
            return self.put(peb, Place::Free);
        }
        if let Some(worn) = reserved {
            self.take(worn);
            self.put(worn, Place::Free);
        }
        self.put(peb, Place::Anchor);
    }

    /// Returns the protected blocks.
    pub(crate) fn protected(&self) -> impl Iterator<Item = Peb> + '_ {
        self.queue.iter().flatten().copied()
    }

    /// Returns whether a refill would bring blocks into the pool for moves.
    pub(crate) fn can_refill_moves(&self) -> bool {
        self.shares.is_some_and(|shares| self.free.len() > shares.keep + shares.reserve)
    }

    /// Returns whether a refill would bring blocks into the user pool.
    pub(crate) fn can_refill(&self) -> bool {
        let free = self.free.len() + self.line(Place::MovePool).len();
        self.shares.is_some_and(|shares| free > shares.keep)
    }

    /// Refills both pools and reserves an anchor (spec: ubi 16.4).
    pub(crate) fn refill(&mut self) {
        let Some(shares) = self.shares else { return };
        for place in [Place::UserPool, Place::MovePool, Place::Anchor] {
            for peb in self.line(place).clone() {
                self.take(peb);
                self.put(peb, Place::Free);
            }
        }
        self.reserve_anchor();
        let diff = self.free_max_diff();
        loop {
            let before = self.free.len();
            if before > shares.keep && self.line(Place::UserPool).len() < shares.user {
                self.transfer(self.free.first(), Place::UserPool);
            }
            let left = self.free.len() > shares.keep + shares.reserve;
            if left && self.line(Place::MovePool).len() < shares.moves {
                self.transfer(self.free.near(diff), Place::MovePool);
            }
            if self.free.len() == before {
                break;
            }
        }
    }

    /// Reserves the least worn free block among the first ones, unless one is already reserved.
    pub(crate) fn reserve_anchor(&mut self) {
        if self.line(Place::Anchor).is_empty() {
            let anchor = self.free.pebs().find(|peb| peb.get() < ANCHOR_RANGE);
            self.transfer(anchor, Place::Anchor);
        }
    }

    fn transfer(&mut self, peb: Option<Peb>, to: Place) {
        if let Some(peb) = peb {
            self.take(peb);
            self.put(peb, to);
        }
    }

    /// Returns the block for new data: the least worn one, so that the wear of blocks in use stays
    /// close to that of blocks whose data never changes (spec: ubi 14.3).
    pub(crate) fn data_target(&self) -> Option<Peb> {
        match self.shares {
            None => self.free.first(),
            Some(_) => self.line(Place::UserPool).front().copied(),
        }
    }

    /// Queues a move if one is due (spec: ubi 14.5).
    pub(crate) fn schedule_move(&mut self) {
        if self.is_move_due() && !self.works.contains(&Work::Move) {
            self.works.push_back(Work::Move);
        }
    }

    fn is_move_due(&self) -> bool {
        let refill = || self.free.near(self.free_max_diff());
        let refilled = || if self.can_refill_moves() { refill() } else { None };
        let Some(target) = self.move_target().or_else(refilled) else { return false };
        self.move_source(target).is_some()
    }

    /// Returns the block whose LEB should move to `target`: one that must be moved, one that
    /// occupies a block needed for the next fastmap, or one that is worn too little (spec: ubi
    /// 14.6, 16.4).
    pub(crate) fn move_source(&self, target: Peb) -> Option<Peb> {
        let worth = |used: &Peb| self.worth(*used, target);
        self.scrub
            .first()
            .or_else(|| self.blocks_anchor())
            .or_else(|| self.used.first().filter(worth))
    }

    /// Returns the least worn LEB among the first blocks, if none of these is or becomes free for a
    /// super block, or if the reserved one is worn too much.
    fn blocks_anchor(&self) -> Option<Peb> {
        self.shares?;
        let is_first = |peb: &Peb| peb.get() < ANCHOR_RANGE;
        let used = self.used.pebs().find(is_first)?;
        match self.line(Place::Anchor).front() {
            Some(anchor) => self.worth(used, *anchor).then_some(used),
            None if self.free.pebs().any(|peb| is_first(&peb)) => None,
            None => (!self.pending().any(|peb| is_first(&peb))).then_some(used),
        }
    }

    fn worth(&self, used: Peb, target: Peb) -> bool {
        self.ec(target).saturating_sub(self.ec(used)) >= self.threshold
    }

    /// Marks a block that holds a LEB for moving (spec: ubi 14.7).
    pub(crate) fn request_scrub(&mut self, peb: Peb) -> bool {
        if !matches!(self.place(peb), Place::Used | Place::Protected) {
            return false;
        }
        self.take(peb);
        self.put(peb, Place::Scrub);
        self.schedule_move();
        true
    }

    /// Checks invariants 1 to 3.
    pub(crate) fn check(&self) -> Result<(), String> {
        let queued: Vec<Peb> = self.queue.iter().flatten().copied().collect();
        let pending: Vec<Peb> = self.pending().collect();
        let lists: [(Place, Vec<Peb>); 10] = [
            (Place::UserPool, self.lines[0].iter().copied().collect()),
            (Place::MovePool, self.lines[1].iter().copied().collect()),
            (Place::Anchor, self.lines[2].iter().copied().collect()),
            (Place::Fastmap, self.lines[3].iter().copied().collect()),
            (Place::Free, self.free.pebs().collect()),
            (Place::Used, self.used.pebs().collect()),
            (Place::Scrub, self.scrub.pebs().collect()),
            (Place::Erroneous, self.erroneous.pebs().collect()),
            (Place::Protected, queued),
            (Place::Erase, pending),
        ];
        for (place, mut list) in lists {
            list.sort_unstable();
            let expected: Vec<Peb> = (0..)
                .zip(&self.place)
                .filter(|(_, one)| **one == place)
                .map(|(number, _)| Peb::new(number))
                .collect();
            if list != expected {
                return Err(format!("{place:?} lists {list:?}, expected {expected:?}"));
            }
        }
        if let Some(held) = self.place.iter().position(|place| *place == Place::Held) {
            return Err(format!("peb {held} is still held after an operation"));
        }
        let sets = [&self.free, &self.used, &self.scrub, &self.erroneous];
        if sets.iter().any(|set| !set.is_sorted_by(|peb| self.ec(peb))) {
            return Err("a set is not in the order of its erase counters".to_owned());
        }
        match self.works.iter().filter(|work| **work == Work::Move).count() {
            0 | 1 => Ok(()),
            moves => Err(format!("{moves} moves are queued, expected one at most")),
        }
    }
}

/// Returns the index of the line for a place.
fn line_of(place: Place) -> Option<usize> {
    match place {
        Place::UserPool => Some(0),
        Place::MovePool => Some(1),
        Place::Anchor => Some(2),
        Place::Fastmap => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leb_makes_room_for_the_next_super_block() {
        let mut wl = Wl::new(vec![7; 70], 4);
        wl.shares = Some(Shares { user: 2, moves: 1, keep: 0, reserve: 0 });
        (0..70).map(Peb::new).for_each(|peb| {
            let first = peb.get() < ANCHOR_RANGE;
            wl.put(peb, if first { Place::Used } else { Place::Free });
        });
        wl.refill();
        let target = wl.move_target().unwrap();
        assert!(wl.line(Place::Anchor).is_empty());
        assert_eq!(wl.move_source(target), Some(Peb::new(0)), "none of the first blocks is free");
        wl.schedule_move();
        assert_eq!(wl.next_work(|_| true), Some(Work::Move));
        wl.take(Peb::new(0));
        wl.set_ec(Peb::new(0), 8);
        wl.put_free(Peb::new(0));
        assert_eq!(wl.place(Peb::new(0)), Place::Anchor);
        assert_eq!(wl.move_source(target), None, "one is reserved");

        wl.take(Peb::new(0));
        wl.set_ec(Peb::new(0), 11);
        wl.put(Peb::new(0), Place::Anchor);
        assert_eq!(wl.move_source(target), Some(Peb::new(1)), "the reserved one is worn");
        wl.take(Peb::new(1));
        wl.put_free(Peb::new(1));
        assert_eq!((wl.place(Peb::new(0)), wl.place(Peb::new(1))), (Place::Free, Place::Anchor));
        wl.take(Peb::new(2));
        wl.put_free(Peb::new(2));
        assert_eq!(wl.place(Peb::new(2)), Place::Free, "one is enough");
        wl.check().unwrap();
    }

    /// A fastmap would be written for the pool of moves again and again, and nothing would move.
    #[test]
    fn no_move_is_due_without_a_block_to_spare() {
        for (reserve, is_due) in [(4, true), (5, false)] {
            let mut wl = Wl::new(vec![7; 70], 4);
            wl.shares = Some(Shares { user: 2, moves: 1, keep: 1, reserve });
            (0..70).map(Peb::new).for_each(|peb| {
                wl.put(peb, if peb.get() < 64 { Place::Used } else { Place::Free });
            });
            wl.request_scrub(Peb::new(3));
            let due = wl.next_work(|_| true);
            assert_eq!(due, is_due.then_some(Work::Move), "{reserve} of 6 blocks are kept");
        }
    }

    #[test]
    fn a_list_that_differs_from_the_places_is_found() {
        let mut wl = Wl::new(vec![7; 4], 4);
        (0..4).map(Peb::new).for_each(|peb| wl.put(peb, Place::Free));
        wl.check().unwrap();
        let whole = wl.place.clone();
        wl.place[2] = Place::Used;
        assert!(wl.check().unwrap_err().contains("Free"));
        wl.place = whole;
        wl.take(Peb::new(3));
        assert!(wl.check().unwrap_err().contains("held"));
        wl.put(Peb::new(3), Place::Free);
        wl.ec[1] = 9;
        assert!(wl.check().unwrap_err().contains("order"));
    }
}
