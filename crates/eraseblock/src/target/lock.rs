//! Locks on image files and device nodes. A writer holds an exclusive lock, readers share one,
//! because half of a change looks like damage. The kernel releases a lock when its process ends.

use crate::error::Error;
use eraseblock_mtd::Access;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a reader waits for a writer that may be about to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Locks the file until the result is dropped: for writing, as its only user. Fails if another process
/// holds it.
pub fn lock(path: &Path, access: Access) -> Result<File, Error> {
    let in_the_way = |why: &str| Error::new(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| in_the_way(&error.to_string()))?;
    let locked = match access {
        Access::Write => file.try_lock(),
        Access::Read => shared(&file, PATIENCE),
    };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) if access.is_write() => Err(in_use(path)),
        Err(TryLockError::WouldBlock) => Err(written_to(path)),
        Err(TryLockError::Error(error)) => Err(in_the_way(&format!("cannot be locked: {error}"))),
    }
}

/// Keeps writers away from a file that is read until the result is dropped. `None` if the host has
/// no locks: then writers have none either. Fails if a process is writing to it.
pub fn reading(path: &Path) -> Result<Option<File>, Error> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    match shared(&file, PATIENCE) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(written_to(path)),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn shared(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let start = Instant::now();
    loop {
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            locked => return locked,
        }
    }
}

/// Returns the refusal to write while another process has the file open.
pub fn in_use(path: &Path) -> Error {
    let (shown, why) = (path.display(), "it cannot be written to at the same time");
    match mounted_at(path) {
        Some(dir) => {
            let dir = dir.display();
            Error::new(format!("{shown}: is in use by the mount at {dir}: {why}"))
                .hint(format!("`eraseblock umount {dir}` first"))
        }
        None => Error::new(format!("{shown}: is in use: {why}")),
    }
}

fn written_to(path: &Path) -> Error {
    let shown = path.display();
    match mounted_at(path) {
        Some(dir) => {
            let dir = dir.display();
            Error::new(format!("{shown}: is being written to by the mount at {dir}"))
                .hint(format!("look at it through {dir}, or `eraseblock umount {dir}` first"))
        }
        None => Error::new(format!("{shown}: is being written to by another process"))
            .hint("wait until that has ended"),
    }
}

/// Where a file is mounted by us.
#[cfg(feature = "fuse")]
fn mounted_at(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mut mounts = crate::mounts::all().ok()?.into_iter();
    mounts.find(|mount| mount.image.as_deref() == Some(&path)).map(|mount| mount.dir)
}

/// Where a file is mounted by us, which this build does not know.
#[cfg(not(feature = "fuse"))]
fn mounted_at(_: &Path) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = lock(file.path(), Access::Read).unwrap();
        let second = lock(file.path(), Access::Read).unwrap();
        assert!(lock(file.path(), Access::Write).unwrap_err().message().contains("is in use"));
        drop((reader, second));
        let writer = lock(file.path(), Access::Write).unwrap();
        assert!(reading(file.path()).unwrap_err().message().contains("being written to"));
        assert!(
            lock(file.path(), Access::Read).unwrap_err().message().contains("being written to")
        );
        // A writer that ends soon is waited for.
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(writer);
        });
        assert!(reading(file.path()).unwrap().is_some());
        ending.join().unwrap();
        assert!(reading(Path::new("/nonexistent")).unwrap().is_none());
    }
}
