//! Images of `mksquashfs`, whole and damaged. Where it is not installed, nothing is tested.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use eraseblock_squashfs::Squashfs;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{FileKind, FileSystem, FsErrorKind};
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const COMPRESSORS: [&str; 6] = ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// A small tree: files of several blocks, ends in fragments, a hole, links and many names.
fn tree(top: &Path) {
    fs::create_dir_all(top.join("d/e")).unwrap();
    let lines = "lines of a file, one like the other\n".repeat(1300);
    fs::write(top.join("lines"), &lines).unwrap();
    let mut sparse = vec![0; 300_000];
    sparse.extend(b"end");
    fs::write(top.join("sparse"), sparse).unwrap();
    fs::write(top.join("empty"), "").unwrap();
    fs::hard_link(top.join("lines"), top.join("d/hard")).unwrap();
    std::os::unix::fs::symlink("../lines", top.join("d/link")).unwrap();
    for number in 0..300 {
        fs::write(top.join(format!("d/e/{number}")), number.to_string()).unwrap();
    }
}

/// The bytes of an image of the tree; `None` without the tool or its compressor.
fn image(top: &Path, options: &[&str]) -> Option<Vec<u8>> {
    let path = top.with_extension("squashfs");
    let mut command = Command::new("mksquashfs");
    command.arg(top).arg(&path).args(["-noappend", "-quiet", "-no-progress"]).args(options);
    let done = command.output().is_ok_and(|done| done.status.success());
    if !done {
        println!("left out: mksquashfs {options:?}");
        return None;
    }
    fs::read(path).ok()
}

fn content(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    let ino = fs.resolve(path.as_bytes()).unwrap();
    let mut bytes = vec![0; usize::try_from(fs.attr(ino).unwrap().size).unwrap()];
    // In pieces that are no blocks, as readers do.
    for (index, piece) in bytes.chunks_mut(7001).enumerate() {
        assert_eq!(fs.read(ino, index as u64 * 7001, piece).unwrap(), piece.len());
    }
    bytes
}

#[test]
fn images_of_every_compressor_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("tree");
    tree(&top);
    for compressor in COMPRESSORS {
        for more in [&["-b", "4096"][..], &["-no-fragments"], &["-no-exports", "-no-duplicates"]] {
            let options = [&["-comp", compressor][..], more].concat();
            let Some(bytes) = image(&top, &options) else { continue };
            let opened = Squashfs::open(Arc::new(bytes)).unwrap();
            assert_eq!(opened.superblock().compressor.name(), compressor);
            for name in ["lines", "sparse", "empty", "d/hard", "d/e/0", "d/e/299"] {
                let expected = fs::read(top.join(name)).unwrap();
                assert!(content(&opened, name) == expected, "{compressor} {more:?} {name}");
            }
            let link = opened.resolve(b"d/link").unwrap();
            assert_eq!(opened.read_link(link).unwrap(), b"../lines");
            assert_eq!(opened.resolve(b"lines").unwrap(), opened.resolve(b"d/hard").unwrap());
            let names = opened.resolve(b"d/e").unwrap();
            assert_eq!(opened.entries(names).unwrap().len(), 300);
            let error = opened.resolve(b"d/missing").unwrap_err();
            assert_eq!(error.kind(), FsErrorKind::NotFound);
        }
    }
}

#[test]
fn holes_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("tree");
    tree(&top);
    let Some(bytes) = image(&top, &["-b", "4096", "-no-fragments"]) else { return };
    let opened = Squashfs::open(Arc::new(bytes)).unwrap();
    let ino = opened.resolve(b"sparse").unwrap();
    let last = 300_003 / 4096 * 4096;
    assert_eq!(opened.seek_data(ino, 5).unwrap(), Some(last));
    assert_eq!(opened.seek_hole(ino, 5).unwrap(), 5);
    assert_eq!(opened.seek_hole(ino, last).unwrap(), 300_003);
    assert_eq!(opened.seek_data(ino, 300_003).unwrap(), None);
}

/// Reads everything; returns how many names there are.
fn read_all(fs: &dyn FileSystem) -> u64 {
    let mut names = 0;
    let done: Result<(), Infallible> = walk(fs, fs.root(), &mut |met| {
        if let Visit::Entry { entry, .. } = met {
            names += 1;
            let ino = entry.ino;
            let attr = fs.attr(ino);
            let _ = (fs.list_xattrs(ino), fs.read_link(ino), fs.seek_data(ino, 0));
            if entry.kind == FileKind::Regular && attr.is_ok() {
                let mut buf = vec![0; 1 << 16];
                let mut offset = 0;
                while let Ok(len @ 1..) = fs.read(ino, offset, &mut buf)
                    && offset < 1 << 24
                {
                    offset += len as u64;
                }
            }
        }
        Ok(Descend::Yes)
    });
    let Ok(()) = done;
    names
}

/// Each image with one byte changed is refused or read without a panic, and no tree grows beyond what
/// the names of the image allow.
#[test]
fn damaged_images_end_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("tree");
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::write(top.join("a/file"), "content ".repeat(2000)).unwrap();
    fs::write(top.join("a/b/c/end"), "end").unwrap();
    for options in [&["-noI", "-noD", "-noF"][..], &["-comp", "gzip"], &["-comp", "xz"]] {
        let Some(bytes) = image(&top, &[options, &["-nopad"][..]].concat()) else { continue };
        for at in 0..bytes.len() {
            // All metadata, and a sample of the data.
            if at > 200 && at + 1000 < bytes.len() && at % 37 > 0 {
                continue;
            }
            for flip in [0x01, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                if let Ok(opened) = Squashfs::open(Arc::new(damaged)) {
                    assert!(read_all(&opened) <= 600, "byte {at} changed by {flip:#x}");
                }
            }
        }
        for len in (0..bytes.len()).step_by(11) {
            assert!(Squashfs::open(Arc::new(bytes[..len].to_vec())).is_err(), "{len} bytes");
        }
    }
}

/// The listing of a directory that is changed to name a directory above it, or one twice, would be an
/// endless tree.
#[test]
fn a_directory_has_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("tree");
    fs::create_dir_all(top.join("one")).unwrap();
    fs::create_dir_all(top.join("two")).unwrap();
    let Some(mut bytes) = image(&top, &["-noI", "-nopad"]) else { return };
    // Both names lead to one inode: the offsets in their entries, before the difference of the
    // numbers, the type and the length of the name.
    let entry = |name: &[u8]| {
        bytes.windows(3).position(|bytes| bytes == name).map(|place| place - 8).unwrap()
    };
    let (one, two) = (entry(b"one"), entry(b"two"));
    let offset = [bytes[one], bytes[one + 1]];
    bytes[two..two + 2].copy_from_slice(&offset);
    let opened = Squashfs::open(Arc::new(bytes)).unwrap();
    let error = opened.entries(opened.root()).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::Corrupted);
    assert!(error.to_string().contains("another name"), "{error}");
}
