//! How many eraseblocks UBI keeps for itself, and what is left for volumes (spec: ubi 11.3).

/// Blocks that may go bad in 1024, the default of Linux.
const BAD_PER_1024: u64 = 20;

/// Blocks UBI uses itself: the volume table twice, one for wear-levelling, one for atomic changes.
pub const OVERHEAD: u32 = 4;

/// Blocks Linux sets aside for those that go bad, on a chip of `chip_blocks`.
pub fn bad_block_reserve(chip_blocks: u32) -> u32 {
    let blocks = u64::from(chip_blocks);
    let limit = blocks * BAD_PER_1024 / 1024;
    let rounded = if limit * 1024 / BAD_PER_1024 < blocks { limit + 1 } else { limit };
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

/// Blocks for volumes on a partition of `blocks`, `reserve` of them kept for bad ones.
pub fn for_volumes(blocks: u32, reserve: u32) -> u32 {
    blocks.saturating_sub(OVERHEAD).saturating_sub(reserve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_are_those_of_linux() {
        // spec: ubi 11.3, values for n = 20
        for (blocks, reserve) in [
            (64, 2),
            (128, 3),
            (256, 5),
            (512, 10),
            (1024, 20),
            (2048, 40),
            (4096, 80),
            (8192, 160),
        ] {
            assert_eq!(bad_block_reserve(blocks), reserve, "{blocks} blocks");
        }
        assert_eq!(for_volumes(1024, 20), 1000);
        assert_eq!(for_volumes(3, 1), 0);
    }
}
