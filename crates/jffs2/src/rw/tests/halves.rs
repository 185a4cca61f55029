//! Blocks whose erase was interrupted: the summary at the end still lists nodes that are erased.

use super::*;
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{EventKind, Variant};
use eraseblock_vfs::XattrMode;

/// Copies the second half of the content of block `from` into block `to`, whose first half stays
/// erased.
fn half_erased(chip: &Chip, from: u32, to: u32) {
    let geometry = *chip.geometry();
    let mut bytes = vec![0; geometry.peb_size() as usize];
    chip.read(geometry.address_of(Peb::new(from)), &mut bytes).unwrap();
    chip.erase(Peb::new(to)).unwrap();
    let start = geometry.address_of(Peb::new(to));
    let half = bytes.len() / 2;
    for at in (half..bytes.len()).step_by(512) {
        chip.program(start + at as u64, &bytes[at..at + 512]).unwrap();
    }
}

/// Returns the block that holds the name, if it is closed by a summary.
fn block_of(chip: &Chip, name: &[u8]) -> Option<u32> {
    let geometry = *chip.geometry();
    let mut bytes = vec![0; geometry.peb_size() as usize];
    (0..geometry.peb_count()).find(|block| {
        chip.read(geometry.address_of(Peb::new(*block)), &mut bytes).unwrap();
        let is_closed = bytes.ends_with(&[0x85, 0x18, 0x85, 0x02]);
        is_closed && bytes.windows(name.len()).any(|part| part == name)
    })
}

fn fill(fs: &Jffs2Rw, names: std::ops::Range<u32>) {
    for number in names {
        let ino = fs.create(1, format!("file-{number:03}").as_bytes(), &FILE, &by(1)).unwrap();
        let bytes: Vec<u8> =
            (0..400).map(|byte: u32| ((byte * byte * number) >> 5) as u8).collect();
        fs.write(ino, 0, &bytes, &by(2)).unwrap();
    }
}

// Garbage collection had copied the nodes of a block, and its erasure was cut in the middle. The
// summary of the half-erased block still listed the copies, and of two names of one version the
// last one on flash won: names were gone.
#[test]
fn of_two_copies_of_a_name_the_one_that_is_there_counts() {
    let chip = nand();
    let fs = mount(&chip);
    fill(&fs, 0..60);
    fs.unmount().unwrap();
    let full = block_of(&chip, b"file-003").unwrap();
    let last = chip.geometry().peb_count() - 1;
    for to in [0, last].into_iter().filter(|to| *to != full) {
        let chip = Arc::new(chip.snapshot().to_chip());
        half_erased(&chip, full, to);
        let fs = mount(&chip);
        fs.check().unwrap();
        for number in 0..60 {
            assert_eq!(content(&fs, &format!("file-{number:03}")).len(), 400, "{number}");
        }
    }
}

// The deletion of a name was collected. The older node that gives the name to an inode could not be
// read, because its block was half erased, so the deletion was dropped. But the block's summary
// listed the older node, and the next mount counted a name that does not exist.
#[test]
fn a_deletion_outlives_a_name_that_only_a_summary_lists() {
    for seed in 0..8 {
        let chip = nand();
        let options = RwOptions { seed, ..RwOptions::default() };
        let mount = || Jffs2Rw::mount(chip.clone(), &options).unwrap().0;
        let fs = mount();
        fill(&fs, 0..60);
        fs.unmount().unwrap();
        let full = block_of(&chip, b"file-003").unwrap();
        let fs = mount();
        // Nothing in the first half of the block is live any more; the inodes have other names.
        for number in 0..17 {
            let ino = fs.lookup(1, format!("file-{number:03}").as_bytes()).unwrap();
            fs.link(ino, 1, format!("other-{number}").as_bytes(), &by(3)).unwrap();
            fs.write(ino, 0, &[1; 400], &by(3)).unwrap();
        }
        for number in 0..17 {
            fs.unlink(1, format!("file-{number:03}").as_bytes(), &by(3)).unwrap();
            churn_once(&fs);
        }
        fs.unmount().unwrap();
        half_erased(&chip, full, full);
        let mut fs = mount();
        for round in 0..120 {
            churn_once(&fs);
            if round % 8 == 0 {
                fs.unmount().unwrap();
                fs = mount();
                fs.check().unwrap();
                assert!(fs.lookup(1, b"file-003").is_err());
            }
        }
    }
}

// A name and its deletion, an attribute and its removal, lay in one block. Garbage collection
// dropped the deletion and the removal; the erase was cut when the chip had filled the end of the
// block with zeros: the name and the attribute reappeared.
#[test]
fn what_is_gone_stays_gone_when_a_block_is_erased_from_its_end() {
    let chip = nor();
    let fs = mount(&chip);
    churn_once(&fs);
    let keep = fs.create(1, b"keep", &FILE, &by(1)).unwrap();
    for number in 0..20 {
        let name = format!("name-{number}").into_bytes();
        fs.link(keep, 1, &name, &by(1)).unwrap();
        fs.set_xattr(keep, b"user.a", &[number], XattrMode::Either, &by(1)).unwrap();
        fs.remove_xattr(keep, b"user.a", &by(1)).unwrap();
        fs.unlink(1, &name, &by(1)).unwrap();
    }
    chip.set_recording(true);
    for _ in 0..60 {
        churn_once(&fs);
    }
    let mut erased = 0;
    for event in chip.take_recording() {
        if !matches!(event.event.kind, EventKind::Erase { .. }) {
            continue;
        }
        erased += 1;
        let chip = Arc::new(event.cut(Variant::E5, 1).unwrap());
        chip.power_on();
        let fs = mount(&chip);
        fs.check().unwrap();
        assert!(fs.entries(1).unwrap().iter().all(|entry| !entry.name.starts_with(b"name")));
        assert!(fs.xattr(keep, b"user.a").is_err());
    }
    assert!(erased > 10, "{erased} blocks erased");
}

// A name known from a summary was damaged on flash. It counted as live, although nothing could read
// it: its block would never have been given back.
#[test]
fn a_damaged_name_that_a_summary_lists_is_reported_and_gone() {
    let chip = nand();
    let fs = mount(&chip);
    fill(&fs, 0..60);
    fs.unmount().unwrap();
    let block = block_of(&chip, b"file-003").unwrap();
    let start = chip.geometry().address_of(Peb::new(block));
    let mut bytes = vec![0; chip.geometry().peb_size() as usize];
    chip.read(start, &mut bytes).unwrap();
    let at = bytes.windows(8).position(|part| part == b"file-003").unwrap();
    bytes[at + 7] = b'!';
    chip.erase(Peb::new(block)).unwrap();
    for page in (0..bytes.len()).step_by(512) {
        chip.program(start + page as u64, &bytes[page..page + 512]).unwrap();
    }
    let fs = mount(&chip);
    let names: Vec<Vec<u8>> = fs.entries(1).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names.len(), 59);
    assert!(!names.contains(&b"file-003".to_vec()));
    let late = fs.late_findings();
    assert!(late.iter().any(|it| it.code == "node-dropped"), "{late:?}");
    // The inode without a name is not one that the judge may find: it has a name by the summary.
    let told = fs.check().unwrap_err();
    assert!(told.to_string().contains("1 names, counted 0"), "{told}");
}

/// Returns nodes of file `f` with this version, and of its name.
fn nodes(version: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let inode = Inode { ino: 2, version, mode: 0o100_644, isize: 4, dsize: 4, ..Inode::default() };
    let name = Dirent { pino: 1, version, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    encode::inode(ByteOrder::Little, &inode, b"data", &mut bytes);
    encode::dirent(ByteOrder::Little, &name, &mut bytes);
    bytes
}

fn marked(versions: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut bytes);
    for version in versions {
        bytes.extend(nodes(*version));
    }
    bytes
}

/// A block that was being erased read whole, because the cut erase had not taken effect yet. Its
/// inode nodes counted until they were compared with newer ones, and writing went on in its free
/// end: such a block cannot be programmed (found as `jffs2/nor/aged-51014@18098.P3+18154.E4`).
#[test]
fn a_block_that_was_being_erased_is_not_continued() {
    let chip = nor();
    chip.program(0, &marked(&[2, 3, 4])).unwrap();
    let old = marked(&[1]);
    chip.program(16 << 10, &old).unwrap();
    let fs = mount(&chip);
    fs.write(2, 0, b"more", &by(60)).unwrap();
    let mut rest = vec![0; (16 << 10) - old.len()];
    chip.read((16 << 10) + old.len() as u64, &mut rest).unwrap();
    assert!(rest.iter().all(|byte| *byte == 0xFF), "the block with more free space was continued");
    assert_eq!(content(&fs, "f"), b"more");
}

/// Blocks had the same nodes, and all but one of them were half erased. A copy in such a block
/// counted, because it was found later, and then more of that block decayed
/// (found as `jffs2/nosum/aged-50038@414.P4+417.E4`). Of three copies, the safe one lost again if it
/// was found first.
#[test]
fn of_copies_the_one_in_a_whole_block_counts() {
    let cases: [(u64, &[u64]); 5] =
        [(0, &[1]), (1, &[0]), (0, &[1, 2]), (1, &[0, 2]), (2, &[0, 1])];
    for (whole, halves) in cases {
        let chip = nor();
        let start = |block: u64| block << 14;
        chip.program(start(whole), &marked(&[1])).unwrap();
        for half in halves {
            // Not empty, so that the rest of the block is looked at.
            chip.program(start(*half) + 100, &[0xFE]).unwrap();
            chip.program(start(*half) + 1024, &nodes(1)).unwrap();
        }
        let fs = mount(&chip);
        fs.attr(2).unwrap();
        for half in halves {
            chip.erase(Peb::new(*half as u32)).unwrap();
        }
        assert_eq!(content(&fs, "f"), b"data");
        fs.check().unwrap();
    }
}

/// Returns a name, or the deletion of one.
fn name(ino: u32, version: u32, name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = Dirent { pino: 1, version, ino, mctime: 50, file_type: 8, name };
    encode::dirent(ByteOrder::Little, &name, &mut bytes);
    bytes
}

/// A block that was being erased read whole, so that deletions which garbage collection had dropped
/// were back. Then they decayed, and their directory could not be loaded in any later mount
/// (found as `jffs2/nor/aged-60003@1348.off+1369.E4`).
#[test]
fn a_deletion_that_decays_does_not_lock_its_directory() {
    for read_only in [false, true] {
        let chip = nor();
        chip.program(0, &marked(&[1])).unwrap();
        let mut dying = marked(&[]);
        dying.extend(name(0, 7, b"gone"));
        chip.program(16 << 10, &dying).unwrap();
        let options = RwOptions { read_only, ..RwOptions::default() };
        let (fs, _) = Jffs2Rw::mount(chip.clone(), &options).unwrap();
        chip.erase(Peb::new(1)).unwrap();
        assert_eq!(content(&fs, "f"), b"data");
        assert!(fs.resolve(b"gone").is_err());
        let late = fs.late_findings();
        assert!(late.iter().any(|it| it.code == "node-dropped"), "{late:?}");
        fs.check().unwrap();
    }
}

/// A name that could not be read any more after its directory was loaded stopped garbage
/// collection at its block for ever; a deletion did, too.
#[test]
fn a_name_that_decays_after_it_was_loaded_is_written_again() {
    let chip = nor();
    let inode = Inode { ino: 3, version: 1, mode: 0o100_644, ..Inode::default() };
    let mut whole = marked(&[1]);
    encode::inode(ByteOrder::Little, &inode, &[], &mut whole);
    chip.program(0, &whole).unwrap();
    let mut dying = marked(&[]);
    dying.extend(name(3, 6, b"kept"));
    dying.extend(name(0, 7, b"gone"));
    chip.program(16 << 10, &dying).unwrap();
    let fs = mount(&chip);
    assert_eq!(fs.resolve(b"kept").unwrap(), 3);
    chip.erase(Peb::new(1)).unwrap();
    while chip.erase_count(Peb::new(1)) < 2 {
        churn_once(&fs);
    }
    fs.check().unwrap();
    fs.unmount().unwrap();
    let fs = mount(&chip);
    assert_eq!(fs.resolve(b"kept").unwrap(), 3);
    assert!(fs.resolve(b"gone").is_err());
}
