//! How a JFFS2 file system is to be made.

use super::source::SourceOptions;
use super::{Endian, size32, size64};
use crate::source::{Adjustments, Xattrs};
use clap::{Args, ValueEnum};
use eraseblock_jffs2::mkfs::Compressor;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of a JFFS2 image; what is left out is chosen by the builder.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Jffs2Options {
    /// Byte order of the machine that will mount it
    #[arg(long, help_heading = "File system", value_name = "ORDER", default_value = "little")]
    pub byte_order: Option<Endian>,
    /// End every full eraseblock with a list of its nodes: Linux mounts faster
    #[arg(long, help_heading = "File system")]
    pub summary: bool,
    /// Length of the cleanmarkers that eraseblocks begin with, or none; 12 for NOR, none for NAND
    #[arg(long, help_heading = "File system", value_name = "LENGTH")]
    pub cleanmarker: Option<Marker>,
    /// Fill the last eraseblock up with erased bytes
    #[arg(long, help_heading = "File system")]
    pub pad: bool,
    /// Fill up to this size, with cleanmarkers in the eraseblocks begun
    #[arg(long, help_heading = "File system", value_name = "SIZE", value_parser = size64)]
    pub pad_to: Option<u64>,
    /// Most bytes of a file in one node: the page size of the machine that will mount it
    #[arg(long, help_heading = "File system", value_name = "SIZE", value_parser = size32)]
    pub node_data: Option<u32>,
    /// How one of several compressors is chosen
    #[arg(long, help_heading = "File system", value_name = "MODE")]
    pub compression: Option<ModeChoice>,
    /// lzo, zlib or rtime, perhaps with a priority; may be repeated; zlib and rtime when left out
    #[arg(long, help_heading = "File system", value_name = "NAME[:PRIORITY]")]
    pub compressor: Vec<CompressorRow>,
    /// How hard zlib tries
    #[arg(long, help_heading = "File system", value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(1..=12))]
    pub zlib_level: Option<u8>,
    /// Make an image to be appended to this one: its names replace or join those at the top
    #[arg(long, help_heading = "File system", value_name = "IMAGE")]
    pub append_to: Option<PathBuf>,
    #[command(flatten)]
    pub source: SourceOptions,
    /// Take away set-id bits and write permission of group and others
    #[arg(long, help_heading = "File system")]
    pub squash_modes: bool,
}

impl Jffs2Options {
    /// What is to be changed about the source.
    pub(crate) fn adjustments(&self) -> Adjustments {
        Adjustments {
            squash_modes: self.squash_modes,
            table_wins: true,
            ..self.source.adjustments(Xattrs::All)
        }
    }
}

/// The length of a cleanmarker, 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marker(pub u32);

impl FromStr for Marker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self(0)) } else { size32(text).map(Self) }
    }
}

/// How one of several compressors is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ModeChoice {
    /// The first that makes a page smaller, by falling priority.
    Priority,
    /// The smallest result.
    Size,
    /// The smallest result, but LZO's unless another is a fifth smaller.
    FavourLzo,
    /// No compression.
    None,
}

/// A compressor that is switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CompressorRow(pub Compressor, pub i32);

impl FromStr for CompressorRow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, priority) = match text.split_once(':') {
            Some((name, priority)) => (name, Some(priority)),
            None => (text, None),
        };
        let wrong =
            || format!("`{text}` is not a compressor: expected lzo, zlib or rtime[:PRIORITY]");
        let one = Compressor::by_name(name).ok_or_else(wrong)?;
        let priority = match priority {
            Some(number) => number.parse().map_err(|_| wrong())?,
            None => one.usual_priority(),
        };
        Ok(Self(one, priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_may_have_a_priority() {
        assert_eq!("lzo".parse(), Ok(CompressorRow(Compressor::Lzo, 80)));
        assert_eq!("rtime:99".parse(), Ok(CompressorRow(Compressor::Rtime, 99)));
        for text in ["zstd", "lzo:x", "", ":5"] {
            assert!(text.parse::<CompressorRow>().is_err(), "{text}");
        }
        assert_eq!("none".parse(), Ok(Marker(0)));
        assert_eq!("16".parse(), Ok(Marker(16)));
        assert!("x".parse::<Marker>().is_err());
    }
}
