//! Chips in files: reopened with all state, and damaged files refused.

use super::{P0, P1, large, mini, nor, pattern, read};
use eraseblock_base::{ErrorClass, Peb};
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::*;
use proptest::prelude::*;

#[test]
fn an_armed_cut_waits_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let cut = ArmedCut { event: 2, program: Variant::P0, erase: Variant::E1, seed: 7 };
    Chip::create(&path, large()).unwrap().arm_cut(Some(cut)).unwrap();
    let start = std::fs::read(&path).unwrap();
    assert!(is_chip_file(&start) && !is_chip_file(&start[1..]));
    {
        let chip = Chip::open(&path).unwrap();
        assert_eq!(chip.armed_cut(), Some(cut));
        chip.erase(P0).unwrap();
        chip.erase(P1).unwrap();
        assert!(matches!(chip.program(0, &pattern(2048, 1)), Err(MtdError::PowerOff)));
        assert!(matches!(chip.erase(P0), Err(MtdError::PowerOff)));
        assert_eq!(chip.armed_cut(), None, "it comes once");
    }
    let chip = Chip::open(&path).unwrap();
    assert_eq!(chip.armed_cut(), None);
    assert_eq!(read(&chip, 0, 2048).0, [0xFF; 2048]);
    chip.program(0, &pattern(2048, 1)).unwrap();
    chip.arm_cut(Some(ArmedCut { event: chip.next_event(), ..cut })).unwrap();
    assert!(matches!(chip.erase(P0), Err(MtdError::PowerOff)));
    chip.power_on();
    assert_eq!(read(&chip, 0, 2048).0, [0xFF; 2048], "E1: the erase was complete");
    chip.arm_cut(Some(ArmedCut { event: 99, ..cut })).unwrap();
    chip.arm_cut(None).unwrap();
    assert_eq!(chip.armed_cut(), None);
}

#[test]
fn a_file_opened_for_reading_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let writer = Chip::create(&path, large()).unwrap();
    writer.program(0, &pattern(2048, 1)).unwrap();
    let reader = Chip::open_read_only(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(read(&reader, 0, 2048).0, pattern(2048, 1));
    for refused in [
        reader.erase(P0),
        reader.program(4096, &pattern(2048, 2)),
        reader.program_oob(4096, 2, &[1]),
        reader.mark_bad(P1),
        reader.arm_cut(None),
        reader.set_retention(None),
        reader.pass_time(1),
        reader.flip_bits(P0, 0, &[1]),
        reader.import(&mut &[0_u8; 2048][..], false).map(|_| ()),
    ] {
        assert!(matches!(refused, Err(MtdError::ReadOnly { .. })), "{refused:?}");
    }
    assert_eq!(reader.next_event(), writer.next_event(), "what is refused changes nothing");
    assert!(reader.snapshot().same_flash(&writer.snapshot()));
    reader.sync().unwrap();
    drop(reader);
    assert!(std::fs::read(&path).unwrap() == before);
}

/// Reading changes decaying cells, and the change was written to the file at once: every reader
/// without write permission failed with `write failed: Bad file descriptor`.
#[test]
fn cells_decay_in_memory_where_a_file_is_only_read() {
    let variants = [Variant::P5 { good_reads: 1 }, Variant::E3, Variant::E4];
    for variant in variants {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        let writer = Chip::create(&path, large()).unwrap();
        writer.program(32_768, &pattern(2048, 1)).unwrap();
        writer.set_plan(FaultPlan::new(3).with(1, Fault::Cut(variant)));
        let at = if matches!(variant, Variant::P5 { .. }) { 0 } else { 32_768 };
        let cut = if at == 0 { writer.program(0, &pattern(2048, 2)) } else { writer.erase(P1) };
        assert!(matches!(cut, Err(MtdError::PowerOff)));
        drop(writer);
        let before = std::fs::read(&path).unwrap();
        let look = || {
            let reader = Chip::open_read_only(&path).unwrap();
            (0..8).map(|_| read(&reader, at, 2048).1).collect::<Vec<_>>()
        };
        let outcomes = look();
        assert!(outcomes.last().unwrap().uncorrectable, "{variant}: {outcomes:?}");
        assert!(outcomes.iter().any(|outcome| !outcome.uncorrectable), "{variant}: {outcomes:?}");
        assert_eq!(look(), outcomes, "{variant}: every open begins where the file does");
        assert!(std::fs::read(&path).unwrap() == before, "{variant}");
    }
}

#[test]
fn a_reopened_chip_is_the_same_chip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let (before, counters, wear) = {
        let chip = Chip::create(&path, large()).unwrap();
        chip.program(0, &pattern(4096, 1)).unwrap();
        chip.program_oob(4096, 2, &[1, 2, 3]).unwrap();
        chip.mark_bad(P1).unwrap();
        chip.erase(Peb::new(2)).unwrap();
        chip.flip_bits(P0, 0, &[3, 77]).unwrap();
        let cut = Fault::Cut(Variant::P5 { good_reads: 0 });
        chip.set_plan(FaultPlan::new(4).with(chip.next_event(), cut));
        assert!(chip.program(3 * 32_768, &pattern(2048, 2)).is_err());
        chip.power_on();
        assert_eq!(read(&chip, 3 * 32_768, 2048).1.corrected_bits, 4);
        (chip.snapshot(), chip.counters(), chip.wear_report())
    };
    let chip = Chip::open(&path).unwrap();
    assert!(chip.snapshot().same_flash(&before));
    assert_eq!((chip.counters(), chip.wear_report()), (counters, wear));
    assert_eq!(chip.next_event(), before.next_event());
    assert_eq!(read(&chip, 0, 4096).1.corrected_bits, 2);
    assert!(read(&chip, 3 * 32_768, 2048).1.uncorrectable, "still unstable");
    assert!(chip.program(0, &[0; 512]).is_err() && chip.is_bad(P1).unwrap());
    assert!(matches!(Chip::open(&path), Err(ChipFileError::InUse { .. })));
    drop(chip);
    let loaded = Chip::load(&path).unwrap();
    loaded.erase(P0).unwrap();
    assert_eq!(read(&Chip::open(&path).unwrap(), 0, 4096).0, pattern(4096, 1));
}

#[test]
fn a_snapshot_in_a_file_is_the_same_chip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    for config in [mini(), large(), nor()] {
        let is_nand = config.geometry().can_have_bad_blocks();
        let chip = Chip::new(config);
        chip.program(0, &pattern(2048, 1)).unwrap();
        chip.erase(P1).unwrap();
        if is_nand {
            chip.mark_bad(Peb::new(2)).unwrap();
        }
        chip.set_plan(FaultPlan::new(1).with(chip.next_event(), Fault::Cut(Variant::E4)));
        assert!(chip.erase(P0).is_err());
        let snapshot = chip.snapshot();
        snapshot.save(&path).unwrap();
        let opened = Chip::open(&path).unwrap();
        assert!(opened.snapshot().same_flash(&snapshot));
        assert_eq!((opened.counters(), opened.next_event()), (chip.counters(), chip.next_event()));
    }
}

#[test]
fn erased_blocks_are_holes() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let config = ChipConfig::of_part(parts::find("W25N01GV").unwrap());
    let chip = Chip::create(&path, config).unwrap();
    let used = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let empty = used();
    assert!(empty < 100_000, "{empty}");
    chip.program(0, &pattern(131_072, 1)).unwrap();
    assert!(used() > empty + 131_072);
    chip.erase(P0).unwrap();
    assert!(used() < empty + 100_000, "{}", used());
    drop(chip);
    assert_eq!(Chip::open(&path).unwrap().config().part(), Some("W25N01GV"));
}

/// A killed process leaves the file as it was after the last operation: only the counts of reads
/// are kept in memory.
#[test]
fn a_killed_process_leaves_every_finished_operation() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("chip"), folder.path().join("copy"));
    let chip = Chip::create(&path, mini()).unwrap();
    let ops: [&dyn Fn(); 5] = [
        &|| chip.program(0, &pattern(1024, 1)).unwrap(),
        &|| chip.program_oob(0, 6, &[3]).unwrap(),
        &|| chip.erase(P1).unwrap(),
        &|| chip.mark_bad(Peb::new(3)).unwrap(),
        &|| chip.erase(P0).unwrap(),
    ];
    for op in ops {
        op();
        std::fs::copy(&path, &copy).unwrap();
        let survivor = Chip::open(&copy).unwrap();
        assert!(survivor.snapshot().same_flash(&chip.snapshot()));
        assert_eq!(survivor.counters(), chip.counters());
    }
}

#[test]
fn damaged_files_are_refused_with_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    drop(Chip::create(&path, mini()).unwrap());
    let good = std::fs::read(&path).unwrap();
    let refuse = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Chip::open(&path).unwrap_err()
    };
    assert_eq!(refuse(b"").class(), ErrorClass::Corruption);
    let mut bytes = good.clone();
    bytes[0] = b'X';
    assert!(refuse(&bytes).to_string().contains("magic"));
    bytes.clone_from(&good);
    bytes[8] = 2;
    assert_eq!(refuse(&bytes).class(), ErrorClass::Unsupported);
    bytes.clone_from(&good);
    bytes[24] ^= 1;
    assert!(refuse(&bytes).to_string().contains("checksum"));
    bytes.clone_from(&good);
    bytes[4096..4100].copy_from_slice(&[9; 4]);
    bytes[8192..8196].copy_from_slice(&[9; 4]);
    assert!(matches!(refuse(&bytes), ChipFileError::Record { .. }));
    assert!(matches!(refuse(&good[..20_000]), ChipFileError::Io { .. }));
    bytes.clone_from(&good);
    bytes[8192..8300].fill(9);
    std::fs::write(&path, &bytes).unwrap();
    assert!(Chip::open(&path).is_ok(), "the other copy is good");
}

/// A successful read of an unstable page brings it closer to failure; this was lost if the chip was
/// closed right after it.
#[test]
fn good_reads_of_an_unstable_page_are_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let chip = Chip::create(&path, large()).unwrap();
    chip.set_plan(FaultPlan::new(1).with(0, Fault::Cut(Variant::P5 { good_reads: 1 })));
    assert!(chip.program(0, &pattern(2048, 1)).is_err());
    chip.power_on();
    assert_eq!(read(&chip, 0, 2048).1.corrected_bits, 0);
    drop(chip);
    let chip = Chip::open(&path).unwrap();
    assert_eq!(read(&chip, 0, 2048).1.corrected_bits, 4);
    assert!(read(&chip, 0, 2048).1.uncorrectable);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A chip in a file and one in memory stay equal over any operations, including reopening.
    #[test]
    fn file_and_memory_agree(
        ops in proptest::collection::vec((0_u8..8, 0_u32..4, 0_u32..8, any::<u64>()), 1..40),
        kind in 0_usize..3,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        let config = [mini(), large(), nor()][kind].clone();
        let memory = Chip::new(config.clone());
        let mut file = Chip::create(&path, config).unwrap();
        for (op, block, page, seed) in ops {
            let size = memory.config().page();
            let addr = u64::from(block * memory.geometry().peb_size() + page * size);
            let act = |chip: &Chip| match op {
                0..=2 => format!("{:?}", chip.program(addr, &pattern(size as usize, seed))),
                3 => format!("{:?}", chip.erase(Peb::new(block))),
                4 => format!("{:?}", chip.program_oob(addr, 6, &[seed.to_le_bytes()[0]])),
                5 if seed % 8 == 0 => format!("{:?}", chip.mark_bad(Peb::new(block))),
                6 => {
                    let faults = [Fault::Fail, Fault::Flips { bits: 3 }, Fault::Lost,
                        Fault::Cut(Variant::P3), Fault::Cut(Variant::P5 { good_reads: 1 }),
                        Fault::Cut(Variant::E2 { scattered: false }), Fault::Cut(Variant::E3)];
                    let fault = faults[usize::try_from(seed % 7).unwrap()];
                    chip.set_plan(FaultPlan::new(seed).with(chip.next_event(), fault));
                    String::new()
                }
                _ => {
                    let mut bytes = vec![0; size as usize];
                    format!("{:?} {bytes:?}", chip.read(addr, &mut bytes))
                }
            };
            prop_assert_eq!(act(&memory), act(&file));
            if !memory.is_powered() || seed % 5 == 0 {
                drop(file);
                file = Chip::open(&path).unwrap();
                memory.power_on();
                let plan = FaultPlan::new(0);
                memory.set_plan(plan.clone());
                file.set_plan(plan);
            }
        }
        prop_assert!(memory.snapshot().same_flash(&file.snapshot()));
        prop_assert_eq!(memory.counters(), file.counters());
    }
}
