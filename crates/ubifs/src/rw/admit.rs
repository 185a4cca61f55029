//! Admits operations: reserves space for them, and frees some if necessary (layer 12; spec:
//! ubifs-runtime 15.7).
//!
//! # Invariants
//! 1. A request that fails leaves no reservation.

use super::budget::Request;
use super::core::Core;
use super::error::{Fault, Step};

/// Number of attempts to free space before giving up.
const ROUNDS: u32 = 4;

impl Core {
    /// Reserves space for an operation; frees some if necessary.
    pub(super) fn budget(&mut self, request: &Request) -> Step<()> {
        self.store.nodes.flash.check_writable()?;
        self.store.budget.promise(&self.store.nodes.flash, request);
        if self.store.is_admissible() {
            return Ok(());
        }
        let freed = self.free_space_for_promised();
        if freed.is_err() {
            self.cancel(request);
        }
        freed
    }

    fn free_space_for_promised(&mut self) -> Step<()> {
        let mut rounds = 0;
        while rounds < 2 * ROUNDS {
            let pages = self.pages.len();
            let made = self.make_space();
            // Write-back ends by itself; the space it frees shows only later.
            rounds += u32::from(self.pages.len() >= pages);
            let fits = self.store.is_admissible();
            match made {
                // The flash has failed, even if the request fits now.
                Err(fault) if !fault.is_no_space() => return Err(fault),
                _ if fits => return Ok(()),
                Ok(()) => {}
                Err(_) => break,
            }
        }
        Err(Fault::no_space())
    }

    /// Tries once to free space: write-back, garbage collection, commit (spec: ubifs-runtime 15.7).
    fn make_space(&mut self) -> Step<()> {
        let before = self.store.budget.outstanding();
        self.write_back_oldest(16)?;
        if self.store.budget.outstanding() < before {
            return Ok(());
        }
        self.store.free_space()
    }

    /// Makes an inode dirty and reserves the space to write it. Has no effect if it is already
    /// dirty.
    pub(super) fn dirty_inode(&mut self, ino: u32) -> Step<()> {
        let inode = self.inode(ino)?;
        if inode.promise.is_some() {
            return Ok(());
        }
        let request = Request::dirty_inode(inode.data.len());
        self.budget(&request)?;
        self.inode(ino)?.promise = Some(request);
        Ok(())
    }

    /// Reserves space for an operation and for inodes it makes dirty. Freeing space may write these
    /// inodes, which uses up their reservation; it is then made again.
    pub(super) fn budget_dirty(&mut self, request: &Request, inos: &[u32]) -> Step<()> {
        loop {
            for ino in inos {
                self.dirty_inode(*ino)?;
            }
            if *request != Request::default() {
                self.budget(request)?;
            }
            let is_dirty = |ino| self.inodes.get(ino).is_some_and(|inode| inode.promise.is_some());
            if inos.iter().all(|ino| is_dirty(*ino)) {
                return Ok(());
            }
            self.cancel(request);
        }
    }

    /// Ends an operation: uses or cancels its reservation.
    pub(super) fn settle<T>(&mut self, request: &Request, result: Step<T>) -> Step<T> {
        match &result {
            Ok(_) => self.release(request),
            Err(_) => self.cancel(request),
        }
        result
    }
}
