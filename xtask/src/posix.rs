//! Public suites that judge a mount: pjdfstest and fsx, on the model file system behind our FUSE
//! adapter. What a suite leaves out is printed with the reason.

use crate::command::{output, repository};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// What pjdfstest is told: names of two users, and which optional behaviour exists here.
const PJDFSTEST: &str = "\
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = REMOUNTS
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// The only test of pjdfstest that never runs, and why.
const SKIPPED: &str = "link::link_count_max: Linux's pathconf(2) knows no limit of names for FUSE, \
                       and none for UBIFS either";

/// What pjdfstest finds as mount(8). The real one must not look for a helper of the kind of mount;
/// and a FUSE mount is busy until the last file closed has been released.
const REMOUNT: &str = "#!/bin/sh
for _ in 1 2 3 4 5 6 7 8 9 10; do
    /bin/mount -i \"$@\" 2>/dev/null && exit 0
    sleep 0.1
done
exec /bin/mount -i \"$@\"
";

/// Everything fsx can do here; flash file systems do not allocate or punch.
const FSX: &str = "\
flen = 262144
[opsize]
max = 65536
[weights]
close_open = 1
invalidate = 1
read = 10
write = 10
mapread = 5
mapwrite = 5
truncate = 2
fsync = 0.5
fdatasync = 0.5
sendfile = 2
copy_file_range = 2
";

/// A mounted model.
struct Model {
    dir: PathBuf,
    process: Child,
}

impl Model {
    fn mount(work: &Path) -> Result<Self> {
        let dir = work.join("mount");
        fs::create_dir_all(&dir)?;
        let program = repository().join("target/debug/examples/model");
        let process = Command::new(&program).arg(&dir).arg("exact").spawn();
        let process = process.with_context(|| program.display().to_string())?;
        let mut model = Self { dir, process };
        for _ in 0..500 {
            if fs::read_to_string("/proc/self/mountinfo")?
                .contains(&model.dir.display().to_string())
            {
                return Ok(model);
            }
            if let Some(status) = model.process.try_wait()? {
                bail!("the model could not be mounted: {status}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the model is not mounted after 5 seconds")
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.dir).status();
        let _ = self.process.wait();
    }
}

/// Runs the suites; `--short` for a minute's worth of fsx.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let (seeds, operations) = if is_short { (2, 10_000) } else { (10, 100_000) };
    if fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("left out: pjdfstest and fsx: /dev/fuse cannot be opened");
        return Ok(true);
    }
    let work = repository().join("target/posix");
    fs::create_dir_all(&work)?;
    let model = Model::mount(&work)?;
    pjdfstest(&work, &model.dir)?;
    fsx(&work, &model.dir, seeds, operations)?;
    Ok(true)
}

fn tool(name: &str) -> Command {
    Command::new(repository().join("target/tools/bin").join(name))
}

/// One run for everything, and one for what remounts: an earlier test of the suite leaves a removed
/// file open, and no kernel makes such a mount read-only.
fn pjdfstest(work: &Path, dir: &Path) -> Result<()> {
    let shims = work.join("bin");
    fs::create_dir_all(&shims)?;
    fs::write(shims.join("mount"), REMOUNT)?;
    fs::set_permissions(shims.join("mount"), fs::Permissions::from_mode(0o755))?;
    pjdfstest_run(work, dir, "everything", false, " 14 skipped")?;
    pjdfstest_run(work, dir, "erofs", true, " 0 skipped")?;
    println!("  of the 14 skipped, 13 are those of the second run; {SKIPPED}");
    Ok(())
}

fn pjdfstest_run(work: &Path, dir: &Path, what: &str, remounts: bool, skipped: &str) -> Result<()> {
    let configuration = work.join("pjdfstest.toml");
    fs::write(&configuration, PJDFSTEST.replace("REMOUNTS", &remounts.to_string()))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = tool("pjdfstest");
    command.arg("-c").arg(&configuration).arg("-p").arg(dir).args(["-s", "/dev/shm"]);
    if remounts {
        command.arg(what);
    }
    command.env("PATH", format!("{}:{path}", work.join("bin").display()));
    let output = command.output().context("pjdfstest")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = work.join(format!("pjdfstest-{what}.log"));
    fs::write(&log, &text)?;
    let summary = text.lines().find(|line| line.starts_with("Summary:")).unwrap_or("no summary");
    println!("pjdfstest, {what}: {}", summary.trim_start_matches("Summary: "));
    ensure!(output.status.success(), "pjdfstest failed: see {}", log.display());
    ensure!(summary.contains(skipped), "pjdfstest left out more than it should");
    Ok(())
}

fn fsx(work: &Path, dir: &Path, seeds: u32, operations: u32) -> Result<()> {
    let configuration = work.join("fsx.toml");
    fs::write(&configuration, FSX)?;
    for seed in 1..=seeds {
        let mut command = tool("fsx");
        command.arg("-f").arg(&configuration).arg("-P").arg(work);
        command.args(["-S", &seed.to_string(), "-N", &operations.to_string()]);
        output(command.arg(dir.join("fsx"))).with_context(|| format!("fsx, seed {seed}"))?;
    }
    println!("fsx on the model: {seeds} seeds of {operations} operations, 0 mismatches");
    Ok(())
}
