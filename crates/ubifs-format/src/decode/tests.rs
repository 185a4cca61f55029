//! Decoding: the vectors of the specification, and invalid nodes.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let text = |pair: &[u8]| std::str::from_utf8(pair).unwrap().to_owned();
    digits.chunks(2).map(|pair| u8::from_str_radix(&text(pair), 16).unwrap()).collect()
}

const LIMITS: Limits = Limits { leb_size: 15360, fanout: 8, hash_len: 0 };
const AT: Location = Location::Whole;

fn decode(node: &[u8]) -> Node<'_> {
    super::node(node, &LIMITS, AT).unwrap()
}

/// Updates the CRC of a patched node.
fn seal(mut node: Vec<u8>) -> Vec<u8> {
    let crc = crc32(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
    node
}

fn patched(node: &[u8], offset: usize, with: &[u8]) -> Vec<u8> {
    let mut node = node.to_vec();
    node[offset..offset + with.len()].copy_from_slice(with);
    seal(node)
}

const CS: &str = "31181006a342aea13100000000000000200000000a0000000000000000000000";
const PAD: &str = "311810060dd9354900000000000000001c00000005000000c4010000";
const DATA: &str = "3118100631fc9255040000000000000035000000010000004100000002000020
    000000000000000005000000000000007461696c0a";
const DATA_LZO: &str = "31181006c2d58c4603000000000000004b000000010000004100000000000020
    0000000000000000001000000100000012412000000000000000e60000200000
    0000000000e50000110000";
const XENT: &str = "311810061a263089060000000000000049000000030000004100000094b0eb6a
    0000000000000000420000000000000000011000000000007365637572697479
    2e73656c696e757800";
const INO_XATTR: &str = "31181006b2ce27580700000000000000a9000000000000004200000000000000
    00000000000000000500000000000000090000000000000033df006b00000000
    33df006b0000000000f153650000000000000000000000000000000001000000
    0000000000000000008000002000000009000000000000000000000000000000
    0000000001000000000000000000000000000000000000000000000000000000
    753a723a743a733000";
const INO_DEVICE: &str = "31181006dcc0c5130e00000000000000a8000000000000004300000000000000
    00000000000000000a00000000000000000000000000000000f1536500000000
    33df006b0000000000f153650000000000000000000000000000000001000000
    0000000000000000a42100000100000008000000010000000001000000000000
    1000000001000000000000000000000000000000000000000000000000000000
    2c05100000000000";
const INO_LINK: &str = "311810063448b8041a00000000000000a5000000000000004700000000000000
    00000000000000001600000000000000050000000000000033df006b00000000
    33df006b0000000000f153650000000000000000000000000000000001000000
    0000000000000000ffa100000100000005000000010000000001000000000000
    1000000001000000000000000000000000000000000000000000000000000000
    612e747874";
const DENT: &str = "31181006e9be60851d000000000000003e00000002000000010000009546c34f
    000000000000000049000000000000000000050000000000612e74787400";
const ROOT: &str = "31181006415bf99d2c000000000000006c00000009000000040001000c000000
    00000000bc00000001000000000000000c000000c0000000bc00000041000000
    000000000c00000080010000bc00000045000000000000000c00000040020000
    580000004900000094b0eb6a";
const REF: &str = "311810060b78cbcdb7090000000000004000000008000000c400000000380000
    01000000ecc51f29b309000000000000a0000000000100007e01000000000000";
const ORPH: &str = "311810064a3f69d4c209000000000000380000000b0000000400000000000080
    7c010000000000007d010000000000007e01000000000000";
const TRUN: &str = "311810065c620aec470000000000000038000000040200004200000000000000
    0000000000000000f4210000000000008813000000000000";

#[test]
fn journal_and_log_nodes_of_the_specification() {
    let cs = bytes(CS);
    assert_eq!(decode(&cs).commit_start().unwrap().cmt_no, 0);
    assert_eq!(decode(&bytes(PAD)).padding(32, 15360).unwrap(), 452);
    let reference = bytes(REF);
    let reference = decode(&reference).reference().unwrap();
    assert_eq!((reference.leb.get(), reference.offset, reference.head), (196, 14336, 1));
    let orphan = bytes(ORPH);
    let orphan = decode(&orphan).orphan().unwrap();
    assert_eq!((orphan.cmt_no, orphan.is_last, orphan.inos), (4, true, vec![380, 381, 382]));
    let trun = bytes(TRUN);
    let node = decode(&trun);
    assert_eq!((node.header.sqnum, node.header.group), (71, 2));
    let expected = Truncation { ino: 66, old_size: 8692, new_size: 5000 };
    assert_eq!(node.truncation().unwrap(), expected);
}

#[test]
fn leaf_nodes_of_the_specification() {
    let dent = bytes(DENT);
    let dent = decode(&dent).dent().unwrap();
    assert_eq!((dent.ino, dent.name), (73, &b"a.txt"[..]));
    assert_eq!(dent.key, Key::dent(1, 0x0FC3_4695));
    let xent = bytes(XENT);
    let xent = decode(&xent).dent().unwrap();
    assert_eq!((xent.ino, xent.kind), (66, EntryKind::Directory));
    assert_eq!(xent.key, Key::xent(65, 0x0AEB_B094));
    let data = bytes(DATA);
    let data = decode(&data).data().unwrap();
    assert_eq!((data.key, data.payload), (Key::data(65, 2), &b"tail\n"[..]));
    let data = bytes(DATA_LZO);
    let data = decode(&data).data().unwrap();
    assert_eq!((data.size, data.compression, data.payload.len()), (4096, Compression::Lzo, 27));
}

#[test]
fn inode_nodes_of_the_specification() {
    let device = bytes(INO_DEVICE);
    let device = decode(&device).inode().unwrap();
    assert_eq!(device.device(), Some((5, 300)));
    assert_eq!((device.ino, device.mode, device.creat_sqnum), (67, 0o020_644, 10));
    assert_eq!((device.atime.seconds, device.ctime.seconds), (0x6553_F100, 0x6B00_DF33));
    assert_eq!(crate::node::encode_device(5, 300), 0x0010_052C);
    let link = bytes(INO_LINK);
    let link = decode(&link).inode().unwrap();
    assert_eq!((link.data, link.size), (&b"a.txt"[..], 5));
    let xattr = bytes(INO_XATTR);
    let xattr = decode(&xattr).inode().unwrap();
    assert!(xattr.is_xattr());
    assert_eq!(xattr.data, b"u:r:t:s0\0");
}

#[test]
fn the_root_of_the_specification() {
    let root = bytes(ROOT);
    let root = decode(&root).index(&LIMITS, 10, 13).unwrap();
    assert_eq!((root.level, root.branches.len()), (1, 4));
    let last = root.branches[3];
    assert_eq!((last.key, last.offset, last.len), (Key::xent(73, 0x0AEB_B094), 576, 88));
}

#[test]
fn common_headers_are_checked() {
    let node = bytes(DENT);
    let fail = |node: &[u8]| super::node(node, &LIMITS, AT).unwrap_err();
    assert!(matches!(fail(&node[..20]), FormatError::Short { .. }));
    assert!(matches!(fail(&node[..60]), FormatError::Short { expected: 62, .. }));
    assert!(matches!(fail(&patched(&node, 0, &[0])), FormatError::Magic { .. }));
    assert!(matches!(fail(&patched(&node, 20, &[14])), FormatError::Type { found: 14, .. }));
    let long = fail(&patched(&node, 16, &[0xFF, 0xFF]));
    assert!(matches!(long, FormatError::Field { field: "length", .. }));
    let mut torn = node.clone();
    torn[58] ^= 1;
    assert!(matches!(fail(&torn), FormatError::Crc { .. }));
    let other = expect(&node, NodeType::Xent, &LIMITS, AT).unwrap_err();
    assert!(matches!(other, FormatError::Type { found: 2, .. }));
    let mut longer = node.clone();
    longer.push(0);
    let other = expect(&longer, NodeType::Dent, &LIMITS, AT).unwrap_err();
    assert!(matches!(other, FormatError::Field { field: "length", .. }));
}

fn field_of<T: std::fmt::Debug>(result: Result<T, FormatError>) -> &'static str {
    match result.unwrap_err() {
        FormatError::Field { field, .. } => field,
        other => panic!("{other}"),
    }
}

#[test]
fn every_rule_of_inodes_refuses() {
    let link = bytes(INO_LINK);
    let cases: [(usize, &[u8], &str); 9] = [
        (24, &[0], "inode number"),
        (31, &[0x20], "key type"),
        (48, &[1, 0, 0, 0, 0, 2], "size"),
        (132, &[4], "compressor"),
        (128, &[0, 0, 1, 0], "length of attribute names"),
        (112, &[1, 0x10], "inline data length"),
        (112, &[4], "inline data length"),
        (104, &[0xFF, 0xF1], "mode"),
        (104, &[0xFF, 0x41], "inline data length"),
    ];
    for (offset, with, field) in cases {
        let node = patched(&link, offset, with);
        assert_eq!(field_of(decode(&node).inode()), field, "{offset}");
    }
    let device = patched(&bytes(INO_DEVICE)[..166], 16, &[166]);
    let device = patched(&device, 112, &[6]);
    assert_eq!(field_of(decode(&device).inode()), "inline data length");
    let xattr = patched(&bytes(INO_XATTR), 104, &[0xFF, 0xA1]);
    assert_eq!(field_of(decode(&xattr).inode()), "mode");
    let mut gone = bytes(INO_LINK)[..160].to_vec();
    gone[16] = 160;
    gone[92] = 0;
    let gone = seal(gone);
    assert_eq!(decode(&gone).inode().unwrap().data_len, 5);
}

#[test]
fn every_rule_of_other_leaves_refuses() {
    let dent = bytes(DENT);
    let cases: [(usize, &[u8], &str); 6] = [
        (31, &[0x6F], "key type"),
        (44, &[1], "inode number"),
        (49, &[7], "entry type"),
        (50, &[6], "length"),
        (50, &[0], "name length"),
        (61, b"x", "byte after the name"),
    ];
    for (offset, with, field) in cases {
        assert_eq!(field_of(decode(&patched(&dent, offset, with)).dent()), field, "{offset}");
    }
    assert_eq!(field_of(decode(&patched(&bytes(XENT), 58, &[0])).dent()), "name");
    let data = bytes(DATA);
    let cases: [(usize, &[u8], &str); 5] = [
        (40, &[0], "size"),
        (40, &[1, 0x10], "size"),
        (44, &[4], "compressor"),
        (46, &[6], "compressed size"),
        (40, &[4], "payload length"),
    ];
    for (offset, with, field) in cases {
        assert_eq!(field_of(decode(&patched(&data, offset, with)).data()), field, "{offset}");
    }
    let trun = bytes(TRUN);
    let node = patched(&trun, 48, &[0xF4, 0x21]);
    assert_eq!(field_of(decode(&node).truncation()), "new size");
    let node = patched(&trun, 45, &[0xFF]);
    assert_eq!(field_of(decode(&node).truncation()), "old size");
    assert_eq!(field_of(decode(&bytes(PAD)).padding(14904, 15360)), "padding length");
    assert_eq!(
        field_of(decode(&patched(&bytes(PAD), 24, &[0xC0])).padding(32, 15360)),
        "padding length"
    );
    let mut orphan = bytes(ORPH);
    orphan.truncate(52);
    let orphan = patched(&orphan, 16, &[52]);
    assert_eq!(field_of(decode(&orphan).orphan()), "bytes after the last inode number");
}

#[test]
fn every_rule_of_index_nodes_refuses() {
    let root = bytes(ROOT);
    let cases: [(usize, &[u8], &str); 9] = [
        (24, &[0], "child count"),
        (24, &[9], "child count"),
        (24, &[3], "length"),
        (26, &[1, 2], "level"),
        (28, &[9], "branch LEB"),
        (28, &[13], "branch LEB"),
        (32, &[4], "branch offset"),
        (32, &[0xF8, 0x3B], "end of branch"),
        (36, &[20], "branch length"),
    ];
    for (offset, with, field) in cases {
        let node = patched(&root, offset, with);
        assert_eq!(field_of(decode(&node).index(&LIMITS, 10, 13)), field, "{offset}");
    }
    let node = patched(&root, 47, &[0x80]);
    assert_eq!(field_of(decode(&node).index(&LIMITS, 10, 13)), "branch key type");
    let node = patched(&root, 40, &[66]);
    assert_eq!(field_of(decode(&node).index(&LIMITS, 10, 13)), "branch key");
    let node = patched(&patched(&root, 36, &[159]), 26, &[0]);
    assert_eq!(field_of(decode(&node).index(&LIMITS, 10, 13)), "branch length");
}
