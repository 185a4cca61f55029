//! Nodes that were marked obsolete in place, as on NOR, and numbers that were used again.

use eraseblock_base::{ByteOrder, Findings};
use eraseblock_history::content::Contents;
use eraseblock_history::{Class, History};
use eraseblock_jffs2::{Jffs2, OpenOptions, Source};
use eraseblock_jffs2_format::encode::{dirent, inode};
use eraseblock_jffs2_format::{Dirent, Inode};
use std::sync::Arc;

const BLOCK: usize = 16 << 10;

/// An image of nodes, each of which may be marked obsolete.
fn image(order: ByteOrder, nodes: &[(Vec<u8>, bool)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (node, is_obsolete) in nodes {
        let at = bytes.len();
        bytes.extend(node);
        bytes.resize(bytes.len().next_multiple_of(4), 0xFF);
        if *is_obsolete {
            bytes[at + if order == ByteOrder::Big { 2 } else { 3 }] &= !0x20;
        }
    }
    bytes.resize(4 * BLOCK, 0xFF);
    bytes
}

fn node(order: ByteOrder, version: u32, ctime: u32, content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap();
    let all = Inode {
        ino: 2,
        version,
        mode: 0o100_644,
        isize: size,
        ctime,
        mtime: ctime,
        csize: size,
        dsize: size,
        ..Inode::default()
    };
    let mut out = Vec::new();
    inode(order, &all, content, &mut out);
    out
}

fn name(order: ByteOrder, version: u32, ino: u32) -> Vec<u8> {
    let entry = Dirent { pino: 1, version, ino, mctime: 9, file_type: 8, name: b"file" };
    let mut out = Vec::new();
    dirent(order, &entry, &mut out);
    out
}

/// Classes and contents of the versions of inode 2, the newest first, and deleted names with their classes.
fn past(bytes: Vec<u8>) -> (Vec<(Class, Vec<u8>)>, Vec<Class>) {
    let options = OpenOptions { erase_size: Some(BLOCK as u32), ..OpenOptions::default() };
    let (fs, _) = Jffs2::open(Source::Image(Arc::new(bytes)), &options).unwrap();
    let (history, nodes) = History::read_flash(Arc::new(fs), Findings::new()).unwrap();
    let mut contents = Contents::of_flash(nodes);
    let mut version = |it| {
        let content = contents.open(it).unwrap();
        let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
        content.read(0, &mut bytes).unwrap();
        (it.class, bytes)
    };
    let versions = history.versions(2).iter().map(&mut version).collect();
    (versions, history.deleted().iter().map(|it| it.class).collect())
}

#[test]
fn obsolete_nodes_are_versions() {
    for order in ByteOrder::ALL {
        let nodes = [
            (name(order, 1, 2), false),
            (node(order, 1, 10, b"one"), true),
            (node(order, 2, 20, b"two"), true),
            (node(order, 3, 30, b"three"), false),
        ];
        let found = past(image(order, &nodes));
        let expected = [
            (Class::Live, b"three".to_vec()),
            (Class::Proven, b"two".to_vec()),
            (Class::Proven, b"one".to_vec()),
        ];
        assert_eq!(found, (expected.to_vec(), vec![]), "{order:?}");
    }
}

#[test]
fn gaps_and_writes_without_an_end_prove_nothing() {
    let order = ByteOrder::Little;
    // Version 2 is gone, and version 3 covers all that it wrote; versions 4 and 5 are of one second; the file was deleted after version 5.
    let nodes = [
        (name(order, 1, 2), true),
        (node(order, 1, 10, b"one"), true),
        (node(order, 3, 30, b"three"), true),
        (node(order, 4, 40, b"four"), true),
        (node(order, 5, 40, b"fifth"), true),
        (name(order, 2, 0), false),
    ];
    let (versions, deleted) = past(image(order, &nodes));
    let classes: Vec<Class> = versions.iter().map(|(class, _)| *class).collect();
    assert_eq!(classes, [Class::Likely, Class::Likely, Class::Consistent, Class::Likely]);
    let contents: Vec<&[u8]> = versions.iter().map(|(_, bytes)| &bytes[..]).collect();
    assert_eq!(contents, [&b"fifth"[..], b"four", b"three", b"one"]);
    assert_eq!(deleted, [Class::Consistent]);
}

#[test]
fn a_number_that_was_used_again_proves_nothing() {
    let order = ByteOrder::Little;
    let first = [(node(order, 1, 50, b"old"), true), (node(order, 2, 60, b"older"), true)];
    // Another node of a version, a time that goes back, and a node after the newest one.
    for others in [
        vec![(node(order, 1, 10, b"new"), false), (node(order, 2, 20, b"newer"), false)],
        vec![(node(order, 3, 20, b"newer"), false)],
        vec![(node(order, 1, 70, b"new"), false)],
    ] {
        let nodes = [&[(name(order, 1, 2), false)], &first[..], &others].concat();
        let (versions, _) = past(image(order, &nodes));
        assert!(
            versions
                .iter()
                .all(|(class, _)| { !matches!(class, Class::Proven | Class::Consistent) }),
            "{versions:?}"
        );
        let live = versions.iter().find(|(class, _)| *class == Class::Live).unwrap();
        assert!(live.1.starts_with(b"new"), "{versions:?}");
    }
}
