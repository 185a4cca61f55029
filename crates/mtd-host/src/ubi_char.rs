//! `/dev/ubiX_Y`: a volume of a UBI device that the kernel has attached (spec: ubi 18).
//!
//! # Invariants
//! 1. One thread announces and delivers a change, because the driver keeps this state per volume.

use crate::abi::{
    DATA_TYPE_UNKNOWN, DIRECT_WRITE, LebChange, LebMap, UbiLebChange, UbiLebErase, UbiLebIsMapped,
    UbiLebMap, UbiLebUnmap, UbiSetProperty, VolumeProperty,
};
use crate::busy;
use crate::error::HostError;
use crate::node::{NodeKind, Sysfs};
use crate::sys;
use eraseblock_base::{Geometry, Leb, Location, MediumKind};
use eraseblock_mtd::{Access, LebDevice, MtdError, ReadOutcome, usual_max_write};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The driver's description of a volume, other than its LEBs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UbiFacts {
    /// The kernel's name of the volume, `ubi0_1`.
    pub device: String,
    /// The volume's name.
    pub name: Vec<u8>,
    /// Whether it is a static volume, whose LEBs cannot be written one by one.
    pub is_static: bool,
    /// Bytes of data; for a dynamic volume its capacity.
    pub data_bytes: u64,
    /// The volume starts at multiples of this value in an eraseblock.
    pub alignment: u32,
    /// Whether an update was interrupted, so that nothing can be read.
    pub update_unfinished: bool,
    /// Whether the driver found the volume damaged.
    pub corrupted: bool,
}

/// A UBI volume of the host.
#[derive(Debug)]
pub struct UbiChar {
    file: File,
    leb_size: u32,
    leb_count: u32,
    min_io: u32,
    writable: bool,
    facts: UbiFacts,
    changing: Mutex<()>,
}

impl UbiChar {
    /// Opens `/dev/ubiX_Y`; for writing, as its only writer.
    ///
    /// # Errors
    ///
    /// Fails with [`HostError::Busy`] if the volume has another writer, or with the error of the
    /// kernel.
    pub fn open(path: &Path, access: Access) -> Result<Self, HostError> {
        if NodeKind::of(path)? != Some(NodeKind::UbiVolume) {
            return Err(HostError::WrongKind { path: path.to_owned(), expected: "a UBI volume" });
        }
        let opened = File::options().read(true).write(access.is_write()).open(path);
        let file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => HostError::Busy {
                path: path.to_owned(),
                by: "another program writes to the volume, or a file system is mounted".to_owned(),
            },
            _ => HostError::refused(path, "open", error),
        })?;
        busy::lock(&file, path, access)?;
        let sysfs = Sysfs::of(path)?;
        let volume = Self {
            leb_size: sysfs.number("usable_eb_size")?,
            leb_count: sysfs.number("reserved_ebs")?,
            min_io: sysfs.parent().number("min_io_size")?,
            facts: facts(&sysfs)?,
            changing: Mutex::new(()),
            writable: access.is_write(),
            file,
        };
        // LEBs follow the same size rules as eraseblocks.
        let unit = volume.min_io;
        Geometry::new(MediumKind::Nand, volume.leb_size, 1, unit, unit, 0)
            .map_err(|source| HostError::Geometry { path: path.to_owned(), source })?;
        if access.is_write() && !volume.facts.is_static {
            let mut direct =
                VolumeProperty { property: DIRECT_WRITE, value: 1, ..VolumeProperty::default() };
            sys::call::<UbiSetProperty>(&volume.file, &mut direct)
                .map_err(|e| HostError::refused(path, "UBI_IOCSETVOLPROP", e))?;
        }
        Ok(volume)
    }

    /// Returns the driver's description of the volume.
    pub fn facts(&self) -> &UbiFacts {
        &self.facts
    }

    /// Unmaps a LEB and waits for the erase, so that the old content cannot reappear.
    ///
    /// # Errors
    ///
    /// Fails if the LEB is not in the volume, or with the error of the driver.
    pub fn erase(&self, leb: Leb) -> Result<(), MtdError> {
        self.command::<UbiLebErase>(leb, "erase", &mut lnum(leb)).map(drop)
    }

    fn position(
        &self,
        operation: &'static str,
        leb: Leb,
        offset: u32,
        len: usize,
    ) -> Result<u64, MtdError> {
        let inside = leb.get() < self.leb_count
            && u64::from(offset) + len as u64 <= u64::from(self.leb_size);
        if inside {
            return Ok(u64::from(leb.get()) * u64::from(self.leb_size) + u64::from(offset));
        }
        let (at, expected) = (Location::Leb(leb, offset), "a range in one LEB of the volume");
        Err(MtdError::Range { at, operation, len: len as u64, expected })
    }

    fn refuse_read_only(&self, leb: Leb, operation: &'static str) -> Result<(), MtdError> {
        if self.is_read_only() {
            return Err(MtdError::ReadOnly { at: Location::leb(leb), operation });
        }
        Ok(())
    }

    fn check_units(&self, leb: Leb, offset: u32, len: usize) -> Result<(), MtdError> {
        let unit = self.min_io;
        if offset.is_multiple_of(unit) && len.is_multiple_of(unit as usize) {
            return Ok(());
        }
        let (at, expected) = (Location::Leb(leb, offset), "whole minimum I/O units");
        Err(MtdError::Range { at, operation: "write", len: len as u64, expected })
    }

    /// Performs an ioctl that changes a LEB.
    fn command<R: crate::abi::Request>(
        &self,
        leb: Leb,
        operation: &'static str,
        argument: &mut R::Argument,
    ) -> Result<i32, MtdError> {
        self.position(operation, leb, 0, 0)?;
        self.refuse_read_only(leb, operation)?;
        sys::call::<R>(&self.file, argument)
            .map_err(|errno| failed(leb, 0, operation, errno.into()))
    }

    /// Reads unit by unit after a read of the whole range failed; unreadable units are 0.
    fn read_in_pieces(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        let unit = self.min_io.max(512);
        let mut done = 0;
        while done < buf.len() {
            let from = offset + u32::try_from(done).unwrap_or(u32::MAX);
            let to_boundary = (unit - from % unit) as usize;
            let end = buf.len().min(done + to_boundary);
            let position = self.position("read", leb, from, end - done)?;
            if let Err(error) = self.read_filled(position, &mut buf[done..end]) {
                if Errno::from_io_error(&error) != Some(Errno::BADMSG) {
                    return Err(failed(leb, from, "read", error));
                }
                buf[done..end].fill(0);
            }
            done = end;
        }
        Ok(())
    }

    /// Reads; after the data of a static volume everything is 0xFF.
    fn read_filled(&self, position: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], position + done as u64)? {
                0 => break,
                len => done += len,
            }
        }
        buf[done..].fill(0xFF);
        Ok(())
    }
}

fn facts(sysfs: &Sysfs) -> Result<UbiFacts, HostError> {
    Ok(UbiFacts {
        device: sysfs.name()?,
        name: sysfs.text("name")?.into_bytes(),
        is_static: sysfs.text("type")? == "static",
        data_bytes: sysfs.number("data_bytes")?,
        alignment: sysfs.number("alignment")?,
        update_unfinished: sysfs.number::<u32>("upd_marker")? != 0,
        corrupted: sysfs.number::<u32>("corrupted")? != 0,
    })
}

fn lnum(leb: Leb) -> i32 {
    leb.get().cast_signed()
}

/// Converts an error of the driver.
fn failed(leb: Leb, offset: u32, operation: &'static str, error: io::Error) -> MtdError {
    let at = Location::Leb(leb, offset);
    match Errno::from_io_error(&error) {
        Some(Errno::ROFS | Errno::PERM) => MtdError::ReadOnly { at, operation },
        Some(Errno::NOSPC) => MtdError::NoSpace { at, operation },
        Some(Errno::NOTTY) => MtdError::Unsupported { operation },
        _ => MtdError::Io { at, operation, source: error },
    }
}

impl LebDevice for UbiChar {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn min_io(&self) -> u32 {
        self.min_io
    }

    /// Returns a usual value, because the kernel does not export it.
    fn max_write(&self) -> u32 {
        usual_max_write(self.min_io)
    }

    fn leb_count(&self) -> u32 {
        self.leb_count
    }

    fn is_read_only(&self) -> bool {
        !self.writable || self.facts.is_static
    }

    /// The kernel handles corrected bits: it scrubs without reporting them.
    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let position = self.position("read", leb, offset, buf.len())?;
        match self.read_filled(position, buf) {
            Ok(()) => Ok(ReadOutcome::CLEAN),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADMSG) => {
                self.read_in_pieces(leb, offset, buf)?;
                Ok(ReadOutcome { corrected_bits: 0, uncorrectable: true })
            }
            Err(error) => Err(failed(leb, offset, "read", error)),
        }
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.position("mapping query", leb, 0, 0)?;
        let answer = sys::call::<UbiLebIsMapped>(&self.file, &mut lnum(leb));
        let answer = answer.map_err(|errno| failed(leb, 0, "mapping query", errno.into()))?;
        Ok(answer != 0)
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let position = self.position("write", leb, offset, data.len())?;
        self.refuse_read_only(leb, "write")?;
        self.check_units(leb, offset, data.len())?;
        let written = self.file.write_all_at(data, position);
        written.map_err(|error| failed(leb, offset, "write", error))
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.position("change", leb, 0, data.len())?;
        self.check_units(leb, 0, data.len())?;
        let bytes = i32::try_from(data.len()).unwrap_or(i32::MAX);
        let mut change = LebChange {
            leb: lnum(leb),
            bytes,
            data_type: DATA_TYPE_UNKNOWN,
            ..LebChange::default()
        };
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.command::<UbiLebChange>(leb, "change", &mut change)?;
        let delivered = (&self.file).write_all(data);
        delivered.map_err(|error| failed(leb, 0, "change", error))
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        let mut map = LebMap { leb: lnum(leb), data_type: DATA_TYPE_UNKNOWN, ..LebMap::default() };
        self.command::<UbiLebMap>(leb, "map", &mut map).map(drop)
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.command::<UbiLebUnmap>(leb, "unmap", &mut lnum(leb)).map(drop)
    }

    fn sync(&self) -> Result<(), MtdError> {
        let at = Location::Whole;
        self.file.sync_all().map_err(|source| MtdError::Io { at, operation: "sync", source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_volume_is_refused() {
        let error = UbiChar::open(Path::new("/dev/null"), Access::Read).unwrap_err();
        assert_eq!(error.to_string(), "/dev/null: this is not a UBI volume");
    }

    #[test]
    fn refusals_of_the_driver_are_told_apart() {
        let error = |errno: Errno| failed(Leb::new(3), 0, "write", errno.into());
        assert!(matches!(error(Errno::ROFS), MtdError::ReadOnly { .. }));
        assert!(matches!(error(Errno::NOSPC), MtdError::NoSpace { .. }));
        assert!(matches!(error(Errno::IO), MtdError::Io { .. }));
    }
}
