//! What read well once and does not again: readers who cannot move it.

use eraseblock_base::{Geometry, Leb, MediumKind, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, Snapshot, Variant};
use eraseblock_ubi::{AttachOptions, NewVolume, OpenOptions, Ubi, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::sync::Arc;

const OLD: [u8; 3072] = [0x0D; 3072];
const NEW: [u8; 5120] = [0x1E; 5120];

fn layout() -> HeaderLayout {
    HeaderLayout::new(16_384, 512, 512, None).unwrap()
}

fn open(chip: &Arc<Chip>) -> UbiDevice {
    UbiDevice::open(chip.clone(), &layout(), &OpenOptions::default()).unwrap()
}

/// A chip with a volume whose LEB 0 is old.
fn begun() -> Snapshot {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, 64, 512, 512, 16).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let ubi = open(&chip);
    let new = NewVolume {
        id: Some(VolumeId::new(0)),
        name: VolumeName::new("data").unwrap(),
        kind: VolumeKind::Dynamic,
        lebs: 4,
        alignment: 1,
        flags: VolumeFlags::default(),
    };
    ubi.create_volume(&new).unwrap();
    ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(0), &OLD).unwrap();
    ubi.flush().unwrap();
    drop(ubi);
    chip.snapshot()
}

/// Changes the LEB on a copy of the chip, cut off at event `number` of it, which then reads well
/// `good_reads` times. `None` when the change had fewer events.
fn cut_at(begun: &Snapshot, number: u64, good_reads: u16) -> Option<Arc<Chip>> {
    let chip = Arc::new(begun.to_chip());
    let ubi = open(&chip);
    let event = chip.next_event() + number;
    let (program, erase) = (Variant::P5 { good_reads }, Variant::E0);
    chip.arm_cut(Some(ArmedCut { event, program, erase, seed: 1 })).unwrap();
    let changed = ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(0), &NEW);
    if changed.is_ok() && chip.is_powered() {
        return None;
    }
    drop(ubi);
    chip.power_on();
    chip.arm_cut(None).unwrap();
    Some(chip)
}

/// What LEB 0 holds, if it can be read.
fn content(volume: &dyn LebDevice) -> Option<[u8; 6144]> {
    let mut bytes = [0; 6144];
    let outcome = volume.read(Leb::new(0), 0, &mut bytes).unwrap();
    (!outcome.uncorrectable).then_some(bytes)
}

/// Tells `story` every chip that a cut of the change leaves; it says whether the change came true.
fn judge(story: impl Fn(Arc<Chip>) -> [u8; 6144]) {
    let begun = begun();
    let mut seen = [0, 0];
    for good_reads in [1, 2, 5] {
        for chip in (0..).map_while(|number| cut_at(&begun, number, good_reads)) {
            let told = story(chip);
            let is_new = told.starts_with(&NEW);
            assert!(is_new || told.starts_with(&OLD), "a mixture");
            seen[usize::from(is_new)] += 1;
        }
    }
    assert!(seen[0] > 20 && seen[1] >= 3, "{seen:?}");
}

#[test]
fn a_reader_gets_one_story_however_often_it_asks() {
    judge(|chip| {
        let ubi = Ubi::attach(chip, &layout(), &AttachOptions::default()).unwrap();
        let volume = ubi.volume(VolumeId::new(0)).unwrap();
        let first = content(&volume).expect("what attaching found good");
        assert!((0..6).all(|_| content(&volume) == Some(first)), "another story");
        first
    });
}

#[test]
fn what_one_attach_decides_holds_for_the_next() {
    judge(|chip| {
        let open = |chip: Snapshot| {
            let chip = Arc::new(chip.to_chip());
            chip.power_on();
            let ubi = open(&chip);
            let volume = ubi.volume(VolumeId::new(0)).unwrap();
            let told = content(&volume).expect("what attaching found good");
            let _ = content(&volume);
            // The power goes off again before any work in the background.
            (told, chip.snapshot())
        };
        let (first, mut left) = open(chip.snapshot());
        for _ in 0..6 {
            let (told, next) = open(left);
            assert!(told == first, "another story");
            left = next;
        }
        first
    });
}
