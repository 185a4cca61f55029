//! How often the kernel has been told of each inode. As long as it remembers one, the file system
//! keeps it open, so that a file whose last name is gone lives on while a program has it open.
//!
//! # Invariants
//! 1. An inode is in the table just when [`WritableFileSystem::open`] has been called for it once
//!    more than `release`.
//! 2. Its count is the number of answers that named it less what the kernel has forgotten.
//! 3. The root is never in the table; it cannot go.

use eraseblock_vfs::{FsError, Ino, WritableFileSystem};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tables locked apart, so that parallel look-ups seldom wait for each other.
const SHARDS: usize = 16;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    shards: [Mutex<HashMap<Ino, u64>>; SHARDS],
}

impl Lookups {
    fn shard(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, u64>> {
        let index = usize::try_from(ino % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one answer that names `ino`; fails when the inode is gone already.
    pub(crate) fn remember(&self, fs: &dyn WritableFileSystem, ino: Ino) -> Result<(), FsError> {
        if ino == fs.root() {
            return Ok(());
        }
        let mut shard = self.shard(ino);
        if let Some(count) = shard.get_mut(&ino) {
            *count = count.saturating_add(1);
            return Ok(());
        }
        fs.open(ino)?;
        shard.insert(ino, 1);
        Ok(())
    }

    /// Takes back `count` answers.
    pub(crate) fn forget(
        &self,
        fs: &dyn WritableFileSystem,
        ino: Ino,
        count: u64,
    ) -> Result<(), FsError> {
        let mut shard = self.shard(ino);
        let Some(known) = shard.get_mut(&ino) else { return Ok(()) };
        *known = known.saturating_sub(count);
        if *known == 0 {
            shard.remove(&ino);
            fs.release(ino)?;
        }
        Ok(())
    }

    /// Forgets everything, as the kernel does when a mount ends.
    pub(crate) fn forget_all(&self, fs: &dyn WritableFileSystem) -> Result<(), FsError> {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (ino, _) in shard.drain() {
                fs.release(ino)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::{FileSystem, ModelFs, NewInode, NewKind, Timestamp};

    fn file(fs: &ModelFs) -> Ino {
        let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        fs.create(fs.root(), b"f", &inode, Timestamp::default()).unwrap()
    }

    #[test]
    fn an_unlinked_inode_lives_until_it_is_forgotten() {
        let (fs, lookups) = (ModelFs::default(), Lookups::default());
        let ino = file(&fs);
        lookups.remember(&fs, ino).unwrap();
        lookups.remember(&fs, ino).unwrap();
        fs.unlink(fs.root(), b"f", Timestamp::default()).unwrap();
        lookups.forget(&fs, ino, 1).unwrap();
        assert!(fs.attr(ino).is_ok());
        lookups.forget(&fs, ino, 1).unwrap();
        assert!(fs.attr(ino).is_err());
        assert!(lookups.remember(&fs, ino).is_err());
        lookups.forget(&fs, ino, 1).unwrap();
    }

    #[test]
    fn the_end_of_a_mount_forgets_everything() {
        let (fs, lookups) = (ModelFs::default(), Lookups::default());
        let ino = file(&fs);
        lookups.remember(&fs, fs.root()).unwrap();
        lookups.remember(&fs, ino).unwrap();
        fs.unlink(fs.root(), b"f", Timestamp::default()).unwrap();
        lookups.forget_all(&fs).unwrap();
        assert!(fs.attr(ino).is_err());
    }
}
