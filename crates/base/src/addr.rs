//! Addresses. Each has its own type, so that a physical eraseblock number cannot be used as a
//! logical one. Only meaningful arithmetic is offered.

use core::fmt;

/// Number of a physical eraseblock (PEB): one erase unit of the flash device, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Peb(u32);

/// Number of a logical eraseblock (LEB) within a volume, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Leb(u32);

/// Identifier of a UBI volume; internal volumes start at 0x7FFF_EFFF (spec: ubi 6.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct VolumeId(u32);

macro_rules! coordinate {
    ($name:ident, $prefix:literal) => {
        impl $name {
            /// Creates the address from its number.
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Returns the number.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Returns the number, for indexing a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the next number, or `None` at the end of the range.
            pub fn next(self) -> Option<Self> {
                self.0.checked_add(1).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, " {}"), self.0)
            }
        }
    };
}

coordinate!(Peb, "peb");
coordinate!(Leb, "leb");
coordinate!(VolumeId, "volume");

/// Where a finding or error occurred. Prints compactly, as in `leb 12:4096` or `peb 7:512`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Location {
    /// The image, device or file system as a whole.
    Whole,
    /// A byte offset in an image or other file.
    Byte(u64),
    /// A byte offset inside a physical eraseblock.
    Peb(Peb, u32),
    /// A byte offset inside a logical eraseblock of the current volume.
    Leb(Leb, u32),
    /// A byte offset inside a logical eraseblock of a named volume.
    VolumeLeb(VolumeId, Leb, u32),
    /// A volume as a whole.
    Volume(VolumeId),
    /// An inode of the current file system.
    Inode(u64),
}

impl Location {
    /// Returns the start of a physical eraseblock.
    pub const fn peb(peb: Peb) -> Self {
        Self::Peb(peb, 0)
    }

    /// Returns the start of a logical eraseblock.
    pub const fn leb(leb: Leb) -> Self {
        Self::Leb(leb, 0)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "image"),
            Self::Byte(offset) => write!(f, "byte {offset}"),
            Self::Peb(peb, offset) => write!(f, "peb {peb}:{offset}"),
            Self::Leb(leb, offset) => write!(f, "leb {leb}:{offset}"),
            Self::VolumeLeb(volume, leb, offset) => {
                write!(f, "volume {volume} leb {leb}:{offset}")
            }
            Self::Volume(volume) => write!(f, "volume {volume}"),
            Self::Inode(ino) => write!(f, "inode {ino}"),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Location {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_print_compactly() {
        assert_eq!(Location::Leb(Leb::new(12), 4096).to_string(), "leb 12:4096");
        assert_eq!(Location::peb(Peb::new(7)).to_string(), "peb 7:0");
        assert_eq!(format!("{:?}", Peb::new(3)), "peb 3");
    }
}
