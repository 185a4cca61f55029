//! Unlinked files that were open when the power went off, and cuts in the mounts after it.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{
    Caller, FileSystem, FsErrorKind, NewInode, NewKind, RenameMode, SourceTree, Timestamp,
    WritableFileSystem, XattrMode,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Returns a volume with LEBs that are needed only for the inode of an unlinked file and the
/// entries of its xattrs. That it is an orphan is committed, or is in the journal.
fn alone(is_committed: bool) -> (Arc<StrictLeb>, u64) {
    let volume = empty(40);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"gone", &file(), NOW).unwrap();
    fs.open(ino).unwrap();
    let fill = |what: &str, count: u32| {
        for number in 0..count {
            let name = format!("{what} {number}");
            fs.create(1, name.as_bytes(), &file(), NOW).unwrap();
        }
        for number in 0..count {
            fs.unlink(1, format!("{what} {number}").as_bytes(), NOW).unwrap();
        }
    };
    for number in 0..3_u8 {
        fill(&format!("{number}"), 60);
        let name = [b"user.", &[b'a' + number][..]].concat();
        fs.set_xattr(ino, &name, &[number; 100], XattrMode::Create, NOW).unwrap();
    }
    fill("before", 60);
    if !is_committed {
        fs.sync().unwrap();
    }
    fs.unlink(1, b"gone", NOW).unwrap();
    if is_committed {
        fill("after", 60);
        fs.sync().unwrap();
    } else {
        fs.sync_file(1).unwrap();
    }
    drop(fs);
    (volume, ino)
}

#[test]
fn a_mount_that_is_cut_leaves_what_the_next_must_read_of_orphans() {
    for is_committed in [true, false] {
        let (start, _) = alone(is_committed);
        let mut cuts = 0;
        'cuts: for cut in 0.. {
            for torn in [Torn::Before, Torn::Half, Torn::Garbage, Torn::After] {
                let volume = Arc::new(start.with(start.lebs()));
                volume.cut_after(cut, torn);
                let is_whole = mount(&volume).is_ok();
                let after = Arc::new(volume.with(volume.lebs()));
                let judged = mount(&after).and_then(|fs| checked(&fs));
                judged.unwrap_or_else(|why| {
                    panic!("cut {torn:?} operation {cut}, committed {is_committed}: {why}")
                });
                cuts += 1;
                if is_whole {
                    break 'cuts;
                }
            }
        }
        assert!(cuts > 20, "{cuts} cuts");
    }
}

/// Each change of an xattr journals the file once more as a deleted one.
#[test]
fn attributes_may_change_while_a_file_without_a_name_is_open() {
    for step in 0..4 {
        let volume = empty(40);
        let fs = mount(&volume).unwrap();
        let ino = fs.create(1, b"gone", &file(), NOW).unwrap();
        fs.open(ino).unwrap();
        let set = |name: &[u8], value: u8| {
            fs.set_xattr(ino, name, &[value; 50], XattrMode::Either, NOW).unwrap();
        };
        set(b"user.a", 1);
        set(b"user.b", 1);
        if step & 1 == 1 {
            fs.sync().unwrap();
        }
        fs.unlink(1, b"gone", NOW).unwrap();
        set(b"user.a", 2);
        if step & 2 == 2 {
            set(b"user.c", 1);
            fs.remove_xattr(ino, b"user.b", NOW).unwrap();
            set(b"user.c", 2);
        }
        fs.sync_file(ino).unwrap();
        drop(fs);
        let (read, _) = Ubifs::open(Arc::clone(&volume) as _, &OpenOptions::default()).unwrap();
        assert!((2..ino + 8).all(|other| read.attr(other).is_err()), "step {step}");
        let fs = mount(&volume).unwrap();
        checked(&fs).unwrap_or_else(|why| panic!("step {step}: {why}"));
    }
}

/// An inode stays on the orphan list even if an earlier mount already erased it and was then cut.
#[test]
fn an_orphan_whose_inode_was_erased_is_one() {
    let (start, gone) = alone(true);
    let recovered = Arc::new(start.with(start.lebs()));
    let fs = mount(&recovered).unwrap();
    for number in 0..20_u8 {
        fs.create(1, &[b'a' + number], &file(), NOW).unwrap();
        fs.sync().unwrap();
    }
    let read = |volume: &Arc<StrictLeb>| {
        Ubifs::open(Arc::clone(volume) as _, &OpenOptions::default()).unwrap().0
    };
    let main = read(&start).superblock().main_first() as usize;
    let (mut lebs, after) = (start.lebs(), recovered.lebs());
    let erased = |leb: &usize| lebs[*leb].is_some() && after[*leb].is_none();
    let erased: Vec<usize> = (main..lebs.len()).filter(erased).collect();
    assert!(!erased.is_empty(), "nothing was erased");
    for leb in erased {
        lebs[leb] = None;
    }
    let volume = Arc::new(start.with(lebs));
    assert_eq!(read(&volume).info().orphans_removed, 1);
    let fs = mount(&volume).unwrap();
    assert!(fs.attr(gone).is_err());
}

/// Returns a volume with an orphan area of so many LEBs.
fn with_area(orph_lebs: u32) -> Arc<StrictLeb> {
    let volume = StrictLeb::new(15_872, 512, 2048, 200);
    let mut options = MkfsOptions::new(15_872, 512, 200);
    options.layout.orph_lebs = orph_lebs;
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    Arc::new(volume)
}

/// Half of the area, so that it can be rewritten: 1,980 numbers fit in a LEB. One more deletion is
/// refused and changes nothing. The check counted numbers that are still in the area, but whose
/// inodes are gone, and called an area with one more than half wrong.
#[test]
fn as_many_deleted_files_may_be_open_as_the_area_holds_twice() {
    for orph_lebs in [1, 2] {
        let most = 990 * orph_lebs;
        let volume = with_area(orph_lebs);
        let fs = mount(&volume).unwrap();
        let dir = NewInode { kind: NewKind::Directory, ..file() };
        let dir = fs.create(1, b"dir", &dir, NOW).unwrap();
        let spare = fs.create(1, b"spare", &file(), NOW).unwrap();
        let last = fs.create(1, b"last", &file(), NOW).unwrap();
        for ino in [dir, spare, last] {
            fs.open(ino).unwrap();
        }
        let mut open = Vec::new();
        for number in 0..most {
            let ino = fs.create(1, b"gone", &file(), NOW).unwrap();
            fs.open(ino).unwrap();
            fs.unlink(1, b"gone", NOW).unwrap();
            open.push(ino);
            // Not all at once: commits append to the area, and rewrite it.
            if number % 101 == 0 {
                fs.sync().unwrap();
            }
        }
        let kind = |done: Result<(), eraseblock_vfs::FsError>| done.unwrap_err().kind();
        assert_eq!(kind(fs.unlink(1, b"last", NOW)), FsErrorKind::NoSpace);
        assert_eq!(kind(fs.remove_dir(1, b"dir", NOW)), FsErrorKind::NoSpace);
        let over = fs.rename((1, b"spare"), (1, b"last"), RenameMode::Replace, NOW);
        assert_eq!(kind(over), FsErrorKind::NoSpace);
        let links = [dir, spare, last].map(|ino| fs.attr(ino).unwrap().nlink);
        assert_eq!(links, [2, 1, 1]);
        checked(&fs).unwrap();
        // The power goes off: none of them is left.
        fs.sync().unwrap();
        let after = Arc::new(volume.with(volume.lebs()));
        let again = mount(&after).unwrap();
        checked(&again).unwrap();
        assert!(open.iter().all(|ino| again.attr(*ino).is_err()));
        assert_eq!(again.entries(1).unwrap().len(), 3);
        // One place is free again after a release.
        fs.release(open[0]).unwrap();
        fs.unlink(1, b"last", NOW).unwrap();
        fs.sync().unwrap();
        checked(&fs).unwrap();
    }
}
