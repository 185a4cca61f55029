//! Reads an image through a flash driver of one's own: `custom_flash IMAGE`.

#![allow(clippy::print_stdout)] // it is what the example is for

use eraseblock::raw::base::{Geometry, Location, MediumKind, Peb};
use eraseblock::raw::mtd::{Mtd, MtdError, ReadOutcome};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A NAND of which everything is known but how to write to it: here, bytes in memory; elsewhere, a
/// programmer on a serial line.
#[derive(Debug)]
pub(crate) struct Programmer {
    geometry: Geometry,
    bytes: Vec<u8>,
    /// Bytes that were read so far.
    pub(crate) traffic: AtomicU64,
}

impl Programmer {
    /// A flash with eraseblocks of 128 KiB and pages of 2 KiB that holds `bytes`.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, Box<dyn Error>> {
        let (peb, page, oob) = (131_072, 2048, 64);
        let count = u32::try_from(bytes.len())? / peb;
        let geometry = Geometry::new(MediumKind::Nand, peb, count, page, page, oob)?;
        Ok(Self { geometry, bytes, traffic: AtomicU64::new(0) })
    }
}

impl Mtd for Programmer {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.traffic.fetch_add(buf.len() as u64, Ordering::Relaxed);
        let start = usize::try_from(addr).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(start..).and_then(|bytes| bytes.get(..buf.len()));
        let outside = || MtdError::Io {
            at: Location::Byte(addr),
            operation: "read",
            source: std::io::ErrorKind::UnexpectedEof.into(),
        };
        buf.copy_from_slice(bytes.ok_or_else(outside)?);
        Ok(ReadOutcome::default())
    }

    fn program(&self, _: u64, _: &[u8]) -> Result<(), MtdError> {
        Err(MtdError::Unsupported { operation: "programming" })
    }

    fn erase(&self, _: Peb) -> Result<(), MtdError> {
        Err(MtdError::Unsupported { operation: "erasing" })
    }

    fn is_bad(&self, _: Peb) -> Result<bool, MtdError> {
        Ok(false)
    }

    fn mark_bad(&self, _: Peb) -> Result<(), MtdError> {
        Err(MtdError::Unsupported { operation: "marking blocks" })
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// Returns the names in the root directory, and how many bytes of the flash were read for them.
pub(crate) fn run(image: &Path) -> Result<(Vec<String>, u64), Box<dyn Error>> {
    let flash = Arc::new(Programmer::new(std::fs::read(image)?)?);
    let image = eraseblock::Image::options().from_flash(flash.clone())?;
    let entries = image.file_system()?.read_dir("/")?;
    let names = entries.iter().map(|entry| entry.name().into_owned()).collect();
    Ok((names, flash.traffic.load(Ordering::Relaxed)))
}

#[allow(dead_code)] // the tests call `run`
fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args().nth(1).ok_or("usage: custom_flash IMAGE")?;
    let (names, bytes) = run(Path::new(&image))?;
    println!("{names:?}, {bytes} bytes read");
    Ok(())
}
