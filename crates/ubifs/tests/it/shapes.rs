//! Unusual volumes: with a full log, larger than when they were made, written page by page, with a
//! large table of LEBs.

use crate::rw::{checked, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, OpenOptions, Ubifs, UbifsError, UbifsMount};
use eraseblock_ubifs_format::Reference;
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{Caller, FileSystem, FsErrorKind, SourceTree, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const LEB_SIZE: u32 = 15_872;
const PAGE: usize = 512;

/// Returns an empty file system on `lebs` LEBs.
fn made(lebs: u32, change: impl FnOnce(&mut MkfsOptions)) -> StrictLeb {
    let volume = StrictLeb::new(LEB_SIZE, PAGE as u32, 2048, lebs);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut options = MkfsOptions::new(LEB_SIZE, PAGE as u32, lebs);
    change(&mut options);
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    volume
}

fn content(number: u64) -> Vec<u8> {
    data_of(number, 0, 5000, Texture::Random)
}

fn put(fs: &UbifsMount, number: u64) -> Result<(), eraseblock_vfs::FsError> {
    let ino = fs.create(1, format!("{number}").as_bytes(), &file(), NOW)?;
    fs.write(ino, 0, &content(number), NOW)
}

fn is_there(fs: &dyn FileSystem, number: u64) -> bool {
    let Ok(ino) = fs.lookup(1, format!("{number}").as_bytes()) else { return false };
    let mut back = vec![0; 5001];
    fs.read(ino, 0, &mut back).unwrap() == 5000 && back[..5000] == content(number)
}

/// Content is there for a strict reader, and nothing is wrong.
fn is_sound(volume: &StrictLeb, numbers: std::ops::Range<u64>) {
    let copy = Arc::new(volume.with(volume.lebs()));
    let (reader, _) = Ubifs::open(Arc::clone(&copy) as _, &OpenOptions { strict: true }).unwrap();
    assert!(reader.info().is_clean);
    assert!(numbers.clone().all(|number| is_there(&reader, number)));
    let fs = mount(&copy).unwrap();
    checked(&fs).unwrap();
    assert!(numbers.into_iter().all(|number| is_there(&fs, number)));
}

/// Commits that fail one after the other leave references until no LEB is left for another commit
/// start.
#[test]
fn a_full_log_is_consolidated() {
    const LOG: std::ops::Range<usize> = 3..7;
    let volume = Arc::new(made(48, |options| options.layout.log_lebs = Some(4)));
    let fs = mount(&volume).unwrap();
    for number in 0..8 {
        put(&fs, number).unwrap();
        fs.sync_file(fs.lookup(1, format!("{number}").as_bytes()).unwrap()).unwrap();
    }
    let mut lebs = volume.lebs();
    let first = lebs[LOG.start].as_ref().unwrap().to_vec();
    let number = |at: usize| u32::from_le_bytes(first[at..at + 4].try_into().unwrap());
    let bud = Reference {
        leb: Leb::new(number(PAGE + 24)),
        offset: number(PAGE + 28),
        head: number(PAGE + 32),
    };
    let mut sqnum = 1000;
    for leb in LOG {
        let bytes = Arc::make_mut(lebs[leb].get_or_insert_default());
        while bytes.len() < LEB_SIZE as usize {
            encode::reference(bytes, &bud, Seal::single(sqnum));
            encode::pad(bytes, PAGE as u32);
            sqnum += 1;
        }
    }
    let volume = Arc::new(volume.with(lebs));
    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    assert!((0..8).all(|number| is_there(&fs, number)));
    (8..20).for_each(|number| put(&fs, number).unwrap());
    fs.unmount().unwrap();
    is_sound(&volume, 0..20);
}

#[test]
fn a_file_system_grows_with_its_volume() {
    let small = Arc::new(made(48, |options| options.layout.max_leb_cnt = 160));
    let fs = mount(&small).unwrap();
    (0..20).for_each(|number| put(&fs, number).unwrap());
    let before = fs.stat_fs().unwrap().blocks;
    fs.unmount().unwrap();
    for lebs in [49, 96, 160, 200] {
        let mut grown = small.lebs();
        grown.resize(lebs, None);
        let large = Arc::new(small.with(grown));
        let fs = mount(&large).unwrap();
        checked(&fs).unwrap();
        assert!(fs.stat_fs().unwrap().blocks > before);
        let count = if lebs >= 96 { 150 } else { 22 };
        (20..count).for_each(|number| put(&fs, number).unwrap());
        fs.sync().unwrap();
        checked(&fs).unwrap();
        fs.unmount().unwrap();
        is_sound(&large, 0..count);
    }
}

/// A programmer that writes whole blocks also programs the erased pages, which accept nothing more
/// until they are erased.
#[test]
fn space_is_fixed_up_after_whole_blocks_were_programmed() {
    let plain = made(48, |options| options.space_fixup = true);
    let mut lebs = plain.lebs();
    for leb in lebs.iter_mut().flatten() {
        Arc::make_mut(leb).resize(LEB_SIZE as usize, 0xFF);
    }
    let volume = Arc::new(plain.with(lebs));
    let fs = mount(&volume).unwrap();
    (0..60).for_each(|number| put(&fs, number).unwrap());
    fs.unmount().unwrap();
    is_sound(&volume, 0..60);
}

/// The table of LEBs takes more than one LEB, is written in parts and collected.
#[test]
fn a_large_table_of_lebs_is_kept_and_collected() {
    let mut volume = Arc::new(made(120, |options| {
        options.layout.max_leb_cnt = 9000;
        options.layout.journal_bytes = Some(500_000);
    }));
    let mut fs = mount(&volume).unwrap();
    (0..40).for_each(|number| put(&fs, number).unwrap());
    for round in 0..900_u64 {
        let number = 40 + round;
        match put(&fs, number) {
            Err(error) if error.kind() == FsErrorKind::NoSpace => {}
            other => other.unwrap(),
        }
        fs.sync().unwrap();
        let _ = fs.unlink(1, format!("{number}").as_bytes(), NOW);
        if round % 100 == 99 {
            checked(&fs).unwrap();
            fs.unmount().unwrap();
            volume = Arc::new(volume.with(volume.lebs()));
            fs = mount(&volume).unwrap();
        }
    }
    fs.unmount().unwrap();
    is_sound(&volume, 0..40);
}

/// Times are stored in multiples of the granularity that the superblock names.
#[test]
fn times_are_rounded_to_the_granularity() {
    for (granularity, expected) in [(1, 1_234_567), (1000, 1_234_000), (1_000_000_000, 0)] {
        let volume = made(48, |_| {});
        let mut lebs = volume.lebs();
        let mut first = lebs[0].as_ref().unwrap().to_vec();
        let limits = Limits::unknown(LEB_SIZE);
        let node = decode::node(&first, &limits, Location::Whole).unwrap();
        let mut sb = node.superblock().unwrap();
        sb.time_gran = granularity;
        let mut changed = Vec::new();
        encode::superblock(&mut changed, &sb);
        first[..changed.len()].copy_from_slice(&changed);
        lebs[0] = Some(Arc::new(first));
        let volume = Arc::new(volume.with(lebs));
        let at = Timestamp { seconds: 1_000_000, nanoseconds: 1_234_567 };
        let fs = mount(&volume).unwrap();
        let ino = fs.create(1, b"file", &file(), &Caller::owner(at)).unwrap();
        fs.unmount().unwrap();
        let attr = mount(&volume).unwrap().attr(ino).unwrap();
        assert_eq!(attr.mtime, Timestamp { nanoseconds: expected, ..at });
    }
}

/// An image file that ends before the last byte in use cannot be mounted for writing; one that
/// leaves out erased flash alone can.
#[test]
fn an_image_is_cut_short_if_a_byte_in_use_is_missing() {
    let volume = Arc::new(made(48, |_| {}));
    let fs = mount(&volume).unwrap();
    for number in 0..20 {
        put(&fs, number).unwrap();
    }
    fs.unmount().unwrap();
    let lebs = volume.lebs();
    let (last, content) = lebs.iter().enumerate().rfind(|(_, leb)| leb.is_some()).unwrap();
    let used = content.as_ref().unwrap().iter().rposition(|byte| *byte != 0xFF).unwrap() + 1;
    // What a node takes ends at a page.
    let end = last as u64 * u64::from(LEB_SIZE) + used.next_multiple_of(PAGE) as u64;
    let with = |stored: u64| {
        let copy = Arc::new(volume.with(volume.lebs()));
        let options = MountOptions { stored_bytes: Some(stored), ..MountOptions::default() };
        UbifsMount::mount(copy as _, options).map(drop)
    };
    with(end).unwrap();
    with(end + u64::from(LEB_SIZE)).unwrap();
    for missing in [PAGE as u64, u64::from(LEB_SIZE)] {
        let error = with(end - missing).unwrap_err();
        assert!(
            matches!(error, UbifsError::Refused { code, .. } if code == "image-cut-short"),
            "{error}"
        );
    }
}
