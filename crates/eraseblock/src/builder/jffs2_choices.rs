//! Options of a JFFS2 file system.

use super::source_choices::SourceOptions;
use crate::source::{Adjustments, Xattrs};
use eraseblock_base::size::parse_size;
use eraseblock_jffs2::mkfs::{CompressionMode, Compressor};
use eraseblock_jffs2_format::ByteOrder;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of a JFFS2 image; what is left out is chosen by the builder.
#[derive(Clone, Debug, Default)]
pub struct Jffs2Options {
    /// Byte order of the machine that will mount it
    pub byte_order: ByteOrder,
    /// End every full eraseblock with a list of its nodes: Linux mounts faster
    pub summary: bool,
    /// Length of the cleanmarkers that eraseblocks begin with, or none; 12 for NOR, none for NAND
    pub cleanmarker: Option<Marker>,
    /// Fill the last eraseblock up with erased bytes
    pub pad: bool,
    /// Fill up to this size, with cleanmarkers in the eraseblocks begun
    pub pad_to: Option<u64>,
    /// Most bytes of a file in one node: the page size of the machine that will mount it
    pub node_data: Option<u32>,
    /// How one of several compressors is chosen
    pub compression: CompressionMode,
    /// lzo, zlib or rtime, perhaps with a priority; may be repeated; zlib and rtime when left out
    pub compressor: Vec<CompressorRow>,
    /// How hard zlib tries
    pub zlib_level: Option<u8>,
    /// Make an image to be appended to this one: its names replace or join those at the top
    pub append_to: Option<PathBuf>,
    /// Changes to the source
    pub source: SourceOptions,
    /// Take away set-id bits and write permission of group and others
    pub squash_modes: bool,
}

impl Jffs2Options {
    /// Returns the changes to the source.
    pub fn adjustments(&self) -> Adjustments {
        Adjustments {
            squash_modes: self.squash_modes,
            table_wins: true,
            ..self.source.adjustments(Xattrs::All)
        }
    }
}

/// The length of a cleanmarker, 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker(pub u32);

impl FromStr for Marker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(0));
        }
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        let size = u32::try_from(bytes)
            .map_err(|_| format!("{bytes} bytes is too large: expected below 4 GiB"))?;
        Ok(Self(size))
    }
}

/// A compressor that is switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressorRow(pub Compressor, pub i32);

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
