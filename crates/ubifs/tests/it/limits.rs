//! The promised limits of memory, flags, cookies and the largest file.

use crate::beside::{colliding, next};
use crate::check::Bytes;
use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_base::Leb;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Caller, FileSystem, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const BLOCK: u64 = 4096;
const LAST: u64 = 2 << 40;

fn mount_with(volume: &Arc<StrictLeb>, options: MountOptions) -> UbifsMount {
    UbifsMount::mount(Arc::clone(volume) as _, options).unwrap().0
}

/// Returns the most memory taken while a file of so many blocks is written, over what the mount
/// takes.
fn writing(volume: &Arc<StrictLeb>, blocks: u64, dirty_bytes: usize) -> u64 {
    let fs = mount_with(volume, MountOptions { dirty_bytes, ..MountOptions::default() });
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    let (bare, mut peak) = (fs.memory(), 0);
    for block in 0..blocks {
        fs.write(ino, block * BLOCK, &[block as u8 | 1; BLOCK as usize], NOW).unwrap();
        peak = peak.max(fs.memory());
    }
    fs.unmount().unwrap();
    peak - bare
}

/// Returns the most memory taken while that file is read, over what the mount takes.
fn reading(volume: &Arc<StrictLeb>, blocks: u64, index_bytes: usize) -> u64 {
    let fs = mount_with(volume, MountOptions { index_bytes, ..MountOptions::default() });
    let ino = fs.lookup(1, b"f").unwrap();
    let (bare, mut peak) = (fs.memory(), 0);
    let mut back = vec![0; BLOCK as usize];
    for block in 0..blocks {
        assert_eq!(fs.read(ino, block * BLOCK, &mut back).unwrap(), back.len());
        assert!(back.iter().all(|byte| *byte == block as u8 | 1), "block {block}");
        peak = peak.max(fs.memory());
    }
    peak - bare
}

#[test]
fn memory_stays_within_its_budgets() {
    const BLOCKS: u64 = 12_000;
    // Large enough to reserve space for all pages uncompressed.
    let volume = empty(4000);
    let (small, usual) = (512 << 10, MountOptions::default().dirty_bytes as u64);
    let little = writing(&volume, BLOCKS, small);
    // In addition to the pages there is the index, of which 16 MiB may be kept here.
    assert!(little < small as u64 + (5 << 20), "{little} bytes");
    let much = writing(&empty(4000), BLOCKS, usual as usize);
    assert!(much > usual * 3 / 4 && much < usual + (5 << 20), "{much} bytes");

    let small = 64 << 10;
    let little = reading(&volume, BLOCKS, small);
    assert!(little < 3 * small as u64 + (64 << 10), "{little} bytes");
    let much = reading(&volume, BLOCKS, MountOptions::default().index_bytes);
    assert!(much > 2 * little, "{much} bytes, and {little} with a small budget");
}

/// Returns whether this many consecutive equal bytes occur anywhere on the volume.
fn has_run(volume: &StrictLeb, byte: u8, len: usize) -> bool {
    (0..volume.leb_count()).any(|leb| {
        let mut content = vec![0; volume.leb_size() as usize];
        volume.read(Leb::new(leb), 0, &mut content).unwrap();
        content.chunk_by(|one, two| one == two).any(|run| run[0] == byte && run.len() >= len)
    })
}

#[test]
fn a_file_without_the_flag_is_stored_plain() {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    for (name, byte, compress) in [(b"packed", b'p', true), (b"plain1", b'q', false)] {
        let ino = fs.create(1, name, &file(), NOW).unwrap();
        let flags = Some(InodeFlags { compress, ..InodeFlags::default() });
        fs.set_attr(ino, &SetAttr { flags, ..SetAttr::default() }, NOW).unwrap();
        fs.write(ino, 0, &[byte; 3 * BLOCK as usize], NOW).unwrap();
    }
    fs.unmount().unwrap();
    assert!(!has_run(&volume, b'p', 64));
    assert!(has_run(&volume, b'q', BLOCK as usize));
    let fs = mount(&volume).unwrap();
    let ino = fs.lookup(1, b"plain1").unwrap();
    assert!(!fs.attr(ino).unwrap().flags.compress);
    // Later writes follow it, too.
    fs.write(ino, 0, &[b'r'; BLOCK as usize], NOW).unwrap();
    fs.sync().unwrap();
    assert!(has_run(&volume, b'r', BLOCK as usize));
}

/// A listing is kept open while names are added, removed and changed, and over a mount: names that
/// existed throughout are listed once.
#[test]
fn a_held_cookie_outlives_changes_and_a_mount() {
    for volume in [empty(100), colliding(100)] {
        for held in [1, 7, 150, 299] {
            let fs = mount(&volume).unwrap();
            let name = |number: u32| format!("name{number}").into_bytes();
            for number in 0..300 {
                fs.create(1, &name(number), &file(), NOW).unwrap();
            }
            let (before, cookie) = next(&fs, 0, held);
            assert_eq!(before.len(), held);
            let mut stay: BTreeSet<Vec<u8>> = (0..300).map(name).collect();
            // The name before the cookie is removed, too.
            let gone = (0..300).step_by(5).map(name).chain(before.last().cloned());
            for name in gone.collect::<BTreeSet<_>>() {
                fs.unlink(1, &name, NOW).unwrap();
                stay.remove(&name);
            }
            for number in (1..300).step_by(5) {
                if stay.remove(&name(number)) {
                    let new = format!("name-new{number}").into_bytes();
                    fs.rename((1, &name(number)), (1, &new), RenameMode::Replace, NOW).unwrap();
                }
            }
            for number in 1000..1100 {
                fs.create(1, &name(number), &file(), NOW).unwrap();
            }
            fs.unmount().unwrap();
            drop(fs);
            let fs = mount(&volume).unwrap();
            let (after, _) = next(&fs, cookie, usize::MAX);
            let mut listed = before.clone();
            listed.extend(after);
            for name in &stay {
                let times = listed.iter().filter(|listed| *listed == name).count();
                assert_eq!(times, 1, "{} after {held}", name.escape_ascii());
            }
            for entry in fs.entries(1).unwrap() {
                fs.unlink(1, &entry.name, NOW).unwrap();
            }
            fs.unmount().unwrap();
        }
    }
}

#[test]
fn a_file_reaches_to_two_tebibytes_and_no_further() {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    let size = |fs: &UbifsMount| fs.attr(ino).unwrap().size;
    let resize = |fs: &UbifsMount, size| {
        fs.set_attr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, NOW)
    };
    let read = |fs: &UbifsMount, at| {
        let mut back = [0xee; BLOCK as usize];
        let len = fs.read(ino, at, &mut back).unwrap();
        back[..len].to_vec()
    };
    fs.write(ino, 0, b"start", NOW).unwrap();
    fs.write(ino, LAST - BLOCK, &[7; BLOCK as usize], NOW).unwrap();
    assert_eq!(size(&fs), LAST);
    for (at, len) in [(LAST, 1), (LAST - 1, 2), (LAST + BLOCK, 1), (u64::MAX, 1)] {
        let error = fs.write(ino, at, &vec![1; len], NOW).unwrap_err();
        assert_eq!(error.kind(), FsErrorKind::TooBig, "{at}");
    }
    assert_eq!(resize(&fs, LAST + 1).unwrap_err().kind(), FsErrorKind::TooBig);
    assert_eq!(size(&fs), LAST);
    fs.unmount().unwrap();

    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    assert_eq!((size(&fs), read(&fs, LAST - BLOCK)), (LAST, vec![7; BLOCK as usize]));
    assert_eq!(read(&fs, LAST), b"");
    resize(&fs, LAST - 10).unwrap();
    assert_eq!(read(&fs, LAST - BLOCK), vec![7; BLOCK as usize - 10]);
    resize(&fs, LAST).unwrap();
    let tail = [vec![7; BLOCK as usize - 10], vec![0; 10]].concat();
    assert_eq!(read(&fs, LAST - BLOCK), tail);
    fs.sync().unwrap();
    drop(fs);

    let fs = mount(&volume).unwrap();
    assert_eq!(read(&fs, LAST - BLOCK), tail);
    resize(&fs, 5).unwrap();
    resize(&fs, LAST).unwrap();
    assert_eq!(read(&fs, LAST - BLOCK), vec![0; BLOCK as usize]);
    assert_eq!(read(&fs, 0)[..6], *b"start\0");
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    assert_eq!((size(&fs), read(&fs, LAST - BLOCK)), (LAST, vec![0; BLOCK as usize]));
}

/// Names of a directory that takes a tenth of the volume, in pieces and one by one.
#[test]
fn a_big_directory_is_listed_searched_and_emptied() {
    const NAMES: u32 = 20_000;
    let name = |number: u32| format!("a name of {number}").into_bytes();
    let volume = empty(2000);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, &name(0), &file(), NOW).unwrap();
    for number in 1..NAMES {
        fs.link(ino, 1, &name(number), NOW).unwrap();
    }
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    let (mut listed, mut cookie) = (BTreeSet::new(), 0);
    loop {
        let (names, behind) = next(&fs, cookie, 777);
        if names.is_empty() {
            break;
        }
        for name in names {
            assert!(listed.insert(name), "a name is listed twice");
        }
        cookie = behind;
    }
    assert_eq!(listed, (0..NAMES).map(name).collect());
    assert_eq!(fs.attr(ino).unwrap().nlink, NAMES);
    for number in 0..NAMES {
        assert_eq!(fs.lookup(1, &name(number)).unwrap(), ino);
        fs.unlink(1, &name(number), NOW).unwrap();
    }
    assert!(fs.entries(1).unwrap().is_empty());
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    assert!(fs.entries(1).unwrap().is_empty());
}

#[test]
fn the_shortest_content_that_is_compressed_has_128_bytes() {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    for (name, byte, len) in [(b"just", b's', 128), (b"less", b't', 127)] {
        let ino = fs.create(1, name, &file(), NOW).unwrap();
        fs.write(ino, 0, &vec![byte; len], NOW).unwrap();
    }
    fs.unmount().unwrap();
    assert!(!has_run(&volume, b's', 100));
    assert!(has_run(&volume, b't', 127));
}

/// One group of the journal deletes a file with all its attributes: half a LEB of inodes.
#[test]
fn a_file_has_as_many_attributes_as_one_group_can_delete() {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"f", &file(), NOW).unwrap();
    let set = |number: u32| {
        let name = format!("user.{number}");
        fs.set_xattr(ino, name.as_bytes(), b"value", XattrMode::Create, NOW)
    };
    (0..49).for_each(|number| set(number).unwrap());
    assert_eq!(set(49).unwrap_err().kind(), FsErrorKind::NoSpace);
    fs.remove_xattr(ino, b"user.7", NOW).unwrap();
    set(49).unwrap();
    checked(&fs).unwrap();
    fs.unlink(1, b"f", NOW).unwrap();
    fs.unmount().unwrap();
    checked(&mount(&volume).unwrap()).unwrap();
}

#[test]
fn a_directory_that_is_gone_takes_no_file_without_a_name() {
    let fs = mount(&empty(64)).unwrap();
    let kind = NewInode { kind: NewKind::Directory, ..file() };
    let dir = fs.create(1, b"dir", &kind, NOW).unwrap();
    fs.open(dir).unwrap();
    let made = fs.create_unnamed(dir, &file(), NOW).unwrap();
    fs.release(made).unwrap();
    fs.remove_dir(1, b"dir", NOW).unwrap();
    let error = fs.create_unnamed(dir, &file(), NOW).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::NotFound, "{error}");
}

/// A format that says that it can be read, and is newer than Linux's.
#[test]
fn a_newer_format_is_not_written() {
    let volume = empty(64);
    let mut bytes = Bytes::of(&volume);
    let mounted = |bytes: &Bytes| {
        let mounted = UbifsMount::mount(bytes.volume() as _, MountOptions::default());
        mounted.err().map(|error| error.to_string())
    };
    bytes.set_format(5);
    assert_eq!(mounted(&bytes), None);
    bytes.set_format(6);
    let error = mounted(&bytes).expect("refused");
    assert!(error.contains("format"), "{error}");
}
