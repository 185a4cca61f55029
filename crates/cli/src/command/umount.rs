//! `eraseblock umount`: ends a mount, and waits until everything is in the image.

use crate::command::mount::status;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock_fuse::source_path;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the process behind a mount may take to write everything.
const PATIENCE: Duration = Duration::from_secs(600);

/// Arguments of `umount`.
#[derive(Debug, clap::Args)]
pub(crate) struct UmountArgs {
    /// Where it is mounted
    dir: PathBuf,
}

/// A mount of the host.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    dir: Vec<u8>,
    kind: Vec<u8>,
    source: Vec<u8>,
}

/// Unmounts.
pub(crate) fn run(args: &UmountArgs, _session: &mut Session) -> Result<(), Failure> {
    let dir = absolute(&args.dir).context(args.dir.display())?;
    let table = std::fs::read("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    let mounts = table.split(|byte| *byte == b'\n').filter_map(entry);
    let mut mounts: Vec<Entry> = mounts.filter(|entry| entry.kind.starts_with(b"fuse")).collect();
    let Some(place) = mounts.iter().rposition(|mount| mount.dir == dir.as_os_str().as_bytes())
    else {
        return Err(Failure::new(format!("{}: nothing of ours is mounted here", dir.display())));
    };
    let mount = mounts.swap_remove(place);
    let source = source_path(&mount.source);
    // Before anything changes: whoever mounts another file system there may hide the image.
    let image = File::open(&source);
    unmount(&dir).context(dir.display())?;
    if !mount.is_ours() {
        return Ok(());
    }
    // Another volume of the same image keeps it locked: its process tells when this one is at rest.
    let other = mounts.iter().find(|other| other.source == mount.source);
    let other = other.map(|other| Path::new(OsStr::from_bytes(&other.dir)));
    image.and_then(|image| wait_for(&image, &dir, other)).map_err(|error| {
        let source = source.display();
        Failure::new(format!(
            "{}: unmounted, but whether everything is in {source} is not known: {error}",
            dir.display()
        ))
        .hint("it is when the process behind the mount has ended")
    })
}

impl Entry {
    /// Whether a process of ours is behind it.
    fn is_ours(&self) -> bool {
        self.kind == b"fuse.eraseblock"
    }
}

/// The path without symbolic links; of a mount whose process died, the name itself must do.
fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    match dir.canonicalize() {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            Ok(std::path::absolute(dir)?)
        }
        other => Ok(other?),
    }
}

/// One line of the table of mounts: the fifth field is the place, and behind a lone dash stand
/// kind and source.
fn entry(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let dir = unescaped(fields.nth(4)?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Entry { dir, kind: fields.next()?.to_vec(), source: unescaped(fields.next()?) })
}

/// Undoes `\040` and its like.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

fn unmount(dir: &Path) -> Result<(), Failure> {
    match rustix::mount::unmount(dir, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy()),
        Err(Errno::PERM) => {
            let mut command = Command::new("fusermount3");
            command.arg("-u").arg("--").arg(OsString::from_vec(dir.as_os_str().as_bytes().into()));
            let output = command.output().context("fusermount3")?;
            if output.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&output.stderr);
            Err(if said.contains("busy") { busy() } else { Failure::new(said.trim().to_owned()) })
        }
        Err(error) => Err(error.into()),
    }
}

fn busy() -> Failure {
    Failure::new("is in use").hint("`fuser -vm` lists who uses it")
}

/// Waits until the process behind a writable mount lets go of the image.
fn wait_for(image: &File, dir: &Path, other: Option<&Path>) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match image.try_lock_shared() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock)
                if other.is_some_and(|other| !status::is_busy_with(other, dir)) =>
            {
                return Ok(());
            }
            Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => {
                return Err(io::Error::other("it is still being written to"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_understood() {
        let line =
            b"36 35 0:39 / /mnt/a\\040b rw,noatime master:1 x:2 - fuse.eraseblock /i\\134m rw";
        let expected = Entry {
            dir: b"/mnt/a b".to_vec(),
            kind: b"fuse.eraseblock".to_vec(),
            source: b"/i\\m".to_vec(),
        };
        assert_eq!(entry(line), Some(expected));
        assert_eq!(entry(b"36 35"), None);
        assert_eq!(unescaped(b"a\\9"), b"a\\9");
    }
}
