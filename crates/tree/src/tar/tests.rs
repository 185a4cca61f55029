//! Archives of GNU tar in all its formats; malicious archives.

use super::*;
use crate::dir::{self, ReadOptions};
use crate::testing::{AS_ROOT, EVERYTHING, listing, pax_record, shell};
use eraseblock_vfs::source::NodeId;
use std::io::Cursor;

fn read_bytes(bytes: &[u8]) -> Result<(SourceTree, Findings), TreeError> {
    read_stream(Box::new(Cursor::new(bytes.to_vec())))
}

/// Returns a header block with a right checksum.
fn raw(name: &str, flag: u8, size: &[u8], link: &str) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[108..115].copy_from_slice(b"0000000");
    block[116..123].copy_from_slice(b"0000000");
    block[124..124 + size.len()].copy_from_slice(size);
    block[136..147].copy_from_slice(b"00000000007");
    block[156] = flag;
    block[157..157 + link.len()].copy_from_slice(link.as_bytes());
    block[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block[..BLOCK].iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Returns a member with content and padding.
fn member(name: &str, flag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = raw(name, flag, format!("{:011o}", content.len()).as_bytes(), "");
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn ended(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

#[test]
fn gnu_tar_in_all_formats() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("s");
    std::fs::create_dir(&source).unwrap();
    shell(&source, EVERYTHING);
    if rustix::process::geteuid().is_root() {
        shell(&source, AS_ROOT);
    }
    // A sparse file with more pieces than fit into a header.
    shell(
        &source,
        "for i in $(seq 1 40); do printf $i | dd of=pieces bs=1 seek=$((i*20000)) conv=notrunc \
         status=none; done; truncate -s 1000000 pieces; touch -d @1000000003 pieces .",
    );
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(source.join("big"), "user.x", b"y\n=\0z", flags).unwrap();
    let tree = dir::read(&source, &ReadOptions::default()).unwrap().0;
    let xattrs = "--xattrs --xattrs-include='*'";
    for (options, seconds) in [
        (format!("--format=pax {xattrs}"), false),
        (format!("--format=pax --sparse --sparse-version=1.0 {xattrs}"), false),
        (format!("--format=pax --sparse --sparse-version=0.1 {xattrs}"), false),
        (format!("--format=pax --sparse --sparse-version=0.0 {xattrs}"), false),
        ("--format=gnu".to_owned(), true),
        ("--format=gnu --sparse".to_owned(), true),
    ] {
        if seconds {
            // GNU tar rounds fractions of negative times up.
            shell(&source, "touch -d '1965-03-04 05:06:07' d/f");
        }
        shell(&source, &format!("tar -cf ../t {options} ."));
        shell(temp.path(), "gzip -kf t; zstd -qf t");
        let mut expected = listing(&tree, seconds);
        if seconds {
            for line in &mut expected {
                let xattrs = line.find(" [").unwrap();
                line.replace_range(xattrs.., " []");
            }
        }
        for name in ["t", "t.gz", "t.zst"] {
            let file = File::open(temp.path().join(name)).unwrap();
            let (got, findings) = read(file).unwrap();
            assert!(findings.is_empty(), "{options}: {findings:?}");
            let got = listing(&got, seconds);
            for (got, expected) in got.iter().zip(&expected) {
                assert_eq!(got, expected, "{options} {name}");
            }
            assert_eq!(got.len(), expected.len(), "{options} {name}");
        }
    }
    // Ustar supports neither long names, large ids nor negative times.
    shell(&source, "rm -r link 0*; touch -d @5 d/f; touch -d @7 .; tar -cf ../t --format=ustar .");
    let tree = dir::read(&source, &ReadOptions { xattrs: false, ..ReadOptions::default() });
    let got = read(File::open(temp.path().join("t")).unwrap()).unwrap().0;
    assert_eq!(listing(&got, true), listing(&tree.unwrap().0, true));
}

/// Returns the xattrs of the only file in the root.
fn xattrs_of(tree: &SourceTree, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = tree.entries(NodeId::ROOT);
    let (_, id) = entries.find(|(entry, _)| *entry == name.as_bytes()).unwrap();
    tree.node(id).xattrs.clone()
}

const ACCESS: &[u8] = b"system.posix_acl_access";

/// u::rw- u:54321:r-- g::r-- m::r-- o::r--; no user has that id, so GNU tar writes no name.
fn list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, u32::MAX),
        (2, 4, 54_321),
        (4, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 4, u32::MAX),
    ];
    let bytes = entries.iter().flat_map(|(tag, permissions, id)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    [2, 0, 0, 0].into_iter().chain(bytes).collect()
}

#[test]
fn access_lists_of_gnu_tar_arrive() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("s");
    std::fs::create_dir(&source).unwrap();
    let file = source.join("f");
    std::fs::write(&file, "x").unwrap();
    std::fs::write(source.join("plain"), "x").unwrap();
    rustix::fs::setxattr(
        &file,
        "system.posix_acl_access",
        &list(),
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    for options in ["--acls", "--acls --xattrs --xattrs-include='*'", "--acls --format=pax"] {
        shell(&source, &format!("tar -cf ../t {options} ."));
        let (tree, findings) = read(File::open(temp.path().join("t")).unwrap()).unwrap();
        assert!(findings.is_empty(), "{options}: {findings:?}");
        assert_eq!(xattrs_of(&tree, "f"), [(ACCESS.to_vec(), list())], "{options}");
        assert_eq!(xattrs_of(&tree, "plain"), [], "{options}");
    }
}

#[test]
fn access_lists_that_cannot_be_read_are_named() {
    let read = |text: &str| {
        let record = pax_record(&format!("SCHILY.acl.access={text}"));
        read_bytes(&ended(&[member("x", b'x', &record), member("f", b'0', b"")])).unwrap()
    };
    let (tree, findings) = read("user::rw-\nuser:54321:r--\ngroup::r--\nmask::r--\nother::r--\n");
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(xattrs_of(&tree, "f"), [(ACCESS.to_vec(), list())]);
    for (text, part) in [
        ("user::rw-\nuser:joe:r--\ngroup::r--\nmask::r--\nother::r--\n", "has no id"),
        ("user::rw-\n", "not an access control list"),
    ] {
        let (tree, findings) = read(text);
        let found: Vec<_> = findings.iter().map(|finding| finding.message.clone()).collect();
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
        assert_eq!(xattrs_of(&tree, "f"), []);
    }
}

#[test]
fn later_members_win_and_paths_are_cleaned() {
    let bytes = ended(&[
        member("/abs/f", b'0', b"one"),
        member("./abs//f", b'0', b"two"),
        raw("abs/l", b'1', b"", "abs/f"),
        member("old/", 0, b""),
        member("cont", b'7', b"three"),
        member("what", b'~', b"four"),
    ]);
    let (tree, findings) = read_bytes(&bytes).unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding.code.name()).collect();
    assert_eq!(codes, ["member-replaced", "tar-unknown-type"]);
    let lines = listing(&tree, true);
    assert!(lines[0].contains("directory 755 0:0 7.0"), "{}", lines[0]);
    assert!(lines[2].contains("/abs/f (as /abs/f) file 3") && lines[2].contains("`two`"));
    assert!(lines[3].contains("/abs/l (as /abs/f)"), "{}", lines[3]);
    assert_eq!(tree.len(), 6);
}

#[test]
fn attributes_without_a_place_are_named() {
    let records = [
        pax_record("SCHILY.acl.access=user::rw-"),
        pax_record("SCHILY.xattr.system.x=1"),
        pax_record("RHT.security.selinux=u:object_r:etc_t:s0"),
    ];
    let bytes = ended(&[member("x", b'x', &records.concat()), member("f", b'0', b"")]);
    let (tree, findings) = read_bytes(&bytes).unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding.code.name()).collect();
    assert_eq!(codes, ["xattr-left-out", "xattr-left-out"]);
    let f = tree.lookup(NodeId::ROOT, b"f").unwrap();
    let label = (b"security.selinux".to_vec(), b"u:object_r:etc_t:s0\0".to_vec());
    assert_eq!(tree.node(f).xattrs, [label]);
}

fn refused(bytes: &[u8]) -> String {
    read_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn harm_is_refused() {
    let one = |bytes: Vec<u8>| refused(&ended(&[bytes]));
    assert!(one(member("../f", b'0', b"")).contains("`..` is not allowed"));
    assert!(one(member("a/../../f", b'5', b"")).contains("`..` is not allowed"));
    assert!(one(raw("l", b'1', b"", "../f")).contains("`..` is not allowed"));
    assert!(one(raw("l", b'1', b"", "l")).contains("does not precede it"));
    assert!(one(raw("l", b'1', b"", ".")).contains("hard link to a directory"));
    assert!(one(raw("l", b'2', b"", "")).contains("without a target"));
    assert!(one(member(".", b'0', b"")).contains("root can only be a directory"));
    assert!(one(member("m", b'M', b"")).contains("several volumes"));
    assert!(one(raw("f", b'0', &[0x80, 0, 0, 0, 0x7F, 0, 0, 0, 0, 0, 0, 0], "")).contains("ends"));
    assert!(one(raw("f", b'0', &[0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0], "")).contains("2^63"));
    assert!(one(raw("f", b'0', &[0xFF; 12], "")).contains("size is -1"));
    assert!(one(raw("x", b'x', b"77777777777", "")).contains("expected not more"));
    assert!(one(raw("x", b'L', b"77777777777", "")).contains("expected not more"));
    let through = ended(&[raw("a", b'2', b"", "/etc"), member("a/passwd", b'0', b"")]);
    assert!(refused(&through).contains("parent is not a directory"));
    let mut broken = ended(&[member("f", b'0', b"")]);
    broken[3] ^= 1;
    assert!(refused(&broken).contains("checksum mismatch"));
    let deep = "d/".repeat(3000);
    let deep = ended(&[member("n", b'L', deep.as_bytes()), member("x", b'5', b"")]);
    assert!(refused(&deep).contains("nested too deep"));
}

#[test]
fn sparse_maps_are_checked() {
    let pax = |records: &str| {
        let body: Vec<u8> = records.split(' ').flat_map(pax_record).collect();
        read_bytes(&ended(&[member("x", b'x', &body), member("f", b'0', b"12345")]))
    };
    let read = pax("GNU.sparse.map=0,2,7,3 GNU.sparse.size=10").unwrap().0;
    assert!(listing(&read, true)[1].contains("file 10"));
    for records in [
        "GNU.sparse.map=0,2,1,3 GNU.sparse.size=10",
        "GNU.sparse.map=0,2,8,3 GNU.sparse.size=10",
        "GNU.sparse.map=0,2,7,2 GNU.sparse.size=10",
        "GNU.sparse.map=9223372036854775807,5 GNU.sparse.size=9223372036854775807",
        "GNU.sparse.major=1 GNU.sparse.realsize=10",
    ] {
        let error = pax(records).unwrap_err().to_string();
        assert!(error.contains("sparse map"), "{error}");
    }
}

#[test]
fn truncated_archives_are_errors() {
    let bytes = ended(&[member("x", b'x', b"11 path=ab\n"), member("f", b'0', &[b'y'; 1000])]);
    for len in (1..bytes.len()).step_by(37) {
        let result = read_bytes(&bytes[..len]);
        // Only the marker at the end may be missing, which a finding reports.
        match result {
            Err(TreeError::Truncated { .. }) => {}
            Ok(_) if len >= bytes.len() - 2 * BLOCK => {}
            other => panic!("{len}: {other:?}"),
        }
    }
    let (_, findings) = read_bytes(&bytes[..bytes.len() - 2 * BLOCK]).unwrap();
    assert_eq!(findings.iter().next().unwrap().code, "tar-no-end");
}

#[test]
fn mutated_archives_never_panic() {
    let pax: Vec<u8> = [
        "path=ab",
        "SCHILY.xattr.user.abc=1234",
        "GNU.sparse.map=0,2,10,3",
        "GNU.sparse.size=100",
        "mtime=12345.6789",
    ]
    .into_iter()
    .flat_map(pax_record)
    .collect();
    let mut old = raw("old", b'S', b"00000000003", "");
    old[257..265].copy_from_slice(b"ustar  \0");
    old[386..397].copy_from_slice(b"00000000005");
    old[398..409].copy_from_slice(b"00000000003");
    old[482] = 1;
    old[483..494].copy_from_slice(b"00000000100");
    seal(&mut old);
    old.resize(3 * BLOCK, 0);
    let seed = ended(&[
        raw("d", b'5', b"", ""),
        member("x", b'x', &pax),
        member("f", b'0', b"12345"),
        member("L", b'L', b"d/long\0"),
        member("short", b'0', b"content"),
        raw("l", b'1', b"", "d/long"),
        raw("s", b'2', b"", "d"),
        old,
    ]);
    assert_eq!(read_bytes(&seed).unwrap().0.len(), 6);
    let mut random = crate::testing::Random::new(7);
    let mut good = 0;
    for _ in 0..20_000 {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = random.byte();
            // A right checksum lets the change reach the code under test.
            if random.below(8) > 0 && at < bytes.len() - 2 * BLOCK {
                let start = at / BLOCK * BLOCK;
                seal(&mut bytes[start..start + BLOCK]);
            }
        }
        bytes.truncate(bytes.len() - random.below(3) * random.below(600));
        if let Ok((tree, _)) = read_bytes(&bytes) {
            good += 1;
            assert!(tree.lookup(NodeId::ROOT, b"..").is_none());
        }
    }
    assert!((100..19_900).contains(&good), "{good}");
}
