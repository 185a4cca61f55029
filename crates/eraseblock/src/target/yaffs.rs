//! YAFFS: raw dumps of a NAND with their spare bytes, recognised by the tags of their pages.

use super::filesystem::{self, Opened};
use super::{Format, Shape};
use crate::error::Error;
use eraseblock_yaffs::{Hints, Layout, OpenOptions, Source, Yaffs, YaffsError};
use std::path::{Path, PathBuf};

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

/// Opens a YAFFS, with its layout if that was detected already; `None` if the pages have no tags of one.
/// Fails if it cannot be read.
pub(super) fn open(
    path: &Path,
    source: Source,
    file_size: u64,
    layout: Option<Layout>,
    shape: &Shape,
) -> Result<Option<YaffsImage>, Error> {
    let options = OpenOptions { layout, hints: hints(shape), ..OpenOptions::default() };
    match Yaffs::open(source, &options) {
        Ok((yaffs, findings)) => {
            let opened = filesystem::of_yaffs(yaffs, findings);
            Ok(Some(YaffsImage { path: path.to_owned(), file_size, opened }))
        }
        Err(YaffsError::NotYaffs { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
