//! Operations of the device that fail, one after the other.

use super::*;
use eraseblock_base::random::SplitMix64;
use eraseblock_nandsim::{Chance, Fault, FaultPlan, ReadFault, Trigger, Variant};
use eraseblock_vfs::FsErrorKind;
use std::collections::BTreeMap;

fn small(kind: MediumKind) -> Arc<Chip> {
    let (page, oob) = if kind == MediumKind::Nand { (512, 16) } else { (1, 0) };
    let geometry = Geometry::new(kind, 8 << 10, 13, page, page, oob).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

/// The result of a run with faults: contents that are certain, and whether an error was seen.
struct Outcome {
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    errors: usize,
}

/// Writes, overwrites and deletes until garbage is collected. Results that an error leaves
/// uncertain are accepted as found.
fn work(fs: &Jffs2Rw, steps: u64) -> Outcome {
    let mut rng = SplitMix64::new(3);
    let mut outcome = Outcome { files: BTreeMap::new(), errors: 0 };
    for step in 0..steps {
        let name = format!("f{}", step % 9).into_bytes();
        let data: Vec<u8> = (0..rng.below(5000)).map(|_| rng.next_u64() as u8).collect();
        let result = (|| {
            if fs.lookup(1, &name).is_ok() {
                fs.unlink(1, &name, &by(1))?;
                outcome.files.remove(&name);
            }
            let ino = fs.create(1, &name, &FILE, &by(2))?;
            fs.write(ino, 0, &data, &by(3))?;
            if step % 5 == 0 {
                fs.sync()?;
            }
            fs.background_step().map(drop)
        })();
        match result {
            Ok(()) => {
                outcome.files.insert(name, data);
            }
            Err(error) => {
                let kinds = [FsErrorKind::Io, FsErrorKind::ReadOnly, FsErrorKind::NoSpace];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                outcome.errors += 1;
                outcome.files.remove(&name);
            }
        }
    }
    outcome
}

fn verify(fs: &Jffs2Rw, outcome: &Outcome) {
    fs.check().unwrap();
    for (name, data) in &outcome.files {
        assert!(content(fs, std::str::from_utf8(name).unwrap()) == *data, "{name:?}");
    }
}

/// Injects one fault at event `number`; everything promised must be there, at once and after a new
/// mount.
pub(super) fn one_fault(kind: MediumKind, number: u64, steps: u64, options: &RwOptions) -> usize {
    let chip = small(kind);
    let mount = || Jffs2Rw::mount(chip.clone(), options).unwrap().0;
    chip.set_plan(FaultPlan::new(number).with(number, Fault::Fail));
    let fs = mount();
    let outcome = work(&fs, steps);
    verify(&fs, &outcome);
    fs.unmount().unwrap();
    let again = mount();
    verify(&again, &outcome);
    let report = again.create(1, b"after", &FILE, &by(5));
    assert!(report.is_ok(), "{report:?}");
    outcome.errors
}

fn events(kind: MediumKind, steps: u64) -> u64 {
    let chip = small(kind);
    let fs = mount(&chip);
    let outcome = work(&fs, steps);
    assert_eq!(outcome.errors, 0);
    assert!(chip.counters().erases > 24, "garbage has been collected");
    chip.next_event()
}

#[test]
fn any_program_or_erase_may_fail_once() {
    for kind in [MediumKind::Nor, MediumKind::Nand] {
        let total = events(kind, 60);
        let mut errors = 0;
        for number in (0..total).step_by(9) {
            errors += one_fault(kind, number, 60, &RwOptions::default());
        }
        assert_eq!(errors, 0, "{kind:?}: a single failure is invisible");
    }
}

#[test]
fn a_medium_that_fails_for_good_keeps_what_was_durable() {
    for kind in [MediumKind::Nor, MediumKind::Nand] {
        for on in [Trigger::Program, Trigger::Erase] {
            let chip = small(kind);
            let fs = mount(&chip);
            let keep = fs.create(1, b"keep", &FILE, &by(1)).unwrap();
            fs.write(keep, 0, b"durable", &by(1)).unwrap();
            fs.sync().unwrap();
            let fault = Fault::Fail;
            let chances = vec![Chance { on, per_billion: 1_000_000_000, fault }];
            chip.set_plan(FaultPlan { chances, ..FaultPlan::new(1) });
            let outcome = work(&fs, 60);
            assert!(outcome.errors > 0);
            assert_eq!(content(&fs, "keep"), b"durable");
            chip.set_plan(FaultPlan::new(1));
            let again = mount(&chip);
            again.check().unwrap();
            assert_eq!(content(&again, "keep"), b"durable");
        }
    }
}

#[test]
fn reads_may_fail() {
    for kind in [MediumKind::Nor, MediumKind::Nand] {
        let chip = small(kind);
        let fs = mount(&chip);
        let outcome = work(&fs, 30);
        fs.unmount().unwrap();
        let state = chip.snapshot();
        for number in 0..100 {
            let chip = Arc::new(state.to_chip());
            let fail_soon = || {
                let mut plan = FaultPlan::new(1);
                plan.at_read.insert(chip.counters().page_reads + number * 3, ReadFault::Fail);
                chip.set_plan(plan);
            };
            fail_soon();
            // A mount that fails is tried again, as is a read.
            let options = RwOptions::default();
            let mounted = Jffs2Rw::mount(chip.clone(), &options)
                .or_else(|_| Jffs2Rw::mount(chip.clone(), &options));
            let fs = mounted.unwrap().0;
            let _ = fs.check();
            for name in outcome.files.keys() {
                let ino = fs.lookup(1, name).or_else(|_| fs.lookup(1, name)).unwrap();
                let _ = fs.read(ino, 0, &mut [0; 8192]);
            }
            chip.set_plan(FaultPlan::new(1));
            verify(&fs, &outcome);
            fail_soon();
            let later = work(&fs, 10);
            chip.set_plan(FaultPlan::new(1));
            verify(&fs, &later);
        }
    }
}

#[test]
fn bad_blocks_are_left_alone_and_growing_ones_are_marked() {
    let chip = small(MediumKind::Nand);
    for peb in [0, 5] {
        chip.set_factory_bad(eraseblock_base::Peb::new(peb)).unwrap();
    }
    let fs = mount(&chip);
    let weak = BTreeMap::from([(3, 2), (7, 1)]);
    chip.set_plan(FaultPlan { failing_erases: weak, ..FaultPlan::new(1) });
    let outcome = work(&fs, 80);
    assert_eq!(outcome.errors, 0);
    verify(&fs, &outcome);
    fs.unmount().unwrap();
    assert_eq!(chip.wear_report().bad_blocks, 4);
    verify(&mount(&chip), &outcome);
}

/// A page that was programmed last before a cut may soon be unreadable. An fsync ignored that its
/// nodes could not be written again, and reported success.
#[test]
fn an_fsync_that_succeeds_has_settled_the_suspect_page() {
    let chip = small(MediumKind::Nand);
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.sync().unwrap();
    chip.set_recording(true);
    fs.write(ino, 0, &[7; 300], &by(2)).unwrap();
    fs.sync().unwrap();
    let last = chip.take_recording().pop().unwrap();
    let (mut succeeded, mut failed) = (0, 0);
    for (good_reads, read) in (1..8).flat_map(|reads| (0..12).map(move |read| (reads, read))) {
        let chip = Arc::new(last.cut(Variant::P5 { good_reads }, 1).unwrap());
        chip.power_on();
        let fs = mount(&chip);
        let seen = content(&fs, "f");
        let mut plan = FaultPlan::new(1);
        plan.at_read.insert(chip.counters().page_reads + read, ReadFault::Fail);
        chip.set_plan(plan);
        let synced = fs.sync_file(ino);
        drop(fs);
        chip.set_plan(FaultPlan::new(1));
        if synced.is_err() {
            failed += 1;
            continue;
        }
        succeeded += 1;
        assert_eq!(content(&mount(&chip), "f"), seen, "{good_reads} good reads, read {read} fails");
    }
    assert!(succeeded > 10 && failed > 10, "{succeeded} succeeded, {failed} failed");
}

#[test]
fn work_in_the_background_that_fails_says_so() {
    let chip = small(MediumKind::Nand);
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.sync().unwrap();
    fs.write(ino, 0, &[7; 100], &by(2)).unwrap();
    let (on, fault) = (Trigger::Program, Fault::Fail);
    let chances = vec![Chance { on, per_billion: 1_000_000_000, fault }];
    chip.set_plan(FaultPlan { chances, ..FaultPlan::new(1) });
    let error = (0..20).find_map(|_| fs.background_step().err()).expect("the flash failed");
    assert_eq!(error.kind(), FsErrorKind::Io, "{error}");
    assert!(fs.why_read_only().is_some());
}

/// Every program and every erase fails from now on.
fn broken() -> FaultPlan {
    let chance = |on| Chance { on, per_billion: 1_000_000_000, fault: Fault::Fail };
    let chances = [Trigger::Program, Trigger::Erase].map(chance).to_vec();
    FaultPlan { chances, ..FaultPlan::new(1) }
}

#[test]
fn blocks_that_fail_in_a_row_are_left_up_to_a_limit() {
    let begin = || {
        let chip = small(MediumKind::Nand);
        let fs = mount(&chip);
        let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
        fs.sync().unwrap();
        (chip, fs, ino)
    };
    let write = |fs: &Jffs2Rw, ino| fs.write(ino, 0, &[7; 100], &by(2)).and_then(|()| fs.sync());
    for failing in 1..=5 {
        let (chip, fs, ino) = begin();
        let first = chip.next_event();
        let at = (first..first + failing).map(|number| (number, Fault::Fail)).collect();
        chip.set_plan(FaultPlan { at, ..FaultPlan::new(1) });
        let done = write(&fs, ino);
        assert_eq!(
            done.is_ok(),
            failing <= 4,
            "{failing} blocks fail: {done:?}, {:?}",
            fs.late_findings()
        );
    }
    let (chip, fs, ino) = begin();
    let first = chip.next_event();
    chip.set_plan(broken());
    write(&fs, ino).unwrap_err();
    assert_eq!(chip.next_event() - first, 5, "no more blocks are tried");
}

/// Writes `step` times, and once more with the plan that follows from the number of the next event.
/// A change that ends all writing has lost something: it never reports success. Returns whether writing
/// has ended.
fn ends_all_writing(step: u64, options: &RwOptions, plan: impl Fn(u64) -> FaultPlan) -> bool {
    let chip = small(MediumKind::Nand);
    let (fs, _) = Jffs2Rw::mount(chip.clone(), options).unwrap();
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    let mut random = SplitMix64::new(step);
    let mut write = |number: u64| {
        let data: Vec<u8> = (0..150).map(|_| random.next_u64() as u8).collect();
        fs.write(ino, number * 150, &data, &by(2))
    };
    (0..step).for_each(|number| write(number).unwrap());
    chip.set_plan(plan(chip.next_event()));
    let done = write(step);
    let has_ended = fs.why_read_only().is_some();
    assert!(!has_ended || done.is_err(), "write {step}");
    has_ended
}

#[test]
fn what_ends_all_writing_fails() {
    for step in 0..120 {
        ends_all_writing(step, &RwOptions::default(), |_| broken());
    }
}

/// The same, if the device works again right after the failure that ended the writing.
#[test]
fn what_ends_all_writing_fails_even_if_the_device_recovers() {
    let plan = |first| {
        let at = (first..first + 5).map(|number| (number, Fault::Fail)).collect();
        FaultPlan { at, ..FaultPlan::new(1) }
    };
    let mut ended = 0;
    for (step, summary) in (0..240).flat_map(|step| [(step, true), (step, false)]) {
        let options = RwOptions { summary, ..RwOptions::default() };
        ended += u32::from(ends_all_writing(step, &options, plan));
    }
    assert!(ended > 0);
}

#[test]
fn an_unmount_after_writing_has_ended_writes_nothing() {
    let chip = small(MediumKind::Nand);
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.sync().unwrap();
    fs.write(ino, 0, &[7; 100], &by(2)).unwrap();
    chip.set_plan(broken());
    fs.sync().unwrap_err();
    assert!(fs.why_read_only().is_some());
    chip.set_plan(FaultPlan::new(1));
    let before = chip.next_event();
    let _ = fs.unmount();
    assert_eq!(chip.next_event(), before);
}
