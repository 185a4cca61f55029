//! A chip that is repaired in place, with the power cut at every flash event.

use crate::chip::{Chip as Sample, DATA, PEB, VID, layout};
use crate::jffs2::{BLOCK, Image};
use crate::volume::sample;
use eraseblock_base::{Geometry, MediumKind, Peb, VolumeId};
use eraseblock_jffs2::Source;
use eraseblock_mtd::{LebDevice, Mtd, MtdError, forward};
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, Variant};
use eraseblock_repair::Level;
use eraseblock_repair::ubi::{FlashRepair, UbiOptions, examine};
use eraseblock_repair::undo::{Run, is_finished, is_whole, replace_blocks, undo_blocks};
use eraseblock_ubi::{AttachOptions, UbiDevice};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    programmed(&sample)
}

/// A chip that holds this.
fn programmed(sample: &Sample) -> (Sample, Arc<Chip>) {
    let kind = MediumKind::Nand;
    let geometry = Geometry::new(kind, PEB as u32, sample.count() as u32, 512, 256, 16).unwrap();
    let chip = Chip::new(ChipConfig::of_geometry(geometry).unwrap());
    for peb in 0..sample.count() {
        let start = geometry.address_of(Peb::new(peb as u32));
        for (number, page) in sample.block(peb).chunks(256).enumerate() {
            if page.iter().any(|byte| *byte != 0xFF) {
                chip.program(start + (number * 256) as u64, page).unwrap();
            }
        }
    }
    (sample.clone(), Arc::new(chip))
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

/// A chip that is repaired, and how.
struct Case {
    chip: Arc<Chip>,
    planned: fn(&Arc<Chip>) -> FlashRepair,
}

/// What was tried.
#[derive(Default)]
struct Tried {
    cuts: usize,
    nested: usize,
}

impl Case {
    /// Cuts the power at every event of the repair, in every way that a cut can end a program or an
    /// erasure; takes the change back, with the power cut again on the way; and repairs again.
    fn is_cut(&self) -> Tried {
        let folder = tempfile::tempdir().unwrap();
        let chip = &*self.chip;
        let before = bytes(chip);
        let repair = (self.planned)(&self.chip);
        let start = chip.snapshot();
        let first = chip.next_event();
        let undo = folder.path().join("whole.undo");
        replace_blocks(chip, repair.blocks(), &undo).unwrap();
        let (end, after) = (chip.next_event(), bytes(chip));
        assert!(is_finished(&File::open(&undo).unwrap()).unwrap());
        undo_blocks(&File::open(&undo).unwrap(), chip, Run::Real).unwrap();
        assert!(bytes(chip) == before);
        assert!(end > first + 20, "{first} to {end}");
        let mut tried = Tried::default();
        for event in first..end {
            for (program, erase) in VARIANTS {
                chip.restore(&start).unwrap();
                let undo = folder.path().join("undo");
                let _ = std::fs::remove_file(&undo);
                let cut = ArmedCut { event, program, erase, seed: event };
                chip.arm_cut(Some(cut)).unwrap();
                let outcome = replace_blocks(chip, repair.blocks(), &undo);
                chip.power_on();
                if outcome.is_ok() {
                    continue;
                }
                tried.cuts += 1;
                let file = File::open(&undo).unwrap();
                assert!(is_whole(&file).unwrap() && !is_finished(&file).unwrap());
                undo_blocks(&File::open(&undo).unwrap(), chip, Run::Dry).unwrap();
                tried.nested += taken_back(chip, &undo, (program, erase), event);
                assert!(bytes(chip) == before, "event {event}, {program:?}, {erase:?}");
                std::fs::remove_file(&undo).unwrap();
                let again = (self.planned)(&self.chip);
                assert_eq!(again.plan(), repair.plan());
                replace_blocks(chip, again.blocks(), &undo).unwrap();
                assert!(bytes(chip) == after, "event {event}, {program:?}, {erase:?}");
            }
        }
        tried
    }
}

/// Takes the change back; the power is cut on the way, at one event or, if `ERASEBLOCK_NESTED` is set, at
/// each of them. Returns the number of cuts.
fn taken_back(chip: &Chip, undo: &Path, (program, erase): (Variant, Variant), seed: u64) -> usize {
    let torn = chip.snapshot();
    let back = || undo_blocks(&File::open(undo).unwrap(), chip, Run::Real);
    let first = chip.next_event();
    back().unwrap();
    let (end, before) = (chip.next_event(), bytes(chip));
    let is_all = std::env::var_os("ERASEBLOCK_NESTED").is_some();
    let events = if is_all { first..end } else { first + seed % (end - first)..end };
    let count = if is_all { usize::MAX } else { 1 };
    let mut cuts = 0;
    for event in events.take(count) {
        chip.restore(&torn).unwrap();
        chip.arm_cut(Some(ArmedCut { event, program, erase, seed })).unwrap();
        let outcome = back();
        chip.power_on();
        chip.arm_cut(None).unwrap();
        cuts += usize::from(outcome.is_err());
        back().unwrap();
        assert!(bytes(chip) == before, "nested cut at event {event}");
    }
    cuts
}

#[test]
fn a_cut_anywhere_ends_in_the_same_state_after_the_next_repair() {
    let (sample, chip) = damaged();
    let repair = planned(&chip);
    assert_eq!(repair.plan().actions().len(), 3, "{:?}", repair.plan());
    assert!(bytes(&chip) == sample.bytes);
    let whole = sample.with(&repair);
    whole.assert_consistent();
    assert_eq!(whole.tree(), Sample::new().tree());
    let Tried { cuts, nested } = Case { chip, planned }.is_cut();
    println!("UBI: {cuts} cuts, {nested} more while the change was taken back");
    assert!(cuts > 100 && nested > 100);
}

#[test]
fn the_repair_of_a_jffs2_may_be_cut() {
    let mut image = Image::new();
    for name in [&b"file"[..], b"kept"] {
        image.tear_entry(name);
    }
    let geometry =
        Geometry::new(MediumKind::Nor, BLOCK as u32, (image.0.len() / BLOCK) as u32, 1, 1, 0);
    let chip = Chip::new(ChipConfig::of_geometry(geometry.unwrap()).unwrap());
    for (number, bytes) in image.0.chunks(256).enumerate() {
        if bytes.iter().any(|byte| *byte != 0xFF) {
            chip.program((number * 256) as u64, bytes).unwrap();
        }
    }
    let chip = Arc::new(chip);
    let planned: fn(&Arc<Chip>) -> FlashRepair = |chip| {
        let source = Source::Device(Arc::clone(chip) as _);
        eraseblock_repair::jffs2::examine(&source, &Image::options()).unwrap()
    };
    assert!(!planned(&chip).plan().is_empty());
    let Tried { cuts, nested } = Case { chip, planned }.is_cut();
    println!("JFFS2: {cuts} cuts, {nested} more while the change was taken back");
    assert!(cuts > 100 && nested > 100);
}

/// The changes of a UBIFS in a volume go through UBI, one atomic change of a LEB after the other.
#[test]
fn the_repair_of_a_volume_may_be_cut() {
    let volume = sample();
    for master in volume.masters() {
        volume.set(master, 24, &65_u64.to_le_bytes());
    }
    let mut whole = Sample::of(&volume);
    while whole.count() < 80 {
        whole.add_free();
    }
    let (_, chip) = programmed(&whole);
    let tree = |chip: &Arc<Chip>| Sample { bytes: bytes(chip) }.tree();
    let start = chip.snapshot();
    let first = chip.next_event();
    repair_volume(&chip).unwrap();
    let (end, after) = (chip.next_event(), tree(&chip));
    assert_eq!(after, Sample::new().tree());
    let (mut cuts, mut nested) = (0, 0);
    let is_all = std::env::var_os("ERASEBLOCK_NESTED").is_some();
    for event in first..end {
        for (program, erase) in VARIANTS {
            chip.restore(&start).unwrap();
            chip.arm_cut(Some(ArmedCut { event, program, erase, seed: event })).unwrap();
            let outcome = repair_volume(&chip);
            chip.power_on();
            chip.arm_cut(None).unwrap();
            if outcome.is_ok() {
                continue;
            }
            cuts += 1;
            let torn = chip.snapshot();
            let from = chip.next_event();
            repair_volume(&chip).unwrap();
            assert_eq!(tree(&chip), after, "event {event}, {program:?}, {erase:?}");
            let to = chip.next_event();
            let inner = if is_all { from..to } else { from + event % (to - from)..to };
            for second in inner.take(if is_all { usize::MAX } else { 1 }) {
                chip.restore(&torn).unwrap();
                chip.arm_cut(Some(ArmedCut { event: second, program, erase, seed: event }))
                    .unwrap();
                nested += usize::from(repair_volume(&chip).is_err());
                chip.power_on();
                chip.arm_cut(None).unwrap();
                repair_volume(&chip).unwrap();
                assert_eq!(tree(&chip), after, "event {event}, then {second}");
            }
        }
    }
    println!("UBIFS: {cuts} cuts, {nested} more while it was repaired again");
    assert!(cuts > 40 && nested > 40);
}

/// Repairs volume 0 of a chip in place.
fn repair_volume(chip: &Arc<Chip>) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let device: Arc<dyn Mtd> = Arc::clone(chip) as _;
    let options = eraseblock_ubi::OpenOptions::default();
    let ubi = UbiDevice::open(device, &layout(), &options).map_err(|error| text(&error))?;
    let volume = ubi.volume(VolumeId::new(0)).map_err(|error| text(&error))?;
    let volume: Arc<dyn LebDevice> = Arc::new(volume);
    let repair = eraseblock_repair::examine(&volume).map_err(|error| text(&error))?;
    repair.apply(&*volume).map_err(|error| text(&error))?;
    ubi.detach().map_err(|error| text(&error))
}

/// A chip that looks at the undo file before it changes.
#[derive(Debug)]
struct Watched {
    inner: Arc<Chip>,
    undo: PathBuf,
    changes: AtomicUsize,
}

impl Watched {
    fn look(&self) {
        let undo = File::open(&self.undo).unwrap();
        assert!(is_whole(&undo).unwrap(), "change {}", self.changes.load(Ordering::Relaxed));
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Mtd for Watched {
    forward!(geometry, read, is_bad, mark_bad, sync);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.look();
        self.inner.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.look();
        self.inner.erase(peb)
    }
}

#[test]
fn the_undo_file_is_whole_before_the_flash_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (_, chip) = damaged();
    let repair = planned(&chip);
    let undo = folder.path().join("undo");
    let watched = Watched { inner: chip, undo: undo.clone(), changes: AtomicUsize::new(0) };
    replace_blocks(&watched, repair.blocks(), &undo).unwrap();
    assert!(watched.changes.into_inner() > repair.blocks().len());
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
