//! The file a command makes: it gets its name only when it is complete, and never that of an image
//! that another process writes to.
//!
//! # Invariants
//! 1. A run that fails, or that a signal ends, leaves what was at the path before, and nothing else.

use crate::failure::{Context, Failure};
use crate::inputs::Inputs;
use crate::interrupt::Partial;
use eraseblock::target::lock;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A file being written. If dropped without [`Output::commit`], it leaves no trace.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    state: State,
    /// The open file; it can be read, written and positioned, unless it is a device.
    pub file: File,
    /// Keeps writers away from a file that will be replaced.
    _replaced: Option<File>,
}

/// The place of the bytes until the output is complete.
#[derive(Debug)]
enum State {
    /// In a file of the right folder that has no name: it vanishes with the process.
    Unnamed,
    /// In a file with a name of its own, where the host has no unnamed ones.
    Named(Partial),
    /// In a temporary file, to be copied into a pipe, which has no positions.
    Spooled(File),
    /// In their final place, a device.
    There,
}

impl Output {
    /// Begins a file that will be at `path`. A device there is written to directly, a pipe when the
    /// content is complete.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Self::to_stdout();
        }
        if path.is_dir() {
            return Err(Failure::new(format!("{}: is a folder", path.display())));
        }
        let meta = path.metadata().ok();
        let is_pipe = meta.as_ref().is_some_and(|meta| meta.file_type().is_fifo());
        if is_pipe {
            let pipe = File::options().write(true).open(path).context(path.display())?;
            return Self::spooled(path, pipe);
        }
        // A descriptor's name is a link that no other file can replace.
        let is_descriptor = path.starts_with("/dev/fd") || path.starts_with("/proc");
        if is_descriptor || meta.is_some_and(|meta| !meta.is_file()) {
            let file = open(path).context(path.display())?;
            return Ok(Self { path: path.to_owned(), state: State::There, file, _replaced: None });
        }
        let replaced = lock::reading(path)?;
        let (file, state) = match unnamed(path) {
            Some(file) => (file, State::Unnamed),
            None => named(path)?,
        };
        Ok(Self { path: path.to_owned(), state, file, _replaced: replaced })
    }

    /// Like [`Output::create`], for a file that must not exist yet unless it may be replaced.
    pub(crate) fn create_new(path: &Path, force: bool, inputs: &Inputs) -> Result<Self, Failure> {
        inputs.refuse(path)?;
        let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        let is_there = path.metadata().map_or(is_link, |meta| meta.is_file());
        if is_there && !force && !is_stdout(path) {
            let message = format!("{}: exists already", path.display());
            return Err(Failure::new(message).hint("--force replaces it"));
        }
        Self::create(path)
    }

    /// Returns whether this will be a new regular file.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.state, State::Unnamed | State::Named(_))
    }

    /// Begins an output that is copied to standard output when it is complete.
    pub(crate) fn to_stdout() -> Result<Self, Failure> {
        let stdout = rustix::io::dup(io::stdout()).context("standard output")?;
        Self::spooled(Path::new("standard output"), stdout.into())
    }

    fn spooled(path: &Path, pipe: File) -> Result<Self, Failure> {
        let file = tempfile::tempfile().context("temporary file")?;
        Ok(Self { path: path.to_owned(), state: State::Spooled(pipe), file, _replaced: None })
    }

    /// Gives the complete file its name.
    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        let done = match self.state {
            State::There => Ok(()),
            State::Unnamed => link(&self.file, &self.path),
            State::Named(partial) => partial.rename(&self.path),
            State::Spooled(mut pipe) => {
                self.file.rewind().and_then(|()| io::copy(&mut self.file, &mut pipe).map(drop))
            }
        };
        done.context(self.path.display())
    }
}

/// Returns whether a path is standard output by another name.
fn is_stdout(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

/// A file without a name in the folder of `path`, if the host has such files and can name them.
fn unnamed(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    path.file_name()?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, folder, flags, Mode::from_raw_mode(0o666)).ok()?;
    let file = File::from(file);
    // Its name is made through /proc, which a sandbox may lack.
    descriptor(&file).symlink_metadata().is_ok().then_some(file)
}

fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Names an unnamed file. A link cannot replace a file, so that one which is there is replaced by
/// renaming over it.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let link =
        |to: &Path| rustix::fs::linkat(CWD, descriptor(file), CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Err(Errno::EXIST) => {
            let partial = Partial::new(&beside(path)?);
            // A process with the same number left a file of this name.
            let _ = std::fs::remove_file(partial.path());
            link(partial.path())?;
            partial.rename(path)
        }
        linked => Ok(linked?),
    }
}

/// A file with a name of its own, until it is complete.
fn named(path: &Path) -> Result<(File, State), Failure> {
    let temporary = beside(path).map_err(|error| Failure::usage(error.to_string()))?;
    let partial = Partial::new(&temporary);
    let file = open(partial.path()).context(path.display())?;
    Ok((file, State::Named(partial)))
}

/// The name that a file has until it is complete.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let refused = || io::Error::other(format!("{}: not the name of a file", path.display()));
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(path.file_name().ok_or_else(refused)?);
    temporary.push(format!(".{}.partial", std::process::id()));
    Ok(path.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock::raw::mtd::Access;
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn only_complete_files_get_their_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let create_named = |path: &Path| {
            let (file, state) = named(path).unwrap();
            Output { path: path.to_owned(), state, file, _replaced: None }
        };
        for create in [|path: &Path| Output::create(path).unwrap(), create_named] {
            for text in [&b"whole"[..], b"more"] {
                let before = names();
                let mut output = create(&path);
                output.file.write_all(b"half").unwrap();
                drop(output);
                assert_eq!(names(), before);
                let mut output = create(&path);
                output.file.write_all(text).unwrap();
                output.commit().unwrap();
                assert_eq!(fs::read(&path).unwrap(), text);
                assert_eq!(names(), 1);
            }
            fs::remove_file(&path).unwrap();
        }
        assert!(Output::create(folder.path()).is_err());
        assert!(Output::create(Path::new("/nonexistent/out")).is_err());
        // A signal that cannot be caught leaves no trace of an unnamed file.
        let output = Output::create(&path).unwrap();
        assert!(matches!(output.state, State::Unnamed));
        assert_eq!(names(), 0);
    }

    #[test]
    fn the_mode_of_a_new_file_is_the_usual_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [made, plain] = ["made", "plain"].map(|name| folder.path().join(name));
        Output::create(&made).unwrap().commit().unwrap();
        File::create(&plain).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&made), mode(&plain));
    }

    /// `build` put a new image in the place of a mounted one: what was written to the mount was lost.
    #[test]
    fn an_image_that_is_written_to_is_not_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = lock::lock(file.path(), Access::Write).unwrap();
        let refused = Output::create(file.path()).unwrap_err();
        assert!(refused.message().contains("being written to"), "{}", refused.message());
        drop(writer);
        Output::create(file.path()).unwrap().commit().unwrap();
    }

    /// The child process of the next test, which a signal ends. Run by itself it does nothing.
    #[test]
    fn write_half_and_wait() {
        let Some(path) = std::env::var_os("ERASEBLOCK_TEST_OUTPUT") else { return };
        let (mut file, _state) = named(Path::new(&path)).unwrap();
        file.write_all(b"half").unwrap();
        let mut out = io::stdout();
        writeln!(out, "\nready").unwrap();
        out.flush().unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    #[test]
    fn a_signal_removes_a_file_with_a_name() {
        for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
            use std::os::unix::process::ExitStatusExt;
            let folder = tempfile::tempdir().unwrap();
            // A background job of a shell ignores SIGINT, and its children inherit that.
            let mut child = Command::new("env")
                .arg("--default-signal")
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "output::tests::write_half_and_wait", "--nocapture"])
                .env("ERASEBLOCK_TEST_OUTPUT", folder.path().join("out"))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap() == "ready"));
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
            assert!(kill.unwrap().success());
            assert_eq!(child.wait().unwrap().signal(), Some(number), "{signal}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{signal}");
        }
    }
}
