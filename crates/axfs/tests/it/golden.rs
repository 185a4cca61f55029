//! Images of the reference show the trees they were made from.

use crate::store;
use eraseblock_axfs::{Axfs, AxfsError, Split};
use eraseblock_mtd::ReadAt;
use eraseblock_vfs_testkit::golden;
use std::sync::Arc;

#[test]
fn images_show_the_trees_they_were_made_from() {
    for name in ["compressed", "special", "xip"] {
        let (fs, findings) = Axfs::open(Arc::new(store::image(name))).unwrap();
        assert!(findings.is_empty(), "{name}: {findings:?}");
        let expected = golden::parse(&store::manifest(name));
        let differences = golden::differences(&expected, &golden::of(&fs));
        assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    }
}

#[test]
fn pages_are_counted_by_kind() {
    let (fs, _) = Axfs::open(Arc::new(store::image("xip"))).unwrap();
    let info = fs.info();
    assert_eq!(info.superblock.version, [2, 2, 0]);
    let counts = [info.xip_pages, info.compressed_pages, info.byte_aligned_pages];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), info.superblock.nodes);
}

#[test]
fn a_split_image_is_read_from_both_parts() {
    let whole = store::image("xip");
    let image_size = Axfs::open(Arc::new(whole.clone())).unwrap().0.info().superblock.image_size;
    for mmap_size in [300, 4096, whole.len() / 2, image_size as usize - 2] {
        let mut first = whole[..mmap_size].to_vec();
        first.extend([0xFF; 100]); // the rest of the device
        let second = whole[mmap_size..].to_vec();
        let joined = Split::new(Arc::new(first), Arc::new(second), mmap_size as u64);
        assert_eq!(joined.size().unwrap(), whole.len() as u64);
        let (fs, findings) = Axfs::open(Arc::new(joined)).unwrap();
        assert!(findings.is_empty());
        let expected = golden::parse(&store::manifest("xip"));
        assert!(golden::differences(&expected, &golden::of(&fs)).is_empty());
    }
}

#[test]
fn the_first_part_alone_says_what_is_missing() {
    let mut first = store::image("xip");
    first[88..96].copy_from_slice(&4096_u64.to_be_bytes());
    first.truncate(4096);
    let error = Axfs::open(Arc::new(first)).unwrap_err();
    assert!(matches!(error, AxfsError::Missing { mmap_size: 4096, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("append the second part to the first 4096 bytes"), "{text}");
}

#[test]
fn a_missing_end_magic_is_a_finding() {
    let mut image = store::image("special");
    let (fs, _) = Axfs::open(Arc::new(image.clone())).unwrap();
    let end = fs.info().superblock.image_size as usize;
    image[end - 1] ^= 1;
    let (_, findings) = Axfs::open(Arc::new(image)).unwrap();
    let codes: Vec<&str> = findings.iter().map(|finding| finding.code.name()).collect();
    assert_eq!(codes, ["axfs-end-magic"]);
}
