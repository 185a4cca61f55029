//! YAFFS2 that is written to: on a flash, or in a raw dump of one.

use super::Shape;
use super::file_bytes;
use super::span::Span;
use super::yaffs::hints;
use crate::error::{Error, Setting};
use crate::text;
use eraseblock_base::Findings;
use eraseblock_mtd::{DumpShape, Mtd, WritableDump};
use eraseblock_yaffs::{
    Layout, OpenOptions, RwOptions, Source, Version, Yaffs, YaffsError, YaffsRw,
};
use std::path::Path;
use std::sync::Arc;

/// Why nothing is written to a YAFFS.
pub(super) fn only_read(path: &Path) -> Error {
    refused(path, "a YAFFS can only be read here")
}

fn refused(path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::new(format!("{path}: {why}"))
        .hint(format!("`eraseblock extract {path} DIR` copies everything out"))
}

/// Mounts the YAFFS2 on a flash for writing. Fails if it is a YAFFS1, or if it cannot be mounted.
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
pub(super) fn dump(
    path: &Path,
    span: Option<Span>,
    layout: Option<Layout>,
    shape: &Shape,
    size: Option<u64>,
) -> Result<(Arc<WritableDump>, Layout), Error> {
    if span.is_some_and(|span| !span.is_whole) {
        return Err(refused(path, "a YAFFS named by its offset can only be read"));
    }
    let source = Source::Image(file_bytes::open(path)?);
    let options = OpenOptions { layout, hints: hints(shape), ..OpenOptions::default() };
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
