//! Boots real Linux in QEMU's software emulation and runs one job in it.
//!
//! # Invariants
//! 1. A guest never outlives [`Guest::run`]: it is killed with its process group at the time-out.
//! 2. Jobs communicate with the host through their directory only.

use crate::command::run;
use crate::kernel::{Kernel, libraries_of};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A directory shared with the guest: it runs `job.sh`, and `bin` is in its PATH. Afterwards the
/// directory has `output`, `status`, `dmesg`, `console` and the files that the job wrote.
#[derive(Debug)]
pub(crate) struct JobDir {
    path: PathBuf,
}

impl JobDir {
    /// Creates an empty job directory and replaces an existing one.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let _ = fs::remove_dir_all(path);
        fs::create_dir_all(path.join("bin"))?;
        Ok(Self { path: path.to_path_buf() })
    }

    /// Returns its path on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<()> {
        Ok(fs::write(self.path.join(name), content)?)
    }

    /// Adds a program to the guest's PATH; it may need only the libraries of [`crate::kernel`].
    /// Symbols are stripped, so that it is copied into the guest's memory faster.
    pub(crate) fn add_program(&self, program: &Path) -> Result<()> {
        let name = program.file_name().context("a program has a name")?;
        let place = self.path.join("bin").join(name);
        let stripped = Command::new("strip").arg("-o").arg(&place).arg(program).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(program, &place)?;
        }
        Ok(fs::set_permissions(place, fs::Permissions::from_mode(0o755))?)
    }

    /// Adds a program and, in the folder `lib`, its libraries.
    pub(crate) fn add_with_libraries(&self, program: &Path) -> Result<()> {
        self.add_program(program)?;
        fs::create_dir_all(self.path.join("lib"))?;
        for library in libraries_of(program)? {
            let name = library.file_name().context("a library has a name")?;
            fs::copy(&library, self.path.join("lib").join(name))?;
        }
        Ok(())
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The result of a boot.
#[derive(Debug)]
pub(crate) struct GuestReport {
    /// Exit status of the job; `None` if it did not finish.
    pub(crate) status: Option<i32>,
    /// Whether the time-out expired.
    pub(crate) timed_out: bool,
    /// Wall-clock time from power on to power off.
    pub(crate) elapsed: Duration,
    /// The last lines of the job's output.
    pub(crate) tail: String,
}

impl GuestReport {
    /// Returns why the job as a whole failed, or `None`.
    pub(crate) fn failure(&self) -> Option<String> {
        let reason = match (self.timed_out, self.status) {
            (true, _) => format!("timed out after {} s", self.elapsed.as_secs()),
            (false, None) => "the guest stopped before its job ended".to_owned(),
            (false, Some(0)) => return None,
            (false, Some(status)) => format!("the job exited with {status}"),
        };
        Some(format!("{reason}; last output:\n{}", self.tail))
    }
}

/// Kernel messages that no job should cause, in lower case.
const COMPLAINTS: [&str; 12] = [
    "ubifs error",
    "ubi error",
    "ubifs warning",
    "ubi warning",
    "jffs2: error",
    "jffs2: warning",
    "assert failed",
    "bug:",
    "warning:",
    "oops",
    "call trace",
    "general protection",
];

/// The start of the simulator's own warnings, which every chip causes.
const SIMULATOR: &str = "[nandsim] warning";

/// Returns the lines of a kernel log that complain and contain none of `allowed`.
pub(crate) fn complaints(log: &str, allowed: &[&str]) -> Vec<String> {
    let is_bad = |line: &&str| {
        let lower = line.to_lowercase();
        COMPLAINTS.iter().any(|word| lower.contains(word))
            && !lower.contains(SIMULATOR)
            && !allowed.iter().any(|word| line.contains(word))
    };
    log.lines().filter(is_bad).map(str::to_owned).collect()
}

/// A machine that can be booted any number of times.
#[derive(Debug)]
pub(crate) struct Guest {
    kernel: Kernel,
    /// The time limit of a job.
    pub(crate) timeout: Duration,
}

impl Guest {
    /// Creates a guest with that kernel.
    pub(crate) fn new(kernel: Kernel) -> Self {
        Self { kernel, timeout: Duration::from_mins(20) }
    }

    /// Returns the output of `uname -r` in it.
    pub(crate) fn release(&self) -> &str {
        &self.kernel.release
    }

    /// Returns a description of the kernel, of the programs in it and of the emulator.
    pub(crate) fn description(&self) -> Result<String> {
        let emulator = run("qemu-system-x86_64", ["--version"])?;
        Ok(format!("{}\n{emulator}", self.kernel.description))
    }

    /// Returns the hash of its kernel.
    pub(crate) fn kernel_hash(&self) -> Result<String> {
        Ok(crate::evaluate::sha256(&fs::read(&self.kernel.image)?))
    }

    /// Returns the files of further modules of its kernel, in the order of loading.
    pub(crate) fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        self.kernel.modules(names)
    }

    /// Boots, runs the job and powers off.
    pub(crate) fn run(&self, job: &JobDir) -> Result<GuestReport> {
        self.run_with(job, &[])
    }

    /// The same on a machine with more devices: `devices` are arguments of QEMU.
    pub(crate) fn run_with(&self, job: &JobDir, devices: &[String]) -> Result<GuestReport> {
        self.run_watched(job, devices, &|| false)
    }

    /// The same on a machine that is also killed as soon as `is_stuck` returns true.
    pub(crate) fn run_watched(
        &self,
        job: &JobDir,
        devices: &[String],
        is_stuck: &dyn Fn() -> bool,
    ) -> Result<GuestReport> {
        let begin = Instant::now();
        let console = File::create(job.path.join("console"))?;
        let mut child = Command::new("qemu-system-x86_64")
            // Emulating the newest features of processors takes a fifth more time.
            .args(["-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "2", "-m", "2048"])
            .args(["-nographic", "-no-reboot", "-nic", "none"])
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(&self.kernel.initrd)
            // On a busy host the kernel's check of the timer may fail.
            .args(["-append", "console=ttyS0 panic=-1 quiet no_timer_check"])
            .arg("-virtfs")
            .arg(format!("local,path={},mount_tag=host,security_model=none", job.path.display()))
            .args(devices)
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            .process_group(0)
            .spawn()
            .context("cannot start qemu-system-x86_64")?;
        let deadline = begin + self.timeout;
        let timed_out = !wait(&mut child, &|| Instant::now() >= deadline || is_stuck())?;
        let status = job.read("status").trim().parse().ok();
        let output = job.read("output");
        let lines: Vec<&str> = output.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        Ok(GuestReport { status, timed_out, elapsed: begin.elapsed(), tail })
    }
}

/// Waits until the machine is off, or kills it when `is_over` says so and returns false.
fn wait(child: &mut Child, is_over: &dyn Fn() -> bool) -> Result<bool> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if is_over() {
            let group = rustix::process::Pid::from_child(child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_found_and_may_be_allowed() {
        let log = "[1] UBI: attached mtd0\n[2] UBIFS error (ubi0:0 pid 7): bad node\n\
                   [3] UBI warning: corrupt\n[4] [nandsim] warning: read_byte";
        assert_eq!(complaints(log, &[]).len(), 2);
        assert_eq!(complaints(log, &["bad node", "corrupt"]), Vec::<String>::new());
    }
}
