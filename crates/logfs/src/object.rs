//! Objects of the store (spec: readonly-formats A.6).

use crate::error::LogfsError;
use crate::journal::Aliases;
use crate::medium::Medium;
use crate::raw::{RawDentry, RawInode, RawObjectHeader};
use eraseblock_base::crc::crc32;
use eraseblock_base::raw::Raw;
use eraseblock_codec::zlib;
use eraseblock_mtd::Window;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Content, or pointers.
    Block = 4,
    /// An inode.
    Inode = 5,
    /// An entry of a directory.
    Dentry = 6,
}

impl Kind {
    fn len(self) -> usize {
        match self {
            Self::Block => BLOCK,
            Self::Inode => RawInode::SIZE,
            Self::Dentry => RawDentry::SIZE,
        }
    }
}

/// Which object is at a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Position {
    pub(crate) ino: u64,
    pub(crate) bix: u64,
    /// 0 = data; the low 9 bits of the position for each level do not count.
    pub(crate) level: u8,
}

/// Reads the object that a pointer says is at an offset, with newer pointers put in. `ahead` bytes are
/// read at once for the objects that follow.
pub(crate) fn read(
    medium: &Medium,
    aliases: &Aliases,
    window: &mut Window,
    offset: u64,
    (kind, at, ahead): (Kind, Position, usize),
) -> Result<Vec<u8>, LogfsError> {
    let mut header = [0; RawObjectHeader::SIZE];
    let failed = |error| LogfsError::Read { what: "object", offset, error };
    let whole = ahead.max(RawObjectHeader::SIZE + kind.len());
    window.read(medium, offset, whole, &mut header).map_err(failed)?;
    let raw = RawObjectHeader::get(&header);
    check(&raw, &header, offset, kind, at)?;
    let mut stored = vec![0; usize::from(raw.len.get())];
    let start = offset.saturating_add(RawObjectHeader::SIZE as u64);
    window.read(medium, start, whole, &mut stored).map_err(failed)?;
    let (crc, computed) = (raw.data_crc.get(), crc32(&stored));
    if crc != computed {
        return Err(LogfsError::Crc { what: "object payload", offset, stored: crc, computed });
    }
    let mut payload = inflate("object", raw.compression, &stored, kind.len(), offset)?;
    aliases.apply(at, &mut payload);
    Ok(payload)
}

/// Checks that a header is valid and that of the object.
fn check(
    raw: &RawObjectHeader,
    bytes: &[u8],
    offset: u64,
    kind: Kind,
    at: Position,
) -> Result<(), LogfsError> {
    let (stored, computed) = (raw.crc.get(), crc32(&bytes[4..24]));
    if stored != computed {
        return Err(LogfsError::Crc { what: "object header", offset, stored, computed });
    }
    let shift = 9 * u32::from(at.level);
    let group = |bix: u64| bix.checked_shr(shift).unwrap_or(0);
    let len = u64::from(raw.len.get());
    let checks = [
        ("object type", u64::from(raw.kind), kind as u64),
        ("object inode", raw.ino.get(), at.ino),
        ("object position", group(raw.bix.get()), group(at.bix)),
        ("object length", len, len.min(kind.len() as u64)),
    ];
    for (field, found, expected) in checks {
        if found != expected {
            let expected = expected.to_string();
            return Err(LogfsError::Field { field, offset, found, expected });
        }
    }
    Ok(())
}

/// Returns the `len` bytes that a stored payload stands for.
pub(crate) fn inflate(
    what: &'static str,
    compression: u8,
    stored: &[u8],
    len: usize,
    offset: u64,
) -> Result<Vec<u8>, LogfsError> {
    let wrong = |field, found: usize, expected: String| LogfsError::Field {
        field,
        offset,
        found: found as u64,
        expected,
    };
    match compression {
        0 if stored.len() == len => Ok(stored.to_vec()),
        0 => Err(wrong("stored length", stored.len(), len.to_string())),
        1 => {
            let mut bytes = vec![0; len];
            let found = zlib::decompress_checked(stored, &mut bytes)
                .map_err(|error| LogfsError::Stream { what, offset, error })?;
            if found != len {
                return Err(wrong("length after decompression", found, len.to_string()));
            }
            Ok(bytes)
        }
        other => Err(wrong("compression", other.into(), "0 (none) or 1 (zlib)".to_owned())),
    }
}
