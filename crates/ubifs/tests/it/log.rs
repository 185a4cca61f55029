//! The log (spec: ubifs-runtime 16.2, 16.3, 17.6).

use crate::image::*;
use eraseblock_vfs::FileSystem;

fn entry_x(sqnum: u64) -> Vec<Vec<u8>> {
    vec![entry(2, 1, b"x", 73, sqnum, 2)]
}

#[test]
fn torn_ends_are_recovered_and_other_damage_is_not() {
    let mut image = Image::dirty();
    image.bud(BASE, 13, 0, &entry_x(60));
    image.put(3, 1024, &[0xAB; 100]);
    assert!(image.mount().lookup(1, b"x").is_ok());
    // Followed by a newer log LEB, this one cannot be the torn one.
    image.put(4, 0, &node(8, 70, 0, &[0; 40]));
    image.put(4, 64, &padding(UNIT - 64));
    let (fs, codes) = image.salvage();
    assert!(codes.contains(&"log-corrupt"));
    assert!(fs.lookup(1, b"x").is_ok());
    // A clean volume has no torn log.
    let mut image = Image::worked();
    image.put(3, 512, &[0xAB; 100]);
    assert_eq!(image.salvage().1, ["log-corrupt"]);
}

#[test]
fn the_log_ends_at_a_stale_leb_and_goes_on_in_a_new_one() {
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &entry_x(60));
    image.put(4, 0, &node(8, 40, 0, &[0xFF; 40]));
    image.put(4, 64, &padding(UNIT - 64));
    assert!(image.mount().lookup(1, b"x").is_ok());
    // The commit start of a commit that failed, followed by a reference.
    let mut reference = vec![0; 40];
    reference[..12].copy_from_slice(&[14, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    image.put(4, 0, &node(10, 70, 0, &1_u64.to_le_bytes()));
    image.put(4, 32, &padding(UNIT - 32));
    image.put(4, UNIT, &node(8, 71, 0, &reference));
    image.put(4, UNIT + 64, &padding(UNIT - 64));
    let second = entry(2, 1, b"y", 73, 72, 2);
    let rest = padding(UNIT - second.len().next_multiple_of(8));
    image.put(14, 0, &second);
    image.put(14, second.len().next_multiple_of(8), &rest);
    // The gap of up to 7 bytes after a node is undefined.
    let fs = image.mount();
    assert!(fs.lookup(1, b"x").is_ok() && fs.lookup(1, b"y").is_ok());
}

#[test]
fn without_its_commit_start_the_journal_is_searched_for() {
    let cases: [&dyn Fn(&mut Image); 3] =
        [&|image| image.patch(3, 0, |node| node[24] = 9), &|image| image.erase(3), &|image| {
            image.copy((3, 512), (3, 0), 512);
        }];
    for damage in cases {
        let mut image = Image::worked();
        image.bud(BASE, 13, 0, &entry_x(60));
        damage(&mut image);
        let (fs, codes) = image.salvage();
        assert!(codes.contains(&"log-lost") && codes.contains(&"journal-searched"));
        assert_eq!(names(&fs).len(), 7);
    }
}

#[test]
fn bad_nodes_in_the_log_are_refused() {
    let put = |bytes: Vec<u8>| {
        let mut image = Image::worked();
        image.put(3, 512, &bytes);
        let end = 512 + bytes.len().next_multiple_of(8);
        image.put(3, end, &padding(end.next_multiple_of(UNIT) - end));
        image
    };
    let reference = |leb: u8, offset: u8, head: u8| {
        let mut body = [0; 40];
        (body[0], body[4], body[8]) = (leb, offset, head);
        node(8, 60, 0, &body)
    };
    let cases = [
        node(10, 60, 0, &[0; 8]),
        node(8, 40, 0, &[0; 40]),
        node(8, 0xFFFF_FFFF_FF00_0000, 0, &[0; 40]),
        entry(2, 1, b"x", 73, 60, 2),
        reference(9, 0, 1),
        reference(30, 0, 1),
        reference(13, 8, 1),
        reference(13, 0, 3),
    ];
    for bytes in cases {
        let (fs, codes) = put(bytes).salvage();
        assert_eq!(codes, ["log-corrupt"]);
        assert_eq!(names(&fs).len(), 6);
    }
}

#[test]
fn a_bud_counts_once() {
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &entry_x(60));
    image.reference(1024, BASE, 13, 512);
    assert_eq!(image.mount().info().buds, 1);
    image.reference(1024, DATA, 13, 512);
    assert_eq!(image.salvage().1[0], "log-corrupt");
    let mut image = Image::worked();
    image.bud(BASE, 13, 512, &entry_x(60));
    image.reference(1024, BASE, 13, 0);
    assert_eq!(image.salvage().1[0], "log-corrupt");
}

/// Salvaging continued with a superblock that Linux refuses, and panicked when it had no log: the
/// tail of the log was clamped to an empty range.
#[test]
fn without_log_lebs_the_journal_is_searched_for() {
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &entry_x(60));
    image.patch(0, 0, |node| node[56..60].fill(0));
    let (fs, codes) = image.salvage();
    assert!(codes.contains(&"superblock-refused") && codes.contains(&"log-lost"), "{codes:?}");
    assert_eq!(fs.resolve(b"a.txt").unwrap(), 73);
}
