//! Programs in C for system calls that are only available through `unsafe` in Rust.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A compiled program.
pub(crate) struct Helper {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

impl Helper {
    /// Compiles `source` with the compiler that links these tests.
    pub(crate) fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join("helper.c"), folder.path().join("helper"));
        std::fs::write(&file, source).unwrap();
        let made = Command::new("cc").args(["-Wall", "-O1", "-o"]).args([&program, &file]).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { _folder: folder, program }
    }

    pub(crate) fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// Runs the program; returns its output and its exit code.
    pub(crate) fn run(&self, word: &str, place: &Path, rest: &[&str]) -> (String, i32) {
        let Output { status, stdout, .. } =
            self.command().arg(word).arg(place).args(rest).output().unwrap();
        (String::from_utf8(stdout).unwrap(), status.code().unwrap())
    }
}
