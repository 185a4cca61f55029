//! A JFFS2 image file as the flash it is meant for.
//!
//! # Invariants
//! 1. Nothing is written to a file whose eraseblocks are only guessed, or that holds more than the
//!    file system, unless the caller states which part belongs to the file system.

use super::flash::size_in_bytes;
use super::formats::Medium;
use super::span::Span;
use super::{Shape as Wanted, file_bytes, image, raw_dump};
use crate::error::{Error, Setting};
use crate::text;
use eraseblock_base::Peb;
use eraseblock_base::align::is_erased;
use eraseblock_jffs2::rw::MIN_BLOCKS;
use eraseblock_jffs2::{OpenOptions, Shape, Source, Survey};
use eraseblock_jffs2_format::constants::MAGIC;
use eraseblock_jffs2_format::{ByteOrder, scan};
use eraseblock_mtd::{Access, ImageFile, ImageShape, Mtd, ReadAt, WritableImage};
use eraseblock_ubi::detect::detect;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The flash, and what mounting has to know of it.
pub(super) struct Jffs2Flash {
    /// The file as a flash.
    pub(super) device: Arc<dyn Mtd>,
    /// Byte order.
    pub(super) order: ByteOrder,
    /// Bytes of the cleanmarkers, 0 for none; `None` if no node shows it.
    pub(super) cleanmarker: Option<u32>,
}

/// Returns whether there is a JFFS2 somewhere on a flash or in an image that begins with nothing we know,
/// or room for one on a flash. Fails if it cannot be read.
pub(super) fn is_in(medium: Medium, shape: &Wanted) -> Result<bool, Error> {
    match medium {
        Medium::Device(device) => is_on(device.as_ref()),
        Medium::Image(file) => is_one(file, shape),
    }
}

/// Returns whether there is a JFFS2 in a file that is nothing else we know.
fn is_one(file: Arc<dyn ReadAt>, shape: &Wanted) -> Result<bool, Error> {
    if detect(file.as_ref(), &image::hints(&shape.sizes))?.is_some() {
        return Ok(false);
    }
    Ok(image::find_jffs2::<Survey>(Source::Image(file), &options(shape), None)?.is_some())
}

/// Bytes at the start of a block that are looked at.
const START: u32 = 4096;

/// Returns whether there is a JFFS2 on a flash, or a block is erased, as it is where one can be
/// made or is empty. What can be read of something else is refused by who mounts it.
fn is_on(device: &dyn Mtd) -> Result<bool, Error> {
    let geometry = device.geometry();
    let mut start = vec![0; START.min(geometry.peb_size()) as usize];
    let mut any_erased = false;
    for block in 0..geometry.peb_count() {
        if device.is_bad(Peb::new(block))? {
            continue;
        }
        let at = u64::from(block) * u64::from(geometry.peb_size());
        let Ok(outcome) = device.read(at, &mut start) else { continue };
        any_erased |= !outcome.uncorrectable && is_erased(&start);
        if (0..start.len()).step_by(4).any(|at| scan::header_order(&start[at..]).is_some()) {
            return Ok(true);
        }
    }
    Ok(any_erased)
}

/// Why nothing is written to a part of a file that was only named by an offset.
pub(super) fn is_a_part(path: &Path, part: Span) -> Error {
    let (path, Span { offset, length, .. }) = (path.display(), part);
    Error::new(format!("{path}: a JFFS2 named by its offset can only be read")).hint(
        Setting::Start.to(offset)
            + " "
            + Setting::FlashSize.to(length)
            + " without the offset write to its blocks",
    )
}

/// Opens the file, or a part of it; for writing, with `size` bytes of flash from its start, if
/// given.
pub(super) fn open(
    path: &Path,
    part: Option<Span>,
    args: &Wanted,
    size: Option<u64>,
    access: Access,
) -> Result<Jffs2Flash, Error> {
    let mut file = file_bytes::open(path)?;
    if let Some(part) = part {
        file = part.of(file)?;
    }
    let found = Source::Image(Arc::clone(&file));
    let found =
        image::find_jffs2::<Survey>(found, &OpenOptions { empty: true, ..options(args) }, None)?;
    let Some((Survey { shape, node_bytes }, _, dump)) = found else {
        return Err(Error::new("there is no JFFS2 in it"));
    };
    if dump.is_some() {
        return Err(raw_dump::only_read());
    }
    let stored = stored_blocks(file.as_ref(), &shape)?;
    let device: Arc<dyn Mtd> = if access.is_write() {
        require_certain(path, args, size, &shape)?;
        if let Some(given) = args.sizes.peb {
            let unforced = OpenOptions { erase_size: None, ..options(args) };
            let found = Source::Image(Arc::clone(&file));
            if let Some((survey, ..)) = image::find_jffs2::<Survey>(found, &unforced, None)? {
                require_agreement(given, &survey.shape)?;
            }
        }
        let count = Some(blocks(&shape, stored, size)?);
        Arc::new(WritableImage::open(path, &image_shape(&shape, count))?)
    } else {
        let blocks = stored.max(MIN_BLOCKS.into());
        let size = shape.start.saturating_add(blocks.saturating_mul(shape.erase_size.into()));
        let whole = Padded { file, size };
        Arc::new(ImageFile::new(whole, &image_shape(&shape, None))?)
    };
    // The cleanmarkers that the image has, or has not: those of the flash that it is made for.
    let cleanmarker = (node_bytes > 0).then_some(shape.cleanmarker);
    Ok(Jffs2Flash { device, order: shape.order, cleanmarker })
}

fn options(shape: &Wanted) -> OpenOptions {
    let (start, erase_size) = (shape.start, shape.sizes.peb);
    OpenOptions { start, erase_size, order: shape.byte_order, empty: false }
}

fn image_shape(shape: &Shape, peb_count: Option<u32>) -> ImageShape {
    let (start, peb_size) = (shape.start, shape.erase_size);
    ImageShape { start, peb_size, min_io: 1, subpage: 1, peb_count }
}

/// Refuses to write where it is only a guess which bytes of the file are which eraseblock.
fn require_certain(
    path: &Path,
    args: &Wanted,
    size: Option<u64>,
    shape: &Shape,
) -> Result<(), Error> {
    if shape.start > 0 && (args.start.is_none() || size.is_none()) {
        let (path, start) = (path.display(), shape.start);
        let message = format!(
            "a JFFS2 ({}) begins at byte {start}, after other data: it can only be read",
            shape.order
        );
        let cut = format!("`tail -c +{} {path} >part.jffs2`", start.saturating_add(1));
        return Err(Error::new(message).hint(
            Setting::Start.to(start)
                + " "
                + Setting::FlashSize.to("SIZE")
                + " say which bytes of the file are its flash; or cut it out: "
                + cut,
        ));
    }
    if !shape.is_certain {
        let message = format!(
            "the size of an eraseblock is missing: nothing in the image proves one, {} is a guess",
            text::size(shape.erase_size.into())
        );
        return Err(Error::usage(message).hint(
            Setting::Peb.to("SIZE")
                + " states it (as `mkfs.jffs2 -e` did); a write with a wrong size would damage \
                   the image",
        ));
    }
    Ok(())
}

/// Refuses to write in eraseblocks that the image's own nodes contradict: a block of it would hold
/// the start of another, or end inside a node.
fn require_agreement(given: u32, found: &Shape) -> Result<(), Error> {
    let (size, is_proof) = (found.erase_size, found.is_certain);
    let is_wrong = if is_proof {
        !size.is_multiple_of(given)
    } else {
        size.is_multiple_of(given) && given < size
    };
    if !is_wrong {
        return Ok(());
    }
    let least = if is_proof { "" } else { "at least " };
    let size = text::size(size.into());
    let message = format!(": the nodes of the image lie in eraseblocks of {least}{size}");
    Err(Error::usage(Setting::Peb.to(given) + message))
}

/// Blocks that the file has. It may end inside the last one, whose rest is erased; what follows the
/// image and is none of it does not count.
fn stored_blocks(file: &dyn ReadAt, shape: &Shape) -> io::Result<u64> {
    let (peb, bytes) = (u64::from(shape.erase_size), file.size()?);
    let bytes = bytes.saturating_sub(shape.start);
    let whole = bytes / peb;
    let mut magic = [0; 2];
    if bytes % peb >= magic.len() as u64 {
        file.read_exact_at(&mut magic, shape.start + whole * peb)?;
    }
    Ok(whole + u64::from(magic == shape.order.u16_bytes(MAGIC)))
}

/// Blocks to write to: those that `size` asks for, or those that are stored.
fn blocks(shape: &Shape, stored: u64, size: Option<u64>) -> Result<u32, Error> {
    let peb = u64::from(shape.erase_size);
    let count = size.map_or(stored, |size| size / peb);
    let are = |count| {
        format!("{} of {}", text::count(count, "eraseblock", "eraseblocks"), text::size(peb))
    };
    if count < MIN_BLOCKS.into() {
        let message = format!("the image has {}, expected at least {MIN_BLOCKS}", are(count));
        return Err(Error::new(message).hint(size_in_bytes()));
    }
    if stored > count && shape.start == 0 {
        return Err(Error::usage(
            Setting::FlashSize + format!(": the image has {} already", are(stored)),
        ));
    }
    u32::try_from(count).map_err(|_| Error::usage(Setting::FlashSize + ": too large for JFFS2"))
}

/// A file that reads as erased flash after its end.
#[derive(Debug)]
struct Padded {
    file: Arc<dyn ReadAt>,
    size: u64,
}

impl ReadAt for Padded {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let stored = self.file.size()?.saturating_sub(offset);
        let stored = usize::try_from(stored).unwrap_or(usize::MAX).min(buf.len());
        let (inside, behind) = buf.split_at_mut(stored);
        behind.fill(0xFF);
        self.file.read_exact_at(inside, offset)
    }
}
