//! A bare UBIFS image that is written to: a volume as large as its superblock lets it become.

use super::span::Span;
use super::{Format, Shape, file_bytes, image, magic, peek};
use crate::error::{Error, Setting, Words};
use eraseblock_base::align::is_erased;
use eraseblock_mtd::{LebImage, ReadAt};
use eraseblock_ubifs_format::Superblock;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// An image opened for writing.
#[derive(Debug)]
pub(super) struct Bare {
    /// The file as a volume.
    pub(super) device: LebImage,
    /// Bytes in the file, if they are less than those of the file system.
    pub(super) cut_at: Option<u64>,
}

/// Returns whether the file is a bare UBIFS image.
pub(super) fn is_one(path: &Path, shape: &Shape) -> Result<bool, Error> {
    Ok(match shape.format {
        Some(format) => format == Format::Ubifs,
        None => path.is_file() && magic::is_ubifs(&beginning(path)?),
    })
}

/// Returns whether a part of a file is a bare UBIFS image.
pub(super) fn is_part(path: &Path, part: Span) -> Result<bool, Error> {
    let file = file_bytes::open(path)?;
    Ok(magic::is_ubifs(&image::beginning(part.of(file)?.as_ref())?))
}

/// Why nothing is written to a part of a file.
pub(super) fn can_only_be_read(path: &Path, part: Span) -> Error {
    let (path, Span { offset, length, .. }) = (path.display(), part);
    Error::new(format!("{path}: the file system at byte {offset} can only be read")).hint(format!(
        "cut it out to change it: `tail -c +{} {path} | head -c {length} >part`",
        offset.saturating_add(1)
    ))
}

/// Opens the image in a volume of `size` bytes, or of as many as it can have.
pub(super) fn open(path: &Path, shape: &Shape, size: Option<u64>) -> Result<Bare, Error> {
    let peek::Content::Ubifs(sb) = peek::of_bytes(&beginning(path)?, shape.leb.unwrap_or(1 << 20))
    else {
        return Err(Error::new("the UBIFS superblock cannot be read").hint(
            Words::from("such an image can only be read: ")
                + Setting::Leb
                + " and "
                + Setting::Page
                + " say what it is",
        ));
    };
    if shape.leb.is_some_and(|leb| leb != sb.leb_size) {
        let leb_size = sb.leb_size;
        return Err(Error::usage(Setting::Leb + format!(": its LEBs have {leb_size} bytes")));
    }
    let leb_count = leb_count(&sb, size)?;
    let device = LebImage::open(path, sb.leb_size, sb.min_io_size, leb_count)?;
    let stored = device.stored_bytes();
    let whole = u64::from(sb.leb_cnt) * u64::from(sb.leb_size);
    refuse_more(path, whole, stored)?;
    Ok(Bare { device, cut_at: Some(stored).filter(|stored| *stored < whole) })
}

/// LEBs of the volume that the image is meant for.
fn leb_count(sb: &Superblock, size: Option<u64>) -> Result<u32, Error> {
    let most = sb.max_leb_cnt.max(sb.leb_cnt);
    let Some(size) = size else { return Ok(most) };
    let lebs = size / u64::from(sb.leb_size.max(1));
    match u32::try_from(lebs).unwrap_or(u32::MAX).min(most) {
        few if few < sb.leb_cnt => {
            let message = format!(
                ": the file system has {} LEBs, more than the {few} of that volume",
                sb.leb_cnt
            );
            Err(Error::usage(Setting::FlashSize + message))
        }
        enough => Ok(enough),
    }
}

/// Refuses an image with data after its file system, where the file system is going to grow.
fn refuse_more(path: &Path, whole: u64, stored: u64) -> Result<(), Error> {
    let file = File::open(path)?;
    let mut part = [0; 1 << 14];
    let mut offset = whole;
    while offset < stored {
        let len = usize::try_from(stored - offset).unwrap_or(usize::MAX).min(part.len());
        ReadAt::read_exact_at(&file, &mut part[..len], offset)?;
        if !is_erased(&part[..len]) {
            let behind = stored - whole;
            let hint = format!("`truncate -s {whole} {}` cuts it off", path.display());
            let message = format!("{behind} bytes after the file system would be overwritten");
            return Err(Error::new(message).hint(hint));
        }
        offset += len as u64;
    }
    Ok(())
}

/// The first bytes of a file.
fn beginning(path: &Path) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    File::open(path)?.take(magic::LOOK as u64).read_to_end(&mut start)?;
    Ok(start)
}
