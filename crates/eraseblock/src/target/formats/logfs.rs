//! LogFS.

use super::{Extent, Fact, FactValue, Magic, Read, Reader};
use crate::error::Error;
use crate::target::Format;
use eraseblock_logfs::{Info, Logfs, LogfsError, Superblock};
use eraseblock_mtd::ReadAt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// LogFS.
#[derive(Debug)]
pub(super) struct LogfsReader;

impl Reader for LogfsReader {
    fn format(&self) -> Format {
        Format::Logfs
    }

    fn magics(&self) -> &'static [Magic] {
        const BYTES: &[u8] = &eraseblock_logfs::MAGIC.to_be_bytes();
        &[Magic { bytes: BYTES, at: 24 }]
    }

    fn probe(&self, image: &dyn ReadAt, offset: u64) -> io::Result<Option<Extent>> {
        match Superblock::read(image, offset) {
            // The second copy of a superblock is not the start of another file system.
            Ok(superblock) if offset == 0 || superblock.has_journal(image, offset) => {
                Ok(Some(Extent { length: superblock.size }))
            }
            Err(LogfsError::Read { error, .. }) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(error)
            }
            // Opening looks for the second copy, and says what is wrong.
            Err(_) if offset == 0 => Ok(Some(Extent { length: image.size()? })),
            _ => Ok(None),
        }
    }

    fn counts_bad_blocks(&self) -> bool {
        true
    }

    fn open(&self, image: Arc<dyn ReadAt>, superblocks: Range<u64>) -> Result<Read, Error> {
        let (fs, findings) = Logfs::open_within(image, superblocks)?;
        let facts = facts(fs.info());
        Ok(Read { fs: Arc::new(fs), findings, facts })
    }
}

fn facts(info: &Info) -> Vec<Fact> {
    let bytes = |key, value| Fact { key, value: FactValue::Bytes(value) };
    let superblock = &info.superblock;
    vec![
        bytes("segment_size", superblock.segment_size.into()),
        bytes("write_size", superblock.write_size.into()),
        bytes("size", superblock.size),
        bytes("used", info.used_bytes),
        Fact { key: "journal_segments", value: FactValue::Number(superblock.journal.len() as u64) },
        Fact { key: "commit_at", value: FactValue::Number(info.commit) },
    ]
}
