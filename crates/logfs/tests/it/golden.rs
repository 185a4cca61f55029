//! The image of the reference.

use eraseblock_logfs::Logfs;
use eraseblock_vfs::FileSystem;
use eraseblock_vfs_testkit::golden;
use std::path::Path;
use std::sync::Arc;

#[test]
fn the_empty_image_of_the_reference_is_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let packed = std::fs::read(data.join("empty-plain.img.zst")).unwrap();
    let image = zstd::decode_all(&packed[..]).unwrap();
    let (fs, findings) = Logfs::open(Arc::new(image)).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    let text = std::fs::read_to_string(data.join("empty-plain.manifest")).unwrap();
    let differences = golden::differences(&golden::parse(&text), &golden::of(&fs));
    assert!(differences.is_empty(), "{differences:?}");
    let info = fs.info();
    assert_eq!((info.superblock.segment_size, info.superblock.write_size), (65_536, 1));
    assert_eq!(fs.stat_fs().unwrap().blocks, info.superblock.size / 4096);
}
