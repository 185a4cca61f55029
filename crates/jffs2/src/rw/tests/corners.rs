//! Situations that come once in the life of a medium: the last free block, a hole in many parts,
//! markers that no cut explains.

use super::super::blocks::List;
use super::super::inode::Source;
use super::super::nodelist::NodeRef;
use super::super::state::State;
use super::*;
use eraseblock_nandsim::{ArmedCut, Fault, FaultPlan, ReadFault, Variant};
use eraseblock_vfs::FsErrorKind;

/// Returns the live nodes of an inode.
fn live_nodes(state: &State, ino: u32) -> Vec<NodeRef> {
    let blocks = state.tree().store.blocks.iter();
    let nodes = blocks.flat_map(|(_, block)| block.refs.iter().copied());
    nodes.filter(|node| node.owner == ino && node.is_live()).collect()
}

/// A hole in few parts gets a node for each: with higher versions, they count even if the erase of
/// the old block is cut. One in many parts is copied, or a collection would need more space than it
/// frees.
#[test]
fn a_hole_in_many_parts_stays_one_node() {
    for (writes, added) in [(2, 2), (7, 7), (8, 0), (20, 0)] {
        let chip = nor();
        let fs = mount(&chip);
        let ino = fs.create(1, b"sparse", &FILE, &by(1)).unwrap();
        let change = SetAttr { size: Some(42 << 12), ..SetAttr::default() };
        fs.set_attr(ino, &change, &by(2)).unwrap();
        for number in 0..writes {
            fs.write(ino, (2 * number + 1) << 12, b"data", &by(3)).unwrap();
        }
        let before = content(&fs, "sparse");
        {
            let state = &mut *fs.lock();
            let ino = ino as u32;
            let highest = |state: &State| state.tree().cache(ino).unwrap().highest;
            let (nodes, version) = (live_nodes(state, ino).len(), highest(state));
            let fragments = &state.tree().inode(ino).fragments;
            let hole = fragments.from(0).find_map(|(_, part)| match part.source {
                Some(Source::Hole(place)) => Some(place),
                _ => None,
            });
            let hole = hole.unwrap();
            assert_eq!(u64::from(fragments.count(hole)), writes + 1);
            let node = state.tree().store.node(hole);
            state.writer.collect_node(node).unwrap();
            assert!(!state.tree().store.node(hole).is_live());
            assert_eq!(live_nodes(state, ino).len() - nodes, added, "{writes} writes");
            assert_eq!(highest(state) > version, added > 0, "{writes} writes");
        }
        fs.check().unwrap();
        fs.unmount().unwrap();
        assert!(content(&mount(&chip), "sparse") == before);
    }
}

/// A file whose nodes cannot be read now is left where it is: to copy one of them unread would hide
/// from the caller that the device fails.
#[test]
fn a_collection_whose_read_fails_fails() {
    let chip = nand();
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &noise(1, 3000), &by(1)).unwrap();
    fs.unmount().unwrap();
    let snapshot = chip.snapshot();
    let mut failures = 0;
    for read in 0.. {
        let chip = Arc::new(snapshot.to_chip());
        let fs = mount(&chip);
        let state = &mut *fs.lock();
        while state.tree_mut().check_one().unwrap() {}
        state.tree_mut().owners.loaded.remove(ino as u32);
        let node = live_nodes(state, ino as u32)[0];
        let number = chip.counters().page_reads + read;
        chip.set_plan(FaultPlan {
            at_read: [(number, ReadFault::Fail)].into(),
            ..FaultPlan::new(1)
        });
        let done = state.writer.collect_node(node);
        let has_failed = chip.counters().page_reads > number;
        assert_eq!(done.is_err(), has_failed, "read {read}: {done:?}");
        if !has_failed {
            break;
        }
        assert_eq!(done.unwrap_err().kind(), FsErrorKind::Io);
        assert!(state.tree().store.node(node.place()).is_live());
        failures += 1;
    }
    assert!(failures > 1, "{failures} reads");
}

/// With no memory left for more inodes, a collection loads one at a time.
#[test]
fn a_collection_keeps_no_inode_in_full_memory() {
    let fs = mount(&nor());
    let large = fs.create(1, b"large", &FILE, &by(1)).unwrap();
    for is_full in [false, true] {
        let ino = fs.create(1, format!("{is_full}").as_bytes(), &FILE, &by(1)).unwrap();
        let state = &mut *fs.lock();
        let loaded = &mut state.tree_mut().owners.loaded;
        if is_full {
            loaded.grow(large as u32, 8 << 20);
        }
        loaded.remove(ino as u32);
        let node = live_nodes(state, ino as u32)[0];
        state.writer.collect_node(node).unwrap();
        assert_eq!(state.tree().owners.loaded.has(ino as u32), !is_full);
    }
}

/// The power fails while a worn block is marked bad: nothing may go on as if that were done.
#[test]
fn a_cut_while_a_block_is_marked_bad_ends_the_work() {
    let chip = nand();
    let fs = mount(&chip);
    let State { writer, .. } = &mut *fs.lock();
    assert!(writer.log.tree.store.blocks.first(List::ErasePending).is_some());
    let event = chip.next_event();
    let cut = ArmedCut { event: event + 2, program: Variant::P1, erase: Variant::E1, seed: 1 };
    let plan = FaultPlan { cut: Some(cut), ..FaultPlan::new(1) };
    chip.set_plan(plan.with(event, Fault::Fail).with(event + 1, Fault::Fail));
    writer.log.erase_one().unwrap_err();
    assert_eq!(chip.next_event(), event + 3, "two erases and the mark");
}

/// When only deletions are allowed any more, the last blocks are spent on the largest gain, and on
/// nothing that gains less than a quarter of a block.
#[test]
fn a_tight_medium_collects_its_emptiest_block() {
    for seed in 0..8 {
        let options = RwOptions { seed, ..RwOptions::default() };
        let (fs, _) = Jffs2Rw::mount(nor(), &options).unwrap();
        let files: Vec<Vec<u8>> = (0..36).map(|number| format!("f{number}").into_bytes()).collect();
        for name in &files {
            let ino = fs.create(1, name, &FILE, &by(1)).unwrap();
            fs.write(ino, 0, &noise(ino, 3000), &by(1)).unwrap();
        }
        // Some blocks lose more of their content than others.
        for at in [5, 9, 10, 14, 15, 16, 19, 20, 21, 22, 25, 26, 27] {
            fs.unlink(1, &files[at], &by(2)).unwrap();
        }
        let state = &mut *fs.lock();
        while state.tree_mut().check_one().unwrap() {}
        while state.writer.log.erase_one().unwrap() {}
        state.tree_mut().store.reserves.deletion = u32::MAX;
        let blocks = &state.tree().store.blocks;
        let lists = [List::BadUsed, List::Clean, List::Dirty, List::Erasable, List::VeryDirty];
        let candidates = blocks.iter().filter(|(_, block)| lists.contains(&block.list));
        let (least, best) = candidates.map(|(block, it)| (it.moved(), block)).min().unwrap();
        assert!(least <= blocks.size() / 4 * 3, "{least} bytes to move");
        let node = blocks.get(best).refs.iter().find(|node| node.is_live()).copied().unwrap();
        assert!(state.gc.pass(&mut state.writer).unwrap());
        assert!(!state.tree().store.node(node.place()).is_live(), "seed {seed}");
    }
}

#[test]
fn a_tight_medium_collects_nothing_for_a_small_gain() {
    for seed in 0..8 {
        let options = RwOptions { seed, ..RwOptions::default() };
        let (fs, _) = Jffs2Rw::mount(nor(), &options).unwrap();
        for number in 0..36_u64 {
            let ino = fs.create(1, format!("f{number}").as_bytes(), &FILE, &by(1)).unwrap();
            fs.write(ino, 0, &noise(number, 3000), &by(1)).unwrap();
        }
        let state = &mut *fs.lock();
        while state.tree_mut().check_one().unwrap() {}
        while state.writer.log.erase_one().unwrap() {}
        state.tree_mut().store.reserves.deletion = u32::MAX;
        assert!(!state.gc.pass(&mut state.writer).unwrap(), "seed {seed}");
    }
}

/// A file misses content, and nothing but a damaged node explains it. There is no space to record
/// that: the file system goes on, and says so.
#[test]
fn a_full_medium_goes_on_without_its_damage_marker() {
    let chip = nor();
    let piece = |version, offset| Inode {
        ino: 2,
        version,
        mode: 0o100_644,
        isize: 8192,
        offset,
        dsize: 4,
        ..Inode::default()
    };
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    let mut bytes = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut bytes);
    encode::inode(ByteOrder::Little, &piece(2, 4096), b"data", &mut bytes);
    let damaged = bytes.len();
    encode::inode(ByteOrder::Little, &piece(1, 0), b"lost", &mut bytes);
    bytes[damaged + 40] ^= 1;
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    chip.program(0, &bytes).unwrap();
    let fs = mount(&chip);
    let log = &mut fs.lock().writer.log;
    if let Some(block) = log.tree.store.blocks.next() {
        log.close_block(block).unwrap();
    }
    let waiting = [List::Free, List::Erasable, List::ErasePending];
    let blocks = &mut log.tree.store.blocks;
    let empty: Vec<u32> = waiting.iter().flat_map(|list| blocks.list(*list).clone()).collect();
    for block in &empty {
        blocks.file(*block, List::Bad);
    }
    blocks.file(empty[0], List::ErasePending);
    chip.set_plan(FaultPlan { failing_erases: [(empty[0], 0)].into(), ..FaultPlan::new(1) });
    assert!(!log.erase_one().unwrap(), "no block is left to erase");
    assert!(log.tree.store.late.iter().any(|it| it.code == "damage-unmarked"));
}

/// Names of full media leave the blocks that deletions and collection need.
#[test]
fn links_on_a_full_medium_leave_the_reserve() {
    for chip in [nor(), nand()] {
        let fs = mount(&chip);
        let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
        for number in 0.. {
            let done = fs.write(ino, number * 4096, &noise(number, 4096), &by(1));
            if done.is_err() {
                break;
            }
        }
        let link = |number: u64| fs.link(ino, 1, format!("{number:0200}").as_bytes(), &by(2));
        let refused = (0..2000).find_map(|number| link(number).err()).expect("it is full");
        assert_eq!(refused.kind(), FsErrorKind::NoSpace, "{refused}");
        let state = fs.lock();
        let store = &state.tree().store;
        assert!(store.blocks.len(List::Free) >= store.reserves.deletion);
        drop(state);
        fs.unlink(1, b"f", &by(3)).unwrap();
    }
}

/// A directory gets a node of its own before its names change. On a full medium, that node is
/// refused like the name, or it would be taken from the reserve.
#[test]
fn a_refused_name_of_a_directory_without_a_node_writes_nothing() {
    let chip = nor();
    chip.program(0, &file_in_a_root_without_a_node()).unwrap();
    let fs = mount(&chip);
    for page in 0.. {
        if fs.write(2, page << 12, &noise(page, 4096), &by(1)).is_err() {
            break;
        }
    }
    let before = chip.next_event();
    let refused = fs.link(2, 1, b"g", &by(2)).unwrap_err();
    assert_eq!(refused.kind(), FsErrorKind::NoSpace, "{refused}");
    assert_eq!(chip.next_event(), before);
}

/// In every block, the first program after the marker was cut: nothing was ever durable, and the
/// medium is an empty one, not something else.
#[test]
fn a_medium_of_torn_first_pages_is_an_empty_one() {
    let chip = nand();
    let inode = Inode { ino: 2, version: 1, isize: 400, dsize: 400, ..Inode::default() };
    for block in 0..16 {
        chip.program_oob(block << 14, 8, &[0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0]).unwrap();
        let mut page = Vec::new();
        encode::inode(ByteOrder::Little, &inode, &noise(block, 400), &mut page);
        page.truncate(40);
        page.resize(512, 0xFF);
        chip.program(block << 14, &page).unwrap();
    }
    let fs = mount(&chip);
    assert_eq!(fs.entries(1).unwrap().len(), 0);
}

/// The markers of a new medium were cut in every block.
#[test]
fn a_medium_of_torn_markers_is_an_empty_one() {
    let chip = nor();
    for block in 0..16 {
        chip.program(block << 14, &[0x85, 0x19, 0x03, 0x20, 12, 0]).unwrap();
    }
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, b"data", &by(1)).unwrap();
    fs.unmount().unwrap();
    assert_eq!(content(&mount(&chip), "f"), b"data");
}

/// A node was whole when it was checked, and is not any more when its file is loaded again: the file
/// is damaged, and not one without that content.
#[test]
fn a_node_that_decays_after_it_was_checked_is_an_error() {
    let chip = nor();
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &[1; 4096], &by(1)).unwrap();
    {
        let log = &mut fs.lock().writer.log;
        let open = log.tree.store.blocks.next().unwrap();
        log.close_block(open).unwrap();
    }
    fs.write(ino, 4096, &[2; 4096], &by(1)).unwrap();
    {
        let state = &mut *fs.lock();
        state.tree_mut().owners.loaded.remove(ino as u32);
        let nodes = live_nodes(state, ino as u32);
        let size = state.tree().store.flash.block;
        let blocks: Vec<u32> = nodes.iter().map(|node| node.place() / size).collect();
        let last = blocks.iter().copied().max().unwrap();
        assert!(blocks.iter().any(|block| *block != last), "{blocks:?}");
        chip.erase(Peb::new(last)).unwrap();
    }
    assert_eq!(fs.read(ino, 0, &mut [0; 8192]).unwrap_err().kind(), FsErrorKind::Corrupted);
}
