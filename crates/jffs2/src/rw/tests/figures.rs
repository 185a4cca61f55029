//! Checks the figures of the specification for small nodes and memory.

use super::*;
use crate::rw::nodelist::NodeRef;
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs::{Background, Ino};

fn chip(kind: MediumKind, page: u32, oob: u32) -> Arc<Chip> {
    let geometry = Geometry::new(kind, 64 << 10, 32, page, page, oob).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

/// Returns the number of nodes of an inode, and their bytes.
fn nodes_of(fs: &Jffs2Rw, ino: u32) -> (usize, u32) {
    let state = fs.lock();
    let tree = state.tree();
    let places = tree.cache(ino).unwrap().nodes.as_slice();
    let all = tree.store.blocks.iter().flat_map(|(_, block)| block.refs.iter());
    let own = all.filter(|node| places.contains(&node.place()));
    own.fold((0, 0), |(count, bytes), node| (count + 1, bytes + node.len()))
}

/// A line is one node that takes its header and the line on flash; garbage collection merges nodes.
#[test]
fn a_log_has_a_node_for_each_line_until_it_is_collected() {
    const LINES: u64 = 200;
    const LINE: &[u8] = b"2026-01-01 00:00:00 a line\n";
    for chip in [chip(MediumKind::Nor, 1, 0), chip(MediumKind::Nand, 2048, 64)] {
        let fs = mount(&chip);
        let ino = fs.create(1, b"log", &FILE, &by(1)).unwrap();
        let before = nodes_of(&fs, ino as u32);
        for line in 0..LINES {
            fs.write(ino, line * LINE.len() as u64, LINE, &by(2)).unwrap();
        }
        let lines = nodes_of(&fs, ino as u32);
        // A line across the end of a page is two nodes.
        let count = (lines.0 - before.0) as u64;
        assert_eq!(count, LINES + LINES * LINE.len() as u64 / 4096);
        let each = (lines.1 - before.1) / count as u32;
        assert!(each <= 68 + LINE.len() as u32 + 3, "{each} bytes of flash for a line");
        // Write other files until the block of the log has been collected.
        let other = fs.create(1, b"other", &FILE, &by(3)).unwrap();
        let mut rng = SplitMix64::new(3);
        let noise: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
        for round in 0..3000 {
            fs.write(other, round % 4 * 4096, &noise, &by(4)).unwrap();
            while fs.background_step().unwrap() == Background::More {}
        }
        let merged = nodes_of(&fs, ino as u32);
        assert!(merged.0 <= 5 && merged.1 < lines.1 / 4, "{lines:?} {merged:?}");
        assert_eq!(content(&fs, "log"), LINE.repeat(LINES as usize));
        fs.check().unwrap();
    }
}

#[test]
fn a_big_endian_nand_with_large_pages_is_written_and_read_again() {
    let chip = chip(MediumKind::Nand, 2048, 64);
    let options = RwOptions { order: Some(ByteOrder::Big), ..RwOptions::default() };
    super::churn::fill_and_empty(&chip, &options, 2);
    let (fs, _) = Jffs2Rw::mount(chip.clone(), &RwOptions::default()).unwrap();
    fs.check().unwrap();
    let ino = fs.create(1, b"kept", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &[0x5A; 5000], &by(1)).unwrap();
    fs.unmount().unwrap();
    let (reader, _) = Jffs2::open(Source::Device(chip), &OpenOptions::default()).unwrap();
    assert_eq!(reader.info().shape.order, ByteOrder::Big);
    assert_eq!(content(&reader, "kept"), vec![0x5A; 5000]);
}

/// Spare capacity counts: the list of the open block has some, and the few long lists of inodes
/// have a sixteenth.
#[test]
fn a_node_takes_16_bytes_after_long_writing_too() {
    let chip = chip(MediumKind::Nor, 1, 0);
    let fs = mount(&chip);
    let mut inos = Vec::new();
    for file in 0..8 {
        inos.push(fs.create(1, format!("log-{file}").as_bytes(), &FILE, &by(1)).unwrap());
    }
    for line in 0..20_000_u64 {
        let ino = inos[(line % 8) as usize];
        fs.write(ino, line / 8 % 1000 * 9, b"123456789", &by(2)).unwrap();
    }
    let state = fs.lock();
    let tree = state.tree();
    let refs = tree.store.blocks.iter().map(|(_, block)| (block.refs.len(), block.refs.capacity()));
    let (nodes, room) = refs.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let lists: usize = tree.owners.inodes.iter().map(|(_, cache)| cache.nodes.memory()).sum();
    let bytes = room * size_of::<NodeRef>() + lists;
    println!("{nodes} nodes, {room} places, {lists} bytes of lists, {bytes} bytes");
    let open = 8 << 10;
    assert!(
        nodes > 5000 && bytes <= 16 * nodes + lists / 16 + open,
        "{bytes} bytes for {nodes} nodes"
    );
}

/// Returns a file system of `count` empty files in directories of 500.
fn many_files(count: u32) -> (Arc<Chip>, Vec<Ino>) {
    let geometry = Geometry::new(MediumKind::Nor, 64 << 10, 64, 1, 1, 0).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let (fs, mut dir, mut files) = (mount(&chip), 1, Vec::new());
    for number in 0..count {
        if number % 500 == 0 {
            dir = fs.create(1, format!("dir-{number}").as_bytes(), &DIR, &by(1)).unwrap();
        }
        files.push(fs.create(dir, format!("file-{number}").as_bytes(), &FILE, &by(1)).unwrap());
    }
    fs.unmount().unwrap();
    (chip, files)
}

#[test]
fn a_mount_keeps_33_bytes_of_a_file_and_16_of_each_of_its_nodes() {
    let (chip, files) = many_files(8000);
    let (fs, report) = Jffs2Rw::mount(chip, &RwOptions::default()).unwrap();
    let inodes = files.len() as u64 + 16 + 1;
    assert_eq!(report.inodes, inodes);
    let state = fs.lock();
    let tree = state.tree();
    let blocks = tree.store.blocks.iter().map(|(_, block)| size_of_val(block) as u64).sum::<u64>();
    // The first open block has few nodes, and the 17 directories have lists.
    let expected = 33 * inodes + 16 * report.nodes + blocks + 17 * 24;
    assert!(report.memory <= expected, "{} of {expected} bytes", report.memory);
}

/// Reading every inode loads it, and drops those that were read earlier.
#[test]
fn what_is_loaded_is_bounded_while_everything_is_read_and_changed() {
    let (chip, files) = many_files(12_000);
    let fs = mount(&chip);
    let mut most = 0;
    for ino in &files {
        assert_eq!(fs.attr(*ino).unwrap().nlink, 1);
        most = most.max(fs.lock().tree().owners.loaded.memory());
    }
    for ino in files.iter().rev() {
        let change = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
        fs.set_attr(*ino, &change, &by(2)).unwrap();
        most = most.max(fs.lock().tree().owners.loaded.memory());
    }
    assert!((4 << 20..5 << 20).contains(&most), "{most}");
    fs.check().unwrap();
}
