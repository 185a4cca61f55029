//! Pieces of a page that garbage collection joins.

use super::super::state::State;
use super::*;
use eraseblock_base::Location;
use eraseblock_jffs2_format::decode;

/// Bytes of a piece: four of them are one page, apart from a few bytes.
const PIECE: u32 = 1000;

/// Returns version, offset and length of the node with the lowest version of an inode above `after`.
fn first_node(chip: &Chip, ino: u32, after: u32) -> Option<(u32, u32, u32)> {
    let mut bytes = vec![0; chip.geometry().size() as usize];
    chip.read(0, &mut bytes).unwrap();
    let nodes = (0..bytes.len()).step_by(4).filter_map(|at| {
        let is_inode = bytes[at..].starts_with(&[0x85, 0x19, 0x02, 0xE0]);
        let node =
            is_inode.then(|| decode::inode(ByteOrder::Little, &bytes[at..], Location::Whole));
        node?.ok().filter(|node| node.ino == ino && node.version > after)
    });
    nodes.map(|node| (node.version, node.offset, node.dsize)).min()
}

/// The block of the first piece is collected; the others of the page are in a block with live data.
#[test]
fn the_pieces_after_the_moved_one_are_joined_to_it() {
    let chip = nor();
    let fs = mount(&chip);
    let ino = fs.create(1, b"pieces", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &[1; PIECE as usize], &by(1)).unwrap();
    (0..8).for_each(|_| churn_once(&fs));
    let solid: Vec<u8> = (0..9000_u32).map(|byte| ((byte * byte * 7) >> 9) as u8).collect();
    let other = fs.create(1, b"other", &FILE, &by(1)).unwrap();
    fs.write(other, 0, &solid, &by(1)).unwrap();
    for piece in 1..4_u32 {
        let bytes = [piece as u8 + 1; PIECE as usize];
        fs.write(ino, (piece * PIECE).into(), &bytes, &by(1)).unwrap();
    }
    let mut after = 0;
    while let Some((version, ..)) = first_node(&chip, ino as u32, after) {
        after = version;
    }
    let moved = (0..400).find_map(|_| {
        let State { gc, writer, .. } = &mut *fs.lock();
        gc.pass(writer).unwrap();
        first_node(&chip, ino as u32, after)
    });
    assert_eq!(moved.map(|(_, offset, len)| (offset, len)), Some((0, 4 * PIECE)));
    let expected: Vec<u8> = (0..4 * PIECE).map(|at| (at / PIECE + 1) as u8).collect();
    assert_eq!(content(&fs, "pieces"), expected);
    fs.check().unwrap();
}
