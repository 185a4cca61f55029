//! Built images, checked node by node and against the reference tool.

use super::verify::{Found, Strictness, Verified, verify};
use super::*;
use eraseblock_base::ErrorClass;
use eraseblock_ubifs_format::{Inode, KeyHash};
use eraseblock_vfs::source::{Content, NodeId, SourceKind, SourceNode};
use eraseblock_vfs::{FileKind, Timestamp};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::num::NonZeroUsize;
use std::sync::Arc;

mod classic;
mod read_back;

const LEB: u32 = 15_872;

fn options() -> MkfsOptions {
    MkfsOptions { compressor: Compressor::Zlib, ..MkfsOptions::new(LEB, 512, 4000) }
}

fn directory() -> SourceNode {
    SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755)
}

fn file(content: impl Into<Vec<u8>>) -> SourceNode {
    SourceNode::new(SourceKind::Regular(Arc::new(content.into())), 0o644)
}

/// Bytes that compress about as well as text.
fn text(len: usize, mut seed: u32) -> Vec<u8> {
    let words = ["flash ", "page ", "block\n", "erase ", "wear-", "level ", "x", "0123456789 "];
    let mut out = Vec::with_capacity(len + 16);
    while out.len() < len {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        out.extend(words[(seed >> 24) as usize % words.len()].bytes());
        out.extend(seed.to_le_bytes().iter().take((seed >> 16) as usize % 3));
    }
    out.truncate(len);
    out
}

/// Returns a tree with everything in it.
fn sample() -> SourceTree {
    let mut tree = SourceTree::new(directory());
    let mut add = |dir, name: &str, node| tree.add(dir, name.as_bytes(), node).unwrap();
    let etc = add(NodeId::ROOT, "etc", directory());
    let mut passwd = file("root:x:0:0\n");
    passwd.uid = 7;
    passwd.gid = 8;
    passwd.mtime = Timestamp { seconds: -5, nanoseconds: 9 };
    passwd.xattrs = vec![
        (b"user.b".to_vec(), vec![]),
        (b"trusted.t".to_vec(), b"ab".to_vec()),
        (b"user.a".to_vec(), b"1234567".to_vec()),
        (b"user.image-inode-number".to_vec(), b"12345678".to_vec()),
    ];
    let passwd = add(etc, "passwd", passwd);
    add(etc, "empty", file(""));
    add(NodeId::ROOT, "large", file(text(600_000, 1)));
    add(NodeId::ROOT, "block", file(text(4096, 2)));
    let mut sparse = vec![0; 300_000];
    sparse[8192] = 1;
    sparse[299_999] = 2;
    add(NodeId::ROOT, "sparse", file(sparse));
    add(NodeId::ROOT, "zeros", file(vec![0; 5000]));
    let link = SourceKind::Symlink(b"../etc/passwd".to_vec());
    add(etc, "link", SourceNode::new(link, 0o777));
    let dev = add(NodeId::ROOT, "dev", directory());
    for (name, kind) in [
        ("char", SourceKind::CharDevice(5, 300)),
        ("block", SourceKind::BlockDevice(4095, 1_048_575)),
        ("whiteout", SourceKind::CharDevice(0, 0)),
        ("fifo", SourceKind::Fifo),
        ("socket", SourceKind::Socket),
    ] {
        add(dev, name, SourceNode::new(kind, 0o600));
    }
    let many = add(NodeId::ROOT, "many", directory());
    for index in 0..300_u32 {
        add(many, &format!("file-{index}"), file(text((index * 13) as usize, index)));
    }
    tree.link(NodeId::ROOT, b"hard", passwd).unwrap();
    tree.node_mut(NodeId::ROOT).xattrs =
        vec![(b"security.selinux".to_vec(), b"u:r:t:s0\0".to_vec())];
    tree.node_mut(dev).flags.dirsync = true;
    tree
}

fn built(tree: &SourceTree, options: &MkfsOptions) -> (Vec<u8>, MkfsReport) {
    let mut sink = FileSink::new(Cursor::new(Vec::new()), options.layout.leb_size);
    let report = build(tree, options, &mut sink, &NoProgress).unwrap();
    (sink.into_inner().into_inner(), report)
}

fn refusal(tree: &SourceTree, options: &MkfsOptions) -> MkfsError {
    let mut sink = FileSink::new(Cursor::new(Vec::new()), options.layout.leb_size);
    let error = build(tree, options, &mut sink, &NoProgress).unwrap_err();
    let written = sink.into_inner().into_inner();
    assert!(written.get(..4).is_none_or(|magic| *magic != [0x31, 0x18, 0x10, 0x06]));
    error
}

fn content_of(node: &SourceNode) -> Vec<u8> {
    let mut content = Vec::new();
    if let SourceKind::Regular(source) = &node.kind {
        source.open().unwrap().read_to_end(&mut content).unwrap();
    }
    content
}

/// Everything in the tree is in the image, and nothing else.
fn assert_same(tree: &SourceTree, image: &Verified) {
    let mut stack = vec![(NodeId::ROOT, 1)];
    let mut seen = BTreeMap::new();
    while let Some((id, ino)) = stack.pop() {
        assert_eq!(*seen.entry(id).or_insert(ino), ino, "hard links share an inode");
        let (node, found) = (tree.node(id), &image.inodes[&ino]);
        assert_same_node(node, found);
        let mut xattrs = node.xattrs.clone();
        xattrs.retain(|(name, _)| name != b"user.image-inode-number");
        xattrs.sort();
        assert_eq!(image.attributes(found), xattrs);
        let names: Vec<_> = tree.entries(id).map(|(name, _)| name.to_vec()).collect();
        assert_eq!(found.entries.keys().cloned().collect::<Vec<_>>(), names);
        stack.extend(tree.entries(id).map(|(name, child)| (child, found.entries[name].0)));
    }
    let xattrs: usize = image.inodes.values().map(|found| found.xattrs.len()).sum();
    assert_eq!(image.inodes.len(), seen.len() + xattrs);
}

fn assert_same_node(node: &SourceNode, found: &Found) {
    let inode = &found.inode;
    assert_eq!(inode.mode, node.file_kind().mode_bits() | node.permissions);
    assert_eq!((inode.uid, inode.gid), (node.uid, node.gid));
    let times =
        [inode.atime, inode.mtime, inode.ctime].map(|time| (time.seconds, time.nanoseconds));
    let expected = [node.atime, node.mtime, node.ctime].map(|time| (time.seconds, 0));
    assert_eq!(times, expected);
    assert_eq!(found.content, content_of(node));
    let inline = match &node.kind {
        SourceKind::Symlink(target) => target.clone(),
        SourceKind::CharDevice(major, minor) | SourceKind::BlockDevice(major, minor) => {
            let inode = Inode { data: &found.inline, ..inode.clone() };
            assert_eq!(inode.device(), Some((*major, *minor)));
            return;
        }
        _ => Vec::new(),
    };
    assert_eq!(found.inline, inline);
}

#[test]
fn a_tree_with_everything_in_it_is_all_there() {
    let tree = sample();
    let favour = Compressor::FavourLzo { percent: 20 };
    let zstd = Compressor::Zstd { level: 3 };
    for compressor in [Compressor::None, Compressor::Lzo, Compressor::Zlib, zstd, favour] {
        for version in [FormatVersion::V4, FormatVersion::V5] {
            let options = MkfsOptions { compressor, version, ..options() };
            let (image, report) = built(&tree, &options);
            let image = verify(&image, LEB, Strictness::Ours);
            assert_same(&tree, &image);
            assert_eq!(image.superblock.default_compr, compressor.on_flash());
            assert_eq!(image.superblock.uuid, report.uuid);
            assert_eq!(image.superblock.leb_cnt, report.leb_cnt);
            assert_eq!(image.inodes.len() as u64, report.nodes.inodes + report.nodes.xattrs);
            assert_eq!(report.data.holes, (300_000_u64.div_ceil(4096) - 2) + 2);
        }
    }
}

#[test]
fn details_of_the_sample() {
    let (image, _) = built(&sample(), &options());
    let image = verify(&image, LEB, Strictness::Ours);
    let passwd = &image.at("etc/passwd").inode;
    assert_eq!((passwd.nlink, passwd.xattr_cnt, passwd.xattr_size), (2, 3, 704));
    assert_eq!((passwd.xattr_names, passwd.mtime.seconds), (21, -5));
    assert_eq!(image.at("dev").inode.flags, 0x11);
    assert_eq!(image.at("").inode.nlink, 2 + 3);
    assert_eq!(image.at("dev/char").inline, [0x2c, 0x05, 0x10, 0x00]);
    assert_eq!(image.at("dev/whiteout").inode.size, 0);
    assert_eq!(image.at("etc/link").inode.size, 13);
}

#[test]
fn an_empty_tree_is_three_main_lebs() {
    let (image, report) = built(&SourceTree::new(directory()), &options());
    let image = verify(&image, LEB, Strictness::Ours);
    assert_eq!(image.superblock.main_lebs(), 3);
    assert_eq!((report.data_lebs, report.index_lebs), (1, 1));
    assert_eq!(image.master.highest_inum, 64);
    assert_eq!(image.inodes.len(), 1);
}

#[test]
fn threads_change_nothing() {
    let tree = sample();
    let with =
        |threads| built(&tree, &MkfsOptions { threads: NonZeroUsize::new(threads), ..options() }).0;
    let one = with(1);
    for threads in [2, 7] {
        assert!(with(threads) == one, "{threads} threads");
    }
}

/// Images must stay the same: a change of these lines changes every image ever built.
#[test]
fn images_have_the_bytes_they_always_had() {
    let golden = |options: &MkfsOptions| -> String {
        let (image, _) = built(&sample(), options);
        let digest = Sha256::digest(&image);
        format!("{:016x}", u64::from_be_bytes(digest[..8].try_into().unwrap()))
    };
    let none = MkfsOptions { compressor: Compressor::None, ..options() };
    let mut small = MkfsOptions::new(126_976, 2048, 100);
    small.compressor = Compressor::None;
    small.space_fixup = true;
    let fifth = MkfsOptions { version: FormatVersion::V5, ..none.clone() };
    let found = [golden(&none), golden(&small), golden(&fifth)];
    assert_eq!(found, GOLDEN);
}

const GOLDEN: [&str; 3] = ["e9240ab9edf5c92a", "2dfbd2e08c3a2d0f", "f80a979edcd02a12"];

#[test]
fn the_uuid_follows_the_content() {
    let uuid = |tree: &SourceTree, options: &MkfsOptions| built(tree, options).1.uuid;
    let tree = sample();
    let first = uuid(&tree, &options());
    assert_eq!((first[6] >> 4, first[8] >> 6), (8, 2));
    let mut other = sample();
    other.node_mut(NodeId::ROOT).uid = 1;
    assert_ne!(uuid(&other, &options()), first);
    assert_ne!(uuid(&tree, &MkfsOptions { space_fixup: true, ..options() }), first);
    assert_eq!(uuid(&tree, &MkfsOptions { uuid: Some([9; 16]), ..options() }), [9; 16]);
}

#[test]
fn too_few_lebs_are_counted_exactly() {
    let tree = sample();
    let needed_for = |max_leb_cnt| {
        let mut options = MkfsOptions { compressor: Compressor::None, ..options() };
        options.layout.max_leb_cnt = max_leb_cnt;
        options
    };
    let error = refusal(&tree, &needed_for(90));
    assert_eq!(error.class(), ErrorClass::NoSpace);
    let MkfsError::TooFewLebs { available: 90, needed } = error else { panic!("{error}") };
    let (image, report) = built(&tree, &needed_for(needed));
    verify(&image, LEB, Strictness::Ours);
    assert!(report.spare_lebs <= 1);
    assert!(matches!(refusal(&tree, &needed_for(needed - 1)), MkfsError::TooFewLebs { .. }));
}

#[test]
fn a_preflight_bounds_the_image() {
    let tree = sample();
    for compressor in [Compressor::None, Compressor::Zlib] {
        let options = MkfsOptions { compressor, ..options() };
        let before = preflight(&tree, &options).unwrap();
        let (_, report) = built(&tree, &options);
        let main_lebs = report.data_lebs + report.index_lebs + 1;
        assert!((before.main_lebs_least..=before.main_lebs_most).contains(&main_lebs));
        assert!((before.image_lebs_least..=before.image_lebs_most).contains(&report.leb_cnt));
        assert_eq!(before.fit(), Fit::Always);
    }
    let mut small = options();
    small.layout.max_leb_cnt = 90;
    assert_eq!(preflight(&tree, &small).unwrap().fit(), Fit::DependsOnContent);
    let mut tree = SourceTree::new(directory());
    for index in 0..5000 {
        tree.add(NodeId::ROOT, format!("{index}").as_bytes(), file("")).unwrap();
    }
    small.layout.max_leb_cnt = 40;
    let before = preflight(&tree, &small).unwrap();
    assert_eq!(before.fit(), Fit::Never);
    let error = refusal(&tree, &small);
    assert!(matches!(error, MkfsError::TooFewLebs { available: 40, needed } if needed > 70));
}

/// Returns a tree of files of these lengths, of one kind of content each.
fn tree_of(files: &[(usize, u8)]) -> SourceTree {
    let mut tree = SourceTree::new(directory());
    for (number, (len, kind)) in files.iter().enumerate() {
        let content = match kind {
            0 => vec![0; *len],
            1 => text(*len, number as u32),
            _ => (0..*len as u32)
                .flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes())
                .take(*len)
                .collect(),
        };
        tree.add(NodeId::ROOT, format!("file {number}").as_bytes(), file(content)).unwrap();
    }
    tree
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_preflight_contains_the_result(
        files in prop::collection::vec((0_usize..60_000, 0_u8..3), 0..24),
        compressor in prop::sample::select(vec![
            Compressor::None, Compressor::Lzo, Compressor::Zlib, Compressor::Zstd { level: 3 },
        ]),
        max_lebs in prop::sample::select(vec![60, 90, 200, 4000]),
    ) {
        let tree = tree_of(&files);
        let mut options = MkfsOptions { compressor, ..options() };
        options.layout.max_leb_cnt = max_lebs;
        let before = preflight(&tree, &options).unwrap();
        match build(&tree, &options, &mut NoSink, &NoProgress) {
            Ok(report) => {
                let bounds = before.image_lebs_least..=before.image_lebs_most;
                prop_assert!(bounds.contains(&report.leb_cnt), "{} in {bounds:?}", report.leb_cnt);
                prop_assert!(before.volume_lebs_least <= max_lebs);
                prop_assert_ne!(before.fit(), Fit::Never);
            }
            Err(MkfsError::TooFewLebs { needed, .. }) => {
                prop_assert!(before.volume_lebs_least <= needed);
                prop_assert_ne!(before.fit(), Fit::Always);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
        prop_assert_eq!(before.compresses, compressor != Compressor::None && files.iter().any(|file| file.0 > 0));
    }
}

#[test]
fn rules_choose_compressors() {
    let mut options = options();
    options.rules =
        vec![CompressionRule { pattern: b"/many/*".into(), compressor: Compressor::None }];
    let (image, report) = built(&sample(), &options);
    let image = verify(&image, LEB, Strictness::Ours);
    assert_eq!(image.at("many/file-299").inode.compr_type.number(), 0);
    assert_eq!(image.at("many/file-299").inode.flags & 1, 0);
    assert_eq!(image.at("large").inode.compr_type.number(), 2);
    assert!(report.data.blocks[0] > 250 && report.data.blocks[2] > 140);
}

#[test]
fn what_ubifs_cannot_store_is_named() {
    let refused = |node: SourceNode| {
        let mut tree = SourceTree::new(directory());
        let dir = tree.add(NodeId::ROOT, b"d", directory()).unwrap();
        tree.add(dir, b"f", node).unwrap();
        refusal(&tree, &options()).to_string()
    };
    let with_xattrs = |xattrs: Vec<(Vec<u8>, Vec<u8>)>| refused(SourceNode { xattrs, ..file("") });
    let of = |kind| refused(SourceNode::new(kind, 0));
    assert_eq!(
        of(SourceKind::Symlink(vec![])),
        "`/d/f`: a link target of 0 bytes, expected 1 to 4096"
    );
    assert!(of(SourceKind::Symlink(vec![b'x'; 4097])).contains("target of 4097 bytes"));
    assert!(of(SourceKind::CharDevice(4096, 0)).contains("device 4096:0"));
    assert!(of(SourceKind::BlockDevice(0, 1 << 20)).contains("device 0:1048576"));
    assert!(
        of(SourceKind::Regular(Arc::new(Wrong { size: 1 << 42 }))).contains("4398046511104 bytes")
    );
    let attribute = |name: &[u8], len| (name.to_vec(), vec![1; len]);
    assert!(with_xattrs(vec![attribute(b"", 1)]).contains("attribute name ``"));
    assert!(with_xattrs(vec![attribute(b"a\0", 1)]).contains("attribute name"));
    assert!(with_xattrs(vec![attribute(b"user.a", 4097)]).contains("`user.a` has 4097 bytes"));
    let twice = vec![attribute(b"user.a", 1), attribute(b"user.a", 2)];
    assert!(with_xattrs(twice).contains("`user.a` occurs twice"));
    let many: Vec<_> = (0..60).map(|i| attribute(format!("user.{i}").as_bytes(), 0)).collect();
    assert!(with_xattrs(many).contains("60 attributes, expected at most 49"));
}

/// A file whose length differs from the reported one.
#[derive(Debug)]
struct Wrong {
    size: u64,
}

impl Content for Wrong {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        if self.size == 666 {
            return Err(io::Error::other("gone"));
        }
        Ok(Box::new(io::repeat(7).take(500_000)))
    }
}

#[test]
fn files_that_change_or_cannot_be_read_are_named() {
    for (size, reason) in [
        (499_999, "changed while it was read, expected 499999 bytes"),
        (500_001, "changed while it was read, expected 500001 bytes"),
        (100, "changed while it was read, expected 100 bytes"),
        (666, "cannot read: gone"),
    ] {
        let mut tree = sample();
        let wrong = SourceKind::Regular(Arc::new(Wrong { size }));
        let dir = tree.lookup(NodeId::ROOT, b"many").unwrap();
        tree.add(dir, b"wrong", SourceNode::new(wrong, 0o644)).unwrap();
        assert_eq!(refusal(&tree, &options()).to_string(), format!("`/many/wrong`: {reason}"));
    }
}

/// A sink that fails after some LEBs.
struct Full(u32);

impl LebSink for Full {
    fn write_leb(&mut self, _: eraseblock_base::Leb, _: &[u8]) -> io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("disk full"))?;
        Ok(())
    }

    fn finish(&mut self, _: u32) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_build() {
    for lebs in [0, 3, 20] {
        let error = build(&sample(), &options(), &mut Full(lebs), &NoProgress).unwrap_err();
        assert_eq!(error.to_string(), "cannot write image: disk full");
    }
}

fn any_node() -> impl Strategy<Value = SourceNode> {
    let content = (0..20_000_usize, any::<u32>(), any::<bool>())
        .prop_map(|(len, seed, zero)| file(if zero { vec![0; len] } else { text(len, seed) }));
    let target = prop::collection::vec(1..=255_u8, 1..50).prop_map(SourceKind::Symlink);
    let kind = prop_oneof![
        target,
        (0..4096_u32, 0..1_u32 << 20)
            .prop_map(|(major, minor)| SourceKind::CharDevice(major, minor)),
        Just(SourceKind::Fifo),
    ];
    let xattrs = prop::collection::btree_map(
        "user\\.[a-z]{1,3}",
        prop::collection::vec(any::<u8>(), 0..300),
        0..4,
    );
    (prop_oneof![3 => content, 1 => kind.prop_map(|kind| SourceNode::new(kind, 0o600)), 1 => Just(directory())], xattrs)
        .prop_map(|(mut node, xattrs)| {
            node.xattrs = xattrs.into_iter().map(|(name, value)| (name.into(), value)).collect();
            node
        })
}

/// Nodes hung under directories chosen by number, with a few more names for files.
fn any_tree() -> impl Strategy<Value = SourceTree> {
    let entry = ("[a-d]{1,4}", any::<prop::sample::Index>(), any_node());
    let links =
        prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..5);
    (prop::collection::vec(entry, 0..60), links).prop_map(|(entries, links)| {
        let mut tree = SourceTree::new(directory());
        let (mut dirs, mut files) = (vec![NodeId::ROOT], Vec::new());
        for (name, dir, node) in entries {
            let is_dir = node.file_kind() == FileKind::Directory;
            if let Ok(id) = tree.add(*dir.get(&dirs), name.as_bytes(), node) {
                if is_dir { dirs.push(id) } else { files.push(id) }
            }
        }
        for (number, (dir, file)) in links.iter().enumerate().filter(|_| !files.is_empty()) {
            tree.link(*dir.get(&dirs), format!("link{number}").as_bytes(), *file.get(&files))
                .unwrap();
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_tree_becomes_a_sound_image(
        tree in any_tree(),
        fanout in 3..20_u32,
        min_io in prop::sample::select(vec![1_u32, 8, 512]),
        big in any::<bool>(),
        test_hash in any::<bool>(),
    ) {
        let mut options = options();
        options.layout.min_io = min_io;
        options.layout.fanout = fanout;
        options.layout.max_leb_cnt = if big { 6000 } else { 300 };
        // The test hash makes names collide.
        options.key_hash = if test_hash { KeyHash::Test } else { KeyHash::R5 };
        let (image, report) = built(&tree, &options);
        let image = verify(&image, LEB, Strictness::Ours);
        assert_same(&tree, &image);
        prop_assert_eq!(report.layout.big_lpt, big);
    }
}
