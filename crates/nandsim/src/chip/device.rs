//! The chip as a device: checks ranges and splits them into pages.

use super::Chip;
use crate::counters::ReadCost;
use crate::state::{PageRange, PageWrite};
use eraseblock_base::{Geometry, Location, Peb};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};

impl Chip {
    /// Checks `addr..addr + len` against the size and, with `unit`, against an alignment.
    fn check_range(
        &self,
        addr: u64,
        len: usize,
        unit: u32,
        operation: &'static str,
    ) -> Result<(), MtdError> {
        let len = len as u64;
        let fail =
            |expected| Err(MtdError::Range { at: Location::Byte(addr), operation, len, expected });
        if addr.checked_add(len).is_none_or(|end| end > self.config.geometry.size()) {
            return fail("a range inside the device");
        }
        if !addr.is_multiple_of(u64::from(unit)) || !len.is_multiple_of(u64::from(unit)) {
            return fail("start and length in whole programming units");
        }
        Ok(())
    }

    /// Returns the page at a byte address that has been checked, and the column in it.
    fn locate(&self, addr: u64) -> (Peb, u32, u32) {
        let peb_size = u64::from(self.config.geometry.peb_size());
        let number = u32::try_from(addr / peb_size).unwrap_or(u32::MAX);
        let offset = u32::try_from(addr % peb_size).unwrap_or(u32::MAX);
        (Peb::new(number), offset / self.config.page, offset % self.config.page)
    }

    fn check_oob(
        &self,
        addr: u64,
        offset: u32,
        len: usize,
        operation: &'static str,
    ) -> Result<(), MtdError> {
        if self.config.oob() == 0 {
            return Err(MtdError::Unsupported { operation: "access to out-of-band bytes" });
        }
        self.check_range(addr, 1, 1, operation)?;
        let end = (offset as usize).checked_add(len);
        if end.is_some_and(|end| end <= self.config.oob() as usize) {
            return Ok(());
        }
        let at = Location::Byte(addr);
        let expected = "a range inside the out-of-band bytes of one page";
        Err(MtdError::Range { at, operation, len: len as u64, expected })
    }

    fn check_one_page(
        &self,
        addr: u64,
        len: usize,
        operation: &'static str,
    ) -> Result<(), MtdError> {
        let page = self.config.page as usize;
        let (_, _, column) = self.locate(addr);
        if column as usize + len <= page {
            return Ok(());
        }
        let at = Location::Byte(addr);
        Err(MtdError::Range { at, operation, len: len as u64, expected: "a range inside one page" })
    }

    fn read_range(&self, range: PageRange, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let mut cost = ReadCost::default();
        let read = self.shared().state.read_shared(&self.tally, &mut cost, range, buf);
        self.tally.add_reads(cost);
        match read? {
            Some(outcome) => Ok(outcome),
            None => self.exclusive().state.read_exclusive(&self.tally, range, buf),
        }
    }

    /// Reads the start of a range of data bytes inside one eraseblock; returns the number of bytes
    /// and the outcome. Continues while reading changes nothing; otherwise reads one page.
    fn read_run(&self, range: PageRange, buf: &mut [u8]) -> Result<(usize, ReadOutcome), MtdError> {
        let mut cost = ReadCost::default();
        let read = self.shared().state.read_run(&self.tally, &mut cost, range, buf);
        self.tally.add_reads(cost);
        match read? {
            (0, _) => {
                let end = buf.len().min(self.config.page as usize - range.from);
                let state = &mut self.exclusive().state;
                Ok((end, state.read_exclusive(&self.tally, range, &mut buf[..end])?))
            }
            read => Ok(read),
        }
    }

    fn program_unit(&self) -> u32 {
        if self.config.is_nand() {
            self.config.geometry.subpage()
        } else {
            self.config.geometry.min_io()
        }
    }
}

impl Mtd for Chip {
    fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.check_range(addr, buf.len(), 1, "read")?;
        let page_size = self.config.page as usize;
        let (mut done, mut outcome) = (0, ReadOutcome::CLEAN);
        while done < buf.len() {
            let (peb, page, column) = self.locate(addr + done as u64);
            let from = column as usize;
            let left = (self.config.pages_per_peb() - page) as usize * page_size - from;
            let end = buf.len().min(done + left);
            let range = PageRange { peb, page, from, continues: done > 0 };
            let (read, brought) = self.read_run(range, &mut buf[done..end])?;
            outcome = outcome.merge(brought);
            done += read;
        }
        Ok(outcome)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.check_range(addr, data.len(), self.program_unit(), "program")?;
        let page_size = self.config.page as usize;
        let (mut at, mut rest) = (addr, data);
        while !rest.is_empty() {
            let (peb, page, column) = self.locate(at);
            let (data, tail) = rest.split_at((page_size - column as usize).min(rest.len()));
            let write = PageWrite { peb, page, column, data, oob_offset: 0, oob: &[] };
            self.program_page(&write)?;
            at += data.len() as u64;
            rest = tail;
        }
        Ok(())
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.erase_peb(peb)
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.check_peb(peb, "bad-block check")?;
        let inner = self.shared();
        inner.state.check_power()?;
        Ok(inner.state.store.get(peb).bad)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.mark_peb_bad(peb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        let inner = self.shared();
        inner.state.check_power()?;
        let Some(file) = &inner.state.file else { return Ok(()) };
        let done = file.write_state(&inner.state, &self.tally.get()).and_then(|()| file.sync());
        done.map_err(|source| MtdError::Io { at: Location::Whole, operation: "sync", source })
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.check_oob(addr, offset, buf.len(), "read of out-of-band bytes")?;
        let (peb, page, _) = self.locate(addr);
        let from = (self.config.page + offset) as usize;
        self.read_range(PageRange { peb, page, from, continues: false }, buf)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.check_oob(addr, offset, data.len(), "program of out-of-band bytes")?;
        let (peb, page, _) = self.locate(addr);
        let (column, oob) = (0, data);
        self.program_page(&PageWrite { peb, page, column, data: &[], oob_offset: offset, oob })
    }

    fn read_with_oob(
        &self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        self.check_range(addr, data.len(), 1, "read")?;
        self.check_one_page(addr, data.len(), "read")?;
        self.check_oob(addr, 0, oob.len(), "read of out-of-band bytes")?;
        let (peb, page, column) = self.locate(addr);
        let (from, split) = (column as usize, self.config.page as usize - column as usize);
        // One array read delivers data and out-of-band bytes: read everything from the column, then
        // split it.
        let mut all = vec![0; split + oob.len()];
        let outcome = self.read_range(PageRange { peb, page, from, continues: false }, &mut all)?;
        data.copy_from_slice(&all[..data.len()]);
        oob.copy_from_slice(&all[split..]);
        Ok(outcome)
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.check_range(addr, data.len(), self.program_unit(), "program")?;
        self.check_one_page(addr, data.len(), "program")?;
        self.check_oob(addr, 0, oob.len(), "program of out-of-band bytes")?;
        let (peb, page, column) = self.locate(addr);
        self.program_page(&PageWrite { peb, page, column, data, oob_offset: 0, oob })
    }
}
