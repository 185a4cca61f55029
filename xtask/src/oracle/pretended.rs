//! `linux-mounts-pretended`: images of a tree that only fakeroot shows, made with the command lines
//! of Buildroot by an ordinary user, once with our tools first in PATH and once with mtd-utils; real
//! Linux must list in all of them the entries that fakeroot showed.

use crate::command::{find_program, output};
use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::jffs2_chips::NAND_2K;
use crate::oracle::jffs2_ours::LINUX_WROTE;
use crate::oracle::jffs2_writes::MARKERS;
use crate::oracle::linux_writes::CHIPS;
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// An image and its check.
struct Case {
    name: &'static str,
    /// Made with our tools. Debian's mkfs.ubifs stores no attributes, mkfs.jffs2 no root.
    is_ours: bool,
    is_jffs2: bool,
}

impl Case {
    /// Where the script leaves the image.
    fn image(&self) -> String {
        let maker = if self.is_ours { "ours" } else { "theirs" };
        let suffix = if self.is_jffs2 { "jffs2" } else { "ubi" };
        format!("{maker}/rootfs.{suffix}")
    }

    fn keeps_xattrs(&self) -> bool {
        self.is_ours || self.is_jffs2
    }

    fn has_root(&self) -> bool {
        self.is_ours || !self.is_jffs2
    }
}

const CASES: [Case; 4] = [
    Case { name: "ours", is_ours: true, is_jffs2: false },
    Case { name: "mtd-utils", is_ours: false, is_jffs2: false },
    Case { name: "ours-jffs2", is_ours: true, is_jffs2: true },
    Case { name: "mtd-utils-jffs2", is_ours: false, is_jffs2: true },
];

/// Makes the tree `w` and an image of each kind with each set of tools; `TOOLS` holds ours.
const SCRIPT: &str = r"
umask 022
mkdir -p w/dev w/d
mknod -m 620 w/dev/console c 5 1 && chown 5:6 w/dev/console
mknod -m 660 w/dev/blk b 8 300 && chown 0:6 w/dev/blk
mknod w/dev/fifo p
echo content > w/f && chown 1234:5678 w/f && chmod 4755 w/f && ln w/f w/d/hard
ln -s f w/link && chown -h 7:8 w/link
chown 9:10 w/d && chmod 2711 w/d
echo ping > w/capped && chown 0:0 w/capped && chmod 755 w/capped
setcap cap_net_raw+ep w/capped
chown 11:12 w && chmod 750 w
find w -exec touch -h -d @1700000000 {} +
printf '[ubifs]\nmode=ubi\nvol_id=0\nvol_type=dynamic\nvol_name=rootfs\nvol_alignment=1\nvol_flags=autoresize\nimage=rootfs.ubifs\n' > ubinize.cfg
build() (
    mkdir $1 && cd $1
    mkfs.ubifs -d ../w -e 0x1f800 -c 2048 -m 0x800 -x lzo -o rootfs.ubifs
    ubinize -o rootfs.ubi -m 0x800 -p 0x20000 -s 512 ../ubinize.cfg
    mkfs.jffs2 -e 0x20000 --with-xattr -p -l -s 0x800 -n -d ../w -o rootfs.jffs2.nosummary
    sumtool -e 0x20000 -p -l -n -i rootfs.jffs2.nosummary -o rootfs.jffs2
)
build theirs
PATH=$TOOLS:$PATH
build ours
";

/// The tree as Linux must list it.
const EXPECTED: &str = "\
. d 0750 11:12 nlink=4 mtime=1700000000 size=0 dev=- group=- content=- xattrs=-
capped - 0755 0:0 nlink=1 mtime=1700000000 size=5 dev=- group=- content=sha256:1146a4c81194d9a9eecfad4477d2c12dfc8e74d770ae855c7b840d9463930c9e xattrs=security.capability:0100000200200000000000000000000000000000
d d 2711 9:10 nlink=2 mtime=1700000000 size=0 dev=- group=- content=- xattrs=-
d/hard - 4755 1234:5678 nlink=2 mtime=1700000000 size=8 dev=- group=1 content=sha256:434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53 xattrs=-
dev d 0755 0:0 nlink=2 mtime=1700000000 size=0 dev=- group=- content=- xattrs=-
dev/blk b 0660 0:6 nlink=1 mtime=1700000000 size=0 dev=8:300 group=- content=- xattrs=-
dev/console c 0620 5:6 nlink=1 mtime=1700000000 size=0 dev=5:1 group=- content=- xattrs=-
dev/fifo p 0644 0:0 nlink=1 mtime=1700000000 size=0 dev=- group=- content=- xattrs=-
f - 4755 1234:5678 nlink=2 mtime=1700000000 size=8 dev=- group=1 content=sha256:434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53 xattrs=-
link l 0777 7:8 nlink=1 mtime=1700000000 size=1 dev=- group=- content=target:f xattrs=-
";

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(check_name).collect()
}

fn check_name(case: &Case) -> String {
    format!("linux-mounts-pretended/{}", case.name)
}

/// Builds all images on the host, then lets Linux list them in one boot.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&Case> = CASES.iter().filter(|case| checks.wants(&check_name(case))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    if let Err(error) = build(folder.path(), &paths.ours) {
        let reason = format!("{error:#}");
        let fail = |case| checks.record(&check_name(case), Err(anyhow::anyhow!("{reason}")));
        wanted.into_iter().for_each(fail);
        return Ok(());
    }
    let cases: Vec<BatchCase> = wanted.iter().map(|case| batch_case(case, folder.path())).collect();
    let batch = Batch::run(guest, paths, "linux-mounts-pretended", &[], &cases)?;
    println!("      linux-mounts-pretended: {:.1} s in the guest", batch.seconds());
    for case in wanted {
        let outcome = batch.case_dir(case.name).and_then(|dir| judge(case, &dir));
        checks.record(&check_name(case), outcome);
    }
    paths.finish(batch)
}

/// Runs the script under fakeroot, as an ordinary user if the host's user is root.
fn build(folder: &Path, ours: &Path) -> Result<()> {
    let tools = folder.join("tools");
    fs::create_dir(&tools)?;
    let program = tools.join("eraseblock");
    fs::copy(ours, &program).with_context(|| format!("cannot copy {}", ours.display()))?;
    for tool in ["mkfs.ubifs", "ubinize", "mkfs.jffs2", "sumtool"] {
        std::os::unix::fs::symlink("eraseblock", tools.join(tool))?;
    }
    let fakeroot = find_program("fakeroot").context("no fakeroot (hint: make setup)")?;
    let mut command = Command::new(&fakeroot);
    if fs::metadata(folder)?.uid() == 0 {
        const NOBODY: u32 = 65_534;
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY))?;
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        command.arg(fakeroot);
    }
    command.args(["--", "sh", "-ec", SCRIPT]).current_dir(folder).env("TOOLS", tools);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    output(&mut command).map(drop)
}

fn batch_case(case: &Case, folder: &Path) -> BatchCase {
    let files = vec![("image", folder.join(case.image()))];
    let name = case.name.to_owned();
    if case.is_jffs2 {
        let no_root = if case.has_root() { "" } else { r"\|^\. " };
        let variables = vec![
            ("LOAD", NAND_2K.load.to_owned()),
            ("MARKERS", MARKERS.to_owned()),
            ("UNSTABLE", format!("{LINUX_WROTE}{no_root}")),
        ];
        let script = include_str!("../../guest/jffs2-mounts.sh");
        return BatchCase { name, script, variables, files };
    }
    let chip = CHIPS[0];
    let variables = vec![
        ("LOAD", chip.load.to_owned()),
        ("FORMAT", chip.offset_args.0.to_owned()),
        ("ATTACH", chip.offset_args.1.to_owned()),
        ("PUT", "ubiformat".to_owned()),
        ("VOLUMES", "rootfs".to_owned()),
    ];
    let script = include_str!("../../guest/mounts.sh");
    BatchCase { name, script, variables, files }
}

/// Compares what Linux listed with what was pretended.
fn judge(case: &Case, dir: &Path) -> Result<()> {
    let log = String::from_utf8_lossy(&fs::read(dir.join("dmesg"))?).into_owned();
    let allowed: &[&str] = if case.is_jffs2 { &["Not enough space"] } else { &[] };
    let found = complaints(&log, allowed);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let name = if case.is_jffs2 { "manifest" } else { "manifest-rootfs" };
    let listed = fs::read_to_string(dir.join(name)).context("Linux listed nothing")?;
    let mut expected =
        if case.keeps_xattrs() { EXPECTED.to_owned() } else { without_xattrs(EXPECTED) };
    if !case.has_root() {
        // mkfs.jffs2 has two bytes for a device number, and adds what does not fit to the major.
        expected = expected.replace("dev=8:300", "dev=9:44");
    }
    let compared = |listing: &str| {
        let lines = listing.split_inclusive('\n');
        lines.filter(|line| case.has_root() || !line.starts_with(". ")).collect::<String>()
    };
    let differences = differences(&compared(&expected), &compared(&listed), Ignore::OwnSizes);
    ensure!(differences.is_empty(), "{}", summary(&differences));
    Ok(())
}

fn without_xattrs(manifest: &str) -> String {
    let plain = |line: &str| match line.split_once(" xattrs=") {
        Some((rest, _)) => format!("{rest} xattrs=-\n"),
        None => format!("{line}\n"),
    };
    manifest.lines().map(plain).collect()
}
