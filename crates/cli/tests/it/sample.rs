//! A folder, images made of it, and running the binary.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary folder with a `src` in it.
pub(crate) struct Sample {
    folder: tempfile::TempDir,
}

/// Unmounts even if a test panics.
impl Drop for Sample {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for place in places.filter(|place| Path::new(place).starts_with(self.folder.path())) {
            let _ = Command::new("fusermount3").args(["-u", "-z", place]).status();
        }
    }
}

/// Returns an image of the tests of another crate, given by its path below `crates`.
pub(crate) fn stored(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    zstd::decode_all(&fs::read(path).unwrap()[..]).unwrap()
}

/// What a run did.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Sample {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("src");
        fs::create_dir_all(src.join("etc")).unwrap();
        fs::create_dir_all(src.join("bin")).unwrap();
        fs::write(src.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
        fs::write(src.join("etc/.hidden"), "h").unwrap();
        fs::write(src.join("bin/tool"), vec![0x5a; 70_000]).unwrap();
        fs::set_permissions(src.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::hard_link(src.join("bin/tool"), src.join("bin/alias")).unwrap();
        symlink("../bin/tool", src.join("etc/link")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the command in the folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eraseblock"));
        finish(command.args(arguments), self.folder.path())
    }

    /// The same, and it has to succeed without findings.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Run {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}\n{}{}", run.out, run.err);
        run
    }

    /// Runs another program, if it is installed.
    pub(crate) fn classic(&self, program: &str, arguments: &[&str]) -> Option<Run> {
        let found = ["/usr/sbin", "/sbin", "/usr/bin"]
            .iter()
            .map(|folder| Path::new(folder).join(program))
            .find(|path| path.exists())?;
        Some(finish(Command::new(found).args(arguments), self.folder.path()))
    }

    /// A bare UBIFS image of `src`.
    pub(crate) fn ubifs(&self) -> &'static str {
        self.ok(&[
            "mkfs",
            "ubifs",
            "src",
            "-o",
            "root.ubifs",
            "--peb",
            "128KiB",
            "--page",
            "2048",
            "--max-lebs",
            "60",
            "--compressor",
            "zlib",
            "-q",
        ]);
        "root.ubifs"
    }

    /// A UBI image with a static volume, a UBIFS and an empty volume.
    pub(crate) fn ubi(&self) -> &'static str {
        fs::write(self.path("kernel"), vec![0xA5; 200_000]).unwrap();
        fs::write(self.path("layout.toml"), LAYOUT).unwrap();
        self.ok(&["build", "layout.toml", "-o", "all.ubi", "-q"]);
        "all.ubi"
    }
}

pub(crate) const LAYOUT: &str = r#"
[flash]
peb = "128KiB"
page = 2048
blocks = 128

[image]
image-seq = 7

[[volume]]
name = "kernel"
type = "static"
content = { file = "kernel" }

[[volume]]
name = "rootfs"
size = "6MiB"
content = { ubifs = "src", compressor = "zlib" }

[[volume]]
name = "data"
size = "512KiB"
flags = ["autoresize"]
"#;

/// Bytes that no compressor makes smaller.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

pub(crate) fn finish(command: &mut Command, folder: &Path) -> Run {
    let Output { status, stdout, stderr } =
        command.current_dir(folder).env("COLUMNS", "80").output().unwrap();
    Run {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// A raw dump of a flash with eraseblocks of `peb` bytes and pages of 2048, 64 spare bytes after each: the
/// content of its blocks, `None` for bad ones.
pub(crate) fn raw_dump(peb: usize, blocks: &[Option<&[u8]>]) -> Vec<u8> {
    let mut dump = Vec::new();
    for block in blocks {
        let mut content = block.unwrap_or_default().to_vec();
        content.resize(peb, 0xFF);
        for page in content.chunks(2048) {
            dump.extend(page);
            let marker = if block.is_some() { 0xFF } else { 0 };
            dump.push(marker);
            dump.extend([0xFF; 63]);
        }
    }
    dump
}
