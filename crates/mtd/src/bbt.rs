//! The bad-block table: in memory by scanning, or on flash, mirrored and versioned (spec: mtd-nand
//! 10.3 to 10.6).
//!
//! # Invariants
//! 1. A mark is never removed: entries are only OR-ed.
//! 2. The main table is written before the mirror, each into an erased block of the region that the
//!    other does not use, so a power cut leaves at least one intact table.
//! 3. Blocks of the region count as bad for all users and are erased only for the tables.

use crate::device::Mtd;
use crate::error::MtdError;
use crate::forward;
use eraseblock_base::{Location, Peb};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks at the end of the chip that belong to the tables.
const REGION: u32 = 4;
/// The magic of main table and mirror.
const MAGICS: [[u8; 4]; 2] = [*b"Bbt0", *b"1tbB"];
/// The offset of magic and version in the out-of-band bytes.
const OOB_AT: u32 = 8;

/// The form of a table on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableForm {
    /// Magic and version in out-of-band bytes 8 to 12, which must be free of ECC; the table from
    /// the start of the page.
    Oob,
    /// Magic and version precede the table; no out-of-band bytes are used.
    Data,
}

/// The state of a block in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// Usable.
    Good,
    /// Marked bad in use.
    Worn,
    /// Part of the tables' region.
    Reserved,
    /// Bad from the factory.
    FactoryBad,
}

const GOOD: u8 = 0;
const WORN: u8 = 1;
const RESERVED: u8 = 2;
const FACTORY_BAD: u8 = 3;

/// A device with a bad-block table, on top of a device whose blocks carry marks.
#[derive(Debug)]
pub struct BbtMtd {
    inner: Arc<dyn Mtd>,
    form: Option<TableForm>,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    entries: Vec<u8>,
    version: u8,
    /// The blocks of main table and mirror.
    places: [Option<Peb>; 2],
}

/// A table found on flash.
struct Found {
    version: u8,
    entries: Vec<u8>,
    corrected: bool,
}

impl BbtMtd {
    /// Builds the table from the marks of all blocks, without writing.
    ///
    /// # Errors
    ///
    /// Fails if a mark cannot be read.
    pub fn scan(inner: Arc<dyn Mtd>) -> Result<Self, MtdError> {
        let entries = scan_marks(inner.as_ref())?;
        let table = Mutex::new(Table { entries, version: 0, places: [None; 2] });
        Ok(Self { inner, form: None, table })
    }

    /// Reads the tables on flash and repairs them: a missing, older or damaged one is written from
    /// the other one, or both from the marks of all blocks if none is left (spec: mtd-nand 10.5).
    ///
    /// # Errors
    ///
    /// Fails if no good block is left in the region for a table, or if the device fails.
    pub fn on_flash(inner: Arc<dyn Mtd>, form: TableForm) -> Result<Self, MtdError> {
        let places = [None; 2];
        let table = Mutex::new(Table { entries: Vec::new(), version: 1, places });
        let device = Self { inner, form: Some(form), table };
        {
            let mut table = device.lock();
            let [main, mirror] = [0, 1].map(|kind| device.find(kind));
            let (main, mirror) = (main?, mirror?);
            table.places =
                [main.as_ref().map(|(peb, _)| *peb), mirror.as_ref().map(|(peb, _)| *peb)];
            let [main, mirror] = [main, mirror].map(|found| found.map(|(_, found)| found));
            let rewrite = device.choose(&mut table, main, mirror)?;
            device.write_tables(&mut table, rewrite)?;
            let first = device.region_start();
            for entry in table.entries.iter_mut().skip(first as usize) {
                *entry |= RESERVED;
            }
        }
        Ok(device)
    }

    /// Returns the state of a block, or `None` outside the device.
    pub fn state(&self, peb: Peb) -> Option<BlockState> {
        self.lock().entries.get(peb.index()).map(|entry| match *entry {
            GOOD => BlockState::Good,
            WORN => BlockState::Worn,
            RESERVED => BlockState::Reserved,
            _ => BlockState::FactoryBad,
        })
    }

    /// Returns the version of the table on flash.
    pub fn version(&self) -> u8 {
        self.lock().version
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn region_start(&self) -> u32 {
        self.inner.geometry().peb_count().saturating_sub(REGION)
    }

    /// Returns the blocks of the region, from the top.
    fn region(&self) -> impl Iterator<Item = Peb> + use<> {
        (self.region_start()..self.inner.geometry().peb_count()).rev().map(Peb::new)
    }

    /// Returns the number of bytes before the entries.
    fn head_len(&self) -> usize {
        if self.form == Some(TableForm::Data) { 5 } else { 0 }
    }

    /// Returns the first readable table of a kind, from the top of the region.
    fn find(&self, kind: usize) -> Result<Option<(Peb, Found)>, MtdError> {
        for peb in self.region() {
            if self.inner.is_bad(peb)? {
                continue;
            }
            if let Some(found) = self.read_table(peb, MAGICS[kind])? {
                return Ok(Some((peb, found)));
            }
        }
        Ok(None)
    }

    fn read_table(&self, peb: Peb, magic: [u8; 4]) -> Result<Option<Found>, MtdError> {
        let start = self.inner.geometry().address_of(peb);
        let mut head = [0; 5];
        match self.form {
            Some(TableForm::Oob) => self.inner.read_oob(start, OOB_AT, &mut head)?,
            _ => self.inner.read(start, &mut head)?,
        };
        if head[..4] != magic {
            return Ok(None);
        }
        let count = self.inner.geometry().peb_count() as usize;
        let mut bytes = vec![0; count.div_ceil(4)];
        let outcome = self.inner.read(start + self.head_len() as u64, &mut bytes)?;
        if outcome.uncorrectable {
            return Ok(None);
        }
        let entry = |block: usize| match bytes[block / 4] >> (2 * (block % 4)) & 3 {
            3 => GOOD,
            0 => FACTORY_BAD,
            _ => WORN,
        };
        let entries = (0..count).map(entry).collect();
        Ok(Some(Found { version: head[4], entries, corrected: outcome.corrected_bits > 0 }))
    }

    /// Takes over the newer table and returns which tables must be written.
    fn choose(
        &self,
        table: &mut Table,
        main: Option<Found>,
        mirror: Option<Found>,
    ) -> Result<[bool; 2], MtdError> {
        let (newer, rewrite) = match (main, mirror) {
            (None, None) => {
                table.entries = scan_marks(self.inner.as_ref())?;
                return Ok([true; 2]);
            }
            (Some(main), None) => (main, [false, true]),
            (None, Some(mirror)) => (mirror, [true, false]),
            (Some(main), Some(mirror)) => merge(&main, &mirror),
        };
        let rewrite = if newer.corrected { [true; 2] } else { rewrite };
        (table.version, table.entries) = (newer.version, newer.entries);
        Ok(rewrite)
    }

    fn write_tables(&self, table: &mut Table, which: [bool; 2]) -> Result<(), MtdError> {
        let mut result = Ok(());
        for kind in (0..2).filter(|kind| which[*kind]) {
            let written = self.write_table(table, kind);
            if matches!(written, Err(MtdError::PowerOff)) {
                return written;
            }
            result = result.and(written);
        }
        result
    }

    /// Writes one table to its block, or to another block of the region (spec: mtd-nand 10.6).
    fn write_table(&self, table: &mut Table, kind: usize) -> Result<(), MtdError> {
        loop {
            let taken = table.places[1 - kind];
            let free = |peb: &Peb| {
                let entry = table.entries.get(peb.index()).copied().unwrap_or(FACTORY_BAD);
                Some(*peb) != taken && entry & WORN == 0
            };
            let Some(peb) = table.places[kind].or_else(|| self.region().find(free)) else {
                let at = Location::peb(Peb::new(self.region_start()));
                return Err(MtdError::NoSpace { at, operation: "the bad-block table" });
            };
            match self.write_at(table, kind, peb) {
                Ok(()) => {
                    table.places[kind] = Some(peb);
                    return Ok(());
                }
                Err(MtdError::Failed { .. } | MtdError::Rule { .. }) => {
                    table.places[kind] = None;
                    table.entries[peb.index()] |= WORN;
                    // If the mark fails, the table entry alone keeps the block out of use.
                    if let Err(MtdError::PowerOff) = self.inner.mark_bad(peb) {
                        return Err(MtdError::PowerOff);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn write_at(&self, table: &Table, kind: usize, peb: Peb) -> Result<(), MtdError> {
        let geometry = self.inner.geometry();
        let page = geometry.min_io() as usize;
        let head = self.head_len();
        let len = head + table.entries.len().div_ceil(4);
        let mut bytes = vec![0xFF; len.next_multiple_of(page)];
        for (block, entry) in table.entries.iter().enumerate() {
            let clear = match *entry {
                GOOD | RESERVED => 0,
                WORN => 1,
                _ => 3,
            };
            bytes[head + block / 4] &= !(clear << (2 * (block % 4)));
        }
        let mut mark = [0; 5];
        mark[..4].copy_from_slice(&MAGICS[kind]);
        mark[4] = table.version;
        let start = geometry.address_of(peb);
        self.inner.erase(peb)?;
        if head > 0 {
            bytes[..head].copy_from_slice(&mark);
            return self.inner.program(start, &bytes);
        }
        let mut oob = vec![0xFF; OOB_AT as usize];
        oob.extend(mark);
        self.inner.program_with_oob(start, &bytes[..page], &oob)?;
        self.inner.program(start + page as u64, &bytes[page..])
    }

    fn outside(&self, peb: Peb, operation: &'static str) -> MtdError {
        let len = u64::from(self.inner.geometry().peb_size());
        let expected = "an eraseblock of the device";
        MtdError::Range { at: Location::peb(peb), operation, len, expected }
    }
}

/// Returns the newer of two tables with the marks of both, and which of them to rewrite.
///
/// With a weak code, a torn program of the newer table may pass as correctable, so its marks alone
/// are not trusted.
fn merge(main: &Found, mirror: &Found) -> (Found, [bool; 2]) {
    let (age, same) = (main.version.wrapping_sub(mirror.version), main.entries == mirror.entries);
    let corrected = main.corrected || mirror.corrected;
    let pairs = main.entries.iter().zip(&mirror.entries);
    let entries: Vec<u8> = pairs.map(|(main, mirror)| main | mirror).collect();
    let version = if age < 128 { main.version } else { mirror.version };
    let rewrite = match (age, same) {
        (0, true) => [corrected; 2],
        (1..=127, _) if entries == main.entries => [false, true],
        (128.., _) if entries == mirror.entries => [true, false],
        _ => [true; 2],
    };
    (Found { version, entries, corrected }, rewrite)
}

fn scan_marks(device: &dyn Mtd) -> Result<Vec<u8>, MtdError> {
    let pebs = device.geometry().pebs();
    pebs.map(|peb| device.is_bad(peb).map(|bad| if bad { FACTORY_BAD } else { GOOD })).collect()
}

impl Mtd for BbtMtd {
    forward!(geometry, read, sync, oob, read_with_oob, program_with_oob);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let rule = match self.state(peb) {
            None => return Err(self.outside(peb, "erase")),
            Some(BlockState::Good) => return self.inner.erase(peb),
            Some(BlockState::Reserved) => "erasing a block reserved for the bad-block table",
            Some(_) => "erasing a block that is marked bad",
        };
        Err(MtdError::Rule { at: Location::peb(peb), rule })
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        match self.state(peb) {
            Some(state) => Ok(state != BlockState::Good),
            None => Err(self.outside(peb, "bad-block check")),
        }
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        let mut table = self.lock();
        match table.entries.get(peb.index()) {
            None => return Err(self.outside(peb, "mark bad")),
            Some(&entry) if entry != GOOD => return Ok(()),
            Some(_) => {}
        }
        let marked = self.inner.mark_bad(peb);
        if matches!(marked, Err(MtdError::PowerOff)) {
            return marked;
        }
        table.entries[peb.index()] |= WORN;
        if self.form.is_none() {
            return marked;
        }
        table.version = table.version.wrapping_add(1);
        let written = self.write_tables(&mut table, [true; 2]);
        marked.and(written)
    }
}
