//! Damaged images: opening and reading end with a result, for any bytes.

use crate::synthetic::one_file;
use eraseblock_base::random::SplitMix64;
use eraseblock_logfs::Logfs;
use eraseblock_vfs::FileSystem;
use eraseblock_vfs_testkit::read_everything;
use std::sync::Arc;

fn read_all(image: Vec<u8>) {
    let Ok((fs, _)) = Logfs::open(Arc::new(image)) else { return };
    read_everything(&fs);
    fs.stat_fs().unwrap();
}

#[test]
fn damaged_images_are_read_without_a_panic() {
    let mut image = one_file(0);
    image.commit(&[]);
    let used: Vec<usize> = (0..image.bytes.len()).filter(|at| image.bytes[*at] != 0xFF).collect();
    let mut random = SplitMix64::new(1);
    for _ in 0..400 {
        let mut bytes = image.bytes.clone();
        for _ in 0..=random.next_u64() % 4 {
            let at = used[(random.next_u64() % used.len() as u64) as usize];
            bytes[at] = random.next_u64() as u8;
        }
        read_all(bytes);
    }
}

#[test]
fn truncated_images_are_read_without_a_panic() {
    let mut image = one_file(0);
    image.commit(&[]);
    for len in (0..300).chain((300..image.bytes.len()).step_by(9973)) {
        read_all(image.bytes[..len].to_vec());
    }
}

/// Objects whose checksums are right and whose fields are anything.
#[test]
fn valid_checksums_do_not_make_fields_trusted() {
    use crate::image::{Image, Meta};
    let mut random = SplitMix64::new(2);
    for round in 0..300_u64 {
        let mut image = Image::new(0);
        let mut pointers = [0; 17];
        for pointer in &mut pointers {
            *pointer = match random.next_u64() % 4 {
                0 => 0,
                1 => random.next_u64(),
                _ => 2 * 65_536 + 24 + random.next_u64() % 9000,
            };
        }
        let meta =
            Meta { mode: 0o100_000 + (random.next_u64() % 0o1000) as u16, size: u64::MAX - round };
        image.inode(16, meta, ((round % 9) as u8, pointers));
        image.inode(17, Meta { mode: 0o040_755, ..meta }, ((round % 7) as u8, pointers));
        image.name(2, b"file", 16, 8);
        image.name(2, b"dir", 17, 4);
        image.directory(2);
        image.commit(&[]);
        read_all(image.bytes);
    }
}
