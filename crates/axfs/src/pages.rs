//! Contents: pages stored in three ways (spec: readonly-formats B.5).

use crate::error::AxfsError;
use crate::superblock::{Region, RegionId, Superblock};
use crate::table::{Loader, Table};
use eraseblock_codec::zlib;
use eraseblock_mtd::{ReadAt, Window};
use eraseblock_vfs::{FsError, FsErrorKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Decompressed blocks that are kept.
const KEPT: usize = 8;

/// Decompressed blocks by number, the oldest first.
type Kept = Mutex<VecDeque<(u64, Arc<[u8]>)>>;

/// How a page is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageKind {
    /// As it is, on a page boundary of the xip region.
    Xip = 0,
    /// In a zlib stream.
    Compressed = 1,
    /// As it is, anywhere.
    ByteAligned = 2,
}

/// Where the bytes of a page are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At an offset of the image.
    Stored { offset: u64 },
    /// At an offset of a block after decompression.
    Compressed { block: u64, offset: u64, stream: (u64, u64) },
}

/// The tables of pages, and the image.
#[derive(Debug)]
pub(crate) struct Pages {
    image: Arc<dyn ReadAt>,
    page_shift: u8,
    cblock_size: u32,
    xip: Region,
    byte_aligned: Region,
    compressed: Region,
    types: Table,
    indexes: Table,
    cnode_offsets: Table,
    cnode_indexes: Table,
    banode_offsets: Table,
    cblock_offsets: Table,
    kept: Kept,
}

fn damaged(page: u64, message: &str) -> FsError {
    FsError::new(FsErrorKind::Corrupted, format!("page {page}: {message}"))
}

impl Pages {
    pub(crate) fn load(
        image: Arc<dyn ReadAt>,
        loader: &mut Loader<'_>,
        superblock: &Superblock,
    ) -> Result<Self, AxfsError> {
        let region = |id| superblock.region(image.as_ref(), id);
        Ok(Self {
            page_shift: superblock.page_shift,
            cblock_size: superblock.cblock_size,
            xip: region(RegionId::Xip)?,
            byte_aligned: region(RegionId::ByteAligned)?,
            compressed: region(RegionId::Compressed)?,
            types: loader.table(RegionId::NodeType, superblock.nodes)?,
            indexes: loader.table(RegionId::NodeIndex, superblock.nodes)?,
            cnode_offsets: loader.table(RegionId::CnodeOffset, 0)?,
            cnode_indexes: loader.table(RegionId::CnodeIndex, 0)?,
            banode_offsets: loader.table(RegionId::BanodeOffset, 0)?,
            cblock_offsets: loader.table(RegionId::CblockOffset, 0)?,
            kept: Kept::default(),
            image,
        })
    }

    /// Returns how many pages the tables describe.
    pub(crate) fn count(&self) -> u64 {
        self.types.len().min(self.indexes.len()) as u64
    }

    /// Returns how many of the first `nodes` pages are stored in a way.
    pub(crate) fn count_of(&self, kind: PageKind, nodes: u64) -> u64 {
        (0..nodes).filter(|page| self.types.get(*page) == Some(kind as u64)).count() as u64
    }

    /// Fills `buf` from `offset` of a file whose pages begin with number `first` and which is `size`
    /// bytes long; the range is within the file.
    pub(crate) fn read(
        &self,
        first: u64,
        size: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), FsError> {
        let page_size = 1_u64 << self.page_shift;
        let mut window = Window::new();
        let (mut position, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let inside = position % page_size;
            let number = position >> self.page_shift;
            let in_page = (size - number * page_size).min(page_size);
            let len = usize::try_from(in_page - inside).unwrap_or(0).min(rest.len());
            let left = rest.len();
            let (part, after) = rest.split_at_mut(len);
            let page = first.saturating_add(number);
            match self.place(page, in_page)? {
                Place::Stored { offset } => {
                    self.stored(&mut window, (page, offset + inside), left, part)?;
                }
                Place::Compressed { block, offset, stream } => {
                    let bytes = self.block(&mut window, page, block, stream, left)?;
                    copy(&bytes, offset.saturating_add(inside), part);
                }
            }
            position += len as u64;
            rest = after;
        }
        Ok(())
    }

    /// Finds a page of which a file has `len` bytes.
    fn place(&self, page: u64, len: u64) -> Result<Place, FsError> {
        let missing = |table: &str| damaged(page, &format!("no entry in the {table} table"));
        let kind = self.types.get(page).ok_or_else(|| missing("node_type"))?;
        let index = self.indexes.get(page).ok_or_else(|| missing("node_index"))?;
        match kind {
            0 => {
                let offset = index.checked_mul(1 << self.page_shift);
                stored(page, &self.xip, RegionId::Xip, offset, len)
            }
            2 => {
                let offset = self.banode_offsets.get(index);
                let offset = offset.ok_or_else(|| missing("banode_offset"))?;
                stored(page, &self.byte_aligned, RegionId::ByteAligned, Some(offset), len)
            }
            1 => {
                let offset = self.cnode_offsets.get(index);
                let offset = offset.ok_or_else(|| missing("cnode_offset"))?;
                let block = self.cnode_indexes.get(index).ok_or_else(|| missing("cnode_index"))?;
                let stream = self.stream(page, block)?;
                Ok(Place::Compressed { block, offset, stream })
            }
            kind => Err(damaged(page, &format!("kind {kind}, expected 0 to 2"))),
        }
    }

    /// Returns place and length of a compressed block.
    fn stream(&self, page: u64, block: u64) -> Result<(u64, u64), FsError> {
        let start = self.cblock_offsets.get(block);
        let end = block.checked_add(1).and_then(|next| self.cblock_offsets.get(next));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(damaged(page, "no entry in the cblock_offset table"));
        };
        // A stream of what does not get smaller is little longer than that.
        let most = u64::from(self.cblock_size) + u64::from(self.cblock_size) / 8 + 64;
        if start > end || end > self.compressed.size || end - start > most {
            let message = format!(
                "block {block} from {start} to {end} of a compressed region of {} bytes, expected \
                 at most {most} bytes in it",
                self.compressed.size
            );
            return Err(damaged(page, &message));
        }
        Ok((self.compressed.offset.saturating_add(start), end - start))
    }

    /// Returns a decompressed block.
    fn block(
        &self,
        window: &mut Window,
        page: u64,
        block: u64,
        (offset, len): (u64, u64),
        ahead: usize,
    ) -> Result<Arc<[u8]>, FsError> {
        let kept = |kept: &VecDeque<(u64, Arc<[u8]>)>| {
            kept.iter().find(|(number, _)| *number == block).map(|(_, bytes)| Arc::clone(bytes))
        };
        if let Some(bytes) = kept(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(bytes);
        }
        let mut stream = vec![0; usize::try_from(len).unwrap_or(0)];
        self.stored(window, (page, offset), ahead, &mut stream)?;
        let mut bytes = vec![0; self.cblock_size as usize];
        let len = zlib::decompress_checked(&stream, &mut bytes).map_err(|error| {
            damaged(page, &format!("byte {offset}: block {block} cannot be decompressed: {error}"))
        })?;
        let bytes: Arc<[u8]> = Arc::from(&bytes[..len]);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((block, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Fills `buf` with bytes of the image at an offset; up to `ahead` of them are read at once, for
    /// the pages that follow.
    fn stored(
        &self,
        window: &mut Window,
        (page, offset): (u64, u64),
        ahead: usize,
        buf: &mut [u8],
    ) -> Result<(), FsError> {
        let read = window.read(self.image.as_ref(), offset, ahead, buf);
        read.map_err(|error| {
            let message = format!("page {page}: byte {offset}: cannot read: {error}");
            FsError::new(FsErrorKind::Io, message)
        })
    }
}

/// Returns the place of a page that is stored as it is, if it is within its region.
fn stored(
    page: u64,
    region: &Region,
    id: RegionId,
    offset: Option<u64>,
    len: u64,
) -> Result<Place, FsError> {
    let end = offset.and_then(|offset| offset.checked_add(len));
    match offset {
        Some(offset) if end.is_some_and(|end| end <= region.size) => {
            Ok(Place::Stored { offset: region.offset.saturating_add(offset) })
        }
        _ => {
            let (offset, what) = (offset.unwrap_or(u64::MAX), id.name());
            let message = format!(
                "{len} bytes at {offset} of the {what}, expected within its {} bytes",
                region.size
            );
            Err(damaged(page, &message))
        }
    }
}

/// Copies from an offset of a block; what is after its end reads as zeros.
fn copy(block: &[u8], offset: u64, part: &mut [u8]) {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(block.len());
    let len = (block.len() - start).min(part.len());
    part[..len].copy_from_slice(&block[start..][..len]);
    part[len..].fill(0);
}
