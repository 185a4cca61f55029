//! Bits that leak with the age of a page (spec: mtd-nand 15.4).

use super::{P0, P1, large, nor, pattern, read};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, FaultPlan, Retention, Variant};

/// About one leak in a codeword of 512 bytes in 500 events.
const SLOW: Retention = Retention { per_billion: 1000, seed: 9 };

fn leaking(config: ChipConfig) -> Chip {
    let chip = Chip::new(config);
    chip.set_plan(FaultPlan { retention: Some(SLOW), ..FaultPlan::new(1) });
    chip
}

/// Returns the time until a page reads with a corrected bit, and until it is uncorrectable.
fn life(chip: &Chip, page: u64) -> (u32, u32) {
    let (mut corrected, mut most) = (None, 0);
    for time in 0..1000 {
        let (bytes, outcome) = read(chip, page * 2048, 2048);
        if outcome.uncorrectable {
            assert_ne!(bytes, pattern(2048, page), "what cannot be corrected is wrong");
            return (corrected.expect("correctable first"), time);
        }
        assert_eq!(bytes, pattern(2048, page));
        assert!(outcome.corrected_bits >= most, "what leaked does not come back");
        most = outcome.corrected_bits;
        if most > 0 {
            corrected = corrected.or(Some(time));
        }
        chip.pass_time(100).unwrap();
    }
    panic!("nothing was lost in 100,000 events");
}

#[test]
fn bits_are_corrected_first_and_lost_later() {
    let chip = leaking(large());
    (0..2).for_each(|page| chip.program(page * 2048, &pattern(2048, page)).unwrap());
    let (corrected, lost) = life(&chip, 0);
    assert!(corrected < lost / 2, "{corrected} of {lost}");
    let counters = chip.counters();
    assert!(counters.corrected_bits > 0 && counters.failed_codewords > 0);
    assert!(read(&chip, 2048, 2048).1 != Default::default(), "the other page is as old");
    // A page programmed much later is young, and so is one after an erase.
    chip.program(2 * 2048, &pattern(2048, 2)).unwrap();
    assert_eq!(read(&chip, 2 * 2048, 2048), (pattern(2048, 2), Default::default()));
    chip.erase(P0).unwrap();
    assert_eq!(read(&chip, 0, 2048).0, [0xFF; 2048]);
    chip.program(0, &pattern(2048, 0)).unwrap();
    assert!(life(&chip, 0).1 > lost / 2);
}

#[test]
fn time_passes_with_every_event_and_the_same_plan_leaks_the_same_bits() {
    let (left, right) = (leaking(large().with_raw_reads()), leaking(large().with_raw_reads()));
    for chip in [&left, &right] {
        chip.program(0, &pattern(2048, 0)).unwrap();
        (0..400).for_each(|_| chip.erase(P1).unwrap());
    }
    right.pass_time(600).unwrap();
    (0..600).for_each(|_| left.erase(P1).unwrap());
    let (bytes, _) = read(&left, 0, 2048);
    assert_eq!(bytes, read(&right, 0, 2048).0);
    let gained = |(read, written): (&u8, &u8)| (read & !written).count_ones();
    let leaked: u32 = bytes.iter().zip(&pattern(2048, 0)).map(gained).sum();
    assert!(leaked > 0 && bytes.iter().zip(&pattern(2048, 0)).all(|(read, was)| was & !read == 0));
    // Reading it in parts gives the same page; another seed leaks other bits.
    let parts = [0, 700, 1400].map(|at| read(&left, at, if at < 1400 { 700 } else { 648 }).0);
    assert_eq!(parts.concat(), bytes);
    right.set_retention(Some(Retention { seed: 10, ..SLOW })).unwrap();
    assert_ne!(read(&right, 0, 2048).0, bytes);
    right.set_retention(None).unwrap();
    assert_eq!(read(&right, 0, 2048).0, pattern(2048, 0));
    let (mut data, mut oob) = ([0; 2048], [0; 64]);
    left.program_with_oob(2048, &pattern(2048, 1), &[0; 64]).unwrap();
    left.pass_time(1_000_000).unwrap();
    left.read_with_oob(2048, &mut data, &mut oob).unwrap();
    assert!(oob != [0; 64], "the spare cells leak as well");
}

#[test]
fn worn_blocks_leak_faster_and_nor_does_not() {
    let chip = leaking(large().with_endurance(50));
    (0..50).for_each(|_| chip.erase(P1).unwrap());
    chip.program(0, &pattern(2048, 0)).unwrap();
    chip.program(32_768, &pattern(2048, 16)).unwrap();
    let worn = life(&chip, 16).1;
    assert!(!read(&chip, 0, 2048).1.uncorrectable);
    let new = life(&chip, 0).1 + worn;
    assert!(new > worn * 4, "{new} after {worn}");
    let nor = leaking(nor());
    nor.program(0, &[0; 64]).unwrap();
    nor.pass_time(u64::MAX).unwrap();
    assert_eq!(read(&nor, 0, 64).0, [0; 64]);
}

#[test]
fn what_was_there_before_is_as_old_as_the_retention() {
    let chip = Chip::new(large());
    chip.program(0, &pattern(2048, 0)).unwrap();
    chip.pass_time(1 << 40).unwrap();
    chip.set_retention(Some(SLOW)).unwrap();
    assert_eq!(read(&chip, 0, 2048).1, Default::default());
    chip.pass_time(100_000).unwrap();
    assert!(read(&chip, 0, 2048).1.uncorrectable);
}

#[test]
fn ageing_goes_on_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let memory = leaking(large());
    let cut = ArmedCut { event: 99, program: Variant::P0, erase: Variant::E1, seed: 7 };
    {
        let chip = Chip::create(&path, large()).unwrap();
        chip.set_retention(Some(SLOW)).unwrap();
        chip.arm_cut(Some(cut)).unwrap();
    }
    for page in 0..3 {
        let chip = Chip::open(&path).unwrap();
        for chip in [&chip, &memory] {
            chip.program(page * 2048, &pattern(2048, page)).unwrap();
            chip.pass_time(500).unwrap();
        }
    }
    let chip = Chip::open(&path).unwrap();
    assert_eq!((chip.retention(), chip.armed_cut()), (Some(SLOW), Some(cut)));
    for _ in 0..30 {
        chip.pass_time(100).unwrap();
        memory.pass_time(100).unwrap();
        for page in 0..3 {
            assert_eq!(read(&chip, page * 2048, 2048), read(&memory, page * 2048, 2048));
        }
    }
    assert!(chip.counters().corrected_bits > 0);
    chip.set_retention(None).unwrap();
    drop(chip);
    let chip = Chip::open(&path).unwrap();
    assert_eq!((chip.retention(), chip.armed_cut()), (None, Some(cut)));
    assert_eq!(read(&chip, 0, 2048), (pattern(2048, 0), Default::default()));
}
