//! Where one answer ends and another begins: the largest attribute, the fullest medium, the last
//! page of a block.

use super::super::blocks::List;
use super::super::state::State;
use super::*;
use eraseblock_base::random::SplitMix64;
use eraseblock_jffs2_format::constants::DIRTY_LIMIT;
use eraseblock_jffs2_format::encode::xattr_len;
use eraseblock_jffs2_format::summary::{self, RecordNode};
use eraseblock_nandsim::{FaultPlan, ReadFault, Variant};
use eraseblock_vfs::{FsErrorKind, XattrMode};

/// The first bytes of a padding node, little-endian.
const PADDING: [u8; 4] = [0x85, 0x19, 0x04, 0x20];

/// A block holds its cleanmarker, the attribute and a summary with one record, nothing more.
/// A longer one is refused for its length, not for want of space: no deletion would help.
#[test]
fn an_attribute_fills_a_block_and_no_more() {
    let chip = nor();
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    let most = (16 << 10) - 12 - 64;
    let value = noise(1, most as usize - xattr_len(1, 0) as usize);
    assert_eq!(xattr_len(1, value.len()), most);
    fs.set_xattr(ino, b"user.a", &value, XattrMode::Either, &by(2)).unwrap();
    assert_eq!(fs.xattr(ino, b"user.a").unwrap(), value);
    let longer = noise(2, value.len() + 4);
    let refused = fs.set_xattr(ino, b"user.b", &longer, XattrMode::Either, &by(3)).unwrap_err();
    assert_eq!(refused.kind(), FsErrorKind::OutOfRange, "{refused}");
    fs.unmount().unwrap();
    let again = mount(&chip);
    assert_eq!(again.xattr(ino, b"user.a").unwrap(), value);
    assert_eq!(again.xattr(ino, b"user.b").unwrap_err().kind(), FsErrorKind::NoAttribute);
}

/// "Not supported" and "not there" are different answers: tools that copy attributes stop for the
/// one and go on after the other.
#[test]
fn an_attribute_of_a_foreign_name_space_is_unsupported_not_missing() {
    let fs = mount(&nor());
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    let kind = |name: &[u8]| fs.xattr(ino, name).unwrap_err().kind();
    assert_eq!(kind(b"user.a"), FsErrorKind::NoAttribute);
    assert_eq!(kind(b"foreign.a"), FsErrorKind::Unsupported);
    assert_eq!(kind(b"user."), FsErrorKind::Invalid);
}

/// A full medium must be able to lose the content of its files, as it must be able to lose the
/// files: to truncate one is how a log that filled it is dealt with.
#[test]
fn every_file_of_a_full_medium_can_be_emptied() {
    for chip in [nor(), nand()] {
        let fs = mount(&chip);
        let mut files = Vec::new();
        while let Ok(ino) = fs.create(1, format!("f{}", files.len()).as_bytes(), &FILE, &by(1)) {
            files.push(ino);
            let _ = fs.write(ino, 0, &noise(ino, 2000), &by(2));
        }
        for (round, ino) in files.iter().cycle().take(20 * files.len()).enumerate() {
            if let Err(error) = fs.write(*ino, 0, &noise(round as u64, 40), &by(3)) {
                assert_eq!(error.kind(), FsErrorKind::NoSpace, "{error}");
            }
        }
        for ino in files {
            let change = SetAttr { size: Some(0), ..SetAttr::default() };
            fs.set_attr(ino, &change, &by(4)).unwrap_or_else(|error| panic!("{ino}: {error}"));
        }
        fs.check().unwrap();
    }
}

/// A marker whose checksum is wrong is no marker: Linux would take the block for a foreign one, so
/// it is erased and marked again before it is used.
#[test]
fn a_block_with_a_damaged_marker_gets_a_new_one() {
    let chip = nor();
    let mut marker = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut marker);
    for block in 0..16 {
        let mut bytes = marker.clone();
        bytes[8] ^= u8::from(block == 5);
        chip.program(block << 14, &bytes).unwrap();
    }
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    for round in 0..80 {
        fs.write(ino, round % 8 * 4096, &noise(round, 4096), &by(2)).unwrap();
    }
    let mut found = [0; 13];
    chip.read(5 << 14, &mut found).unwrap();
    assert_eq!(found[..12], marker, "the block has a whole marker");
    assert_ne!(found[12], 0xFF, "and is in use");
}

/// A page proves the one before it: without another page after the last node of a block, a mount
/// after a cut could not know whether that node is whole.
#[test]
fn the_last_page_of_a_closed_block_has_no_node() {
    let chip = nand();
    let options = RwOptions { summary: false, ..RwOptions::default() };
    let (fs, _) = Jffs2Rw::mount(chip.clone(), &options).unwrap();
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    let mut rng = SplitMix64::new(7);
    for round in 0..90 {
        let data = noise(round, 1 + rng.below(2500) as usize);
        fs.write(ino, round * 2500, &data, &by(2)).unwrap();
        if rng.below(4) == 0 {
            fs.sync().unwrap();
        }
    }
    let open = fs.lock().tree().store.blocks.next();
    let mut closed = 0;
    for block in (0..16).filter(|block| Some(*block) != open) {
        let mut bytes = vec![0; 16 << 10];
        chip.read(u64::from(block) << 14, &mut bytes).unwrap();
        let Some(last) = bytes.chunks(512).rfind(|page| page.iter().any(|byte| *byte != 0xFF))
        else {
            continue;
        };
        closed += 1;
        assert_eq!(last[..4], PADDING, "block {block}");
    }
    assert!(closed > 4, "{closed} closed blocks");
}

/// An idle moment that could not settle the suspect page must not say that all is done.
#[test]
fn a_background_step_that_succeeds_has_settled_the_suspect_page() {
    let chip = nand();
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.sync().unwrap();
    chip.set_recording(true);
    fs.write(ino, 0, &[7; 300], &by(2)).unwrap();
    fs.sync().unwrap();
    let last = chip.take_recording().pop().unwrap();
    let (mut succeeded, mut failed) = (0, 0);
    for read in 0..12 {
        let chip = Arc::new(last.cut(Variant::P5 { good_reads: 6 }, 1).unwrap());
        chip.power_on();
        let fs = mount(&chip);
        assert!(fs.lock().tree().store.has_suspects());
        let mut plan = FaultPlan::new(1);
        plan.at_read.insert(chip.counters().page_reads + read, ReadFault::Fail);
        chip.set_plan(plan);
        match fs.background_step() {
            Ok(_) => {
                succeeded += 1;
                assert!(!fs.lock().tree().store.has_suspects(), "read {read} fails");
            }
            Err(_) => failed += 1,
        }
    }
    assert!(succeeded > 0 && failed > 0, "{succeeded} succeeded, {failed} failed");
}

/// On a nearly full medium a collection writes no more than it must: pieces of other blocks, which
/// would die there without freeing anything soon, stay where they are.
#[test]
fn few_free_blocks_keep_the_pieces_of_a_page_apart() {
    for (merge, joined) in [(0, true), (u32::MAX, false)] {
        let fs = mount(&nor());
        let ino = fs.create(1, b"pieces", &FILE, &by(1)).unwrap();
        for piece in 0..4 {
            fs.write(ino, piece * 1000, &[piece as u8 + 1; 1000], &by(1)).unwrap();
        }
        (0..8).for_each(|_| churn_once(&fs));
        let count = |fs: &Jffs2Rw| {
            let state = fs.lock();
            state.tree().inode(ino as u32).fragments.from(0).count()
        };
        assert_eq!(count(&fs), 4);
        for _ in 0..40 {
            let State { gc, writer, .. } = &mut *fs.lock();
            writer.log.tree.store.reserves.merge = merge;
            gc.pass(writer).unwrap();
        }
        assert_eq!(count(&fs) < 4, joined, "{} pieces", count(&fs));
        fs.check().unwrap();
    }
}

/// A record of a summary that names another directory than its node does is damage: the name
/// belongs to neither, and must not appear where the record puts it.
#[test]
fn a_name_appears_only_in_the_directory_that_its_node_names() {
    let chip = nor();
    let fs = mount(&chip);
    let dir = fs.create(1, b"dir", &DIR, &by(1)).unwrap();
    fs.create(1, b"name", &FILE, &by(1)).unwrap();
    let ino = fs.create(1, b"large", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &noise(1, 40_000), &by(2)).unwrap();
    fs.unmount().unwrap();
    let mut block = vec![0; 16 << 10];
    let found = (0..16).find_map(|number| {
        chip.read(number << 14, &mut block).unwrap();
        let summary = summary::decode(ByteOrder::Little, &block, Peb::new(number as u32)).ok()?;
        Some((number, summary))
    });
    let (number, mut list) = found.unwrap();
    let mut changed = 0;
    for record in &mut list.records {
        if let RecordNode::Dirent { pino, name, .. } = &mut record.node
            && name == b"name"
        {
            *pino = dir as u32;
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    block.truncate(list.offset as usize);
    summary::encode(ByteOrder::Little, &list, 16 << 10, &mut block);
    chip.erase(Peb::new(number as u32)).unwrap();
    chip.program(number << 14, &block).unwrap();
    let fs = mount(&chip);
    assert_eq!(fs.entries(dir).unwrap().len(), 0);
    assert!(fs.lookup(dir, b"name").is_err());
}

/// Linux keeps the marker of a block where its driver has free bytes; a marker elsewhere would make
/// it erase, and so count as worn, every block that is free.
#[test]
fn markers_lie_where_linux_looks_for_them() {
    for (page, oob, at) in [(512, 16, 8), (2048, 64, 2)] {
        let geometry = Geometry::new(MediumKind::Nand, 32 << 10, 12, page, page, oob).unwrap();
        let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
        let fs = mount(&chip);
        churn_once(&fs);
        fs.unmount().unwrap();
        let marked = (0..12).filter(|block| {
            let mut bytes = [0; 8];
            chip.read_oob(block * (32 << 10), at, &mut bytes).unwrap();
            bytes == [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0]
        });
        assert!(marked.count() > 0, "pages of {page} bytes");
    }
}

/// A cut in the first program after the marker leaves a page that cannot be read: nothing was ever
/// durable in it, so the block is erased and used, not given up.
#[test]
fn a_marked_block_whose_first_page_is_torn_is_used_again() {
    let chip = nand();
    let fs = mount(&chip);
    for round in 0..200 {
        churn_once(&fs);
        assert!(fs.background_step().is_ok(), "{round}");
    }
    let block = fs.lock().tree().store.blocks.first(List::Free).unwrap();
    fs.unmount().unwrap();
    chip.program(u64::from(block) << 14, &noise(1, 512)).unwrap();
    chip.set_plan(FaultPlan {
        failing_reads: [(u64::from(block) * 32, 0)].into(),
        ..FaultPlan::new(1)
    });
    let fs = mount(&chip);
    let list = fs.lock().tree().store.blocks.get(block).list;
    assert!(matches!(list, List::ErasePending | List::Erasable), "{list:?}");
}

/// A few dead bytes are not worth a collection: they must not count as what one would free, or a
/// full medium would be collected for ever.
#[test]
fn a_few_dead_bytes_do_not_count_as_dirty() {
    let fs = mount(&nor());
    let files: Vec<_> = (0..500)
        .map(|number| fs.create(1, format!("f{number}").as_bytes(), &FILE, &by(1)).unwrap())
        .collect();
    // The old attributes of one file in each block.
    for ino in files.iter().step_by(150) {
        let change = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
        fs.set_attr(*ino, &change, &by(2)).unwrap();
    }
    let state = fs.lock();
    let blocks: Vec<_> = state.tree().store.blocks.iter().map(|(_, block)| block).collect();
    let closed = blocks.iter().filter(|block| block.list != List::Next);
    let sizes: Vec<_> = closed.map(|block| (block.sizes.wasted, block.sizes.dirty)).collect();
    assert!(sizes.iter().all(|(_, dirty)| *dirty == 0 || *dirty > DIRTY_LIMIT), "{sizes:?}");
    assert!(sizes.iter().any(|(wasted, _)| *wasted > 0), "{sizes:?}");
}

/// An older node of a file's attributes is dead once the file is loaded: counted as alive, it would
/// be copied at each collection, and a full medium would keep it for ever.
#[test]
fn the_older_of_two_attribute_nodes_is_dead() {
    let chip = nor();
    let mut bytes = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut bytes);
    for version in [1, 2] {
        let inode = Inode { ino: 2, version, mode: 0o100_644, ..Inode::default() };
        encode::inode(ByteOrder::Little, &inode, &[], &mut bytes);
    }
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    chip.program(0, &bytes).unwrap();
    let fs = mount(&chip);
    fs.attr(2).unwrap();
    let state = fs.lock();
    let blocks = state.tree().store.blocks.iter();
    let mine = blocks.flat_map(|(_, block)| &block.refs).filter(|node| node.owner == 2);
    let alive: Vec<bool> = mine.map(|node| node.is_live()).collect();
    assert_eq!(alive.iter().filter(|alive| **alive).count(), 1, "{alive:?}");
}

/// A device that is switched on and off all day mounts often and writes little: each mount begins
/// at another block, or the first ones would wear out long before the others.
#[test]
fn many_short_mounts_wear_all_blocks() {
    let chip = nor();
    for _ in 0..400 {
        let fs = mount(&chip);
        churn_once(&fs);
        fs.unmount().unwrap();
    }
    let wear = chip.wear_report();
    assert!(wear.min_erases > 0 && wear.max_erases < 12, "{wear:?}");
}
