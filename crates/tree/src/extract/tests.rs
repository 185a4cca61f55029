//! Extraction: round trips, damage, and malicious images and destinations.

use super::*;
use crate::dir::{self, ReadOptions};
use crate::draft::directory;
use crate::testing::{AS_ROOT, EVERYTHING, listing, shell};
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{SourceKind, SourceNode, SourceTree, StatFs};
use eraseblock_vfs_testkit::MemoryFs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

fn quiet(_: Progress) {}

fn extract(fs: &dyn FileSystem, dest: &Path, options: &ExtractOptions) -> ExtractReport {
    to_dir(fs, fs.root(), dest, options, &quiet).unwrap()
}

fn read(path: &Path) -> SourceTree {
    dir::read(path, &ReadOptions::default()).unwrap().0
}

fn file(text: &[u8]) -> SourceNode {
    SourceNode::new(SourceKind::Regular(Arc::new(text.to_vec())), 0o644)
}

fn codes(report: &ExtractReport) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.code.name()).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_folder_survives_the_round_trip() {
    let temp = tempfile::tempdir().unwrap();
    let (source, dest) = (temp.path().join("source"), temp.path().join("dest"));
    std::fs::create_dir(&source).unwrap();
    shell(&source, EVERYTHING);
    rustix::fs::setxattr(source.join("big"), "user.x", b"y\0z", rustix::fs::XattrFlags::empty())
        .unwrap();
    if is_root() {
        shell(&source, AS_ROOT);
    }
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let tree = read(&source);
    let fs = MemoryFs::new(tree.clone());
    let report = extract(&fs, &dest, &ExtractOptions::default());
    assert!(!report.findings.has_problems(), "{:?}", report.findings);
    assert_eq!(listing(&tree, false), listing(&read(&dest), false));
    assert_eq!((report.files, report.hard_links, report.symlinks), (5, 2, 2));
    assert_eq!((report.directories, report.left_out), (5, 0));
    let hole = std::fs::metadata(dest.join("hole")).unwrap();
    assert!(hole.blocks() * 512 < 100_000, "{} sectors", hole.blocks());
    // Equal sources give equal trees, including numbers.
    let kinds = |tree: &SourceTree| tree.nodes().map(|(_, n)| n.file_kind()).collect::<Vec<_>>();
    assert_eq!(kinds(&tree), kinds(&read(&dest)));
}

#[test]
fn progress_counts_everything() {
    let mut tree = SourceTree::new(directory(0o755));
    for name in [b"a", b"b", b"c"] {
        tree.add(NodeId::ROOT, name, file(b"12345")).unwrap();
    }
    let temp = tempfile::tempdir().unwrap();
    let last = Mutex::new(Progress { entries: 0, bytes: 0 });
    let fs = MemoryFs::new(tree);
    let note = |progress: Progress| {
        let mut last = last.lock().unwrap();
        if progress.entries > last.entries {
            *last = progress;
        }
    };
    to_dir(&fs, 1, temp.path(), &ExtractOptions::default(), &note).unwrap();
    assert_eq!(*last.lock().unwrap(), Progress { entries: 3, bytes: 15 });
}

#[test]
fn many_directories_do_not_run_out_of_descriptors() {
    let mut tree = SourceTree::new(directory(0o755));
    for index in 0..1100 {
        let name = format!("d{index}");
        let dir = tree.add(NodeId::ROOT, name.as_bytes(), directory(0o555)).unwrap();
        let f = tree.add(dir, b"f", file(name.as_bytes())).unwrap();
        tree.link(NodeId::ROOT, format!("z{index}").as_bytes(), f).unwrap();
    }
    let mut deep = NodeId::ROOT;
    for _ in 0..300 {
        deep = tree.add(deep, b"deep", directory(0o755)).unwrap();
    }
    // This many directories take seconds on a disk.
    let memory = Path::new("/dev/shm");
    let temp = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let fs = MemoryFs::new(tree);
    let report = extract(&fs, temp.path(), &ExtractOptions::default());
    assert!(!report.findings.has_problems(), "{:?}", report.findings);
    assert_eq!((report.directories, report.hard_links), (1401, 1100));
    assert_eq!(listing(fs.tree(), false), listing(&read(temp.path()), false));
}

#[test]
fn occupied_destinations_need_force() {
    let temp = tempfile::tempdir().unwrap();
    let dest = temp.path().join("dest");
    let outside = temp.path().join("outside");
    std::fs::create_dir_all(dest.join("stays/within")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("victim"), b"unharmed").unwrap();
    std::fs::write(dest.join("plain"), b"old").unwrap();
    // Planted links: writing a directory, a file or a link would go through them.
    for (name, target) in [("dir", "../outside"), ("file", "../outside/victim"), ("l", "plain")] {
        std::os::unix::fs::symlink(target, dest.join(name)).unwrap();
    }
    let mut tree = SourceTree::new(directory(0o755));
    let dir = tree.add(NodeId::ROOT, b"dir", directory(0o755)).unwrap();
    tree.add(dir, b"victim", file(b"evil")).unwrap();
    for name in [&b"file"[..], b"plain", b"stays"] {
        tree.add(NodeId::ROOT, name, file(b"new")).unwrap();
    }
    let link = SourceNode::new(SourceKind::Symlink(b"target".to_vec()), 0o777);
    tree.add(NodeId::ROOT, b"l", link).unwrap();
    let fs = MemoryFs::new(tree);
    let options = ExtractOptions::default();
    let error = to_dir(&fs, 1, &dest, &options, &quiet).unwrap_err();
    assert!(matches!(error, TreeError::DestinationNotEmpty { .. }), "{error}");
    let report = extract(&fs, &dest, &ExtractOptions { force: true, ..options });
    // Only the directory that has the name of a file is not removed.
    assert_eq!(codes(&report), ["host-refused"]);
    assert_eq!(report.left_out, 1);
    assert!(dest.join("stays/within").is_dir());
    assert_eq!(std::fs::read(outside.join("victim")).unwrap(), b"unharmed");
    assert_eq!(std::fs::read(dest.join("dir/victim")).unwrap(), b"evil");
    assert!(!dest.join("dir").is_symlink() && !dest.join("file").is_symlink());
    assert_eq!(std::fs::read(dest.join("plain")).unwrap(), b"new");
    assert_eq!(std::fs::read_link(dest.join("l")).unwrap(), Path::new("target"));
}

#[test]
fn a_file_is_no_top() {
    let mut tree = SourceTree::new(directory(0o755));
    tree.add(NodeId::ROOT, b"f", file(b"")).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let options = ExtractOptions::default();
    let fs = MemoryFs::new(tree);
    assert!(to_dir(&fs, 2, &temp.path().join("x"), &options, &quiet).is_err());
    assert!(!temp.path().join("x").exists());
}

#[test]
fn set_id_bits_go_with_the_owner() {
    let mut tree = SourceTree::new(directory(0o755));
    let mut suid = file(b"");
    (suid.permissions, suid.uid) = (0o6755, 4321);
    tree.add(NodeId::ROOT, b"f", suid).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let options = ExtractOptions { owners: Owners::Skip, ..ExtractOptions::default() };
    let report = extract(&MemoryFs::new(tree), temp.path(), &options);
    assert_eq!(codes(&report), ["owners-not-kept", "set-id-dropped"]);
    let metadata = std::fs::metadata(temp.path().join("f")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o755);
    assert_ne!(metadata.uid(), 4321);
}

#[test]
fn refused_attributes_are_counted() {
    let mut tree = SourceTree::new(directory(0o755));
    for name in [b"a", b"b"] {
        let mut node = SourceNode::new(SourceKind::Fifo, 0o644);
        // Linux does not store user attributes of fifos.
        node.xattrs.push((b"user.x".to_vec(), b"1".to_vec()));
        tree.add(NodeId::ROOT, name, node).unwrap();
    }
    let temp = tempfile::tempdir().unwrap();
    let report = extract(&MemoryFs::new(tree), temp.path(), &ExtractOptions::default());
    let last = report.findings.iter().last().unwrap();
    assert_eq!(last.code, "xattrs-refused");
    assert!(last.message.starts_with("2 extended attributes"), "{last}");
}

/// A file system with damage where the test requires it.
#[derive(Debug)]
struct Damaged {
    fs: MemoryFs,
    /// Reads of these bytes of any file fail.
    bad: std::ops::Range<u64>,
    /// Holes are not reported.
    blind: bool,
    /// Additional entries of directory 1.
    extra: Vec<DirEntry>,
    /// Lengths are reported too large by this.
    longer: u64,
}

impl Damaged {
    fn new(fs: MemoryFs) -> Self {
        Self { fs, bad: 0..0, blind: false, extra: Vec::new(), longer: 0 }
    }
}

fn broken() -> FsError {
    FsError::new(FsErrorKind::Corrupted, "leb 5:0: CRC mismatch")
}

impl FileSystem for Damaged {
    fn root(&self) -> Ino {
        1
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.fs.lookup(dir, name)
    }
    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let mut attr = self.fs.attr(ino)?;
        attr.size += self.longer;
        Ok(attr)
    }
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        self.fs.read_dir(dir, cookie, sink)?;
        if dir == 1 {
            for entry in &self.extra {
                let _ = sink(entry.clone());
            }
        }
        Ok(())
    }
    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.fs.read_link(ino)
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        if offset < self.bad.end && offset + buf.len() as u64 > self.bad.start {
            return Err(broken());
        }
        self.fs.read(ino, offset, buf)
    }
    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        if self.blind { Err(broken()) } else { Ok(Some(offset).filter(|_| ino > 0)) }
    }
    fn seek_hole(&self, ino: Ino, _: u64) -> Result<u64, FsError> {
        Ok(self.attr(ino)?.size)
    }
    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.fs.list_xattrs(ino)
    }
    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.fs.xattr(ino, name)
    }
    fn stat_fs(&self) -> Result<StatFs, FsError> {
        self.fs.stat_fs()
    }
}

fn one_big_file() -> Damaged {
    let mut tree = SourceTree::new(directory(0o755));
    let f = tree.add(NodeId::ROOT, b"big", file(&vec![b'x'; 600_000])).unwrap();
    tree.link(NodeId::ROOT, b"zlink", f).unwrap();
    tree.add(NodeId::ROOT, b"ok", file(b"fine")).unwrap();
    Damaged::new(MemoryFs::new(tree))
}

#[test]
fn damaged_files_are_left_out_with_their_links() {
    let fs = Damaged { bad: 300_000..300_001, ..one_big_file() };
    let temp = tempfile::tempdir().unwrap();
    let report = extract(&fs, temp.path(), &ExtractOptions::default());
    assert_eq!(codes(&report), ["file-unreadable", "link-left-out"]);
    assert_eq!((report.left_out, report.files), (2, 1));
    assert!(!temp.path().join("big").exists() && !temp.path().join("zlink").exists());
    assert_eq!(std::fs::read(temp.path().join("ok")).unwrap(), b"fine");
}

#[test]
fn damaged_files_are_kept_with_zeros_if_wanted() {
    for blind in [false, true] {
        let fs = Damaged { bad: 299_000..303_000, blind, ..one_big_file() };
        let temp = tempfile::tempdir().unwrap();
        let options = ExtractOptions { keep_damaged: true, ..ExtractOptions::default() };
        let report = extract(&fs, temp.path(), &options);
        assert_eq!(codes(&report), ["file-damaged"]);
        assert_eq!((report.damaged, report.left_out, report.hard_links), (1, 0, 1));
        let message = &report.findings.iter().next().unwrap().message;
        assert!(message.contains("bytes 294912..303104 could not"), "{message}");
        let mut expected = vec![b'x'; 600_000];
        expected[294_912..303_104].fill(0);
        assert_eq!(std::fs::read(temp.path().join("big")).unwrap(), expected);
    }
}

#[test]
fn a_scrub_names_what_extract_would_leave_out() {
    for blind in [false, true] {
        let fs = Damaged { bad: 299_000..303_000, blind, ..one_big_file() };
        let findings = crate::scrub::scrub(&fs, &|_| {});
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let expected =
            "error: inode 2: big: bytes 294912 to 303104 are lost: leb 5:0: CRC mismatch";
        assert_eq!(found, [format!("{expected} [content-lost]")]);
    }
    let fs = Damaged { longer: 5, ..one_big_file() };
    let findings = crate::scrub::scrub(&fs, &|_| {});
    let found: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("big: bytes 600000 to 600005: the content ends"), "{found:?}");
    assert!(crate::scrub::scrub(&one_big_file(), &|_| {}).is_empty());
}

#[test]
fn contents_shorter_than_told_are_damaged() {
    let fs = Damaged { longer: 1 << 40, ..one_big_file() };
    let temp = tempfile::tempdir().unwrap();
    let report = extract(&fs, temp.path(), &ExtractOptions::default());
    assert_eq!(codes(&report), ["file-unreadable", "file-unreadable", "link-left-out"]);
    let options = ExtractOptions { keep_damaged: true, force: true, ..ExtractOptions::default() };
    let report = extract(&fs, temp.path(), &options);
    assert_eq!(codes(&report), ["file-damaged", "file-damaged"]);
    assert_eq!(std::fs::metadata(temp.path().join("ok")).unwrap().len(), (1 << 40) + 4);
}

#[test]
fn endless_damage_ends() {
    let fs = Damaged { longer: 1 << 60, blind: true, bad: 0..u64::MAX, ..one_big_file() };
    let mut reader = copy::DataReader::new(&fs, 2, 1 << 60).keep_damaged(true);
    assert!(reader.next(&mut vec![0; CHUNK]).unwrap().is_none());
    assert_eq!(reader.damage, [(0, 1 << 60)]);
}

#[test]
fn names_from_the_image_cannot_leave() {
    let temp = tempfile::tempdir().unwrap();
    let dest = temp.path().join("dest");
    let mut fs = one_big_file();
    let names = [&b".."[..], b".", b"", b"../evil", b"/tmp/evil", b"a/b", b"nul\0", &[b'n'; 256]];
    for (name, cookie) in names.iter().zip(100..) {
        for kind in [FileKind::Directory, FileKind::Regular] {
            let ino = if kind == FileKind::Directory { 1 } else { 2 };
            fs.extra.push(DirEntry { name: name.to_vec(), ino, kind, cookie });
        }
    }
    let report = extract(&fs, &dest, &ExtractOptions::default());
    assert_eq!(codes(&report), ["unsafe-name"; 16]);
    let outside: Vec<_> = std::fs::read_dir(temp.path()).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(std::fs::read_dir(&dest).unwrap().count(), 3);
}

#[test]
fn cycles_and_lies_about_kinds_are_found() {
    let mut tree = SourceTree::new(directory(0o755));
    let d = tree.add(NodeId::ROOT, b"d", directory(0o755)).unwrap();
    tree.add(d, b"f", file(b"1")).unwrap();
    let mut fs = Damaged::new(MemoryFs::new(tree));
    let entry = |name: &[u8], ino, kind| DirEntry { name: name.to_vec(), ino, kind, cookie: 9 };
    fs.extra = vec![
        entry(b"again", 2, FileKind::Directory),
        entry(b"cycle", 1, FileKind::Directory),
        entry(b"liar", 3, FileKind::Directory),
        entry(b"liar2", 2, FileKind::Regular),
        entry(b"missing", 99, FileKind::Regular),
        entry(b"missing2", 99, FileKind::Directory),
    ];
    let temp = tempfile::tempdir().unwrap();
    let report = extract(&fs, temp.path(), &ExtractOptions::default());
    let mut found = codes(&report);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "directory-named-twice",
            "directory-named-twice",
            "inode-unreadable",
            "inode-unreadable",
            "kind-mismatch",
            "kind-mismatch"
        ]
    );
    assert_eq!((report.left_out, report.directories, report.files), (6, 2, 1));
}
