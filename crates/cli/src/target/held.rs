//! A target that is served for a while, to a mount or over a network: opened as a file system and
//! locked, so that nobody writes to it who is not alone.
//!
//! # Invariants
//! 1. Whoever writes holds the only lock; whoever reads shares it with other readers.

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use crate::target::{self, Place};
use eraseblock_fuse::Served;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// An opened target and its lock.
#[derive(Debug)]
pub(crate) struct Held {
    /// The file system.
    pub(crate) served: Served,
    /// The file or device, by its canonical path.
    pub(crate) path: PathBuf,
    /// The volume that was named.
    pub(crate) volume: Option<Vec<u8>>,
    /// Keeps others away.
    _lock: File,
}

/// Locks and opens the target.
pub(crate) fn open(
    args: &TargetArgs,
    writable: bool,
    session: &mut Session,
) -> Result<Held, Failure> {
    let Place { path, volume } = Place::parse(&args.target)?;
    let path = path.canonicalize().unwrap_or(path);
    let lock = lock(&path, writable)?;
    let served = if writable {
        return Err(Failure::usage("this kind of image cannot be written to")
            .hint("without --rw it can be read"));
    } else {
        Served::ReadOnly(target::open_file_system(args, session)?.shared(session))
    };
    Ok(Held { served, path, volume, _lock: lock })
}

fn lock(path: &std::path::Path, alone: bool) -> Result<File, Failure> {
    let in_the_way = |why: &str| Failure::new(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| in_the_way(&error.to_string()))?;
    let locked = if alone { file.try_lock() } else { file.try_lock_shared() };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) if alone => {
            Err(in_the_way("is in use: it cannot be written to at the same time"))
        }
        Err(TryLockError::WouldBlock) => Err(in_the_way("is being written to by another process")),
        Err(TryLockError::Error(error)) => Err(in_the_way(&format!("cannot be locked: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = lock(file.path(), false).unwrap();
        let second = lock(file.path(), false).unwrap();
        assert!(lock(file.path(), true).unwrap_err().message().contains("is in use"));
        drop((reader, second));
        let _writer = lock(file.path(), true).unwrap();
        assert!(lock(file.path(), false).unwrap_err().message().contains("being written to"));
    }
}
