use super::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn the_worked_commit_start_and_its_padding() {
    let mut out = Vec::new();
    append(&mut out, raw::CommitStartNode::new_zeroed(), &[], 49, group::NONE);
    assert_eq!(out, hex("31181006a342aea13100000000000000200000000a0000000000000000000000"));
    pad(&mut out, 512);
    assert_eq!(out.len(), 512);
    assert_eq!(out[32..60], hex("311810060dd9354900000000000000001c00000005000000c4010000"));
    assert!(out[60..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_worked_data_node() {
    let mut out = vec![0; 13];
    append_unsealed_data(&mut out, Key::data(65, 2), 5, 0, b"tail\n");
    seal(&mut out[16..], 4);
    let expected = "3118100631fc9255040000000000000035000000010000004100000002000020\
        000000000000000005000000000000007461696c0a";
    assert_eq!(out[16..], hex(expected));
    assert_eq!(out[13..16], [0xFF; 3]);
}

#[test]
fn the_worked_entries() {
    let mut out = Vec::new();
    let mut node = raw::DentNode::new_zeroed();
    node.key = key_field(Key::dent(1, 0x0FC3_4695));
    node.inum.set(73);
    append_entry(&mut out, node, NodeType::Dent, b"a.txt", 29, group::NONE);
    let expected = "31181006e9be60851d000000000000003e00000002000000010000009546c34f\
        000000000000000049000000000000000000050000000000612e74787400";
    assert_eq!(out, hex(expected));

    let mut out = Vec::new();
    node.key = key_field(Key::xent(65, 0x0AEB_B094));
    node.inum.set(66);
    node.kind = 1;
    append_entry(&mut out, node, NodeType::Xent, b"security.selinux", 6, group::NONE);
    let expected = "311810061a263089060000000000000049000000030000004100000094b0eb6a\
        0000000000000000420000000000000000011000000000007365637572697479\
        2e73656c696e757800";
    assert_eq!(out, hex(expected));
}

#[test]
fn the_worked_inode_of_a_symlink() {
    let mut node = raw::InodeNode::new_zeroed();
    node.key = key_field(Key::inode(71));
    node.creat_sqnum.set(22);
    node.size.set(5);
    node.atime_sec.set(0x6B00_DF33);
    node.ctime_sec.set(0x6B00_DF33);
    node.mtime_sec.set(1_700_000_000);
    node.nlink.set(1);
    node.mode.set(0o120_777);
    node.flags.set(1);
    node.data_len.set(5);
    node.xattr_cnt.set(1);
    node.xattr_size.set(256);
    node.xattr_names.set(16);
    node.compr_type.set(1);
    let mut out = Vec::new();
    append(&mut out, node, b"a.txt", 26, group::NONE);
    let expected = "311810063448b8041a00000000000000a5000000000000004700000000000000\
        00000000000000001600000000000000050000000000000033df006b00000000\
        33df006b0000000000f153650000000000000000000000000000000001000000\
        0000000000000000ffa100000100000005000000010000000001000000000000\
        1000000001000000000000000000000000000000000000000000000000000000612e747874";
    assert_eq!(out, hex(expected));
}

#[test]
fn groups_orphans_and_truncations() {
    let mut out = Vec::new();
    let mut node = raw::TruncationNode::new_zeroed();
    node.inum.set(66);
    node.old_size.set(8692);
    node.new_size.set(5000);
    append(&mut out, node, &[], 71, group::LAST);
    let expected = "311810065c620aec470000000000000038000000040200004200000000000000\
        0000000000000000f4210000000000008813000000000000";
    assert_eq!(out, hex(expected));

    let mut out = Vec::new();
    let mut node = raw::OrphanNode::new_zeroed();
    node.cmt_no.set(1 << 63 | 4);
    let inos: Vec<u8> = [380_u64, 381, 382].iter().flat_map(|ino| ino.to_le_bytes()).collect();
    append(&mut out, node, &inos, 2498, group::NONE);
    let expected = "311810064a3f69d4c209000000000000380000000b0000000400000000000080\
        7c010000000000007d010000000000007e01000000000000";
    assert_eq!(out, hex(expected));
}

#[test]
fn short_padding_is_padding_bytes() {
    for (len, min_io, expected) in [(488, 512, 24), (505, 512, 0), (16, 8, 0), (484, 512, 24)] {
        let mut out = vec![0; len];
        pad(&mut out, min_io);
        assert_eq!(out.len() % min_io as usize, 0);
        assert_eq!(out.iter().filter(|byte| **byte == PADDING_BYTE).count(), expected, "{len}");
    }
    let mut out = vec![0; 480];
    pad(&mut out, 512);
    assert_eq!(out[480..484], NODE_MAGIC.to_le_bytes());
    assert_eq!(out[508..], [0; 4]);
}
