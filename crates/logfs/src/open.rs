//! Opening an image.

use crate::cache::Cache;
use crate::codes;
use crate::dir::Hidden;
use crate::error::LogfsError;
use crate::journal::{self, Aliases};
use crate::medium::Medium;
use crate::object::Position;
use crate::raw::RawDynamic;
use crate::superblock::Superblock;
use crate::tree::{INODE_FILE, Inode, Root};
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::ReadAt;
use std::ops::Range;
use std::sync::Arc;

/// An opened image.
#[derive(Debug)]
pub struct Logfs {
    pub(crate) info: Info,
    pub(crate) medium: Medium,
    pub(crate) aliases: Aliases,
    pub(crate) dynamic: Option<RawDynamic>,
    pub(crate) inode_file: Root,
    pub(crate) hidden: Hidden,
    pub(crate) inodes: Cache<u64, Inode>,
    pub(crate) blocks: Cache<(Position, u64), Vec<u64>>,
}

/// What an image contains.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The superblock.
    pub superblock: Superblock,
    /// Where the commit is that describes the state.
    pub commit: u64,
    /// Bytes in use.
    pub used_bytes: u64,
}

impl Logfs {
    /// Opens the image that begins at byte 0, without writing, as its newest commit describes it. Reads
    /// all directories.
    ///
    /// # Errors
    ///
    /// Fails if neither superblock or no commit is valid, and if the journal cannot be read. What else
    /// is damaged is a finding, or an error of those who read it.
    pub fn open(image: Arc<dyn ReadAt>) -> Result<(Self, Findings), LogfsError> {
        let size = size(image.as_ref())?;
        Self::open_within(image, 0..size)
    }

    /// The same for an image of a flash whose good blocks begin and end at these bytes: its superblocks
    /// are in the first and the last of them.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::open`] does.
    #[expect(clippy::needless_pass_by_value, reason = "what is opened keeps the image")]
    pub fn open_within(
        image: Arc<dyn ReadAt>,
        good: Range<u64>,
    ) -> Result<(Self, Findings), LogfsError> {
        let mut findings = Findings::new();
        let size = size(image.as_ref())?;
        let superblock = superblock(image.as_ref(), good, &mut findings)?;
        if superblock.size > size {
            let message =
                format!("{size} bytes of a file system of {} bytes are there", superblock.size);
            findings.error(Location::Whole, codes::TRUNCATED, message);
        }
        let commit = journal::newest(&image, &superblock, &mut findings)?;
        let anchor = &commit.anchor;
        let used_bytes = match &commit.dynamic {
            Some(state) => state.used_bytes.get(),
            None => anchor.used_bytes.get(),
        };
        let mut fs = Self {
            info: Info { superblock, commit: commit.offset, used_bytes },
            inode_file: Root::new(INODE_FILE, anchor.height, &anchor.pointers),
            medium: commit.medium,
            aliases: commit.aliases,
            dynamic: commit.dynamic,
            hidden: Hidden::default(),
            inodes: Cache::default(),
            blocks: Cache::default(),
        };
        fs.scan(&mut findings);
        Ok((fs, findings))
    }

    /// Returns what the image contains.
    pub fn info(&self) -> &Info {
        &self.info
    }
}

fn size(image: &dyn ReadAt) -> Result<u64, LogfsError> {
    image.size().map_err(|error| LogfsError::Read { what: "image", offset: 0, error })
}

/// Returns the first valid superblock.
fn superblock(
    image: &dyn ReadAt,
    good: Range<u64>,
    findings: &mut Findings,
) -> Result<Superblock, LogfsError> {
    let first = match Superblock::read(image, good.start) {
        Ok(superblock) => return Ok(superblock),
        Err(error) => error,
    };
    for place in Superblock::places(good.end) {
        if let Ok(superblock) = Superblock::read(image, place) {
            let message = format!("{first}; the one at byte {place} is used");
            findings.warn(Location::Byte(good.start), codes::SUPERBLOCK, message);
            return Ok(superblock);
        }
    }
    Err(LogfsError::NotLogfs(Box::new(first)))
}
