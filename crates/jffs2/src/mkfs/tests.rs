//! Images are built and read back.

use super::{
    CompressionMode, Compressor, MkfsError, MkfsOptions, MkfsReport, NoProgress, NodeProblem,
    Padding, SummaryOptions, build, summarise,
};
use crate::{Jffs2, OpenOptions, Source};
use eraseblock_base::Peb;
use eraseblock_base::random::SplitMix64;
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::{ByteOrder, NodeKind, decode, summary};
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{FileSystem, SourceKind, SourceNode, SourceTree, Timestamp};
use eraseblock_vfs_testkit::MemoryFs;
use eraseblock_vfs_testkit::manifest::manifest_of;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

fn dir() -> SourceNode {
    let mut node = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o750);
    let time = Timestamp::from_seconds(1_700_000_000);
    (node.atime, node.mtime, node.ctime) = (time, time, time);
    (node.uid, node.gid) = (5, 6);
    node
}

fn file(bytes: Vec<u8>) -> SourceNode {
    SourceNode::new(SourceKind::Regular(Arc::new(bytes)), 0o644)
}

/// Contents that compress, contents that do not, zeros, and one thing of every other kind.
fn tree() -> SourceTree {
    let mut random = SplitMix64::new(7);
    let mut tree = SourceTree::new(dir());
    let sub = tree.add(NodeId::ROOT, b"sub", dir()).unwrap();
    for size in [0, 1, 100, 4095, 4096, 4097, 20_000, 300_000] {
        let text: Vec<u8> = (0..size)
            .map(|at| b"words and more words, "[at % 22] ^ u8::from(at % 97 == 0))
            .collect();
        let noise: Vec<u8> = (0..size).map(|_| random.next_u64().to_le_bytes()[0]).collect();
        let id = tree.add(sub, format!("text-{size}").as_bytes(), file(text)).unwrap();
        tree.link(NodeId::ROOT, format!("link-{size}").as_bytes(), id).unwrap();
        tree.node_mut(id).xattrs = vec![
            (b"trusted.t".to_vec(), vec![9; size.min(200)]),
            (b"user.same".to_vec(), b"value".to_vec()),
        ];
        tree.add(sub, format!("noise-{size}").as_bytes(), file(noise)).unwrap();
    }
    let mut sparse = vec![0; 50_000];
    sparse[20_000] = 1;
    tree.add(NodeId::ROOT, b"sparse", file(sparse)).unwrap();
    tree.add(NodeId::ROOT, b"zeros", file(vec![0; 9000])).unwrap();
    for (name, kind) in [
        (&b"char"[..], SourceKind::CharDevice(1, 3)),
        (b"block", SourceKind::BlockDevice(300, 70_000)),
        (b"fifo", SourceKind::Fifo),
        (b"socket", SourceKind::Socket),
        (b"soft", SourceKind::Symlink(b"sub/text-1".to_vec())),
    ] {
        tree.add(NodeId::ROOT, name, SourceNode::new(kind, 0o600)).unwrap();
    }
    tree
}

fn make(options: &MkfsOptions) -> (Vec<u8>, MkfsReport) {
    let mut image = Vec::new();
    let report = build(&tree(), options, &mut image, &NoProgress).unwrap();
    assert_eq!(report.image_bytes, image.len() as u64);
    (image, report)
}

fn options(order: ByteOrder) -> MkfsOptions {
    MkfsOptions { order, verify: true, ..MkfsOptions::new(16_384) }
}

fn manifest(fs: &dyn FileSystem) -> Vec<String> {
    let lines = manifest_of(fs, &mut |_, error| panic!("{error}"));
    // Directories have sizes and link counts of the file system's own.
    let shown = lines.iter().map(|line| {
        let text = line.to_string();
        let keep = |word: &&str| {
            !(text.contains(" d ") && (word.starts_with("size=") || word.starts_with("nlink=")))
        };
        text.split(' ').filter(keep).collect::<Vec<_>>().join(" ")
    });
    shown.collect()
}

fn read(image: &[u8]) -> Vec<String> {
    let source = Source::Image(Arc::new(image.to_vec()));
    let (fs, findings) = Jffs2::open(source, &OpenOptions::default()).unwrap();
    assert!(!findings.has_problems(), "{:?}", findings.iter().next());
    let lines = manifest(&fs);
    assert!(fs.late_findings().is_empty());
    lines
}

#[test]
fn every_kind_of_image_holds_the_tree() {
    let expected = manifest(&MemoryFs::new(tree()));
    for order in ByteOrder::ALL {
        let (image, report) = make(&options(order));
        assert_eq!(read(&image), expected);
        assert_eq!(report.inodes, 25);
        let some = MkfsOptions { summary: true, cleanmarker: 0, ..options(order) };
        let (image, report) = make(&some);
        assert_eq!(read(&image), expected);
        assert_eq!(report.nodes.summaries + 1, report.blocks.into());
        for (mode, one) in [
            (CompressionMode::Size, Compressor::Lzo),
            (CompressionMode::FavourLzo, Compressor::Lzo),
            (CompressionMode::Priority, Compressor::Lzo),
            (CompressionMode::None, Compressor::Zlib),
        ] {
            let mut some = MkfsOptions { page_size: 1024, ..options(order) };
            some.compression.mode = mode;
            some.compression.compressors.push((one, 80));
            assert_eq!(read(&make(&some).0), expected, "{mode:?}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let base = MkfsOptions { summary: true, ..options(ByteOrder::Little) };
    let (first, _) = make(&base);
    for threads in [1, 3] {
        let some = MkfsOptions { threads: NonZeroUsize::new(threads), ..base.clone() };
        assert!(make(&some).0 == first);
    }
}

/// Blocks are full but for less than a node, data nodes stay in their page, and every summary
/// lists its block.
#[test]
fn nodes_lie_as_linux_wants_them() {
    for summary in [false, true] {
        let some = MkfsOptions { summary, ..options(ByteOrder::Big) };
        let (image, _) = make(&some);
        let blocks: Vec<&[u8]> = image.chunks(16_384).collect();
        let rules =
            ScanRules { order: ByteOrder::Big, cleanmarker: Some(12), trust_empty_start: true };
        for (number, block) in blocks.iter().enumerate() {
            let peb = Peb::new(number as u32);
            let mut listed = 0;
            for item in Scanner::new(peb, block, rules) {
                match item {
                    Item::Node { header, bytes, .. } => match header.kind() {
                        NodeKind::Inode => {
                            listed += 1;
                            let at = eraseblock_base::Location::peb(peb);
                            let inode = decode::inode(ByteOrder::Big, bytes, at).unwrap();
                            let last = inode.offset + inode.dsize.max(1) - 1;
                            let is_hole = inode.compression == 1;
                            assert!(is_hole || inode.offset / 4096 == last / 4096);
                        }
                        NodeKind::Dirent | NodeKind::Xattr | NodeKind::Xref => listed += 1,
                        NodeKind::Summary => {
                            let list = summary::decode(ByteOrder::Big, block, peb).unwrap();
                            assert_eq!(list.records.len(), listed);
                            assert_eq!(list.cleanmarker, 12);
                        }
                        _ => {}
                    },
                    Item::Free { offset } if number + 1 < blocks.len() => {
                        assert!(16_384 - offset < 400, "block {number}: free from {offset}");
                    }
                    Item::Free { .. } | Item::Dirt { expected: true, .. } => {}
                    other => panic!("block {number}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn an_appendage_joins_its_base() {
    let (mut image, _) =
        make(&MkfsOptions { padding: Padding::Block, ..options(ByteOrder::Little) });
    let source = Source::Image(Arc::new(image.clone()));
    let (base, _) = Jffs2::open(source, &OpenOptions::default()).unwrap();
    let mut more = SourceTree::new(SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o700));
    more.add(NodeId::ROOT, b"added", file(b"added".to_vec())).unwrap();
    more.add(NodeId::ROOT, b"zeros", file(b"replaced".to_vec())).unwrap();
    let some = MkfsOptions { base: Some(base.info().highest), ..options(ByteOrder::Little) };
    build(&more, &some, &mut image, &NoProgress).unwrap();
    let (fs, _) = Jffs2::open(Source::Image(Arc::new(image)), &OpenOptions::default()).unwrap();
    let content = |name: &[u8]| {
        let mut buf = [0; 20];
        let len = fs.read(fs.resolve(name).unwrap(), 0, &mut buf).unwrap();
        buf[..len].to_vec()
    };
    assert_eq!(content(b"added"), b"added");
    assert_eq!(content(b"zeros"), b"replaced");
    assert_eq!(content(b"sub/text-1").len(), 1);
    assert_eq!(fs.attr(1).unwrap().permissions, 0o750);
}

#[test]
fn padding_ends_where_it_is_told() {
    let base = options(ByteOrder::Little);
    let (plain, _) = make(&base);
    let whole = plain.len().next_multiple_of(16_384);
    let padded = |padding| make(&MkfsOptions { padding, ..base.clone() }).0;
    assert_eq!(padded(Padding::Block).len(), whole);
    let long = padded(Padding::Size(whole as u64 + 20_000));
    assert_eq!(long.len(), whole + 32_768);
    assert_eq!(long[whole..whole + 4], [0x85, 0x19, 0x03, 0x20]);
    assert!(long[whole + 12..whole + 16_384].iter().all(|byte| *byte == 0xFF));
    assert_eq!(padded(Padding::Size(100)).len(), plain.len());
    let limit = MkfsOptions { limit: Some(100_000), ..base };
    let error = build(&tree(), &limit, &mut Vec::new(), &NoProgress).unwrap_err();
    assert!(matches!(error, MkfsError::TooLarge { limit: 100_000 }));
}

#[test]
fn summaries_are_added_later() {
    let (image, _) = make(&options(ByteOrder::Big));
    let wanted = SummaryOptions { block_size: 8192, order: None, cleanmarker: 12, pad: true };
    let mut packed = Vec::new();
    let source = Source::Image(Arc::new(image.clone()));
    let (report, findings) = summarise(&source, &wanted, &mut packed).unwrap();
    assert!(findings.is_empty());
    assert_eq!((report.order, packed.len() % 8192), (ByteOrder::Big, 0));
    assert_eq!(report.summaries, packed.len() as u64 / 8192 - 1);
    assert_eq!(read(&packed), read(&image));
    // A damaged node is left out and reported.
    let mut damaged = image;
    damaged[16_384 + 200] ^= 1;
    let source = Source::Image(Arc::new(damaged));
    let (less, findings) = summarise(&source, &wanted, &mut Vec::new()).unwrap();
    assert!(less.nodes < report.nodes && !findings.is_empty());
    let nothing = Source::Image(Arc::new(vec![0xFF; 9000]));
    assert!(matches!(summarise(&nothing, &wanted, &mut Vec::new()), Err(MkfsError::Shape(_))));
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let refused = |name: &[u8], node: SourceNode| {
        let mut tree = SourceTree::new(dir());
        tree.add(NodeId::ROOT, name, node).unwrap();
        match build(&tree, &options(ByteOrder::Little), &mut Vec::new(), &NoProgress) {
            Err(MkfsError::Node { path, problem }) => {
                assert_eq!(path, name);
                problem
            }
            other => panic!("{other:?}"),
        }
    };
    let link = |len| SourceNode::new(SourceKind::Symlink(vec![b'x'; len]), 0o777);
    assert_eq!(refused(&[b'n'; 255], file(Vec::new())), NodeProblem::Name(255));
    assert_eq!(refused(b"a", link(255)), NodeProblem::Target(255));
    assert_eq!(refused(b"a", link(0)), NodeProblem::Target(0));
    let device = SourceNode::new(SourceKind::CharDevice(4096, 0), 0);
    assert_eq!(refused(b"a", device), NodeProblem::Device(4096, 0));
    let mut owned = file(Vec::new());
    owned.uid = 65_536;
    assert_eq!(refused(b"a", owned), NodeProblem::Owner(65_536, 0));
    let with = |name: &[u8], len| {
        let mut node = file(Vec::new());
        node.xattrs = vec![(name.to_vec(), vec![0; len])];
        refused(b"a", node)
    };
    assert_eq!(with(b"system.other", 1), NodeProblem::AttributeName("system.other".into()));
    assert_eq!(with(b"user.big", 16_384), NodeProblem::AttributeValue("big".into(), 16_384));
    let acl = b"system.posix_acl_access";
    assert_eq!(with(acl, 3), NodeProblem::Acl("system.posix_acl_access".into()));
}

#[test]
fn options_have_ranges() {
    let refused = |some: MkfsOptions| {
        let error = build(&tree(), &some, &mut Vec::new(), &NoProgress).unwrap_err();
        assert!(matches!(error, MkfsError::Option { .. }), "{error}");
    };
    let base = options(ByteOrder::Little);
    for block_size in [4096, 8194, 128 << 20] {
        refused(MkfsOptions { block_size, ..base.clone() });
    }
    for page_size in [128, 1000, 131_072] {
        refused(MkfsOptions { page_size, ..base.clone() });
    }
    refused(MkfsOptions { cleanmarker: 8, ..base.clone() });
    let mut level = base;
    level.compression.zlib_level = 13;
    refused(level);
}
