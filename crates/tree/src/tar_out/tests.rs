//! Written archives, read back by this crate and by GNU tar; damage during reading.

use super::*;
use crate::dir::{self, ReadOptions};
use crate::draft::directory;
use crate::testing::{AS_ROOT, EVERYTHING, listing, shell};
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{Content, SourceKind, SourceNode, SourceTree, Timestamp};
use eraseblock_vfs_testkit::MemoryFs;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn archive(fs: &MemoryFs, options: &TarOptions) -> (Vec<u8>, ExtractReport) {
    let mut bytes = Vec::new();
    let report = write(fs, fs.root(), &mut bytes, options).unwrap();
    (bytes, report)
}

fn read_back(bytes: &[u8]) -> SourceTree {
    let (tree, findings) = crate::tar::read_stream(Box::new(Cursor::new(bytes.to_vec()))).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    tree
}

fn everything(dir: &Path) -> SourceTree {
    shell(dir, EVERYTHING);
    rustix::fs::setxattr(dir.join("big"), "user.x", b"y\n=\0z", rustix::fs::XattrFlags::empty())
        .unwrap();
    if rustix::process::geteuid().is_root() {
        shell(dir, AS_ROOT);
    }
    dir::read(dir, &ReadOptions::default()).unwrap().0
}

#[test]
fn what_is_written_can_be_read() {
    let temp = tempfile::tempdir().unwrap();
    let mut tree = everything(temp.path());
    let mut odd = SourceNode::new(SourceKind::Fifo, 0o600);
    (odd.uid, odd.gid) = (u32::MAX - 1, 0o10_000_000);
    odd.mtime = Timestamp { seconds: -5, nanoseconds: 20 };
    tree.add(NodeId::ROOT, b"odd", odd.clone()).unwrap();
    odd.mtime = Timestamp::from_seconds(1 << 40);
    odd.kind = SourceKind::Symlink(vec![b'l'; 300]);
    tree.add(NodeId::ROOT, b"odd2", odd).unwrap();
    let fs = MemoryFs::new(tree);
    for sparse in [false, true] {
        let (bytes, report) = archive(&fs, &TarOptions { sparse, ..TarOptions::default() });
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!((report.files, report.hard_links, report.directories), (5, 2, 5));
        assert_eq!(bytes.len() < 1_000_000, sparse);
        assert_eq!(listing(fs.tree(), false), listing(&read_back(&bytes), false));
        assert_eq!(archive(&fs, &TarOptions { sparse, ..TarOptions::default() }).0, bytes);
    }
}

#[test]
fn gnu_tar_extracts_it() {
    let temp = tempfile::tempdir().unwrap();
    let (source, dest) = (temp.path().join("s"), temp.path().join("d"));
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(&dest).unwrap();
    let fs = MemoryFs::new(everything(&source));
    for sparse in [false, true] {
        let (bytes, _) = archive(&fs, &TarOptions { sparse, ..TarOptions::default() });
        std::fs::write(temp.path().join("t"), bytes).unwrap();
        shell(&dest, "rm -rf ./*; tar -xpf ../t --xattrs --xattrs-include='*'");
        let got = dir::read(&dest, &ReadOptions::default()).unwrap().0;
        assert_eq!(listing(fs.tree(), false), listing(&got, false));
    }
}

#[test]
fn sockets_are_left_out() {
    let mut tree = SourceTree::new(directory(0o755));
    tree.add(NodeId::ROOT, b"s", SourceNode::new(SourceKind::Socket, 0o755)).unwrap();
    let device = SourceKind::CharDevice(0o10_000_000, 0);
    tree.add(NodeId::ROOT, b"c", SourceNode::new(device, 0o755)).unwrap();
    let (bytes, report) = archive(&MemoryFs::new(tree), &TarOptions::default());
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code.name()).collect();
    assert_eq!(codes, ["device-left-out", "socket-left-out"]);
    assert_eq!(read_back(&bytes).len(), 1);
}

/// A content that fails at 4096 after this many opens.
#[derive(Debug)]
struct Failing {
    size: u64,
    reads_left: AtomicU64,
}

impl Content for Failing {
    fn size(&self) -> u64 {
        self.size
    }
    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Err(io::Error::other("not here"))
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(usize::try_from(self.size.saturating_sub(offset)).unwrap());
        buf[..len].fill(b'x');
        let crosses = offset < 8192 && offset + len as u64 > 4096;
        let left = self.reads_left.load(Ordering::Relaxed);
        if crosses && left == 0 {
            return Err(io::Error::other("leb 5:0: CRC mismatch"));
        }
        self.reads_left.store(left - u64::from(crosses), Ordering::Relaxed);
        Ok(len)
    }
}

fn with_failing(size: u64, reads: u64) -> MemoryFs {
    let mut tree = SourceTree::new(directory(0o755));
    let content = Failing { size, reads_left: AtomicU64::new(reads) };
    let node = SourceNode::new(SourceKind::Regular(Arc::new(content)), 0o644);
    let f = tree.add(NodeId::ROOT, b"bad", node).unwrap();
    tree.link(NodeId::ROOT, b"bad2", f).unwrap();
    let good = SourceKind::Regular(Arc::new(b"fine".to_vec()));
    tree.add(NodeId::ROOT, b"good", SourceNode::new(good, 0o644)).unwrap();
    MemoryFs::new(tree)
}

#[test]
fn damaged_files_are_left_out() {
    for size in [20_000, 3_000_000] {
        let (bytes, report) = archive(&with_failing(size, 0), &TarOptions::default());
        assert_eq!((report.left_out, report.files, report.damaged), (2, 1, 0));
        let tree = read_back(&bytes);
        assert_eq!(tree.len(), 2);
        assert!(tree.lookup(NodeId::ROOT, b"good").is_some());
    }
}

#[test]
fn damaged_files_are_kept_with_zeros_if_wanted() {
    for size in [20_000_usize, 3_000_000] {
        let options = TarOptions { keep_damaged: true, ..TarOptions::default() };
        let (bytes, report) = archive(&with_failing(size as u64, 0), &options);
        assert_eq!((report.left_out, report.files, report.damaged), (0, 2, 1));
        let message = &report.findings.iter().next().unwrap().message;
        assert!(message.contains("bytes 4096..8192 could not"), "{message}");
        let tree = read_back(&bytes);
        let bad = tree.lookup(NodeId::ROOT, b"bad").unwrap();
        assert_eq!(tree.lookup(NodeId::ROOT, b"bad2"), Some(bad));
        let SourceKind::Regular(content) = &tree.node(bad).kind else { panic!("a file") };
        let mut found = vec![0; size];
        assert_eq!(content.read_at(0, &mut found).unwrap(), size);
        let mut expected = vec![b'x'; size];
        expected[4096..8192].fill(0);
        assert!(found == expected);
    }
}

#[test]
fn damage_that_appears_between_two_readings_is_told() {
    // The model finds holes by reading: once for the map, once to check, once to write. The check
    // adds one read, and the fifth fails.
    let (bytes, report) = archive(&with_failing(3_000_000, 4), &TarOptions::default());
    assert_eq!((report.left_out, report.files, report.damaged), (0, 2, 1));
    assert_eq!(read_back(&bytes).len(), 3);
}

#[test]
fn an_archive_that_cannot_be_written_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let fs = MemoryFs::new(SourceTree::new(directory(0o755)));
    let error = write(&fs, 1, &mut Full, &TarOptions::default()).unwrap_err();
    assert_eq!(error.class(), eraseblock_base::ErrorClass::NoSpace);
}
