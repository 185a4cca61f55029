//! The layout file: one TOML document that declares a whole UBI image (docs/layout-file.md).
//!
//! Paths in it are relative to the folder of the file.

use super::squashfs::SquashfsOptions;
use crate::builder::ubifs_choices::{UbifsOptions, optional_size};
use crate::error::Error;
use crate::medium::FlashChoice;
use serde::Deserialize;
use std::path::PathBuf;

/// The document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Layout {
    /// The flash the image is for.
    pub(super) flash: FlashTable,
    /// Headers of the image.
    #[serde(default)]
    pub(super) image: ImageTable,
    /// The volumes, in the order in which they are written.
    #[serde(rename = "volume")]
    pub(super) volumes: Vec<VolumeTable>,
}

/// `[flash]`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct FlashTable {
    /// A part of the database.
    pub(super) part: Option<String>,
    #[serde(deserialize_with = "optional_size")]
    peb: Option<u64>,
    #[serde(deserialize_with = "optional_size")]
    page: Option<u64>,
    #[serde(deserialize_with = "optional_size")]
    subpage: Option<u64>,
    /// Blocks of the partition UBI gets; the whole chip when left out.
    pub(super) blocks: Option<u32>,
}

/// `[image]`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct ImageTable {
    /// Image sequence number; made from the content when left out.
    pub(super) image_seq: Option<u32>,
    /// Erase counter put into the EC headers.
    pub(super) ec: u64,
    /// Offset of the VID header.
    pub(super) vid_offset: Option<u32>,
    /// Write a fastmap, so that the first attach need not scan the flash.
    pub(super) fastmap: bool,
}

/// `[[volume]]`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct VolumeTable {
    /// The name.
    pub(super) name: String,
    /// The number; the smallest free one when left out.
    pub(super) id: Option<u32>,
    /// Dynamic or static.
    #[serde(default, rename = "type")]
    pub(super) kind: VolumeType,
    /// The size; as large as the content when left out.
    #[serde(default, deserialize_with = "optional_size")]
    pub(super) size: Option<u64>,
    /// Alignment of the eraseblock size.
    #[serde(default = "one")]
    pub(super) alignment: u32,
    /// Flags.
    #[serde(default)]
    pub(super) flags: Vec<VolumeFlag>,
    #[serde(default)]
    content: Option<toml::Table>,
}

fn one() -> u32 {
    1
}

/// Dynamic or static.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VolumeType {
    /// Read-write.
    #[default]
    Dynamic,
    /// Written once, guarded by checksums.
    Static,
}

/// Flags of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VolumeFlag {
    /// Grows over the free space on the first attach.
    Autoresize,
    /// Not checked when it is opened.
    SkipCheck,
}

/// What goes into a volume.
#[derive(Debug)]
pub(super) enum Content {
    /// Nothing.
    Empty,
    /// A file as it is.
    File(PathBuf),
    /// A UBIFS made from a folder or an archive.
    Ubifs(PathBuf, Box<UbifsOptions>),
    /// A SquashFS made from a folder.
    Squashfs(PathBuf, SquashfsOptions),
}

impl Layout {
    /// Parses a document; errors name line and column.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let layout: Self = toml::from_str(text)
            .map_err(|error| Error::new(error.to_string().trim_end().to_owned()))?;
        if layout.volumes.is_empty() {
            return Err(Error::new("there is no volume").hint("[[volume]] begins one"));
        }
        Ok(layout)
    }
}

impl FlashTable {
    /// The flash meant.
    pub(super) fn choice(&self) -> Result<FlashChoice, Error> {
        let narrow = |size: Option<u64>| match size.map(u32::try_from) {
            None => Ok(None),
            Some(Ok(size)) => Ok(Some(size)),
            Some(Err(_)) => Err(Error::new("[flash]: a size is above 4 GiB")),
        };
        Ok(FlashChoice {
            flash: self.part.clone(),
            peb: narrow(self.peb)?,
            page: narrow(self.page)?,
            subpage: narrow(self.subpage)?,
        })
    }
}

impl VolumeTable {
    /// What goes into it.
    pub(super) fn content(&self) -> Result<Content, Error> {
        let Some(table) = &self.content else {
            return Ok(Content::Empty);
        };
        let mut table = table.clone();
        let mut path = |key: &str| match table.remove(key) {
            None => Ok(None),
            Some(toml::Value::String(path)) => Ok(Some(PathBuf::from(path))),
            Some(_) => Err(self.refuse(&format!("content: `{key}` is not a text"))),
        };
        let sources = (path("ubifs")?, path("squashfs")?, path("file")?);
        let wrong = |error: toml::de::Error| self.refuse(&format!("content: {}", error.message()));
        let is_without_options = table.is_empty();
        let table = toml::Value::Table(table);
        match sources {
            (Some(source), None, None) => {
                let options = UbifsOptions::deserialize(table).map_err(wrong)?;
                Ok(Content::Ubifs(source, Box::new(options)))
            }
            (None, Some(source), None) => {
                let options = SquashfsOptions::deserialize(table).map_err(wrong)?;
                Ok(Content::Squashfs(source, options))
            }
            (None, None, Some(file)) if is_without_options => Ok(Content::File(file)),
            (None, None, Some(_)) => Err(self.refuse("content: a file takes no further options")),
            _ => {
                Err(self.refuse("content: expected exactly one of `ubifs`, `squashfs` and `file`"))
            }
        }
    }

    /// An error about this volume.
    pub(super) fn refuse(&self, why: &str) -> Error {
        Error::new(format!("volume `{}`: {why}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: &str = "[flash]\npart = 'W25N01GV'\n";

    fn volume(content: &str) -> Result<Content, Error> {
        let text = format!("{FLASH}[[volume]]\nname = 'a'\n{content}");
        Layout::parse(&text)?.volumes[0].content()
    }

    #[test]
    fn a_volume_has_one_content() {
        assert!(matches!(volume("").unwrap(), Content::Empty));
        assert!(matches!(volume("content = { file = 'x' }").unwrap(), Content::File(_)));
        let content = volume("content = { ubifs = 'x', compressor = 'zstd:3' }").unwrap();
        assert!(matches!(content, Content::Ubifs(..)));
        let content =
            volume("content = { squashfs = 'x', compressor = 'xz', block-size = '1MiB' }");
        assert!(matches!(content.unwrap(), Content::Squashfs(..)));
        for (content, message) in [
            ("content = { }", "exactly one"),
            ("content = { file = 'x', ubifs = 'y' }", "exactly one"),
            ("content = { file = 'x', fanout = 8 }", "no further options"),
            ("content = { file = 3 }", "not a text"),
            ("content = { ubifs = 'x', compresor = 'lzo' }", "compresor"),
            ("content = { ubifs = 'x', compressor = 'gzip' }", "not a compressor"),
            ("content = { squashfs = 'x', file = 'y' }", "exactly one"),
            ("content = { squashfs = 'x', compressor = 'none' }", "unknown variant"),
            ("content = { squashfs = 'x', devtable = 'y' }", "devtable"),
        ] {
            let error = volume(content).unwrap_err();
            assert!(error.message().contains(message), "{content}: {}", error.message());
        }
    }

    #[test]
    fn mistakes_are_located() {
        let error = Layout::parse("[flash]\npart = 'x'\nblocs = 3\n").unwrap_err();
        assert!(error.message().contains("line 3"), "{}", error.message());
        assert!(Layout::parse(&format!("{FLASH}volume = []")).is_err());
    }
}
