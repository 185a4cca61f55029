//! YAFFS: raw dumps of a NAND with their spare bytes, recognised by the tags of their pages.

use super::filesystem::{self, Opened};
use super::{Format, Shape};
use crate::error::Error;
use eraseblock_mtd::{Mtd, ReadAt};
use eraseblock_yaffs::{Hints, OpenOptions, Source, Yaffs, YaffsError};
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

pub(super) fn hints(shape: &Shape) -> Hints {
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
