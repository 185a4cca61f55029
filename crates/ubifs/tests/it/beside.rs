//! Concurrency: readers with other readers and writers, a listing during deletions; and durability
//! without a commit.

use crate::rw::{checked, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::KeyHash;
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{Caller, FileSystem, SourceTree, Timestamp, WritableFileSystem};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Returns an empty file system in which names that begin with the same four letters have one hash.
pub(crate) fn colliding(lebs: u32) -> Arc<StrictLeb> {
    let volume = StrictLeb::new(15_872, 512, 2048, lebs);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let options = MkfsOptions { key_hash: KeyHash::Test, ..MkfsOptions::new(15_872, 512, lebs) };
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    Arc::new(volume)
}

/// Returns the next names of the root and the cookie after them.
pub(crate) fn next(fs: &UbifsMount, cookie: u64, most: usize) -> (Vec<Vec<u8>>, u64) {
    let (mut names, mut last) = (Vec::new(), cookie);
    fs.read_dir(1, cookie, &mut |entry| {
        names.push(entry.name);
        last = entry.cookie;
        if names.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .unwrap();
    (names, last)
}

/// A listing counted the names of one hash it had passed: when one of them was deleted, another was
/// left out, and `rm -r` left directories.
#[test]
fn a_listing_misses_nothing_when_what_it_has_listed_is_deleted() {
    for piece in [1, 3, 40, 1000] {
        let fs = mount(&colliding(64)).unwrap();
        let names: BTreeSet<Vec<u8>> = (0..600).map(|n| format!("name{n}").into_bytes()).collect();
        for name in &names {
            fs.create(1, name, &file(), NOW).unwrap();
        }
        let (mut seen, mut cookie) = (Vec::new(), 0);
        loop {
            let (listed, behind) = next(&fs, cookie, piece);
            if listed.is_empty() {
                break;
            }
            for name in &listed {
                fs.unlink(1, name, NOW).unwrap();
            }
            seen.extend(listed);
            cookie = behind;
        }
        assert_eq!(seen.len(), names.len(), "in pieces of {piece}");
        assert_eq!(BTreeSet::from_iter(seen), names);
        checked(&fs).unwrap();
    }
}

#[test]
fn a_flush_is_durable_without_a_commit() {
    let volume = crate::rw::empty(64);
    let fs = mount(&volume).unwrap();
    let commits = fs.activity().commits;
    for number in 0..20_u8 {
        let ino = fs.create(1, &[b'f', number + 1], &file(), NOW).unwrap();
        fs.write(ino, 0, &[number; 5000], NOW).unwrap();
        fs.flush().unwrap();
    }
    fs.unlink(1, &[b'f', 1], NOW).unwrap();
    fs.flush().unwrap();
    assert_eq!(fs.activity().commits, commits);
    drop(fs);
    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    assert!(fs.lookup(1, &[b'f', 1]).is_err());
    for number in 1..20_u8 {
        let ino = fs.lookup(1, &[b'f', number + 1]).unwrap();
        let mut back = [0; 6000];
        assert_eq!(fs.read(ino, 0, &mut back).unwrap(), 5000);
        assert!(back[..5000].iter().all(|byte| *byte == number));
    }
}

/// Four readers, an index that is mostly not in memory, and a writer.
#[test]
fn readers_beside_a_writer_read_what_is_there() {
    const BLOCK: usize = 4096;
    let volume = crate::rw::empty(200);
    let options = MountOptions { index_bytes: 1, ..MountOptions::default() };
    let (fs, _) = UbifsMount::mount(Arc::clone(&volume) as _, options).unwrap();
    let block = |number: usize| vec![(number % 251) as u8; BLOCK];
    let files: Vec<u64> = (0..2_u8)
        .map(|which| {
            let ino = fs.create(1, &[b'a' + which], &file(), NOW).unwrap();
            for number in 0..150 {
                fs.write(ino, (number * BLOCK) as u64, &block(number), NOW).unwrap();
            }
            ino
        })
        .collect();
    fs.sync().unwrap();
    std::thread::scope(|scope| {
        for reader in 0..4_usize {
            let (fs, files) = (&fs, &files);
            scope.spawn(move || {
                let mut back = vec![0; 3 * BLOCK];
                for round in 0..300 {
                    let number = (round * 7 + reader * 31) % 147;
                    assert_eq!(
                        fs.lookup(1, &[b'a' + (round % 2) as u8]).unwrap(),
                        files[round % 2]
                    );
                    let len =
                        fs.read(files[round % 2], (number * BLOCK) as u64, &mut back).unwrap();
                    let expected = [block(number), block(number + 1), block(number + 2)].concat();
                    assert!(len == back.len() && back == expected, "block {number}");
                }
            });
        }
        for round in 0..150 {
            let number = round * 11 % 150;
            fs.write(files[round % 2], (number * BLOCK) as u64, &block(number), NOW).unwrap();
            fs.create(1, format!("new{round}").as_bytes(), &file(), NOW).unwrap();
            if round % 20 == 0 {
                fs.sync().unwrap();
            }
        }
    });
    checked(&fs).unwrap();
    fs.unmount().unwrap();
}
