//! AXFS.

use super::{Extent, Fact, FactValue, Magic, Read, Reader};
use crate::error::Error;
use crate::target::Format;
use eraseblock_axfs::{Axfs, AxfsError, Info, Superblock};
use eraseblock_mtd::ReadAt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// AXFS.
#[derive(Debug)]
pub(super) struct AxfsReader;

impl Reader for AxfsReader {
    fn format(&self) -> Format {
        Format::Axfs
    }

    fn magics(&self) -> &'static [Magic] {
        &[Magic { bytes: b"\x48\xA0\xE4\xCDAdvanced XIP FS\0", at: 0 }]
    }

    fn probe(&self, image: &dyn ReadAt, offset: u64) -> io::Result<Option<Extent>> {
        match Superblock::read(image, offset) {
            Ok(superblock) => Ok(Some(Extent { length: superblock.image_size })),
            Err(AxfsError::Read { error, .. }) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(error)
            }
            // Opening says what is wrong. Elsewhere, it is more likely no superblock.
            Err(_) if offset == 0 => Ok(Some(Extent { length: image.size()? })),
            Err(_) => Ok(None),
        }
    }

    fn open(&self, image: Arc<dyn ReadAt>, _: Range<u64>) -> Result<Read, Error> {
        let (fs, findings) = Axfs::open(image)?;
        let facts = facts(&fs.info());
        Ok(Read { fs: Arc::new(fs), findings, facts })
    }
}

fn facts(info: &Info) -> Vec<Fact> {
    let number = |key, value| Fact { key, value: FactValue::Number(value) };
    let bytes = |key, value| Fact { key, value: FactValue::Bytes(value) };
    let superblock = &info.superblock;
    let [major, minor, sub] = superblock.version;
    vec![
        Fact { key: "version", value: FactValue::Text(format!("{major}.{minor}.{sub}")) },
        bytes("page_size", superblock.page_size.into()),
        bytes("cblock_size", superblock.cblock_size.into()),
        bytes("image_size", superblock.image_size),
        bytes("mmap_size", superblock.mmap_size),
        number("inodes", superblock.inodes.into()),
        number("xip_pages", info.xip_pages),
        number("compressed_pages", info.compressed_pages),
        number("byte_aligned_pages", info.byte_aligned_pages),
    ]
}
