//! Accounting of reserved eraseblocks (spec: ubi 11.3).
//!
//! # Invariants
//! 1. `available + reserved + bad-block reserve = good - corrupted`.

/// Blocks reserved for moving a LEB, and for changing one atomically.
const MANDATORY: u32 = 2;

/// The accounts of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Accounting {
    /// Blocks that are not reserved.
    pub(crate) available: u32,
    /// Blocks of volumes, the volume table included, and the mandatory reserves.
    pub(crate) reserved: u32,
    /// Blocks reserved to replace bad ones.
    pub(crate) beb_reserved: u32,
    /// The number of such blocks that should be reserved.
    pub(crate) beb_level: u32,
    pub(crate) good: u32,
    pub(crate) bad: u32,
    pub(crate) corrupted: u32,
    /// Maximum number of bad blocks expected in the life of the chip; 0 without bad blocks.
    pub(crate) bad_limit: u32,
}

impl Accounting {
    /// Opens the accounts; the error is the number of blocks missing.
    pub(crate) fn open(
        mut self,
        volume_lebs: u64,
        further_reserve: u32,
    ) -> Result<Self, (u64, u64)> {
        let there = self.good.saturating_sub(self.corrupted);
        let needed = volume_lebs + u64::from(MANDATORY) + u64::from(further_reserve);
        let reserved = u32::try_from(needed).ok().filter(|needed| *needed <= there);
        let Some(reserved) = reserved else { return Err((needed, u64::from(there))) };
        self.reserved = reserved;
        self.available = there - reserved;
        self.beb_level = self.bad_limit.saturating_sub(self.bad);
        self.top_up();
        Ok(self)
    }

    fn top_up(&mut self) {
        let more = self.beb_level.saturating_sub(self.beb_reserved).min(self.available);
        self.available -= more;
        self.beb_reserved += more;
    }

    /// Reserves blocks; the error is the number available.
    pub(crate) fn reserve(&mut self, count: u32) -> Result<(), u32> {
        if count > self.available {
            return Err(self.available);
        }
        self.available -= count;
        self.reserved += count;
        Ok(())
    }

    /// Releases blocks; the bad-block reserve is refilled first.
    pub(crate) fn release(&mut self, count: u32) {
        let count = count.min(self.reserved);
        self.reserved -= count;
        self.available += count;
        self.top_up();
    }

    /// Accounts for a block that has gone bad; returns `false` if nothing can replace it.
    pub(crate) fn lose_block(&mut self) -> bool {
        if self.beb_reserved > 0 {
            self.beb_reserved -= 1;
        } else if self.available > 0 {
            self.available -= 1;
        } else {
            return false;
        }
        self.good -= 1;
        self.bad += 1;
        self.beb_level = self.bad_limit.saturating_sub(self.bad);
        true
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let promised = self.available + self.reserved + self.beb_reserved;
        if promised == self.good.saturating_sub(self.corrupted) {
            return Ok(());
        }
        Err(format!(
            "the books do not balance: {} blocks available, {} reserved and {} kept for bad ones, \
             of {} good ones less {} corrupted",
            self.available, self.reserved, self.beb_reserved, self.good, self.corrupted
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_and_reserves() {
        let books = Accounting { good: 20, bad: 1, bad_limit: 3, ..Accounting::default() };
        let mut books = books.open(10, 0).unwrap();
        assert_eq!((books.available, books.reserved, books.beb_reserved), (6, 12, 2));
        assert_eq!(books.reserve(7), Err(6));
        books.reserve(6).unwrap();
        assert!(books.lose_block() && books.lose_block());
        assert!(!books.lose_block(), "nothing left to replace it");
        books.check().unwrap();
        books.release(2);
        assert_eq!((books.available, books.beb_reserved), (2, 0), "the level is 0 by now");
        assert!(books.lose_block());
        books.check().unwrap();
        assert_eq!(Accounting::default().open(1, 0), Err((3, 0)));
    }
}
