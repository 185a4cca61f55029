//! Images are read back: opened as Linux would mount them and compared with the tree in memory.

use super::*;
use crate::{OpenOptions, Ubifs};
use eraseblock_mtd::LebFile;
use eraseblock_vfs::{DirEntry, FileSystem};
use eraseblock_vfs_testkit::MemoryFs;
use eraseblock_vfs_testkit::manifest::{ManifestLine, manifest_of};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Opens an image strictly; there must be no findings.
fn opened(image: Vec<u8>, options: &MkfsOptions) -> Ubifs {
    let (leb_size, lebs) = (options.layout.leb_size, options.layout.max_leb_cnt);
    let device = LebFile::new(image, leb_size, options.layout.min_io.max(8), Some(lebs)).unwrap();
    let (fs, findings) = Ubifs::open(Arc::new(device), &OpenOptions { strict: true }).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    assert!(fs.info().is_clean && !fs.info().is_rescued);
    fs
}

/// Returns the manifest, with the sizes of directories and devices left out: every file system has
/// its own.
fn manifest(fs: &dyn FileSystem) -> Vec<ManifestLine> {
    let mut lines = manifest_of(fs, &mut |path, error| panic!("{path:?}: {error}"));
    for line in &mut lines {
        line.xattrs.retain(|(name, _)| name != b"user.image-inode-number");
        line.xattrs.sort();
        if !matches!(line.kind, FileKind::Regular | FileKind::Symlink) {
            line.size = 0;
        }
    }
    lines
}

fn assert_reads_back(tree: SourceTree, options: &MkfsOptions) {
    let fs = opened(built(&tree, options).0, options);
    assert_eq!(manifest(&fs), manifest(&MemoryFs::new(tree)));
    assert!(fs.late_findings().is_empty(), "{:?}", fs.late_findings());
}

#[test]
fn a_tree_with_everything_in_it() {
    let favour = Compressor::FavourLzo { percent: 20 };
    let zstd = Compressor::Zstd { level: 3 };
    for compressor in [Compressor::None, Compressor::Lzo, Compressor::Zlib, zstd, favour] {
        for version in [FormatVersion::V4, FormatVersion::V5] {
            assert_reads_back(sample(), &MkfsOptions { compressor, version, ..options() });
        }
    }
    assert_reads_back(SourceTree::new(directory()), &options());
    assert_reads_back(sample(), &MkfsOptions { space_fixup: true, ..options() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_tree(
        tree in any_tree(),
        fanout in 3..20_u32,
        min_io in prop::sample::select(vec![8, 512_u32]),
        big in any::<bool>(),
        test_hash in any::<bool>(),
        is_fifth in any::<bool>(),
    ) {
        let mut options = options();
        options.layout.min_io = min_io;
        options.layout.fanout = fanout;
        options.layout.max_leb_cnt = if big { 6000 } else { 300 };
        options.key_hash = if test_hash { KeyHash::Test } else { KeyHash::R5 };
        options.version = if is_fifth { FormatVersion::V5 } else { FormatVersion::V4 };
        assert_reads_back(tree, &options);
    }
}

/// Lists a directory in pieces, each continued from the cookie of the last entry of the one before.
fn listed_in_pieces(fs: &Ubifs, dir: u64, piece: usize) -> Vec<DirEntry> {
    let mut all: Vec<DirEntry> = Vec::new();
    loop {
        let (before, cookie) = (all.len(), all.last().map_or(0, |entry| entry.cookie));
        fs.read_dir(dir, cookie, &mut |entry| {
            all.push(entry);
            if all.len() - before == piece {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
        if all.len() == before {
            return all;
        }
    }
}

/// Returns a directory of `names`, all of them names of one inode of its own kind each.
fn with_names(names: impl Iterator<Item = String>, options: &MkfsOptions) -> Ubifs {
    let mut tree = SourceTree::new(directory());
    let fifo = || SourceNode::new(SourceKind::Fifo, 0o600);
    for name in names {
        tree.add(NodeId::ROOT, name.as_bytes(), fifo()).unwrap();
    }
    opened(built(&tree, options).0, options)
}

#[test]
fn a_directory_of_100000_entries_lists_in_linear_time() {
    const COUNT: usize = 100_000;
    let mut options = MkfsOptions::new(126_976, 2048, 600);
    options.layout.fanout = 8;
    let fs = with_names((0..COUNT).map(|number| format!("entry-{number:06}")), &options);
    let started = Instant::now();
    let all = fs.entries(1).unwrap();
    let whole = started.elapsed();
    assert_eq!(all.len(), COUNT);
    assert_eq!(all.iter().map(|entry| &entry.name).collect::<HashSet<_>>().len(), COUNT);
    assert_eq!(all.iter().map(|entry| entry.cookie).collect::<HashSet<_>>().len(), COUNT);
    let started = Instant::now();
    assert_eq!(listed_in_pieces(&fs, 1, 100), all, "pieces are the whole");
    let in_pieces = started.elapsed();
    // A listing that restarted for each piece would take 500 times as long.
    assert!(in_pieces < 20 * whole + Duration::from_secs(1), "{in_pieces:?} and {whole:?}");
    for entry in all.iter().step_by(97) {
        assert_eq!(fs.lookup(1, &entry.name).unwrap(), entry.ino);
    }
    assert!(fs.lookup(1, b"entry-100000").is_err());
}

/// With the test hash, names that begin with the same four bytes collide.
#[test]
fn names_that_collide_over_many_index_nodes_are_told_apart() {
    for version in [FormatVersion::V4, FormatVersion::V5] {
        let mut options = MkfsOptions { key_hash: KeyHash::Test, version, ..options() };
        options.layout.fanout = 4;
        let name = |number| format!("same{number:03}");
        let others = ["aaaa", "same", "samf", "zzzz"].map(str::to_owned);
        let fs = with_names((0..300).map(name).chain(others.clone()), &options);
        let all = fs.entries(1).unwrap();
        assert_eq!(all.len(), 304);
        for piece in [1, 7, 303] {
            assert_eq!(listed_in_pieces(&fs, 1, piece), all, "pieces of {piece}");
        }
        for name in (0..300).map(name).chain(others) {
            let ino = fs.lookup(1, name.as_bytes()).unwrap();
            let entry = all.iter().find(|entry| entry.name == name.as_bytes()).unwrap();
            assert_eq!(ino, entry.ino);
        }
        assert!(fs.lookup(1, b"same300").is_err());
    }
}

#[test]
fn a_large_hole_reads_as_zeros_and_is_skipped() {
    let mut content = vec![0; 64 << 20];
    content[40 << 20] = 1;
    let mut tree = SourceTree::new(directory());
    tree.add(NodeId::ROOT, b"sparse", file(content.clone())).unwrap();
    let fs = opened(built(&tree, &options()).0, &options());
    let ino = fs.lookup(1, b"sparse").unwrap();
    let mut read = vec![9; content.len()];
    assert_eq!(fs.read(ino, 0, &mut read).unwrap(), content.len());
    assert!(read == content);
    assert_eq!(fs.seek_data(ino, 0).unwrap(), Some(40 << 20));
    assert_eq!(fs.seek_hole(ino, 40 << 20).unwrap(), (40 << 20) + 4096);
    assert_eq!(fs.seek_data(ino, (40 << 20) + 4096).unwrap(), None);
}
