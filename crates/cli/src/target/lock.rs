//! Locks on image files and device nodes: whoever writes holds the only lock, whoever reads for a
//! while shares it with other readers. The kernel lets go of a lock when its process ends.

use crate::failure::Failure;
use std::fs::{File, TryLockError};
use std::path::Path;

/// Locks the file until the result is dropped; `alone` keeps everybody else away.
pub(crate) fn lock(path: &Path, alone: bool) -> Result<File, Failure> {
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
