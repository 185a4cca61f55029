//! Plain image files as devices: [`ImageFile`], a flash dump without out-of-band bytes, and
//! [`LebFile`], a bare `.ubifs` image.
//!
//! Both are read-only ([`crate::WritableImage`] and [`crate::LebImage`] are not) and never read
//! beyond the last whole eraseblock of an image.

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::leb::{LebDevice, read_only_leb, usual_max_write};
use crate::read_at::ReadAt;
use crate::redo;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Geometry, GeometryError, Leb, Location, MediumKind, Peb};
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::path::Path;

/// The parameters of an image file that the file itself does not contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageShape {
    /// Byte offset of the first eraseblock in the file.
    pub start: u64,
    /// Bytes in an eraseblock.
    pub peb_size: u32,
    /// The smallest unit that can be programmed.
    pub min_io: u32,
    /// The unit of UBI headers.
    pub subpage: u32,
    /// The maximum number of eraseblocks; `None` for all in the file.
    pub peb_count: Option<u32>,
}

/// An image that cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The host failed to open the file or to determine its size.
    Io(std::io::Error),
    /// The geometry is impossible.
    Geometry(GeometryError),
    /// The file has not even one whole eraseblock.
    TooSmall {
        /// The start of the image in the file.
        start: u64,
        /// Bytes from there to the end of the file.
        found: u64,
        /// Bytes in one eraseblock.
        expected: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot open the image: {error}"),
            Self::Geometry(error) => write!(f, "impossible image geometry: {error}"),
            Self::TooSmall { start, found, expected } => write!(
                f,
                "image has {found} bytes after offset {start}, expected at least {expected}"
            ),
        }
    }
}

impl Error for OpenError {}

impl From<std::io::Error> for OpenError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<GeometryError> for OpenError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl OpenError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// A flash image as a read-only device. A partial last block is not used (spec: ubi 2).
#[derive(Debug)]
pub struct ImageFile<S: ReadAt = File> {
    source: S,
    start: u64,
    geometry: Geometry,
}

impl ImageFile<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, or as [`ImageFile::new`] does.
    pub fn open(path: &Path, shape: &ImageShape) -> Result<Self, OpenError> {
        Self::new(File::open(path)?, shape)
    }
}

impl<S: ReadAt> ImageFile<S> {
    /// Creates a device on an open file or on memory.
    ///
    /// # Errors
    ///
    /// Fails if the size of the source is unknown, if the shape is impossible, or if the source has
    /// no whole eraseblock.
    pub fn new(source: S, shape: &ImageShape) -> Result<Self, OpenError> {
        let found = source.size()?.saturating_sub(shape.start);
        let expected = u64::from(shape.peb_size).max(1);
        let whole = u32::try_from(found / expected).unwrap_or(u32::MAX >> 1);
        let peb_count = whole.min(shape.peb_count.unwrap_or(u32::MAX)).min(u32::MAX >> 1);
        if peb_count == 0 {
            return Err(OpenError::TooSmall { start: shape.start, found, expected });
        }
        let kind = if shape.min_io == 1 { MediumKind::Nor } else { MediumKind::Nand };
        let geometry =
            Geometry::new(kind, shape.peb_size, peb_count, shape.min_io, shape.subpage, 0)?;
        Ok(Self { source, start: shape.start, geometry })
    }

    /// Returns the byte offset of the first eraseblock in the file.
    pub fn start(&self) -> u64 {
        self.start
    }

    fn refuse<T>(&self, addr: u64, operation: &'static str) -> Result<T, MtdError> {
        Err(MtdError::ReadOnly { at: self.locate(addr), operation })
    }

    fn locate(&self, addr: u64) -> Location {
        locate(&self.geometry, addr)
    }
}

/// Returns the eraseblock and offset of a byte address of a device.
pub fn locate(geometry: &Geometry, addr: u64) -> Location {
    let size = u64::from(geometry.peb_size());
    match (u32::try_from(addr / size), u32::try_from(addr % size)) {
        (Ok(peb), Ok(offset)) => Location::Peb(Peb::new(peb), offset),
        _ => Location::Byte(addr),
    }
}

/// Checks that a range lies on the device.
///
/// # Errors
///
/// Fails with [`MtdError::Range`] if it does not.
pub fn check_range(
    geometry: &Geometry,
    operation: &'static str,
    addr: u64,
    len: usize,
) -> Result<(), MtdError> {
    let len = len as u64;
    if addr.checked_add(len).is_some_and(|end| end <= geometry.size()) {
        return Ok(());
    }
    let expected = "a range on the device";
    Err(MtdError::Range { at: locate(geometry, addr), operation, len, expected })
}

impl<S: ReadAt> Mtd for ImageFile<S> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        check_range(&self.geometry, "read", addr, buf.len())?;
        self.source.read_exact_at(buf, self.start + addr).map_err(|source| MtdError::Io {
            at: self.locate(addr),
            operation: "read",
            source,
        })?;
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&self, addr: u64, _data: &[u8]) -> Result<(), MtdError> {
        self.refuse(addr, "program")
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.refuse(self.geometry.address_of(peb), "erase")
    }

    fn is_bad(&self, _peb: Peb) -> Result<bool, MtdError> {
        Ok(false)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.refuse(self.geometry.address_of(peb), "marking a block bad")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// A bare `.ubifs` image: consecutive LEBs, as `mkfs.ubifs` writes them. LEBs after the end of the
/// file, and the missing part of a truncated LEB, read as erased flash.
#[derive(Debug)]
pub struct LebFile<S: ReadAt = File> {
    source: S,
    size: u64,
    leb_size: u32,
    min_io: u32,
    leb_count: u32,
    /// The new content of a LEB whose replacement was interrupted.
    replaced: Option<(Leb, Vec<u8>)>,
}

impl LebFile<File> {
    /// Opens the file at `path`; parameters as in [`LebFile::new`].
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, or as [`LebFile::new`] does.
    pub fn open(
        path: &Path,
        leb_size: u32,
        min_io: u32,
        leb_count: Option<u32>,
    ) -> Result<Self, OpenError> {
        Self::new(File::open(path)?, leb_size, min_io, leb_count)
    }
}

impl<S: ReadAt> LebFile<S> {
    /// Creates a volume on an image with LEBs of `leb_size` bytes. `leb_count` is the size of the
    /// volume, usually larger than the image; without it the volume ends with the image.
    ///
    /// # Errors
    ///
    /// Fails if the source cannot be read, if the sizes are impossible, or if the image has no
    /// whole LEB.
    pub fn new(
        source: S,
        leb_size: u32,
        min_io: u32,
        leb_count: Option<u32>,
    ) -> Result<Self, OpenError> {
        // LEBs follow the same size rules as eraseblocks.
        Geometry::new(MediumKind::Nand, leb_size, 1, min_io, min_io, 0)?;
        let mut size = source.size()?;
        let mut replaced = None;
        if let Some(redo) = redo::find(&source, size, leb_size)? {
            size = redo.end;
            replaced = redo.change;
        }
        let in_file = u32::try_from(size.div_ceil(u64::from(leb_size))).unwrap_or(u32::MAX);
        let leb_count = leb_count.unwrap_or(in_file);
        Ok(Self { source, size, leb_size, min_io, leb_count, replaced })
    }

    fn check(&self, leb: Leb, offset: u32, len: usize) -> Result<(), MtdError> {
        let inside = leb.get() < self.leb_count
            && (u64::from(offset) + len as u64) <= u64::from(self.leb_size);
        if inside {
            return Ok(());
        }
        Err(MtdError::Range {
            at: Location::Leb(leb, offset),
            operation: "read",
            len: len as u64,
            expected: "a range in one LEB of the volume",
        })
    }

    fn refuse<T>(&self, leb: Leb, operation: &'static str) -> Result<T, MtdError> {
        self.check(leb, 0, 0)?;
        read_only_leb(leb, operation)
    }
}

impl<S: ReadAt> LebDevice for LebFile<S> {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn min_io(&self) -> u32 {
        self.min_io
    }

    fn max_write(&self) -> u32 {
        usual_max_write(self.min_io)
    }

    fn leb_count(&self) -> u32 {
        self.leb_count
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.check(leb, offset, buf.len())?;
        if let Some((_, bytes)) = self.replaced.as_ref().filter(|(replaced, _)| *replaced == leb) {
            buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]);
            return Ok(ReadOutcome::CLEAN);
        }
        let start = u64::from(leb.get()) * u64::from(self.leb_size) + u64::from(offset);
        let in_file = usize::try_from(self.size.saturating_sub(start)).unwrap_or(usize::MAX);
        let (stored, missing) = buf.split_at_mut(in_file.min(buf.len()));
        missing.fill(0xFF);
        if !stored.is_empty() {
            self.source.read_exact_at(stored, start).map_err(|source| MtdError::Io {
                at: Location::Leb(leb, offset),
                operation: "read",
                source,
            })?;
        }
        Ok(ReadOutcome::CLEAN)
    }

    /// Returns whether the LEB starts inside the file and is not fully erased; reads up to the
    /// first byte that is not 0xFF.
    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.check(leb, 0, 0)?;
        let mut buf = [0_u8; 4096];
        let mut offset = 0;
        while offset < self.leb_size {
            let len = (self.leb_size - offset).min(4096);
            let part = &mut buf[..len as usize];
            self.read(leb, offset, part)?;
            if !is_erased(part) {
                return Ok(true);
            }
            offset += len;
        }
        Ok(false)
    }

    fn write(&self, leb: Leb, _offset: u32, _data: &[u8]) -> Result<(), MtdError> {
        self.refuse(leb, "write")
    }

    fn change(&self, leb: Leb, _data: &[u8]) -> Result<(), MtdError> {
        self.refuse(leb, "change")
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.refuse(leb, "map")
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.refuse(leb, "unmap")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::MtdError;

    const SHAPE: ImageShape =
        ImageShape { start: 4, peb_size: 8, min_io: 1, subpage: 1, peb_count: None };

    fn bytes(count: u8) -> Vec<u8> {
        (0..count).collect()
    }

    #[test]
    fn a_partial_last_block_is_not_used() {
        let image = ImageFile::new(bytes(27), &SHAPE).unwrap();
        assert_eq!(image.geometry().peb_count(), 2);
        let mut buf = [0; 3];
        image.read(13, &mut buf).unwrap();
        assert_eq!(buf, [17, 18, 19]);
        let error = image.read(14, &mut buf).unwrap_err();
        assert!(matches!(error, MtdError::Range { .. }), "{error}");
        assert!(image.read(u64::MAX, &mut buf).is_err());
    }

    #[test]
    fn too_small_and_impossible_images_are_refused() {
        let open = |count, shape| ImageFile::new(bytes(count), &shape).unwrap_err();
        assert!(matches!(open(11, SHAPE), OpenError::TooSmall { found: 7, .. }));
        assert!(matches!(open(1, SHAPE), OpenError::TooSmall { found: 0, .. }));
        assert!(matches!(open(27, ImageShape { min_io: 3, ..SHAPE }), OpenError::Geometry(_)));
        assert!(matches!(open(27, ImageShape { peb_size: 0, ..SHAPE }), OpenError::Geometry(_)));
    }

    #[test]
    fn writing_an_image_is_refused() {
        let image = ImageFile::new(bytes(27), &SHAPE).unwrap();
        let peb = Peb::new(0);
        for result in [image.program(0, &[0]), image.erase(peb), image.mark_bad(peb)] {
            assert!(matches!(result, Err(MtdError::ReadOnly { .. })));
        }
    }

    #[test]
    fn a_leb_file_reads_as_erased_behind_its_end() {
        let volume = LebFile::new(bytes(10), 8, 1, Some(4)).unwrap();
        let mut buf = [0; 8];
        volume.read(Leb::new(1), 0, &mut buf).unwrap();
        assert_eq!(buf, [8, 9, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        volume.read(Leb::new(3), 0, &mut buf).unwrap();
        assert_eq!(buf, [0xFF; 8]);
        assert!(volume.read(Leb::new(4), 0, &mut buf).is_err());
        assert!(volume.read(Leb::new(0), 1, &mut buf).is_err());
        assert!(volume.read(Leb::new(0), u32::MAX, &mut buf).is_err());
    }

    #[test]
    fn mapped_means_stored_and_not_erased() {
        let mut image = bytes(24);
        image[8..16].fill(0xFF);
        let volume = LebFile::new(image, 8, 1, Some(4)).unwrap();
        let mapped: Vec<bool> = (0..4).map(|n| volume.is_mapped(Leb::new(n)).unwrap()).collect();
        assert_eq!(mapped, [true, false, true, false]);
        let leb = Leb::new(0);
        for result in
            [volume.write(leb, 0, &[]), volume.change(leb, &[]), volume.map(leb), volume.unmap(leb)]
        {
            assert!(matches!(result, Err(MtdError::ReadOnly { .. })));
        }
    }
}
