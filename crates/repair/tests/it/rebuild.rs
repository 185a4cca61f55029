//! Volumes whose index, master or superblock is lost.

use crate::volume::*;
use eraseblock_repair::Level;

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
