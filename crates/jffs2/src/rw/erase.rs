//! Erases blocks (spec: jffs2 18).

use super::nodelist::{List, NodeRef, RefKind, RefState};
use super::state::{State, io};
use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::MtdError;
use eraseblock_vfs::FsError;

/// Number of failed programs after which a block is not used again.
const MAX_FAILURES: u8 = 2;
/// Number of consecutive failures to read back an erased block after which the block is bad, if
/// another block can be read.
const MAX_UNREAD: u8 = 3;

impl State {
    /// Erases the first waiting block; returns `false` if none is waiting.
    pub(crate) fn erase_one(&mut self) -> Result<bool, FsError> {
        if self.blocks.first(List::ErasePending).is_some() {
            self.mark_damage()?;
        }
        let Some(block) = self.blocks.first(List::ErasePending) else { return Ok(false) };
        let refs = std::mem::take(&mut self.blocks.get_mut(block).refs);
        self.forget(block, &refs);
        let start = self.flash.start(block);
        self.suspects.forget(start, start + self.flash.block);
        let worn = self.flash.is_nand() && self.blocks.get(block).failures >= MAX_FAILURES;
        let first = if worn { Ok(false) } else { self.erase(block) };
        let done = match first {
            Err(MtdError::PowerOff | MtdError::ReadOnly { .. }) | Ok(true) => first,
            _ if worn => first,
            _ => self.erase(block),
        };
        match done {
            Ok(true) => self.free(block),
            Ok(false) => self.retire(block)?,
            Err(MtdError::Failed { .. }) if self.is_never_read_back(block) => self.retire(block)?,
            Err(error) => {
                // Next time, try others first.
                self.blocks.file(block, List::ErasePending);
                return Err(io(error));
            }
        }
        Ok(true)
    }

    /// Returns whether a block repeatedly could not be read back, although the device can read
    /// others.
    fn is_never_read_back(&self, block: u32) -> bool {
        let mut others = self.blocks.iter().filter(|(other, entry)| {
            *other != block && !matches!(entry.list, List::Bad | List::ErasePending)
        });
        let reads = |other| {
            let mut page = vec![0; self.flash.page as usize];
            self.flash.read(self.flash.start(other), &mut page).is_ok()
        };
        self.blocks.get(block).unread >= MAX_UNREAD && others.any(|(other, _)| reads(other))
    }

    /// Erases and marks a block; returns `false` if the block fails. A single failure to read it
    /// back proves nothing about the block.
    fn erase(&mut self, block: u32) -> Result<bool, MtdError> {
        let taken = |result| match result {
            Ok(()) => Ok(true),
            Err(error @ (MtdError::PowerOff | MtdError::ReadOnly { .. })) => Err(error),
            Err(_) => Ok(false),
        };
        if !taken(self.flash.mtd.erase(Peb::new(block)))? {
            return Ok(false);
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.resize(self.flash.block as usize, 0);
        let read = self.flash.read(self.flash.start(block), &mut bytes);
        let erased = is_erased(&bytes);
        self.scratch = bytes;
        let entry = self.blocks.get_mut(block);
        entry.unread = if read.is_ok() { 0 } else { entry.unread.saturating_add(1) };
        if read?.uncorrectable || !erased {
            return Ok(false);
        }
        taken(self.flash.write_marker(block))
    }

    /// Records that the block is erased and has its marker.
    fn free(&mut self, block: u32) {
        self.blocks.wipe(block);
        let marker = self.flash.cleanmarker();
        if marker > 0 {
            let place = self.flash.start(block);
            let node = NodeRef::new(place, marker, RefKind::Filler, 0, RefState::Normal);
            self.blocks.append(block, node);
        }
        self.blocks.file(block, List::Free);
    }

    /// Stops using the block: marks it bad on NAND, leaves it alone elsewhere.
    fn retire(&mut self, block: u32) -> Result<(), FsError> {
        let at = Location::peb(Peb::new(block));
        self.late.warn(at, "block-bad", "cannot be erased or programmed; not used any more");
        if self.flash.is_nand() {
            match self.flash.mtd.mark_bad(Peb::new(block)) {
                Err(error @ MtdError::PowerOff) => return Err(io(error)),
                Err(error) => self.late.error(at, "not-marked-bad", error.to_string()),
                Ok(()) => {}
            }
        }
        self.blocks.wipe(block);
        self.blocks.resize(block, |sizes| sizes.free = 0);
        self.blocks.file(block, List::Bad);
        Ok(())
    }

    /// Removes the nodes of a block from the lists of their owners.
    fn forget(&mut self, block: u32, refs: &[NodeRef]) {
        let mut owners: Vec<u32> =
            refs.iter().filter(|node| node.kind().is_of_inode()).map(|node| node.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        let size = self.flash.block;
        for owner in owners {
            let Some(cache) = self.inodes.get_mut(owner) else { continue };
            cache.nodes.retain(|place| place / size != block);
            if cache.nodes.as_slice().is_empty() && !cache.is_wanted() {
                self.remove_inode(owner);
            }
        }
    }
}
