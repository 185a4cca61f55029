//! Written content that is not on flash yet: pages of one block each (layer 10).
//!
//! # Invariants
//! 1. Each page holds one space reservation.
//! 2. Bytes of a page after the end of its file are zero.
//! 3. `order` names every inode with dirty pages, oldest first; it may name others.

use super::budget::Request;
use super::flash::MAX_DATA_NODE;
use crate::read::codec_of;
use eraseblock_codec::{Codec, CompressSpec, Compressor};
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, MIN_COMPRESS_LEN};
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::raw::DataNode;
use eraseblock_ubifs_format::{Compression, Key};
#[cfg(feature = "parallel")]
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a page.
pub(super) const PAGE: usize = BLOCK_SIZE as usize;
/// Unused pages kept for the next write.
const SPARE: usize = 512;
/// Compression must save at least this much to be worthwhile (spec: ubifs-format 7.1).
const MIN_GAIN: usize = 64;
/// Fewer blocks are not worth a second thread.
const PARALLEL: usize = 16;
/// Fixed part of a data node.
const DATA_HEADER: usize = DataNode::SIZE;

/// A block of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct BlockOf {
    ino: u32,
    block: u32,
}

/// A dirty block.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) bytes: Box<[u8]>,
    pub(super) promise: Request,
}

/// The content of a page that is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blank {
    Zeroed,
    /// Anything: the caller overwrites it.
    Any,
}

/// A block being turned into a data node.
#[derive(Debug, Default)]
pub(super) struct Framed {
    pub(super) block: u32,
    /// The node, without its sequence number and checksum.
    pub(super) node: Vec<u8>,
}

/// The dirty pages and their compressors.
#[derive(Debug, Default)]
pub(super) struct Pages {
    of: BTreeMap<BlockOf, Page>,
    order: VecDeque<u32>,
    spare: Vec<Box<[u8]>>,
    workers: Vec<Worker>,
}

impl Pages {
    /// Returns the number of bytes of memory taken by pages, spare ones included.
    pub(super) fn memory(&self) -> usize {
        (self.of.len() + self.spare.len()) * PAGE
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    pub(super) fn get(&self, ino: u32, block: u32) -> Option<&[u8]> {
        self.of.get(&BlockOf { ino, block }).map(|page| &*page.bytes)
    }

    pub(super) fn get_mut(&mut self, ino: u32, block: u32) -> Option<&mut [u8]> {
        self.of.get_mut(&BlockOf { ino, block }).map(|page| &mut *page.bytes)
    }

    /// Returns a page for new content.
    pub(super) fn blank(&mut self, content: Blank) -> Box<[u8]> {
        match self.spare.pop() {
            Some(mut page) => {
                if content == Blank::Zeroed {
                    page.fill(0);
                }
                page
            }
            None => vec![0; PAGE].into_boxed_slice(),
        }
    }

    pub(super) fn insert(&mut self, ino: u32, block: u32, bytes: Box<[u8]>, promise: Request) {
        self.of.insert(BlockOf { ino, block }, Page { bytes, promise });
        if self.order.back() != Some(&ino) && !self.order.contains(&ino) {
            self.order.push_back(ino);
        }
    }

    /// Removes a page and returns its reservation.
    pub(super) fn remove(&mut self, ino: u32, block: u32) -> Option<Request> {
        let page = self.of.remove(&BlockOf { ino, block })?;
        if self.spare.len() < SPARE {
            self.spare.push(page.bytes);
        }
        Some(page.promise)
    }

    /// Returns the dirty blocks of an inode from `first`, in order.
    pub(super) fn blocks(&self, ino: u32, first: u32) -> impl Iterator<Item = u32> {
        let (first, last) = (BlockOf { ino, block: first }, BlockOf { ino, block: u32::MAX });
        self.of.range(first..=last).map(|(key, _)| key.block)
    }

    /// Returns an inode with dirty pages, the oldest first.
    pub(super) fn oldest(&mut self) -> Option<u32> {
        while let Some(ino) = self.order.front().copied() {
            if self.blocks(ino, 0).next().is_some() {
                return Some(ino);
            }
            self.order.pop_front();
        }
        None
    }

    /// Turns the blocks of an inode of `size` bytes into data nodes. The result depends only on
    /// their content, not on the number of threads.
    pub(super) fn frame(
        &mut self,
        ino: u32,
        size: u64,
        blocks: &[u32],
        compression: Compression,
        framed: &mut Vec<Framed>,
    ) {
        framed.resize_with(blocks.len(), Framed::default);
        let threads = if blocks.len() < PARALLEL { 1 } else { threads() };
        self.workers.resize_with(self.workers.len().max(threads), Worker::default);
        let pages = &self.of;
        let run = |((slots, blocks), worker): ((&mut [Framed], &[u32]), &mut Worker)| {
            for (slot, block) in slots.iter_mut().zip(blocks) {
                let Some(page) = pages.get(&BlockOf { ino, block: *block }) else { continue };
                let start = u64::from(*block) * u64::from(BLOCK_SIZE);
                let len = usize::try_from(size.saturating_sub(start)).unwrap_or(PAGE).min(PAGE);
                slot.block = *block;
                worker.frame(Key::data(ino, *block), &page.bytes[..len], compression, slot);
            }
        };
        #[cfg(feature = "parallel")]
        if threads > 1 {
            let share = blocks.len().div_ceil(threads);
            return framed
                .par_chunks_mut(share)
                .zip(blocks.par_chunks(share))
                .zip(self.workers.par_iter_mut())
                .for_each(run);
        }
        run(((framed, blocks), &mut self.workers[0]));
    }

    /// Turns one block into a data node with a given compressor.
    pub(super) fn frame_one(&mut self, key: Key, content: &[u8], how: Compression) -> Vec<u8> {
        self.workers.resize_with(self.workers.len().max(1), Worker::default);
        let mut framed = Framed::default();
        self.workers[0].frame(key, content, how, &mut framed);
        framed.node
    }
}

/// Returns the number of threads that compress.
fn threads() -> usize {
    #[cfg(feature = "parallel")]
    return rayon::current_num_threads().max(1);
    #[cfg(not(feature = "parallel"))]
    1
}

/// The compressors of one thread.
#[derive(Debug, Default)]
struct Worker {
    engine: Option<Compressor>,
    out: Vec<u8>,
}

impl Worker {
    /// Returns the compressed form of a block, if it is worthwhile.
    fn compress(&mut self, content: &[u8], how: Compression) -> Option<&[u8]> {
        let codec = codec_of(how);
        if content.len() < MIN_COMPRESS_LEN || codec == Codec::None {
            return None;
        }
        let spec = CompressSpec::runtime(codec);
        if self.engine.as_ref().is_none_or(|engine| engine.spec() != spec) {
            self.engine = Compressor::new(spec).ok();
        }
        self.engine.as_mut()?.compress(content, &mut self.out).ok()?;
        (self.out.len() + MIN_GAIN <= content.len()).then_some(&self.out)
    }

    fn frame(&mut self, key: Key, content: &[u8], how: Compression, framed: &mut Framed) {
        let (payload, how) = match self.compress(content, how) {
            Some(payload) => (payload, how),
            None => (content, Compression::None),
        };
        let node = &mut framed.node;
        node.clear();
        node.reserve(MAX_DATA_NODE as usize);
        node.resize(DATA_HEADER, 0);
        node.extend_from_slice(payload);
        encode::frame_data(node, key, content.len() as u32, how);
    }
}
