//! YAFFS: raw dumps of a NAND with their spare bytes, recognised by the tags of their pages.

#[cfg(feature = "edit")]
use super::Place;
#[cfg(feature = "edit")]
use super::driver::{self, Node};
use super::filesystem::{self, Opened};
#[cfg(feature = "edit")]
use super::span::Span;
use super::{Format, Shape};
use crate::error::Error;
#[cfg(feature = "edit")]
use crate::error::Setting;
#[cfg(feature = "edit")]
use crate::text;
#[cfg(feature = "edit")]
use eraseblock_base::Findings;
#[cfg(feature = "edit")]
use eraseblock_mtd::{Access, DumpShape, WritableDump};
use eraseblock_mtd::{Mtd, ReadAt};
use eraseblock_yaffs::{Hints, OpenOptions, Source, Yaffs, YaffsError};
#[cfg(feature = "edit")]
use eraseblock_yaffs::{Layout, RwOptions, Version, YaffsRw};
#[cfg(feature = "edit")]
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file or a flash with a YAFFS on it.
#[derive(Debug)]
pub struct YaffsImage {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// The file system.
    pub opened: Opened,
}

fn hints(shape: &Shape) -> Hints {
    Hints {
        page: shape.sizes.page,
        block: shape.sizes.peb,
        order: shape.byte_order,
        is_certain: shape.format == Some(Format::Yaffs),
    }
}

/// Returns whether a raw dump is a YAFFS, which is decided by samples of its pages. Fails if it cannot
/// be read.
pub(super) fn is_one(image: &Arc<dyn ReadAt>, shape: &Shape) -> Result<bool, Error> {
    is_in(&Source::Image(Arc::clone(image)), shape)
}

/// The same for a flash.
pub(super) fn is_on(device: &Arc<dyn Mtd>, shape: &Shape) -> Result<bool, Error> {
    is_in(&Source::Device(Arc::clone(device)), shape)
}

fn is_in(source: &Source, shape: &Shape) -> Result<bool, Error> {
    let is_other = shape.format.is_some_and(|format| format != Format::Yaffs);
    if is_other || shape.leb.is_some() {
        return Ok(false);
    }
    let found = eraseblock_yaffs::detect(source, &hints(shape));
    Ok(found.map_err(YaffsError::from)?.is_some())
}

/// Opens a YAFFS; `None` if the pages have no tags of one. Fails if it cannot be read.
pub(super) fn open(
    path: &Path,
    source: Source,
    file_size: u64,
    shape: &Shape,
) -> Result<Option<YaffsImage>, Error> {
    let options = OpenOptions { hints: hints(shape), ..OpenOptions::default() };
    match Yaffs::open(source, &options) {
        Ok((yaffs, findings)) => {
            let opened = filesystem::of_yaffs(yaffs, findings);
            Ok(Some(YaffsImage { path: path.to_owned(), file_size, opened }))
        }
        Err(YaffsError::NotYaffs { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a flash or file, before it is opened for writing, holds a YAFFS. Fails if it cannot
/// be read.
#[cfg(feature = "edit")]
pub(super) fn is_at(place: &Place, span: Option<Span>, shape: &Shape) -> Result<bool, Error> {
    match driver::node(&place.path)? {
        Some(Node::Mtd) => {
            return is_on(&driver::mtd(&place.path, Access::Read)?.device, shape);
        }
        Some(_) => return Ok(false),
        None => {}
    }
    if let Some(chip) = driver::chip(&place.path, Access::Read)? {
        return is_on(&chip.device, shape);
    }
    let Some(span) = span else { return Ok(false) };
    is_one(&span.of(Arc::new(File::open(&place.path)?))?, shape)
}

/// Why nothing is written to a YAFFS.
#[cfg(feature = "edit")]
pub(super) fn only_read(path: &Path) -> Error {
    refused(path, "a YAFFS can only be read here")
}

#[cfg(feature = "edit")]
fn refused(path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::new(format!("{path}: {why}"))
        .hint(format!("`eraseblock extract {path} DIR` copies everything out"))
}

/// Mounts the YAFFS2 on a flash for writing. Fails if it is a YAFFS1, or if it cannot be mounted.
#[cfg(feature = "edit")]
pub(super) fn mount(
    path: &Path,
    device: Arc<dyn Mtd>,
    layout: Option<Layout>,
    shape: &Shape,
) -> Result<(YaffsRw, Findings), Error> {
    let hints = hints(shape);
    let layout = match layout {
        Some(layout) => Some(layout),
        None => eraseblock_yaffs::detect(&Source::Device(Arc::clone(&device)), &hints)
            .map_err(YaffsError::from)?,
    };
    if layout.as_ref().is_some_and(|layout| layout.version == Version::Yaffs1) {
        return Err(refused(path, "a YAFFS1 can only be read"));
    }
    let open = OpenOptions { layout, hints, ..OpenOptions::default() };
    Ok(YaffsRw::mount(device, &RwOptions { open, ..RwOptions::default() })?)
}

/// Opens a raw dump for writing, with `size` bytes of flash, if given. Fails if its blocks are only a
/// guess, or if it is a part of the file.
#[cfg(feature = "edit")]
pub(super) fn dump(
    path: &Path,
    span: Option<Span>,
    shape: &Shape,
    size: Option<u64>,
) -> Result<(Arc<WritableDump>, Layout), Error> {
    if span.is_some_and(|span| !span.is_whole) {
        return Err(refused(path, "a YAFFS named by its offset can only be read"));
    }
    let source = Source::Image(Arc::new(File::open(path)?));
    let options = OpenOptions { hints: hints(shape), ..OpenOptions::default() };
    let (opened, _) = Yaffs::open(source, &options)?;
    let info = opened.info();
    let layout = info.layout.clone();
    // All blocks of an image that was built have the same number.
    if info.is_built() && shape.sizes.peb.is_none() {
        return Err(Error::usage("nothing in the image proves the size of an eraseblock")
            .hint(Setting::Peb.to("SIZE") + " states it, without the spare bytes"));
    }
    let peb = layout.page * layout.pages_per_block;
    let asked = size.map_or(Ok(0), |size| u32::try_from(size / u64::from(peb)));
    let asked = asked.map_err(|_| Error::usage(Setting::FlashSize + ": too large for YAFFS2"))?;
    if asked > 0 && asked < info.blocks {
        let stored = text::count(info.blocks.into(), "eraseblock", "eraseblocks");
        return Err(Error::usage(Setting::FlashSize + format!(": the image has {stored} already")));
    }
    let dump = DumpShape {
        page: layout.page,
        oob: layout.spare,
        pages: layout.pages_per_block,
        blocks: info.blocks.max(asked),
        marker: layout.marker().and_then(|byte| u32::try_from(byte).ok()),
    };
    let dump = WritableDump::open_undoable(path, dump, tempfile::tempfile()?)?;
    Ok((Arc::new(dump), layout))
}
