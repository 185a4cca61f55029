//! A partition is a window that cannot be left.

use super::{P0, large, pattern, read};
use eraseblock_base::Peb;
use eraseblock_mtd::partition::{Partition, parse, place};
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::Chip;
use std::sync::Arc;

#[test]
fn addresses_and_blocks_are_translated_and_bounded() {
    let chip = Arc::new(Chip::new(large()));
    let devices = parse("chip:64k(a)ro,128k(b),10k(c)").unwrap();
    let places = place(&devices[0].parts, chip.geometry().size(), 32_768);
    assert!(places[2].read_only, "it does not end with an eraseblock");
    let part = Partition::new(chip.clone(), &places[1]).unwrap();
    assert_eq!((part.geometry().size(), part.geometry().peb_count()), (131_072, 4));
    part.program(2048, &pattern(2048, 1)).unwrap();
    assert_eq!(read(&chip, 65_536 + 2048, 2048).0, pattern(2048, 1));
    part.program_with_oob(4096, &[0; 512], &[0xFF, 0xFF, 7]).unwrap();
    let mut oob = [0; 3];
    part.read_oob(4096, 0, &mut oob).unwrap();
    assert_eq!(oob, [0xFF, 0xFF, 7]);
    part.mark_bad(Peb::new(3)).unwrap();
    assert!(chip.is_bad(Peb::new(5)).unwrap() && part.is_bad(Peb::new(3)).unwrap());
    part.erase(P0).unwrap();
    assert_eq!(chip.erase_count(Peb::new(2)), 1);
    assert!(part.erase(Peb::new(4)).is_err() && part.is_bad(Peb::new(u32::MAX)).is_err());
    assert!(part.read(131_071, &mut [0; 2]).is_err());
    assert!(part.program(131_072, &[0; 512]).is_err());
    let boot = Partition::new(chip, &places[0]).unwrap();
    for refused in [boot.program(0, &[0; 512]), boot.erase(P0), boot.mark_bad(P0)] {
        assert!(matches!(refused, Err(MtdError::ReadOnly { .. })));
    }
    boot.read(0, &mut [0; 512]).unwrap();
}
