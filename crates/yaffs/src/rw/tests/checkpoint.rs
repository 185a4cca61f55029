//! Checkpoints and summaries.

use super::{FILE, VARIANTS, by, chip, content, ino, options};
use crate::mount::{OpenOptions, Origin};
use crate::rw::{RwOptions, YaffsRw};
use crate::{Source, Yaffs};
use eraseblock_base::{Findings, Geometry, MediumKind, Peb};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, FaultPlan};
use eraseblock_vfs::{FileSystem, FsErrorKind, RenameMode, WritableFileSystem};
use std::sync::Arc;

fn with_checkpoints() -> RwOptions {
    RwOptions { checkpoint_from: Some(1), ..options() }
}

fn mount(chip: &Arc<Chip>) -> YaffsRw {
    YaffsRw::mount(Arc::clone(chip) as _, &with_checkpoints()).unwrap().0
}

fn read(chip: &Arc<Chip>) -> (Yaffs, Findings) {
    Yaffs::open(Source::Device(Arc::clone(chip) as _), &options().open).unwrap()
}

/// Files whose chunks lie in several blocks, and a checkpoint.
fn unmounted(blocks: u32) -> Arc<Chip> {
    let chip = chip(blocks);
    let fs = mount(&chip);
    for (name, len) in [(b"a", 40_000), (b"b", 3000), (b"c", 0)] {
        let ino = fs.create(1, name, &FILE, &by(1)).unwrap();
        fs.write(ino, 0, &vec![name[0]; len], &by(1)).unwrap();
    }
    fs.link(ino(&fs, "b"), 1, b"b2", &by(1)).unwrap();
    fs.unmount().unwrap();
    chip
}

#[test]
fn a_mount_from_a_checkpoint_shows_what_was_there_and_writes_nothing() {
    let chip = unmounted(24);
    let events = chip.next_event();
    let fs = mount(&chip);
    assert_eq!(fs.info().origin, Origin::Checkpoint);
    fs.check().unwrap();
    let (reader, findings) = read(&chip);
    assert_eq!((reader.info().origin, findings.iter().count()), (Origin::Checkpoint, 0));
    let scanning = OpenOptions { ignore_checkpoint: true, ..options().open };
    let device = Source::Device(Arc::clone(&chip) as _);
    let (scanned, _) = Yaffs::open(device, &scanning).unwrap();
    assert_eq!(scanned.info().origin, Origin::Scan);
    assert!(shown_names(&fs) == shown_names(&reader));
    assert!(shown_names(&fs) == shown_names(&scanned));
    // It still holds.
    fs.sync().unwrap();
    fs.unmount().unwrap();
    assert_eq!(chip.next_event(), events);
}

fn shown_names(fs: &dyn FileSystem) -> Vec<(Vec<u8>, Vec<u8>, u32)> {
    let entries = fs.entries(fs.root()).unwrap();
    let shown = entries.into_iter().map(|entry| {
        let links = fs.attr(entry.ino).unwrap().nlink;
        (entry.name.clone(), content(fs, &entry.name), links)
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

#[test]
fn the_first_change_erases_the_checkpoint_and_a_sync_writes_the_next() {
    let chip = unmounted(24);
    let fs = mount(&chip);
    fs.create(1, b"new", &FILE, &by(2)).unwrap();
    assert_eq!(read(&chip).0.info().origin, Origin::Scan);
    fs.sync().unwrap();
    let again = mount(&chip);
    assert_eq!(again.info().origin, Origin::Checkpoint);
    assert!(shown_names(&again) == shown_names(&fs));
}

/// Every mount goes on where the one before it stopped: no block is begun for a single page.
#[test]
fn clean_mounts_go_on_in_the_same_block_and_its_summary_is_whole() {
    let chip = unmounted(24);
    let free = mount(&chip).info().free_blocks;
    for round in 0..12_u8 {
        let fs = mount(&chip);
        assert_eq!(fs.info().origin, Origin::Checkpoint);
        fs.write(ino(&fs, "c"), 0, &[round], &by(3)).unwrap();
        fs.check().unwrap();
        fs.unmount().unwrap();
    }
    // Two pages a round.
    assert!(free - mount(&chip).info().free_blocks <= 2);
    let open = OpenOptions { ignore_checkpoint: true, ..options().open };
    let (fs, _) = Yaffs::open(Source::Device(Arc::clone(&chip) as _), &open).unwrap();
    assert!(fs.info().summaries >= 4, "{:?}", fs.info());
    assert_eq!(content(&fs, b"c"), [11]);
}

#[test]
fn options_switch_checkpoints_and_summaries_off() {
    let chip = chip(64);
    let plain = RwOptions { checkpoint_from: None, summaries: false, ..options() };
    for (options, origin, has_summaries) in
        [(plain, Origin::Scan, false), (options(), Origin::Checkpoint, true)]
    {
        let fs = YaffsRw::mount(Arc::clone(&chip) as _, &options).unwrap().0;
        let file = fs.create(1, if has_summaries { b"f" } else { b"g" }, &FILE, &by(1)).unwrap();
        fs.write(file, 0, &vec![1; 60_000], &by(1)).unwrap();
        fs.unmount().unwrap();
        assert_eq!(read(&chip).0.info().origin, origin);
        let open = OpenOptions { ignore_checkpoint: true, ..options.open };
        let scanned = Yaffs::open(Source::Device(Arc::clone(&chip) as _), &open).unwrap().0;
        assert_eq!(scanned.info().summaries > 0, has_summaries);
    }
}

/// The pages of a chip with their spare bytes.
fn dump(chip: &Chip) -> Vec<u8> {
    let geometry = chip.geometry();
    let (page, oob) = (geometry.min_io() as usize, geometry.oob_size() as usize);
    let mut bytes = vec![0; geometry.size() as usize / page * (page + oob)];
    for (index, raw) in (0..).zip(bytes.chunks_exact_mut(page + oob)) {
        let (data, spare) = raw.split_at_mut(page);
        chip.read_with_oob(index * page as u64, data, spare).unwrap();
    }
    bytes
}

/// An erase that was cut may show the old pages again much later.
#[test]
fn a_checkpoint_that_comes_back_is_not_believed() {
    let changes: [fn(&YaffsRw); 3] = [
        |fs| fs.write(ino(fs, "c"), 0, &[9], &by(5)).unwrap(),
        |fs| fs.unlink(1, b"a", &by(5)).unwrap(),
        |fs| fs.rename((1, b"a"), (1, b"b"), RenameMode::Replace, &by(5)).unwrap(),
    ];
    for change in changes {
        let chip = unmounted(24);
        let old = dump(&chip);
        let fs = mount(&chip);
        change(&fs);
        let mut mixed = dump(&chip);
        let block = mixed.len() / 24;
        let is_checkpoint = |bytes: &[u8]| bytes[1024 + 2..][..4] == [0x21, 0, 0, 0];
        for (new, old) in mixed.chunks_exact_mut(block).zip(old.chunks_exact(block)) {
            if is_checkpoint(old) {
                new.copy_from_slice(old);
            }
        }
        let (reader, findings) =
            Yaffs::open(Source::Image(Arc::new(mixed)), &options().open).unwrap();
        assert_eq!(reader.info().origin, Origin::Scan);
        assert!(findings.iter().any(|it| it.code == "checkpoint-damaged"));
        assert!(shown_names(&reader) == shown_names(&fs));
    }
}

/// A cut in a checkpoint or in its erase leaves a flash on which a mount shows the current state.
#[test]
fn a_checkpoint_can_be_cut_anywhere() {
    let chip = unmounted(24);
    let fs = mount(&chip);
    fs.write(ino(&fs, "c"), 0, &[9], &by(5)).unwrap();
    let (tree, snapshot) = (shown_names(&fs), chip.snapshot());
    drop(fs);
    let steps: [fn(&YaffsRw); 2] = [
        |fs| drop(fs.sync()),
        |fs| {
            drop(fs.sync());
            drop(fs.create(1, b"d", &FILE, &by(6)));
        },
    ];
    for step in steps {
        chip.restore(&snapshot).unwrap();
        let (fs, first) = (mount(&chip), chip.next_event());
        step(&fs);
        let events = chip.next_event() - first;
        let after = shown_names(&fs);
        let mut origins = Vec::new();
        for (event, (program, erase)) in
            (0..events).flat_map(|event| VARIANTS.map(|it| (event, it)))
        {
            chip.restore(&snapshot).unwrap();
            let fs = mount(&chip);
            let (event, seed) = (chip.next_event() + event, event);
            chip.arm_cut(Some(ArmedCut { event, program, erase, seed })).unwrap();
            step(&fs);
            assert!(!chip.is_powered(), "no cut");
            chip.power_on();
            let fs = mount(&chip);
            let found = shown_names(&fs);
            assert!(found == tree || found == after, "event {seed}: {program:?}");
            fs.check().unwrap();
            origins.push(fs.info().origin);
        }
        assert!(origins.contains(&Origin::Scan) && origins.contains(&Origin::Checkpoint));
    }
}

/// A file that is open without a name is in the checkpoint of a `sync`, and goes at the next mount.
#[test]
fn open_files_without_a_name_are_removed_after_a_checkpoint() {
    let chip = unmounted(24);
    let fs = mount(&chip);
    let file = ino(&fs, "a");
    fs.open(file).unwrap();
    fs.unlink(1, b"a", &by(4)).unwrap();
    fs.sync().unwrap();
    let fs = mount(&chip);
    assert_eq!(fs.info().origin, Origin::Checkpoint);
    assert_eq!(fs.attr(file).unwrap_err().kind(), FsErrorKind::NotFound);
    fs.check().unwrap();
}

/// A program that fails leaves no checkpoint, and the block is marked bad when it is erased.
#[test]
fn a_checkpoint_that_cannot_be_written_is_left_out() {
    let chip = unmounted(24);
    let fs = mount(&chip);
    fs.write(ino(&fs, "c"), 0, &[9], &by(5)).unwrap();
    let mut plan = FaultPlan::new(1);
    let pages = (0..24 * 16).map(|page| (page, 0)).collect();
    plan.failing_programs = pages;
    chip.set_plan(plan);
    fs.sync().unwrap();
    chip.set_plan(FaultPlan::new(1));
    fs.write(ino(&fs, "c"), 0, &[8], &by(5)).unwrap();
    assert_eq!((0..24).filter(|block| chip.is_bad(Peb::new(*block)).unwrap()).count(), 1);
    let fs = mount(&chip);
    assert_eq!((fs.info().origin, content(&fs, b"c")), (Origin::Scan, vec![8]));
    fs.check().unwrap();
}

/// The figure of a mount, on 256 MiB in blocks of 64 pages: it reads the first page of each block, the
/// checkpoint and a header for each object.
#[test]
fn a_mount_from_a_checkpoint_reads_a_twentieth_of_what_a_scan_reads() {
    let geometry = Geometry::new(MediumKind::Nand, 128 << 10, 2048, 2048, 2048, 64).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let mut options = options();
    if let Some(layout) = &mut options.open.layout {
        (layout.page, layout.spare, layout.pages_per_block) = (2048, 64, 64);
    }
    let fs = YaffsRw::mount(Arc::clone(&chip) as _, &options).unwrap().0;
    for number in 0..1000_u32 {
        let name = format!("file-{number}").into_bytes();
        let file = fs.create(1, &name, &FILE, &by(1)).unwrap();
        fs.write(file, 0, &vec![number as u8; 30_000], &by(1)).unwrap();
    }
    fs.unmount().unwrap();
    drop(fs);
    let reads = |run: &dyn Fn() -> Origin, origin| {
        let before = chip.counters().page_reads;
        assert_eq!(run(), origin);
        chip.counters().page_reads - before
    };
    let device = || Source::Device(Arc::clone(&chip) as _);
    let scanning = OpenOptions { ignore_checkpoint: true, ..options.open.clone() };
    // A scan after a power cut does not look for a valid checkpoint's objects, so it is counted
    // without what finding one takes.
    let scan = 2048 * 64;
    let both = reads(&|| Yaffs::open(device(), &scanning).unwrap().0.info().origin, Origin::Scan);
    let read = || Yaffs::open(device(), &options.open).unwrap().0.info().origin;
    let read = reads(&read, Origin::Checkpoint);
    let write = || YaffsRw::mount(Arc::clone(&chip) as _, &options).unwrap().0.info().origin;
    let write = reads(&write, Origin::Checkpoint);
    println!("page reads: {read} to read, {write} to write, {scan} to scan");
    assert!(read * 20 <= scan && write * 20 <= scan && both >= scan, "{read}, {write}, {both}");
}
