//! Space reservations: accepted data can always be written (layer 7; spec: ubifs-runtime 15).
//!
//! This module only counts. `admit` frees space for a request that is not admissible.
//!
//! # Invariants
//! 1. Each dirty page and each dirty inode holds exactly one reservation; between operations
//!    nothing else does.
//! 2. At a clean unmount all growth counters but the index's are zero.
//! 3. No counter is negative: a reservation is released or cancelled at most once.

use super::flash::{Flash, HEADS, MAX_DATA_NODE, align8};
use super::lprops::Lprops;
use super::supply::Supply;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, MAX_NAME_LEN};
use eraseblock_ubifs_format::raw::{DentNode, InodeNode};
use eraseblock_vfs::Caller;
use eraseblock_vfs::StatFs;

/// The fraction of all LEBs that a commit must free to be worthwhile: one in this many.
const WORTH_A_COMMIT: i64 = 100;

/// Root, for whom the whole reserved pool is available, and the group that no pool is for.
const ROOT: u32 = 0;

/// Inode node without inline data.
const INODE_NODE: u32 = InodeNode::SIZE as u32;
/// Largest entry node.
const MAX_DENT_NODE: u32 = (DentNode::SIZE + MAX_NAME_LEN + 1) as u32;

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
    uncommitted_index: i64,
    /// Size of the index at the last commit.
    old_index: i64,
    /// Whether the reserved pool is closed to the caller of the current operation.
    is_pool_closed: bool,
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
            data: bytes(self.new_inodes, INODE_NODE)
                + bytes(self.new_pages, MAX_DATA_NODE)
                + bytes(self.new_dents, MAX_DENT_NODE)
                + i64::from(self.new_data),
            replaced: bytes(self.dirtied_pages, MAX_DATA_NODE)
                + bytes(self.dirtied_inodes, INODE_NODE)
                + bytes(self.changed_dents, MAX_DENT_NODE)
                + i64::from(self.dirtied_data),
        }
    }
}

impl Budget {
    /// Creates an empty budget; the index on flash has this size.
    pub(super) fn new(index_size: u64) -> Self {
        Self { old_index: index_size.cast_signed(), ..Self::default() }
    }

    /// Returns the number of LEBs the index may need (spec: ubifs-runtime 15.4).
    pub(super) fn min_idx_lebs(&self, flash: &Flash) -> i64 {
        let Self { index_growth, uncommitted_index, old_index, .. } = *self;
        let size = i64::from(flash.leb_size - flash.max_idx_node).max(1);
        let index = 3 * (old_index + index_growth + uncommitted_index);
        ((index + size - 1) / size + 1).max(2)
    }

    /// Returns whether a commit would free enough space to be worth its writes, if the index then
    /// has this size and `held` LEBs become available. Until the next commit, every completed
    /// operation counts as if it had extended the index, even if its data was deleted again.
    pub(super) fn is_commit_worthwhile(&self, flash: &Flash, index_size: u64, held: usize) -> bool {
        let committed = Self { uncommitted_index: 0, old_index: index_size.cast_signed(), ..*self };
        let saved = self.min_idx_lebs(flash) - committed.min_idx_lebs(flash);
        let waiting = saved + held.cast_signed() as i64;
        waiting > i64::from(flash.main_lebs()) / WORTH_A_COMMIT
    }

    /// Returns the number of bytes that can be reserved for content (spec: ubifs-runtime 15.5).
    fn available(&self, flash: &Flash, lprops: &Lprops) -> i64 {
        let stats = &lprops.stats;
        let min_idx_lebs = self.min_idx_lebs(flash);
        let size = i64::from(flash.leb_size);
        let reserved = min_idx_lebs + 1 + i64::from(HEADS) + 1;
        let spread = (stats.idx_lebs - min_idx_lebs).max(0) * i64::from(flash.dark_wm);
        let main = i64::from(flash.main_lebs()) * size;
        let left = main
            - stats.total_used
            - reserved * size
            - stats.total_dead
            - stats.total_dark
            - spread;
        left.max(0)
    }

    /// Returns the number of bytes promised for content.
    pub(super) fn outstanding(&self) -> i64 {
        self.data_growth + self.replaced_growth
    }

    /// Names the caller of the operations that follow (spec: ubifs-runtime 15.6).
    pub(super) fn set_caller(&mut self, flash: &Flash, caller: &Caller) {
        let (sb, Caller { uid, gid, .. }) = (&flash.sb, *caller);
        let may_use = uid == ROOT || uid == sb.rp_uid || gid == sb.rp_gid && gid != ROOT;
        self.is_pool_closed = !may_use;
    }

    /// Returns whether everything reserved can be written.
    pub(super) fn is_admissible(&self, flash: &Flash, lprops: &Lprops, supply: Supply) -> bool {
        let left = self.available(flash, lprops) - self.outstanding();
        let pool = flash.sb.rp_size.cast_signed();
        supply.has_index_reserve(lprops) && left >= 0 && (left > pool || !self.is_pool_closed)
    }

    fn add(&mut self, flash: &Flash, request: &Request, sign: i64) {
        let growth = request.growth(flash);
        self.index_growth += sign * growth.index;
        self.data_growth += sign * growth.data;
        self.replaced_growth += sign * growth.replaced;
        debug_assert!(
            self.index_growth >= 0 && self.data_growth >= 0 && self.replaced_growth >= 0,
            "a reservation was returned twice: {self:?}"
        );
    }

    /// Adds a reservation, whether it is admissible or not.
    pub(super) fn promise(&mut self, flash: &Flash, request: &Request) {
        self.add(flash, request, 1);
    }

    /// Ends the reservation of a completed operation: its bytes are written, its index entries wait
    /// for a commit.
    pub(super) fn release(&mut self, flash: &Flash, request: &Request) {
        self.add(flash, request, -1);
        self.uncommitted_index += request.growth(flash).index;
    }

    /// Cancels the reservation of an abandoned operation.
    pub(super) fn cancel(&mut self, flash: &Flash, request: &Request) {
        self.add(flash, request, -1);
    }

    /// Records that a commit has written an index of this size.
    pub(super) fn committed(&mut self, index_size: u64) {
        self.old_index = index_size.cast_signed();
        self.uncommitted_index = 0;
    }

    /// Returns whether no reservation is left (invariant 2).
    pub(super) fn owes_nothing(&self) -> bool {
        (self.index_growth, self.data_growth, self.replaced_growth) == (0, 0, 0)
    }

    /// Returns sizes as Linux reports them (spec: ubifs-runtime 15.9).
    pub(super) fn stat_space(&self, flash: &Flash, lprops: &Lprops, supply: Supply) -> StatFs {
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
        let spare = (supply.spare_lebs(lprops) - supply.reserved_idx_lebs(lprops)).max(0);
        let free = self.available(flash, lprops) + spare * (i64::from(flash.dark_wm) - overhead)
            - self.outstanding();
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
