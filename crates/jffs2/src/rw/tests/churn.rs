//! Media filled to the last byte and emptied again.

use super::*;
use crate::rw::nodelist::NodeRef;
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs::{FsErrorKind, SetAttr};
use std::collections::BTreeMap;

/// The expected files by name.
struct Files {
    rng: SplitMix64,
    files: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Files {
    fn new(seed: u64) -> Self {
        Self { rng: SplitMix64::new(seed), files: BTreeMap::new() }
    }

    fn data(&mut self) -> Vec<u8> {
        let len = 1 + self.rng.below(9000) as usize;
        let random = self.rng.below(2) == 0;
        (0..len)
            .map(|at| if random { self.rng.next_u64() as u8 } else { (at / 16) as u8 })
            .collect()
    }

    /// Adds a new file; returns `false` and removes it if there is no space for it.
    fn add(&mut self, fs: &Jffs2Rw, number: u64) -> bool {
        let name = format!("file{number}").into_bytes();
        let data = self.data();
        let done =
            fs.create(1, &name, &FILE, &by(5)).and_then(|ino| fs.write(ino, 0, &data, &by(5)));
        match done {
            Ok(()) => {
                self.files.insert(name, data);
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), FsErrorKind::NoSpace, "{error}");
                match fs.unlink(1, &name, &by(5)) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), FsErrorKind::NotFound, "{error}"),
                }
                false
            }
        }
    }

    fn change(&mut self, fs: &Jffs2Rw) {
        let Some(index) = (!self.files.is_empty()).then(|| self.rng.index(self.files.len())) else {
            return;
        };
        let name = self.files.keys().nth(index).unwrap().clone();
        let ino = fs.lookup(1, &name).unwrap();
        let mut data = self.files[&name].clone();
        let offset = self.rng.below(data.len() as u64 + 100) as usize;
        let piece = vec![self.rng.next_u64() as u8; 1 + self.rng.below(300) as usize];
        if self.rng.below(4) == 0 {
            data.resize(offset, 0);
            let change = SetAttr { size: Some(offset as u64), ..SetAttr::default() };
            if fs.set_attr(ino, &change, &by(7)).is_ok() {
                self.files.insert(name, data);
            }
            return;
        }
        if fs.write(ino, offset as u64, &piece, &by(7)).is_ok() {
            data.resize(data.len().max(offset + piece.len()), 0);
            data[offset..offset + piece.len()].copy_from_slice(&piece);
            self.files.insert(name, data);
        } else {
            // A write over two pages may be partial: accept it as found.
            self.files.insert(name.clone(), content(fs, std::str::from_utf8(&name).unwrap()));
        }
    }

    fn verify(&self, fs: &Jffs2Rw) {
        fs.check().unwrap();
        assert_eq!(fs.entries(1).unwrap().len(), self.files.len());
        for (name, data) in &self.files {
            assert!(content(fs, std::str::from_utf8(name).unwrap()) == *data);
        }
    }
}

pub(super) fn fill_and_empty(chip: &Arc<Chip>, options: &RwOptions, cycles: u64) {
    let mount = || Jffs2Rw::mount(chip.clone(), options).unwrap().0;
    let mut fs = mount();
    let mut files = Files::new(options.seed);
    let mut number = 0;
    let mut most = usize::MAX;
    for cycle in 0..cycles {
        while files.add(&fs, number) {
            number += 1;
            files.change(&fs);
        }
        number += 1;
        files.verify(&fs);
        most = most.min(files.files.len());
        for _ in 0..50 {
            files.change(&fs);
        }
        if cycle % 2 == 0 {
            fs.unmount().unwrap();
            fs = mount();
            files.verify(&fs);
        }
        while fs.background_step().unwrap() == eraseblock_vfs::Background::More {}
        let keep = if cycle % 3 == 0 { 0 } else { files.files.len() / 3 };
        while files.files.len() > keep {
            let index = files.rng.index(files.files.len());
            let name = files.files.keys().nth(index).unwrap().clone();
            files.files.remove(&name);
            fs.unlink(1, &name, &by(9)).unwrap();
        }
        files.verify(&fs);
    }
    assert!(most > 5, "only {most} files fit");
}

#[test]
fn a_full_medium_can_be_emptied_and_filled_again() {
    for (seed, summary) in [(1, true), (2, false)] {
        let options = RwOptions { summary, seed, ..RwOptions::default() };
        fill_and_empty(&nor(), &options, 5);
        fill_and_empty(&nand(), &options, 5);
    }
}

/// Statistics: the whole space is used, and every block takes part.
#[test]
fn wear_is_spread() {
    let chip = nor();
    let fs = mount(&chip);
    let fixed = fs.create(1, b"fixed", &FILE, &by(1)).unwrap();
    let mut rng = SplitMix64::new(5);
    let noise: Vec<u8> = (0..60_000).map(|_| rng.next_u64() as u8).collect();
    fs.write(fixed, 0, &noise, &by(1)).unwrap();
    let busy = fs.create(1, b"busy", &FILE, &by(1)).unwrap();
    for round in 0..6_000_u64 {
        fs.write(busy, round % 8 * 4096, &noise[..4096], &by(2)).unwrap();
    }
    fs.check().unwrap();
    let wear = chip.wear_report();
    assert!(wear.min_erases > 0, "{wear:?}");
    assert!(wear.max_erases < 4 * (wear.total_erases / 16) as u32, "{wear:?}");
}

#[test]
fn a_mount_keeps_at_most_16_bytes_of_a_node() {
    for summary in [true, false] {
        let geometry = Geometry::new(MediumKind::Nor, 64 << 10, 64, 1, 1, 0).unwrap();
        let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
        let options = RwOptions { summary, ..RwOptions::default() };
        let (fs, _) = Jffs2Rw::mount(chip.clone(), &options).unwrap();
        for file in 0..8_u64 {
            let ino = fs.create(1, format!("log-{file}").as_bytes(), &FILE, &by(1)).unwrap();
            for line in 0..2000 + file {
                fs.write(ino, line * 9, b"123456789", &by(2)).unwrap();
            }
        }
        fs.unmount().unwrap();
        let (fs, report) = Jffs2Rw::mount(chip, &options).unwrap();
        assert!(report.nodes > 16_000 && (report.summaries > 10) == summary);
        let state = fs.lock();
        let tree = state.tree();
        let of_blocks = tree
            .store
            .blocks
            .iter()
            .map(|(_, block)| (block.refs.len(), block.refs.capacity() * size_of::<NodeRef>()));
        let (nodes, blocks) = of_blocks.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let lists: usize = tree.owners.inodes.iter().map(|(_, cache)| cache.nodes.memory()).sum();
        let lists = lists - 8 * size_of::<Vec<u32>>();
        assert!(blocks + lists <= 16 * nodes, "{blocks} and {lists} bytes for {nodes} nodes");
        // The report counts inodes and blocks as well.
        assert!(report.memory <= (17 * nodes) as u64, "{}", report.memory);
    }
}
