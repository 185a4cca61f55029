//! Decoding: the vectors of the specification, and invalid nodes.

use super::*;
use crate::encode;
use crate::node::NodeKind;
use proptest::prelude::*;

const AT: Location = Location::Whole;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|c| char::from(c).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Returns the complete image of section 22 of the specification.
pub(crate) fn annotated_image() -> Vec<u8> {
    bytes(
        "85 19 03 20 0c 00 00 00 b1 b0 1e e4
         85 19 01 e0 29 00 00 00 6d a6 2f d7 01 00 00 00 00 00 00 00 02 00 00 00
         00 f1 53 65 01 08 00 00 0d 20 32 26 ce 51 b5 3a 61 ff ff ff
         85 19 02 e0 50 00 00 00 d5 3b 8c 47 02 00 00 00 01 00 00 00 a4 81 00 00
         00 00 00 00 0c 00 00 00 00 f1 53 65 00 f1 53 65 00 f1 53 65
         00 00 00 00 0c 00 00 00 0c 00 00 00 00 00 00 00 42 fd dd d4 2b b6 3e 26
         68 65 6c 6c 6f 20 77 6f 72 6c 64 0a
         85 19 01 e0 29 00 00 00 6d a6 2f d7 01 00 00 00 01 00 00 00 03 00 00 00
         00 f1 53 65 01 04 00 00 97 04 e5 1a 41 a5 df 4a 64 ff ff ff
         85 19 02 e0 44 00 00 00 1d fb f7 98 03 00 00 00 01 00 00 00 ed 41 00 00
         00 00 00 00 00 00 00 00 00 f1 53 65 00 f1 53 65 00 f1 53 65
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 2c fe e3 e3
         85 19 01 e0 29 00 00 00 6d a6 2f d7 01 00 00 00 02 00 00 00 04 00 00 00
         00 f1 53 65 01 0a 00 00 e0 74 2b 4d 86 20 0c c9 73 ff ff ff
         85 19 02 e0 45 00 00 00 78 9c 4b 20 04 00 00 00 01 00 00 00 ff a1 00 00
         00 00 00 00 01 00 00 00 00 f1 53 65 00 f1 53 65 00 f1 53 65
         00 00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 ce 51 b5 3a d7 8c 4f 6b 61 ff ff ff
         85 19 01 e0 29 00 00 00 6d a6 2f d7 03 00 00 00 03 00 00 00 05 00 00 00
         00 f1 53 65 01 08 00 00 fc 0b ac b1 10 10 0b be 72 ff ff ff
         85 19 02 e0 48 00 00 00 a5 44 21 d2 05 00 00 00 01 00 00 00 a4 81 00 00
         00 00 00 00 14 00 00 00 00 f1 53 65 00 f1 53 65 00 f1 53 65
         00 00 00 00 04 00 00 00 14 00 00 00 02 00 00 00 0b e8 e8 27 69 fe 3d 6b 61 00 62 12",
    )
}

#[test]
fn the_annotated_image_is_decoded_and_encoded_again() {
    let image = annotated_image();
    assert_eq!(image.len(), 480);
    let order = ByteOrder::Little;
    let (mut offset, mut again, mut kinds) = (0, Vec::new(), Vec::new());
    while offset < image.len() {
        let rest = &image[offset..];
        let header = header(order, rest, AT).unwrap();
        assert!(header.is_accurate());
        kinds.push(header.kind());
        match header.kind() {
            NodeKind::Cleanmarker => encode::cleanmarker(order, header.totlen, &mut again),
            NodeKind::Dirent => {
                let entry = dirent(order, rest, AT).unwrap();
                encode::dirent(order, &entry, &mut again);
            }
            NodeKind::Inode => {
                let inode = inode(order, rest, AT).unwrap();
                let data = inode_data(&inode, rest, AT).unwrap();
                encode::inode(order, &inode, data, &mut again);
            }
            kind => panic!("{kind:?} is not in the image"),
        }
        offset += pad(header.totlen).unwrap() as usize;
    }
    assert_eq!(again, image);
    assert_eq!(kinds.iter().filter(|kind| **kind == NodeKind::Inode).count(), 4);
    let last = inode(order, &image[0x198..], AT).unwrap();
    assert_eq!((last.ino, last.isize, last.csize, last.dsize, last.compression), (5, 20, 4, 20, 2));
}

#[test]
fn markers_of_both_byte_orders() {
    let mut out = Vec::new();
    encode::cleanmarker(ByteOrder::Big, 12, &mut out);
    assert_eq!(out, bytes("19 85 20 03 00 00 00 0c f0 60 dc 98"));
    assert!(header(ByteOrder::Little, &out, AT).is_err());
    out.clear();
    encode::cleanmarker(ByteOrder::Little, 16, &mut out);
    assert_eq!(out, bytes("85 19 03 20 10 00 00 00 96 58 d1 fe ff ff ff ff"));
    out.clear();
    encode::padding(ByteOrder::Little, 324, &mut out);
    assert_eq!(out[..12], bytes("85 19 04 20 44 01 00 00 ec 9a 79 a6"));
    assert_eq!(out.len(), 324);
}

#[test]
fn attributes_of_the_specification() {
    let mut out = Vec::new();
    let pair = Xattr { xid: 1, version: 1, prefix: 1, name: b"root", value: b"r" };
    encode::xattr(ByteOrder::Little, &pair, &mut out);
    assert_eq!(out.len(), 40);
    assert_eq!(out[32..], bytes("72 6f 6f 74 00 72 ff ff"));
    assert_eq!(xattr(ByteOrder::Little, &out, AT).unwrap(), pair);
}

#[test]
fn a_cleared_bit_keeps_all_checksums() {
    let image = annotated_image();
    for (offset, is_inode) in [(0x0C, false), (0x38, true)] {
        let mut node = image[offset..].to_vec();
        node[3] &= 0xDF;
        let header = header(ByteOrder::Little, &node, AT).unwrap();
        assert!(!header.is_accurate());
        if is_inode {
            assert_eq!(inode(ByteOrder::Little, &node, AT).unwrap().ino, 2);
        } else {
            assert_eq!(dirent(ByteOrder::Little, &node, AT).unwrap().name, b"a");
        }
    }
}

#[test]
fn refusals_name_place_found_and_expected() {
    let order = ByteOrder::Little;
    let image = annotated_image();
    let fails = |error: FormatError, text: &str| assert_eq!(error.to_string(), text);
    fails(
        header(order, &[0; 12], AT).unwrap_err(),
        "image: no node: magic is 0x0000, expected 0x1985",
    );
    fails(
        header(order, &[0; 5], AT).unwrap_err(),
        "image: node header: 5 bytes, expected at least 12",
    );
    let mut out = Vec::new();
    encode::cleanmarker(order, 8, &mut out);
    fails(
        header(order, &out, AT).unwrap_err(),
        "image: node header: length is 8, expected at least 12",
    );
    let broken = |offset: usize, at: usize| {
        let mut node = image[offset..].to_vec();
        node[at] ^= 1;
        node
    };
    assert!(matches!(dirent(order, &broken(0x0C, 12), AT), Err(FormatError::Crc { .. })));
    assert!(matches!(dirent(order, &broken(0x0C, 40), AT), Err(FormatError::Crc { .. })));
    assert!(matches!(inode(order, &broken(0x38, 20), AT), Err(FormatError::Crc { .. })));
    let node = broken(0x38, 68);
    let good = inode(order, &node, AT).unwrap();
    assert!(matches!(inode_data(&good, &node, AT), Err(FormatError::Crc { .. })));
    assert!(matches!(inode_data(&good, &node[..70], AT), Err(FormatError::Short { .. })));
    let mut out = Vec::new();
    let beyond = Inode { offset: 5, isize: 4, ..Inode::default() };
    encode::inode(order, &beyond, &[], &mut out);
    fails(
        inode(order, &out, AT).unwrap_err(),
        "image: inode node: offset is 5, expected at most the file size",
    );
    out.clear();
    let nul = Dirent { pino: 1, version: 1, ino: 2, mctime: 0, file_type: 8, name: b"a\0" };
    encode::dirent(order, &nul, &mut out);
    assert!(matches!(dirent(order, &out, AT), Err(FormatError::Field { .. })));
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let bad = |compression, csize, dsize, offset| {
        let inode = Inode { offset, csize, dsize, compression, ..Inode::default() };
        inode_lengths(&inode, AT).is_err()
    };
    assert!(bad(compression::NONE, 4, 5, 0));
    assert!(bad(compression::ZLIB, 40, MAX_NODE_DATA + 1, 0));
    assert!(bad(compression::ZERO, 0, u32::MAX, 1));
    assert!(!bad(compression::ZERO, 0, u32::MAX, 0));
    assert!(!bad(compression::NONE, 100_000, 100_000, 0));
}

fn orders() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

proptest! {
    #[test]
    fn inodes_survive(
        order in orders(), words in any::<[u32; 9]>(), ids in any::<[u16; 3]>(),
        data in proptest::collection::vec(any::<u8>(), 0..300), compr in 2_u8..,
    ) {
        let inode_in = Inode {
            ino: words[0], version: words[1], mode: words[2], uid: ids[0], gid: ids[1],
            isize: words[3].max(words[4]), offset: words[3].min(words[4]), atime: words[5],
            mtime: words[6], ctime: words[7], csize: data.len() as u32, dsize: words[8],
            compression: compr, requested: 0, flags: ids[2], data_crc: crc32(&data),
        };
        let mut out = Vec::new();
        encode::inode(order, &inode_in, &data, &mut out);
        prop_assert_eq!(out.len() % 4, 0);
        let header = header(order, &out, AT).unwrap();
        prop_assert_eq!((header.kind(), header.totlen as usize), (NodeKind::Inode, 68 + data.len()));
        let back = inode(order, &out, AT).unwrap();
        prop_assert_eq!(back, inode_in);
        prop_assert_eq!(inode_data(&back, &out, AT).unwrap(), &data[..]);
    }

    #[test]
    fn entries_and_attributes_survive(
        order in orders(), words in any::<[u32; 4]>(), kind in any::<u8>(),
        name in proptest::collection::vec(1_u8.., 1..=255),
        value in proptest::collection::vec(any::<u8>(), 0..500),
    ) {
        let entry = Dirent {
            pino: words[0], version: words[1], ino: words[2], mctime: words[3], file_type: kind,
            name: &name,
        };
        let mut out = Vec::new();
        encode::dirent(order, &entry, &mut out);
        prop_assert_eq!(dirent(order, &out, AT).unwrap(), entry);
        let pair = Xattr { xid: words[0], version: words[1], prefix: kind, name: &name, value: &value };
        out.clear();
        encode::xattr(order, &pair, &mut out);
        prop_assert_eq!(xattr(order, &out, AT).unwrap(), pair);
        let reference = Xref { ino: words[0], xid: words[1], xseqno: words[2] };
        out.clear();
        encode::xref(order, &reference, &mut out);
        prop_assert_eq!(out.len(), 28);
        prop_assert_eq!(xref(order, &out, AT).unwrap(), reference);
    }

    #[test]
    fn random_bytes_are_answered(order in orders(), data in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = header(order, &data, AT);
        let _ = inode(order, &data, AT);
        let _ = dirent(order, &data, AT);
        let _ = xattr(order, &data, AT);
        let _ = xref(order, &data, AT);
    }
}
