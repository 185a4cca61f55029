//! Mounts compared with squashfuse and fuse2fs: the same content, each from its own image, all
//! images in memory. The time of a command includes that of the process that serves the mount.

use super::{Bench, MIB, Measure, Row, layout_toml, remove, text, timed};
use anyhow::{Context, Result, bail, ensure};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum memory of a mount.
const MEMORY: f64 = 150.0;

/// A mount whose process stays in the foreground.
struct Mounted {
    dir: PathBuf,
    process: Child,
}

impl Mounted {
    fn new(words: &[String], dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let [program, rest @ ..] = words else { bail!("no command") };
        let mut command = Command::new(program);
        let process = command.args(rest).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = process.with_context(|| program.clone())?;
        let start = Instant::now();
        while !fs::read_to_string("/proc/self/mountinfo")?.contains(&text(dir)) {
            if let Some(status) = process.try_wait()? {
                bail!("{} did not mount: {status}", words.join(" "));
            }
            ensure!(start.elapsed() < Duration::from_mins(1), "{program} does not mount");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { dir: dir.to_owned(), process })
    }

    /// Returns its peak memory so far, in bytes.
    fn peak_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.context("no VmHWM")? * 1024)
    }

    /// Unmounts and waits until everything is in the image; returns the duration.
    fn end(mut self) -> Result<f64> {
        let start = Instant::now();
        timed(&words(["umount", &text(&self.dir)]))?;
        self.process.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

/// Drops the kernel's caches, if permitted.
fn forget() {
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
}

impl Bench {
    /// Reads, listings and an unpacked archive through mounts.
    pub(super) fn mount(&mut self) -> Result<()> {
        if fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
            println!("left out: mounts: /dev/fuse cannot be opened");
            return Ok(());
        }
        let base = self.outs.path().join("mounts");
        fs::create_dir_all(&base)?;
        let result = self
            .sequential(&base)
            .and_then(|()| self.listings(&base))
            .and_then(|()| self.untar(&base))
            .and_then(|()| self.many_files(&base));
        remove(&base)?;
        result
    }

    /// Reads one large file, compressed with lzo, from its beginning to its end.
    fn sequential(&mut self, base: &Path) -> Result<()> {
        let content = base.join("content");
        fs::create_dir_all(&content)?;
        let file = content.join("large");
        timed(&words(["tar", "-C", &text(&self.tree), "-cf", &text(&file), "."]))?;
        let size = fs::metadata(&file)?.len();
        let (ours, squash, ext4) = (base.join("ubifs"), base.join("sqsh"), base.join("ext4"));
        self.ubifs_of(&content, &ours)?;
        squashfs(&content, &squash)?;
        let room = format!("{}M", 2 * size / MIB);
        timed(&words(["truncate", "-s", &room, &text(&ext4)]))?;
        timed(&words(["mkfs.ext4", "-q", "-d", &text(&content), &text(&ext4)]))?;
        let mount = self.our_mount(&ours, &base.join("a"), &[])?;
        let peers = [
            ("squashfuse", squashfuse(&squash, &base.join("b"))?),
            ("fuse2fs", fuse2fs(&ext4, &base.join("c"), "ro")?),
        ];
        let read = |mounted: &Mounted| {
            let from = format!("if={}", mounted.dir.join("large").display());
            words(["dd", &from, "of=/dev/null", "bs=1M"])
        };
        let mut best = f64::MAX;
        for (name, peer) in &peers {
            let (mine, theirs) = self.alternate(&read(&mount), &read(peer))?;
            best = best.min(mine.seconds);
            self.row(
                format!("read {} MB of lzo against {name}", size / 1_000_000),
                mine,
                theirs,
                2.0,
            );
        }
        #[allow(clippy::cast_precision_loss)] // megabytes for people
        let seconds = best * 300e6 / size as f64;
        let met = seconds <= 1.0;
        let what = "read 300 MB of lzo, in seconds".to_owned();
        self.add(Row {
            what,
            ours: seconds,
            peer: 1.0,
            unit: "s",
            ratio: seconds,
            wanted: 1.0,
            met,
        });
        self.mount_memory("reading", &mount);
        mount.end()?;
        drop(peers);
        [content, ours, squash, ext4].iter().try_for_each(|path| remove(path))
    }

    /// Measures programs that walk over the whole tree.
    fn listings(&mut self, base: &Path) -> Result<()> {
        let (ours, squash) = (base.join("ubifs"), base.join("sqsh"));
        self.ubifs_of(&self.tree, &ours)?;
        squashfs(&self.tree, &squash)?;
        let mount = self.our_mount(&ours, &base.join("a"), &[])?;
        let peer = squashfuse(&squash, &base.join("b"))?;
        for program in ["du", "find"] {
            let walk = |mounted: &Mounted| words([program, &text(&mounted.dir)]);
            let (mine, theirs) = self.alternate(&walk(&mount), &walk(&peer))?;
            self.row(format!("{program} against squashfuse"), mine, theirs, 1.5);
        }
        self.mount_memory("listing", &mount);
        mount.end()?;
        drop(peer);
        remove(&ours)?;
        remove(&squash)
    }

    /// Unpacks the tree from an archive into an empty file system, until it is unmounted.
    fn untar(&mut self, base: &Path) -> Result<()> {
        let archive = base.join("archive");
        timed(&words(["tar", "-C", &text(&self.tree), "-cf", &text(&archive), "."]))?;
        let (ours, ext4, layout) = (base.join("ubi"), base.join("ext4"), base.join("layout"));
        let (empty, mut best) = (base.join("empty"), [f64::MAX; 2]);
        fs::create_dir_all(&empty)?;
        fs::write(&layout, layout_toml(&empty, "lzo", 1).replace("20480", "4096"))?;
        for round in 0..self.rounds.min(2) {
            for path in [&ours, &ext4] {
                remove(path)?;
            }
            let build = [self.binary(), "build".into(), text(&layout), "-o".into(), text(&ours)];
            timed(&build)?;
            timed(&words(["truncate", "-s", "512M", &text(&ext4)]))?;
            timed(&words(["mkfs.ext4", "-q", &text(&ext4)]))?;
            let unpack = |dir: &Path| words(["tar", "-C", &text(dir), "-xf", &text(&archive)]);
            let mount = self.our_mount(&ours, &base.join("a"), &["--rw", "--size", "512MiB"])?;
            let mine = timed(&unpack(&mount.dir))?.seconds;
            if round == 0 {
                self.mount_memory("writing", &mount);
            }
            best[0] = best[0].min(mine + mount.end()?);
            let peer = fuse2fs(&ext4, &base.join("c"), "rw")?;
            let theirs = timed(&unpack(&peer.dir))?.seconds;
            best[1] = best[1].min(theirs + peer.end()?);
        }
        let [mine, theirs] = best.map(|seconds| Measure { seconds, peak_bytes: 0 });
        self.row("untar of the tree against fuse2fs".into(), mine, theirs, 2.0);
        Ok(())
    }

    /// Measures the memory of a JFFS2, which grows with its nodes: 300,000 files on a flash of 256
    /// MiB.
    fn many_files(&mut self, base: &Path) -> Result<()> {
        let (tree, image) = (base.join("many"), base.join("jffs2"));
        for number in 0..300_000 {
            let dir = tree.join((number / 1000).to_string());
            let (place, len) = (number % 1000, 550 + number % 200);
            if place == 0 {
                fs::create_dir_all(&dir)?;
            }
            let content = data_of(number.into(), 0, len, Texture::Random);
            fs::write(dir.join(format!("file-{place}")), content)?;
        }
        let mkfs = [self.binary(), "mkfs".into(), "jffs2".into(), text(&tree)];
        timed(&[&mkfs[..], &words(["--peb", "128KiB", "-o", &text(&image)])].concat())?;
        remove(&tree)?;
        let mount = self.our_mount(&image, &base.join("a"), &[])?;
        timed(&words(["du", &text(&mount.dir)]))?;
        self.mount_memory("a JFFS2 of 300,000 files", &mount);
        mount.end()?;
        remove(&image)
    }

    fn ubifs_of(&self, tree: &Path, image: &Path) -> Result<()> {
        let mut mkfs = self.our_mkfs("lzo", image);
        mkfs[3] = text(tree);
        timed(&mkfs).map(drop)
    }

    fn our_mount(&self, image: &Path, dir: &Path, options: &[&str]) -> Result<Mounted> {
        let mut mount = vec![self.binary(), "mount".into(), "-f".into(), text(image), text(dir)];
        mount.extend(options.iter().map(|option| (*option).to_owned()));
        Mounted::new(&mount, dir)
    }

    /// Runs both commands alternately, the kernel's caches emptied before each.
    fn alternate(&self, ours: &[String], peer: &[String]) -> Result<(Measure, Measure)> {
        let mut best = [Measure { seconds: f64::MAX, peak_bytes: 0 }; 2];
        for _ in 0..self.rounds {
            for (best, words) in best.iter_mut().zip([ours, peer]) {
                forget();
                let measure = timed(words)?;
                if measure.seconds < best.seconds {
                    *best = measure;
                }
            }
        }
        Ok((best[0], best[1]))
    }

    #[allow(clippy::cast_precision_loss)] // sizes for people
    fn mount_memory(&mut self, what: &str, mount: &Mounted) {
        let ours = mount.peak_bytes().map_or(f64::MAX, |bytes| bytes as f64 / MIB as f64);
        let (what, ratio) = (format!("memory of a mount, {what}"), ours / MEMORY);
        let met = ratio <= 1.0;
        self.add(Row { what, ours, peer: MEMORY, unit: "MiB", ratio, wanted: 1.0, met });
    }
}

fn squashfs(tree: &Path, image: &Path) -> Result<()> {
    remove(image)?;
    let (tree, image) = (text(tree), text(image));
    let options = ["-comp", "lzo", "-Xcompression-level", "1", "-noappend", "-quiet"];
    let mut make = words(["mksquashfs", &tree, &image, "-no-progress"]);
    make.extend(options.map(String::from));
    timed(&make).map(drop)
}

fn squashfuse(image: &Path, dir: &Path) -> Result<Mounted> {
    Mounted::new(&words(["squashfuse", "-f", &text(image), &text(dir)]), dir)
}

fn fuse2fs(image: &Path, dir: &Path, how: &str) -> Result<Mounted> {
    Mounted::new(&words(["fuse2fs", "-f", "-o", how, &text(image), &text(dir)]), dir)
}
