//! Object headers (spec: yaffs2 4).

use crate::constants::{HEADER_LEN, MAX_NAME_LEN, MAX_TARGET_LEN};
use crate::error::FormatError;
use alloc::vec::Vec;
use eraseblock_base::{ByteOrder, Location};

/// The type of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// Another name of an object.
    HardLink,
    /// A device node, a pipe or a socket.
    Special,
}

impl ObjectKind {
    const ALL: [Self; 5] =
        [Self::File, Self::Symlink, Self::Directory, Self::HardLink, Self::Special];

    /// Returns the type of a number, or `None` for an unknown one.
    pub fn from_number(number: u32) -> Option<Self> {
        let index = number.checked_sub(1)?;
        Self::ALL.get(index as usize).copied()
    }

    /// Returns the number that is stored.
    pub fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// An object header without its xattrs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Type.
    pub kind: ObjectKind,
    /// Number of the parent directory.
    pub parent: u32,
    /// Name, at most 255 bytes; empty if none is stored.
    pub name: Vec<u8>,
    /// POSIX mode; without type bits in some builds of the reference.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access, seconds since 1970.
    pub atime: u64,
    /// Last change of content, seconds since 1970.
    pub mtime: u64,
    /// Last change of the object, seconds since 1970.
    pub ctime: u64,
    /// Size of a file in bytes.
    pub size: u64,
    /// The object that a hard link names.
    pub equivalent: u32,
    /// Target of a symbolic link, at most 159 bytes.
    pub target: Vec<u8>,
    /// Device number as stored.
    pub rdev: u32,
    /// The object that this header replaces, or 0.
    pub shadows: u32,
    /// Whether older data beyond the size is void.
    pub is_shrink: bool,
}

/// Offsets of the fields.
mod at {
    pub(super) const KIND: usize = 0;
    pub(super) const PARENT: usize = 4;
    pub(super) const NAME: usize = 10;
    pub(super) const MODE: usize = 268;
    pub(super) const UID: usize = 272;
    pub(super) const GID: usize = 276;
    pub(super) const ATIME: usize = 280;
    pub(super) const MTIME: usize = 284;
    pub(super) const CTIME: usize = 288;
    pub(super) const SIZE_LOW: usize = 292;
    pub(super) const EQUIVALENT: usize = 296;
    pub(super) const TARGET: usize = 300;
    pub(super) const RDEV: usize = 460;
    pub(super) const CTIME_64: usize = 464;
    pub(super) const ATIME_64: usize = 472;
    pub(super) const MTIME_64: usize = 480;
    pub(super) const IN_BAND_SHADOWS: usize = 488;
    pub(super) const IN_BAND_SHRINK: usize = 492;
    pub(super) const SIZE_HIGH: usize = 496;
    pub(super) const SHADOWS: usize = 504;
    pub(super) const SHRINK: usize = 508;
}

/// A word that says that a field is not used.
const NONE: u32 = u32::MAX;

/// Returns the bytes before the first NUL.
fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|byte| *byte != 0).collect()
}

impl Header {
    /// Decodes the first 512 bytes of a header's chunk.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are too short, or if the type is unknown.
    pub fn decode(order: ByteOrder, bytes: &[u8], place: Location) -> Result<Self, FormatError> {
        const WHAT: &str = "object header";
        if bytes.len() < HEADER_LEN {
            let (found, expected) = (bytes.len() as u64, HEADER_LEN as u64);
            return Err(FormatError::Short { at: place, what: WHAT, found, expected });
        }
        let word = |offset| order.u32_at(bytes, offset);
        let kind = ObjectKind::from_number(word(at::KIND)).ok_or(FormatError::Field {
            at: place,
            what: WHAT,
            field: "type",
            found: word(at::KIND).into(),
            expected: "1 to 5",
        })?;
        let wide = |low: u32, high: u32| match high {
            NONE => u64::from(low),
            high => u64::from(high) << 32 | u64::from(low),
        };
        let time = |short, long: usize| match word(long + 4) {
            NONE => u64::from(word(short)),
            high => wide(word(long), high),
        };
        let is_file = kind == ObjectKind::File;
        let size = if is_file { wide(word(at::SIZE_LOW), word(at::SIZE_HIGH)) } else { 0 };
        Ok(Self {
            kind,
            parent: word(at::PARENT),
            name: text(&bytes[at::NAME..at::NAME + MAX_NAME_LEN]),
            mode: word(at::MODE),
            uid: word(at::UID),
            gid: word(at::GID),
            atime: time(at::ATIME, at::ATIME_64),
            mtime: time(at::MTIME, at::MTIME_64),
            ctime: time(at::CTIME, at::CTIME_64),
            size,
            equivalent: word(at::EQUIVALENT),
            target: text(&bytes[at::TARGET..at::TARGET + MAX_TARGET_LEN]),
            rdev: word(at::RDEV),
            shadows: Some(word(at::SHADOWS)).filter(|id| *id != NONE).unwrap_or(0),
            is_shrink: word(at::SHRINK) == 1,
        })
    }

    /// Returns the first 512 bytes of the header's chunk. A name beyond 255 bytes and a target
    /// beyond 159 are cut.
    pub fn encode(&self, order: ByteOrder) -> [u8; HEADER_LEN] {
        let mut out = [0xFF; HEADER_LEN];
        let mut word = |offset: usize, value: u32| {
            out[offset..offset + 4].copy_from_slice(&order.u32_bytes(value));
        };
        let halves = |value: u64| (value as u32, (value >> 32) as u32);
        word(at::KIND, self.kind.number());
        word(at::PARENT, self.parent);
        for (offset, value) in [(at::MODE, self.mode), (at::UID, self.uid), (at::GID, self.gid)] {
            word(offset, value);
        }
        let times = [
            (at::ATIME, at::ATIME_64, self.atime),
            (at::MTIME, at::MTIME_64, self.mtime),
            (at::CTIME, at::CTIME_64, self.ctime),
        ];
        for (short, long, time) in times {
            let (low, high) = halves(time);
            word(short, low);
            word(long, low);
            word(long + 4, high);
        }
        if self.kind == ObjectKind::File {
            let (low, high) = halves(self.size);
            word(at::SIZE_LOW, low);
            word(at::SIZE_HIGH, high);
        }
        if self.kind == ObjectKind::HardLink {
            word(at::EQUIVALENT, self.equivalent);
        }
        if self.kind == ObjectKind::Special {
            word(at::RDEV, self.rdev);
        }
        word(at::SHADOWS, self.shadows);
        word(at::SHRINK, self.is_shrink.into());
        word(at::IN_BAND_SHADOWS, self.shadows);
        word(at::IN_BAND_SHRINK, self.is_shrink.into());
        put_text(&mut out[at::NAME..=at::NAME + MAX_NAME_LEN], &self.name);
        if self.kind == ObjectKind::Symlink {
            put_text(&mut out[at::TARGET..=at::TARGET + MAX_TARGET_LEN], &self.target);
        }
        out
    }
}

/// Stores text with zeros after it, at least one.
fn put_text(field: &mut [u8], text: &[u8]) {
    let len = text.len().min(field.len() - 1);
    field[..len].copy_from_slice(&text[..len]);
    field[len..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn header(kind: ObjectKind) -> Header {
        Header {
            kind,
            parent: 1,
            name: b"a name".to_vec(),
            mode: 0o100_644,
            uid: 1000,
            gid: 100,
            atime: 1 << 33,
            mtime: 1_700_000_000,
            ctime: 5,
            size: 0,
            equivalent: NONE,
            target: Vec::new(),
            rdev: NONE,
            shadows: 0,
            is_shrink: false,
        }
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        let file = Header { size: 5 << 32 | 7, is_shrink: true, ..header(ObjectKind::File) };
        let link = Header { equivalent: 0x101, ..header(ObjectKind::HardLink) };
        let long = Header { name: vec![b'x'; 255], ..header(ObjectKind::Directory) };
        let symlink = Header { target: vec![b'y'; 159], ..header(ObjectKind::Symlink) };
        let device = Header { rdev: 0x0103, shadows: 0x102, ..header(ObjectKind::Special) };
        for header in [file, link, long, symlink, device] {
            for order in ByteOrder::ALL {
                let bytes = header.encode(order);
                let read = Header::decode(order, &bytes, Location::Whole).unwrap();
                // An empty target and a missing one are not distinguished.
                let target = if header.kind == ObjectKind::Symlink {
                    read.target.clone()
                } else {
                    Vec::new()
                };
                assert_eq!(Header { target, ..read }, header);
            }
        }
    }

    #[test]
    fn fields_of_older_writers_are_accepted() {
        let order = ByteOrder::Little;
        let mut bytes = Header { size: 9, ..header(ObjectKind::File) }.encode(order);
        // 32-bit times, no upper half of the size, no flags: what the image tool leaves.
        bytes[at::CTIME_64..].fill(0xFF);
        let read = Header::decode(order, &bytes, Location::Whole).unwrap();
        assert_eq!(
            (read.mtime, read.size, read.shadows, read.is_shrink),
            (1_700_000_000, 9, 0, false)
        );
        // A name may use its whole field.
        bytes[at::NAME..at::MODE].fill(b'n');
        let read = Header::decode(order, &bytes, Location::Whole).unwrap();
        assert_eq!(read.name, [b'n'; 255]);
    }

    #[test]
    fn other_bytes_are_refused_with_their_place() {
        let at = Location::Byte(7);
        let short = Header::decode(ByteOrder::Little, &[0; 511], at).unwrap_err();
        assert!(matches!(short, FormatError::Short { found: 511, .. }));
        for kind in [0, 6, NONE] {
            let mut bytes = header(ObjectKind::File).encode(ByteOrder::Little);
            bytes[..4].copy_from_slice(&kind.to_le_bytes());
            let wrong = Header::decode(ByteOrder::Little, &bytes, at).unwrap_err();
            assert!(alloc::format!("{wrong}").starts_with("byte 7: object header: type is 0x"));
        }
    }
}
