//! Writes inodes and pages to the journal, in space that they reserved when they became dirty
//! (layer 11; spec: ubifs-runtime 9.4 to 9.7).
//!
//! # Invariants
//! 1. What is written releases its reservation, and nothing here reserves any: `admit` can write
//!    back to free space.
//! 2. The size of a file is journalled before content after its old end.

use super::core::Core;
use super::error::Step;
use super::group::{Durable, Follow, Group};
use super::nodes::Nodes;
use super::wbuf::Head;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, inode_flags};
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::{Compression, Key};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Number of blocks that are compressed and written together.
pub(super) const BATCH: usize = 256;

impl Core {
    /// Records that the inode was journalled with its complete state.
    pub(super) fn inode_written(&mut self, ino: u32) {
        if let Some(inode) = self.inodes.get_mut(ino) {
            inode.synced_size = inode.size;
            if let Some(promise) = inode.promise.take() {
                self.release(&promise);
            }
        }
    }

    /// Journals a dirty inode (spec: ubifs-runtime 9.6).
    pub(super) fn write_inode(&mut self, ino: u32, durable: Durable) -> Step<()> {
        let Some(inode) = self.inodes.get(ino) else { return Ok(()) };
        if inode.promise.is_none() {
            return Ok(());
        }
        if inode.nlink == 0 {
            self.inode_written(ino);
            return Ok(());
        }
        let inode = inode.clone();
        self.store.reserve_in(Head::Base, inode.node_len())?;
        let mut group = Group::default();
        group.add_inode(self.nodes(), &inode.node(), Follow::Last)?;
        let durable = if inode.is_sync() { Durable::Now } else { self.durable(durable) };
        let result = group.write(self.nodes(), &[ino], durable);
        let result =
            result.and_then(|written| self.store.nodes.add_leaf(Key::inode(ino), written[0]));
        self.must(result, "writing an inode")?;
        self.inode_written(ino);
        Ok(())
    }

    /// Journals all dirty inodes.
    pub(super) fn write_inodes(&mut self) -> Step<()> {
        for ino in self.inodes.dirty() {
            self.write_inode(ino, Durable::Later)?;
        }
        Ok(())
    }

    /// Writes pages back, starting with the inode that has been dirty longest.
    pub(super) fn write_back_oldest(&mut self, pages: usize) -> Step<()> {
        let target = self.pages.len().saturating_sub(pages);
        while self.pages.len() > target {
            let Some(ino) = self.pages.oldest() else { break };
            self.write_back(ino)?;
        }
        Ok(())
    }

    /// Writes everything back.
    pub(super) fn write_back_all(&mut self) -> Step<()> {
        self.write_back_oldest(usize::MAX)
    }

    /// Writes the pages of an inode back, after its size (spec: ubifs-runtime 9.4).
    pub(super) fn write_back(&mut self, ino: u32) -> Step<()> {
        let blocks: Vec<u32> = self.pages.blocks(ino, 0).collect();
        let Some(last) = blocks.last() else { return Ok(()) };
        let inode = self.inode(ino)?;
        let size = inode.size;
        let grows = size > inode.synced_size && (u64::from(*last) + 1) * BLOCK > inode.synced_size;
        if grows {
            self.write_inode(ino, Durable::Later)?;
        }
        let commits = self.store.nodes.flash.activity.commits;
        let inode = self.inode(ino)?;
        let is_compressed = inode.has(inode_flags::COMPRESS);
        let how = if is_compressed { inode.compr_type } else { Compression::None };
        let mut framed = Vec::new();
        for batch in blocks.chunks(BATCH) {
            let inside = batch.partition_point(|block| u64::from(*block) * BLOCK < size);
            let (inside, outside) = batch.split_at(inside);
            self.pages.frame(ino, size, inside, how, &mut framed);
            for framed in &mut framed {
                self.write_block(ino, framed.block, &mut framed.node)?;
            }
            for block in outside {
                if let Some(promise) = self.pages.remove(ino, *block) {
                    self.cancel(&promise);
                }
            }
        }
        let activity = &mut self.store.nodes.flash.activity;
        activity.commits_within_write_back += if grows { activity.commits - commits } else { 0 };
        Ok(())
    }

    fn write_block(&mut self, ino: u32, block: u32, node: &mut [u8]) -> Step<()> {
        self.store.reserve_in(Head::Data, node.len() as u32)?;
        let sqnum = self.store.nodes.next_sqnum()?;
        encode::seal(node, sqnum);
        let written = self.store.nodes.append_node(Head::Data, node)?;
        self.store.nodes.journal.depends(Head::Data, &[ino]);
        let result = self.store.nodes.add_leaf(Key::data(ino, block), written);
        self.must(result, "write-back")?;
        if let Some(promise) = self.pages.remove(ino, block) {
            self.release(&promise);
        }
        Ok(())
    }

    /// Makes one inode durable (spec: ubifs-runtime 9.7).
    pub(super) fn sync_inode(&mut self, ino: u32) -> Step<()> {
        self.write_back(ino)?;
        self.write_inode(ino, Durable::Later)?;
        let Nodes { flash, lprops, journal, .. } = self.nodes();
        journal.sync_inode_heads(flash, lprops, ino)
    }
}
