//! SquashFS.

use super::{Extent, Fact, FactValue, Magic, Read, Reader};
use crate::error::Error;
use crate::target::Format;
use eraseblock_base::{ByteOrder, Findings};
use eraseblock_mtd::ReadAt;
use eraseblock_squashfs::{
    MAGIC_BIG, MAGIC_LITTLE, MAGICS_OF_VENDORS, Squashfs, SquashfsError, Superblock,
};
use std::io;
use std::ops::Range;
use std::sync::Arc;

static MAGICS: [Magic; 7] = [
    Magic { bytes: &MAGIC_LITTLE, at: 0 },
    Magic { bytes: &MAGIC_BIG, at: 0 },
    Magic { bytes: &MAGICS_OF_VENDORS[0], at: 0 },
    Magic { bytes: &MAGICS_OF_VENDORS[1], at: 0 },
    Magic { bytes: &MAGICS_OF_VENDORS[2], at: 0 },
    Magic { bytes: &MAGICS_OF_VENDORS[3], at: 0 },
    Magic { bytes: &MAGICS_OF_VENDORS[4], at: 0 },
];

/// SquashFS 4.0.
#[derive(Debug)]
pub(super) struct SquashfsReader;

impl Reader for SquashfsReader {
    fn format(&self) -> Format {
        Format::Squashfs
    }

    fn magics(&self) -> &'static [Magic] {
        &MAGICS
    }

    fn probe(&self, image: &dyn ReadAt, offset: u64) -> io::Result<Option<Extent>> {
        match Superblock::read(image, offset) {
            Ok(superblock) => Ok(Some(Extent { length: superblock.bytes_used })),
            // Opening says what is wrong. Elsewhere, it is more likely no superblock.
            Err(SquashfsError::CutShort { expected, .. }) if offset == 0 => {
                Ok(Some(Extent { length: expected }))
            }
            Err(SquashfsError::Version { found: (1..=3, _) }) if offset == 0 => {
                Ok(Some(Extent { length: image.size()? }))
            }
            Err(SquashfsError::Read(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn open(&self, image: Arc<dyn ReadAt>, _: Range<u64>) -> Result<Read, Error> {
        let fs = Squashfs::open(image)?;
        let facts = facts(fs.superblock(), fs.compression());
        Ok(Read { fs: Arc::new(fs), findings: Findings::new(), facts })
    }
}

fn facts(superblock: &Superblock, compression: String) -> Vec<Fact> {
    let text = |key, value: String| Fact { key, value: FactValue::Text(value) };
    let number = |key, value| Fact { key, value: FactValue::Number(value) };
    let bytes = |key, value| Fact { key, value: FactValue::Bytes(value) };
    let flags: Vec<&str> = superblock.flags.names().collect();
    let order = match superblock.order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    };
    vec![
        text("version", "4.0".to_owned()),
        text("byte_order", order.to_owned()),
        text("compressor", compression),
        bytes("block_size", superblock.block_size.into()),
        bytes("bytes_used", superblock.bytes_used),
        number("inodes", superblock.inodes.into()),
        number("fragments", superblock.fragments.into()),
        number("ids", superblock.ids.into()),
        Fact { key: "made", value: FactValue::Time(superblock.made.into()) },
        text("flags", flags.join(", ")),
    ]
}
