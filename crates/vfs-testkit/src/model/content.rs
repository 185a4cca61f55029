//! The content of a regular file: written blocks, and holes everywhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Unit of holes in bytes.
pub const BLOCK: u64 = 4096;

/// Whole blocks by number; bytes beyond the file's size are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Arc<[u8]>>,
}

/// Splits `offset..offset + len` into pieces of one block each: its number, the start in it, the
/// length.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at % BLOCK;
        let piece = (BLOCK - start).min(end - at);
        let item = (at / BLOCK, index(start), index(piece));
        at += piece;
        (piece > 0).then_some(item)
    })
}

fn index(value: u64) -> usize {
    usize::try_from(value).expect("within a block")
}

impl Content {
    /// Writes `data` at `offset`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (number, start, len) in pieces(offset, data.len() as u64) {
            let (piece, tail) = rest.split_at(len);
            let old = self.blocks.get(&number);
            let mut block = old.map_or_else(|| vec![0; index(BLOCK)], |block| block.to_vec());
            block[start..start + len].copy_from_slice(piece);
            self.blocks.insert(number, block.into());
            rest = tail;
        }
    }

    /// Discards everything from `size`.
    pub(super) fn cut(&mut self, size: u64) {
        self.blocks.split_off(&size.div_ceil(BLOCK));
        let inside = index(size % BLOCK);
        if inside == 0 {
            return;
        }
        if let Some(last) = self.blocks.get_mut(&(size / BLOCK)) {
            let mut block = last.to_vec();
            block[inside..].fill(0);
            *last = block.into();
        }
    }

    /// Fills `buf` from `offset`; the range must be within the size.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut done = 0;
        for (number, start, len) in pieces(offset, buf.len() as u64) {
            let piece = &mut buf[done..done + len];
            match self.blocks.get(&number) {
                Some(block) => piece.copy_from_slice(&block[start..start + len]),
                None => piece.fill(0),
            }
            done += len;
        }
    }

    /// Returns the first written block from this one.
    pub(super) fn next_data(&self, number: u64) -> Option<u64> {
        self.blocks.range(number..).next().map(|(number, _)| *number)
    }

    /// Returns the first block from this one that was not written.
    pub(super) fn next_hole(&self, number: u64) -> u64 {
        let run = self.blocks.range(number..).zip(number..);
        let run = run.take_while(|((found, _), expected)| *found == expected);
        number + run.count() as u64
    }

    /// Returns the number of written blocks.
    pub(super) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }
}
