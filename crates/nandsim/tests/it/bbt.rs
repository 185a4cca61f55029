//! Bad-block tables on simulated chips.

use eraseblock_base::Peb;
use eraseblock_mtd::bbt::{BbtMtd, BlockState, TableForm};
use eraseblock_mtd::ecc::{EccMtd, EccScheme};
use eraseblock_mtd::partition::{Partition, Placed};
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::*;
use std::sync::Arc;

const BLOCK: u64 = 131_072;

/// 1024 blocks of 128 KiB, raw, with Hamming ECC.
fn device() -> (Arc<Chip>, Arc<dyn Mtd>) {
    let part = parts::find("NAND01GW3B2").unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_part(part).with_raw_reads()));
    let ecc = EccMtd::new(chip.clone(), EccScheme::Hamming).unwrap();
    (chip, Arc::new(ecc))
}

fn mark_two(device: &Arc<dyn Mtd>, form: TableForm) {
    let table = BbtMtd::on_flash(device.clone(), form).unwrap();
    table.mark_bad(Peb::new(5)).unwrap();
    table.mark_bad(Peb::new(20)).unwrap();
    table.mark_bad(Peb::new(20)).unwrap();
    assert_eq!(table.version(), 3);
}

#[test]
fn tables_are_byte_for_byte_those_of_linux() {
    // spec: mtd-nand 10.4
    let (chip, ecc) = device();
    mark_two(&ecc, TableForm::Oob);
    for (block, magic) in [(1023, b"Bbt0"), (1022, b"1tbB")] {
        let (mut data, mut oob) = ([0; 8], [0; 64]);
        chip.read_with_oob(block * BLOCK, &mut data, &mut oob).unwrap();
        assert_eq!(data, [0xFF, 0xFB, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0xFF]);
        assert_eq!((&oob[8..12], oob[12], &oob[40..43]), (&magic[..], 3, &[0xFF, 0xCF, 0xCF][..]));
    }
    let (chip, ecc) = device();
    mark_two(&ecc, TableForm::Data);
    let (mut data, mut oob) = ([0; 12], [0; 64]);
    chip.read_with_oob(1023 * BLOCK, &mut data, &mut oob).unwrap();
    assert_eq!(data, *b"Bbt0\x03\xFF\xFB\xFF\xFF\xFF\xFE\xFF");
    assert_eq!(oob[40..43], [0xAA, 0x59, 0x9B]);
}

#[test]
fn the_region_is_reserved_and_marks_survive_either_loss() {
    for form in [TableForm::Oob, TableForm::Data] {
        for lost in [None, Some(1023), Some(1022)] {
            let (chip, ecc) = device();
            mark_two(&ecc, form);
            if let Some(lost) = lost {
                chip.erase(Peb::new(lost)).unwrap();
            }
            let before = chip.next_event();
            let table = BbtMtd::on_flash(ecc.clone(), form).unwrap();
            assert_eq!(chip.next_event() > before, lost.is_some(), "healed only if needed");
            assert_eq!(table.version(), 3);
            assert_eq!(table.state(Peb::new(20)), Some(BlockState::Worn));
            for peb in [5, 20, 1020, 1021, 1022, 1023].map(Peb::new) {
                assert!(table.is_bad(peb).unwrap());
                assert!(matches!(table.erase(peb), Err(MtdError::Rule { .. })));
            }
            table.erase(Peb::new(6)).unwrap();
            assert!(table.is_bad(Peb::new(1024)).is_err());
            let again = chip.next_event();
            drop(BbtMtd::on_flash(ecc, form).unwrap());
            assert_eq!(chip.next_event(), again);
        }
    }
}

#[test]
fn each_partition_has_tables_of_its_own() {
    let (_, ecc) = device();
    let half = 512 * BLOCK;
    let part =
        |name: &str, offset| Placed { name: name.into(), offset, size: half, read_only: false };
    let open = |place: &Placed| {
        let part = Partition::new(ecc.clone(), place).unwrap();
        BbtMtd::on_flash(Arc::new(part), TableForm::Oob).unwrap()
    };
    let (low, high) = (part("low", 0), part("high", half));
    open(&low).mark_bad(Peb::new(7)).unwrap();
    open(&high).mark_bad(Peb::new(9)).unwrap();
    open(&high).mark_bad(Peb::new(10)).unwrap();
    let (low, high) = (open(&low), open(&high));
    assert_eq!((low.version(), high.version()), (2, 3));
    for (table, bad) in [(&low, vec![7]), (&high, vec![9, 10])] {
        let found = (0..508).filter(|peb| table.is_bad(Peb::new(*peb)).unwrap());
        assert_eq!(found.collect::<Vec<u32>>(), bad);
        let reserved = (508..512).map(|peb| table.state(Peb::new(peb)));
        assert!(reserved.eq([Some(BlockState::Reserved); 4]));
    }
}

#[test]
fn without_tables_the_marks_are_scanned() {
    let (chip, ecc) = device();
    chip.set_factory_bad(Peb::new(7)).unwrap();
    let ram = BbtMtd::scan(ecc.clone()).unwrap();
    assert_eq!(ram.state(Peb::new(7)), Some(BlockState::FactoryBad));
    ram.mark_bad(Peb::new(8)).unwrap();
    assert!(ram.is_bad(Peb::new(8)).unwrap() && chip.is_bad(Peb::new(8)).unwrap());
    let flash = BbtMtd::on_flash(ecc, TableForm::Oob).unwrap();
    assert!(flash.is_bad(Peb::new(8)).unwrap() && flash.version() == 1);
}

#[test]
fn a_failing_table_block_is_replaced() {
    let (chip, ecc) = device();
    mark_two(&ecc, TableForm::Oob);
    let table = BbtMtd::on_flash(ecc.clone(), TableForm::Oob).unwrap();
    // Mark bad, then the erase of the main table's block fails.
    chip.set_plan(FaultPlan::new(1).with(chip.next_event() + 1, Fault::Fail));
    table.mark_bad(Peb::new(30)).unwrap();
    assert!(chip.is_bad(Peb::new(1023)).unwrap());
    let again = BbtMtd::on_flash(ecc, TableForm::Oob).unwrap();
    assert!(again.is_bad(Peb::new(30)).unwrap() && again.version() == 4);
}

#[test]
fn a_power_cut_at_any_event_loses_no_earlier_mark() {
    let (chip, ecc) = device();
    mark_two(&ecc, TableForm::Oob);
    let table = BbtMtd::on_flash(ecc, TableForm::Oob).unwrap();
    chip.set_recording(true);
    table.mark_bad(Peb::new(30)).unwrap();
    let recorded = chip.take_recording();
    assert_eq!(recorded.len(), 5, "mark, then erase and program each table");
    for event in recorded {
        for variant in event.variants().into_iter().filter(|variant| variant.is_in_model()) {
            let cut = Arc::new(event.cut(variant, 11).unwrap());
            cut.power_on();
            let ecc: Arc<dyn Mtd> = Arc::new(EccMtd::new(cut, EccScheme::Hamming).unwrap());
            let table = BbtMtd::on_flash(ecc, TableForm::Oob).unwrap();
            for peb in [5, 20].map(Peb::new) {
                assert!(table.is_bad(peb).unwrap(), "{}.{variant}: {peb}", event.event.number);
            }
        }
    }
}
