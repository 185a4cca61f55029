//! The state of a file system mounted for writing: the store, and what operations keep in memory on
//! top of it (layer 10).
//!
//! # Invariants
//! 1. Between two operations, the reservations in the budget are exactly those of dirty inodes and
//!    dirty pages.

use super::MountOptions;
use super::budget::Request;
use super::error::Step;
use super::group::Durable;
use super::inode::InodeTable;
use super::nodes::Nodes;
use super::pages::Pages;
use super::store::Store;
use eraseblock_base::Findings;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::Time;
use eraseblock_vfs::{Timestamp, rules};
use std::sync::Arc;

/// The file system protected by its lock.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) store: Store,
    pub(super) inodes: InodeTable,
    pub(super) pages: Pages,
    /// The volume without the repairs that a read-only mount makes in memory; otherwise the volume
    /// being written.
    pub(super) as_found: Arc<dyn LebDevice>,
    pub(super) options: MountOptions,
    /// Mounted, or remounted, read-only by the caller.
    pub(super) is_read_only: bool,
    pub(super) findings: Findings,
}

impl Core {
    /// Returns the approximate memory in bytes: the loaded part of the index, the properties of all
    /// LEBs, inodes, orphans, buds, write buffers and pages.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.store.memory() + self.inodes.memory() + self.pages.memory()
    }

    pub(super) fn nodes(&mut self) -> &mut Nodes {
        &mut self.store.nodes
    }

    /// Returns when a group becomes durable, which is at once on a synchronous mount.
    pub(super) fn durable(&self, wanted: Durable) -> Durable {
        if self.options.sync { Durable::Now } else { wanted }
    }

    /// Turns read-only if a step failed that must not fail.
    pub(super) fn must<T>(&mut self, result: Step<T>, what: &str) -> Step<T> {
        self.store.nodes.flash.must(result, what)
    }

    /// Ends the reservation of a completed operation.
    pub(super) fn release(&mut self, request: &Request) {
        self.store.budget.release(&self.store.nodes.flash, request);
    }

    /// Cancels the reservation of an abandoned operation.
    pub(super) fn cancel(&mut self, request: &Request) {
        self.store.budget.cancel(&self.store.nodes.flash, request);
    }

    /// Fails if the file system is mounted read-only.
    pub(super) fn check_mounted(&self) -> Step<()> {
        if self.is_read_only {
            return Err(rules::read_only().into());
        }
        self.store.nodes.flash.check_writable()
    }

    /// Returns a time rounded to the granularity of the file system.
    pub(super) fn time(&self, time: Timestamp) -> Time {
        let gran = self.store.nodes.flash.sb.time_gran.max(1);
        Time {
            seconds: time.seconds,
            nanoseconds: if gran >= 1_000_000_000 {
                0
            } else {
                time.nanoseconds - time.nanoseconds % gran
            },
        }
    }

    /// Ends an operation: commits if the journal requires it, and frees memory beyond its limit.
    pub(super) fn end_operation(&mut self) -> Step<()> {
        self.store.commit_if_due()?;
        self.shrink();
        Ok(())
    }

    pub(super) fn shrink(&mut self) {
        let Nodes { flash, tnc, .. } = &mut self.store.nodes;
        let most = self.options.index_nodes_most(flash);
        if tnc.loaded() > most {
            tnc.shrink(most - most / 8);
        }
        self.inodes.shrink();
    }
}
