//! Choosing the master (spec: ubifs-runtime 6.3, 6.4, 6.5).

use crate::image::*;

/// Slots in a master LEB.
const SLOTS: usize = LEB / UNIT;

/// Returns a volume whose master LEBs hold copies in the given numbers of slots, sequence numbers
/// rising.
fn with_masters(first: usize, second: usize) -> Image {
    let mut image = Image::worked();
    let node = image.bytes[LEB..LEB + 512].to_vec();
    for (leb, slots) in [(1, first), (2, second)] {
        image.erase(leb);
        for slot in 0..slots {
            image.put(leb, slot * UNIT, &node);
            image.patch(leb, slot * UNIT, |node| node[8] = 10 + slot as u8);
        }
    }
    image
}

fn recovered(image: &Image) -> bool {
    let (fs, findings) = image.open(true).unwrap();
    assert_eq!(names(&fs).len(), 6);
    let noted = findings.iter().any(|finding| finding.code == "master-recovered");
    assert_eq!(noted, !fs.info().is_clean, "a recovered volume is unclean");
    noted
}

#[test]
fn equal_copies_need_no_recovery() {
    for slots in [1, 2, 7, SLOTS] {
        assert!(!recovered(&with_masters(slots, slots)));
    }
}

#[test]
fn case_a_the_next_slot_of_leb_1_is_torn() {
    let mut image = with_masters(3, 3);
    image.put(1, 3 * UNIT, &[0xAB; 100]);
    assert!(recovered(&image));
    // A torn write after a good header.
    let mut image = with_masters(4, 3);
    image.flip(1, 3 * UNIT + 100);
    assert!(recovered(&image));
}

#[test]
fn case_b_leb_2_lags_behind() {
    assert!(recovered(&with_masters(4, 3)));
    let mut image = with_masters(4, 4);
    image.flip(2, 3 * UNIT + 100);
    assert!(recovered(&image));
}

#[test]
fn cases_c_and_d_leb_1_began_anew() {
    assert!(recovered(&with_masters(1, SLOTS)));
    assert!(recovered(&with_masters(1, 0)));
    let mut image = with_masters(1, 1);
    image.flip(2, 100);
    assert!(recovered(&image));
}

#[test]
fn case_e_leb_1_was_unmapped_for_a_new_beginning() {
    let mut image = with_masters(0, SLOTS);
    assert!(recovered(&image));
    image.put(1, 0, &[0xAB; 100]);
    assert!(recovered(&image));
    let mut image = with_masters(1, SLOTS);
    image.flip(1, 100);
    assert!(recovered(&image));
}

#[test]
fn case_r_an_earlier_recovery_was_interrupted() {
    let mut image = with_masters(1, 5);
    image.patch(1, 0, |node| node[40] |= 4);
    assert!(recovered(&image));
}

#[test]
fn what_no_power_cut_makes_is_refused() {
    let mut images = vec![
        with_masters(0, 3),
        with_masters(5, 0),
        with_masters(3, 4),
        with_masters(5, 3),
        with_masters(1, SLOTS - 1),
        with_masters(0, SLOTS - 1),
    ];
    let mut bad_last = with_masters(4, 4);
    bad_last.flip(1, 3 * UNIT + 100);
    images.push(bad_last);
    let mut two_bad = with_masters(4, 4);
    two_bad.flip(1, 3 * UNIT + 100);
    two_bad.flip(1, 2 * UNIT + 100);
    images.push(two_bad);
    let mut far_garbage = with_masters(3, 3);
    far_garbage.put(1, 5 * UNIT, &[0]);
    images.push(far_garbage);
    let mut foreign = with_masters(3, 3);
    foreign.put(1, 2 * UNIT, &entry(2, 1, b"x", 73, 60, 2));
    images.push(foreign);
    for (index, image) in images.iter().enumerate() {
        let (fs, codes) = image.salvage();
        assert_eq!(codes[0], "master-disagreement", "{index}");
        assert!(codes.contains(&"master-forced"));
        assert_eq!(names(&fs).len(), 6);
    }
}

#[test]
fn masters_linux_refuses() {
    let cases: [(usize, &[u8]); 16] = [
        (24, &[0, 0xFF, 0xFF, 0xFF]),
        (32, &[255]),
        (44, &[2]),
        (44, &[7]),
        (48, &[9]),
        (52, &[0x9C]),
        (56, &[20]),
        (60, &[255, 255, 255, 255]),
        (64, &[30]),
        (68, &[8]),
        (72, &[4]),
        (80, &[1]),
        (120, &[9]),
        (152, &[9]),
        (156, &[29]),
        (164, &[31]),
    ];
    for (offset, with) in cases {
        let mut image = Image::worked();
        for leb in [1, 2] {
            image.patch(leb, 0, |node| node[offset..offset + with.len()].copy_from_slice(with));
        }
        let (fs, codes) = image.salvage();
        assert_eq!(codes[0], "master-refused", "{offset}");
        assert_eq!(names(&fs).len(), 6, "{offset}");
    }
}
