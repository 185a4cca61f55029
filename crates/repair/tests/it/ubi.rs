//! One flash for each rule of UBI: what is damaged, the level that it takes, and what is lost.

use crate::chip::*;
use eraseblock_base::{Leb, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_repair::ubi::FlashRepair;
use eraseblock_repair::{Level, Loss, RepairError};
use eraseblock_ubi_format::VidHeader;
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubi_format::encode::{encode_record, encode_vid};

/// Damages the sample and repairs it at a level; the tree is what it was, and `code` is in the plan.
fn case(damage: impl FnOnce(&mut Chip), level: Level, code: &str) -> (FlashRepair, Chip) {
    let sample = Chip::new();
    let mut chip = sample.clone();
    damage(&mut chip);
    assert!(chip.attached().attachment().findings.has_problems(), "{code}: no damage");
    let (repair, after) = chip.repaired(level);
    assert_eq!(repair.plan().level(), Some(level), "{:#?}", lines(&repair));
    let named = repair.plan().actions().iter().any(|action| action.code == code);
    assert!(named, "{code}: {:#?}", lines(&repair));
    after.assert_consistent();
    assert_eq!(after.tree(), sample.tree(), "{:#?}", lines(&repair));
    (repair, after)
}

/// A case that loses nothing.
fn safe(damage: impl FnOnce(&mut Chip), code: &str) -> (FlashRepair, Chip) {
    let (repair, after) = case(damage, Level::Safe, code);
    assert_eq!(losses(&repair), [""; 0]);
    (repair, after)
}

fn losses(repair: &FlashRepair) -> Vec<String> {
    repair.plan().losses().map(Loss::describe).collect()
}

/// The number of a block of the file system that its index refers to.
fn leaf(chip: &Chip) -> usize {
    chip.leb_with(b"also-file")
}

#[test]
fn one_byte_of_an_erase_counter_header() {
    let before = Chip::new();
    for at in [3, 15, 26, 62] {
        let (_, after) = safe(|chip| chip.flip(5, at), "ec-header-damaged");
        assert_eq!(after.block(5), before.block(5), "byte {at}");
    }
}

#[test]
fn a_lost_erase_counter_becomes_the_mean() {
    let (_, after) = safe(|chip| chip.put(5, 0, &[0; 64]), "ec-header-damaged");
    let known: Vec<u32> =
        (0..after.count()).filter(|peb| *peb != 5).map(|peb| after.erase_count(peb)).collect();
    let mean = known.iter().sum::<u32>() / known.len() as u32;
    assert_eq!(after.erase_count(5), mean);
}

#[test]
fn an_erase_counter_header_of_another_version() {
    let header = |chip: &mut Chip| {
        let mut header = ec(4711, SEQ);
        header[4] = 2;
        let sum = eraseblock_base::crc::crc32(&header[..60]);
        header[60..].copy_from_slice(&sum.to_be_bytes());
        chip.put(5, 0, &header);
    };
    let (_, after) = safe(header, "ec-header-illegal");
    assert_eq!(after.erase_count(5), 4711);
}

#[test]
fn one_byte_of_a_vid_header() {
    let before = Chip::new();
    for at in [1, 8, 15, 47, 60] {
        let peb = leaf(&before);
        let (_, after) = safe(|chip| chip.flip(peb, VID + at), "peb-corrupted");
        assert_eq!(after.block(peb), before.block(peb), "byte {at}");
    }
}

#[test]
fn a_block_is_known_by_its_nodes() {
    let before = Chip::new();
    let peb = leaf(&before);
    let wipe = |chip: &mut Chip| chip.put(peb, VID, &[0; 64]);
    let (repair, after) = safe(wipe, "peb-corrupted");
    assert!(lines(&repair)[0].contains("its nodes are those"), "{:?}", lines(&repair));
    assert_eq!(after.block(peb)[DATA..], before.block(peb)[DATA..]);
    // Even without both headers.
    let wipe = |chip: &mut Chip| chip.put(peb, 0, &[0; DATA]);
    let (_, after) = safe(wipe, "no-ubi-headers");
    assert_eq!(after.block(peb)[DATA..], before.block(peb)[DATA..]);
}

/// A header that is made wins over every other block of its LEB, and no two have one sequence number.
#[test]
fn sequence_numbers_of_new_headers_are_new() {
    let sqnum = |chip: &Chip, peb: usize| {
        u64::from_be_bytes(chip.block(peb)[VID + 40..VID + 48].try_into().unwrap())
    };
    let before = Chip::new();
    let used = before.table().into_iter().chain(3..before.count() - 6);
    let highest = used.map(|peb| sqnum(&before, peb)).max().unwrap();
    let peb = leaf(&before);
    let (_, after) = safe(|chip| chip.put(peb, VID, &[0; 64]), "peb-corrupted");
    assert!(sqnum(&after, peb) > highest, "{}", sqnum(&after, peb));
    let tables = |chip: &mut Chip| chip.put(0, DATA, &[0; 600]);
    let (_, after) = safe(tables, "table-copy-lost");
    let [one, two] = after.table()[..] else { panic!("{:?}", after.table()) };
    assert!(sqnum(&after, one) > highest && sqnum(&after, two) > highest);
    assert_ne!(sqnum(&after, one), sqnum(&after, two));
}

#[test]
fn a_block_that_nothing_knows_is_left_or_dropped() {
    let mut chip = Chip::new();
    let peb = chip.add_free();
    chip.put(peb, VID, &[7; 64]);
    chip.put(peb, DATA, b"something that somebody may want");
    let safe = chip.examined(Level::Safe).unwrap();
    assert!(safe.plan().is_empty(), "{:#?}", lines(&safe));
    assert_eq!(safe.left()[0].code.name(), "peb-corrupted");
    let (repair, after) = chip.repaired(Level::Drop);
    assert_eq!(losses(&repair), [format!("what eraseblock {peb} held, which belongs to no LEB")]);
    assert!(repair.quarantine()[0].bytes.ends_with(b"somebody may want"));
    assert_eq!(after.erase_count(peb), 101 + peb as u32);
    after.assert_consistent();
    // Without an erase-counter header it may belong to something else.
    chip.put(peb, 0, &[7; DATA]);
    let (repair, after) = (chip.examined(Level::Drop).unwrap(), chip.clone());
    assert!(repair.plan().is_empty(), "{:#?}", lines(&repair));
    assert_eq!(repair.left()[0].code.name(), "no-ubi-headers");
    assert_eq!(after.bytes, chip.bytes);
}

#[test]
fn the_same_block_twice() {
    let twice = |chip: &mut Chip| {
        let block = chip.block(leaf(chip)).to_vec();
        let peb = chip.add_free();
        chip.put(peb, 0, &block);
    };
    let (repair, _) = safe(twice, "equal-sequence-numbers");
    assert_eq!(repair.quarantine().len(), 1);
    let mut chip = Chip::new();
    twice(&mut chip);
    chip.flip(chip.count() - 1, DATA + 100);
    let refused = chip.examined(Level::Rebuild).unwrap_err();
    assert!(matches!(refused, RepairError::Unsupported { .. }), "{refused}");
}

#[test]
fn a_block_of_another_image() {
    let foreign = |chip: &mut Chip| {
        let peb = chip.add(&vid(VolumeId::new(0), 0, 9999), b"another superblock");
        chip.put(peb, 0, &ec(5, SEQ + 1));
    };
    let (repair, _) = case(foreign, Level::Drop, "image-seq-differs");
    assert_eq!(losses(&repair).len(), 1);
    assert!(repair.quarantine()[0].bytes.ends_with(b"another superblock"));
}

#[test]
fn a_block_that_disagrees_with_its_volume() {
    let other = |chip: &mut Chip| {
        let header = VidHeader { data_pad: 4, ..vid(VolumeId::new(0), 50, 9999) };
        chip.add(&header, b"of another kind");
    };
    let (repair, _) = case(other, Level::Drop, "leb-disagrees");
    assert_eq!(repair.quarantine().len(), 1);
}

#[test]
fn a_third_table() {
    let third = |chip: &mut Chip| {
        chip.add(&vid(LAYOUT_VOLUME, 2, 9999), b"no table");
    };
    case(third, Level::Drop, "layout-volume-too-large");
}

#[test]
fn one_copy_of_the_table() {
    let before = Chip::new();
    let is_equal = |after: &Chip| {
        let tables = [0, 1].map(|leb| {
            let ubi = after.attached();
            let peb = ubi.attachment().map(LAYOUT_VOLUME).unwrap().get(Leb::new(leb)).unwrap();
            after.block(peb.index())[DATA..][..table().len()].to_vec()
        });
        assert_eq!(tables[0], table());
        assert_eq!(tables[1], table());
        assert_eq!(after.tree(), before.tree());
    };
    is_equal(&safe(|chip| chip.flip(0, Chip::record_at(0) + 20), "table-copy-lost").1);
    is_equal(&safe(|chip| chip.flip(1, Chip::record_at(0) + 20), "table-copy-differs").1);
    is_equal(&safe(|chip| chip.put(0, 0, &[0xFF; PEB]), "table-copy-lost").1);
    is_equal(&safe(|chip| chip.put(1, 0, &[0xFF; PEB]), "table-copy-differs").1);
}

#[test]
fn each_record_from_the_copy_that_has_it() {
    let damage = |chip: &mut Chip| {
        chip.flip(0, Chip::record_at(0) + 20);
        chip.flip(1, Chip::record_at(1) + 20);
    };
    let (_, after) = safe(damage, "volume-table-unusable");
    assert!(after.attached().volume_named(b"rootfs").is_ok());
    assert!(after.attached().volume_named(b"kernel").is_ok());
}

#[test]
fn a_record_that_both_copies_lost() {
    let damage = |chip: &mut Chip| {
        chip.flip(0, Chip::record_at(0) + 20);
        chip.flip(1, Chip::record_at(0) + 20);
    };
    let (repair, after) = case(damage, Level::Rebuild, "volume-without-record");
    assert!(
        lines(&repair)[1].contains("dynamic, 60 LEBs, named `volume-0`"),
        "{:?}",
        lines(&repair)
    );
    assert_eq!(after.attached().volume_named(b"kernel").unwrap().info().reserved_lebs, 3);
}

#[test]
fn the_old_table_knows_the_names() {
    let damage = |chip: &mut Chip| {
        chip.add(&vid(LAYOUT_VOLUME, 0, 0), &table());
        chip.put(0, DATA, &[0; 2000]);
        chip.put(1, DATA, &[0; 2000]);
    };
    let (repair, after) = case(damage, Level::Rebuild, "volume-table-unusable");
    assert_eq!(repair.plan().actions().len(), 1, "{:?}", lines(&repair));
    assert_eq!(after.attached().volume_named(b"rootfs").unwrap().leb_count(), LEBS);
}

#[test]
fn no_table_at_all() {
    let damage = |chip: &mut Chip| {
        chip.put(0, 0, &[0xFF; PEB]);
        chip.put(1, 0, &[0xFF; PEB]);
    };
    let (repair, after) = case(damage, Level::Rebuild, "no-layout-volume");
    assert_eq!(repair.plan().actions().len(), 3, "{:?}", lines(&repair));
    assert_eq!(after.count(), Chip::new().count(), "there were free blocks");
    let ubi = after.attached();
    // As many as the superblock states; how many the volume had is lost.
    assert_eq!(ubi.volume_named(b"volume-0").unwrap().leb_count(), LEBS);
    assert_eq!(ubi.volume_named(b"volume-1").unwrap().info().used_bytes, KERNEL.len() as u64);
}

#[test]
fn a_file_without_free_blocks_grows() {
    let mut chip = Chip::new();
    chip.bytes.truncate(chip.bytes.len() - 6 * PEB);
    for peb in [0, 1] {
        // What is there may belong to something else.
        chip.put(peb, 0, &[3; PEB]);
    }
    let (_, after) = chip.repaired(Level::Rebuild);
    assert_eq!(after.count(), chip.count() + 2);
    assert_eq!(after.tree(), Chip::new().tree());
}

#[test]
fn a_record_that_is_smaller_than_its_volume() {
    let shrink = |chip: &mut Chip| {
        for peb in [0, 1] {
            let record = eraseblock_ubi_format::VolumeRecord {
                reserved_lebs: 5,
                alignment: 1,
                data_pad: 0,
                kind: eraseblock_ubi_format::VolumeKind::Dynamic,
                upd_marker: false,
                name: eraseblock_ubi_format::VolumeName::new("rootfs").unwrap(),
                flags: eraseblock_ubi_format::VolumeFlags::default(),
            };
            chip.put(peb, Chip::record_at(0), &encode_record(Some(&record)));
        }
    };
    let mut chip = Chip::new();
    shrink(&mut chip);
    let (repair, after) = chip.repaired(Level::Drop);
    let first = &lines(&repair)[0];
    assert!(first.contains("reserved_pebs 5 -> 60"), "{first}");
    after.assert_consistent();
    assert_eq!(after.attached().volume_named(b"rootfs").unwrap().leb_count(), LEBS);
}

#[test]
fn content_that_is_lost_is_not_repaired() {
    let mut chip = Chip::new();
    chip.flip(2, DATA + 3);
    let repair = chip.examined(Level::Rebuild).unwrap();
    assert!(repair.plan().is_empty());
    assert_eq!(repair.left()[0].code.name(), "static-data-corrupt");
}

#[test]
fn a_destroyed_table_and_a_damaged_header() {
    let before = Chip::new();
    let peb = leaf(&before);
    let damage = |chip: &mut Chip| {
        chip.put(0, DATA, &[0; 2000]);
        chip.put(1, DATA, &[0; 2000]);
        chip.put(peb, VID, &[0; 64]);
    };
    let (repair, _) = case(damage, Level::Rebuild, "volume-table-unusable");
    assert!(repair.plan().actions().iter().any(|action| action.code == "peb-corrupted"));
}

#[test]
fn a_newer_copy_with_a_damaged_header_is_the_newer_one() {
    let mut chip = Chip::new();
    let peb = leaf(&chip);
    let old = chip.block(peb).to_vec();
    let leb = chip.attached();
    let leb = leb.attachment().map(VolumeId::new(0)).unwrap().iter();
    let leb = leb.into_iter().find(|(_, at)| at.index() == peb).unwrap().0;
    let newer = chip.add_free();
    chip.put(newer, VID, &encode_vid(&vid(VolumeId::new(0), leb.get(), 500)));
    chip.put(newer, DATA, &old[DATA..]);
    chip.flip(newer, VID + 20);
    let (repair, after) = chip.repaired(Level::Safe);
    assert_eq!(repair.plan().actions().len(), 1, "{:?}", lines(&repair));
    assert_eq!(after.peb_of(0, leb.get()), newer);
}

/// The header of the newest eraseblock of a LEB is damaged, and an older one was not erased yet: the
/// older content was read before, which is no reason to keep it.
#[test]
fn a_newer_copy_with_other_content_is_the_newer_one() {
    let mut chip = Chip::new();
    let peb = leaf(&chip);
    let map =
        chip.attached().attachment().map(VolumeId::new(0)).unwrap().iter().collect::<Vec<_>>();
    let leb = map.into_iter().find(|(_, at)| at.index() == peb).unwrap().0;
    let old = chip.add(&vid(VolumeId::new(0), leb.get(), 1), &[0x33; 700]);
    chip.flip(peb, VID + 20);
    assert_eq!(chip.peb_of(0, leb.get()), old);
    let (repair, after) = chip.repaired(Level::Safe);
    assert_eq!(repair.plan().actions().len(), 1, "{:?}", lines(&repair));
    assert_eq!(after.peb_of(0, leb.get()), peb);
    assert_eq!(after.tree(), Chip::new().tree());
}

/// A volume cannot have more LEBs than the flash has blocks.
#[test]
fn a_leb_beyond_the_flash() {
    let far = |chip: &mut Chip| {
        chip.add(&vid(VolumeId::new(0), 2_097_165, 9999), b"of nothing");
    };
    let (repair, after) = case(far, Level::Drop, "volume-larger-than-record");
    assert_eq!(losses(&repair).len(), 1);
    assert!(repair.quarantine()[0].bytes.ends_with(b"of nothing"));
    assert_eq!(after.attached().volume_named(b"rootfs").unwrap().leb_count(), LEBS);
}
