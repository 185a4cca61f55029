//! Images that we make.

use eraseblock_axfs::Axfs;
use eraseblock_axfs::mkfs::{MkfsError, MkfsOptions, MkfsReport, build};
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode, SourceTree};
use eraseblock_vfs::{FileKind, FileSystem};
use std::sync::Arc;

/// Bytes that do not get smaller.
fn noise(len: usize) -> Vec<u8> {
    let mut random = eraseblock_base::random::SplitMix64::new(len as u64);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| b"0123456789\n"[at % 11]).collect()
}

pub(crate) fn tree() -> SourceTree {
    let dir = || SourceNode::new(SourceKind::Directory([].into()), 0o755);
    let file = |bytes: Vec<u8>| {
        let mut node = SourceNode::new(SourceKind::Regular(Arc::new(bytes)), 0o640);
        (node.uid, node.gid) = (1000, 100);
        node
    };
    let mut tree = SourceTree::new(dir());
    let bin = tree.add(NodeId::ROOT, b"bin", dir()).unwrap();
    tree.add(NodeId::ROOT, b"empty", dir()).unwrap();
    tree.add(bin, b"tool", file(noise(10_000))).unwrap();
    let text = tree.add(bin, b"text", file(text(20_000))).unwrap();
    tree.link(bin, b"again", text).unwrap();
    tree.add(bin, b"nothing", file(Vec::new())).unwrap();
    tree.add(bin, b"whole", file(noise(8192))).unwrap();
    let link = SourceNode::new(SourceKind::Symlink(b"bin/tool".to_vec()), 0o777);
    tree.add(NodeId::ROOT, b"link", link).unwrap();
    tree.add(NodeId::ROOT, b"tty", SourceNode::new(SourceKind::CharDevice(5, 1), 0o600)).unwrap();
    tree.add(NodeId::ROOT, b"fifo", SourceNode::new(SourceKind::Fifo, 0o600)).unwrap();
    tree
}

pub(crate) fn make(xip: &[&str]) -> (Vec<u8>, MkfsReport) {
    let xip = xip.iter().map(|path| path.as_bytes().to_vec()).collect();
    let (options, mut image) = (MkfsOptions { xip, time: 7 }, Vec::new());
    let report = build(&tree(), &options, &mut image, &|_| {}).unwrap();
    (image, report)
}

fn content(fs: &Axfs, path: &str) -> Vec<u8> {
    let ino = fs.resolve(path.as_bytes()).unwrap();
    let mut bytes = vec![1; fs.attr(ino).unwrap().size as usize];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[test]
fn images_are_read_back() {
    for xip in [&[][..], &["/bin/tool"], &["bin/whole", "./bin/text"]] {
        let (image, report) = make(xip);
        assert_eq!(report.image_bytes, image.len() as u64);
        assert_eq!((report.inodes, report.copies, image.len() % 4096), (11, 1, 0));
        let (fs, findings) = Axfs::open(Arc::new(image.clone())).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(content(&fs, "bin/tool"), noise(10_000));
        assert_eq!(content(&fs, "bin/whole"), noise(8192));
        assert_eq!(content(&fs, "bin/again"), text(20_000));
        assert_eq!(content(&fs, "bin/text"), text(20_000));
        assert!(content(&fs, "bin/nothing").is_empty());
        assert_eq!(fs.read_link(fs.resolve(b"link").unwrap()).unwrap(), b"bin/tool");
        let tty = fs.attr(fs.resolve(b"tty").unwrap()).unwrap();
        assert_eq!((tty.kind, tty.rdev, tty.permissions), (FileKind::CharDevice, (5, 1), 0o600));
        let tool = fs.attr(fs.resolve(b"bin/tool").unwrap()).unwrap();
        assert_eq!((tool.uid, tool.gid, tool.mtime.seconds), (1000, 100, 7));
        assert!(fs.entries(fs.resolve(b"empty").unwrap()).unwrap().is_empty());
        let names: Vec<Vec<u8>> = fs.entries(1).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, [&b"bin"[..], b"empty", b"fifo", b"link", b"tty"]);
        assert_eq!(make(xip).0, image, "not reproducible");
    }
}

#[test]
fn whole_pages_of_chosen_files_are_on_page_boundaries() {
    let (image, report) = make(&["bin/tool"]);
    assert_eq!(report.xip_pages, 2);
    let whole = noise(10_000);
    for page in 0..2 {
        let found = image.chunks(4096).filter(|it| *it == &whole[page * 4096..][..4096]).count();
        assert_eq!(found, 1);
    }
    // The short last page of it, three of what does not get smaller, and short texts.
    assert!(report.byte_aligned_pages >= 3 && report.compressed_pages >= 10, "{report:?}");
}

#[test]
fn what_axfs_cannot_store_is_refused() {
    let fails = |tree: &SourceTree, xip: &[u8]| {
        let options = MkfsOptions { xip: vec![xip.to_vec()], time: 0 };
        let mut out = Vec::new();
        let error = build(tree, &options, &mut out, &|_| {}).unwrap_err();
        assert!(out.is_empty());
        error
    };
    for path in ["/none", "bin", "link"] {
        let error = fails(&tree(), path.as_bytes());
        assert!(matches!(error, MkfsError::NotAFile { .. }), "{error}");
    }
    let mut large = tree();
    let node = SourceNode::new(SourceKind::BlockDevice(259, 1), 0o600);
    large.add(NodeId::ROOT, b"disk", node).unwrap();
    let text = fails(&large, b"bin/tool").to_string();
    assert_eq!(text, "`/disk`: device 259:1, expected at most 255:255");
}
