//! The data delivered from volumes that Linux would refuse, or would fail to read from.

use crate::image::*;
use eraseblock_ubifs::UbifsError;
use eraseblock_vfs::{FileSystem, FsErrorKind};

const NAMES: [&str; 6] = ["a.txt", "dev", "dir", "hard", "link", "sparse"];

fn complete(image: &Image) -> Vec<&'static str> {
    let (fs, codes) = image.salvage();
    assert_eq!(names(&fs), NAMES);
    assert_eq!(content(&fs, "a.txt"), b"hello ubifs\n");
    assert_eq!(&content(&fs, "sparse")[8192..], b"tail\n");
    assert_eq!(fs.xattr(65, b"security.selinux").unwrap(), b"u:r:t:s0\0");
    codes
}

#[test]
fn a_lost_superblock() {
    let mut image = Image::worked();
    image.flip(0, 40);
    let codes = complete(&image);
    assert!(codes.contains(&"superblock-lost") && codes.contains(&"main-area-scanned"));
    // The masters show the LEB size if the caller's is wrong.
    image.leb_size = 16384;
    complete(&image);
}

#[test]
fn lost_masters() {
    let mut image = Image::worked();
    image.erase(1);
    image.erase(2);
    let codes = complete(&image);
    assert!(codes.contains(&"master-lost") && codes.contains(&"main-area-scanned"));
}

#[test]
fn a_lost_root() {
    let mut image = Image::worked();
    image.flip(12, 700);
    assert!(complete(&image).contains(&"index-root-lost"));
}

#[test]
fn a_lost_leaf_of_the_index() {
    for offset in [0, 192, 384, 576] {
        let mut image = Image::worked();
        image.flip(12, offset + 60);
        let (fs, _) = image.open(false).unwrap();
        assert_eq!(names(&fs), NAMES);
        assert_eq!(content(&fs, "a.txt"), b"hello ubifs\n");
        assert_eq!(content(&fs, "sparse").len(), 8197);
        for ino in [1, 65, 67, 69, 71, 73] {
            assert_eq!(fs.list_xattrs(ino).unwrap(), [b"security.selinux"]);
        }
        let late = fs.late_findings();
        assert_eq!(late.iter().filter(|f| f.code == "index-node-lost").count(), 1);
        assert_eq!(late.iter().filter(|f| f.code == "main-area-scanned").count(), 1);
    }
}

#[test]
fn index_nodes_that_contradict_their_parent() {
    // A child of the wrong level, and one with keys of another child.
    let mut image = Image::worked();
    image.patch(12, 664, |node| node[28 + 4..28 + 8].copy_from_slice(&664_u32.to_le_bytes()));
    image.patch(12, 664, |node| node[28 + 8] = 108);
    assert_eq!(names(&image.open(false).unwrap().0), NAMES);
    let mut image = Image::worked();
    image.patch(12, 664, |node| node[28 + 4..28 + 8].copy_from_slice(&192_u32.to_le_bytes()));
    assert_eq!(names(&image.open(false).unwrap().0), NAMES);
}

#[test]
fn damaged_content_is_named_and_never_invented() {
    let mut image = Image::worked();
    image.flip(10, 50);
    let fs = image.open(true).unwrap().0;
    let mut buf = [0; 8197];
    let error = fs.read(65, 0, &mut buf).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::Corrupted);
    assert!(error.to_string().starts_with("inode 65 block 0: leb 10:0: data node CRC"));
    assert_eq!(fs.read(65, 4096, &mut buf).unwrap(), 4101);
    assert_eq!(&buf[4096..4101], b"tail\n");
    // A stream that is invalid although the CRC is right.
    let mut image = Image::worked();
    image.patch(10, 0, |node| node[60] = 0x55);
    let error = image.mount().read(65, 0, &mut buf).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::Corrupted);
    assert!(error.to_string().contains("inode 65 block 0: leb 10:0"), "{error}");
    // A node of another block.
    let mut image = Image::worked();
    image.patch(10, 80, |node| node[28] = 1);
    let error = image.mount().read(65, 8192, &mut buf).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::Corrupted);
}

#[test]
fn damaged_entries_and_inodes_hide_only_themselves() {
    let mut image = Image::worked();
    image.flip(10, 2140);
    let fs = image.open(true).unwrap().0;
    assert_eq!(names(&fs), ["dev", "dir", "hard", "link", "sparse"]);
    assert_eq!(names(&fs).len(), 5);
    let late = fs.late_findings();
    assert_eq!(late.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["entry-lost"]);
    let mut image = Image::worked();
    image.flip(10, 400);
    let fs = image.open(true).unwrap().0;
    assert_eq!(fs.attr(65).unwrap_err().kind(), FsErrorKind::Corrupted);
    assert_eq!(names(&fs), NAMES);
}

#[test]
fn a_lost_root_directory_inode() {
    let mut image = Image::worked();
    image.flip(10, 2500);
    let error = image.refused();
    assert!(matches!(error, UbifsError::Refused { code, .. } if code == "root-lost"), "{error}");
    // Every entry is there, keyed to the number of the root.
    assert_eq!(complete(&image), ["root-lost"]);
    let (fs, _) = image.open(false).unwrap();
    let root = fs.attr(1).unwrap();
    assert_eq!((root.permissions, root.uid, root.nlink), (0o755, 0, 2));
}

#[test]
fn a_superblock_alone_is_an_image_cut_short() {
    let mut image = Image::worked();
    for leb in 1..30 {
        image.erase(leb);
    }
    let error = image.open(false).unwrap_err();
    assert!(
        matches!(error, UbifsError::Refused { code, .. } if code == "image-cut-short"),
        "{error}"
    );
    assert!(error.to_string().contains("cut short"), "{error}");
}

#[test]
fn deletions_count_when_everything_is_scanned() {
    let mut image = Image::worked();
    let nodes = [
        entry(2, 1, b"sparse", 0, 60, 1),
        Ino::file(65, 8197, 0).node(61, 2),
        entry(2, 1, b"hard", 0, 62, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    image.erase(1);
    image.erase(2);
    let (fs, _) = image.salvage();
    assert_eq!(names(&fs), ["a.txt", "dev", "dir", "link"]);
    assert!(fs.info().is_rescued);
}

#[test]
fn not_ubifs_at_all() {
    let mut image = Image::worked();
    image.bytes.fill(0xFF);
    assert!(matches!(image.open(false), Err(UbifsError::NotUbifs { lebs: 30, leb_size: 15360 })));
}

#[test]
fn unsafe_names_are_shown_encoded() {
    let mut image = Image::worked();
    image.bud(BASE, 13, 0, &[entry(2, 1, b"../../etc", 73, 60, 2), entry(2, 1, b"..", 73, 61, 2)]);
    let fs = image.mount();
    assert!(fs.late_findings().is_empty());
    let names = names(&fs);
    assert_eq!(names.iter().filter(|name| name.starts_with("_nokey_")).count(), 2);
    let found: Vec<String> = fs.late_findings().iter().map(ToString::to_string).collect();
    let tells = |stored: &str| {
        let shown =
            found.iter().find(|line| line.contains(&format!("`{stored}`, a name of inode 73")));
        shown.is_some_and(|line| {
            names.iter().any(|name| line.ends_with(&format!("`{name}` [name-not-allowed]")))
        })
    };
    assert!(found.len() == 2 && tells("../../etc") && tells(".."), "{found:?}");
    for name in names {
        assert!(!name.contains('/') && name != "..");
        fs.lookup(1, name.as_bytes()).unwrap();
    }
}
