//! The worked image as it is, and what its superblock may not say.

use crate::image::*;
use eraseblock_ubifs::UbifsError;
use eraseblock_vfs::{FileKind, FileSystem, FsErrorKind};
use std::ops::ControlFlow;

const NAMES: [&str; 6] = ["a.txt", "dev", "dir", "hard", "link", "sparse"];

#[test]
fn everything_in_the_worked_image() {
    let fs = Image::worked().mount();
    assert!(fs.info().is_clean);
    assert_eq!((fs.superblock().leb_cnt, fs.master().unwrap().highest_inum), (30, 75));
    assert_eq!(names(&fs), NAMES);
    assert_eq!(content(&fs, "a.txt"), b"hello ubifs\n");
    assert_eq!(fs.resolve(b"hard").unwrap(), fs.resolve(b"a.txt").unwrap());
    assert_eq!(fs.attr(73).unwrap().nlink, 2);
    let link = fs.resolve(b"link").unwrap();
    assert_eq!(fs.read_link(link).unwrap(), b"a.txt");
    let device = fs.attr(fs.resolve(b"dev").unwrap()).unwrap();
    assert_eq!((device.kind, device.rdev), (FileKind::CharDevice, (5, 300)));
    assert_eq!((device.permissions, device.mtime.seconds), (0o644, 1_700_000_000));
    let root = fs.attr(1).unwrap();
    assert_eq!((root.nlink, root.size, root.permissions), (3, 544, 0o755));
    for ino in [1, 65, 67, 69, 71, 73] {
        assert_eq!(fs.list_xattrs(ino).unwrap(), [b"security.selinux"]);
        assert_eq!(fs.xattr(ino, b"security.selinux").unwrap(), b"u:r:t:s0\0");
    }
    assert_eq!(fs.entries(fs.resolve(b"dir").unwrap()).unwrap(), []);
    assert!(fs.late_findings().is_empty());
}

#[test]
fn holes_and_pieces() {
    let fs = Image::worked().mount();
    let sparse = fs.resolve(b"sparse").unwrap();
    let mut expected = vec![b'A'; 4096];
    expected.extend([0; 4096]);
    expected.extend(b"tail\n");
    assert_eq!(content(&fs, "sparse"), expected);
    for (offset, len) in [(0, 1), (1, 4096), (4095, 2), (4090, 4110), (8190, 100), (8197, 3)] {
        let mut buf = vec![0x55; len];
        let read = fs.read(sparse, offset as u64, &mut buf).unwrap();
        let end = expected.len().min(offset + len);
        assert_eq!(&buf[..read], &expected[offset.min(end)..end], "{offset}+{len}");
    }
    assert_eq!(fs.seek_data(sparse, 10).unwrap(), Some(10));
    assert_eq!(fs.seek_hole(sparse, 10).unwrap(), 4096);
    assert_eq!(fs.seek_data(sparse, 5000).unwrap(), Some(8192));
    assert_eq!(fs.seek_hole(sparse, 8192).unwrap(), 8197);
    assert_eq!(fs.seek_data(sparse, 8197).unwrap(), None);
}

#[test]
fn refusals_of_the_interface() {
    let fs = Image::worked().mount();
    let kind = |result: Result<(), eraseblock_vfs::FsError>| result.unwrap_err().kind();
    assert_eq!(kind(fs.lookup(1, b"none").map(drop)), FsErrorKind::NotFound);
    assert_eq!(kind(fs.lookup(1, &[b'x'; 256]).map(drop)), FsErrorKind::NameTooLong);
    assert_eq!(kind(fs.lookup(73, b"x").map(drop)), FsErrorKind::NotADirectory);
    assert_eq!(kind(fs.attr(999).map(drop)), FsErrorKind::NotFound);
    assert_eq!(kind(fs.attr(1 << 40).map(drop)), FsErrorKind::NotFound);
    assert_eq!(kind(fs.read(1, 0, &mut [0]).map(drop)), FsErrorKind::IsADirectory);
    assert_eq!(kind(fs.read(71, 0, &mut [0]).map(drop)), FsErrorKind::Invalid);
    assert_eq!(kind(fs.read_link(73).map(drop)), FsErrorKind::Invalid);
    assert_eq!(kind(fs.xattr(73, b"user.x").map(drop)), FsErrorKind::NoAttribute);
}

#[test]
fn directories_can_be_read_piece_by_piece() {
    let fs = Image::worked().mount();
    let all = fs.entries(1).unwrap();
    let mut pieces = Vec::new();
    let mut cookie = 0;
    loop {
        let before = pieces.len();
        fs.read_dir(1, cookie, &mut |entry| {
            cookie = entry.cookie;
            pieces.push(entry);
            ControlFlow::Break(())
        })
        .unwrap();
        if pieces.len() == before {
            break;
        }
    }
    assert_eq!(pieces, all);
    let hashes: Vec<_> = all.iter().map(|entry| entry.cookie >> 32).collect();
    assert!(hashes.is_sorted());
}

#[test]
fn colliding_names_are_told_apart() {
    let mut image = Image::worked();
    // Three names of one hash; the reader asks for the hash of the name, so they are found by
    // listing, and by name where the hash is right.
    let hash = eraseblock_ubifs_format::KeyHash::R5.hash(b"bb");
    let nodes = [
        entry_at(2, 1, hash, b"cc", 73, 60, 1),
        entry_at(2, 1, hash, b"bb", 65, 61, 1),
        entry_at(2, 1, hash, b"aa", 67, 62, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    assert_eq!(fs.lookup(1, b"bb").unwrap(), 65);
    let run: Vec<_> =
        fs.entries(1).unwrap().into_iter().filter(|e| e.cookie >> 32 == hash.into()).collect();
    let mut names: Vec<_> = run.iter().map(|entry| entry.name.as_slice()).collect();
    names.sort_unstable();
    assert_eq!(names, [b"aa", b"bb", b"cc"]);
    for (index, entry) in run.iter().enumerate() {
        let mut next = None;
        fs.read_dir(1, entry.cookie, &mut |entry| {
            next = Some(entry);
            ControlFlow::Break(())
        })
        .unwrap();
        if index < 2 {
            assert_eq!(next.as_ref(), run.get(index + 1));
        }
    }
}

#[test]
fn encrypted_files_keep_their_secret() {
    let mut image = Image::worked();
    let nodes = [
        Ino { flags: 0x41, ..Ino::file(73, 12, 2) }.node(60, 2),
        Ino { flags: 0x41, mode: 0o120_777, data: vec![2; 18], ..Ino::file(71, 18, 1) }.node(61, 2),
        Ino { flags: 0x41, mode: 0o040_755, ..Ino::file(69, 160, 2) }.node(62, 2),
        entry(2, 69, b"\x00\xFF/cipher\x01", 73, 63, 2),
        entry(3, 69, b"c", 66, 64, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    assert_eq!(fs.read(73, 0, &mut [0]).unwrap_err().kind(), FsErrorKind::NoKey);
    assert_eq!(fs.read_link(71).unwrap_err().kind(), FsErrorKind::NoKey);
    let entries = fs.entries(69).unwrap();
    assert!(entries[0].name.starts_with(b"_nokey_"));
    assert_eq!(fs.lookup(69, &entries[0].name).unwrap(), 73);
    assert_eq!(fs.list_xattrs(69).unwrap(), [b"security.selinux"]);
    assert_eq!(fs.attr(73).unwrap().size, 12);
}

fn refused_with(image: &Image) -> String {
    match image.refused() {
        UbifsError::Format(error) => error.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn superblocks_linux_refuses() {
    let cases: [(usize, &[u8], &str); 16] = [
        (26, &[2], "key hash"),
        (27, &[1], "key format"),
        (28, &[0x40], "unknown flag"),
        (28, &[0x10], "encryption flag"),
        (80, &[2], "format version"),
        (80, &[5], "double-hash"),
        (32, &[0, 4], "minimum I/O unit"),
        (44, &[12], "LEB count"),
        (48, &[0, 0x10, 0], "journal size"),
        (56, &[1], "LEBs of the log"),
        (60, &[1], "LEBs of the LPT"),
        (64, &[0], "LEBs of the orphan"),
        (68, &[2], "journal heads"),
        (72, &[2], "fanout"),
        (84, &[4], "compressor"),
        (104, &[0, 0, 0, 0], "time granularity"),
    ];
    for (offset, with, words) in cases {
        let mut image = Image::worked();
        image.patch(0, 0, |node| node[offset..offset + with.len()].copy_from_slice(with));
        let message = refused_with(&image);
        assert!(message.contains(words), "{words}: {message}");
        image.open(false).unwrap();
    }
    let mut image = Image::worked();
    image.bytes.truncate(16 * LEB);
    assert!(refused_with(&image).contains("LEB count"));
    assert_eq!(names(&image.salvage().0), NAMES);
    // Only a newer read-only compatible version is no obstacle to reading.
    let mut image = Image::worked();
    image.patch(0, 0, |node| (node[80], node[28]) = (6, 12));
    image.mount();
    image.patch(0, 0, |node| node[124] = 1);
    assert!(refused_with(&image).contains("format version"));
}

#[test]
fn an_image_opened_with_the_wrong_leb_size() {
    let mut image = Image::worked();
    image.leb_size = 16384;
    let (fs, codes) = image.salvage();
    assert_eq!(codes, ["superblock-refused"]);
    assert_eq!(names(&fs), NAMES);
    assert_eq!(content(&fs, "a.txt"), b"hello ubifs\n");
}
