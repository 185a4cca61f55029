//! Encoding: the vectors of the specification, and that decoding is its inverse.

use super::*;
use crate::decode::{self, Limits};
use crate::node::{EntryKind, Time};
use eraseblock_base::{Leb, Location};
use proptest::prelude::*;

const LIMITS: Limits = Limits { leb_size: 15360, fanout: 8, hash_len: 0 };

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(digit).collect()
}

fn node(bytes: &[u8]) -> decode::Node<'_> {
    decode::node(bytes, &LIMITS, Location::Whole).unwrap()
}

/// Decodes a node of any type and encodes it again.
fn again(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let node = node(bytes);
    let with = Seal { sqnum: node.header.sqnum, group: node.header.group };
    match node.header.node_type {
        NodeType::Inode => inode(&mut out, &node.inode().unwrap(), with),
        NodeType::Data => data(&mut out, &node.data().unwrap(), with),
        NodeType::Dent | NodeType::Xent => dent(&mut out, &node.dent().unwrap(), with),
        NodeType::Truncation => truncation(&mut out, &node.truncation().unwrap(), with),
        NodeType::Orphan => orphan(&mut out, &node.orphan().unwrap(), with),
        NodeType::CommitStart => commit_start(&mut out, &node.commit_start().unwrap(), with),
        NodeType::Reference => reference(&mut out, &node.reference().unwrap(), with),
        NodeType::Superblock => superblock(&mut out, &node.superblock().unwrap()),
        NodeType::Master => master(&mut out, &node.master().unwrap()),
        other => panic!("no vector of type {other:?}"),
    }
    out
}

#[test]
fn the_vectors_of_the_specification_come_out_byte_for_byte() {
    let master = "311810061df06afd2d0000000000000000020000070000004b00000000000000
        000000000000000002000000030000000c000000980200006c0000000b000000
        0c00000000040000080300000000000000a2000000000000e002000000000000
        180c000000000000000000000000000000240000000000000700000019000000
        0700000000020000070000002400000000000000000000000a00000001000000
        010000000d000000";
    let superblock = "3118100623a0d27d2f0000000000000000100000060000000000000004000000
        00020000003c00000d0000001e00000000f00000000000000400000002000000
        0100000001000000080000000001000004000000010000000000000000000000
        000000000000000000ca9a3b6b352dc253f24debae838758f2dbd85900000000";
    let vectors = [
        "31181006a342aea13100000000000000200000000a0000000000000000000000",
        "31181006c2d58c4603000000000000004b000000010000004100000000000020
         0000000000000000001000000100000012412000000000000000e60000200000
         0000000000e50000110000",
        "3118100631fc9255040000000000000035000000010000004100000002000020
         000000000000000005000000000000007461696c0a",
        "31181006b2ce27580700000000000000a9000000000000004200000000000000
         00000000000000000500000000000000090000000000000033df006b00000000
         33df006b0000000000f153650000000000000000000000000000000001000000
         0000000000000000008000002000000009000000000000000000000000000000
         0000000001000000000000000000000000000000000000000000000000000000
         753a723a743a733000",
        "31181006dcc0c5130e00000000000000a8000000000000004300000000000000
         00000000000000000a00000000000000000000000000000000f1536500000000
         33df006b0000000000f153650000000000000000000000000000000001000000
         0000000000000000a42100000100000008000000010000000001000000000000
         1000000001000000000000000000000000000000000000000000000000000000
         2c05100000000000",
        "311810063448b8041a00000000000000a5000000000000004700000000000000
         00000000000000001600000000000000050000000000000033df006b00000000
         33df006b0000000000f153650000000000000000000000000000000001000000
         0000000000000000ffa100000100000005000000010000000001000000000000
         1000000001000000000000000000000000000000000000000000000000000000
         612e747874",
        "31181006e9be60851d000000000000003e00000002000000010000009546c34f
         000000000000000049000000000000000000050000000000612e74787400",
        "311810065c620aec470000000000000038000000040200004200000000000000
         0000000000000000f4210000000000008813000000000000",
        "311810064a3f69d4c209000000000000380000000b0000000400000000000080
         7c010000000000007d010000000000007e01000000000000",
    ];
    for vector in vectors.map(hex) {
        assert_eq!(again(&vector), vector);
    }
    for (text, len) in [(master, 512), (superblock, 4096)] {
        let mut vector = hex(text);
        vector.resize(len, 0);
        assert_eq!(again(&vector), vector);
    }
}

#[test]
fn the_worked_root_comes_out_byte_for_byte() {
    let root = hex("31181006415bf99d2c000000000000006c00000009000000040001000c000000
        00000000bc00000001000000000000000c000000c0000000bc00000041000000
        000000000c00000080010000bc00000045000000000000000c00000040020000
        580000004900000094b0eb6a");
    let branch = |key, offset, len| Branch { key, leb: Leb::new(12), offset, len };
    let branches = [
        branch(Key::inode(1), 0, 188),
        branch(Key::inode(65), 192, 188),
        branch(Key::inode(69), 384, 188),
        branch(Key::xent(73, 0x0AEB_B094), 576, 88),
    ];
    let mut out = Vec::new();
    index(&mut out, 1, &branches, Seal::single(44));
    assert_eq!(out, root);
    assert_eq!(index_len(4), 108);
}

#[test]
fn a_padding_node_is_followed_by_zeros() {
    let mut out = vec![0; 32];
    pad(&mut out, 512);
    assert_eq!(out.len(), 512);
    assert_eq!(out[32..60], hex("311810060dd9354900000000000000001c00000005000000c4010000"));
    assert!(out[60..].iter().all(|byte| *byte == 0));
}

#[test]
fn short_padding_is_padding_bytes() {
    for (len, min_io, expected) in [(488, 512, 24), (505, 512, 0), (16, 8, 0), (484, 512, 24)] {
        let mut out = vec![0; len];
        pad(&mut out, min_io);
        assert_eq!(out.len() % min_io as usize, 0);
        assert!(out[out.len() - expected..].iter().all(|byte| *byte == PADDING_BYTE), "{len}");
        assert_eq!(out.len(), len.next_multiple_of(8) + expected);
    }
    let mut out = vec![0; 480];
    pad(&mut out, 512);
    assert_eq!(out[480..484], NODE_MAGIC.to_le_bytes());
    assert_eq!(out[508..], [0; 4]);
}

#[test]
fn a_framed_data_node_is_the_appended_one() {
    let (key, payload) = (Key::data(65, 7), [7; 100]);
    let node =
        Data { key, size: 4096, compression: Compression::Zstd, compr_size: 0, payload: &payload };
    let mut appended = Vec::new();
    data(&mut appended, &node, Seal::single(9));
    let mut framed = vec![0; raw::DataNode::SIZE];
    framed.extend(payload);
    frame_data(&mut framed, key, 4096, Compression::Zstd);
    seal(&mut framed, 9);
    assert_eq!(framed, appended);
}

fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0..1_000_000_000_u32)
        .prop_map(|(seconds, nanoseconds)| Time { seconds, nanoseconds })
}

fn kind() -> impl Strategy<Value = EntryKind> {
    (0..7_u8).prop_map(|number| EntryKind::from_number(number).unwrap())
}

proptest! {
    #[test]
    fn inodes_read_back(
        (ino, creat_sqnum, size) in (1..u32::MAX, any::<u64>(), 0..1_u64 << 41),
        (atime, ctime, mtime) in (time(), time(), time()),
        (nlink, uid, gid, permissions) in (1..u32::MAX, any::<u32>(), any::<u32>(), 0..0o10000_u32),
        (xattr_cnt, xattr_size, xattr_names) in (0..1000_u32, any::<u32>(), 0..60_000_u32),
        target in prop::collection::vec(any::<u8>(), 1..4097),
        number in 0..4_u16,
    ) {
        let compr_type = Compression::from_number(number).unwrap();
        let value = Inode {
            ino, creat_sqnum, size, atime, ctime, mtime, nlink, uid, gid,
            mode: 0o120_000 | permissions, flags: 1, xattr_cnt, xattr_size, xattr_names,
            compr_type, data_len: target.len() as u32, data: &target,
        };
        let mut out = Vec::new();
        inode(&mut out, &value, Seal { sqnum: 77, group: 1 });
        let node = node(&out);
        prop_assert_eq!((node.header.sqnum, node.header.group), (77, 1));
        prop_assert_eq!(node.inode().unwrap(), value);
    }

    #[test]
    fn entries_read_back(
        (parent, hash, ino, cookie) in (1..u32::MAX, any::<u32>(), any::<u32>(), any::<u32>()),
        (kind, xattr) in (kind(), any::<bool>()),
        name in prop::collection::vec(1..=255_u8, 1..=255),
    ) {
        let key = if xattr { Key::xent(parent, hash) } else { Key::dent(parent, hash) };
        let value = Dent { key, ino, kind, cookie, name: &name };
        let mut out = vec![0; 5];
        dent(&mut out, &value, Seal::single(1));
        prop_assert_eq!(node(&out[8..]).dent().unwrap(), value);
    }

    #[test]
    fn data_reads_back(
        (ino, block, number) in (1..u32::MAX, 0..1_u32 << 29, 1..4_u16),
        size in 1..=4096_u32,
        payload in prop::collection::vec(any::<u8>(), 1..=4096),
    ) {
        let compression = Compression::from_number(number).unwrap();
        let key = Key::data(ino, block);
        let value = Data { key, size, compression, compr_size: 0, payload: &payload };
        let mut out = Vec::new();
        data(&mut out, &value, Seal::single(1));
        prop_assert_eq!(node(&out).data().unwrap(), value);
    }
}
