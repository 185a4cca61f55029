//! Leaking cells: scrubbing preserves data that is read occasionally.

use eraseblock_base::{Geometry, Leb, MediumKind};
use eraseblock_mtd::LebDevice;
use eraseblock_nandsim::{Chip, ChipConfig, FaultPlan, Retention, Rng};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::sync::Arc;

const LEBS: u32 = 20;

fn content(leb: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    Rng::new(5, leb.into()).fill(&mut bytes);
    bytes
}

/// Returns a chip that leaks about one bit of a codeword in 500 events, and a full volume on it.
fn aged() -> (Arc<Chip>, UbiDevice) {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, 64, 512, 512, 16).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let retention = Some(Retention { per_billion: 1000, seed: 11 });
    chip.set_plan(FaultPlan { retention, ..FaultPlan::new(1) });
    let layout = HeaderLayout::new(16_384, 512, 512, None).unwrap();
    let ubi = UbiDevice::open(chip.clone(), &layout, &OpenOptions::default()).unwrap();
    let id = ubi.create_volume(&NewVolume {
        id: None,
        name: VolumeName::new("data").unwrap(),
        kind: VolumeKind::Dynamic,
        lebs: LEBS,
        alignment: 1,
        flags: VolumeFlags::default(),
    });
    let volume = ubi.volume(id.unwrap()).unwrap();
    (0..LEBS).for_each(|leb| volume.write(Leb::new(leb), 0, &content(leb)).unwrap());
    ubi.flush().unwrap();
    drop(volume);
    (chip, ubi)
}

/// Lets `rounds` * 100 events pass, reading everything each time, and returns the number of LEBs
/// that are unchanged then. Background work is done only if `scrubbing`.
fn live(chip: &Chip, ubi: &UbiDevice, rounds: u32, scrubbing: bool) -> u32 {
    let volume = ubi.volume(ubi.volumes()[0].id).unwrap();
    let intact = |leb| {
        let mut bytes = vec![0; 4096];
        let outcome = volume.read(Leb::new(leb), 0, &mut bytes).unwrap();
        u32::from(!outcome.uncorrectable && bytes == content(leb))
    };
    let mut left = LEBS;
    for _ in 0..rounds {
        chip.pass_time(100).unwrap();
        left = (0..LEBS).map(intact).sum();
        if scrubbing {
            ubi.flush().unwrap();
            ubi.check_invariants().unwrap();
        }
    }
    left
}

#[test]
fn scrubbing_keeps_what_leaks() {
    let (chip, ubi) = aged();
    assert_eq!(live(&chip, &ubi, 60, false), 0, "left alone, all of it is lost");
    let (chip, ubi) = aged();
    assert_eq!(live(&chip, &ubi, 60, true), LEBS);
    let counters = ubi.health().counters;
    assert!(counters.scrubs >= u64::from(LEBS), "{counters:?}");
    assert!(counters.moves >= u64::from(LEBS), "{counters:?}");
    assert_eq!(ubi.read_only(), None);
    assert!(chip.counters().corrected_bits > 0);
}
