//! Damaged images: opening and reading end with a result, for any bytes.

use crate::{mkfs, store};
use eraseblock_axfs::Axfs;
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs::FileSystem;
use eraseblock_vfs_testkit::read_everything;
use std::sync::Arc;

/// Opens an image and reads all there is; returns the codes of what was found.
fn read_all(image: Vec<u8>) -> Vec<&'static str> {
    let Ok((fs, findings)) = Axfs::open(Arc::new(image)) else { return vec!["refused"] };
    read_everything(&fs);
    fs.stat_fs().unwrap();
    let _ = fs.info();
    findings.iter().map(|finding| finding.code.name()).collect()
}

#[test]
fn damaged_images_are_read_without_a_panic() {
    let mut random = SplitMix64::new(1);
    for image in [store::image("special"), store::image("xip"), mkfs::make(&["bin/tool"]).0] {
        for _ in 0..600 {
            let mut bytes = image.clone();
            for _ in 0..=random.next_u64() % 4 {
                // Most fields are in the first two pages.
                let most =
                    if random.next_u64().is_multiple_of(2) { 2500 } else { bytes.len() as u64 };
                let at = (random.next_u64() % most) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            read_all(bytes);
        }
    }
}

#[test]
fn truncated_images_are_read_without_a_panic() {
    for image in [store::image("special"), mkfs::make(&["bin/tool"]).0] {
        for len in (0..1200).chain((1200..image.len()).step_by(91)) {
            read_all(image[..len].to_vec());
        }
    }
}

/// The offset of a table and the index of an inode, as the superblock and the table say.
fn field(image: &[u8], region: usize, index: usize) -> usize {
    let number = |at: usize| u64::from_be_bytes(image[at..at + 8].try_into().unwrap()) as usize;
    number(number(96 + region * 8)) + index * 4
}

#[test]
fn directories_in_themselves_or_in_two_places_are_findings() {
    let (image, _) = mkfs::make(&[]);
    // Inode 1 is `bin`, 2 is `empty`; region 14 has the first entries, 12 their number.
    let mut own = image.clone();
    let at = field(&own, 14, 1);
    own[at..at + 4].copy_from_slice(&1_u32.to_be_bytes());
    assert_eq!(read_all(own), ["axfs-directory", "axfs-unreachable"]);
    let mut twice = image.clone();
    for (region, value) in [(14, 6_u32), (12, 3)] {
        let at = field(&twice, region, 2);
        twice[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    assert_eq!(read_all(twice), ["axfs-directory"]);
}

#[test]
fn names_that_cannot_be_are_hidden() {
    let (image, _) = mkfs::make(&[]);
    let strings = field(&image, 0, 0);
    for (name, codes) in
        [(&b"b/n"[..], "axfs-name"), (b"\0in", "axfs-name"), (b"zin", "axfs-order")]
    {
        let mut changed = image.clone();
        changed[strings + 3..strings + 6].copy_from_slice(name);
        assert_eq!(read_all(changed.clone()), [codes]);
        let (fs, _) = Axfs::open(Arc::new(changed)).unwrap();
        let expected = if codes == "axfs-name" { 4 } else { 5 };
        assert_eq!(fs.entries(1).unwrap().len(), expected);
        assert!(fs.lookup(1, b"empty").is_ok());
    }
}

#[test]
fn a_damaged_stream_is_not_delivered() {
    let mut image = mkfs::make(&[]).0;
    let at = field(&image, 3, 0);
    image[at + 12] ^= 4;
    let (fs, _) = Axfs::open(Arc::new(image)).unwrap();
    let ino = fs.resolve(b"bin/again").unwrap();
    let mut buffer = vec![0; 20_000];
    let error = fs.read(ino, 0, &mut buffer).unwrap_err().to_string();
    assert!(error.contains("block 0 cannot be decompressed"), "{error}");
    assert!(fs.read(ino, 4096, &mut buffer).is_ok());
}
