//! Images as vendors make them, which no tool at hand does: made here from the specification alone
//! (spec: readonly-formats C).
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // also in the helpers of tests

use eraseblock_base::ByteOrder;
use eraseblock_squashfs::{MAGICS_OF_VENDORS, Squashfs, SquashfsError};
use eraseblock_vfs::{FileKind, FileSystem};
use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::io::Write;
use std::sync::Arc;

/// Compresses a block.
type Pack = fn(&[u8]) -> Vec<u8>;

/// How an image differs from those of `mksquashfs`.
#[derive(Clone, Copy)]
struct Shape {
    magic: [u8; 4],
    order: ByteOrder,
    /// Byte order of the lengths of metadata blocks.
    lengths: ByteOrder,
    /// The number of the compressor in the superblock.
    compressor: u16,
    pack: Pack,
}

const LITTLE: Shape = Shape {
    magic: *b"hsqs",
    order: ByteOrder::Little,
    lengths: ByteOrder::Little,
    compressor: 1,
    pack: zlib,
};
const BIG: Shape =
    Shape { magic: *b"sqsh", order: ByteOrder::Big, lengths: ByteOrder::Big, ..LITTLE };

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(eraseblock_codec::zlib::Encoder::new(9).unwrap().compress(bytes, 9000, &mut out));
    out
}

fn stream(bytes: &[u8], lc: u32, lp: u32, pb: u32) -> Vec<u8> {
    let options = LzmaOptions { lc, lp, pb, ..LzmaOptions::with_preset(6) };
    let mut writer = LzmaWriter::new_no_header(Vec::new(), &options, false).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A whole `.lzma` file, as the number 2 means.
fn lzma(bytes: &[u8]) -> Vec<u8> {
    let size = Some(bytes.len() as u64);
    let options = LzmaOptions::with_preset(1);
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, size).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// Nothing but the stream.
fn bare(bytes: &[u8]) -> Vec<u8> {
    stream(bytes, 3, 0, 2)
}

/// Five bytes of properties, and no length.
fn properties(bytes: &[u8]) -> Vec<u8> {
    [&[0x5D, 0, 0, 0x80, 0][..], &stream(bytes, 3, 0, 2)].concat()
}

/// Four bytes of length first, with unusual parameters.
fn unusual(bytes: &[u8]) -> Vec<u8> {
    let len = (bytes.len() as u32 | 0x0101_0101).to_le_bytes();
    [&len[..], &stream(bytes, 1, 2, 0)].concat()
}

const TARGET: &[u8] = b"data";

fn content() -> Vec<u8> {
    (0..10_000_u32).map(|at| (at * at / 50 % 61) as u8 + b'0').collect()
}

fn word(order: ByteOrder, value: u64, len: usize) -> Vec<u8> {
    match order {
        ByteOrder::Little => value.to_le_bytes()[..len].to_vec(),
        ByteOrder::Big => value.to_be_bytes()[8 - len..].to_vec(),
    }
}

/// Fields one after the other, each with its length.
fn fields(order: ByteOrder, list: &[(u64, usize)]) -> Vec<u8> {
    list.iter().flat_map(|(value, len)| word(order, *value, *len)).collect()
}

/// A root with a file of three blocks, and a link to it.
fn image(shape: Shape) -> Vec<u8> {
    let Shape { order, lengths, .. } = shape;
    let mut image = vec![0; 96];
    let metadata = |image: &mut Vec<u8>, bytes: &[u8]| {
        let packed = (shape.pack)(bytes);
        image.extend(word(lengths, packed.len() as u64, 2));
        image.extend(packed);
    };
    let mut sizes = Vec::new();
    for block in content().chunks(4096) {
        let packed = (shape.pack)(block);
        sizes.push((packed.len() as u64, 4));
        image.extend(packed);
    }
    let none = u64::from(u32::MAX);
    let head = |kind, mode, number| {
        fields(order, &[(kind, 2), (mode, 2), (0, 2), (0, 2), (77, 4), (number, 4)])
    };
    let mut inodes = head(2, 0o640, 1);
    inodes.extend(fields(order, &[(96, 4), (none, 4), (0, 4), (10_000, 4)]));
    inodes.extend(fields(order, &sizes));
    let link = inodes.len() as u64;
    inodes.extend(head(3, 0o777, 2));
    inodes.extend(fields(order, &[(1, 4), (TARGET.len() as u64, 4)]));
    inodes.extend(TARGET);
    let root = inodes.len() as u64;
    inodes.extend(head(1, 0o755, 3));
    let mut listing = fields(order, &[(1, 4), (0, 4), (1, 4)]);
    for (name, inode, kind) in [(b"data", 0, 2), (b"link", link, 3)] {
        listing.extend(fields(order, &[(inode, 2), (0, 2), (kind, 2), (3, 2)]));
        listing.extend(name);
    }
    inodes.extend(fields(order, &[(0, 4), (2, 4), (listing.len() as u64 + 3, 2), (0, 2), (4, 4)]));
    let inode_table = image.len() as u64;
    metadata(&mut image, &inodes);
    let directory_table = image.len() as u64;
    metadata(&mut image, &listing);
    let ids = image.len() as u64;
    metadata(&mut image, &[0; 4]);
    let id_table = image.len() as u64;
    image.extend(word(order, ids, 8));
    let mut superblock = shape.magic.to_vec();
    superblock.extend(fields(order, &[(3, 4), (99, 4), (4096, 4), (0, 4)]));
    let version = [(u64::from(shape.compressor), 2), (12, 2), (0x10, 2), (1, 2), (4, 2), (0, 2)];
    superblock.extend(fields(order, &version));
    superblock.extend(fields(order, &[(root, 8), (image.len() as u64, 8), (id_table, 8)]));
    let places = [u64::MAX, inode_table, directory_table, u64::MAX, u64::MAX];
    superblock.extend(places.iter().flat_map(|place| word(order, *place, 8)));
    image[..96].copy_from_slice(&superblock);
    image
}

fn assert_read(shape: Shape, compression: &str) {
    let fs = Squashfs::open(Arc::new(image(shape))).unwrap();
    assert_eq!(fs.compression(), compression);
    let file = fs.resolve(b"data").unwrap();
    let attr = fs.attr(file).unwrap();
    assert_eq!((attr.size, attr.permissions, attr.mtime.seconds), (10_000, 0o640, 77));
    let mut bytes = vec![0; 10_000];
    assert_eq!(fs.read(file, 0, &mut bytes).unwrap(), 10_000, "{compression}");
    assert!(bytes == content(), "{compression}");
    let link = fs.resolve(b"link").unwrap();
    assert_eq!(fs.attr(link).unwrap().kind, FileKind::Symlink);
    assert_eq!(fs.read_link(link).unwrap(), TARGET);
}

#[test]
fn images_of_either_byte_order_are_read() {
    assert_read(LITTLE, "gzip");
    assert_read(BIG, "gzip");
    assert_read(Shape { lengths: ByteOrder::Little, ..BIG }, "gzip");
}

#[test]
fn magic_numbers_of_vendors_are_known() {
    for magic in MAGICS_OF_VENDORS {
        for shape in [LITTLE, BIG] {
            assert_read(Shape { magic, ..shape }, "gzip");
        }
    }
    let mut other = image(LITTLE);
    other[..4].copy_from_slice(b"shqs");
    let error = Squashfs::open(Arc::new(other)).unwrap_err();
    assert!(matches!(error, SquashfsError::NotSquashfs));
}

/// What the superblock says does not matter.
#[test]
fn lzma_in_streams_without_a_header_is_found() {
    let packs: [(Pack, &str); 4] = [
        (lzma, "lzma"),
        (bare, "lzma (lc 3, lp 0, pb 2, 0 bytes before a stream)"),
        (properties, "lzma (lc 3, lp 0, pb 2, 5 bytes before a stream)"),
        (unusual, "lzma (lc 1, lp 2, pb 0, 4 bytes before a stream)"),
    ];
    for (pack, name) in packs {
        for shape in [LITTLE, BIG, Shape { lengths: ByteOrder::Little, ..BIG }] {
            for compressor in [1, 2, 4] {
                assert_read(Shape { compressor, pack, ..shape }, name);
            }
        }
    }
}

/// The search for a coding ends, and delivers nothing.
#[test]
fn images_of_no_known_coding_are_errors() {
    let zeros = |bytes: &[u8]| vec![0; bytes.len()];
    let fs = Squashfs::open(Arc::new(image(Shape { pack: zeros, ..LITTLE }))).unwrap();
    assert_eq!(fs.compression(), "gzip");
    assert!(fs.resolve(b"data").is_err());
}

/// A flipped bit in a stream without a checksum: an error or other bytes, but no end of the world.
#[test]
fn damage_in_bare_streams_does_not_stop_the_reader() {
    let whole = image(Shape { pack: bare, ..LITTLE });
    for at in (96..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let Ok(fs) = Squashfs::open(Arc::new(bytes)) else { continue };
        let Ok(file) = fs.resolve(b"data") else { continue };
        let size = fs.attr(file).map_or(0, |attr| attr.size).min(1 << 20);
        let _ = fs.read(file, 0, &mut vec![0; size as usize]);
    }
}
