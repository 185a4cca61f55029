//! Small images of the classic `mkfs.ubifs`, of kinds that ours does not create: signed and
//! encrypted ones. Both hold the same tree: `dir/inner.txt`, `link` to it, `numbers` (the numbers
//! from 1 to 3000, one per line) and a file whose name is 200 times `n`; LEBs of 15872 bytes.

use crate::image::content;
use eraseblock_base::Findings;
use eraseblock_mtd::LebFile;
use eraseblock_ubifs::{MountOptions, OpenOptions, Ubifs, UbifsMount};
use eraseblock_vfs::{FileKind, FileSystem, FsError, FsErrorKind};
use std::io::Read;
use std::sync::Arc;

fn open(packed: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> (Ubifs, Findings) {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    change(&mut bytes);
    let device = LebFile::new(bytes, 15_872, 512, Some(100)).unwrap();
    Ubifs::open(Arc::new(device), &OpenOptions { strict: true }).unwrap()
}

fn codes(findings: &Findings) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.name()).collect()
}

fn numbers() -> String {
    (1..=3000).fold(String::new(), |text, number| text + &format!("{number}\n"))
}

fn signed(change: impl FnOnce(&mut Vec<u8>)) -> (Ubifs, Findings) {
    open(include_bytes!("../fixtures/signed.img.gz"), change)
}

fn encrypted() -> (Ubifs, Findings) {
    open(include_bytes!("../fixtures/encrypted.img.gz"), |_| {})
}

/// Made with `--hash-algo=sha256 --auth-key --auth-cert`: the branches of the index carry hashes,
/// and a signature follows the superblock.
#[test]
fn a_signed_image_is_read_without_its_key() {
    let (fs, findings) = signed(|_| {});
    assert_eq!(codes(&findings), ["not-authenticated"]);
    assert!(!findings.has_problems(), "{findings:?}");
    assert_eq!(fs.entries(1).unwrap().len(), 4);
    assert_eq!(content(&fs, "dir/inner.txt"), b"hello\n");
    assert_eq!(content(&fs, "numbers"), numbers().into_bytes());
    assert_eq!(content(&fs, &"n".repeat(200)), b"short\n");
    assert!(fs.late_findings().is_empty());
}

/// Without the key nothing can be verified: a changed signature is not noticed, and no message
/// claims that it was verified.
#[test]
fn a_broken_signature_is_not_judged() {
    let signature_node = |bytes: &[u8]| {
        (0..15_872).step_by(8).find(|at| bytes[at + 20] == 13 && bytes[*at..].starts_with(b"\x31"))
    };
    let (fs, findings) = signed(|bytes| {
        let at = signature_node(bytes).expect("a signature follows the superblock");
        bytes[at + 100] ^= 1;
    });
    assert_eq!(codes(&findings), ["not-authenticated"]);
    assert_eq!(fs.entries(1).unwrap().len(), 4);
}

#[test]
fn names_of_an_encrypted_image_are_listed_encoded() {
    let (fs, findings) = encrypted();
    assert_eq!(codes(&findings), ["encryption-flag"]);
    assert!(!findings.has_problems(), "{findings:?}");
    let entries = fs.entries(1).unwrap();
    assert_eq!(entries.len(), 4);
    for entry in &entries {
        let name = String::from_utf8(entry.name.clone()).unwrap();
        let is_long = entry.name.len() > 240;
        assert!(name.starts_with(if is_long { "_nokeyx_" } else { "_nokey_" }), "{name}");
        assert!(name.len() <= 255 && !name.contains('/'));
        assert_eq!(fs.lookup(1, &entry.name).unwrap(), entry.ino, "a shown name leads back");
    }
    assert_eq!(entries.iter().filter(|entry| entry.name.starts_with(b"_nokeyx_")).count(), 1);
    assert_eq!(fs.lookup(1, b"numbers").unwrap_err().kind(), FsErrorKind::NotFound);
    let dir = entries.iter().find(|entry| entry.kind == FileKind::Directory).unwrap();
    assert_eq!(fs.entries(dir.ino).unwrap().len(), 1);
}

#[test]
fn contents_of_an_encrypted_image_are_refused() {
    let (fs, _) = encrypted();
    let refused = |error: FsError| {
        assert_eq!(error.kind(), FsErrorKind::NoKey);
        assert!(error.to_string().contains("encrypted and there is no key"), "{error}");
    };
    let mut files = 0;
    for entry in fs.entries(1).unwrap() {
        let attr = fs.attr(entry.ino).unwrap();
        assert!(attr.flags.encrypted, "{attr:?}");
        assert_eq!(attr.mtime.seconds, 1_700_000_000);
        assert_eq!(fs.list_xattrs(entry.ino).unwrap(), [] as [Vec<u8>; 0], "no context");
        match entry.kind {
            FileKind::Regular => {
                files += 1;
                refused(fs.read(entry.ino, 0, &mut [0; 16]).unwrap_err());
                refused(fs.seek_data(entry.ino, 0).unwrap_err());
            }
            FileKind::Symlink => refused(fs.read_link(entry.ino).unwrap_err()),
            _ => {}
        }
    }
    assert_eq!(files, 2);
    let sizes: Vec<u64> =
        fs.entries(1).unwrap().iter().map(|entry| fs.attr(entry.ino).unwrap().size).collect();
    assert!(sizes.contains(&(numbers().len() as u64)), "sizes are not secret: {sizes:?}");
}

/// The context is no attribute that programs may copy or change; a mount does not show it either.
#[test]
fn a_mount_lists_no_context_of_an_encrypted_file() {
    let mut bytes = Vec::new();
    let packed = &include_bytes!("../fixtures/encrypted.img.gz")[..];
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let device = LebFile::new(bytes, 15_872, 512, Some(100)).unwrap();
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let (fs, _) = UbifsMount::mount(Arc::new(device), options).unwrap();
    let entries = fs.entries(1).unwrap();
    assert_eq!(entries.len(), 4);
    for entry in entries {
        assert!(fs.attr(entry.ino).unwrap().flags.encrypted);
        assert_eq!(fs.list_xattrs(entry.ino).unwrap(), [] as [Vec<u8>; 0], "no context");
    }
}
