//! Reads and compresses file contents in worker threads.
//!
//! Workers claim batches of whole small files, or of a piece of a large one, in the order of the
//! plan. The worker itself reads the content of small files; a large file is read under the
//! feeder's lock because it can only be read from its start. Batches are delivered in the order in
//! which they were claimed.
//!
//! # Invariants
//! 1. A worker claims a batch only with a ticket, of which there are a fixed number; the receiver
//!    returns it. Because batches are claimed in order, the oldest outstanding one always has a
//!    ticket and a worker, so no thread waits forever.
//! 2. The delivered data does not depend on the number of threads.

use super::compress::BlockCompressor;
use super::error::MkfsError;
use super::plan::Plan;
use eraseblock_base::align::is_zero;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Compression, Key, encode, raw};
use eraseblock_vfs::source::{Content, NodeId, SourceKind, read_part};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Content bytes in a batch: a multiple of the block size.
const BATCH_BYTES: usize = 256 << 10;

/// One data node of a batch, without its sequence number and checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Its key.
    pub(super) key: Key,
    /// The compression of its payload.
    pub(super) compression: Compression,
    /// Where the node starts in the batch.
    pub(super) start: usize,
    /// Length of the node.
    pub(super) len: usize,
}

/// A file, or a piece of one, in a batch.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: NodeId,
    /// Offset in the file, a multiple of the block size.
    offset: u64,
    /// Bytes of the piece.
    len: usize,
    /// Data nodes of the piece; fewer than blocks if there are holes.
    blocks: usize,
    /// Whether the file ends with it.
    is_last: bool,
}

/// Some contents on their way from file to image.
#[derive(Debug, Default)]
struct Batch {
    pieces: Vec<Piece>,
    content: Vec<u8>,
    /// Whether `content` is filled already.
    is_read: bool,
    nodes: Vec<u8>,
    blocks: Vec<Block>,
}

impl Batch {
    fn clear(&mut self) {
        self.pieces.clear();
        self.content.clear();
        self.nodes.clear();
        self.blocks.clear();
        self.is_read = false;
    }
}

/// The state shared by the workers and the receiver.
#[derive(Default)]
struct Exchange {
    tickets: usize,
    delivered: BTreeMap<u64, Result<Batch, MkfsError>>,
    used: Vec<Batch>,
    workers: usize,
    stopped: bool,
}

/// Hands out batches in order.
struct Feeder<'t> {
    plan: &'t Plan<'t>,
    next_file: usize,
    claimed: u64,
    large: Option<Large<'t>>,
}

/// A large file that is being read.
struct Large<'t> {
    id: NodeId,
    reader: Box<dyn Read + Send + 't>,
    offset: u64,
    size: u64,
}

fn content<'t>(plan: &Plan<'t>, id: NodeId) -> &'t dyn Content {
    match &plan.tree.node(id).kind {
        SourceKind::Regular(content) => content.as_ref(),
        _ => unreachable!("a plan lists only regular files"),
    }
}

/// Returns the path of a node, for messages: found only when something is wrong.
fn path_of(plan: &Plan<'_>, wanted: NodeId) -> Vec<u8> {
    let found = super::plan::walk(plan.tree, &mut |event, path| match event {
        super::plan::Event::Meet(id) if id == wanted => Err(path.to_vec()),
        _ => Ok(()),
    });
    found.err().unwrap_or_default()
}

/// What may follow the bytes that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Nothing,
    More,
}

/// Reads exactly `wanted` bytes after the content of `out`.
fn read_exactly(
    plan: &Plan<'_>,
    id: NodeId,
    reader: &mut dyn Read,
    out: &mut Vec<u8>,
    wanted: usize,
    rest: Rest,
) -> Result<(), MkfsError> {
    let start = out.len();
    out.resize(start + wanted, 0);
    match read_part(reader, &mut out[start..], rest == Rest::Nothing) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(MkfsError::Changed { path: path_of(plan, id), expected: content(plan, id).size() })
        }
        Err(error) => Err(MkfsError::Read { path: path_of(plan, id), error }),
    }
}

impl<'t> Feeder<'t> {
    fn open(&self, id: NodeId) -> Result<Box<dyn Read + Send + 't>, MkfsError> {
        let opened = content(self.plan, id).open();
        opened.map_err(|error| MkfsError::Read { path: path_of(self.plan, id), error })
    }

    /// Fills `batch` with the next files or piece; returns `false` if there is none.
    fn claim(&mut self, batch: &mut Batch) -> Result<bool, MkfsError> {
        if self.large.is_none() && !self.gather(batch) {
            let Some(id) = self.plan.files.get(self.next_file).copied() else { return Ok(false) };
            self.next_file += 1;
            let size = content(self.plan, id).size();
            self.large = Some(Large { id, reader: self.open(id)?, offset: 0, size });
        }
        if let Some(large) = &mut self.large {
            let rest = large.size - large.offset;
            let len = rest.min(BATCH_BYTES as u64) as usize;
            let is_last = rest == len as u64;
            let reader = &mut *large.reader;
            let after = if is_last { Rest::Nothing } else { Rest::More };
            read_exactly(self.plan, large.id, reader, &mut batch.content, len, after)?;
            let offset = large.offset;
            batch.pieces.push(Piece { id: large.id, offset, len, blocks: 0, is_last });
            batch.is_read = true;
            large.offset += len as u64;
            if is_last {
                self.large = None;
            }
        }
        Ok(true)
    }

    /// Takes as many whole small files as fit a batch; returns `false` if the next is not one.
    fn gather(&mut self, batch: &mut Batch) -> bool {
        let mut sum = 0;
        while let Some(id) = self.plan.files.get(self.next_file).copied() {
            let size = content(self.plan, id).size();
            let Some(len) = usize::try_from(size).ok().filter(|len| sum + len <= BATCH_BYTES)
            else {
                break;
            };
            sum += len;
            self.next_file += 1;
            batch.pieces.push(Piece { id, offset: 0, len, blocks: 0, is_last: true });
        }
        sum > 0
    }
}

/// Worker threads' common state.
pub(super) struct Pipeline<'t> {
    plan: &'t Plan<'t>,
    feeder: Mutex<Feeder<'t>>,
    exchange: Mutex<Exchange>,
    ticket: Condvar,
    delivery: Condvar,
}

impl<'t> Pipeline<'t> {
    /// Creates a pipeline for the files of `plan`, to be run by `threads` workers.
    pub(super) fn new(plan: &'t Plan<'t>, threads: usize) -> Self {
        let feeder = Feeder { plan, next_file: 0, claimed: 0, large: None };
        let exchange =
            Exchange { tickets: 2 * threads + 2, workers: threads, ..Exchange::default() };
        Self {
            plan,
            feeder: Mutex::new(feeder),
            exchange: Mutex::new(exchange),
            ticket: Condvar::new(),
            delivery: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a worker thread until no work is left.
    pub(super) fn work(&self) {
        let leaving = Leaving(self);
        let mut compressor = BlockCompressor::default();
        while let Some(mut batch) = self.take_ticket() {
            batch.clear();
            let (number, claimed) = {
                let Ok(mut feeder) = self.feeder.lock() else { break };
                let claimed = feeder.claim(&mut batch);
                let number = feeder.claimed;
                feeder.claimed += 1;
                (number, claimed)
            };
            let result = match claimed {
                Ok(false) => break,
                Ok(true) => self.fill(&mut batch, &mut compressor).map(|()| batch),
                Err(error) => Err(error),
            };
            self.lock().delivered.insert(number, result);
            self.delivery.notify_one();
        }
        drop(leaving);
    }

    fn take_ticket(&self) -> Option<Batch> {
        let mut exchange = self.lock();
        loop {
            if exchange.stopped {
                return None;
            }
            if exchange.tickets > 0 {
                exchange.tickets -= 1;
                return Some(exchange.used.pop().unwrap_or_default());
            }
            exchange = self.ticket.wait(exchange).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads the pending content and creates data nodes.
    fn fill(&self, batch: &mut Batch, compressor: &mut BlockCompressor) -> Result<(), MkfsError> {
        let Batch { pieces, content: bytes, is_read, nodes, blocks } = batch;
        if !*is_read {
            for piece in &*pieces {
                let opened = content(self.plan, piece.id).open();
                let mut reader = opened.map_err(|error| MkfsError::Read {
                    path: path_of(self.plan, piece.id),
                    error,
                })?;
                read_exactly(self.plan, piece.id, &mut *reader, bytes, piece.len, Rest::Nothing)?;
            }
        }
        let mut rest = &bytes[..];
        for piece in pieces {
            let (own, others) = rest.split_at(piece.len);
            rest = others;
            let before = blocks.len();
            let ino = self.plan.ino(piece.id);
            let first = (piece.offset / u64::from(BLOCK_SIZE)) as u32;
            for (number, block) in (first..).zip(own.chunks(BLOCK_SIZE as usize)) {
                if is_zero(block) {
                    continue;
                }
                let (payload, compression) =
                    compressor.compress(block, self.plan.compressor(piece.id))?;
                let key = Key::data(ino, number);
                let start = encode::start(nodes);
                nodes.resize(start + raw::DataNode::SIZE, 0);
                nodes.extend_from_slice(payload);
                encode::frame_data(&mut nodes[start..], key, block.len() as u32, compression);
                blocks.push(Block { key, compression, start, len: nodes.len() - start });
            }
            piece.blocks = blocks.len() - before;
        }
        Ok(())
    }

    /// Waits for batch `number`.
    fn receive(&self, number: u64) -> Result<Batch, MkfsError> {
        let mut exchange = self.lock();
        loop {
            if let Some(result) = exchange.delivered.remove(&number) {
                return result;
            }
            if exchange.workers == 0 {
                return Err(MkfsError::Worker);
            }
            exchange = self.delivery.wait(exchange).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, batch: Batch) {
        let mut exchange = self.lock();
        exchange.tickets += 1;
        exchange.used.push(batch);
        drop(exchange);
        self.ticket.notify_one();
    }

    /// Ends the workers.
    fn stop(&self) {
        self.lock().stopped = true;
        self.ticket.notify_all();
    }
}

/// Reports that a worker has ended, for any reason.
struct Leaving<'a, 't>(&'a Pipeline<'t>);

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().workers -= 1;
        self.0.delivery.notify_one();
        // Nothing is left to claim, or this worker has panicked: the others need no ticket.
        self.0.stop();
    }
}

/// Adds a data node to the image.
pub(super) type PlaceBlock<'a> = dyn FnMut(&Block, &mut [u8]) -> Result<(), MkfsError> + 'a;

/// The receiving end: contents in the order of the plan.
pub(super) struct Receiver<'a, 't> {
    pipeline: &'a Pipeline<'t>,
    next: u64,
    batch: Batch,
    piece: usize,
    block: usize,
}

impl<'a, 't> Receiver<'a, 't> {
    pub(super) fn new(pipeline: &'a Pipeline<'t>) -> Self {
        Self { pipeline, next: 0, batch: Batch::default(), piece: 0, block: 0 }
    }

    /// Calls `place` for each data node of file `id`, which must be the next of the plan, with the
    /// block and the bytes of its node.
    pub(super) fn file(&mut self, id: NodeId, place: &mut PlaceBlock<'_>) -> Result<(), MkfsError> {
        loop {
            while self.piece == self.batch.pieces.len() {
                let batch = self.pipeline.receive(self.next)?;
                let used = std::mem::replace(&mut self.batch, batch);
                if self.next > 0 {
                    self.pipeline.give_back(used);
                }
                (self.next, self.piece, self.block) = (self.next + 1, 0, 0);
            }
            let piece = self.batch.pieces[self.piece];
            debug_assert_eq!(piece.id, id, "contents come in the order of the plan");
            let blocks = &self.batch.blocks[self.block..self.block + piece.blocks];
            for block in blocks {
                place(block, &mut self.batch.nodes[block.start..block.start + block.len])?;
            }
            self.block += piece.blocks;
            self.piece += 1;
            if piece.is_last {
                return Ok(());
            }
        }
    }
}

impl Drop for Receiver<'_, '_> {
    fn drop(&mut self) {
        self.pipeline.stop();
    }
}
