//! `/dev/mtdX`: a flash device with a Linux driver (spec: mtd-nand 3).
//!
//! The driver corrects errors. With MEMREAD (since Linux 6.1) each read returns its report; on
//! older kernels the report is the difference of the device's counters, which concurrent reads may
//! raise. A driver without ECC always reports clean reads.

use crate::abi::{
    EccGetStats, EccStats, EraseRange, MemErase64, MemGetBadBlock, MemGetInfo, MemSetBadBlock,
};
use crate::busy;
use crate::error::HostError;
use crate::node::{NodeKind, Sysfs};
use crate::sys;
use eraseblock_base::{Geometry, Location, MediumKind, Peb};
use eraseblock_mtd::file::{check_range, locate};
use eraseblock_mtd::{Access, Mtd, MtdError, ReadOutcome};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options for opening a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MtdOptions {
    /// Open for programming and erasing, too.
    pub writable: bool,
    /// Read without ECC: the raw bytes of the cells.
    pub raw: bool,
}

/// The driver's description of a device, other than its geometry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MtdFacts {
    /// The kernel's name of the device, `mtd0`.
    pub device: String,
    /// The label of the device or partition.
    pub label: String,
    /// `nand`, `nor`, `ram`, ...
    pub kind: String,
    /// Free out-of-band bytes of a page.
    pub oob_available: u32,
    /// Bits the driver corrects in a codeword; 0 without ECC.
    pub ecc_strength: u32,
    /// Size of a codeword.
    pub ecc_step: u32,
    /// Number of corrected bits in a codeword from which the driver requests scrubbing.
    pub bitflip_threshold: u32,
    /// Whether the driver accepts writes.
    pub writable: bool,
}

/// An MTD device of the host.
#[derive(Debug)]
pub struct MtdChar {
    file: File,
    geometry: Geometry,
    facts: MtdFacts,
    options: MtdOptions,
    /// Whether MEMREAD is missing and need not be tried again.
    without_reports: AtomicBool,
}

/// The driver accepts writes (spec: mtd-nand 1.1).
const FLAG_WRITEABLE: u32 = 0x400;

impl MtdChar {
    /// Opens `/dev/mtdX`.
    ///
    /// # Errors
    ///
    /// Fails with [`HostError::Busy`] if it is opened for writing while UBI, a file system or
    /// another program uses it, with the error of the kernel, or if the geometry is not supported
    /// (mixed erase regions).
    pub fn open(path: &Path, options: MtdOptions) -> Result<Self, HostError> {
        if NodeKind::of(path)? != Some(NodeKind::Mtd) {
            return Err(HostError::WrongKind { path: path.to_owned(), expected: "an MTD device" });
        }
        let file = File::options().read(true).write(options.writable).open(path);
        let file = file.map_err(|e| HostError::refused(path, "open", e))?;
        let sysfs = Sysfs::of(path)?;
        let facts = facts(&sysfs)?;
        if options.writable {
            busy::refuse_used_mtd(path, &facts.device, &facts.label)?;
        }
        let access = if options.writable { Access::Write } else { Access::Read };
        busy::lock(&file, path, access)?;
        let geometry = geometry(&sysfs, path, &file, &facts)?;
        if options.raw {
            sys::set_raw(&file).map_err(|e| HostError::refused(path, "MTDFILEMODE", e))?;
        }
        Ok(Self { file, geometry, facts, options, without_reports: AtomicBool::new(false) })
    }

    /// Returns the driver's description of the device.
    pub fn facts(&self) -> &MtdFacts {
        &self.facts
    }

    /// Returns the driver's counters.
    ///
    /// # Errors
    ///
    /// Fails with the error of the driver.
    pub fn ecc_stats(&self) -> io::Result<EccStats> {
        let mut stats = EccStats::default();
        sys::call::<EccGetStats>(&self.file, &mut stats)?;
        Ok(stats)
    }

    fn has_reports(&self) -> bool {
        self.facts.ecc_strength > 0
            && !self.options.raw
            && !self.without_reports.load(Ordering::Relaxed)
    }

    /// Reads with MEMREAD; returns `None` if the kernel does not support it.
    fn read_reported(&self, addr: u64, buf: &mut [u8]) -> Result<Option<ReadOutcome>, MtdError> {
        let mut outcome = ReadOutcome::CLEAN;
        let mut done = 0;
        while done < buf.len() {
            let start = addr + done as u64;
            let report = sys::read_with_report(&self.file, start, &mut buf[done..]);
            let max_bitflips = u16::try_from(report.max_bitflips).unwrap_or(u16::MAX);
            let uncorrectable = report.uncorrectable > 0 || report.result == Err(Errno::BADMSG);
            match report.result {
                Ok(()) | Err(Errno::UCLEAN | Errno::BADMSG) if report.done > 0 => {}
                Err(Errno::NOTTY | Errno::OPNOTSUPP) if done == 0 => return Ok(None),
                Ok(()) => return Err(self.io(start, "read", io::ErrorKind::UnexpectedEof.into())),
                Err(errno) => return Err(self.failed(start, "read", errno)),
            }
            outcome = outcome.merge(ReadOutcome { corrected_bits: max_bitflips, uncorrectable });
            done += report.done;
        }
        Ok(Some(outcome))
    }

    /// Reads with read(2), which does not report the outcome: the counters show it.
    fn read_counted(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let stats = || self.ecc_stats().map_err(|e| self.io(addr, "ECCGETSTATS", e));
        let counts = self.facts.ecc_strength > 0 && !self.options.raw;
        let before = if counts { stats()? } else { EccStats::default() };
        self.file.read_exact_at(buf, addr).map_err(|e| self.io(addr, "read", e))?;
        let after = if counts { stats()? } else { before };
        Ok(outcome_between(before, after, self.facts.ecc_strength))
    }

    fn refuse_read_only(&self, addr: u64, operation: &'static str) -> Result<(), MtdError> {
        if self.options.writable && self.facts.writable {
            return Ok(());
        }
        Err(MtdError::ReadOnly { at: locate(&self.geometry, addr), operation })
    }

    /// Returns the address of the page at `addr`, skipping `offset` out-of-band bytes.
    fn oob_start(
        &self,
        addr: u64,
        offset: u32,
        len: usize,
        operation: &'static str,
    ) -> Result<u64, MtdError> {
        check_range(&self.geometry, operation, addr, 1)?;
        let page = u64::from(self.geometry.min_io());
        let inside = u64::from(offset) + len as u64 <= u64::from(self.geometry.oob_size());
        // The low bits of the address are the offset, so offsets of a page or more cannot be
        // expressed.
        if inside && u64::from(offset) < page {
            return Ok(addr / page * page + u64::from(offset));
        }
        let (at, expected) = (locate(&self.geometry, addr), "out-of-band bytes of one page");
        Err(MtdError::Range { at, operation, len: len as u64, expected })
    }

    fn io(&self, addr: u64, operation: &'static str, source: io::Error) -> MtdError {
        MtdError::Io { at: locate(&self.geometry, addr), operation, source }
    }

    /// Converts an error of the driver.
    fn failed(&self, addr: u64, operation: &'static str, errno: Errno) -> MtdError {
        let at = locate(&self.geometry, addr);
        match errno {
            Errno::IO if operation != "read" => MtdError::Failed { at, operation },
            Errno::ROFS | Errno::PERM => MtdError::ReadOnly { at, operation },
            Errno::OPNOTSUPP | Errno::NOTTY => MtdError::Unsupported { operation },
            other => MtdError::Io { at, operation, source: other.into() },
        }
    }

    fn peb_in_range(&self, peb: Peb, operation: &'static str) -> Result<u64, MtdError> {
        let addr = self.geometry.address_of(peb);
        if peb.get() < self.geometry.peb_count() {
            return Ok(addr);
        }
        let expected = "an eraseblock of the device";
        Err(MtdError::Range { at: Location::peb(peb), operation, len: 0, expected })
    }
}

/// The write buffer of `block2mtd` (spec: mtd-nand 13).
const MEMORY_PAGE: u32 = 4096;

fn facts(sysfs: &Sysfs) -> Result<MtdFacts, HostError> {
    let flags: u32 = sysfs.number("flags")?;
    let optional = |attribute| sysfs.number(attribute).unwrap_or(0);
    Ok(MtdFacts {
        device: sysfs.name()?.trim_end_matches("ro").to_owned(),
        label: sysfs.text("name")?,
        kind: sysfs.text("type")?,
        oob_available: optional("oobavail"),
        ecc_strength: optional("ecc_strength"),
        ecc_step: optional("ecc_step_size"),
        bitflip_threshold: optional("bitflip_threshold"),
        writable: flags & FLAG_WRITEABLE != 0,
    })
}

fn geometry(
    sysfs: &Sysfs,
    path: &Path,
    file: &File,
    facts: &MtdFacts,
) -> Result<Geometry, HostError> {
    let mut info = crate::abi::MtdInfo::default();
    sys::call::<MemGetInfo>(file, &mut info)
        .map_err(|e| HostError::refused(path, "MEMGETINFO", e))?;
    let regions: u32 = sysfs.number("numeraseregions")?;
    if regions > 1 {
        let expected = "one: mixed eraseblock sizes are not supported";
        return Err(sysfs.unexpected(
            "the number of erase regions",
            &regions.to_string(),
            expected,
        ));
    }
    // The size of MEMGETINFO wraps at 4 GiB.
    let size: u64 = sysfs.number("size")?;
    let kind = match facts.kind.as_str() {
        "nand" | "mlc-nand" => MediumKind::Nand,
        _ => MediumKind::Nor,
    };
    let count = u32::try_from(size / u64::from(info.erase_size.max(1)));
    let count =
        count.map_err(|_| sysfs.unexpected("size", &size.to_string(), "a smaller flash"))?;
    if count == 0 {
        let expected = "a device of at least one eraseblock";
        return Err(sysfs.unexpected("size", &size.to_string(), expected));
    }
    let subpage = match sysfs.number("subpagesize") {
        Ok(0) | Err(_) => info.write_size,
        Ok(subpage) => subpage,
    };
    let oob = if kind == MediumKind::Nand { info.oob_size } else { 0 };
    let geometry = Geometry::new(kind, info.erase_size, count, info.write_size, subpage, oob);
    // The kernel does not export the size of the write buffer (spec: mtd-nand 1). For NOR, assume
    // the largest usual size; for memory or a disk, a page.
    let geometry = geometry.map(|geometry| match facts.kind.as_str() {
        "ram" => geometry.with_write_buffer(MEMORY_PAGE).unwrap_or(geometry),
        _ => geometry,
    });
    geometry.map_err(|source| HostError::Geometry { path: path.to_owned(), source })
}

/// Derives the outcome of a read from the counters before and after it; never reports fewer errors
/// than happened.
fn outcome_between(before: EccStats, after: EccStats, strength: u32) -> ReadOutcome {
    let corrected = after.corrected.wrapping_sub(before.corrected).min(strength);
    ReadOutcome {
        corrected_bits: u16::try_from(corrected).unwrap_or(u16::MAX),
        uncorrectable: after.failed != before.failed,
    }
}

impl Mtd for MtdChar {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        check_range(&self.geometry, "read", addr, buf.len())?;
        if self.has_reports() {
            if let Some(outcome) = self.read_reported(addr, buf)? {
                return Ok(outcome);
            }
            self.without_reports.store(true, Ordering::Relaxed);
        }
        self.read_counted(addr, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        check_range(&self.geometry, "program", addr, data.len())?;
        self.refuse_read_only(addr, "program")?;
        let unit = u64::from(self.geometry.subpage());
        let len = data.len() as u64;
        if !addr.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            let (at, expected) = (locate(&self.geometry, addr), "whole programming units");
            return Err(MtdError::Range { at, operation: "program", len, expected });
        }
        self.file.write_all_at(data, addr).map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => self.failed(addr, "program", errno),
            None => self.io(addr, "program", error),
        })
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let start = self.peb_in_range(peb, "erase")?;
        self.refuse_read_only(start, "erase")?;
        let mut range = EraseRange { start, length: u64::from(self.geometry.peb_size()) };
        let erased = sys::call::<MemErase64>(&self.file, &mut range);
        erased.map(drop).map_err(|errno| self.failed(start, "erase", errno))
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        let addr = self.peb_in_range(peb, "bad-block check")?;
        let mut offset = addr.cast_signed();
        match sys::call::<MemGetBadBlock>(&self.file, &mut offset) {
            Ok(answer) => Ok(answer != 0),
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(self.failed(addr, "read", errno)),
        }
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        let addr = self.peb_in_range(peb, "marking a block bad")?;
        self.refuse_read_only(addr, "marking a block bad")?;
        let mut offset = addr.cast_signed();
        let marked = sys::call::<MemSetBadBlock>(&self.file, &mut offset);
        marked.map(drop).map_err(|errno| self.failed(addr, "marking a block bad", errno))
    }

    /// Does nothing: programs and erases are complete when the call returns.
    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let start = self.oob_start(addr, offset, buf.len(), "reading out-of-band bytes")?;
        sys::read_oob(&self.file, start, buf).map_err(|errno| self.failed(addr, "read", errno))?;
        Ok(ReadOutcome::CLEAN)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let operation = "programming out-of-band bytes";
        let start = self.oob_start(addr, offset, data.len(), operation)?;
        self.refuse_read_only(addr, operation)?;
        sys::write_oob(&self.file, start, data).map_err(|errno| self.failed(addr, operation, errno))
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        check_range(&self.geometry, "program", addr, data.len())?;
        self.oob_start(addr, 0, oob.len(), "program")?;
        self.refuse_read_only(addr, "program")?;
        sys::write_both(&self.file, addr, data, oob)
            .map_err(|errno| self.failed(addr, "program", errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_tell_the_outcome() {
        let stats = |corrected, failed| EccStats { corrected, failed, ..EccStats::default() };
        assert_eq!(outcome_between(stats(5, 1), stats(5, 1), 4), ReadOutcome::CLEAN);
        let some = outcome_between(stats(5, 1), stats(8, 1), 4);
        assert_eq!(some, ReadOutcome { corrected_bits: 3, uncorrectable: false });
        let wrapped = outcome_between(stats(u32::MAX, 0), stats(9, 1), 4);
        assert_eq!(wrapped, ReadOutcome { corrected_bits: 4, uncorrectable: true });
    }

    #[test]
    fn what_is_no_mtd_device_is_refused() {
        let open = |path: &str| MtdChar::open(Path::new(path), MtdOptions::default()).unwrap_err();
        assert!(matches!(open("/dev/null"), HostError::WrongKind { .. }));
        assert!(matches!(open("/dev/no such device"), HostError::Refused { what: "stat", .. }));
    }
}
