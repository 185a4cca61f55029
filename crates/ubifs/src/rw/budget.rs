//! Space reservations: accepted data can always be written (spec: ubifs-runtime 15).
//!
//! # Invariants
//! 1. Each dirty page and each dirty inode holds exactly one reservation; between operations
//!    nothing else does.
//! 2. At a clean unmount all growth counters but the index's are zero.

use super::core::Core;
use super::error::{Fault, Step};
use super::flash::{Flash, HEADS, MAX_DATA_NODE, align8};
use super::lprops::Category;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_vfs::StatFs;
use eraseblock_vfs::caller::{self, Caller};

/// Number of attempts to free space before giving up.
const ROUNDS: u32 = 4;

/// The fraction of all LEBs that a commit must free to be worthwhile: one in this many.
const WORTH_A_COMMIT: i64 = 100;

/// Root, for whom the whole reserved pool is available, and the group that no pool is for.
const ROOT: u32 = 0;

/// The maximum that an operation will write (spec: ubifs-runtime 8.13, 15.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Request {
    pub(super) new_pages: u32,
    pub(super) dirtied_pages: u32,
    pub(super) new_inodes: u32,
    /// Inline data of new inodes.
    pub(super) new_data: u32,
    pub(super) new_dents: u32,
    pub(super) changed_dents: u32,
    pub(super) dirtied_inodes: u32,
    /// Inline data of dirtied inodes.
    pub(super) dirtied_data: u32,
}

/// Bytes of a request, by purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    index: i64,
    data: i64,
    replaced: i64,
}

/// The current reservations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    index_growth: i64,
    data_growth: i64,
    replaced_growth: i64,
    /// Maximum growth of the index by completed operations since the last commit.
    pub(super) uncommitted_index: i64,
    /// Size of the index at the last commit.
    pub(super) old_index: i64,
}

impl Budget {
    /// Creates an empty budget; the index on flash has this size.
    pub(super) fn new(index_size: u64) -> Self {
        Self { old_index: index_size.cast_signed(), ..Self::default() }
    }
}

impl Request {
    /// One dirty page that is new to its file, as far as is known.
    pub(super) const NEW_PAGE: Self = Self {
        new_pages: 1,
        dirtied_pages: 0,
        new_inodes: 0,
        new_data: 0,
        new_dents: 0,
        changed_dents: 0,
        dirtied_inodes: 0,
        dirtied_data: 0,
    };
    /// One dirty page that replaces another.
    pub(super) const DIRTIED_PAGE: Self = Self { new_pages: 0, dirtied_pages: 1, ..Self::NEW_PAGE };

    /// Returns the request for a dirty inode with this many bytes of inline data.
    pub(super) fn dirty_inode(data: usize) -> Self {
        let dirtied_data = align8(data as u32);
        Self { new_pages: 0, dirtied_inodes: 1, dirtied_data, ..Self::NEW_PAGE }
    }

    fn growth(&self, flash: &Flash) -> Growth {
        let bytes = |count: u32, size: u32| i64::from(count) * i64::from(size);
        let indexed = self.new_inodes + self.new_pages + self.new_dents;
        Growth {
            index: bytes(indexed, flash.max_idx_node),
            data: bytes(self.new_inodes, 160)
                + bytes(self.new_pages, MAX_DATA_NODE)
                + bytes(self.new_dents, 312)
                + i64::from(self.new_data),
            replaced: bytes(self.dirtied_pages, MAX_DATA_NODE)
                + bytes(self.dirtied_inodes, 160)
                + bytes(self.changed_dents, 312)
                + i64::from(self.dirtied_data),
        }
    }
}

impl Core {
    /// Returns the number of LEBs the index may need (spec: ubifs-runtime 15.4).
    pub(super) fn min_idx_lebs(&self) -> i64 {
        self.idx_lebs_after(&self.budget)
    }

    /// Returns the number of LEBs the index may need with these reservations.
    fn idx_lebs_after(&self, budget: &Budget) -> i64 {
        let Budget { index_growth, uncommitted_index, old_index, .. } = *budget;
        let size = i64::from(self.flash.leb_size - self.flash.max_idx_node).max(1);
        let index = 3 * (old_index + index_growth + uncommitted_index);
        ((index + size - 1) / size + 1).max(2)
    }

    /// Returns whether a commit would free enough space to be worth its writes. Until the next
    /// commit, every completed operation counts as if it had extended the index, even if its data
    /// was deleted again, and LEBs with only dead inodes stay in use.
    pub(super) fn is_space_waiting(&self) -> bool {
        let dirty = self.tnc.dirty_count as u64 * u64::from(self.flash.max_idx_node);
        let index = (self.tnc.index_size + dirty).cast_signed();
        let committed = Budget { uncommitted_index: 0, old_index: index, ..self.budget };
        let saved = self.min_idx_lebs() - self.idx_lebs_after(&committed);
        let waiting = saved + self.held.len().cast_signed() as i64;
        waiting > i64::from(self.flash.main_lebs()) / WORTH_A_COMMIT
    }

    /// Returns the number of bytes that can be reserved for content (spec: ubifs-runtime 15.5).
    fn available(&self, min_idx_lebs: i64) -> i64 {
        let stats = &self.lprops.stats;
        let size = i64::from(self.flash.leb_size);
        let reserved = min_idx_lebs + 1 + i64::from(HEADS) + 1;
        let spread = (stats.idx_lebs - min_idx_lebs).max(0) * i64::from(self.flash.dark_wm);
        let main = i64::from(self.flash.main_lebs()) * size;
        let left = main
            - stats.total_used
            - reserved * size
            - stats.total_dead
            - stats.total_dark
            - spread;
        left.max(0)
    }

    /// Returns the number of LEBs that are or will be empty without garbage collection.
    pub(super) fn spare_lebs(&self) -> i64 {
        let stats = &self.lprops.stats;
        stats.empty_lebs
            + self.lprops.set(Category::Freeable).len().cast_signed() as i64
            + self.gc.queued.len().cast_signed() as i64
            - stats.taken_empty_lebs
    }

    /// Returns the number of LEBs that must stay empty for the index.
    pub(super) fn reserved_idx_lebs(&self) -> i64 {
        (self.min_idx_lebs() - self.lprops.stats.idx_lebs).max(0)
    }

    fn is_admissible(&self) -> bool {
        let min_idx_lebs = self.min_idx_lebs();
        let reserved = (min_idx_lebs - self.lprops.stats.idx_lebs).max(0);
        let outstanding = self.budget.data_growth + self.budget.replaced_growth;
        let left = self.available(min_idx_lebs) - outstanding;
        let pool = self.flash.sb.rp_size.cast_signed();
        reserved <= self.spare_lebs() && left >= 0 && (left > pool || self.may_use_pool())
    }

    /// Returns whether the caller may use the reserved pool (spec: ubifs-runtime 15.6).
    fn may_use_pool(&self) -> bool {
        let sb = &self.flash.sb;
        caller::current().is_none_or(|Caller { uid, gid }| {
            uid == ROOT || uid == sb.rp_uid || gid == sb.rp_gid && gid != ROOT
        })
    }

    fn promise(&mut self, request: &Request, sign: i64) {
        let growth = request.growth(&self.flash);
        self.budget.index_growth += sign * growth.index;
        self.budget.data_growth += sign * growth.data;
        self.budget.replaced_growth += sign * growth.replaced;
    }

    /// Reserves space for an operation; frees some if necessary.
    pub(super) fn budget(&mut self, request: &Request) -> Step<()> {
        self.flash.check_writable()?;
        self.promise(request, 1);
        if self.is_admissible() {
            return Ok(());
        }
        let mut rounds = 0;
        while rounds < 2 * ROUNDS {
            let pages = self.pages.len();
            let made = self.make_space();
            // Write-back ends by itself; the space it frees shows only later.
            rounds += u32::from(self.pages.len() >= pages);
            let fits = self.is_admissible();
            match made {
                _ if fits => return Ok(()),
                Ok(()) => {}
                Err(fault) if fault.is_no_space() => break,
                Err(fault) => {
                    self.promise(request, -1);
                    return Err(fault);
                }
            }
        }
        self.promise(request, -1);
        Err(Fault::no_space())
    }

    /// Tries once to free space: write-back, garbage collection, commit (spec: ubifs-runtime 15.7).
    fn make_space(&mut self) -> Step<()> {
        let before = self.budget.data_growth + self.budget.replaced_growth;
        self.write_back_oldest(16)?;
        if self.budget.data_growth + self.budget.replaced_growth < before {
            return Ok(());
        }
        match self.collect_garbage(true) {
            Ok(leb) => {
                self.lprops.set_taken(&self.flash, leb, false)?;
                return Ok(());
            }
            Err(Fault::CommitFirst) => {}
            Err(fault) if fault.is_no_space() => {}
            Err(fault) => return Err(fault),
        }
        if self.has_uncommitted() {
            return self.commit();
        }
        Err(Fault::no_space())
    }

    /// Ends the reservation of a completed operation: its bytes are written, its index entries wait
    /// for a commit.
    pub(super) fn release(&mut self, request: &Request) {
        self.promise(request, -1);
        self.budget.uncommitted_index += request.growth(&self.flash).index;
    }

    /// Cancels the reservation of an abandoned operation.
    pub(super) fn cancel(&mut self, request: &Request) {
        self.promise(request, -1);
    }

    /// Records that a commit has begun: the index will have this size.
    pub(super) fn budget_committed(&mut self, index_size: u64) {
        self.budget.old_index = index_size.cast_signed();
        self.budget.uncommitted_index = 0;
    }

    /// Returns whether no reservation is left (invariant 2).
    pub(super) fn owes_nothing(&self) -> bool {
        let Budget { index_growth, data_growth, replaced_growth, .. } = self.budget;
        (index_growth, data_growth, replaced_growth) == (0, 0, 0)
    }

    /// Returns sizes as Linux reports them (spec: ubifs-runtime 15.9).
    pub(super) fn stat_space(&self) -> StatFs {
        let flash = &self.flash;
        let block = i64::from(BLOCK_SIZE);
        let overhead = i64::from(flash.leb_size % MAX_DATA_NODE);
        let fanout = i64::from(flash.sb.fanout);
        let half = if fanout <= 3 { 2 } else { fanout / 2 };
        let divisor = i64::from(MAX_DATA_NODE) + 3 * i64::from(flash.max_idx_node) / (half - 1);
        let reported = |bytes: i64| {
            let product = i128::from(bytes.max(0)) * i128::from(block) / i128::from(divisor);
            i64::try_from(product).unwrap_or(i64::MAX)
        };
        let lebs = i64::from(flash.main_lebs()) - 4 - i64::from(HEADS);
        let blocks = reported(lebs * (i64::from(flash.leb_size) - overhead)) / block;
        let min_idx_lebs = self.min_idx_lebs();
        let reserved = (min_idx_lebs - self.lprops.stats.idx_lebs).max(0);
        let spare = (self.spare_lebs() - reserved).max(0);
        let outstanding = self.budget.data_growth + self.budget.replaced_growth;
        let free = self.available(min_idx_lebs) + spare * (i64::from(flash.dark_wm) - overhead)
            - outstanding;
        let pool = reported(flash.sb.rp_size.cast_signed());
        let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
        StatFs {
            block_size: BLOCK_SIZE,
            blocks: unsigned(blocks),
            blocks_free: unsigned(reported(free) / block),
            blocks_available: unsigned((reported(free) - pool) / block),
            name_max: 255,
        }
    }
}
