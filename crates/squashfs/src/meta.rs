//! Metadata blocks, and reading across them (spec: readonly-formats C.2).

use crate::cache::Cache;
use crate::dir;
use crate::error::{damaged, unreadable};
use crate::inode::{self, Body, Inode};
use crate::limits;
use crate::superblock::Superblock;
use crate::unpack::Coding;
use eraseblock_base::ByteOrder;
use eraseblock_mtd::ReadAt;
use eraseblock_vfs::FsError;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Metadata blocks that are kept: 1 MiB.
const KEPT: usize = 128;
/// The bit of a header that marks a block as stored.
const STORED: u16 = 0x8000;

/// A metadata block.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// Where the next one begins.
    next: u64,
}

/// All metadata of an image.
#[derive(Debug)]
pub(crate) struct Metadata {
    image: Arc<dyn ReadAt>,
    superblock: Superblock,
    /// Byte order of the lengths of metadata blocks.
    lengths: ByteOrder,
    coding: Coding,
    blocks: Cache<Block>,
}

impl Metadata {
    /// Finds out how images of vendors differ: the first block that does not decompress as the
    /// superblock says shows it.
    pub(crate) fn new(image: Arc<dyn ReadAt>, superblock: Superblock) -> Self {
        let (lengths, blocks) = (superblock.order, Cache::new(KEPT));
        let coding = Coding::Usual(superblock.compressor);
        let mut this = Self { image, superblock, lengths, coding, blocks };
        let first = superblock.inode_table;
        if this.read_block(first).is_ok() {
            return this;
        }
        // Images of AVM are big-endian with little-endian lengths.
        let lengths = match superblock.order {
            ByteOrder::Big => &ByteOrder::ALL[..],
            ByteOrder::Little => &ByteOrder::ALL[..1],
        };
        for order in lengths {
            this.lengths = *order;
            let Ok((_, block, _)) = this.stored(first) else { continue };
            let declared = std::iter::once(coding);
            for coding in
                declared.chain(Coding::candidates(&block, superblock.order, superblock.compressor))
            {
                this.coding = coding;
                if this.has_root() {
                    return this;
                }
                this.blocks = Cache::new(KEPT);
            }
        }
        (this.lengths, this.coding) = (superblock.order, coding);
        this
    }

    /// Returns whether the root is a directory with a listing that can be read.
    fn has_root(&self) -> bool {
        let root = inode::read(self, inode::ino(self.superblock.root));
        let Ok(Inode { body: Body::Directory(root), .. }) = root else { return false };
        dir::list(self, &root, &mut |_| Ok(ControlFlow::Break(()))).is_ok()
    }

    /// Returns how blocks are compressed.
    pub(crate) fn coding(&self) -> Coding {
        self.coding
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Fills `buf` with bytes that are not compressed.
    pub(crate) fn raw(&self, at: u64, buf: &mut [u8]) -> Result<(), FsError> {
        let end = at.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.superblock.bytes_used) {
            return Err(damaged(at, "lies outside of the file system"));
        }
        self.image.read_exact_at(buf, at).map_err(|error| unreadable(at, &error))
    }

    /// Returns the metadata block at a place.
    fn block(&self, at: u64) -> Result<Arc<Block>, FsError> {
        self.blocks.get(at, || self.read_block(at))
    }

    fn read_block(&self, at: u64) -> Result<Block, FsError> {
        let (is_stored, mut bytes, next) = self.stored(at)?;
        if !is_stored {
            let unpacked = self.coding.unpack(&bytes, limits::METADATA);
            bytes =
                unpacked.map_err(|error| damaged(at, format_args!("metadata block: {error}")))?;
        }
        Ok(Block { bytes, next })
    }

    /// Returns whether a metadata block is stored uncompressed, its bytes, and where the next begins.
    fn stored(&self, at: u64) -> Result<(bool, Vec<u8>, u64), FsError> {
        let mut header = [0; 2];
        self.raw(at, &mut header)?;
        let header = self.lengths.u16_at(&header, 0);
        let len = usize::from(header & !STORED);
        if len == 0 || len > limits::METADATA {
            return Err(damaged(
                at,
                format_args!("metadata block of {len} bytes, expected 1 to 8192"),
            ));
        }
        let mut bytes = vec![0; len];
        self.raw(at + 2, &mut bytes)?;
        Ok((header & STORED != 0, bytes, at + 2 + len as u64))
    }

    /// Starts to read at a byte of a block.
    pub(crate) fn cursor(&self, block: u64, inside: u16) -> Cursor<'_> {
        Cursor { metadata: self, at: Position { block, inside: inside.into() } }
    }

    /// Continues to read.
    pub(crate) fn cursor_at(&self, at: Position) -> Cursor<'_> {
        Cursor { metadata: self, at }
    }
}

/// A byte of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    /// Where the block begins.
    block: u64,
    /// Bytes from its start, uncompressed.
    inside: usize,
}

/// Reads metadata in order.
#[derive(Debug)]
pub(crate) struct Cursor<'m> {
    metadata: &'m Metadata,
    at: Position,
}

impl Cursor<'_> {
    /// Returns where the next byte is.
    pub(crate) fn position(&self) -> Position {
        self.at
    }

    /// Returns the byte order of the image.
    pub(crate) fn order(&self) -> ByteOrder {
        self.metadata.superblock.order
    }

    /// Returns the place in the image of the block with the next byte, for messages.
    pub(crate) fn place(&self) -> u64 {
        self.at.block
    }

    /// Fills `buf` with the next bytes.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<(), FsError> {
        let mut filled = 0;
        while filled < buf.len() {
            let block = self.metadata.block(self.at.block)?;
            let Some(rest) = block.bytes.get(self.at.inside..) else {
                return Err(damaged(self.at.block, "a place after the end of its metadata block"));
            };
            let len = rest.len().min(buf.len() - filled);
            buf[filled..filled + len].copy_from_slice(&rest[..len]);
            filled += len;
            self.at.inside += len;
            if filled < buf.len() {
                // Blocks follow each other, so this ends at the end of the image at the latest.
                self.at = Position { block: block.next, inside: 0 };
            }
        }
        Ok(())
    }

    /// Returns the next bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Vec<u8>, FsError> {
        let mut bytes = vec![0; len];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the next 32 bits.
    pub(crate) fn u32(&mut self) -> Result<u32, FsError> {
        let mut bytes = [0; 4];
        self.read(&mut bytes)?;
        Ok(self.order().u32_at(&bytes, 0))
    }
}
