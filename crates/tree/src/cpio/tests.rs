//! Archives of GNU cpio in all formats; malicious archives.

use super::*;
use crate::dir::{self, ReadOptions};
use crate::testing::{AS_ROOT, EVERYTHING, listing, shell};
use eraseblock_vfs::source::NodeId;
use std::io::Cursor;

fn read_bytes(bytes: &[u8]) -> Result<(SourceTree, Findings), TreeError> {
    read_stream(Box::new(Cursor::new(bytes.to_vec())))
}

/// One newc member.
fn member(name: &str, content: &[u8], ino: u32, mode: u32, nlink: u32) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap();
    let name_len = u32::try_from(name.len() + 1).unwrap();
    let fields = [ino, mode, 1, 2, nlink, 9, size, 0, 0, 5, 6, name_len, 0];
    let mut bytes = b"070701".to_vec();
    for field in fields {
        bytes.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn ended(members: &[Vec<u8>]) -> Vec<u8> {
    [members.concat(), member("TRAILER!!!", b"", 0, 0, 1)].concat()
}

#[test]
fn gnu_cpio_in_all_formats() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("s");
    std::fs::create_dir(&source).unwrap();
    shell(&source, EVERYTHING);
    if rustix::process::geteuid().is_root() {
        shell(&source, AS_ROOT);
    }
    // Times before 1970 and ids over 18 bits do not fit into odc; sockets do.
    shell(&source, "touch -d @1000000005 d/f; rm link; touch -d @1000000006 .");
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let tree = dir::read(&source, &ReadOptions::default()).unwrap().0;
    for format in ["newc", "crc", "odc"] {
        // GNU cpio folds large inode numbers.
        shell(&source, &format!("find . | cpio -o -H {format} --quiet > ../c 2>/dev/null"));
        shell(temp.path(), "gzip -kf c; zstd -qf c");
        for name in ["c", "c.gz", "c.zst"] {
            let (got, findings) = read(File::open(temp.path().join(name)).unwrap()).unwrap();
            assert!(findings.is_empty(), "{format}: {findings:?}");
            let (mut got, mut expected) = (listing(&got, true), listing(&tree, true));
            // Odc has other device numbers.
            if format == "odc" {
                got.retain(|line| !line.contains("Device"));
                expected.retain(|line| !line.contains("Device"));
            }
            assert_eq!(got, expected, "{format} {name}");
        }
    }
}

#[test]
fn archives_follow_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let script = "mkdir s; cd s; echo microcode > a; touch -d @5 a; echo root > b; \
        echo a | cpio -o -H newc --quiet > ../one; echo b | cpio -o -H newc --quiet | gzip > ../two; \
        echo other > a; echo a | cpio -o -H crc --quiet | gzip > ../three; \
        cd ..; cat one two three > all";
    shell(temp.path(), script);
    let (tree, findings) = read(File::open(temp.path().join("all")).unwrap()).unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding.code.name()).collect();
    assert_eq!(codes, ["member-replaced"]);
    let lines = listing(&tree, true);
    assert_eq!(lines.len(), 3);
    assert!(lines[1].contains("`other\\n`") && lines[2].contains("`root\\n`"), "{lines:?}");
}

#[test]
fn hard_links_get_the_content_of_the_last_name() {
    let bytes = ended(&[
        member("a", b"", 7, 0o100_600, 3),
        member("dir/b", b"", 7, 0o100_600, 3),
        member("c", b"content", 7, 0o100_640, 3),
        member("other", b"x", 7, 0o100_600, 1),
    ]);
    let tree = read_bytes(&bytes).unwrap().0;
    let a = tree.lookup(NodeId::ROOT, b"a").unwrap();
    assert_eq!(tree.lookup(NodeId::ROOT, b"c"), Some(a));
    assert_eq!(tree.node(a).permissions, 0o640);
    assert!(listing(&tree, true).iter().any(|line| line.contains("/dir/b (as /a) file 7")));
    assert_eq!(tree.len(), 4);
}

#[test]
fn junk_behind_the_trailer_is_named() {
    let bytes = [ended(&[member("a", b"", 1, 0o100_600, 1)]), b"\0\0junk".to_vec()].concat();
    let (tree, findings) = read_bytes(&bytes).unwrap();
    assert_eq!((tree.len(), findings.iter().next().unwrap().code.name()), (2, "cpio-junk"));
}

fn refused(bytes: &[u8]) -> String {
    read_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn harm_is_refused() {
    let one = |bytes: Vec<u8>| refused(&ended(&[bytes]));
    assert!(one(member("../a", b"", 1, 0o100_600, 1)).contains("`..` is not allowed"));
    assert!(one(member("a\0b", b"", 1, 0o100_600, 1)).contains("only NUL"));
    assert!(one(member("a", b"", 1, 0o600, 1)).contains("no valid file type"));
    assert!(one(member("a", b"", 1, 0o120_777, 1)).contains("without a target"));
    assert!(one(member("/", b"", 1, 0o100_600, 1)).contains("root can only"));
    let through =
        ended(&[member("a", b"/etc", 1, 0o120_777, 1), member("a/b", b"", 2, 0o100_600, 1)]);
    assert!(refused(&through).contains("parent is not a directory"));
    let good = ended(&[member("a", b"abc", 1, 0o100_600, 1)]);
    let replace = |range: std::ops::Range<usize>, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[range].copy_from_slice(with);
        refused(&bytes)
    };
    assert!(replace(54..62, b"FFFFFFFF").contains("ends within the content"));
    assert!(replace(94..102, b"FFFFFFFF").contains("expected 1 to 65536"));
    assert!(replace(94..102, b"00000000").contains("expected 1 to 65536"));
    assert!(replace(6..14, b"0000000G").contains("hexadecimal digits"));
    assert!(replace(0..6, b"070703").contains("magic"));
    let mut sum = good.clone();
    sum[5] = b'2';
    assert!(refused(&sum).contains("checksum mismatch"));
    let next = member("a", b"abc", 1, 0o100_600, 1).len();
    let mut second = good.clone();
    second[next] = b'x';
    assert!(refused(&second).contains("magic"));
    for len in 1..good.len() {
        assert!(read_bytes(&good[..len]).is_err(), "{len}");
    }
}

#[test]
fn mutated_archives_never_panic() {
    let odc = |name: &str, content: &str, mode: u32, nlink: u32| {
        let (name_len, len) = (name.len() + 1, content.len());
        format!(
            "070707{:06o}{:06o}{mode:06o}{:06o}{:06o}{nlink:06o}{:06o}{:011o}{name_len:06o}{len:011o}{name}\0{content}",
            1, 2, 3, 4, 5, 6
        )
        .into_bytes()
    };
    let seed = [
        ended(&[
            member("d", b"", 1, 0o040_755, 2),
            member("d/f", b"", 2, 0o100_644, 2),
            member("d/g", b"content", 2, 0o100_644, 2),
            member("l", b"d/f", 3, 0o120_777, 1),
            member("c", b"", 4, 0o020_600, 1),
        ]),
        vec![0; 12],
        odc("a", "abc", 0o100_644, 1),
        odc("TRAILER!!!", "", 0, 1),
    ]
    .concat();
    let (tree, findings) = read_bytes(&seed).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(tree.len(), 6);
    let mut random = crate::testing::Random::new(11);
    let mut good = 0;
    for _ in 0..20_000 {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            // Mostly valid field contents.
            let digits = b"0123456789ABCDEF";
            bytes[at] = if random.below(3) > 0 {
                digits[random.below(digits.len())]
            } else {
                random.byte()
            };
        }
        bytes.truncate(bytes.len() - random.below(3) * random.below(100));
        good += u32::from(read_bytes(&bytes).is_ok());
    }
    assert!((100..19_900).contains(&good), "{good}");
}
