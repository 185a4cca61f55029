//! `linux-mounts-pretended`: images of a tree that only fakeroot shows, made by our `mkfs.ubifs` and
//! by that of mtd-utils as an ordinary user; real Linux must see in both what was pretended.

use crate::command::{find_program, output};
use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::linux_writes::CHIPS;
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// The builders and their checks.
const CASES: [&str; 2] = ["ours", "mtd-utils"];

/// Makes the tree `w` and an image of each builder; `OURS` is our command.
const SCRIPT: &str = r#"
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
"$OURS" mkfs.ubifs -r w -m 2048 -e 129024 -c 100 -x lzo -o ours.ubifs
mkfs.ubifs -r w -m 2048 -e 129024 -c 100 -x lzo -o mtd-utils.ubifs
"#;

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
    CASES.map(check_name).to_vec()
}

fn check_name(case: &str) -> String {
    format!("linux-mounts-pretended/{case}")
}

/// Builds both images on the host, then lets Linux list them in one boot.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&str> =
        CASES.into_iter().filter(|case| checks.wants(&check_name(case))).collect();
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
        checks.record(&check_name(case), batch.case_dir(case).and_then(|dir| judge(case, &dir)));
    }
    paths.finish(batch)
}

/// Runs the script under fakeroot, as an ordinary user if the host's user is root.
fn build(folder: &Path, ours: &Path) -> Result<()> {
    let ours_here = folder.join("eraseblock");
    fs::copy(ours, &ours_here).with_context(|| format!("cannot copy {}", ours.display()))?;
    let fakeroot = find_program("fakeroot").context("no fakeroot (hint: make setup)")?;
    let mut command = Command::new(&fakeroot);
    if fs::metadata(folder)?.uid() == 0 {
        const NOBODY: u32 = 65_534;
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY))?;
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        command.arg(fakeroot);
    }
    command.args(["--", "sh", "-ec", SCRIPT]).current_dir(folder).env("OURS", ours_here);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    output(&mut command).map(drop)
}

fn batch_case(case: &str, folder: &Path) -> BatchCase {
    let chip = CHIPS[0];
    let variables = vec![
        ("LOAD", chip.load.to_owned()),
        ("FORMAT", chip.offset_args.0.to_owned()),
        ("ATTACH", chip.offset_args.1.to_owned()),
        ("PUT", "volume".to_owned()),
        ("VOLUMES", "data".to_owned()),
    ];
    let files = vec![("image", folder.join(format!("{case}.ubifs")))];
    let script = include_str!("../../guest/mounts.sh");
    BatchCase { name: case.to_owned(), script, variables, files }
}

/// Compares what Linux listed with what was pretended. Debian's mkfs.ubifs stores no attributes.
fn judge(case: &str, dir: &Path) -> Result<()> {
    let log = String::from_utf8_lossy(&fs::read(dir.join("dmesg"))?).into_owned();
    let found = complaints(&log, &[]);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let listed = fs::read_to_string(dir.join("manifest-data")).context("Linux listed nothing")?;
    let expected = if case == "ours" { EXPECTED.to_owned() } else { without_xattrs(EXPECTED) };
    let differences = differences(&expected, &listed, Ignore::OwnSizes);
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
