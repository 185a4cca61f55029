//! Properties of a target that the caller states, instead of the detected ones.

use crate::text;
use eraseblock_jffs2_format::ByteOrder;
use std::ffi::OsString;
use std::str::FromStr;

/// A target, with its format and sizes.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `FILE[@OFFSET[+LENGTH]][:VOLUME]`.
    pub target: OsString,
    /// How to look at it.
    pub shape: Shape,
}

/// The format and sizes of a target, instead of the detected ones.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// What the target is.
    pub format: Option<Format>,
    /// Size of a logical eraseblock, for a bare UBIFS image.
    pub leb: Option<u32>,
    /// Where the first eraseblock of a JFFS2 begins in the file.
    pub start: Option<u64>,
    /// Byte order of a JFFS2 or YAFFS.
    pub byte_order: Option<ByteOrder>,
    /// The sizes of the flash.
    pub sizes: Sizes,
    /// A state of the past, instead of the present one.
    pub as_of: Option<AsOf>,
}

/// A state of the past of a UBIFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsOf {
    /// As this commit left it.
    Commit(u64),
    /// As the last commit left it that ended before this sequence number was given.
    Sqnum(u64),
    /// As the last commit left it whose changes all have this time, in seconds since 1970, or an earlier one.
    Time(i64),
}

impl FromStr for AsOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(seconds) = text::seconds(text) {
            return Ok(Self::Time(seconds));
        }
        let expected = || {
            format!(
                "`{text}` is neither commit:NUMBER nor sqnum:NUMBER nor a time as 2026-03-01T12:00Z"
            )
        };
        let (kind, number) = text.split_once(':').ok_or_else(expected)?;
        let number = number.parse().map_err(|_| expected())?;
        match kind {
            "commit" => Ok(Self::Commit(number)),
            "sqnum" => Ok(Self::Sqnum(number)),
            _ => Err(expected()),
        }
    }
}

/// Sizes of a flash, instead of the detected ones.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Size of a physical eraseblock.
    pub peb: Option<u32>,
    /// Size of a page: the smallest unit that can be programmed.
    pub page: Option<u32>,
    /// Size of a sub-page: the unit of UBI headers.
    pub subpage: Option<u32>,
    /// Offset of the volume identifier header in an eraseblock.
    pub vid_offset: Option<u32>,
    /// End marks do not count, as for Linux.
    pub ignore_end_marks: bool,
}

/// The formats that are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Format {
    /// A UBI image.
    Ubi,
    /// A bare UBIFS image.
    Ubifs,
    /// A JFFS2 image.
    Jffs2,
    /// A raw dump of a YAFFS1 or YAFFS2.
    Yaffs,
    /// An AXFS image; the feature `axfs` reads it.
    Axfs,
    /// A LogFS image; the feature `logfs` reads it.
    Logfs,
    /// A SquashFS image; the feature `squashfs` reads it.
    Squashfs,
}

impl Format {
    /// Returns what people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ubi => "UBI",
            Self::Ubifs => "UBIFS",
            Self::Jffs2 => "JFFS2",
            Self::Yaffs => "YAFFS",
            Self::Axfs => "AXFS",
            Self::Logfs => "LogFS",
            Self::Squashfs => "SquashFS",
        }
    }
}

/// How a flash is opened.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each of them is independent
pub struct FlashOptions {
    /// `FILE[@OFFSET[+LENGTH]][:VOLUME]`.
    pub target: OsString,
    /// Eraseblocks of the flash that an image file is made for: the file grows to that.
    pub blocks: Option<u32>,
    /// The same in bytes.
    pub flash_size: Option<u64>,
    /// The size of the flash is said in bytes, not in blocks: hints name that option.
    pub size_in_bytes: bool,
    /// An image file is taken as it is: nothing in it says how large its flash is.
    pub as_it_is: bool,
    /// Leave a fastmap on the flash; without this, one that is found is removed.
    pub fastmap: bool,
    /// Continue where Linux would refuse the device.
    pub force: bool,
    /// Write although an unknown internal volume demands a read-only device, if everything else on
    /// flash is in order.
    pub force_rw: bool,
    /// Its sizes.
    pub sizes: Sizes,
}
