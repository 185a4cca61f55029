//! Volumes whose index, master or superblock is lost.

use crate::volume::*;
use eraseblock_repair::{Level, Part};
use eraseblock_vfs::{FileSystem, SetAttr, WritableFileSystem};
use std::sync::Arc;

/// A sample with these files, of which the second was deleted, and nothing on flash says so but the index
/// and the directory.
fn with_a_deleted_file(kept: &[u8], gone: &[u8]) -> Arc<Memory> {
    let volume = sample();
    let fs = mount(&volume);
    for (seed, name) in [(4, kept), (5, gone)] {
        let ino = fs.create(1, name, &file(), NOW).unwrap();
        fs.write(ino, 0, &content(seed, 3000), NOW).unwrap();
    }
    fs.unmount().unwrap();
    let fs = mount(&volume);
    let ino = fs.lookup(1, gone).unwrap();
    fs.unlink(1, gone, NOW).unwrap();
    fs.unmount().unwrap();
    mount(&volume).unmount().unwrap();
    let (entry, inode) = (volume.entry(gone), volume.inode(ino));
    assert_eq!(volume.bytes(entry.leb)[entry.at + 40], 0, "the newest entry deletes it");
    volume.blank(entry);
    volume.blank(inode);
    volume
}

/// What a mount sees of it, and then no mount any more.
fn without_index(volume: &Arc<Memory>) -> Tree {
    let before = tree_of(volume);
    volume.erase(1);
    volume.erase(2);
    volume.tear_index();
    before
}

/// Two names of one length: the size of the directory cannot say which of them is in use.
#[test]
fn an_older_index_says_what_was_deleted() {
    let volume = with_a_deleted_file(b"kept", b"gone");
    let before = tree_of(&volume);
    volume.erase(1);
    volume.erase(2);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Rebuild), "{lines:#?}");
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
}

#[test]
fn a_directory_says_what_was_deleted() {
    let volume = with_a_deleted_file(b"kept", b"gone with a name of its own length");
    let before = without_index(&volume);
    let (_, lines) = repaired(&volume);
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("the size of the directory")), "{lines:#?}");
}

/// A file was cut off, and then became longer again.
#[test]
fn a_truncation_counts_without_an_index() {
    let volume = sample();
    let fs = mount(&volume);
    let ino = fs.lookup(1, b"file").unwrap();
    for size in [4096, 20_000] {
        let changes = SetAttr { size: Some(size), ..SetAttr::default() };
        fs.set_attr(ino, &changes, NOW).unwrap();
    }
    fs.unmount().unwrap();
    mount(&volume).unmount().unwrap();
    let before = without_index(&volume);
    let (_, lines) = repaired(&volume);
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
}

/// The newest version of a block is damaged, an older one of the same length is not.
#[test]
fn an_older_version_is_not_delivered() {
    let volume = sample();
    let fs = mount(&volume);
    let ino = fs.create(1, b"two", &file(), NOW).unwrap();
    fs.write(ino, 0, &[b'a'; 4096], NOW).unwrap();
    fs.unmount().unwrap();
    let fs = mount(&volume);
    fs.write(ino, 0, &[b'b'; 4096], NOW).unwrap();
    let other = fs.create(1, b"other", &file(), NOW).unwrap();
    fs.write(other, 0, &content(6, 9000), NOW).unwrap();
    fs.unmount().unwrap();
    mount(&volume).unmount().unwrap();
    let blocks: Vec<_> = volume.blocks(ino);
    assert!(blocks.len() == 2 && blocks[0].len == blocks[1].len, "{blocks:?}");
    volume.tear(volume.block(ino, 0), 60);
    volume.erase(1);
    volume.erase(2);
    let (repair, lines) = repaired(&volume);
    let lost = Part::Content { from: 0, to: 4096 };
    assert!(repair.plan().losses().any(|loss| loss.part == lost), "{lines:#?}");
    let mut found = vec![1; 4096];
    opened(&volume).read(ino, 0, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 0), "{lines:#?}");
}

#[test]
fn a_whole_volume_needs_nothing() {
    let volume = sample();
    assert!(examined(&volume).unwrap().plan().is_empty());
}

#[test]
fn without_masters() {
    let volume = sample();
    let before = tree_of(&volume);
    volume.erase(1);
    volume.erase(2);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Rebuild), "{lines:#?}");
    assert_eq!(repair.plan().losses().count(), 0, "{lines:#?}");
    assert_eq!(tree_of(&volume), before);
}

#[test]
fn without_any_index() {
    let volume = sample();
    let before = tree_of(&volume);
    volume.erase(1);
    volume.erase(2);
    for node in volume.nodes().into_iter().filter(|node| node.kind == 9) {
        volume.tear(node, 30);
    }
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Rebuild), "{lines:#?}");
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
}

#[test]
fn without_a_superblock() {
    let volume = sample();
    let before = tree_of(&volume);
    let damaged = volume.snapshot();
    // One field is damaged, or all of it is gone.
    for at in [4, 28, 40, 56, 60, 64, 72] {
        let volume = Memory::of(damaged.clone());
        volume.put(0, at, &[0xA5; 4]);
        let (repair, lines) = repaired(&volume);
        assert_eq!(level(&repair), Some(Level::Rebuild), "{lines:#?}");
        assert_eq!(tree_of(&volume), before, "{at}: {lines:#?}");
    }
    let volume = Memory::of(damaged);
    volume.erase(0);
    let (_, lines) = repaired(&volume);
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
}

#[test]
fn without_one_index_node() {
    let volume = sample();
    let before = tree_of(&volume);
    let nodes: Vec<_> = volume.nodes().into_iter().filter(|node| node.kind == 9).collect();
    let damaged = volume.snapshot();
    for node in nodes {
        let volume = Memory::of(damaged.clone());
        volume.tear(node, 30);
        let repair = examined(&volume).unwrap();
        if repair.plan().is_empty() {
            continue;
        }
        let (_, lines) = repaired(&volume);
        assert_eq!(tree_of(&volume), before, "{node:?}: {lines:#?}");
    }
}
