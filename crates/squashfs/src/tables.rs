//! Tables of equal entries in metadata blocks that an array of places lists (spec: readonly-formats
//! C.5).

use crate::error::damaged;
use crate::limits;
use crate::meta::Metadata;
use eraseblock_vfs::FsError;

/// A table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// Where the array of places is.
    pub(crate) array: u64,
    /// Number of entries.
    pub(crate) count: u32,
    /// What it holds, for messages.
    pub(crate) what: &'static str,
}

impl Table {
    /// Returns the bytes of an entry. `N` divides the size of a metadata block.
    pub(crate) fn entry<const N: usize>(
        &self,
        metadata: &Metadata,
        index: u32,
    ) -> Result<[u8; N], FsError> {
        if index >= self.count {
            let Self { count, what, .. } = self;
            let what = format_args!("{what} {index}, there are {count}").to_string();
            return Err(damaged(self.array, what));
        }
        let offset = u64::from(index) * N as u64;
        let block_len = limits::METADATA as u64;
        let mut place = [0; 8];
        let at = self.array.saturating_add(offset / block_len * 8);
        metadata.raw(at, &mut place)?;
        let place = metadata.superblock().order.u64_at(&place, 0);
        let inside = u16::try_from(offset % block_len).unwrap_or(0);
        let mut entry = [0; N];
        metadata.cursor(place, inside).read(&mut entry)?;
        Ok(entry)
    }
}
