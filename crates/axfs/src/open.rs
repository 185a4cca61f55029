//! Opening an image.

use crate::codes;
use crate::error::AxfsError;
use crate::pages::{PageKind, Pages};
use crate::superblock::{MAGIC, Superblock};
use crate::table::Loader;
use crate::tree::Inodes;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::ReadAt;
use std::sync::Arc;

/// The version that the known writer states.
const VERSION_MAJOR: u8 = 2;

/// An opened image.
#[derive(Debug)]
pub struct Axfs {
    pub(crate) superblock: Superblock,
    pub(crate) inodes: Inodes,
    pub(crate) pages: Pages,
}

/// What an image contains.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The superblock.
    pub superblock: Superblock,
    /// Pages stored as they are, on page boundaries.
    pub xip_pages: u64,
    /// Pages in compressed blocks.
    pub compressed_pages: u64,
    /// Pages stored as they are, anywhere.
    pub byte_aligned_pages: u64,
}

impl Axfs {
    /// Opens the image that begins at byte 0, without writing. Bytes after the image do not matter.
    ///
    /// # Errors
    ///
    /// Fails if the superblock or a table is not valid or cannot be read. Damage of single directories
    /// and names is a finding.
    #[expect(clippy::needless_pass_by_value, reason = "what is opened keeps the image")]
    pub fn open(image: Arc<dyn ReadAt>) -> Result<(Self, Findings), AxfsError> {
        let failed = |error| AxfsError::Read { what: "image", offset: 0, error };
        let size = image.size().map_err(failed)?;
        let superblock = Superblock::read(image.as_ref(), 0)?;
        let mut findings = Findings::new();
        check(image.as_ref(), &superblock, size, &mut findings);
        let mut loader = Loader::new(image.as_ref(), &superblock, size);
        let inodes = Inodes::load(&mut loader, &superblock, &mut findings)?;
        let pages = Pages::load(Arc::clone(&image), &mut loader, &superblock)?;
        Ok((Self { superblock, inodes, pages }, findings))
    }

    /// Returns what the image contains.
    pub fn info(&self) -> Info {
        let count = |kind| self.pages.count_of(kind, self.superblock.nodes);
        Info {
            superblock: self.superblock.clone(),
            xip_pages: count(PageKind::Xip),
            compressed_pages: count(PageKind::Compressed),
            byte_aligned_pages: count(PageKind::ByteAligned),
        }
    }
}

/// Checks what opening does not depend on.
fn check(image: &dyn ReadAt, superblock: &Superblock, size: u64, findings: &mut Findings) {
    let [major, minor, sub] = superblock.version;
    if major != VERSION_MAJOR {
        let message = format!("version {major}.{minor}.{sub}, expected 2");
        findings.warn(Location::Whole, codes::VERSION, message);
    }
    let end = superblock.image_size;
    if end > size {
        let what =
            AxfsError::Missing { what: "the image", end, size, mmap_size: superblock.mmap_size };
        findings.error(Location::Whole, codes::TRUNCATED, what.to_string());
        return;
    }
    let mut magic = [0; 4];
    let start = end.saturating_sub(4);
    let is_there = image.read_exact_at(&mut magic, start).is_ok();
    if !is_there || magic != MAGIC.to_be_bytes() {
        let found = u32::from_be_bytes(magic);
        let message = format!(
            "magic number {found:#010x} at the end of the image, expected {MAGIC:#010x}; Linux does \
             not mount it"
        );
        findings.warn(Location::Byte(start), codes::END_MAGIC, message);
    }
}
