//! Makes everything durable, and ends writing at an unmount or a remount (layer 14; spec:
//! ubifs-runtime 5.5, 9.9).
//!
//! # Invariants
//! 1. A clean master is written last, once nothing waits in memory: the next mount trusts it and
//!    looks neither for torn ends nor for orphans.

use super::core::Core;
use super::error::Step;

impl Core {
    /// Makes everything durable: a commit (spec: ubifs-runtime 9.9).
    pub(super) fn sync_all(&mut self) -> Step<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.write_dirty()?;
        self.store.commit()?;
        self.store.nodes.flash.sync()
    }

    /// Makes everything durable through the journal.
    pub(super) fn flush_all(&mut self) -> Step<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.write_dirty()?;
        self.store.nodes.sync_heads()?;
        self.store.nodes.flash.sync()
    }

    /// Journals pages, with the inodes of files that grew, and then the other inodes.
    fn write_dirty(&mut self) -> Step<()> {
        self.store.nodes.flash.check_writable()?;
        self.write_back_all()?;
        self.write_inodes()
    }

    /// Writes the state of a clean unmount (spec: ubifs-runtime 5.5).
    pub(super) fn leave_clean(&mut self) -> Step<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.store.nodes.flash.check_writable()?;
        // Before the clean master, after which no mount looks for orphans: their space would be
        // lost.
        for ino in self.inodes.open_orphans() {
            self.inode(ino)?.opens = 0;
            self.end_if_unused(ino)?;
        }
        self.rest_clean()
    }

    /// Stops writing. Unlinked, open files remain in memory. If there are any, the flash stays
    /// marked as in use, so that the next mount deletes them.
    pub(super) fn rest(&mut self) -> Step<()> {
        if self.inodes.open_orphans().is_empty() {
            return self.rest_clean();
        }
        self.sync_all()?;
        self.store.nodes.sync_heads()?;
        self.is_read_only = true;
        Ok(())
    }

    fn rest_clean(&mut self) -> Step<()> {
        self.sync_all()?;
        self.store.nodes.sync_heads()?;
        debug_assert!(self.store.budget.owes_nothing(), "space is promised for nothing");
        #[cfg(debug_assertions)]
        self.store.assert_consistent();
        // After the commit is durable: a cut between the two leads to a mount with recovery.
        self.store.write_clean_master()?;
        self.store.nodes.flash.sync()?;
        self.is_read_only = true;
        Ok(())
    }

    /// Continues to write after the file system was at rest.
    pub(super) fn become_writable(&mut self) -> Step<()> {
        self.store.nodes.flash.check_writable()?;
        if self.options.read_only {
            return Err(eraseblock_vfs::rules::read_only().into());
        }
        self.store.write_in_use_master()?;
        self.is_read_only = false;
        Ok(())
    }
}
