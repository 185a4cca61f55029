//! The target flash of an image that is shorter: the blocks after its end read as erased. Nothing
//! is written.

use eraseblock_base::{Geometry, Peb};
use eraseblock_mtd::file::locate;
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};

/// A device with more blocks than its source.
#[derive(Debug)]
pub(super) struct Padded<'a> {
    inner: &'a dyn Mtd,
    geometry: Geometry,
}

impl<'a> Padded<'a> {
    /// Returns `inner` with `peb_count` blocks, or `None` if that geometry is impossible.
    pub(super) fn new(inner: &'a dyn Mtd, peb_count: u32) -> Option<Self> {
        let old = inner.geometry();
        let (kind, peb_size) = (old.kind(), old.peb_size());
        let (page, subpage, oob) = (old.min_io(), old.subpage(), old.oob_size());
        let geometry = Geometry::new(kind, peb_size, peb_count, page, subpage, oob).ok()?;
        Some(Self { inner, geometry })
    }

    fn refuse<T>(&self, addr: u64, operation: &'static str) -> Result<T, MtdError> {
        Err(MtdError::ReadOnly { at: locate(&self.geometry, addr), operation })
    }

    fn is_inside(&self, peb: Peb) -> bool {
        peb.get() < self.inner.geometry().peb_count()
    }
}

impl Mtd for Padded<'_> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let there = self.inner.geometry().size().saturating_sub(addr);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        let (stored, missing) = buf.split_at_mut(there);
        missing.fill(0xFF);
        if stored.is_empty() { Ok(ReadOutcome::CLEAN) } else { self.inner.read(addr, stored) }
    }

    fn program(&self, addr: u64, _data: &[u8]) -> Result<(), MtdError> {
        self.refuse(addr, "program")
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.refuse(self.geometry.address_of(peb), "erase")
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        if self.is_inside(peb) { self.inner.is_bad(peb) } else { Ok(false) }
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.refuse(self.geometry.address_of(peb), "marking a block bad")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::MediumKind;
    use eraseblock_mtd::MemoryMtd;

    #[test]
    fn blocks_behind_the_end_read_as_erased_and_nothing_is_written() {
        let geometry = Geometry::new(MediumKind::Nand, 1024, 2, 256, 256, 0).unwrap();
        let inner = MemoryMtd::with_bytes(geometry, vec![7; 2048]);
        let padded = Padded::new(&inner, 4).unwrap();
        let mut buf = [0; 512];
        padded.read(2048 - 256, &mut buf).unwrap();
        assert_eq!((buf[..256] == [7; 256], buf[256..] == [0xFF; 256]), (true, true));
        assert!(!padded.is_bad(Peb::new(3)).unwrap());
        for peb in [1, 3].map(Peb::new) {
            let at = padded.geometry().address_of(peb);
            assert!(matches!(padded.program(at, &[1; 256]), Err(MtdError::ReadOnly { .. })));
            assert!(matches!(padded.erase(peb), Err(MtdError::ReadOnly { .. })));
            assert!(matches!(padded.mark_bad(peb), Err(MtdError::ReadOnly { .. })));
        }
    }
}
