//! Images that are built, and read again.

use super::*;
use crate::layout::DataEcc;
use crate::{OpenOptions, Source, Yaffs};
use eraseblock_vfs::FileSystem;
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::source::SourceNode;
use eraseblock_yaffs_format::ByteOrder;
use std::sync::Arc;

fn layout() -> Layout {
    Layout {
        version: Version::Yaffs2,
        page: 2048,
        spare: 64,
        pages_per_block: 64,
        order: ByteOrder::Little,
        place: TagsPlace::spare(0, true),
        tags_ecc: true,
        data_ecc: DataEcc::None,
    }
}

fn regular(content: Vec<u8>) -> SourceNode {
    SourceNode::new(SourceKind::Regular(Arc::new(content)), 0o644)
}

fn directory() -> SourceNode {
    SourceNode::new(SourceKind::Directory(std::collections::BTreeMap::new()), 0o750)
}

fn tree() -> SourceTree {
    let mut root = directory();
    root.uid = 7;
    root.xattrs = vec![(b"user.r".to_vec(), b"root".to_vec())];
    let mut tree = SourceTree::new(root);
    let sub = tree.add(NodeId::ROOT, b"sub", directory()).unwrap();
    let mut big = regular((0..70_000_u32).map(|byte| (byte / 7) as u8).collect());
    big.mtime = eraseblock_vfs::Timestamp::from_seconds(1 << 33);
    let big = tree.add(sub, b"big", big).unwrap();
    tree.link(NodeId::ROOT, b"again", big).unwrap();
    let sparse = [vec![0; 9000], b"end".to_vec()].concat();
    tree.add(sub, b"sparse", regular(sparse)).unwrap();
    tree.add(sub, b"empty", regular(Vec::new())).unwrap();
    let symlink = SourceNode::new(SourceKind::Symlink(b"sub/big".to_vec()), 0o777);
    tree.add(NodeId::ROOT, b"symlink", symlink).unwrap();
    tree.add(NodeId::ROOT, b"null", SourceNode::new(SourceKind::CharDevice(1, 3), 0o666)).unwrap();
    tree.add(NodeId::ROOT, b"fifo", SourceNode::new(SourceKind::Fifo, 0o600)).unwrap();
    tree
}

fn made(tree: &SourceTree, layout: Layout) -> (Vec<u8>, MkfsReport) {
    let mut out = Vec::new();
    let options = MkfsOptions { layout, most_blocks: None };
    let report = build(tree, &options, &mut out, &|_| {}).unwrap();
    assert_eq!(report.image_bytes, out.len() as u64);
    (out, report)
}

#[test]
fn images_are_found_and_read_in_every_layout() {
    let tree = tree();
    let hamming = |page, spare| {
        let places = DataEcc::usual_places(page, spare).remove(0);
        DataEcc::Hamming { places, is_swapped: false }
    };
    for layout in [
        layout(),
        Layout { place: TagsPlace::spare(2, true), data_ecc: hamming(2048, 64), ..layout() },
        Layout { order: ByteOrder::Big, place: TagsPlace::spare(2, true), ..layout() },
        Layout { place: TagsPlace::InBand, tags_ecc: false, ..layout() },
        Layout { place: TagsPlace::spare(2, false), tags_ecc: false, ..layout() },
        Layout { page: 1024, spare: 32, ..layout() },
    ] {
        let (image, report) = made(&tree, layout.clone());
        assert_eq!(made(&tree, layout.clone()).0, image, "the same bytes again");
        assert_eq!((report.objects, report.content_bytes), (9, 79_003));
        let source = Source::Image(Arc::new(image));
        let (fs, findings) = Yaffs::open(source, &OpenOptions::default()).unwrap();
        assert!(findings.is_empty(), "{:?}", findings.iter().next());
        assert_eq!(fs.info().layout, layout);
        let at = |path: &str| fs.attr(fs.resolve(path.as_bytes()).unwrap()).unwrap();
        let root = at("");
        assert_eq!((root.uid, root.permissions), (7, 0o750));
        assert_eq!(fs.xattr(root.ino, b"user.r").unwrap(), b"root");
        let big = at("sub/big");
        assert_eq!((big.size, big.nlink, big.mtime.seconds), (70_000, 2, 1 << 33));
        assert_eq!(at("again").ino, big.ino);
        let mut content = vec![0; 70_000];
        fs.read(big.ino, 0, &mut content).unwrap();
        assert!((0..70_000_u32).zip(&content).all(|(byte, read)| (byte / 7) as u8 == *read));
        let sparse = at("sub/sparse");
        assert_eq!(fs.read(sparse.ino, 8999, &mut content).unwrap(), 4);
        assert_eq!(content[..4], *b"\0end");
        assert_eq!(
            fs.seek_data(sparse.ino, 0).unwrap(),
            Some(9000 / u64::from(layout.data()) * u64::from(layout.data()))
        );
        assert_eq!(at("sub/empty").size, 0);
        assert_eq!(fs.read_link(at("symlink").ino).unwrap(), b"sub/big");
        assert_eq!((at("null").rdev, at("null").mode()), ((1, 3), 0o020_666));
        assert_eq!(at("fifo").mode(), 0o010_600);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_path() {
    let fails = |name: &[u8], node: SourceNode| {
        let mut tree = SourceTree::new(directory());
        let sub = tree.add(NodeId::ROOT, b"d", directory()).unwrap();
        tree.add(sub, name, node).unwrap();
        let options = MkfsOptions { layout: layout(), most_blocks: None };
        let mut out = Vec::new();
        let error = build(&tree, &options, &mut out, &|_| {}).unwrap_err();
        assert!(out.is_empty(), "written before the failure");
        error.to_string()
    };
    assert!(fails(&[b'n'; 255], regular(Vec::new())).contains("a name of 255 bytes"));
    let symlink = SourceNode::new(SourceKind::Symlink(vec![b't'; 160]), 0o777);
    assert_eq!(fails(b"s", symlink), "`/d/s`: a link target of 160 bytes, expected 1 to 159");
    let device = SourceNode::new(SourceKind::BlockDevice(1, 256), 0o600);
    assert!(fails(b"b", device).contains("device 1:256"));
    let mut attributes = regular(Vec::new());
    attributes.xattrs = vec![(b"user.x".to_vec(), vec![0; 1600])];
    assert!(fails(b"a", attributes).contains("`/d/a`: extended attributes"));
}

#[test]
fn a_limit_of_blocks_and_impossible_layouts_are_refused() {
    let tree = tree();
    let build = |layout, most_blocks| {
        let options = MkfsOptions { layout, most_blocks };
        build(&tree, &options, &mut Vec::new(), &|_| {}).map_err(|error| error.to_string())
    };
    assert_eq!(build(layout(), Some(1)).unwrap().blocks, 1);
    let many = build(Layout { pages_per_block: 16, ..layout() }, Some(2)).unwrap_err();
    assert_eq!(many, "image of more than 2 eraseblocks");
    assert!(build(Layout { page: 512, spare: 32, ..layout() }, None).is_err());
    assert!(build(Layout { spare: 20, ..layout() }, None).is_err());
    assert!(build(Layout { pages_per_block: 0, ..layout() }, None).is_err());
    assert!(build(Layout::small(), None).is_err());
}
