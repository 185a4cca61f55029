//! `eraseblock umount`: ends a mount, and waits until everything is in the image.

use crate::command::mount::status;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::mounts::{self, Mount};
use eraseblock::raw::fuse::is_dead;
use eraseblock::recovery;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the process of a mount may take to write everything.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long the process of a read-only mount may take to end.
const READER_PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `umount`.
#[derive(Debug, clap::Args)]
pub(crate) struct UmountArgs {
    /// Where it is mounted
    dir: PathBuf,
}

/// Unmounts.
pub(crate) fn run(args: &UmountArgs, session: &mut Session) -> Result<(), Failure> {
    let image = unmount_and_wait(args, session)?;
    if session.options.json {
        let image = image.map(|path| path.display().to_string());
        let dir = args.dir.display().to_string();
        return session.json(&serde_json::json!({ "dir": dir, "image": image }));
    }
    Ok(())
}

/// Returns the image that was mounted, if it is known.
fn unmount_and_wait(args: &UmountArgs, session: &Session) -> Result<Option<PathBuf>, Failure> {
    let dir = absolute(&args.dir).context(args.dir.display())?;
    let mut mounts = mounts::all().context("/proc/self/mountinfo")?;
    let Some(place) = mounts.iter().rposition(|mount| mount.dir == dir) else {
        return Err(Failure::new(format!("{}: nothing of ours is mounted here", dir.display())));
    };
    let mount = mounts.swap_remove(place);
    if is_dead(&dir) {
        unmount(&dir).context(dir.display())?;
        return after_death(mount, session);
    }
    // Before anything changes, because a later mount at this place may hide the image.
    let is_read_only = mount.is_read_only;
    let source = mount.image.map(|path| (image_of(&path, &dir), path));
    let why_read_only = source.as_ref().and_then(|_| status::why_read_only(&dir));
    unmount(&dir).context(dir.display())?;
    let Some((image, source)) = source else { return Ok(None) };
    // Another volume of the same image keeps it locked; its process reports when this one is done.
    let other = mounts.iter().find(|other| other.image.as_ref() == Some(&source));
    let other = other.map(|other| other.dir.as_path());
    let done = image.and_then(|image| match (is_read_only, other) {
        (false, other) => wait_for_writer(&image, &dir, other),
        (true, None) => {
            wait_for_reader(&image);
            Ok(())
        }
        // The other mount keeps the image.
        (true, Some(_)) => Ok(()),
    });
    done.map_err(|error| {
        let source = source.display();
        Failure::new(format!(
            "{}: unmounted, but whether everything is in {source} is not known: {error}",
            dir.display()
        ))
        .hint("it is once the process of the mount has ended")
    })?;
    match why_read_only {
        None => Ok(Some(source)),
        Some((reason, target)) => {
            let message = "unmounted, but not everything is in the image: the file system turned \
                           read-only";
            let failure = Failure::new(format!("{}: {message}: {reason}", dir.display()));
            Err(failure.hint(recovery::after_read_only(OsStr::new(&target))))
        }
    }
}

/// Reports the consequences of the death of a mount's process. Nothing writes to the image any
/// more, and another process may already use it, so there is nothing to wait for.
fn after_death(mount: Mount, session: &Session) -> Result<Option<PathBuf>, Failure> {
    let Some(image) = mount.image else { return Ok(None) };
    let died = format!("{}: unmounted; the process of the mount had died", mount.dir.display());
    if mount.is_read_only {
        session.remark(&format!("{died}, which wrote nothing: the image is as it was"));
        return Ok(Some(image));
    }
    let message = format!("{died}, and changes that it had not made durable yet are lost");
    Err(Failure::finding(message).hint(format!(
        "what fsync made durable is there: the next mount repairs the rest, and `eraseblock check \
         {}` shows what is left",
        image.display()
    )))
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

/// The image that is mounted on `dir`: what is written to is locked, so that a file that is not
/// has taken its place.
fn image_of(path: &Path, dir: &Path) -> io::Result<File> {
    let image = File::open(path)?;
    let is_file = image.metadata()?.is_file();
    if is_file && status::is_writable(dir) && image.try_lock_shared().is_ok() {
        return Err(io::Error::other("another file is there now"));
    }
    Ok(image)
}

/// Waits a moment until the process of a read-only mount releases the image, so that the next
/// command may write to it. Other readers may keep it, so this gives up soon.
fn wait_for_reader(image: &File) {
    // It wrote nothing, so that there is nothing to report either.
    let _ = until_locked(|| image.try_lock(), READER_PATIENCE, || false);
}

/// Waits until the process of a writable mount releases the image, or has written what belongs to
/// `dir` while the mount at `other` keeps the image.
fn wait_for_writer(image: &File, dir: &Path, other: Option<&Path>) -> io::Result<()> {
    let is_written = || other.is_some_and(|other| !status::is_busy_with(other, dir));
    if until_locked(|| image.try_lock_shared(), PATIENCE, is_written)? {
        return Ok(());
    }
    Err(io::Error::other("it is still being written to"))
}

/// Tries to lock until it succeeds, which closing the file undoes, or `is_enough`; false after
/// `patience`.
fn until_locked(
    lock: impl Fn() -> Result<(), TryLockError>,
    patience: Duration,
    is_enough: impl Fn() -> bool,
) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if is_enough() => return Ok(true),
            Err(TryLockError::WouldBlock) if start.elapsed() > patience => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
