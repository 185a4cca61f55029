//! Mutated images: no panic, no hang, bounded memory.

use crate::image::*;
use eraseblock_ubifs::Ubifs;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{FileKind, FileSystem};

/// xorshift64*: the same mutations in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}

/// Does everything a reader can do.
fn use_everything(fs: &Ubifs) {
    let mut buf = vec![0; 64 << 10];
    let mut visited = 0;
    let _ = walk(fs, fs.root(), &mut |visit| {
        visited += 1;
        if let Visit::Entry { entry, .. } = visit {
            let _ = fs.lookup(1, &entry.name);
            use_inode(fs, entry.ino, &mut buf);
        }
        if visited > 2000 { Err(()) } else { Ok(Descend::Yes) }
    });
    let _ = fs.stat_fs();
}

fn use_inode(fs: &Ubifs, ino: u64, buf: &mut [u8]) {
    for name in fs.list_xattrs(ino).unwrap_or_default() {
        let _ = fs.xattr(ino, &name);
    }
    let Ok(attr) = fs.attr(ino) else { return };
    let _ = fs.read_link(ino);
    if attr.kind == FileKind::Regular {
        let mut offset = 0;
        for _ in 0..16 {
            let _ = fs.read(ino, offset, buf);
            let Ok(Some(next)) = fs.seek_data(ino, offset + buf.len() as u64) else { break };
            offset = fs.seek_hole(ino, next).unwrap_or(next);
        }
        let _ = fs.read(ino, attr.size.saturating_sub(100), buf);
    }
}

/// Offsets worth changing: positions of nodes.
const HOT: [(usize, usize); 10] = [
    (0, 140),
    (LEB, 520),
    (2 * LEB, 520),
    (3 * LEB, 1100),
    (9 * LEB, 600),
    (10 * LEB, 3600),
    (12 * LEB, 1100),
    (13 * LEB, 700),
    (14 * LEB, 300),
    (12 * LEB + 664, 108),
];

fn base(round: usize) -> Image {
    let mut image = if round.is_multiple_of(2) { Image::worked() } else { Image::dirty() };
    let nodes = [
        entry(2, 1, b"new", 80, 60, 1),
        Ino::file(80, 5000, 1).node(61, 2),
        entry(2, 69, b"inner", 69, 62, 2),
        truncation(65, 8197, 4000, 63, 2),
    ];
    image.bud(BASE, 13, 0, &nodes);
    image.bud(DATA, 14, 0, &[data(80, 1, b"fresh", 65)]);
    image.put(9, 0, &orphans(1, true, &[65, 73], 48));
    image
}

fn mutate(image: &mut Image, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let (start, len) = HOT[random.below(HOT.len())];
        let at = start + random.below(len);
        let value = match random.below(4) {
            0 => random.below(256) as u8,
            1 => image.bytes[at] ^ (1 << random.below(8)),
            2 => 0xFF,
            _ => image.bytes[at].wrapping_add(1),
        };
        // Mostly with an updated CRC, so that the change is not detected by it.
        let node = (0..=at % LEB).rev().map(|back| at - at % LEB + back).find(|start| {
            start % 8 == 0 && image.bytes[*start..].starts_with(&[0x31, 0x18, 0x10, 0x06])
        });
        image.bytes[at] = value;
        if let Some(start) = node.filter(|_| random.below(8) != 0) {
            let len = u32::from_le_bytes(image.bytes[start + 16..start + 20].try_into().unwrap());
            if (24..5000).contains(&len) && start % LEB + len as usize <= LEB {
                image.patch(start / LEB, start % LEB, |_| {});
            }
        }
    }
}

#[test]
fn mutated_images_do_no_harm() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let bases = [base(0), base(1)];
    let mut opened = 0;
    for round in 0..20_000 {
        let mut image = bases[round % 2].clone();
        mutate(&mut image, &mut random);
        let start = std::time::Instant::now();
        if let Ok((fs, _)) = image.into_fs(random.below(8) == 0) {
            use_everything(&fs);
            opened += 1;
        }
        assert!(start.elapsed().as_secs() < 2, "round {round} hangs");
    }
    assert!(opened > 15_000, "{opened}");
}

#[test]
fn the_largest_file_is_read_by_its_holes() {
    let mut image = Image::worked();
    let size = 1_u64 << 41;
    let last = (size / 4096 - 1) as u32;
    let nodes = [
        Ino::file(73, size, 2).node(60, 2),
        data(73, last / 2, &[7; 4096], 61),
        data(73, last, b"end", 62),
    ];
    image.bud(BASE, 13, 0, &nodes);
    let fs = image.mount();
    let mut buf = [0x55; 8192];
    let middle = u64::from(last / 2) * 4096;
    assert_eq!(fs.read(73, middle - 1, &mut buf).unwrap(), 8192);
    assert_eq!((buf[0], &buf[1..4097], &buf[4097..]), (0, &[7; 4096][..], &[0; 4095][..]));
    assert_eq!(fs.seek_data(73, middle + 4096).unwrap(), Some(size - 4096));
    assert_eq!(fs.seek_hole(73, size - 4096).unwrap(), size);
    assert_eq!(fs.read(73, size, &mut buf).unwrap(), 0);
    assert_eq!(fs.read(73, u64::MAX, &mut buf).unwrap(), 0);
    assert_eq!(fs.read(73, size - 5000, &mut buf).unwrap(), 5000);
    assert_eq!(&buf[904..908], b"end\0");
    assert_eq!(fs.seek_hole(73, 0).unwrap(), 4096);
    assert_eq!(fs.seek_data(73, 4096).unwrap(), Some(middle));
    image.patch(13, 0, |node| node[48] = 1);
    assert!(image.salvage().1.contains(&"journal-corrupt"));
}

#[test]
fn an_index_that_refers_to_itself_again_and_again_is_given_up() {
    let mut image = Image::worked();
    // Levels of index nodes whose branches all refer to the one node of the level below: no single
    // node is wrong, but a walk would never end.
    let key = image.bytes[Image::at(12, 664) + 40..][..8].to_vec();
    let hashed = eraseblock_ubifs_format::Key::dent(1, 0x0FC3_4695).to_bytes();
    let mut offset = 2048;
    for level in 0..12_u16 {
        let mut body = vec![8, 0];
        body.extend(level.to_le_bytes());
        for _ in 0..8 {
            let (leb, to, len) =
                if level == 0 { (10_u32, 2136_u32, 62_u32) } else { (12, offset - 192, 188) };
            body.extend(leb.to_le_bytes());
            body.extend(to.to_le_bytes());
            body.extend(len.to_le_bytes());
            body.extend(hashed);
        }
        image.put(12, offset as usize, &node(9, 40, 0, &body));
        offset += 192;
    }
    assert_ne!(key, hashed);
    for leb in [1, 2] {
        image.patch(leb, 0, |node| {
            node[52..56].copy_from_slice(&(offset - 192).to_le_bytes());
            node[56..60].copy_from_slice(&188_u32.to_le_bytes());
        });
    }
    let (fs, _) = image.open(false).unwrap();
    let start = std::time::Instant::now();
    let _ = fs.entries(1).unwrap();
    assert_eq!(names(&fs).len(), 6, "the scan stands in for it");
    assert!(start.elapsed().as_secs() < 2);
    assert!(fs.late_findings().iter().any(|finding| finding.code == "index-cyclic"));
}
