//! The run time on simulated chips.

mod checkpoint;

use super::{RwOptions, YaffsRw};
use crate::layout::{DataEcc, Layout, TagsPlace, Version};
use crate::{OpenOptions, Source, Yaffs};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{ByteOrder, Geometry, MediumKind};
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, EventKind, Variant};
use eraseblock_vfs::{
    Caller, FileKind, FileSystem, FsError, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr,
    Timestamp, WritableFileSystem,
};
use eraseblock_vfs_testkit::drive::{DriveOptions, DriveReport, Subject, drive};
use eraseblock_vfs_testkit::ops::{Op, strategy};
use eraseblock_vfs_testkit::{CompareOptions, ModelFs, ModelRules};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const FILE: NewInode<'static> =
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

fn options() -> RwOptions {
    let layout = Layout {
        version: Version::Yaffs2,
        page: 1024,
        spare: 32,
        pages_per_block: 16,
        order: ByteOrder::Little,
        place: TagsPlace::spare(2, true),
        tags_ecc: true,
        data_ecc: DataEcc::None,
    };
    let open = OpenOptions { layout: Some(layout), ..OpenOptions::default() };
    RwOptions { open, ..RwOptions::default() }
}

fn chip(blocks: u32) -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nand, 16 << 10, blocks, 1024, 1024, 32).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

fn mount(chip: &Arc<Chip>) -> YaffsRw {
    YaffsRw::mount(Arc::clone(chip) as _, &options()).unwrap().0
}

fn by(seconds: i64) -> Caller {
    Caller::owner(Timestamp::from_seconds(seconds))
}

struct OnChip {
    chip: Arc<Chip>,
    fs: YaffsRw,
}

impl Subject for OnChip {
    fn fs(&self) -> &dyn WritableFileSystem {
        &self.fs
    }

    fn restart(&mut self) -> Result<(), String> {
        self.power_cut()
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.fs = YaffsRw::mount(Arc::clone(&self.chip) as _, &options())
            .map_err(|error| error.to_string())?
            .0;
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.fs.check().map_err(|error| error.to_string())
    }
}

/// Runs operations on the chip and on the model.
fn run(blocks: u32, ops: &[Op]) -> DriveReport {
    let chip = chip(blocks);
    let mut subject = OnChip { fs: mount(&chip), chip: Arc::clone(&chip) };
    let compare = CompareOptions { holes: false, ..CompareOptions::ALL };
    let options = DriveOptions { compare, compare_every: 7, may_be_full: true };
    let model = ModelFs::new(ModelRules::YAFFS2, Timestamp::default());
    let report = drive(&mut subject, &model, ops, &options).unwrap_or_else(|error| {
        panic!("{error}");
    });
    assert!(chip.violations().is_empty(), "{:?}", chip.violations());
    report
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn operations_do_what_the_model_does(ops in strategy::ops(150)) {
        run(64, &ops);
    }

    #[test]
    fn operations_on_a_small_chip_do_what_the_model_does(ops in strategy::ops(200)) {
        run(14, &ops);
    }
}

fn content(fs: &dyn FileSystem, name: &[u8]) -> Vec<u8> {
    let ino = fs.lookup(fs.root(), name).unwrap();
    let mut buffer = vec![0xAA; fs.attr(ino).unwrap().size as usize + 10];
    let len = fs.read(ino, 0, &mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

/// Thousands of changes: blocks are collected many times, and nothing that was deleted or cut off
/// comes back.
#[test]
fn collection_loses_nothing_and_brings_nothing_back() {
    let chip = chip(24);
    let mut fs = mount(&chip);
    let mut random = SplitMix64::new(5);
    let mut files: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..3000_u32 {
        let name = format!("f{}", random.next_u64() % 12).into_bytes();
        let root = fs.root();
        match random.next_u64() % 5 {
            0 if files.contains_key(&name) => {
                fs.unlink(root, &name, &by(1)).unwrap();
                files.remove(&name);
            }
            1 if files.contains_key(&name) => {
                let size = random.next_u64() % 9000;
                let change = SetAttr { size: Some(size), ..SetAttr::default() };
                fs.set_attr(fs.lookup(root, &name).unwrap(), &change, &by(2)).unwrap();
                files.get_mut(&name).unwrap().resize(size as usize, 0);
            }
            2 if files.contains_key(&name) => {
                let new = format!("f{}", random.next_u64() % 12).into_bytes();
                fs.rename((root, &name), (root, &new), RenameMode::Replace, &by(3)).unwrap();
                let data = files.remove(&name).unwrap();
                files.insert(new, data);
            }
            _ => {
                let ino = match fs.lookup(root, &name) {
                    Ok(ino) => ino,
                    Err(_) => fs.create(root, &name, &FILE, &by(4)).unwrap(),
                };
                let offset = random.next_u64() % 8000;
                let piece = vec![round as u8 | 1; 1 + (random.next_u64() % 3000) as usize];
                fs.write(ino, offset, &piece, &by(5)).unwrap();
                let data = files.entry(name).or_default();
                let end = offset as usize + piece.len();
                data.resize(data.len().max(end), 0);
                data[offset as usize..end].copy_from_slice(&piece);
            }
        }
        if round % 250 == 249 {
            fs.check().unwrap();
            fs = mount(&chip);
            fs.check().unwrap();
            let source = Source::Device(Arc::clone(&chip) as _);
            let reader = Yaffs::open(source, &options().open).unwrap().0;
            for (name, data) in &files {
                assert!(content(&fs, name) == *data, "round {round}");
                assert!(content(&reader, name) == *data, "round {round}");
            }
            assert_eq!(fs.entries(1).unwrap().len(), files.len());
            assert_eq!(reader.entries(1).unwrap().len(), files.len());
        }
    }
    assert!(chip.wear_report().total_erases > 100, "nothing was collected");
    assert!(chip.violations().is_empty());
}

/// A block had pages of an object and, after them, its deletion; both were void, so the block was
/// collected. A cut erase left it readable at first, then the deletion decayed before what it voids,
/// and the object was back. Tags in the spare bytes have an ECC of their own and outlast that
/// (found as `yaffs2/inband/aged-50017@1339.E4`).
#[test]
fn a_deletion_in_the_data_outlives_what_it_voids() {
    let mut options = options();
    let layout = options.open.layout.as_mut().unwrap();
    (layout.place, layout.tags_ecc) = (TagsPlace::InBand, false);
    let mount = |chip: &Arc<Chip>| YaffsRw::mount(Arc::clone(chip) as _, &options).unwrap().0;
    let chip = chip(16);
    let fs = mount(&chip);
    let kept = fs.create(1, b"kept", &FILE, &by(1)).unwrap();
    chip.set_recording(true);
    // The next file exists before one is removed, so that no object number is used twice.
    for round in 0..60_u64 {
        let next = fs.create(1, format!("f{}", round + 1).as_bytes(), &FILE, &by(2)).unwrap();
        fs.write(next, 0, &[1; 1500], &by(2)).unwrap();
        let _ = fs.unlink(1, format!("f{round}").as_bytes(), &by(3));
        fs.write(kept, round % 7 * 1000, &[2; 3000], &by(4)).unwrap();
    }
    let mut erased = 0;
    for event in chip.take_recording() {
        if !matches!(event.event.kind, EventKind::Erase { .. }) {
            continue;
        }
        erased += 1;
        for seed in 0..6 {
            let chip = Arc::new(event.cut(Variant::E4, seed).unwrap());
            chip.power_on();
            let names = mount(&chip).entries(1).unwrap().len();
            for later in 0..4 {
                let found = mount(&chip).entries(1).unwrap();
                assert!(
                    found.len() == names,
                    "erase {erased}, seed {seed}, mount {later}: {found:?}"
                );
            }
        }
    }
    assert!(erased > 20, "{erased} blocks were collected");
}

#[test]
fn a_full_medium_can_be_emptied_and_filled_again() {
    let chip = chip(16);
    let mut fs = mount(&chip);
    let mut counts = Vec::new();
    for _ in 0..6 {
        let mut names = Vec::new();
        let refused = loop {
            let name = format!("n{}", names.len()).into_bytes();
            let made = fs.create(1, &name, &FILE, &by(1));
            match made.and_then(|ino| fs.write(ino, 0, &[7; 3000], &by(1))) {
                Ok(()) => names.push(name),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), FsErrorKind::NoSpace);
        fs = mount(&chip);
        counts.push(names.len());
        for entry in fs.entries(1).unwrap() {
            fs.unlink(1, &entry.name, &by(2)).unwrap();
        }
        fs.check().unwrap();
    }
    assert!(counts[0] > 20 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

/// Names with contents and link counts.
fn shown(fs: &dyn FileSystem) -> BTreeMap<Vec<u8>, (Vec<u8>, u32)> {
    let mut all = BTreeMap::new();
    for dir in [b"".to_vec(), b"d".to_vec()] {
        for entry in fs.entries(fs.resolve(&dir).unwrap()).unwrap() {
            let attr = fs.attr(entry.ino).unwrap();
            let mut data = vec![0; attr.size as usize];
            if attr.kind == FileKind::Regular {
                assert_eq!(fs.read(entry.ino, 0, &mut data).unwrap(), data.len());
            }
            all.insert([&dir[..], b"/", &entry.name].concat(), (data, attr.nlink));
        }
    }
    all
}

type Operation = (&'static str, fn(&YaffsRw) -> Result<(), FsError>);

fn ino(fs: &YaffsRw, path: &str) -> u64 {
    fs.resolve(path.as_bytes()).unwrap()
}

/// What a cut leaves of a page: nothing, all of it, the data alone, or any bits. Tags alone would be a
/// header whose place counts although its name is lost (spec: yaffs2 10).
const VARIANTS: [(Variant, Variant); 4] = [
    (Variant::P0, Variant::E0),
    (Variant::P1, Variant::E1),
    (Variant::P7Data, Variant::E1),
    (Variant::P3, Variant::E2 { scattered: true }),
];

/// Each is done or not done after a power cut, nothing between.
const ATOMIC: [Operation; 7] = [
    ("rename over a file", |fs| {
        fs.rename((1, b"a"), (ino(fs, "d"), b"x"), RenameMode::Replace, &by(9))
    }),
    ("rename over a file with a link", |fs| {
        fs.rename((1, b"a"), (1, b"b"), RenameMode::Replace, &by(9))
    }),
    ("rename over a link", |fs| {
        fs.rename((1, b"a"), (ino(fs, "d"), b"b2"), RenameMode::Replace, &by(9))
    }),
    ("rename of a link", |fs| {
        fs.rename((ino(fs, "d"), b"b2"), (1, b"a"), RenameMode::Replace, &by(9))
    }),
    ("removal", |fs| fs.unlink(1, b"a", &by(9))),
    ("removal of a name with a link", |fs| fs.unlink(1, b"b", &by(9))),
    ("truncation", |fs| {
        let change = SetAttr { size: Some(1500), ..SetAttr::default() };
        fs.set_attr(ino(fs, "a"), &change, &by(9))
    }),
];

fn prepared() -> Arc<Chip> {
    let chip = chip(24);
    let fs = mount(&chip);
    let dir = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
    let d = fs.create(1, b"d", &dir, &by(1)).unwrap();
    for (dir, name, len) in [(1, b"a", 5000), (1, b"b", 3000), (d, b"x", 2000)] {
        let ino = fs.create(dir, name, &FILE, &by(1)).unwrap();
        fs.write(ino, 0, &vec![name[0]; len], &by(1)).unwrap();
    }
    fs.link(ino(&fs, "b"), d, b"b2", &by(1)).unwrap();
    chip
}

#[test]
fn names_and_sizes_change_at_once_whatever_a_power_cut_leaves() {
    for (what, operation) in ATOMIC {
        let chip = prepared();
        let snapshot = chip.snapshot();
        let before = shown(&mount(&chip));
        let fs = mount(&chip);
        let first = chip.next_event();
        operation(&fs).unwrap();
        let events = chip.next_event() - first;
        let after = shown(&fs);
        assert!(before != after && events > 1, "{what}");
        let mut seen = [false; 2];
        for (event, (program, erase)) in
            (0..events).flat_map(|event| VARIANTS.map(|it| (event, it)))
        {
            chip.restore(&snapshot).unwrap();
            let fs = mount(&chip);
            let (event, seed) = (chip.next_event() + event, event);
            let cut = ArmedCut { event, program, erase, seed };
            chip.arm_cut(Some(cut)).unwrap();
            let _ = operation(&fs);
            assert!(!chip.is_powered(), "{what}: no cut");
            chip.power_on();
            let fs = mount(&chip);
            let found = shown(&fs);
            assert!(found == before || found == after, "{what}, event {seed}: {program:?}");
            seen[usize::from(found == after)] = true;
            // The repairs hold.
            fs.check().unwrap();
            assert!(shown(&mount(&chip)) == found, "{what}, event {seed}, second mount");
        }
        assert_eq!(seen, [true, true], "{what}");
    }
}
