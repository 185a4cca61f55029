//! A mounted file system, protected by one lock, and the driver of all work that makes space.
//!
//! Layer: above garbage collection, below the operations. The accounts say what is needed next
//! ([`Need`]), this driver does it and asks again; nothing below it starts a collection.
//!
//! # Invariants
//! 1. Every write outside of recovery and collection makes space first, so that both always find
//!    some.

use super::blocks::List;
use super::failure::{Closed, io, no_space};
use super::gc::Collection;
use super::space::{Need, Purpose, most_passes};
use super::tree::Tree;
use super::write::Writer;
use eraseblock_vfs::{Background, FsError, FsErrorKind};

/// Whether the file system may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Never writes.
    ReadOnly,
    /// Changes are allowed, unless writing has ended.
    Writable,
}

impl Access {
    pub(crate) fn new(read_only: bool) -> Self {
        if read_only { Self::ReadOnly } else { Self::Writable }
    }
}

/// The file system.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) writer: Writer,
    pub(crate) gc: Collection,
    pub(crate) access: Access,
    /// The highest inode number found or assigned.
    pub(crate) highest_ino: u32,
}

impl State {
    pub(crate) fn tree(&self) -> &Tree {
        &self.writer.log.tree
    }

    pub(crate) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.writer.log.tree
    }

    /// Returns why writing has ended, if it has.
    pub(crate) fn closed(&self) -> Option<&Closed> {
        self.writer.log.closed.as_ref()
    }

    /// Returns whether anything may be written.
    fn is_writable(&self) -> bool {
        self.access == Access::Writable && self.closed().is_none()
    }

    /// Fails if writing is not possible.
    pub(crate) fn check_writable(&self) -> Result<(), FsError> {
        let why = match (self.closed(), self.access) {
            (Some(closed), _) => closed.to_string(),
            (None, Access::ReadOnly) => "the file system is mounted read-only".to_owned(),
            (None, Access::Writable) => return Ok(()),
        };
        Err(FsError::new(FsErrorKind::ReadOnly, why))
    }

    /// Prepares a change: fails if writing is not possible, and settles suspect pages first. A node
    /// written before that could count although a node of the page, which precedes it, is lost.
    pub(crate) fn prepare(&mut self) -> Result<(), FsError> {
        self.check_writable()?;
        self.writer.settle_suspects()
    }

    /// Flushes, erases and collects until enough blocks are free (spec: jffs2 13, step 2).
    pub(crate) fn make_space(&mut self, purpose: Purpose) -> Result<(), FsError> {
        let mut passes = None;
        while let Some(need) = self.need() {
            let freed = match need {
                Need::Flush => self.writer.log.flush().map(|()| true),
                Need::Erase => self.writer.log.erase_one(),
                Need::Collect => Ok(false),
            };
            match freed {
                Ok(true) => continue,
                Ok(false) => {}
                // The next attempt may succeed; until then there are enough blocks.
                Err(_) if self.can_continue() => return Ok(()),
                Err(error) => return Err(error),
            }
            let blocks = &self.tree().store.blocks;
            let left = passes.get_or_insert_with(|| most_passes(blocks));
            let is_hopeless = self.tree().store.reserves.is_hopeless(blocks, purpose);
            if *left == 0 || is_hopeless || !self.collects()? {
                return match purpose {
                    Purpose::Deletion => Ok(()),
                    Purpose::Write => Err(no_space("a node, and too little dead space to collect")),
                };
            }
            *left -= 1;
        }
        Ok(())
    }

    fn need(&self) -> Option<Need> {
        let store = &self.tree().store;
        store.reserves.need(&store.blocks)
    }

    /// Returns whether writing continues although a block cannot be erased now.
    fn can_continue(&self) -> bool {
        let store = &self.tree().store;
        self.closed().is_none() && store.reserves.has_enough(&store.blocks)
    }

    /// Performs one pass of garbage collection; returns `false` if there is nothing to do, or no
    /// space for it.
    fn collects(&mut self) -> Result<bool, FsError> {
        match self.gc.pass(&mut self.writer) {
            Err(error) if error.kind() == FsErrorKind::NoSpace => Ok(false),
            done => done,
        }
    }

    /// Does a small part of the work that no caller waits for.
    pub(crate) fn background(&mut self) -> Result<Background, FsError> {
        if !self.is_writable() {
            return Ok(Background::Idle);
        }
        if self.tree().store.has_suspects() {
            self.writer.settle_suspects()?;
        }
        let store = &self.tree().store;
        if store.reserves.wants_collection(&store.blocks) && self.gc.pass(&mut self.writer)? {
            return Ok(Background::More);
        }
        self.writer.log.flush()?;
        let more = self.tree().store.blocks.len(List::ErasePending) > 0;
        Ok(if more { Background::More } else { Background::Idle })
    }

    /// Makes everything durable.
    pub(crate) fn sync(&mut self) -> Result<(), FsError> {
        if self.is_writable() {
            // A node in a suspect page is not durable: it may be gone at the next mount.
            self.writer.settle_suspects()?;
            self.writer.log.flush()?;
            debug_assert_eq!(self.tree().check_memory(), Ok(()), "what is in memory is consistent");
            return self.tree().store.flash.mtd.sync().map_err(io);
        }
        let store = &self.tree().store;
        let is_all_on_flash = store.wbuf.is_empty() && !store.suspects.has_lost;
        match (self.closed(), is_all_on_flash) {
            (Some(closed), false) => Err(FsError::new(FsErrorKind::Io, closed.to_string())),
            _ => Ok(()),
        }
    }

    /// Confirms the last page, after everything is durable. Has no effect if writing is not
    /// possible.
    fn seal(&mut self) -> Result<(), FsError> {
        if self.is_writable() { self.writer.log.seal() } else { Ok(()) }
    }

    /// Changes whether the file system may be changed.
    pub(crate) fn remount(&mut self, access: Access) -> Result<(), FsError> {
        if let (Some(closed), Access::Writable) = (self.closed(), access) {
            return Err(FsError::new(FsErrorKind::ReadOnly, closed.to_string()));
        }
        self.sync()?;
        if access == Access::ReadOnly {
            self.seal()?;
        }
        self.access = access;
        Ok(())
    }

    /// Ends all writing.
    pub(crate) fn unmount(&mut self) -> Result<(), FsError> {
        self.sync()?;
        // After the sync: the page of padding confirms what is on flash, nothing else.
        self.seal()?;
        self.writer.log.closed.get_or_insert(Closed::Unmounted);
        Ok(())
    }
}
