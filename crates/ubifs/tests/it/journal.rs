//! Replay, recovery of buds, sizes and orphans (spec: ubifs-runtime 16 to 18).

use crate::image::*;
use eraseblock_ubifs::{MountOptions, UbifsError, UbifsMount};
use eraseblock_vfs::{FileSystem, FsErrorKind};
use std::sync::Arc;

fn create(name: &[u8], ino: u32, sqnum: u64) -> [Vec<u8>; 2] {
    [entry(2, 1, name, ino.into(), sqnum, 1), Ino::file(ino, 5, 1).node(sqnum + 1, 2)]
}

#[test]
fn a_clean_journal_is_replayed() {
    let mut image = Image::worked();
    let mut nodes = create(b"new", 80, 60).to_vec();
    nodes.push(entry(2, 1, b"hard", 0, 62, 1));
    nodes.push(Ino::file(73, 12, 1).node(63, 2));
    nodes.push(node(12, 64, 0, &[0; 32]));
    image.bud(BASE, 13, 0, &nodes);
    image.bud(DATA, 14, 0, &[data(80, 0, b"fresh", 65), data(73, 0, b"HELLO UBIFS\n", 66)]);
    let fs = image.mount();
    assert_eq!(fs.info().replayed_nodes, 6);
    assert_eq!(names(&fs), ["a.txt", "dev", "dir", "link", "new", "sparse"]);
    assert_eq!(content(&fs, "new"), b"fresh");
    assert_eq!(content(&fs, "a.txt"), b"HELLO UBIFS\n");
    assert_eq!(fs.attr(73).unwrap().nlink, 1);
}

#[test]
fn entries_apply_in_the_order_of_their_numbers_across_heads() {
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &[entry(2, 1, b"x", 73, 70, 2)]);
    image.bud(GC, 14, 0, &[entry(2, 1, b"x", 65, 60, 2), entry(2, 1, b"y", 65, 61, 2)]);
    image.bud(DATA, 15, 0, &[data(73, 0, b"new content\n", 80)]);
    image.bud(DATA, 16, 0, &[data(73, 0, b"old content\n", 75)]);
    let fs = image.mount();
    assert_eq!(fs.lookup(1, b"x").unwrap(), 73);
    assert_eq!(fs.lookup(1, b"y").unwrap(), 65);
    assert_eq!(content(&fs, "a.txt"), b"new content\n");
}

#[test]
fn truncation_removes_blocks_and_later_data_stays() {
    let mut image = Image::worked();
    let nodes = [
        Ino::file(65, 100, 1).node(60, 1),
        truncation(65, 8197, 100, 61, 1),
        data(65, 0, &[b'B'; 100], 62),
        Ino::file(65, 8200, 1).node(63, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    let mut expected = vec![b'B'; 100];
    expected.resize(8200, 0);
    assert_eq!(content(&fs, "sparse"), expected);
}

#[test]
fn deleting_an_inode_removes_all_it_has() {
    let mut image = Image::worked();
    let nodes = [entry(2, 1, b"sparse", 0, 60, 1), Ino::file(65, 8197, 0).node(61, 2)];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    for ino in [65, 66] {
        assert_eq!(fs.attr(ino).unwrap_err().kind(), FsErrorKind::NotFound);
    }
    assert_eq!(names(&fs).len(), 5);
}

/// Linux writes the file before the xattr, and its own mount leaves the xattr.
#[test]
fn attributes_written_after_the_deletion_of_their_file_go_with_it() {
    let holder = Ino { flags: 0x21, data: b"new".into(), ..Ino::file(66, 3, 1) };
    let host = Ino::file(65, 8197, 0);
    for nodes in [[host.node(62, 1), holder.node(63, 2)], [holder.node(62, 1), host.node(63, 2)]] {
        let mut image = Image::worked();
        // The free space of the image has been fixed up: it has a journal.
        image.patch(0, 0, |node| node[28] &= !4);
        let [one, two] = nodes;
        let nodes = [entry(2, 1, b"sparse", 0, 60, 1), host.node(61, 2), one, two];
        image.bud(BASE, 13, 0, &nodes);
        let fs = image.mount();
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        let (mounted, _) = UbifsMount::mount(Arc::new(image), options).unwrap();
        for ino in [65, 66] {
            assert_eq!(fs.attr(ino).unwrap_err().kind(), FsErrorKind::NotFound);
            assert_eq!(mounted.attr(ino).unwrap_err().kind(), FsErrorKind::NotFound);
        }
        let findings = format!("{:?}", mounted.check().unwrap());
        assert!(!findings.contains("X6"), "{findings}");
    }
}

#[test]
fn a_file_linked_again_keeps_its_content() {
    let mut image = Image::worked();
    let nodes = [
        Ino::file(65, 8197, 0).node(60, 2),
        entry(2, 1, b"again", 65, 61, 1),
        Ino::file(65, 8197, 1).node(62, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    assert_eq!(&content(&fs, "again")[8192..], b"tail\n");
}

#[test]
fn attributes_come_and_go() {
    let mut image = Image::worked();
    let value = Ino { flags: 0x20, mode: 0o100_777, data: b"v".to_vec(), ..Ino::file(81, 1, 1) };
    let nodes = [
        entry(3, 73, b"user.new", 81, 60, 1),
        value.node(61, 1),
        Ino::file(73, 12, 2).node(62, 2),
        entry(3, 73, b"security.selinux", 0, 63, 1),
        Ino { flags: 0x20, ..Ino::file(75, 9, 0) }.node(64, 1),
        Ino::file(73, 12, 2).node(65, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    assert_eq!(fs.list_xattrs(73).unwrap(), [b"user.new"]);
    assert_eq!(fs.xattr(73, b"user.new").unwrap(), b"v");
}

#[test]
fn torn_tails_are_discarded_only_after_an_unclean_stop() {
    for image in [Image::worked(), Image::dirty()] {
        let mut image = image;
        let mut nodes = create(b"new", 80, 60).to_vec();
        nodes.extend(create(b"torn", 81, 62));
        let end = image.bud(BASE, 13, 0, &nodes);
        image.flip(13, end - 8);
        image.put(13, end, &vec![0xFF; end.next_multiple_of(UNIT) - end]);
        if image.bytes[Image::at(1, 40)] & 1 == 1 {
            let fs = image.mount();
            assert_eq!(names(&fs).len(), 7, "the group of the torn node is dropped");
            assert!(fs.lookup(1, b"new").is_ok());
        } else {
            let (fs, codes) = image.salvage();
            assert_eq!(codes, ["journal-corrupt", "journal-replayed"]);
            assert_eq!(names(&fs).len(), 8, "salvaging keeps what is valid");
        }
    }
}

#[test]
fn a_group_cut_between_nodes_is_dropped() {
    let mut image = Image::dirty();
    image.bud(
        BASE,
        13,
        0,
        &[create(b"new", 80, 60).to_vec(), vec![entry(2, 1, b"cut", 81, 62, 1)]].concat(),
    );
    assert_eq!(names(&image.mount()).len(), 7);
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &[entry(2, 1, b"cut", 73, 62, 1)]);
    assert_eq!(names(&image.mount()).len(), 7, "a clean journal is taken as it is");
}

#[test]
fn damage_a_power_cut_cannot_make_is_refused() {
    // Garbage that extends beyond its write unit.
    let mut image = Image::dirty();
    let end = image.bud(BASE, 13, 0, &create(b"new", 80, 60)).next_multiple_of(UNIT);
    image.put(13, end, &[0xAB; UNIT]);
    assert_eq!(names(&image.mount()).len(), 7);
    image.put(13, end + UNIT, &[0xAB; 16]);
    let (fs, codes) = image.salvage();
    assert_eq!(codes[0], "journal-corrupt");
    assert_eq!(names(&fs).len(), 7);
    // A damaged node followed by good ones.
    let mut image = Image::dirty();
    image.bud(BASE, 13, 0, &[create(b"one", 80, 60), create(b"two", 81, 62)].concat());
    image.put(13, 512, &padding(512));
    image.flip(13, 50);
    let (fs, codes) = image.salvage();
    assert_eq!(codes[0], "journal-corrupt");
    assert!(fs.lookup(1, b"two").is_ok());
}

#[test]
fn only_the_last_bud_of_a_head_may_be_torn() {
    let torn = |image: &mut Image| {
        let end = image.bud(BASE, 13, 0, &create(b"new", 80, 60));
        image.put(13, end.next_multiple_of(UNIT), &[0xAB; 16]);
    };
    let mut image = Image::dirty();
    torn(&mut image);
    image.bud(BASE, 14, 0, &create(b"later", 81, 70));
    let (fs, codes) = image.salvage();
    assert_eq!(codes[0], "journal-corrupt");
    assert_eq!(names(&fs).len(), 8);
    // Old writers referred to the next bud before the old one was on flash (16.5).
    let mut image = Image::dirty();
    torn(&mut image);
    image.bud(BASE, 14, 0, &[]);
    assert_eq!(names(&image.mount()).len(), 7);
}

#[test]
fn the_damaged_unit_of_the_gc_head_is_given_up() {
    let mut image = Image::dirty();
    let long = data(73, 0, &[b'x'; 500], 60);
    let end = image.bud(
        GC,
        13,
        0,
        &[long, entry(2, 1, b"copy", 73, 61, 1), entry(2, 1, b"gone", 73, 62, 1)],
    );
    // Everything from the last whole unit on is torn.
    image.put(13, end, &vec![0xAB; end.next_multiple_of(UNIT) - end]);
    let fs = image.mount();
    assert_eq!(names(&fs).len(), 6);
    // Undamaged, even what looks like a cut group stays: copies are not grouped.
    let mut image = Image::dirty();
    image.bud(GC, 13, 0, &[entry(2, 1, b"copy", 73, 61, 1)]);
    assert_eq!(names(&image.mount()).len(), 7);
}

#[test]
fn foreign_nodes_in_a_bud_are_refused() {
    let mut image = Image::worked();
    let mut nodes = create(b"new", 80, 60).to_vec();
    nodes.push(node(10, 63, 0, &[0; 8]));
    image.bud(BASE, 13, 0, &nodes);
    let (fs, codes) = image.salvage();
    assert_eq!(codes[0], "journal-corrupt");
    assert_eq!(names(&fs).len(), 7);
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &[entry(2, 1, b"x", 73, 0xFFFF_FFFF_FF00_0000, 2)]);
    assert!(
        matches!(image.refused(), UbifsError::Refused { code, .. } if code == "journal-corrupt")
    );
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &[entry(2, 1, b"x", 1 << 32, 60, 2)]);
    assert_eq!(image.salvage().1[0], "journal-corrupt");
}

#[test]
fn sizes_follow_the_data_after_an_unclean_stop() {
    let journal = |image: &mut Image| {
        image.bud(DATA, 13, 0, &[data(73, 1, b"more", 60), data(90, 0, b"lost", 61)]);
    };
    let mut image = Image::dirty();
    journal(&mut image);
    let fs = image.mount();
    assert_eq!((fs.attr(73).unwrap().size, fs.info().sizes_fixed), (4100, 1));
    assert_eq!(&content(&fs, "a.txt")[4096..], b"more");
    let mut image = Image::worked();
    journal(&mut image);
    assert_eq!(image.mount().attr(73).unwrap().size, 12);
    // A truncation starts over.
    let mut image = Image::dirty();
    let nodes = [
        data(65, 3, b"beyond", 60),
        Ino::file(65, 10, 1).node(61, 1),
        truncation(65, 12294, 10, 62, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    assert_eq!(image.mount().attr(65).unwrap().size, 10);
}

#[test]
fn orphans_die_when_nothing_links_them() {
    let unlinked = |image: &mut Image| image.patch(10, 392, |node| node[92] = 0);
    let mut image = Image::dirty();
    unlinked(&mut image);
    image.put(9, 0, &orphans(1, true, &[65, 73, 999, 1 << 40], 48));
    let fs = image.mount();
    assert_eq!((fs.info().orphans_removed, fs.info().orphan_attributes_removed), (1, 1));
    assert!(fs.attr(65).is_err() && fs.attr(66).is_err());
    assert!(fs.attr(73).is_ok(), "a linked inode is no orphan");
    // With the flag, or after a clean unmount, the area means nothing.
    let mut flagged = image.clone();
    for leb in [1, 2] {
        flagged.patch(leb, 0, |node| node[40] = 3);
    }
    assert!(flagged.mount().attr(65).is_ok());
    let mut clean = Image::worked();
    unlinked(&mut clean);
    clean.put(9, 0, &[0xAB; 1024]);
    assert!(clean.mount().attr(65).is_ok());
}

#[test]
fn orphan_areas_may_be_torn_or_stale_at_their_end() {
    let mut image = Image::dirty();
    image.patch(10, 392, |node| node[92] = 0);
    image.put(9, 0, &orphans(1, true, &[65], 48));
    image.put(9, UNIT, &[0xAB; 40]);
    assert_eq!(image.mount().info().orphans_removed, 1);
    image.put(9, UNIT, &orphans(0, true, &[73], 40));
    assert_eq!(image.salvage().1, ["orphans-corrupt", "orphans-removed"]);
    image.put(9, UNIT, &orphans(2, true, &[73], 50));
    assert_eq!(image.mount().info().orphans_removed, 1);
    image.put(9, UNIT, &node(10, 63, 0, &[0; 8]));
    image.put(9, UNIT + 32, &padding(UNIT - 32));
    assert_eq!(image.salvage().1[0], "orphans-corrupt");
}

#[test]
fn dangling_entries_give_way_to_the_deletion_that_made_them() {
    let mut image = Image::worked();
    // The node of "hard" was collected after its deletion, which is still in the journal.
    image.put(10, 2072, &[0xFF; 61]);
    image.bud(BASE, 13, 0, &[entry(2, 1, b"hard", 0, 60, 1), Ino::file(73, 12, 1).node(61, 2)]);
    let fs = image.mount();
    assert_eq!(names(&fs), ["a.txt", "dev", "dir", "link", "sparse"]);
    assert!(fs.late_findings().is_empty());
}
