//! Makes an AXFS image from a source tree, in process and without privileges (spec: readonly-formats
//! B.2 to B.5).
//!
//! As in the images of the historical tool, each page is compressed on its own, a page that does not
//! get smaller is stored as it is, and metadata is not compressed. The pages of chosen files are stored as
//! they are on page boundaries, for execution in place; a short last page of them is byte-aligned.
//!
//! # Invariants
//! 1. The same tree and options give the same bytes.
//! 2. Memory grows with the number of pages, not with their bytes: contents are read once to learn how
//!    long each page becomes, and again for each region that they have pages in.

mod error;
mod plan;
mod write;

pub use error::{MkfsError, NodeProblem};

use eraseblock_vfs::source::SourceTree;
use plan::Plan;
use std::io::Write;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// How an image is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MkfsOptions {
    /// Paths of the files that are stored for execution in place, with or without a leading slash.
    pub xip: Vec<Vec<u8>>,
    /// Time of all files, in seconds since 1970.
    pub time: u64,
}

/// The result of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MkfsReport {
    /// Bytes of the image, with the zeros after it.
    pub image_bytes: u64,
    /// Inodes; each name has its own.
    pub inodes: u32,
    /// Bytes of all files.
    pub content_bytes: u64,
    /// Pages stored for execution in place.
    pub xip_pages: u64,
    /// Compressed pages.
    pub compressed_pages: u64,
    /// Other pages.
    pub byte_aligned_pages: u64,
    /// Further names of files, whose content is stored again.
    pub copies: u32,
    /// Xattrs that AXFS cannot store.
    pub xattrs_left_out: u64,
}

/// Builds the image of `tree` into `out`. `advance` hears of every page that is done, in bytes.
///
/// # Errors
///
/// Fails before anything is written if tree or options cannot be represented or a file cannot be read.
/// After any other failure, the bytes written so far are not an image.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut dyn Write,
    advance: &dyn Fn(u64),
) -> Result<MkfsReport, MkfsError> {
    let plan = Plan::new(tree, options, advance)?;
    write::image(&plan, options, out)
}
