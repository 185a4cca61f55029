//! Media that Linux would have written differently: other cleanmarkers, and partly filled pages.

use super::*;
use crate::Jffs2Error;
use eraseblock_base::{Location, Severity};
use eraseblock_jffs2_format::summary;
use eraseblock_nandsim::FaultPlan;

/// Returns a block of an image without cleanmarkers: a file and its name.
fn unmarked() -> Arc<Chip> {
    let chip = nor();
    let inode = Inode { ino: 2, version: 1, mode: 0o100_644, ..Inode::default() };
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    let mut bytes = Vec::new();
    encode::inode(ByteOrder::Little, &inode, &[], &mut bytes);
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    chip.program(0, &bytes).unwrap();
    chip
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Fills the blocks until several have a summary; returns their first bytes and their summaries.
fn filled(options: &RwOptions) -> Vec<(bool, Option<u32>)> {
    let chip = unmarked();
    let (fs, report) = Jffs2Rw::mount(chip.clone(), options).unwrap();
    assert_eq!(report.findings.iter().count(), 0);
    let ino = fs.create(1, b"large", &FILE, &by(100)).unwrap();
    let bytes = noise(60_000);
    fs.write(ino, 0, &bytes, &by(200)).unwrap();
    fs.unmount().unwrap();
    let (again, report) = Jffs2Rw::mount(chip.clone(), options).unwrap();
    assert_eq!(report.findings.iter().count(), 0, "{:?}", report.findings);
    assert!(report.summaries >= 2);
    again.check().unwrap();
    assert_eq!(content(&again, "large"), bytes);
    let mut block = vec![0; 16 << 10];
    let blocks = (0..16).map(|number| {
        chip.read(number << 14, &mut block).unwrap();
        let found = summary::decode(ByteOrder::Little, &block, Peb::new(number as u32));
        let is_marked = block[..4] == [0x85, 0x19, 0x03, 0x20];
        (is_marked, found.ok().map(|found| found.cleanmarker))
    });
    blocks.collect()
}

#[test]
fn the_summary_of_a_block_without_a_marker_says_so() {
    let blocks = filled(&RwOptions::default());
    assert_eq!(blocks[0], (false, Some(0)));
    let marked: Vec<_> = blocks[1..].iter().filter(|(is_marked, _)| *is_marked).collect();
    assert!(marked.contains(&&(true, Some(12))));
}

#[test]
fn an_image_without_markers_gets_none() {
    let options = RwOptions { cleanmarker: Some(0), ..RwOptions::default() };
    for (is_marked, summary) in filled(&options) {
        assert!(!is_marked && summary.unwrap_or(0) == 0);
    }
}

#[test]
fn the_length_of_markers_is_checked() {
    for (len, is_fine) in
        [(0, true), (12, true), (32, true), (8, false), (13, false), (9000, false)]
    {
        let options = RwOptions { cleanmarker: Some(len), ..RwOptions::default() };
        assert_eq!(Jffs2Rw::mount(nor(), &options).is_ok(), is_fine, "{len}");
    }
}

/// Writes to a block whose last page ends with a short padding node and erased bytes. Returns the
/// content of that page and of the next.
fn continued() -> [Vec<u8>; 2] {
    let chip = nand();
    let mut bytes = Vec::new();
    let inode = Inode { ino: 2, version: 1, mode: 0o100_644, ..Inode::default() };
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    encode::inode(ByteOrder::Little, &inode, &[], &mut bytes);
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    encode::padding(ByteOrder::Little, 512 - bytes.len() as u32, &mut bytes);
    bytes.resize(512, 0);
    encode::padding(ByteOrder::Little, 12, &mut bytes);
    bytes.resize(1024, 0xFF);
    chip.program(0, &bytes).unwrap();
    let (fs, _) = Jffs2Rw::mount(chip.clone(), &RwOptions::default()).unwrap();
    let ino = fs.create(1, b"new", &FILE, &by(100)).unwrap();
    fs.write(ino, 0, &noise(3000), &by(200)).unwrap();
    fs.unmount().unwrap();
    let again = mount(&chip);
    again.check().unwrap();
    assert_eq!(content(&again, "new"), noise(3000));
    [1, 2].map(|page| {
        let mut bytes = vec![0; 512];
        chip.read(page * 512, &mut bytes).unwrap();
        bytes
    })
}

#[test]
fn a_page_that_was_left_half_empty_is_not_programmed_again() {
    let [left, next] = continued();
    assert_eq!(left[12..], [0xFF; 500]);
    assert_eq!(next[..2], [0x85, 0x19], "the block is continued after it");
}

#[test]
fn unreadable_blocks_without_an_erased_one_are_something_else() {
    for (first, is_refused) in [(0, true), (1, false)] {
        let chip = nand();
        for block in first..16 {
            chip.program(block << 14, &noise(512)).unwrap();
        }
        let failing_reads = (0..16 * 32).map(|page| (page, 0)).collect();
        chip.set_plan(FaultPlan { failing_reads, ..FaultPlan::default() });
        let mounted = Jffs2Rw::mount(chip, &RwOptions::default());
        let is_foreign = matches!(mounted, Err(Jffs2Error::Foreign { blocks: 16 }));
        assert_eq!((is_foreign, mounted.is_err()), (is_refused, is_refused));
    }
}

/// A mount of a large chip takes the time that its content needs, not its size.
#[test]
fn of_a_block_with_nothing_but_its_marker_only_the_start_is_read() {
    let chip = nor();
    let mut marker = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut marker);
    for block in 0..16 {
        chip.program(block << 14, &marker).unwrap();
    }
    let (fs, report) = Jffs2Rw::mount(chip.clone(), &RwOptions::default()).unwrap();
    assert!(report.bytes_read <= 16 * 512, "{} bytes of 16 empty blocks", report.bytes_read);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &noise(100), &by(1)).unwrap();
    fs.unmount().unwrap();
    let (fs, report) = Jffs2Rw::mount(chip, &RwOptions::default()).unwrap();
    let most = (16 << 10) + 16 * 512;
    assert!(report.bytes_read <= most, "{} bytes", report.bytes_read);
    assert_eq!(content(&fs, "f"), noise(100));
}

/// A cut explains a damaged node at the end of what was written. In the middle, data has rotted.
#[test]
fn a_damaged_node_with_more_behind_it_is_a_warning() {
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    let inode = |ino| Inode { ino, version: 1, mode: 0o100_644, ..Inode::default() };
    for (is_last, expected) in [(true, Severity::Note), (false, Severity::Warning)] {
        let chip = nor();
        let mut bytes = Vec::new();
        encode::cleanmarker(ByteOrder::Little, 12, &mut bytes);
        encode::inode(ByteOrder::Little, &inode(2), &[], &mut bytes);
        encode::dirent(ByteOrder::Little, &entry, &mut bytes);
        bytes.resize(bytes.len().next_multiple_of(4), 0xFF);
        let damaged = bytes.len();
        encode::inode(ByteOrder::Little, &inode(3), &[], &mut bytes);
        bytes[damaged + 40] ^= 1;
        if !is_last {
            encode::inode(ByteOrder::Little, &inode(4), &[], &mut bytes);
        }
        chip.program(0, &bytes).unwrap();
        let (_, report) = Jffs2Rw::mount(chip, &RwOptions::default()).unwrap();
        let found: Vec<_> = report
            .findings
            .iter()
            .filter(|it| it.code == "node-damaged")
            .map(|it| it.severity)
            .collect();
        assert_eq!(found, [expected], "{:?}", report.findings);
    }
}

#[test]
fn a_mount_for_reading_ends_without_a_write() {
    let chip = nand();
    let fs = mount(&chip);
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, &noise(100), &by(1)).unwrap();
    fs.sync().unwrap();
    drop(fs);
    let events = chip.next_event();
    let options = RwOptions { read_only: true, ..RwOptions::default() };
    let (fs, _) = Jffs2Rw::mount(chip.clone(), &options).unwrap();
    assert_eq!(content(&fs, "f"), noise(100));
    fs.background_step().unwrap();
    fs.sync().unwrap();
    fs.unmount().unwrap();
    assert_eq!(chip.next_event(), events);
}

#[test]
fn bytes_between_nodes_that_are_no_node_are_noted() {
    let chip = nor();
    let mut bytes = Vec::new();
    let inode = Inode { ino: 2, version: 1, mode: 0o100_644, ..Inode::default() };
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    encode::cleanmarker(ByteOrder::Little, 12, &mut bytes);
    encode::inode(ByteOrder::Little, &inode, &[], &mut bytes);
    let at = bytes.len() as u32;
    bytes.extend([0x5A; 40]);
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    chip.program(0, &bytes).unwrap();
    let (fs, report) = Jffs2Rw::mount(chip, &RwOptions::default()).unwrap();
    assert_eq!(content(&fs, "f"), []);
    let found = report.findings.iter().find(|it| it.code == "no-node");
    let found = found.unwrap_or_else(|| panic!("{:?}", report.findings));
    assert_eq!(found.at, Location::Peb(Peb::new(0), at));
    assert!(found.message.starts_with("40 bytes"), "{}", found.message);
}

/// A block starts with a marker that is obsolete, or has the length of another chip's, and is erased
/// after it: it must be erased before it is used.
#[test]
fn a_block_with_a_wrong_marker_is_not_fresh() {
    for is_obsolete in [true, false] {
        let chip = nor();
        let mut marker = Vec::new();
        encode::cleanmarker(ByteOrder::Little, if is_obsolete { 12 } else { 16 }, &mut marker);
        if is_obsolete {
            // The bit of accurate nodes.
            marker[3] &= !0x20;
        }
        marker.truncate(12);
        chip.program(16 << 10, &marker).unwrap();
        let fs = mount(&chip);
        for number in 0..60 {
            let ino = fs.create(1, format!("{number}").as_bytes(), &FILE, &by(1)).unwrap();
            let data: Vec<u8> = (0..3000_u32).map(|byte| ((byte * byte) >> 7) as u8).collect();
            if fs.write(ino, 0, &data, &by(1)).is_err() {
                break;
            }
        }
        let wear = chip.erase_count(eraseblock_base::Peb::new(1));
        assert!(wear > 0, "obsolete: {is_obsolete}");
        let mut first = [0; 12];
        chip.read(16 << 10, &mut first).unwrap();
        assert_ne!(first[..], marker[..]);
    }
}
