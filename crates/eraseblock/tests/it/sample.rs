//! A UBI image with a static volume, a UBIFS and an empty volume.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Eraseblock of the images, in bytes.
pub(crate) const PEB: usize = 131_072;

/// A folder with an image in it.
pub(crate) struct Sample {
    folder: TempDir,
}

impl Sample {
    /// Builds `board.ubi` with a file of several LEBs.
    pub(crate) fn new() -> Self {
        let sample = Self { folder: tempfile::tempdir().unwrap() };
        let rootfs = sample.path("rootfs");
        fs::create_dir_all(rootfs.join("etc")).unwrap();
        fs::write(rootfs.join("etc/motd"), "welcome\n").unwrap();
        symlink("/etc/motd", rootfs.join("link")).unwrap();
        symlink("etc", rootfs.join("dir")).unwrap();
        symlink("loop", rootfs.join("loop")).unwrap();
        symlink("../../../etc/../etc/motd", rootfs.join("etc/up")).unwrap();
        fs::write(rootfs.join("big"), noise(400_000)).unwrap();
        fs::write(sample.path("kernel"), noise(200_000)).unwrap();
        fs::write(sample.path("board.toml"), LAYOUT).unwrap();
        eraseblock::build(sample.path("board.toml")).unwrap().write_to(sample.image()).unwrap();
        sample
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The image.
    pub(crate) fn image(&self) -> PathBuf {
        self.path("board.ubi")
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

const LAYOUT: &str = "\
[flash]
part = 'W25N01GV'

[[volume]]
name = 'kernel'
type = 'static'
content = { file = 'kernel' }

[[volume]]
name = 'rootfs'
size = '8MiB'
content = { ubifs = 'rootfs', compressor = 'none' }

[[volume]]
name = 'data'
size = '2MiB'
";

/// Bytes that no compressor makes smaller, always the same.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}
