//! JFFS2: creating images compared with mkfs.jffs2, extracting compared with jefferson, and the
//! results for an image in which files were deleted, linked, truncated and overwritten.

use super::{Bench, fresh, python_tool, remove, text, timed};
use anyhow::{Result, ensure};
use eraseblock_jffs2_format::{ByteOrder, Dirent, Inode, Xattr, Xref, encode};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Eraseblock size of the bench flash.
const BLOCK: usize = 128 << 10;

/// Compression of images: our options and those of mkfs.jffs2.
const MODES: [(&str, &[&str], &[&str]); 3] = [
    ("", &[], &[]),
    (
        ", lzo",
        &["--compressor", "lzo", "--compressor", "zlib", "--compression", "favour-lzo"],
        &["-X", "lzo", "-m", "favourlzo"],
    ),
    (
        ", size",
        &["--compressor", "lzo", "--compressor", "zlib", "--compression", "size"],
        &["-X", "lzo", "-m", "size"],
    ),
];

impl Bench {
    /// Creates images of the tree and extracts them again.
    pub(super) fn jffs2(&mut self, root: &Path) -> Result<()> {
        for (mode, ours, peer) in MODES.iter().rev() {
            self.jffs2_images(mode, ours, peer)?;
        }
        let image = self.path("ours.jffs2");
        let reader = python_tool(root, "jefferson", "jefferson")?;
        let [out, peer_out] = self.outs();
        // One run of several minutes is enough for the peer.
        let theirs = timed(&[text(&reader), "-d".into(), text(&peer_out), text(&image)])?;
        let mine = [self.binary(), "extract".into(), text(&image), text(&out)];
        let [mine] = self.best(|| Ok([fresh(&mine, &[&out])?]))?;
        self.row("extract jffs2 against jefferson".into(), mine, theirs, 0.05);
        self.memory("extract jffs2 peak memory".into(), mine);
        let status = Command::new("diff").arg("-r").arg(&self.tree).arg(&out).status()?;
        ensure!(status.success(), "what was extracted differs from the tree");
        [&out, &peer_out].into_iter().try_for_each(|path| remove(path))
    }

    /// Creates images of the tree, compressed in the same way by both.
    fn jffs2_images(&mut self, mode: &str, ours: &[&str], peers: &[&str]) -> Result<()> {
        let (image, peer) = (self.path("ours.jffs2"), self.path("peer.jffs2"));
        let mut mine = vec![self.binary(), "mkfs".into(), "jffs2".into(), text(&self.tree)];
        mine.extend(ours.iter().map(|option| (*option).to_owned()));
        mine.extend(["--peb", "128KiB", "--page", "2048", "-o"].map(String::from));
        mine.push(text(&image));
        let mut theirs = vec!["mkfs.jffs2".to_owned(), "-r".into(), text(&self.tree)];
        theirs.extend(peers.iter().map(|option| (*option).to_owned()));
        theirs.extend(["-l", "-n", "-e", "128KiB", "-o"].map(String::from));
        theirs.push(text(&peer));
        let (mine, theirs) = self.compare(&mine, &theirs, &[&image, &peer])?;
        self.row(format!("mkfs jffs2 against mkfs.jffs2{mode}"), mine, theirs, 0.5);
        let (size, peer_size) = (fs::metadata(&image)?.len(), fs::metadata(&peer)?.len());
        self.sizes(format!("image size, jffs2{mode}"), size, peer_size);
        self.memory(format!("mkfs jffs2 peak memory{mode}"), mine);
        Ok(())
    }

    /// Tabulates the files extracted from an image with a history; ours must be right everywhere.
    pub(super) fn jffs2_history(&self, root: &Path) -> Result<()> {
        let reader = python_tool(root, "jefferson", "jefferson")?;
        let image = self.path("history.jffs2");
        fs::write(&image, history())?;
        let [out, peer_out] = self.outs();
        let run = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().map(drop)
        };
        run(Command::new(&self.bin).arg("extract").arg(&image).arg(&out))?;
        run(Command::new(reader).arg("-d").arg(&peer_out).arg(&image))?;
        let word = |is_right: bool| if is_right { "right" } else { "wrong" };
        println!("\n{:52} {:>9} {:>9}", "an image with a history", "ours", "jefferson");
        let mut wrong = 0;
        let as_root = rustix::process::geteuid().is_root();
        let root_checks = if as_root { &ROOT_CHECKS[..] } else { &[] };
        for (what, check) in CHECKS.iter().chain(root_checks) {
            let (ours, theirs) = (check(&out), check(&peer_out));
            println!("{what:52} {:>9} {:>9}", word(ours), word(theirs));
            wrong += u32::from(!ours);
        }
        ensure!(wrong == 0, "{wrong} properties of the image with a history are wrong");
        remove(&out)?;
        remove(&peer_out)
    }
}

type Check = fn(&Path) -> bool;

/// Visible properties of the extracted image.
const CHECKS: [(&str, Check); 13] = [
    ("a deleted file stays deleted", |top| !top.join("deleted").exists()),
    ("a renamed file has its new name only", |top| {
        !top.join("before").exists() && holds(&top.join("after"), b"renamed")
    }),
    ("hard links are one file", |top| {
        let number = |name| fs::metadata(top.join(name)).map(|meta| meta.ino()).ok();
        number("one").is_some() && number("one") == number("two")
    }),
    ("a cut file has its length", |top| holds(&top.join("cut"), &[b'c'; 100])),
    ("an overwritten range is the newer one", |top| {
        let mut expected = vec![b'a'; 4000];
        expected[1000..1100].fill(b'b');
        holds(&top.join("overwritten"), &expected)
    }),
    ("a hole is zeros", |top| holds(&top.join("hole"), &[0; 9000])),
    ("a replaced file is the newer one", |top| holds(&top.join("replaced"), b"new")),
    ("modes are kept", |top| {
        fs::metadata(top.join("after"))
            .is_ok_and(|meta| meta.permissions().mode() & 0o7777 == 0o640)
    }),
    ("times are kept", |top| {
        fs::metadata(top.join("after")).is_ok_and(|meta| meta.mtime() == i64::from(TIME))
    }),
    ("extended attributes are kept", |top| {
        let mut value = [0; 16];
        let len = rustix::fs::lgetxattr(top.join("one"), "user.key", &mut value[..]);
        len.is_ok_and(|len| value[..len] == *b"value")
    }),
    ("a symbolic link leads where it should", |top| {
        fs::read_link(top.join("link")).is_ok_and(|target| target == Path::new("one"))
    }),
    ("a pipe is one", |top| {
        fs::symlink_metadata(top.join("pipe")).is_ok_and(|meta| meta.file_type().is_fifo())
    }),
    ("of a damaged node the older version is taken", |top| holds(&top.join("damaged"), b"older")),
];

/// Properties that are visible if root extracted it.
const ROOT_CHECKS: [(&str, Check); 2] = [
    ("a device is one", |top| {
        let meta = fs::symlink_metadata(top.join("null"));
        meta.is_ok_and(|meta| {
            let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
            meta.file_type().is_char_device() && (major, minor) == (1, 3)
        })
    }),
    ("owners are kept", |top| {
        fs::metadata(top.join("after")).is_ok_and(|meta| (meta.uid(), meta.gid()) == (1000, 100))
    }),
];

fn holds(path: &Path, content: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == content)
}

const TIME: u32 = 1_000_000_000;

/// Returns an image as left by a file system that was in use.
fn history() -> Vec<u8> {
    let mut image = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut image);
    let mut version = 0;
    let mut name = |image: &mut Vec<u8>, name: &str, ino: u32| {
        version += 1;
        let file_type = match ino {
            0 => 0,
            10 => 10,
            11 => 1,
            12 => 2,
            _ => 8,
        };
        let name = name.as_bytes();
        let entry = Dirent { pino: 1, version, ino, mctime: TIME, file_type, name };
        encode::dirent(ByteOrder::Little, &entry, image);
    };
    let node = |image: &mut Vec<u8>,
                ino: u32,
                version: u32,
                isize: u32,
                offset: u32,
                data: &[u8]| {
        let dsize = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let mode = match ino {
            10 => 0o120_777,
            11 => 0o010_600,
            12 => 0o020_600,
            _ => 0o100_640,
        };
        let (uid, gid, mtime) = (1000, 100, TIME);
        let node =
            Inode { ino, version, mode, uid, gid, isize, offset, dsize, mtime, ..Inode::default() };
        encode::inode(ByteOrder::Little, &node, data, image);
    };
    for (file, ino) in [
        ("deleted", 2),
        ("before", 3),
        ("one", 4),
        ("two", 4),
        ("cut", 5),
        ("overwritten", 6),
        ("hole", 7),
        ("replaced", 8),
        ("link", 10),
        ("pipe", 11),
        ("null", 12),
        ("damaged", 13),
    ] {
        name(&mut image, file, ino);
    }
    node(&mut image, 2, 1, 7, 0, b"deleted");
    node(&mut image, 3, 1, 7, 0, b"renamed");
    node(&mut image, 4, 1, 6, 0, b"linked");
    node(&mut image, 5, 1, 3000, 0, &[b'c'; 3000]);
    node(&mut image, 5, 2, 100, 0, &[]);
    node(&mut image, 6, 1, 4000, 0, &[b'a'; 4000]);
    node(&mut image, 6, 2, 4000, 1000, &[b'b'; 100]);
    let hole = Inode {
        ino: 7,
        version: 1,
        mode: 0o100_640,
        isize: 9000,
        dsize: 9000,
        compression: 1,
        ..Inode::default()
    };
    encode::inode(ByteOrder::Little, &hole, &[], &mut image);
    node(&mut image, 8, 1, 3, 0, b"old");
    name(&mut image, "deleted", 0);
    name(&mut image, "after", 3);
    name(&mut image, "before", 0);
    node(&mut image, 9, 1, 3, 0, b"new");
    name(&mut image, "replaced", 9);
    let pair = Xattr { xid: 1, version: 1, prefix: 1, name: b"key", value: b"value" };
    encode::xattr(ByteOrder::Little, &pair, &mut image);
    encode::xref(ByteOrder::Little, &Xref { ino: 4, xid: 1, xseqno: 2 }, &mut image);
    node(&mut image, 10, 1, 3, 0, b"one");
    node(&mut image, 11, 1, 0, 0, &[]);
    node(&mut image, 12, 1, 0, 0, &[3, 1]);
    node(&mut image, 13, 1, 5, 0, b"older");
    // No padding follows its content, so that the content is damaged.
    node(&mut image, 13, 2, 8, 0, b"too new!");
    if let Some(last) = image.last_mut() {
        *last ^= 0xFF;
    }
    image.resize(BLOCK, 0xFF);
    image
}
