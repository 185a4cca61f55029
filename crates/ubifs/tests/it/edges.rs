//! The last of something: inode numbers, bytes of attribute names, references of a damaged log.

use crate::image::*;
use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_base::crc::crc32;
use eraseblock_ubifs::mkfs::{self, Compressor, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{
    Caller, FileSystem, FsErrorKind, SetAttr, SourceTree, Timestamp, WritableFileSystem, XattrMode,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Inode numbers from this one on are not given.
const INO_LIMIT: u32 = 0xFFFF_FF00;

/// Returns a volume whose highest inode number is the given one.
fn with_highest(number: u32) -> Arc<StrictLeb> {
    let volume = empty(64);
    let mut lebs = volume.lebs();
    for leb in &mut lebs[1..3] {
        let mut bytes = leb.as_ref().unwrap().to_vec();
        bytes[24..32].copy_from_slice(&u64::from(number).to_le_bytes());
        let crc = crc32(&bytes[8..512]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        *leb = Some(Arc::new(bytes));
    }
    Arc::new(volume.with(lebs))
}

/// A number that is given twice would merge two files. One above the limit would make a volume that
/// no mount accepts.
#[test]
fn inode_numbers_end_before_the_limit() {
    let volume = with_highest(INO_LIMIT - 2);
    let fs = mount(&volume).unwrap();
    let last = fs.create(1, b"last", &file(), NOW).unwrap();
    assert_eq!(last, u64::from(INO_LIMIT) - 1);
    fs.sync().unwrap();
    let error = fs.create(1, b"none", &file(), NOW).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::ReadOnly, "{error}");
    assert!(error.to_string().contains("inode numbers"), "{error}");
    drop(fs);
    let fs = mount(&volume).unwrap();
    assert_eq!(fs.lookup(1, b"last").unwrap(), last);
    assert!(fs.lookup(1, b"none").is_err());
    checked(&fs).unwrap();
}

/// Linux gives the inode that holds an attribute this mode; tools that compare images see it.
#[test]
fn the_holder_of_an_attribute_has_the_mode_that_linux_gives_it() {
    const XATTR: u32 = 0x20;
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    fs.set_xattr(ino, b"user.a", b"value", XattrMode::Either, NOW).unwrap();
    fs.unmount().unwrap();
    let mut modes = Vec::new();
    for leb in volume.lebs().into_iter().flatten() {
        let word = |at: usize| u32::from_le_bytes(leb[at..at + 4].try_into().unwrap());
        let nodes = (0..leb.len().saturating_sub(160)).step_by(8);
        let inodes = nodes.filter(|at| word(*at) == 0x0610_1831 && leb[at + 20] == 0);
        modes.extend(inodes.filter(|at| word(at + 108) & XATTR != 0).map(|at| word(at + 104)));
    }
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0o100_777), "{modes:?}");
}

/// The names of an inode, each with a byte for its end, are at most 64 KiB: more could not be
/// listed, and a mount would refuse the inode.
#[test]
fn attribute_names_end_at_64_kib() {
    let volume = StrictLeb::new(126_976, 2048, 2048, 60);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let options =
        MkfsOptions { compressor: Compressor::None, ..MkfsOptions::new(126_976, 2048, 60) };
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    let volume = Arc::new(volume);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    let set = |number: u32, len: usize| {
        let name = format!("user.{number:0width$}", width = len - 5);
        fs.set_xattr(ino, name.as_bytes(), b"", XattrMode::Either, NOW)
    };
    (0..255).for_each(|number| set(number, 255).unwrap());
    set(255, 127).unwrap();
    // 65,537 bytes with this one.
    let error = set(256, 128).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::NoSpace, "{error}");
    set(257, 127).unwrap();
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    let names = fs.list_xattrs(ino).unwrap();
    assert_eq!(names.iter().map(|name| name.len() + 1).sum::<usize>(), 65_536);
    checked(&fs).unwrap();
}

/// A recovery raises sizes that a cut left too small. It must not report that for files whose size was
/// right: the report would send its reader after a loss that never was.
#[test]
fn a_recovery_reports_no_size_that_was_right() {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    fs.write(ino, 0, &[1; 8192], NOW).unwrap();
    fs.unmount().unwrap();
    let before = volume.lebs();
    let mut recovered = 0;
    for cut in 0..12 {
        for torn in [Torn::Before, Torn::Half, Torn::After] {
            let volume = Arc::new(volume.with(before.clone()));
            let fs = mount(&volume).unwrap();
            volume.cut_after(cut, torn);
            let _ = fs.write(ino, 0, &[2; 8192], NOW).and_then(|()| fs.sync());
            drop(fs);
            let volume = Arc::new(volume.with(volume.lebs()));
            let (fs, report) =
                UbifsMount::mount(Arc::clone(&volume) as _, MountOptions::default()).unwrap();
            let raised = report.iter().any(|it| it.code == "size-fixed");
            assert!(!raised, "cut {torn:?} operation {cut}: {report:?}");
            assert_eq!(fs.attr(ino).unwrap().size, 8192);
            let mut back = [0; 4096];
            fs.read(ino, 0, &mut back).unwrap();
            recovered += u32::from(back == [2; 4096]);
        }
    }
    assert!(recovered > 3, "{recovered} recoveries of new content");
}

/// Two changes with one sequence number: which is the newer one is a guess, and said to be one.
#[test]
fn a_sequence_number_that_occurs_twice_is_a_warning() {
    let codes = |second: u64| {
        let mut image = Image::dirty();
        let nodes = [entry(2, 1, b"x", 73, 60, 2), entry(2, 1, b"y", 73, second, 2)];
        image.bud(BASE, 13, 0, &nodes);
        let (fs, findings) = image.open(true).unwrap();
        assert_eq!(names(&fs).len(), 8);
        findings.iter().filter(|it| it.code == "sqnum-twice").count()
    };
    assert_eq!((codes(61), codes(60)), (0, 1));
}

/// Damage in the log loses the references in it, not those after it.
#[test]
fn references_behind_damage_in_the_log_are_salvaged() {
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &[entry(2, 1, b"x", 73, 60, 2)]);
    let damaged = 2 * UNIT;
    image.bud(DATA, 15, 0, &[data(73, 0, b"damaged", 61)]);
    image.bud(BASE, 14, 0, &[entry(2, 1, b"y", 73, 62, 2)]);
    image.flip(3, damaged + 30);
    let (fs, codes) = image.salvage();
    assert!(codes.contains(&"log-corrupt"), "{codes:?}");
    assert!(fs.lookup(1, b"x").is_ok() && fs.lookup(1, b"y").is_ok(), "{:?}", names(&fs));
}

/// A file without a name takes no more than one with a name: an operation that promised itself more
/// than it may write would make a volume look full too early.
#[test]
fn a_file_without_a_name_costs_no_more_than_one_with_a_name() {
    let left = |named: bool| {
        let fs = mount(&empty(64)).unwrap();
        for number in 0..200_u32 {
            if named {
                fs.create(1, format!("{number}").as_bytes(), &file(), NOW).unwrap();
            } else {
                fs.create_unnamed(1, &file(), NOW).unwrap();
            }
        }
        fs.stat_fs().unwrap().blocks_free
    };
    let (named, unnamed) = (left(true), left(false));
    assert!(unnamed >= named, "{unnamed} blocks are free, {named} after files with names");
}

/// A file is cut to one byte of a block that is on flash only, and grows again: what the block held
/// must not come back.
#[test]
fn nothing_follows_the_first_byte_of_a_block_that_was_cut() {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    fs.write(ino, 0, &[7; 12_288], NOW).unwrap();
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    for size in [4097, 9000] {
        let changes = SetAttr { size: Some(size), ..SetAttr::default() };
        fs.set_attr(ino, &changes, NOW).unwrap();
    }
    let mut bytes = vec![0xAA; 9000];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), 9000);
    assert_eq!(bytes[..4097], [7; 4097]);
    assert!(bytes[4097..].iter().all(|byte| *byte == 0));
    checked(&fs).unwrap();
}
