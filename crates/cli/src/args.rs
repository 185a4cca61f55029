//! The argument groups that several sub-commands share.

pub(crate) mod axfs;
pub(crate) mod flash;
pub(crate) mod jffs2;
pub(crate) mod source;
pub(crate) mod ubifs;
pub(crate) mod yaffs2;

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use eraseblock::Kind;
use eraseblock::raw::base::size::parse_size;
use eraseblock::raw::jffs2_format::ByteOrder;
use eraseblock::target::{AsOf, FlashOptions, Shape, Sizes, Wanted};
use std::ffi::OsString;

/// A target and, optionally, its format and sizes.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// Image file, chip file or device; after an `@`, where in a file the image begins; after a
    /// colon, the UBI volume by name or number
    #[arg(value_name = "TARGET[@OFFSET][:VOLUME]")]
    pub target: OsString,
    /// How to look at it.
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// A flash that is written to.
#[derive(Clone, Debug, Args)]
pub(crate) struct FlashTargetArgs {
    /// Chip file, image file, /dev/mtdX or block device, and the UBI volume on it where one is meant
    #[arg(value_name = "TARGET")]
    pub target: OsString,
    /// Eraseblocks of the flash that an image file is made for: the file grows to that
    #[arg(long, value_name = "NUMBER")]
    pub blocks: Option<u32>,
    /// Leave a fastmap on the flash, so that the next attach need not scan it; without this, one
    /// that is found is removed
    #[arg(long)]
    pub fastmap: bool,
    /// Continue where Linux would refuse the device
    #[arg(long)]
    pub force: bool,
    /// Write although an unknown internal volume demands a read-only device, if everything else on
    /// flash is in order
    #[arg(long)]
    pub force_rw: bool,
    /// Its sizes.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

impl TargetArgs {
    /// The same for the library.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { target: self.target.clone(), shape: self.shape.shape() }
    }
}

/// A state of the past.
#[derive(Clone, Debug, Args)]
pub(crate) struct PastArgs {
    /// Show the file system as a commit of the past left it: commit:NUMBER; sqnum:NUMBER for the last
    /// commit that ended before a sequence number; or a time, 2026-03-01T12:00Z, for the last commit
    /// whose changes end by then; `eraseblock history` lists the commits
    #[arg(long, value_name = "STATE")]
    pub as_of: Option<AsOf>,
}

impl PastArgs {
    /// The target in this state.
    pub(crate) fn of(&self, target: &TargetArgs) -> Wanted {
        let mut wanted = target.wanted();
        wanted.shape.as_of = self.as_of;
        wanted
    }

    /// Fails if changes of a past state are asked for.
    pub(crate) fn refuse_changes(&self, rw: bool) -> Result<(), Failure> {
        match self.as_of {
            Some(_) if rw => Err(Failure::usage("--as-of: a state of the past cannot be changed")
                .hint("without --rw it is read")),
            _ => Ok(()),
        }
    }
}

/// The format and sizes of a target, instead of the detected ones.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShapeArgs {
    /// What the target is
    #[arg(long, help_heading = "Instead of detection", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Size of a logical eraseblock, for a bare UBIFS image
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub leb: Option<u32>,
    /// Where the first eraseblock of a JFFS2 begins in the file
    #[arg(long, help_heading = "Instead of detection", value_name = "OFFSET", value_parser = size64)]
    pub start: Option<u64>,
    /// Byte order of a JFFS2 or YAFFS
    #[arg(long, help_heading = "Instead of detection", value_name = "ORDER")]
    pub byte_order: Option<Endian>,
    /// The sizes of the flash.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

impl FlashTargetArgs {
    /// The same for the library.
    pub(crate) fn options(&self) -> FlashOptions {
        FlashOptions {
            target: self.target.clone(),
            blocks: self.blocks,
            fastmap: self.fastmap,
            force: self.force,
            force_rw: self.force_rw,
            sizes: self.sizes.sizes(),
            ..FlashOptions::default()
        }
    }
}

impl ShapeArgs {
    /// The same for the library.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            format: self.format.map(|format| match format {
                Format::Ubi => Kind::Ubi,
                Format::Ubifs => Kind::Ubifs,
                Format::Jffs2 => Kind::Jffs2,
                Format::Yaffs => Kind::Yaffs,
                Format::Axfs => Kind::Axfs,
                Format::Logfs => Kind::Logfs,
                Format::Squashfs => Kind::Squashfs,
            }),
            leb: self.leb,
            start: self.start,
            byte_order: self.byte_order.map(ByteOrder::from),
            sizes: self.sizes.sizes(),
            as_of: None,
        }
    }
}

impl SizeArgs {
    fn sizes(&self) -> Sizes {
        let Self { peb, page, subpage, vid_offset } = *self;
        Sizes { peb, page, subpage, vid_offset, ..Sizes::default() }
    }
}

impl From<Endian> for ByteOrder {
    fn from(order: Endian) -> Self {
        match order {
            Endian::Little => Self::Little,
            Endian::Big => Self::Big,
        }
    }
}

/// A byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Endian {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

/// Sizes of a flash, instead of the detected ones.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SizeArgs {
    /// Size of a physical eraseblock
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub peb: Option<u32>,
    /// Size of a page: the smallest unit that can be programmed
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub page: Option<u32>,
    /// Size of a sub-page: the unit of UBI headers
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub subpage: Option<u32>,
    /// Offset of the volume identifier header in an eraseblock
    #[arg(long, help_heading = "Instead of detection", value_name = "OFFSET", value_parser = size32)]
    pub vid_offset: Option<u32>,
}

/// What a target can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// A UBI image.
    Ubi,
    /// A bare UBIFS image.
    Ubifs,
    /// A JFFS2 image.
    Jffs2,
    /// A raw dump of a YAFFS1 or YAFFS2.
    #[value(alias = "yaffs1", alias = "yaffs2")]
    Yaffs,
    /// An AXFS image.
    Axfs,
    /// A LogFS image.
    Logfs,
    /// A SquashFS image.
    Squashfs,
}

/// Parses a size below 4 GiB.
pub(crate) fn size32(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes is too large: expected below 4 GiB"))
}

/// Parses a size of any magnitude.
pub(crate) fn size64(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// A path inside an image, as the bytes the user typed.
pub(crate) fn path_bytes(path: &OsString) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_limits() {
        assert_eq!(size32("128KiB"), Ok(131_072));
        assert!(size32("4GiB").unwrap_err().contains("too large"));
        assert!(size32("x").is_err());
    }
}
