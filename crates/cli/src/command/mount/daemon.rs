//! The background process of a mount, a second run of this program. It reports through a pipe that
//! the mount is ready. Until then its messages are passed on, and its exit code is ours.

use crate::failure::{Exit, Failure};
use rustix::fs::{Mode, OFlags};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};

/// What the process says when the mount can be used.
const READY: &str = "ready";

/// Starts the process and waits until it is ready or gone.
pub(super) fn start() -> Result<(), Failure> {
    let (program, arguments) = crate::start()?;
    let mut command = Command::new(program);
    command.args(&arguments[1..]).arg("--daemon");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe).read_line(&mut line)?;
    }
    if line.trim_end() == READY {
        return Ok(());
    }
    Err(gone(child.wait()?))
}

/// Unless a signal ended it, the process has said why.
fn gone(status: ExitStatus) -> Failure {
    match status.code() {
        Some(code) => Failure::reported(code == Exit::Usage as i32),
        None => Failure::new("the process that was to serve the mount died"),
    }
}

/// Makes this process independent of the terminal it was started from.
pub(super) fn leave_the_terminal() {
    // A process that leads a group already is as independent as it can be.
    let _ = rustix::process::setsid();
}

/// Notifies the waiting run, and releases its streams and its start directory.
pub(super) fn ready() -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::env::set_current_dir("/")?;
    Ok(())
}
