//! Damaged images: opening and reading end with a result, for any bytes.

use crate::store::Store;
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs::FileSystem;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_yaffs::{Layout, OpenOptions, Source, Yaffs};
use std::sync::Arc;

/// Changed versions of each image.
const ROUNDS: u64 = 12;

/// Reads names, attributes and the first bytes of everything: sizes may be any.
fn read_all(fs: &Yaffs) {
    let mut buffer = [0; 5000];
    let mut visits = 0;
    let _ = walk::<()>(fs, fs.root(), &mut |visit| {
        visits += 1;
        if let Visit::Entry { entry, .. } = visit {
            let attr = fs.attr(entry.ino).unwrap();
            for name in fs.list_xattrs(entry.ino).unwrap_or_default() {
                let _ = fs.xattr(entry.ino, &name);
            }
            let _ = fs.read(entry.ino, 0, &mut buffer);
            let _ = fs.read(entry.ino, attr.size.saturating_sub(1000), &mut buffer);
            let _ = (fs.seek_data(entry.ino, 0), fs.seek_hole(entry.ino, attr.size / 2));
            let _ = fs.read_link(entry.ino);
        }
        if visits > 10_000 { Err(()) } else { Ok(Descend::Yes) }
    });
    fs.stat_fs().unwrap();
}

/// Changes words of used pages: of the tags, of the header, or anywhere.
fn damage(image: &mut [u8], layout: &Layout, random: &mut SplitMix64) {
    let (raw, page) = (layout.raw() as usize, layout.page as usize);
    let mut number = |most: usize| (random.next_u64() % most as u64) as usize;
    let used: Vec<usize> = (0..image.len() / raw)
        .filter(|page| image[page * raw..][..raw].iter().any(|byte| *byte != 0xFF))
        .collect();
    for _ in 0..=number(64) {
        let start = used[number(used.len())] * raw;
        let at = match number(3) {
            0 => page - 16 + number(raw - page + 16),
            1 => number(512),
            _ => number(raw),
        };
        image[start + at] = if number(2) == 0 { number(256) as u8 } else { image[start + at] ^ 1 };
    }
}

#[test]
fn damaged_images_are_read_without_a_panic() {
    let store = Store::selection();
    let names = ["no-tags-ecc", "inband-torn", "yaffs1-basic", "basic-checkpoint", "links"];
    for (seed, name) in (1..).zip(names) {
        let image = store.image(name);
        let source = |image: Vec<u8>| Source::Image(Arc::new(image));
        let (fs, _) = Yaffs::open(source(image.clone()), &OpenOptions::default()).unwrap();
        let layout = fs.info().layout.clone();
        let mut random = SplitMix64::new(seed);
        for round in 0..ROUNDS {
            let mut damaged = image.clone();
            damage(&mut damaged, &layout, &mut random);
            let options = OpenOptions {
                layout: Some(layout.clone()),
                ignore_checkpoint: round % 2 == 0,
                ..OpenOptions::default()
            };
            let (fs, _) = Yaffs::open(source(damaged), &options).unwrap();
            read_all(&fs);
        }
    }
}

#[test]
fn noise_and_other_formats_are_no_yaffs() {
    let mut random = SplitMix64::new(7);
    let noise: Vec<u8> = (0..2112 * 256).map(|_| random.next_u64() as u8).collect();
    let zeros = vec![0; 2112 * 256];
    let erased = vec![0xFF; 2112 * 256];
    let text = b"the same words again and again; ".repeat(2112 * 8);
    for bytes in [noise, zeros, erased, text, Vec::new()] {
        let source = Source::Image(Arc::new(bytes));
        let error = Yaffs::open(source, &OpenOptions::default()).unwrap_err();
        assert!(error.to_string().contains("no YAFFS"), "{error}");
    }
}
