//! Every node that lies on the medium, superseded and obsolete ones included (spec: jffs2 5, 12.2).

use crate::error::Jffs2Error;
use crate::inode::decompress;
use crate::mount::Jffs2;
use eraseblock_base::{Location, Peb};
use eraseblock_jffs2_format::constants::INODE_LEN;
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::{ByteOrder, Dirent, Inode, NodeKind, decode};
use eraseblock_vfs::{FsError, FsErrorKind};

/// The offset of the type in a header, and the bit that is cleared when a node becomes obsolete, in the byte
/// that holds the high half of the type.
const ACCURATE: u8 = 0x20;

/// A node whose checksums are right.
#[derive(Clone, Copy, Debug)]
pub struct PastNode<'a> {
    /// Its place, counted from the first eraseblock.
    pub place: u32,
    /// Its length.
    pub len: u32,
    /// Whether it was not marked obsolete in place, as on NOR.
    pub is_accurate: bool,
    /// What it says.
    pub content: PastContent<'a>,
}

/// What a node says.
#[derive(Clone, Copy, Debug)]
pub enum PastContent<'a> {
    /// A state of an inode, and perhaps data.
    Inode(Inode),
    /// A name.
    Dirent(Dirent<'a>),
}

impl Jffs2 {
    /// Calls `sink` for each INODE and DIRENT node whose checksums are right, in the order of their places. A
    /// block that cannot be read is left out.
    ///
    /// # Errors
    ///
    /// Fails if the size of the medium cannot be read.
    pub fn visit_nodes(&self, sink: &mut dyn FnMut(&PastNode<'_>)) -> Result<(), Jffs2Error> {
        let shape = self.info.shape;
        let order = shape.order;
        let cleanmarker = shape.is_certain.then_some(shape.cleanmarker);
        let rules = ScanRules { order, cleanmarker, trust_empty_start: false };
        let mut block = Vec::new();
        let size = self.source.size()?;
        for peb in 0..self.info.blocks {
            let start = u64::from(peb) * u64::from(shape.erase_size);
            let left = size.saturating_sub(shape.start + start).min(shape.erase_size.into());
            block.resize(left as usize, 0);
            if self.source.read(shape.start + start, &mut block).is_err() {
                continue;
            }
            for item in Scanner::new(Peb::new(peb), &block, rules) {
                let (offset, is_accurate, len) = match item {
                    Item::Node { offset, bytes, .. } => (offset, true, bytes.len()),
                    Item::Obsolete { offset, len } => (offset, false, len as usize),
                    Item::Dirt { .. } | Item::Free { .. } => continue,
                };
                let bytes = block.get(offset as usize..offset as usize + len).unwrap_or_default();
                let owned = restored(order, bytes);
                let at = Location::Peb(Peb::new(peb), offset);
                if let Some(content) = content(order, &owned, at) {
                    let (place, len) = (start as u32 + offset, owned.len() as u32);
                    sink(&PastNode { place, len, is_accurate, content });
                }
            }
        }
        Ok(())
    }

    /// Calls `sink` with the bytes of each eraseblock; of one that cannot be read, with zeros.
    pub fn visit_blocks(&self, sink: &mut dyn FnMut(&[u8])) {
        let shape = self.info.shape;
        let size = self.source.size().unwrap_or(0);
        let mut block = Vec::new();
        for peb in 0..self.info.blocks {
            let start = shape.start + u64::from(peb) * u64::from(shape.erase_size);
            let left = size.saturating_sub(start).min(shape.erase_size.into());
            block.clear();
            block.resize(left as usize, 0);
            if self.source.read(start, &mut block).is_err() {
                block.fill(0);
            }
            sink(&block);
        }
    }

    /// Returns the data of the INODE node at a place of [`PastNode`], decompressed.
    ///
    /// # Errors
    ///
    /// Fails if no INODE node with right checksums is there, or if it cannot be read.
    pub fn past_data(&self, node: &Inode, place: u32) -> Result<Vec<u8>, FsError> {
        let shape = self.info.shape;
        let at = self.location(place);
        let corrupted = |error| FsError::from_source(FsErrorKind::Corrupted, error);
        let most = shape.erase_size.saturating_sub(INODE_LEN);
        let mut bytes = vec![0; (INODE_LEN + node.csize.min(most)) as usize];
        self.read_place(place, &mut bytes)?;
        let bytes = restored(shape.order, &bytes);
        let inode = decode::inode(shape.order, &bytes, at).map_err(corrupted)?;
        decode::inode_lengths(&inode, at).map_err(corrupted)?;
        let stored = decode::inode_data(&inode, &bytes, at).map_err(corrupted)?;
        let mut out = vec![0; inode.dsize as usize];
        decompress(inode.compression, stored, &mut out)
            .map_err(|error| FsError::new(FsErrorKind::Corrupted, format!("{at}: {error}")))?;
        Ok(out)
    }
}

/// Returns a node as it was before it was marked obsolete: its checksums are those of that time.
fn restored(order: ByteOrder, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let high = if order == ByteOrder::Big { 2 } else { 3 };
    if let Some(byte) = bytes.get_mut(high) {
        *byte |= ACCURATE;
    }
    bytes
}

fn content(order: ByteOrder, bytes: &[u8], at: Location) -> Option<PastContent<'_>> {
    match decode::header(order, bytes, at).ok()?.kind() {
        NodeKind::Inode => {
            let inode = decode::inode(order, bytes, at).ok()?;
            decode::inode_lengths(&inode, at).ok()?;
            decode::inode_data(&inode, bytes, at).ok()?;
            // Zeros after a header have right checksums, but there is no inode 0.
            (inode.ino != 0).then_some(PastContent::Inode(inode))
        }
        NodeKind::Dirent => {
            let entry = decode::dirent(order, bytes, at).ok()?;
            (entry.pino != 0).then_some(PastContent::Dirent(entry))
        }
        _ => None,
    }
}
