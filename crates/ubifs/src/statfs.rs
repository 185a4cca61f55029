//! Sizes as Linux would report them (spec: ubifs-runtime 15.4, 15.5, 15.9). The LPT is not read:
//! the space that it describes is taken from the master node, which is exact for a clean volume
//! without a journal.

use eraseblock_ubifs_format::{Limits, Master, Superblock};
use eraseblock_vfs::StatFs;

const BLOCK: u64 = 4096;
/// Largest data node.
const DATA_NODE: u64 = 4144;
/// Journal heads.
const HEADS: u64 = 3;

pub(crate) fn compute(sb: &Superblock, master: Option<&Master>, journal_bytes: u64) -> StatFs {
    let space = Space::new(sb);
    let usable = u64::from(sb.main_lebs()).saturating_sub(4 + HEADS)
        * (u64::from(sb.leb_size) - space.leb_overhead);
    let free = master.map_or(0, |master| space.free(sb, master, journal_bytes));
    let reserved = space.reported(sb.rp_size);
    StatFs {
        block_size: BLOCK as u32,
        blocks: space.reported(usable) / BLOCK,
        blocks_free: space.reported(free) / BLOCK,
        blocks_available: space.reported(free).saturating_sub(reserved) / BLOCK,
        name_max: 255,
    }
}

struct Space {
    leb_overhead: u64,
    dark_wm: u64,
    max_idx_node: u64,
    divisor: u64,
}

impl Space {
    fn new(sb: &Superblock) -> Self {
        let limits = Limits::of(sb);
        let fanout = u64::from(sb.fanout);
        let children = fanout * u64::from(limits.branch_len());
        let max_idx_node = (28 + children).next_multiple_of(8);
        let half = if fanout <= 3 { 2 } else { fanout / 2 };
        Self {
            leb_overhead: u64::from(sb.leb_size) % DATA_NODE,
            dark_wm: 4256_u64.next_multiple_of(sb.min_io_size.into()),
            max_idx_node,
            divisor: DATA_NODE + 3 * max_idx_node / (half - 1),
        }
    }

    /// Returns the part of this many bytes on flash that is left for content.
    fn reported(&self, bytes: u64) -> u64 {
        u64::try_from(u128::from(bytes) * u128::from(BLOCK) / u128::from(self.divisor))
            .unwrap_or(u64::MAX)
    }

    fn free(&self, sb: &Superblock, master: &Master, journal_bytes: u64) -> u64 {
        let leb_size = u64::from(sb.leb_size);
        let grown = u64::from(sb.leb_cnt.saturating_sub(master.leb_cnt));
        let empty = u64::from(master.empty_lebs) + grown;
        let idx_lebs = u64::from(master.idx_lebs);
        let idx_leb_size = leb_size.saturating_sub(self.max_idx_node).max(1);
        let index = master.index_size.min(sb.main_bytes());
        let min_idx_lebs = (1 + (3 * index).div_ceil(idx_leb_size)).max(2);
        let reserved = (min_idx_lebs + 1 + HEADS + 1) * leb_size;
        let spread = idx_lebs.saturating_sub(min_idx_lebs) * self.dark_wm;
        let taken = [
            master.total_used,
            reserved,
            master.total_dead,
            master.total_dark,
            grown * self.dark_wm,
            spread,
            journal_bytes,
        ];
        let taken = taken.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        let available = sb.main_bytes().saturating_sub(taken);
        let whole = empty.saturating_sub(min_idx_lebs.saturating_sub(idx_lebs));
        available + whole * self.dark_wm.saturating_sub(self.leb_overhead)
    }
}
