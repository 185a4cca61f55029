//! Full media: filled in every way, emptied, filled again, without losing space.

use eraseblock_base::{Geometry, MediumKind};
use eraseblock_jffs2::{Jffs2Rw, RwOptions};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::{FileSystem, WritableFileSystem};
use eraseblock_vfs_testkit::fill::{OWNER, WAYS, clear, fill, fill_at_once};
use std::sync::Arc;

const CYCLES: usize = 600;

fn mount(chip: &Arc<Chip>) -> Jffs2Rw {
    Jffs2Rw::mount(Arc::clone(chip) as _, &RwOptions::default()).unwrap().0
}

fn fill_and_empty(geometry: Geometry) {
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let mut fs = mount(&chip);
    let mut done = [const { Vec::new() }; WAYS.len()];
    for cycle in 0..CYCLES {
        let (what, step) = WAYS[cycle % WAYS.len()];
        let failed = |error: &dyn std::fmt::Display| -> ! {
            panic!("{:?}, cycle {cycle}, {what}: {error}", geometry.kind())
        };
        let steps = fill(&fs, OWNER, step).unwrap_or_else(|error| failed(&error));
        if cycle % 7 == 3 {
            fs.check().unwrap_or_else(|error| failed(&error));
            // Deleting must also be possible after a new mount of the full medium.
            fs.unmount().unwrap_or_else(|error| failed(&error));
            fs = mount(&chip);
        }
        clear(&fs, OWNER).unwrap_or_else(|error| failed(&error));
        fs.sync().unwrap_or_else(|error| failed(&error));
        fs.check().unwrap_or_else(|error| failed(&error));
        done[cycle % WAYS.len()].push(steps);
    }
    // The number of dead bytes not collected yet varies by a third between rounds, so a loss of
    // space shows only in the mean of many.
    for ((what, _), steps) in WAYS.iter().zip(done) {
        let (first, second) = steps.split_at(steps.len() / 2);
        let mean = |steps: &[u64]| steps.iter().sum::<u64>() * 100 / steps.len() as u64;
        let (first, second) = (mean(first), mean(second));
        assert!(second * 20 >= first * 19, "{:?}, {what}: {steps:?}", geometry.kind());
    }
}

#[test]
fn nor_is_six_hundred_times_full_and_empty() {
    fill_and_empty(Geometry::new(MediumKind::Nor, 16 << 10, 16, 1, 1, 0).unwrap());
}

#[test]
fn nand_is_six_hundred_times_full_and_empty() {
    fill_and_empty(Geometry::new(MediumKind::Nand, 16 << 10, 16, 512, 512, 16).unwrap());
}

#[test]
fn a_write_does_what_there_is_space_for() {
    let chip = Geometry::new(MediumKind::Nor, 16 << 10, 24, 1, 1, 0).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(chip).unwrap()));
    let fs = mount(&chip);
    let done = fill_at_once(&fs, 1 << 20).unwrap();
    assert!(done > 200_000, "{done} bytes of 24 blocks of 16 KiB");
    fs.check().unwrap();
    fs.unmount().unwrap();
    let fs = mount(&chip);
    assert_eq!(fs.attr(fs.lookup(1, b"shared").unwrap()).unwrap().size, done as u64);
}
