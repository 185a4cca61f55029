//! The run time on simulated chips.

use super::YaffsRw;
use crate::layout::{DataEcc, Layout, TagsPlace, Version};
use crate::{OpenOptions, Source, Yaffs};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{ByteOrder, Geometry, MediumKind};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::{
    FileSystem, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr, Timestamp, WritableFileSystem,
};
use eraseblock_vfs_testkit::drive::{DriveOptions, DriveReport, Subject, drive};
use eraseblock_vfs_testkit::ops::{Op, strategy};
use eraseblock_vfs_testkit::{CompareOptions, ModelFs, ModelRules};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const FILE: NewInode<'static> =
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

fn options() -> OpenOptions {
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
    OpenOptions { layout: Some(layout), ..OpenOptions::default() }
}

fn chip(blocks: u32) -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nand, 16 << 10, blocks, 1024, 1024, 32).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

fn mount(chip: &Arc<Chip>) -> YaffsRw {
    YaffsRw::mount(Arc::clone(chip) as _, &options()).unwrap().0
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

/// Compares what memory refers to with what the blocks count, and both with a scan.
fn check(fs: &YaffsRw) -> Result<(), String> {
    let core = fs.shared();
    let (log, objects) = (&core.log, &core.fs.objects);
    let headers = objects.all.iter().filter_map(|(id, it)| Some((it.header.as_ref()?.0, (*id, 0))));
    let chunks = objects.chunks.iter().map(|(owner, page)| (*page, *owner));
    let pages: BTreeMap<u32, (u32, u32)> = headers.chain(chunks).collect();
    if pages != log.pages {
        return Err("pages in use differ from those that objects have".to_owned());
    }
    let per_block = log.layout.pages_per_block;
    for (number, block) in (0..).zip(&log.blocks) {
        let first = number * per_block;
        let live = pages.range(first..first + per_block).count();
        if live != block.live as usize {
            return Err(format!("block {number}: {live} pages in use, {} counted", block.live));
        }
    }
    Ok(())
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
        check(&self.fs)
    }
}

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
                fs.unlink(root, &name, at(1)).unwrap();
                files.remove(&name);
            }
            1 if files.contains_key(&name) => {
                let size = random.next_u64() % 9000;
                let change = SetAttr { size: Some(size), ..SetAttr::default() };
                fs.set_attr(fs.lookup(root, &name).unwrap(), &change, at(2)).unwrap();
                files.get_mut(&name).unwrap().resize(size as usize, 0);
            }
            2 if files.contains_key(&name) => {
                let new = format!("f{}", random.next_u64() % 12).into_bytes();
                fs.rename((root, &name), (root, &new), RenameMode::Replace, at(3)).unwrap();
                let data = files.remove(&name).unwrap();
                files.insert(new, data);
            }
            _ => {
                let ino = match fs.lookup(root, &name) {
                    Ok(ino) => ino,
                    Err(_) => fs.create(root, &name, &FILE, at(4)).unwrap(),
                };
                let offset = random.next_u64() % 8000;
                let piece = vec![round as u8 | 1; 1 + (random.next_u64() % 3000) as usize];
                fs.write(ino, offset, &piece, at(5)).unwrap();
                let data = files.entry(name).or_default();
                let end = offset as usize + piece.len();
                data.resize(data.len().max(end), 0);
                data[offset as usize..end].copy_from_slice(&piece);
            }
        }
        if round % 250 == 249 {
            check(&fs).unwrap();
            fs = mount(&chip);
            check(&fs).unwrap();
            let source = Source::Device(Arc::clone(&chip) as _);
            let reader = Yaffs::open(source, &options()).unwrap().0;
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

#[test]
fn a_full_medium_can_be_emptied_and_filled_again() {
    let chip = chip(16);
    let mut fs = mount(&chip);
    let mut counts = Vec::new();
    for _ in 0..6 {
        let mut names = Vec::new();
        let refused = loop {
            let name = format!("n{}", names.len()).into_bytes();
            let made = fs.create(1, &name, &FILE, at(1));
            match made.and_then(|ino| fs.write(ino, 0, &[7; 3000], at(1))) {
                Ok(()) => names.push(name),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), FsErrorKind::NoSpace);
        fs = mount(&chip);
        counts.push(names.len());
        for entry in fs.entries(1).unwrap() {
            fs.unlink(1, &entry.name, at(2)).unwrap();
        }
        check(&fs).unwrap();
    }
    assert!(counts[0] > 20 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}
