//! `cargo xtask bench`: compares the command with its peers on the same tree in the same run.
//!
//! Every figure is a ratio of wall times, image sizes or a peak of resident memory, measured in
//! this run; nothing is compared with a number from elsewhere. Each pair of commands runs
//! alternately, and the best round counts for both sides.

mod jffs2;
mod mount;
mod repair;
mod side_by_side;
mod squashfs;
mod ubi;
mod ubifs_large;
mod ubifs_linux;
pub(crate) mod ubifs_rw;
mod yaffs2;

use crate::command;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// Logical eraseblock size of the bench flash: 128 KiB blocks, 2 KiB pages, 512-byte sub-pages.
const LEB_SIZE: &str = "129024";
const MAX_LEBS: &str = "4000";
const MIB: u64 = 1 << 20;
/// The minimum size of the tree.
const TREE_FILES: u64 = 25_000;
const TREE_BYTES: u64 = 200_000_000;

/// One run of a command.
#[derive(Clone, Copy, Debug)]
struct Measure {
    seconds: f64,
    peak_bytes: u64,
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    ours: f64,
    peer: f64,
    unit: &'static str,
    ratio: f64,
    wanted: f64,
    met: bool,
}

struct Bench {
    bin: PathBuf,
    tree: PathBuf,
    /// Images and what is kept for the next run.
    work: PathBuf,
    /// What is extracted and mounted, in memory if possible. On ext4, the search for free inodes
    /// where others were removed a moment ago may take longer than the extraction.
    outs: TempDir,
    rounds: u32,
    rows: Vec<Row>,
}

/// The parts of the bench in order; all run unless one is requested.
const PARTS: [&str; 13] = [
    "images",
    "jffs2",
    "jffs2-history",
    "repair",
    "side-by-side",
    "squashfs",
    "ubi",
    "ubifs-rw",
    "ubifs-large",
    "ubifs-linux",
    "ubifs-linux-whole",
    "yaffs2",
    "mount",
];

/// Runs every comparison and prints the table; `args` may be `--tree DIR`, `--rounds N`, `--only
/// PART` and `--strict`. A missed figure is a verdict about this machine and this moment: only
/// `--strict` makes it a failure.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let root = command::repository();
    let option = |name: &str| {
        args.iter().position(|arg| arg == name).and_then(|index| args.get(index + 1)).cloned()
    };
    let only = option("--only");
    let is_wanted = |part: &&str| only.as_ref().is_none_or(|only| only == part);
    let parts: Vec<&str> = PARTS.into_iter().filter(is_wanted).collect();
    ensure!(!parts.is_empty(), "--only takes one of {}", PARTS.join(", "));
    let work = root.join("target/bench");
    fs::create_dir_all(&work)?;
    let tree = match option("--tree") {
        Some(dir) => PathBuf::from(dir),
        None => source_tree(&work)?,
    };
    let (files, bytes) = measure_tree(&tree)?;
    println!("tree: {} with {files} files, {} MB", tree.display(), bytes / 1_000_000);
    ensure!(
        files >= TREE_FILES && bytes >= TREE_BYTES,
        "the tree is too small: expected {TREE_FILES} files and {} MB",
        TREE_BYTES / 1_000_000
    );
    let rounds = option("--rounds").map_or(Ok(3), |text| text.parse())?;
    let bin = root.join("target/release/eraseblock");
    let memory = Path::new("/dev/shm");
    let outs = tempfile::tempdir_in(if memory.is_dir() { memory } else { &work })?;
    let mut bench = Bench { bin, tree, work, outs, rounds, rows: Vec::new() };
    for part in parts {
        bench.part(part, &root)?;
    }
    fs::write(bench.path("report.json"), serde_json::to_vec_pretty(&bench.rows)?)?;
    print!("{}", verdict(&bench.rows));
    println!("report: {}", bench.path("report.json").display());
    Ok(is_success(&bench.rows, args.iter().any(|arg| arg == "--strict")))
}

/// Returns the last lines: how many figures were met, and each one that was missed.
fn verdict(rows: &[Row]) -> String {
    let missed: Vec<&Row> = rows.iter().filter(|row| !row.met).collect();
    let mut text =
        format!("\n{} figures met, {} missed\n", rows.len() - missed.len(), missed.len());
    for row in missed {
        let _ = writeln!(text, "missed: {}: {:.3}, wanted {:.2}", row.what, row.ratio, row.wanted);
    }
    text
}

fn is_success(rows: &[Row], is_strict: bool) -> bool {
    !is_strict || rows.iter().all(|row| row.met)
}

impl Bench {
    fn part(&mut self, part: &str, root: &Path) -> Result<()> {
        match part {
            "images" => {
                self.mkfs()?;
                self.build()?;
                self.extract(root)?;
                self.list()
            }
            "jffs2" => self.jffs2(root),
            "jffs2-history" => self.jffs2_history(root),
            "repair" => self.repair(),
            "side-by-side" => self.side_by_side(),
            "squashfs" => self.squashfs(),
            "ubi" => self.ubi(),
            "ubifs-rw" => self.ubifs_rw(),
            "ubifs-large" => self.ubifs_large(),
            "ubifs-linux" => self.ubifs_linux(&ubifs_linux::PART),
            "ubifs-linux-whole" => self.ubifs_linux(&ubifs_linux::WHOLE),
            "yaffs2" => self.yaffs2(root),
            _ => self.mount(),
        }
    }

    fn mkfs(&mut self) -> Result<()> {
        for (compressor, wanted) in [("lzo", 0.33), ("zlib", 0.33), ("zstd", 0.5)] {
            let ours = self.path(&format!("ours-{compressor}.ubifs"));
            let peer = self.path(&format!("peer-{compressor}.ubifs"));
            let mine = self.our_mkfs(compressor, &ours);
            let theirs = self.peer_mkfs(compressor, &peer);
            let (mine, theirs) = self.compare(&mine, &theirs, &[&ours, &peer])?;
            self.row(format!("mkfs ubifs, {compressor}"), mine, theirs, wanted);
            let (ours, peer) = (fs::metadata(&ours)?.len(), fs::metadata(&peer)?.len());
            self.sizes(format!("image size, {compressor}"), ours, peer);
            self.memory(format!("mkfs ubifs peak memory, {compressor}"), mine);
        }
        Ok(())
    }

    fn build(&mut self) -> Result<()> {
        let layout = self.path("layout.toml");
        let image = self.path("ours.ubi");
        fs::write(&layout, layout_toml(&self.tree, "lzo", 1))?;
        let mine = vec![self.binary(), "build".into(), text(&layout), "-o".into(), text(&image)];
        let ini = self.path("peer.ini");
        let (ubifs, peer) = (self.path("peer-build.ubifs"), self.path("peer.ubi"));
        fs::write(
            &ini,
            format!(
                "[root]\nmode=ubi\nimage={}\nvol_id=0\nvol_size={}\nvol_type=dynamic\nvol_name=root0\n",
                ubifs.display(),
                4000_u64 * 129_024
            ),
        )?;
        let script = format!(
            "{} && ubinize -o {} -p 128KiB -m 2048 -s 512 {}",
            self.peer_mkfs("lzo", &ubifs).join(" "),
            peer.display(),
            ini.display()
        );
        let theirs = vec!["sh".into(), "-c".into(), script];
        let (mine, theirs) = self.compare(&mine, &theirs, &[&image, &peer, &ubifs])?;
        self.row("build to a UBI image against mkfs.ubifs + ubinize".into(), mine, theirs, 0.33);
        Ok(())
    }

    fn extract(&mut self, root: &Path) -> Result<()> {
        let image = self.path("ours.ubi");
        let [out, peer_out] = self.outs();
        let mine = vec![self.binary(), "extract".into(), text(&image), text(&out)];
        let reader = python_tool(root, "ubi_reader", "ubireader_extract_files")?;
        let theirs = vec![text(&reader), "-k".into(), "-o".into(), text(&peer_out), text(&image)];
        let (ours, theirs) = self.compare(&mine, &theirs, &[&out, &peer_out])?;
        self.row("extract against ubireader_extract_files".into(), ours, theirs, 0.2);
        let copy = vec!["cp".into(), "-a".into(), text(&self.tree), text(&peer_out)];
        let (ours, theirs) = self.compare(&mine, &copy, &[&out, &peer_out])?;
        self.row("extract against cp -a".into(), ours, theirs, 1.5);
        self.memory("extract peak memory".into(), ours);
        let status = Command::new("diff").arg("-r").arg(&self.tree).arg(&out).status()?;
        ensure!(status.success(), "what was extracted differs from the tree");
        remove(&out)?;
        remove(&peer_out)
    }

    fn list(&mut self) -> Result<()> {
        let (layout, image) = (self.path("large.toml"), self.path("large.ubi"));
        fs::write(&layout, layout_toml(&self.tree, "none", 5))?;
        let build = vec![self.binary(), "build".into(), text(&layout), "-o".into(), text(&image)];
        timed(&build)?;
        let size = fs::metadata(&image)?.len();
        ensure!(size >= 1024 * MIB, "the large image has only {} MiB", size / MIB);
        let target = format!("{}:root0", image.display());
        let list = vec![self.binary(), "ls".into(), target];
        timed(&list)?;
        let mut best = f64::MAX;
        for _ in 0..self.rounds.max(5) {
            best = best.min(timed(&list)?.seconds);
        }
        self.add(Row {
            what: format!("ls of a {} MiB image, cached", size / MIB),
            ours: best * 1000.0,
            peer: 50.0,
            unit: "ms",
            ratio: best * 1000.0 / 50.0,
            wanted: 1.0,
            met: best <= 0.05,
        });
        remove(&image)
    }

    fn our_mkfs(&self, compressor: &str, out: &Path) -> Vec<String> {
        let mut words = vec![self.binary(), "mkfs".into(), "ubifs".into(), text(&self.tree)];
        words.extend(["-o".into(), text(out)]);
        words.extend(
            ["--peb", "128KiB", "--page", "2048", "--subpage", "512", "--max-lebs", MAX_LEBS]
                .map(String::from),
        );
        words.extend(["--compressor".into(), compressor.into()]);
        words
    }

    fn peer_mkfs(&self, compressor: &str, out: &Path) -> Vec<String> {
        let mut words = vec!["mkfs.ubifs".to_owned(), "-r".into(), text(&self.tree)];
        words.extend(["-m", "2048", "-e", LEB_SIZE, "-c", MAX_LEBS].map(String::from));
        words.extend(["-x".into(), compressor.into(), "-o".into(), text(out)]);
        words
    }

    /// Runs both commands alternately after one warming run each, removing `outputs` before every
    /// run, and returns the best of each.
    fn compare(
        &self,
        ours: &[String],
        peer: &[String],
        outputs: &[&Path],
    ) -> Result<(Measure, Measure)> {
        outputs.iter().try_for_each(|path| remove(path))?;
        let [ours, peer] = self.best(|| Ok([fresh(ours, outputs)?, fresh(peer, outputs)?]))?;
        Ok((ours, peer))
    }

    /// Does `run` once to warm up and then in rounds, and returns the best of each of its commands.
    fn best<const N: usize>(&self, run: impl Fn() -> Result<[Measure; N]>) -> Result<[Measure; N]> {
        run()?;
        let mut best = run()?;
        for _ in 1..self.rounds {
            for (best, next) in best.iter_mut().zip(run()?) {
                if next.seconds < best.seconds {
                    *best = next;
                }
            }
        }
        Ok(best)
    }

    fn row(&mut self, what: String, ours: Measure, peer: Measure, wanted: f64) {
        let ratio = ours.seconds / peer.seconds;
        let (ours, peer) = (ours.seconds, peer.seconds);
        self.add(Row { what, ours, peer, unit: "s", ratio, wanted, met: ratio <= wanted });
    }

    #[allow(clippy::cast_precision_loss)] // sizes for people
    fn sizes(&mut self, what: String, ours: u64, peer: u64) {
        let (ours, peer) = (ours as f64 / MIB as f64, peer as f64 / MIB as f64);
        let ratio = ours / peer;
        self.add(Row { what, ours, peer, unit: "MiB", ratio, wanted: 1.01, met: ratio <= 1.01 });
    }

    fn memory(&mut self, what: String, ours: Measure) {
        self.memory_within(what, ours, 128.0);
    }

    #[allow(clippy::cast_precision_loss)] // sizes for people
    fn memory_within(&mut self, what: String, ours: Measure, peer: f64) {
        let ours = ours.peak_bytes as f64 / MIB as f64;
        let ratio = ours / peer;
        self.add(Row { what, ours, peer, unit: "MiB", ratio, wanted: 1.0, met: ratio <= 1.0 });
    }

    /// Prints a figure as soon as it is known, because the whole run takes minutes.
    fn add(&mut self, row: Row) {
        if self.rows.is_empty() {
            println!("\n{:52} {:>9} {:>9}      {:>7} {:>7}", "", "ours", "peer", "ratio", "wanted");
        }
        println!(
            "{:52} {:>9.3} {:>9.3} {:4} {:>7.3} {:>7.2}  {}",
            row.what,
            row.ours,
            row.peer,
            row.unit,
            row.ratio,
            row.wanted,
            if row.met { "met" } else { "MISSED" }
        );
        self.rows.push(row);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Where we extract to, and where the peer does.
    fn outs(&self) -> [PathBuf; 2] {
        ["ours", "peer"].map(|name| self.outs.path().join(name))
    }

    fn binary(&self) -> String {
        text(&self.bin)
    }
}

/// Runs one command after removing those of `outputs` that it names.
fn fresh(words: &[String], outputs: &[&Path]) -> Result<Measure> {
    for path in outputs {
        let named = path.to_string_lossy();
        if words.iter().any(|word| word.contains(named.as_ref())) {
            remove(path)?;
        }
    }
    timed(words)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns a layout with `volumes` UBIFS volumes of the tree on flash of 128 KiB blocks.
fn layout_toml(tree: &Path, compressor: &str, volumes: u32) -> String {
    let flash = "[flash]\npeb = \"128KiB\"\npage = 2048\nsubpage = 512\nblocks = 20480\n";
    let volume = |number| {
        format!(
            "\n[[volume]]\nname = \"root{number}\"\nsize = \"400MiB\"\n\
             content = {{ ubifs = '{}', compressor = \"{compressor}\" }}\n",
            tree.display()
        )
    };
    std::iter::once(flash.to_owned()).chain((0..volumes).map(volume)).collect()
}

/// Runs a command to its end and measures it with time(1); discards its output.
fn timed(words: &[String]) -> Result<Measure> {
    let report = tempfile::NamedTempFile::new()?;
    let started = Instant::now();
    let output = Command::new("time")
        .args(["-q", "-f", "%M", "-o"])
        .arg(report.path())
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("running time(1): is the Debian package `time` installed?")?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(
        output.status.success(),
        "`{}` failed: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    let kib: u64 = fs::read_to_string(report.path())?.trim().parse()?;
    Ok(Measure { seconds, peak_bytes: kib * 1024 })
}

fn remove(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(meta) if meta.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
    }
}

/// Counts regular files and their bytes.
fn measure_tree(dir: &Path) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            let (more_files, more_bytes) = measure_tree(&entry.path())?;
            files += more_files;
            bytes += more_bytes;
        } else if meta.is_file() {
            files += 1;
            bytes += meta.len();
        }
    }
    Ok((files, bytes))
}

/// Returns a part of the kernel source that Debian packages, used as plain data and unpacked once.
pub(crate) fn source_tree(work: &Path) -> Result<PathBuf> {
    let tree = work.join("tree");
    if tree.exists() {
        return Ok(tree);
    }
    println!("unpacking the bench tree (once)");
    let script = "set -e; rm -rf deb tree.part; mkdir -p deb tree.part; cd deb; \
        package=$(apt-cache depends linux-source | sed -n 's/.*Depends: //p' | head -n 1); \
        apt-get -qq download \"$package\"; dpkg-deb -x ./*.deb .; cd ..; \
        tar -xf deb/usr/src/linux-source-*.tar.xz -C tree.part --strip-components=1 \
            --wildcards --no-wildcards-match-slash '*/arch' '*/block' '*/crypto' '*/include' \
            '*/init' '*/io_uring' '*/kernel' '*/lib' '*/mm' '*/net'; \
        rm -rf deb; mv tree.part tree";
    let status = Command::new("sh").args(["-c", script]).current_dir(work).status()?;
    ensure!(status.success(), "the bench tree could not be unpacked; hint: pass --tree DIR");
    Ok(tree)
}

/// Returns a program of a Python package, which is installed below `target/` if it is not there.
fn python_tool(root: &Path, package: &str, program: &str) -> Result<PathBuf> {
    let venv = root.join("target/tools").join(package);
    let program = venv.join("bin").join(program);
    if !program.exists() {
        let script =
            format!("python3 -m venv {0} && {0}/bin/pip -q install {package}", venv.display());
        let status = Command::new("sh").args(["-c", &script]).status()?;
        ensure!(status.success(), "{package} could not be installed");
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, ratio: f64) -> Row {
        let (what, wanted) = (what.to_owned(), 0.5);
        Row { what, ours: ratio, peer: 1.0, unit: "s", ratio, wanted, met: ratio <= wanted }
    }

    /// A busy machine once failed the whole run for one ratio.
    #[test]
    fn a_missed_figure_fails_only_a_strict_run() {
        let rows = [row("mkfs", 0.4), row("extract", 0.6)];
        let text = "\n1 figures met, 1 missed\nmissed: extract: 0.600, wanted 0.50\n";
        assert_eq!(verdict(&rows), text);
        assert!(is_success(&rows, false));
        assert!(!is_success(&rows, true));
        assert!(is_success(&rows[..1], true));
    }
}
