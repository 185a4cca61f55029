//! Full media whose power is cut: their content can be deleted.

use super::cuts::mini;
use super::*;
use crate::Compression;
use eraseblock_base::random::SplitMix64;
use eraseblock_nandsim::{Recorded, Variant};
use eraseblock_vfs::{Background, FsErrorKind};

/// One operation; a full medium refuses most of them.
fn step(fs: &Jffs2Rw, rng: &mut SplitMix64, most: u64) {
    let name = format!("file{}", rng.below(40)).into_bytes();
    let other = format!("file{}", rng.below(40)).into_bytes();
    let noise: Vec<u8> = (0..=rng.below(most)).map(|_| rng.next_u64() as u8).collect();
    let done = match (rng.below(24), fs.lookup(1, &name)) {
        (0, Ok(_)) => fs.unlink(1, &name, &by(3)),
        (1, Ok(_)) => fs.rename((1, &name), (1, &other), RenameMode::Replace, &by(3)),
        (2, _) => fs.sync(),
        (3, _) => fs.background_step().map(drop),
        (_, Ok(ino)) => fs.write(ino, rng.below(most), &noise, &by(4)),
        (_, Err(_)) => fs.create(1, &name, &FILE, &by(5)).map(drop),
    };
    if let Err(error) = done {
        assert_eq!(error.kind(), FsErrorKind::NoSpace, "{error}");
    }
}

/// Deletes everything; there must be space then.
fn empty(chip: Arc<Chip>, options: &RwOptions) -> Result<(), String> {
    let (fs, _) = Jffs2Rw::mount(chip, options).map_err(|error| error.to_string())?;
    for entry in fs.entries(1).unwrap() {
        fs.unlink(1, &entry.name, &by(6)).map_err(|error| format!("deleting: {error}"))?;
    }
    while fs.background_step().map_err(|error| format!("in the background: {error}"))?
        == Background::More
    {}
    let done = fs.create(1, b"room", &FILE, &by(7));
    let done = done.and_then(|ino| fs.write(ino, 0, &[1; 9000], &by(7)));
    done.map_err(|error| format!("everything deleted, and still full: {error}"))?;
    fs.check().map_err(|error| format!("check: {error}"))
}

/// Returns a cut at a moment that may come, and one that leaves no block half erased: such a block
/// may fail once more before it is given up.
fn cut(events: &[Recorded], rng: &mut SplitMix64) -> Arc<Chip> {
    let event = &events[rng.index(events.len())];
    let is_wanted = |variant: &Variant| {
        variant.is_in_model()
            && !matches!(variant, Variant::E2 { .. } | Variant::E3 | Variant::E4 | Variant::E5)
    };
    let variants: Vec<Variant> = event.variants().into_iter().filter(is_wanted).collect();
    let chip = event.cut(variants[rng.index(variants.len())], 7).unwrap();
    chip.power_on();
    Arc::new(chip)
}

/// Fills a medium, and cuts the power `cuts` times during further use; reports what cannot be
/// deleted after which cut.
fn cuts_of_a_full_medium(
    kind: MediumKind,
    options: &RwOptions,
    cuts: u32,
    most: u64,
) -> Result<(), String> {
    let mut chip = mini(kind);
    let mut rng = SplitMix64::new(options.seed);
    let fs = Jffs2Rw::mount(chip.clone(), options).unwrap().0;
    (0..500).for_each(|_| step(&fs, &mut rng, most));
    drop(fs);
    for number in 0..cuts {
        chip.set_recording(true);
        let fs = Jffs2Rw::mount(chip.clone(), options).unwrap().0;
        let steps = if rng.below(2) == 0 { 60 } else { 1 + rng.below(3) };
        (0..steps).for_each(|_| step(&fs, &mut rng, most));
        let events = chip.take_recording();
        if events.is_empty() {
            continue;
        }
        chip = cut(&events, &mut rng);
        let copy = Arc::new(chip.snapshot().to_chip());
        empty(copy, options).map_err(|error| format!("after cut {number}: {error}"))?;
    }
    Ok(())
}

#[test]
fn what_is_on_a_full_medium_can_be_deleted_after_two_power_cuts() {
    for kind in [MediumKind::Nand, MediumKind::Nor] {
        for summary in [true, false] {
            for (seed, most) in (0..4).flat_map(|seed| [(seed, 60), (seed, 600), (seed, 5000)]) {
                // Noise stays uncompressed in any case; to try costs two thirds of the time.
                let compression = Compression::None;
                let options = RwOptions { summary, compression, seed, ..RwOptions::default() };
                let found = cuts_of_a_full_medium(kind, &options, 2, most);
                assert_eq!(found, Ok(()), "{kind:?}, {summary}, seed {seed}, size {most}");
            }
        }
    }
}
