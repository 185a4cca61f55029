//! What no image of the reference has: files, directories, trees, and journals after changes.

use crate::image::{ALIAS, AREA, BLOCK, Blocks, DYNAMIC, Image, Meta, SEGMENT, alias};
use eraseblock_logfs::Logfs;
use eraseblock_vfs::{FileKind, FileSystem, FsErrorKind, Timestamp};
use std::sync::Arc;

fn block(seed: u64) -> Vec<u8> {
    (0..4096_u64).map(|at| ((at * at + seed * 31) / 7 % 251) as u8).collect()
}

fn blocks(positions: impl IntoIterator<Item = u64>) -> Blocks {
    positions.into_iter().map(|bix| (bix, block(bix))).collect()
}

/// A root with one file of 20 blocks, number 16, called `file`.
pub(crate) fn one_file(write_shift: u8) -> Image {
    let mut image = Image::new(write_shift);
    image.file(16, 20 * 4096, &blocks(0..20), false);
    image.name(2, b"file", 16, 8);
    image.directory(2);
    image
}

fn open(image: &Image) -> (Logfs, Vec<&'static str>) {
    let (fs, findings) = Logfs::open(Arc::new(image.bytes.clone())).unwrap();
    let codes = findings.iter().map(|finding| finding.code.name()).collect();
    (fs, codes)
}

fn content(fs: &Logfs, path: &[u8]) -> Vec<u8> {
    let ino = fs.resolve(path).unwrap();
    let mut bytes = vec![0; fs.attr(ino).unwrap().size as usize];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[test]
fn files_of_every_height_are_read() {
    let mut image = Image::new(0);
    image.file(16, 5 * 4096 - 10, &blocks(0..5), true);
    image.file(17, 60 * 4096, &blocks(0..60), false);
    // Holes before, between and after blocks; two and three levels.
    image.file(18, 700 * 4096, &blocks([3, 20, 600]), false);
    image.file(19, 400_000 * 4096, &blocks([0, 300_000]), true);
    image.file(1000, 0, &Blocks::new(), false);
    for (ino, name) in [(16, "packed"), (17, "long"), (18, "two"), (19, "three"), (1000, "empty")] {
        image.name(2, name.as_bytes(), ino, 8);
    }
    image.directory(2);
    image.commit(&[]);
    let (fs, codes) = open(&image);
    assert!(codes.is_empty(), "{codes:?}");
    let whole = |count| (0..count).flat_map(block).collect::<Vec<u8>>();
    assert_eq!(content(&fs, b"packed"), whole(5)[..5 * 4096 - 10]);
    assert_eq!(content(&fs, b"long"), whole(60));
    assert!(content(&fs, b"empty").is_empty());
    let sparse = content(&fs, b"two");
    for (bix, found) in (0..).zip(sparse.chunks(4096)) {
        let expected = if [3, 20, 600].contains(&bix) { block(bix) } else { vec![0; 4096] };
        assert_eq!(found, expected, "{bix}");
    }
    let mut middle = vec![0; 100];
    assert_eq!(fs.read(19, 300_000 * 4096 + 50, &mut middle).unwrap(), 100);
    assert_eq!(middle, block(300_000)[50..150]);
    let at = |bix: u64| bix * 4096;
    assert_eq!(fs.seek_data(18, 0).unwrap(), Some(at(3)));
    assert_eq!(fs.seek_data(18, at(4)).unwrap(), Some(at(20)));
    assert_eq!(fs.seek_data(18, at(601)).unwrap(), None);
    assert_eq!(fs.seek_data(19, 5000).unwrap(), Some(at(300_000)));
    assert_eq!(fs.seek_hole(18, at(3)).unwrap(), at(4));
    assert_eq!(fs.seek_hole(17, 7).unwrap(), at(60));
}

#[test]
fn names_and_attributes_are_read() {
    let mut image = Image::new(0);
    let mut target = b"to/where".to_vec();
    target.resize(4096, 0);
    let place = image.object(BLOCK, 20, 0, &target, true);
    let with = |pointer| {
        let mut pointers = [0; 17];
        pointers[0] = pointer;
        (0, pointers)
    };
    image.inode(20, Meta { mode: 0o120_777, size: 4096 }, with(place));
    image.inode(21, Meta { mode: 0o020_600, size: 0 }, with(5 << 8 | 1));
    image.inode(22, Meta { mode: 0o010_644, size: 0 }, with(0));
    image.name(2, b"link", 20, 10);
    image.name(2, b"tty", 21, 2);
    image.name(2, b"fifo", 22, 1);
    image.name(2, "d\u{e9}".as_bytes(), 23, 4);
    for number in 0..40 {
        image.file(100 + number, 0, &Blocks::new(), false);
        image.name(23, format!("name-{number}").as_bytes(), 100 + number, 8);
    }
    image.directory(23);
    image.directory(2);
    image.commit(&[]);
    let (fs, codes) = open(&image);
    assert!(codes.is_empty(), "{codes:?}");
    assert_eq!(fs.read_link(20).unwrap(), b"to/where");
    assert_eq!(fs.attr(20).unwrap().size, 8);
    let tty = fs.attr(fs.resolve(b"tty").unwrap()).unwrap();
    assert_eq!((tty.kind, tty.rdev), (FileKind::CharDevice, (5, 1)));
    assert_eq!((tty.permissions, tty.uid, tty.gid, tty.nlink), (0o600, 1000, 100, 1));
    assert_eq!(tty.mtime, Timestamp { seconds: 1_234_567_890, nanoseconds: 7 });
    let names = fs.entries(23).unwrap();
    assert_eq!(names.len(), 40);
    for entry in &names {
        assert_eq!(fs.lookup(23, &entry.name).unwrap(), entry.ino);
        let next = fs.entries(23).unwrap().iter().filter(|it| it.cookie > entry.cookie).count();
        let mut after = 0;
        fs.read_dir(23, entry.cookie, &mut |_| {
            after += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(after, next);
    }
    assert_eq!(fs.lookup(2, b"none").unwrap_err().kind(), FsErrorKind::NotFound);
}

#[test]
fn aliases_replace_pointers_and_fields() {
    let mut image = one_file(0);
    let new = image.object(BLOCK, 16, 18, &block(99), false);
    let mut aliases = alias(16, 18, 1, 18, new);
    aliases.extend(alias(1, 16, 0, 7, 19 * 4096 + 1));
    let entry = image.journal(ALIAS, &aliases, true);
    image.commit(&[entry]);
    let (fs, _) = open(&image);
    let found = content(&fs, b"file");
    assert_eq!(found.len(), 19 * 4096 + 1);
    assert_eq!(found[18 * 4096..19 * 4096], block(99));
    assert_eq!(found[17 * 4096..18 * 4096], block(17));
}

#[test]
fn what_only_the_journal_holds_is_laid_over_the_image() {
    let mut image = one_file(11);
    image.commit(&[]);
    // The last write unit never got onto the flash.
    let used = image.at;
    let start = used & !2047;
    let mut area = ((start / SEGMENT) as u32).to_be_bytes().to_vec();
    area.extend(((used % SEGMENT) as u32).to_be_bytes());
    area.extend([0, 0]);
    area.extend(&image.bytes[start..][..2048]);
    image.bytes[start..][..2048].fill(0xFF);
    assert!(Logfs::open(Arc::new(image.bytes.clone())).unwrap().0.attr(16).is_err());
    let entry = image.journal(AREA, &area, false);
    image.at = used.next_multiple_of(2048);
    image.commit(&[entry]);
    let (fs, codes) = open(&image);
    assert!(codes.is_empty(), "{codes:?}");
    assert_eq!(content(&fs, b"file").len(), 20 * 4096);
}

#[test]
fn an_older_commit_is_used_if_the_newest_is_damaged() {
    let mut image = one_file(0);
    image.commit(&[]);
    let entry = image.journal(DYNAMIC, &[0; 64], true);
    image.name(2, b"new", 16, 8);
    image.directory(2);
    image.commit(&[entry]);
    assert_eq!(open(&image).0.entries(2).unwrap()[0].name, b"new");
    image.bytes[entry as usize + 17] ^= 1;
    let (fs, codes) = open(&image);
    assert_eq!(codes, ["logfs-commit"]);
    assert_eq!(fs.entries(2).unwrap()[0].name, b"file");
}

#[test]
fn the_second_superblock_is_used_if_the_first_is_damaged() {
    let mut image = one_file(0);
    image.commit(&[]);
    image.bytes[50] ^= 1;
    let (fs, codes) = open(&image);
    assert_eq!(codes, ["logfs-superblock"]);
    assert_eq!(content(&fs, b"file").len(), 20 * 4096);
}

#[test]
fn interrupted_operations_are_finished() {
    let mut image = Image::new(0);
    for (ino, name) in [(16, "a"), (17, "b"), (18, "c")] {
        image.file(ino, 0, &Blocks::new(), false);
        image.name(2, name.as_bytes(), ino, 8);
    }
    let old = image.name(2, b"old", 18, 8);
    image.directory(2);
    let mut state = vec![0; 64];
    state[16..24].copy_from_slice(&2_u64.to_be_bytes());
    state[24..32].copy_from_slice(&old.to_be_bytes());
    state[32..40].copy_from_slice(&17_u64.to_be_bytes());
    let entry = image.journal(DYNAMIC, &state, true);
    image.commit(&[entry]);
    let (fs, codes) = open(&image);
    assert_eq!(codes, ["logfs-interrupted"; 2]);
    let mut names: Vec<Vec<u8>> = fs.entries(2).unwrap().into_iter().map(|it| it.name).collect();
    names.sort();
    assert_eq!(names, [b"a", b"c"]);
    for name in [&b"old"[..], b"b"] {
        assert_eq!(fs.lookup(2, name).unwrap_err().kind(), FsErrorKind::NotFound);
    }
    assert_eq!(fs.attr(17).unwrap_err().kind(), FsErrorKind::NotFound);
}

#[test]
fn damaged_data_is_not_delivered() {
    let mut image = one_file(0);
    image.commit(&[]);
    // In block 3: objects of 28 + 4096 bytes follow the segment header.
    image.bytes[2 * SEGMENT + 24 + 3 * 4124 + 1000] ^= 1;
    let (fs, codes) = open(&image);
    assert!(codes.is_empty());
    let mut bytes = vec![0; 20 * 4096];
    let error = fs.read(16, 0, &mut bytes).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::Corrupted);
    assert!(
        error.to_string().contains("block 3: ") && error.to_string().contains("CRC"),
        "{error}"
    );
    assert_eq!(fs.read(16, 4 * 4096, &mut bytes).unwrap(), 16 * 4096);
}

#[test]
fn entries_that_cannot_be_are_hidden() {
    let mut image = Image::new(0);
    image.file(16, 0, &Blocks::new(), false);
    image.name(2, b"good", 16, 8);
    image.name(2, b"a/b", 16, 8);
    image.name(2, b"good", 16, 8);
    image.name(2, b"sub", 17, 4);
    image.name(17, b"loop", 17, 4);
    image.directory(17);
    image.directory(2);
    image.commit(&[]);
    let (fs, codes) = open(&image);
    assert_eq!(codes, ["logfs-entry"; 3]);
    assert_eq!(fs.entries(2).unwrap().len(), 2);
    assert!(fs.entries(17).unwrap().is_empty());
}

/// Directories and files in several segments.
fn files(mut image: Image) -> Vec<u8> {
    let plain: Blocks = (0..60).map(|bix| (bix, vec![bix as u8; 4096])).collect();
    image.file(16, 60 * 4096, &plain, false);
    image.file(17, 5 * 4096 - 10, &plain, true);
    image.name(2, b"long", 16, 8);
    image.name(2, b"dir", 18, 4);
    image.name(18, b"packed", 17, 8);
    image.directory(18);
    image.directory(2);
    image.commit(&[]);
    image.bytes
}

/// The tests of the command read these images, too. With `ERASEBLOCK_BLESS` they are made again.
#[test]
fn the_synthetic_images_are_those_of_the_builder() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (name, bad) in [("synthetic", &[][..]), ("synthetic-bad-blocks", &[0, 4])] {
        let made = files(Image::on_flash(0, bad));
        let path = data.join(format!("{name}.img.zst"));
        if std::env::var_os("ERASEBLOCK_BLESS").is_some() {
            std::fs::write(&path, zstd::encode_all(&made[..], 19).unwrap()).unwrap();
        }
        let stored = zstd::decode_all(&std::fs::read(&path).unwrap()[..]).unwrap();
        assert!(stored == made, "{name}");
    }
}

/// The first and the last superblock are in the first and the last good eraseblock.
#[test]
fn superblocks_are_looked_for_in_good_eraseblocks() {
    let mut bytes = files(Image::on_flash(0, &[0, 4]));
    let (end, segment) = (bytes.len() as u64, SEGMENT as u64);
    let read = |bytes: &Vec<u8>, good| {
        let (fs, findings) = Logfs::open_within(Arc::new(bytes.clone()), good).unwrap();
        assert_eq!(content(&fs, b"long"), (0..60).flat_map(|bix| [bix; 4096]).collect::<Vec<u8>>());
        findings.iter().count()
    };
    assert_eq!(read(&bytes, segment..end), 0);
    bytes[SEGMENT + 40] ^= 1;
    assert_eq!(read(&bytes, segment..end - segment), 1);
}
