//! Runs other programs and reports why they failed.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a program to its end and returns its output; if it fails, the error contains its messages.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if !done.status.success() {
        bail!("{name}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs a program with these arguments.
pub(crate) fn run<S: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = S>,
) -> Result<String> {
    output(Command::new(program).args(args))
}

/// Returns the cargo that runs this program, or that of PATH.
pub(crate) fn cargo() -> Command {
    Command::new(cargo_path())
}

/// `cargo` in a copy of the sources, for which clippy does not take part as it does in `make test`.
pub(crate) fn cargo_in(copy: &Path) -> Command {
    let mut command = cargo();
    command.current_dir(copy).env_remove("RUSTC_WORKSPACE_WRAPPER");
    command
}

/// Returns its path.
pub(crate) fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Returns the path of a program, also searching the directories of the system administrator.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the repository").to_path_buf()
}
