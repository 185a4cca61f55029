//! End marks of OpenWrt's ubinize (spec: ubi 4.1).

use crate::builder::*;
use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, Mtd};
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, Snapshot, Variant};
use eraseblock_ubi::{AttachOptions, EndMarks, OpenOptions, PebState, Ubi, UbiDevice, UbiError};
use eraseblock_ubi_format::*;
use std::sync::Arc;

const OLD: [u8; 512] = [0xA0; 512];
const NEW: [u8; 512] = [0xB0; 512];
const STALE: [u8; 512] = [0xC0; 512];
const VOLUME: VolumeId = VolumeId::new(0);

/// LEB 0 is in block 5; blocks 6 and 7 end the image; 8 to 10 are remains of earlier content, with
/// a newer LEB 0 in block 8, and another image number in block 9; the others are empty.
fn flashed() -> Flash {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    for peb in [6, 7] {
        flash.put_ec(peb, &EcHeader { end_mark: true, ..flash.ec(1) });
    }
    flash.put_leb(8, &dynamic(0, 11), &STALE);
    flash.put_ec(9, &EcHeader { image_seq: 5, ..flash.ec(9) });
    flash.put_leb(9, &dynamic(1, 12), &STALE);
    flash.put_leb(10, &dynamic(2, 13), &STALE);
    (11..flash.peb_count).for_each(|peb| flash.clear(peb));
    flash
}

fn pebs(numbers: &[u32]) -> Vec<Peb> {
    numbers.iter().copied().map(Peb::new).collect()
}

fn first_bytes(volume: &dyn LebDevice) -> [u8; 512] {
    let mut buf = [0; 512];
    volume.read(Leb::new(0), 0, &mut buf).unwrap();
    buf
}

#[test]
fn what_follows_an_end_mark_counts_as_erased() {
    let flash = flashed();
    let ubi = flash.attach();
    let found = ubi.attachment();
    assert!(found.linux_refuses.is_none(), "{:?}", found.linux_refuses);
    let marks = EndMarks { pebs: pebs(&[6, 7]), hidden: pebs(&[8, 9, 10]) };
    assert_eq!(found.end_marks, Some(marks));
    assert_eq!(first_bytes(&ubi.volume(VOLUME).unwrap()), OLD);
    assert_eq!(found.volume(VOLUME).unwrap().mapped_lebs, 1);
    for peb in 6..flash.peb_count {
        assert_eq!(found.peb(Peb::new(peb)).unwrap().state, PebState::Erase, "peb {peb}");
    }
    let kept = found.peb(Peb::new(9)).unwrap().erase_count.map(EraseCount::get);
    assert_eq!(kept, Some(9), "erase counters of other images count");
    assert!(found.findings.iter().any(|finding| finding.code == "after-end-mark"));
    // As seen by Linux without OpenWrt's change.
    let options = AttachOptions { end_marks: false, ..AttachOptions::default() };
    let plain = Ubi::attach(flash.device(), &flash.layout, &options).unwrap();
    assert_eq!(plain.attachment().linux_refuses.as_ref().unwrap().code, "image-seq-differs");
    assert_eq!(first_bytes(&plain.volume(VOLUME).unwrap()), STALE);
    assert_eq!(plain.attachment().end_marks, None);
}

#[test]
fn a_mark_in_a_block_with_a_leb_does_not_count() {
    let mut flash = flashed();
    // A Linux without support for the marks has used both blocks since.
    flash.put_leb(6, &dynamic(1, 20), &NEW);
    flash.put_leb(7, &dynamic(2, 21), &NEW);
    flash.put_ec(9, &flash.ec(9));
    let ubi = flash.attach();
    assert_eq!(ubi.attachment().end_marks, None);
    assert_eq!(first_bytes(&ubi.volume(VOLUME).unwrap()), STALE);
}

/// Returns a chip with the bytes of a flash.
fn chip_of(flash: &Flash) -> Snapshot {
    let layout = &flash.layout;
    let (page, unit) = (layout.min_io(), layout.header_unit());
    let geometry =
        Geometry::new(MediumKind::Nand, layout.peb_size(), flash.peb_count, page, unit, 16);
    let chip = Chip::new(ChipConfig::of_geometry(geometry.unwrap()).unwrap());
    for (number, bytes) in (0..).zip(flash.bytes.chunks(unit as usize)) {
        if bytes.iter().any(|byte| *byte != 0xFF) {
            chip.program(number * u64::from(unit), bytes).unwrap();
        }
    }
    chip.snapshot()
}

/// Opens the chip for writing, changes LEB 0 and erases everything that waits.
fn change(chip: &Arc<Chip>, layout: &HeaderLayout) -> Result<(), UbiError> {
    let ubi = UbiDevice::open(chip.clone(), layout, &OpenOptions::default())?;
    ubi.volume(VOLUME)?.change(Leb::new(0), &NEW)?;
    ubi.flush()
}

#[test]
fn no_cut_brings_back_what_a_mark_hides_nor_loses_what_was_written_after_it() {
    let flash = flashed();
    let begun = chip_of(&flash);
    let mut seen = [0, 0];
    for erase in [Variant::E0, Variant::E1, Variant::E2 { scattered: true }] {
        for number in 0.. {
            let chip = Arc::new(begun.to_chip());
            let event = chip.next_event() + number;
            let cut = ArmedCut { event, program: Variant::P1, erase, seed: 1 };
            chip.arm_cut(Some(cut)).unwrap();
            let outcome = change(&chip, &flash.layout);
            let was_cut = !chip.is_powered();
            assert!(was_cut || outcome.is_ok(), "event {number}: {outcome:?}");
            chip.power_on();
            chip.arm_cut(None).unwrap();
            let ubi = Ubi::attach(chip.clone(), &flash.layout, &AttachOptions::default()).unwrap();
            let refused = &ubi.attachment().linux_refuses;
            assert!(refused.is_none(), "event {number}: {refused:?}");
            let found = first_bytes(&ubi.volume(VOLUME).unwrap());
            assert!(found == OLD || found == NEW, "event {number}: {:#x}", found[0]);
            assert_eq!(ubi.attachment().volume(VOLUME).unwrap().mapped_lebs, 1, "event {number}");
            seen[usize::from(found == NEW)] += 1;
            if !was_cut {
                assert_eq!(found, NEW, "what was written is there");
                assert_eq!(ubi.attachment().end_marks, None);
                break;
            }
        }
    }
    assert!(seen[0] > 30 && seen[1] >= 3, "{seen:?}");
}
