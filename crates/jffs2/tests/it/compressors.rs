//! Both the reader and the run time read everything that any Linux ever stored.

use eraseblock_codec::{Codec, CompressSpec, Compressor, rtime, zlib};
use eraseblock_jffs2::{Jffs2, Jffs2Rw, OpenOptions, RwOptions, Source};
use eraseblock_jffs2_format::constants::compression;
use eraseblock_jffs2_format::{ByteOrder, Dirent, Inode, encode};
use eraseblock_mtd::{ImageFile, ImageShape};
use eraseblock_vfs::FileSystem;
use std::sync::Arc;

const BLOCK: u32 = 16 << 10;

/// Sixteen `a` by the fixed table of Rubin (spec: jffs2 9.5).
const RUBIN_FIXED: [u8; 19] = [
    0xD1, 0x2A, 0xC7, 0xD7, 0x27, 0xE8, 0xC0, 0xDF, 0x10, 0x5C, 0xC7, 0xD2, 0x7A, 0x9B, 0xBA, 0x44,
    0x29, 0x80, 0x18,
];

/// Thirty-two `a` with a table of their own (spec: jffs2 9.5).
const RUBIN_DYNAMIC: [u8; 11] = [0xFF, 1, 1, 1, 1, 0xFF, 0xFF, 1, 0x3C, 0x83, 0x10];

/// `abcabcab` a hundred times by liblzma, with the parameters of OpenWrt (spec: jffs2 9.8).
const LZMA: [u8; 20] = [
    0x00, 0x30, 0x99, 0xAB, 0xD7, 0xBD, 0xCE, 0x86, 0x3F, 0x5E, 0x6A, 0x2B, 0x6E, 0x15, 0x47, 0xFF,
    0xFE, 0x22, 0x58, 0x00,
];

fn packed(number: u8, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match number {
        compression::NONE => out.extend_from_slice(plain),
        compression::RTIME => rtime::compress(plain, &mut out),
        compression::ZLIB => {
            assert!(zlib::Encoder::new(9).unwrap().compress(plain, plain.len(), &mut out));
        }
        compression::LZO => Compressor::new(CompressSpec::image(Codec::Lzo))
            .unwrap()
            .compress(plain, &mut out)
            .unwrap(),
        other => panic!("{other} has no encoder here"),
    }
    out
}

/// Returns each compressor's number, the stored bytes, and the decoded ones.
fn rows() -> Vec<(u8, Vec<u8>, Vec<u8>)> {
    let text = b"abcabcab".repeat(100);
    let own = [compression::NONE, compression::RTIME, compression::ZLIB, compression::LZO];
    let own = own.into_iter().map(|number| (number, packed(number, &text), text.clone()));
    let others = [
        (compression::LZMA, LZMA.to_vec(), text.clone()),
        (compression::ZERO, Vec::new(), vec![0; 500]),
        (compression::RUBIN_FIXED, RUBIN_FIXED.to_vec(), vec![b'a'; 16]),
        (compression::RUBIN_DYNAMIC, RUBIN_DYNAMIC.to_vec(), vec![b'a'; 32]),
    ];
    own.chain(others).collect()
}

/// Returns a file for each row, named after the number of the compressor.
fn image(order: ByteOrder) -> Vec<u8> {
    let mut image = Vec::new();
    encode::cleanmarker(order, 12, &mut image);
    for (number, stored, plain) in rows() {
        let (ino, name) = (u32::from(number) + 2, number.to_string());
        let (version, name) = (ino, name.as_bytes());
        let entry = Dirent { pino: 1, version, ino, mctime: 0, file_type: 8, name };
        encode::dirent(order, &entry, &mut image);
        let size = u32::try_from(plain.len()).unwrap();
        let inode = Inode {
            ino,
            version: 1,
            mode: 0o100_644,
            isize: size,
            dsize: size,
            compression: number,
            ..Inode::default()
        };
        encode::inode(order, &inode, &stored, &mut image);
    }
    image.resize(8 * BLOCK as usize, 0xFF);
    image
}

fn is_all_there(fs: &dyn FileSystem) {
    for (number, _, plain) in rows() {
        let ino = fs.lookup(1, number.to_string().as_bytes()).unwrap();
        let mut back = vec![0xEE; plain.len() + 1];
        assert_eq!(fs.read(ino, 0, &mut back).unwrap(), plain.len(), "compressor {number}");
        assert!(back[..plain.len()] == plain, "compressor {number}");
    }
}

#[test]
fn every_compressor_is_read_in_both_byte_orders() {
    for order in ByteOrder::ALL {
        let image = image(order);
        let options = OpenOptions { erase_size: Some(BLOCK), ..OpenOptions::default() };
        let (fs, _) = Jffs2::open(Source::Image(Arc::new(image.clone())), &options).unwrap();
        is_all_there(&fs);
        let shape =
            ImageShape { start: 0, peb_size: BLOCK, min_io: 1, subpage: 1, peb_count: None };
        let device = Arc::new(ImageFile::new(image, &shape).unwrap());
        let options = RwOptions { read_only: true, ..RwOptions::default() };
        is_all_there(&Jffs2Rw::mount(device, &options).unwrap().0);
    }
}
