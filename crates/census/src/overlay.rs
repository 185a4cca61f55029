//! An image with changes that are not written yet.
//!
//! # Invariants
//! 1. The image below is never written.
//! 2. Memory is bounded by the pages that were changed.

use eraseblock_mtd::ReadAt;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of a page of changes: a sector. A changed place never crosses the end of one, so that what a
/// power cut leaves of it on a disk is its old or its new bytes.
pub const PAGE: u64 = 512;

type Pages = BTreeMap<u64, Box<[u8]>>;

/// An image with changes in memory.
#[derive(Debug)]
pub struct Overlay {
    base: Arc<dyn ReadAt>,
    size: u64,
    pages: RwLock<Pages>,
}

/// Bytes that changes replace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Where they are.
    pub offset: u64,
    /// What is there now.
    pub old: Vec<u8>,
    /// What will be there.
    pub new: Vec<u8>,
}

impl Overlay {
    /// Puts nothing over an image yet.
    ///
    /// # Errors
    ///
    /// Fails if the size of the image is unknown.
    pub fn new(base: Arc<dyn ReadAt>) -> io::Result<Self> {
        let size = base.size()?;
        Ok(Self { base, size, pages: RwLock::default() })
    }

    /// Replaces bytes, which must be in the image.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read; nothing is changed then.
    pub fn put(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut changed = Pages::new();
        for page in offset / PAGE..=(end - 1) / PAGE {
            let range = self.range(page);
            let mut content = vec![0; (range.end - range.start) as usize].into_boxed_slice();
            self.read_exact_at(&mut content, range.start)?;
            let (from, to) = (range.start.max(offset), range.end.min(end));
            content[(from - range.start) as usize..(to - range.start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
            changed.insert(page, content);
        }
        self.pages.write().unwrap_or_else(PoisonError::into_inner).append(&mut changed);
        Ok(())
    }

    fn range(&self, page: u64) -> Range<u64> {
        let start = page * PAGE;
        start..(start + PAGE).min(self.size)
    }

    /// Returns all places where the image below differs, in ascending order: one for each page, from
    /// its first to its last changed byte.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read.
    pub fn changes(&self) -> io::Result<Vec<Changed>> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        for (page, new) in pages.iter() {
            let start = self.range(*page).start;
            let mut old = vec![0; new.len()];
            self.base.read_exact_at(&mut old, start)?;
            let differs = |at: &usize| old[*at] != new[*at];
            let Some(first) = (0..new.len()).find(differs) else { continue };
            let end = (0..new.len()).rev().find(differs).map_or(first, |last| last + 1);
            changes.push(Changed {
                offset: start + first as u64,
                old: old[first..end].to_vec(),
                new: new[first..end].to_vec(),
            });
        }
        Ok(changes)
    }
}

impl ReadAt for Overlay {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.base.read_exact_at(buf, offset)?;
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        if buf.is_empty() || pages.is_empty() {
            return Ok(());
        }
        let end = offset + buf.len() as u64;
        for (page, content) in pages.range(offset / PAGE..=(end - 1) / PAGE) {
            let range = self.range(*page);
            let (from, to) = (range.start.max(offset), range.end.min(end));
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(
                &content[(from - range.start) as usize..(to - range.start) as usize],
            );
        }
        Ok(())
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let found = self.base.next_data(offset)?;
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let changed = pages.range(offset / PAGE..).next();
        Ok(changed.map_or(found, |(page, _)| found.min(offset.max(page * PAGE))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::walk::{Tables, WINDOW, What, walk};

    /// An image that is a hole as a whole.
    #[derive(Debug)]
    struct Hole(u64);

    impl ReadAt for Hole {
        fn size(&self) -> io::Result<u64> {
            Ok(self.0)
        }

        fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
            assert!(buf.len() as u64 <= WINDOW, "more is read than what surrounds the data");
            buf.fill(0);
            Ok(())
        }

        fn next_data(&self, _: u64) -> io::Result<u64> {
            Ok(self.0)
        }
    }

    #[test]
    fn what_is_written_into_a_hole_is_data() {
        let overlay = Overlay::new(Arc::new(Hole(1 << 30))).unwrap();
        assert_eq!(overlay.next_data(0).unwrap(), 1 << 30);
        overlay.put(1 << 20, &[1]).unwrap();
        assert_eq!(overlay.next_data(0).unwrap(), 1 << 20);
        assert_eq!(overlay.next_data((1 << 20) + 1).unwrap(), (1 << 20) + 1);
        assert_eq!(overlay.next_data((1 << 20) + PAGE).unwrap(), 1 << 30);
    }

    /// All records of an image without a known format.
    fn records(image: &dyn ReadAt) -> Vec<(u64, u64, What, Vec<u8>)> {
        let mut records = Vec::new();
        let plan = Plan::new(image, Vec::new()).unwrap();
        walk(image, &plan, &Tables::new(), &mut |record| {
            records.push((record.offset, record.len, record.what, record.bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        records
    }

    #[test]
    fn a_hole_has_the_records_of_its_zeros() {
        let size = 6 * WINDOW + 5;
        let sparse = Overlay::new(Arc::new(Hole(size))).unwrap();
        let dense = Overlay::new(Arc::new(vec![0; size as usize])).unwrap();
        for place in [3 * WINDOW + 7, 5 * WINDOW - 1] {
            sparse.put(place, b"data").unwrap();
            dense.put(place, b"data").unwrap();
        }
        assert_eq!(records(&sparse), records(&dense));
        // Nothing of this is read.
        assert_eq!(records(&Hole(1 << 40)).len() as u64, (1 << 40) / WINDOW);
    }

    #[test]
    fn changes_are_read_and_listed_by_page() {
        let base = vec![7_u8; 10_000];
        let overlay = Overlay::new(Arc::new(base.clone())).unwrap();
        overlay.put(4090, &[1; 10]).unwrap();
        overlay.put(9999, &[2]).unwrap();
        overlay.put(100, &[7; 5]).unwrap();
        assert!(overlay.put(9999, &[2; 2]).is_err());
        assert!(overlay.put(u64::MAX, &[2; 2]).is_err());
        let mut now = vec![0; 10_000];
        overlay.read_exact_at(&mut now, 0).unwrap();
        let mut expected = base;
        expected[4090..4100].fill(1);
        expected[9999] = 2;
        assert!(now == expected);
        let mut part = [0; 4];
        overlay.read_exact_at(&mut part, 4098).unwrap();
        assert_eq!(part, [1, 1, 7, 7]);
        let places: Vec<(u64, usize)> =
            overlay.changes().unwrap().iter().map(|one| (one.offset, one.new.len())).collect();
        assert_eq!(places, [(4090, 6), (4096, 4), (9999, 1)]);
    }
}
