//! Counts the replies that named each inode. While the kernel remembers an inode, the file system
//! keeps it open, so that an unlinked file stays usable while a program has it open.
//!
//! # Invariants
//! 1. An inode is in the table exactly if [`WritableFileSystem::open`] has been called for it once
//!    more than `release`.
//! 2. Its count is the number of replies that named it minus those that the kernel has forgotten.
//! 3. The root is never in the table; it cannot be deleted.
//! 4. Counts lie in pages of 16 consecutive numbers, none of which is empty. A program that looks
//!    at a whole file system uses about 10 bytes per inode, and an inode far from all others less
//!    than 200.

use eraseblock_vfs::{FsError, Ino, WritableFileSystem};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of separately locked tables, so that parallel lookups rarely wait for each other.
const SHARDS: usize = 16;

/// Inode numbers per page.
const PAGE: usize = 16;

/// Counts by page number.
type Pages = HashMap<u64, Box<[u64; PAGE]>>;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    shards: [Mutex<Pages>; SHARDS],
}

/// Returns the page of an inode and the index of its count in it.
fn split(ino: Ino) -> (u64, usize) {
    (ino / PAGE as u64, usize::try_from(ino % PAGE as u64).unwrap_or(0))
}

impl Lookups {
    fn shard(&self, page: u64) -> MutexGuard<'_, Pages> {
        let index = usize::try_from(page % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one reply that names `ino`; fails if the inode has already been deleted.
    pub(crate) fn remember(&self, fs: &dyn WritableFileSystem, ino: Ino) -> Result<(), FsError> {
        if ino == fs.root() {
            return Ok(());
        }
        let (page, index) = split(ino);
        let mut shard = self.shard(page);
        let known = shard.get_mut(&page).map(|counts| &mut counts[index]);
        if let Some(count) = known.filter(|count| **count > 0) {
            *count = count.saturating_add(1);
            return Ok(());
        }
        fs.open(ino)?;
        shard.entry(page).or_default()[index] = 1;
        Ok(())
    }

    /// Subtracts `count` replies.
    pub(crate) fn forget(
        &self,
        fs: &dyn WritableFileSystem,
        ino: Ino,
        count: u64,
    ) -> Result<(), FsError> {
        let (page, index) = split(ino);
        let mut shard = self.shard(page);
        let Some(counts) = shard.get_mut(&page).filter(|counts| counts[index] > 0) else {
            return Ok(());
        };
        counts[index] = counts[index].saturating_sub(count);
        if counts[index] > 0 {
            return Ok(());
        }
        if **counts == [0; PAGE] {
            shard.remove(&page);
        }
        fs.release(ino)
    }

    /// Forgets everything, as the kernel does when a mount ends.
    pub(crate) fn forget_all(&self, fs: &dyn WritableFileSystem) -> Result<(), FsError> {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (page, counts) in shard.drain() {
                let known = (0..).zip(*counts).filter(|(_, count)| *count > 0);
                for (index, _) in known {
                    fs.release(page * PAGE as u64 + index)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::{Caller, FileSystem, NewInode, NewKind, Timestamp};
    use eraseblock_vfs_testkit::ModelFs;

    fn file(fs: &ModelFs) -> Ino {
        let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        fs.create(fs.root(), b"f", &inode, &Caller::owner(Timestamp::default())).unwrap()
    }

    #[test]
    fn an_unlinked_inode_lives_until_it_is_forgotten() {
        let (fs, lookups) = (ModelFs::default(), Lookups::default());
        let ino = file(&fs);
        lookups.remember(&fs, ino).unwrap();
        lookups.remember(&fs, ino).unwrap();
        fs.unlink(fs.root(), b"f", &Caller::owner(Timestamp::default())).unwrap();
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
        lookups.remember(&fs, fs.root()).unwrap();
        let inos: Vec<Ino> = (0..40).map(|_| nameless(&fs, &lookups)).collect();
        lookups.forget_all(&fs).unwrap();
        assert!(inos.iter().all(|ino| fs.attr(*ino).is_err()));
    }

    /// Returns a file that exists only because the table keeps it open.
    fn nameless(fs: &ModelFs, lookups: &Lookups) -> Ino {
        let ino = file(fs);
        lookups.remember(fs, ino).unwrap();
        fs.unlink(fs.root(), b"f", &Caller::owner(Timestamp::default())).unwrap();
        ino
    }

    #[test]
    fn neighbours_are_forgotten_one_by_one_and_leave_nothing() {
        let (fs, lookups) = (ModelFs::default(), Lookups::default());
        let inos: Vec<Ino> = (0..40).map(|_| nameless(&fs, &lookups)).collect();
        let pages =
            || lookups.shards.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
        assert!((3..=4).contains(&pages()));
        for (index, ino) in inos.iter().enumerate() {
            lookups.forget(&fs, *ino, 1).unwrap();
            let alive = inos.iter().filter(|ino| fs.attr(**ino).is_ok()).count();
            assert_eq!(alive, inos.len() - index - 1);
        }
        assert_eq!(pages(), 0);
    }
}
