//! Options of a JFFS2 file system.

use super::source::SourceArgs;
use super::{Endian, size32, size64};
use clap::{Args, ValueEnum};
use eraseblock::builder::jffs2_choices::{CompressorRow, Jffs2Options, Marker};
use eraseblock::raw::jffs2::mkfs::CompressionMode;
use std::path::PathBuf;

/// Options of a JFFS2 image; what is left out is chosen by the builder.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Jffs2OptionArgs {
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
    pub source: SourceArgs,
    /// Take away set-id bits and write permission of group and others
    #[arg(long, help_heading = "File system")]
    pub squash_modes: bool,
}

impl Jffs2OptionArgs {
    /// The same for the library.
    pub(crate) fn choices(&self) -> Jffs2Options {
        Jffs2Options {
            byte_order: self.byte_order.unwrap_or(Endian::Little).into(),
            summary: self.summary,
            cleanmarker: self.cleanmarker,
            pad: self.pad,
            pad_to: self.pad_to,
            node_data: self.node_data,
            compression: match self.compression {
                None | Some(ModeChoice::Priority) => CompressionMode::Priority,
                Some(ModeChoice::Size) => CompressionMode::Size,
                Some(ModeChoice::FavourLzo) => CompressionMode::FavourLzo,
                Some(ModeChoice::None) => CompressionMode::None,
            },
            compressor: self.compressor.clone(),
            zlib_level: self.zlib_level,
            append_to: self.append_to.clone(),
            source: self.source.choices(),
            squash_modes: self.squash_modes,
        }
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
