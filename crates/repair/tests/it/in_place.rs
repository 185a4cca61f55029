//! A chip that is repaired in place, with the power cut at every flash event.

use crate::chip::{Chip as Sample, DATA, PEB, VID, layout};
use eraseblock_base::{Geometry, MediumKind, Peb};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, Variant};
use eraseblock_repair::Level;
use eraseblock_repair::ubi::{FlashRepair, UbiOptions, examine};
use eraseblock_repair::undo::{Run, is_finished, is_whole, replace_blocks, undo_blocks};
use eraseblock_ubi::AttachOptions;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// What a cut leaves of a program and of an erasure.
const VARIANTS: [(Variant, Variant); 4] = [
    (Variant::P0, Variant::E0),
    (Variant::P1, Variant::E1),
    (Variant::P3, Variant::E3),
    (Variant::P4, Variant::E4),
];

/// A chip with damage of several kinds.
fn damaged() -> (Sample, Arc<Chip>) {
    let mut sample = Sample::new();
    sample.put(0, DATA, &[0; 600]);
    sample.flip(5, 9);
    let leaf = sample.leb_with(b"also-file");
    sample.put(leaf, VID, &[0; 64]);
    let kind = MediumKind::Nand;
    let geometry = Geometry::new(kind, PEB as u32, sample.count() as u32, 512, 256, 16).unwrap();
    let chip = Chip::new(ChipConfig::of_geometry(geometry).unwrap());
    for peb in 0..sample.count() {
        let start = geometry.address_of(Peb::new(peb as u32));
        for (number, page) in sample.block(peb).chunks(512).enumerate() {
            if page.iter().any(|byte| *byte != 0xFF) {
                chip.program(start + (number * 512) as u64, page).unwrap();
            }
        }
    }
    (sample, Arc::new(chip))
}

fn planned(chip: &Arc<Chip>) -> FlashRepair {
    let device: Arc<dyn Mtd> = Arc::clone(chip) as _;
    let attach = AttachOptions::default();
    let options = UbiOptions { attach, level: Level::Safe, can_grow: false };
    examine(&device, &layout(), options).unwrap()
}

fn bytes(chip: &Chip) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(chip.geometry().size()).unwrap()];
    chip.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_cut_anywhere_ends_in_the_same_state_after_the_next_repair() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, chip) = damaged();
    let before = bytes(&chip);
    let repair = planned(&chip);
    assert_eq!(repair.plan().actions().len(), 3, "{:?}", repair.plan());
    let start = chip.snapshot();
    let first = chip.next_event();
    let undo = folder.path().join("whole.undo");
    replace_blocks(&*chip, repair.blocks(), &undo).unwrap();
    let (end, after) = (chip.next_event(), bytes(&chip));
    let whole = Sample { bytes: after.clone() };
    whole.assert_consistent();
    assert_eq!(whole.tree(), Sample::new().tree());
    assert!(is_finished(&File::open(&undo).unwrap()).unwrap());
    undo_blocks(&File::open(&undo).unwrap(), &*chip, Run::Real).unwrap();
    assert!(bytes(&chip) == before && sample.bytes == before);
    assert!(end > first + 20, "{first} to {end}");
    for event in first..end {
        for (program, erase) in VARIANTS {
            chip.restore(&start).unwrap();
            let undo = folder.path().join(format!("{event}-{program:?}.undo"));
            let seed = event;
            chip.arm_cut(Some(ArmedCut { event, program, erase, seed })).unwrap();
            let cut = replace_blocks(&*chip, repair.blocks(), &undo);
            chip.power_on();
            if cut.is_ok() {
                continue;
            }
            let file = File::open(&undo).unwrap();
            assert!(is_whole(&file).unwrap() && !is_finished(&file).unwrap());
            undo_blocks(&File::open(&undo).unwrap(), &*chip, Run::Dry).unwrap();
            taken_back(&chip, &undo, (program, erase), event);
            assert!(bytes(&chip) == before, "event {event}, {program:?}, {erase:?}");
            std::fs::remove_file(&undo).unwrap();
            let again = planned(&chip);
            assert_eq!(again.plan(), repair.plan());
            replace_blocks(&*chip, again.blocks(), &undo).unwrap();
            assert!(bytes(&chip) == after, "event {event}, {program:?}, {erase:?}");
        }
    }
}

/// Takes the change back; the power is cut once more on the way.
fn taken_back(chip: &Chip, undo: &Path, (program, erase): (Variant, Variant), seed: u64) {
    let event = chip.next_event() + seed % 40;
    chip.arm_cut(Some(ArmedCut { event, program, erase, seed })).unwrap();
    let _ = undo_blocks(&File::open(undo).unwrap(), chip, Run::Real);
    chip.power_on();
    chip.arm_cut(None).unwrap();
    undo_blocks(&File::open(undo).unwrap(), chip, Run::Real).unwrap();
}

#[test]
fn an_undo_file_of_another_flash_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, chip) = damaged();
    let repair = planned(&chip);
    let undo = folder.path().join("undo");
    replace_blocks(&*chip, repair.blocks(), &undo).unwrap();
    let untouched =
        (0..chip.geometry().peb_count()).find(|peb| !repair.blocks().contains_key(peb)).unwrap();
    chip.erase(Peb::new(untouched)).unwrap();
    let refused = undo_blocks(&File::open(&undo).unwrap(), &*chip, Run::Real).unwrap_err();
    assert!(refused.to_string().contains("changed since"), "{refused}");
    assert!(is_whole(&File::open("/dev/null").unwrap()).is_ok_and(|is_whole| !is_whole));
}
