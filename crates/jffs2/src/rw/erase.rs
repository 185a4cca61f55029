//! Erases blocks (spec: jffs2 18).
//!
//! Layer: above `store`. Erases the block it is given; `log` decides when that is allowed.
//!
//! # Invariants
//! 1. A block is free only after it was read back erased and has its cleanmarker, in this order: a
//!    marker on a block that is not erased would make the next mount write over old bits.

use super::blocks::List;
use super::failure::io;
use super::nodelist::{NodeRef, RefKind, RefState, Span};
use super::store::Store;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::MtdError;
use eraseblock_vfs::FsError;

/// Number of failed programs after which a block is not used again.
const MAX_FAILURES: u8 = 2;
/// Number of consecutive failures to read back an erased block after which the block is bad, if
/// another block can be read.
const MAX_UNREAD: u8 = 3;

/// How the attempt to erase a block ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// It is erased and has its marker.
    Erased,
    /// The block failed.
    Failed,
}

/// Erases blocks.
#[derive(Debug, Default)]
pub(crate) struct Eraser {
    /// An erased block, read back.
    bytes: Vec<u8>,
}

impl Eraser {
    /// Erases a block without live nodes, whose nodes are forgotten: it becomes free, or bad.
    pub(crate) fn erase(&mut self, store: &mut Store, block: u32) -> Result<(), FsError> {
        debug_assert!(store.blocks.get(block).refs.is_empty(), "its nodes have been forgotten");
        let start = store.flash.start(block);
        store.suspects.forget(Span { start, end: start + store.flash.block });
        let is_worn = store.flash.is_nand() && store.blocks.get(block).failures >= MAX_FAILURES;
        let done = if is_worn { Ok(Outcome::Failed) } else { self.try_twice(store, block) };
        match done {
            Ok(Outcome::Erased) => set_free(store, block),
            Ok(Outcome::Failed) => retire(store, block)?,
            Err(MtdError::Failed { .. }) if is_never_read_back(store, block) => {
                retire(store, block)?;
            }
            Err(error) => {
                // Next time, try others first.
                store.blocks.file(block, List::ErasePending);
                return Err(io(error));
            }
        }
        Ok(())
    }

    fn try_twice(&mut self, store: &mut Store, block: u32) -> Result<Outcome, MtdError> {
        match self.try_erase(store, block) {
            // Another attempt would fail in the same way.
            last @ (Err(MtdError::PowerOff | MtdError::ReadOnly { .. }) | Ok(Outcome::Erased)) => {
                last
            }
            _ => self.try_erase(store, block),
        }
    }

    /// Erases and marks a block. A single failure to read it back proves nothing about the block.
    fn try_erase(&mut self, store: &mut Store, block: u32) -> Result<Outcome, MtdError> {
        if taken(store.flash.mtd.erase(Peb::new(block)))? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
        self.bytes.clear();
        self.bytes.resize(store.flash.block as usize, 0);
        let read = store.flash.read(store.flash.start(block), &mut self.bytes);
        let entry = store.blocks.get_mut(block);
        entry.unread = if read.is_ok() { 0 } else { entry.unread.saturating_add(1) };
        if read?.uncorrectable || !is_erased(&self.bytes) {
            return Ok(Outcome::Failed);
        }
        // The marker comes last. A cut before it leaves a block that reads as erased but may not
        // be: the mount finds no marker and erases it again.
        taken(store.flash.write_marker(block))
    }
}

fn taken(result: Result<(), MtdError>) -> Result<Outcome, MtdError> {
    match result {
        Ok(()) => Ok(Outcome::Erased),
        Err(error @ (MtdError::PowerOff | MtdError::ReadOnly { .. })) => Err(error),
        Err(_) => Ok(Outcome::Failed),
    }
}

/// Returns whether a block repeatedly could not be read back, although the device can read others.
fn is_never_read_back(store: &Store, block: u32) -> bool {
    let mut others = store.blocks.iter().filter(|(other, entry)| {
        *other != block && !matches!(entry.list, List::Bad | List::ErasePending)
    });
    let reads = |other| {
        let mut page = vec![0; store.flash.page as usize];
        store.flash.read(store.flash.start(other), &mut page).is_ok()
    };
    store.blocks.get(block).unread >= MAX_UNREAD && others.any(|(other, _)| reads(other))
}

/// Records that the block is erased and has its marker.
fn set_free(store: &mut Store, block: u32) {
    store.blocks.wipe(block);
    let marker = store.flash.cleanmarker();
    if marker > 0 {
        let place = store.flash.start(block);
        let node = NodeRef::new(place, marker, RefKind::Filler, 0, RefState::Normal);
        store.blocks.append(block, node);
    }
    store.blocks.file(block, List::Free);
}

/// Stops using the block: marks it bad on NAND, leaves it alone elsewhere.
fn retire(store: &mut Store, block: u32) -> Result<(), FsError> {
    let at = Location::peb(Peb::new(block));
    store.late.warn(at, "block-bad", "cannot be erased or programmed; not used any more");
    if store.flash.is_nand() {
        match store.flash.mtd.mark_bad(Peb::new(block)) {
            Err(error @ MtdError::PowerOff) => return Err(io(error)),
            Err(error) => store.late.error(at, "not-marked-bad", error.to_string()),
            Ok(()) => {}
        }
    }
    store.blocks.wipe(block);
    store.blocks.resize(block, |sizes| sizes.free = 0);
    store.blocks.file(block, List::Bad);
    Ok(())
}
