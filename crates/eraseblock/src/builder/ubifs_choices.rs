//! Options of a UBIFS file system, as in a layout file.

use super::source_choices::SourceOptions;
use crate::source::{Adjustments, Xattrs};
use eraseblock_base::size::parse_size;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// Options of a UBIFS image; what is left out is chosen by the builder.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct UbifsOptions {
    /// Most logical eraseblocks the file system may grow to; of the whole flash when left out
    pub max_lebs: Option<u32>,
    /// `lzo`, `zlib`, `zstd[:LEVEL]`, `none`, or `favor-lzo[:PERCENT]`
    pub compressor: Option<CompressorChoice>,
    /// Another compressor for the files whose path fits a pattern; may be repeated, the first that fits counts
    pub compress_path: Vec<CompressRule>,
    /// Fanout of the index tree
    pub fanout: Option<u32>,
    /// Size of the journal
    #[serde(deserialize_with = "optional_size")]
    pub journal: Option<u64>,
    /// Space only the super-user may use
    #[serde(deserialize_with = "optional_size")]
    pub reserved: Option<u64>,
    /// Eraseblocks for the log
    pub log_lebs: Option<u32>,
    /// Eraseblocks for orphans
    pub orphan_lebs: Option<u32>,
    /// How names become keys
    pub key_hash: Option<KeyHashChoice>,
    /// Have Linux fix up the free space on the first mount
    pub space_fixup: bool,
    /// On-flash format: 4 or 5
    pub format_version: Option<u32>,
    /// UUID of the file system; made from its content when left out
    pub uuid: Option<UuidChoice>,
    /// Changes to the source
    #[serde(flatten)]
    pub source: SourceOptions,
    /// Take extended attributes along (this is what happens anyway)
    pub xattrs: bool,
}

impl UbifsOptions {
    /// Returns the changes to the source.
    pub fn adjustments(&self) -> Adjustments {
        self.source.adjustments(Xattrs::All)
    }
}

/// A compressor with what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompressorChoice {
    /// LZO.
    Lzo,
    /// zlib (raw deflate).
    Zlib,
    /// zstd, with a level or the default one.
    Zstd(Option<i32>),
    /// No compression.
    None,
    /// LZO, and zlib where it is better by this many percent.
    FavorLzo(u32),
}

impl FromStr for CompressorChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        match (name.replace('_', "-").as_str(), parameter) {
            ("lzo", None) => Ok(Self::Lzo),
            ("zlib", None) => Ok(Self::Zlib),
            ("none", None) => Ok(Self::None),
            ("zstd", None) => Ok(Self::Zstd(None)),
            ("zstd", Some(level)) => Ok(Self::Zstd(Some(within(level, 1, 22)?))),
            ("favor-lzo", None) => Ok(Self::FavorLzo(20)),
            ("favor-lzo", Some(percent)) => {
                let percent = within(percent, 1, 99)?;
                Ok(Self::FavorLzo(percent.unsigned_abs()))
            }
            _ => Err(format!(
                "`{text}` is not a compressor: expected lzo, zlib, zstd[:LEVEL], none or favor-lzo[:PERCENT]"
            )),
        }
    }
}

fn within(text: &str, low: i32, high: i32) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from {low} to {high}"))
}

/// Files whose path fits get a compressor of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompressRule {
    /// Pattern with `*`, `**` and `?`.
    pub pattern: String,
    /// The compressor.
    pub compressor: CompressorChoice,
}

impl FromStr for CompressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pattern, compressor) =
            text.rsplit_once('=').ok_or_else(|| format!("`{text}` is not GLOB=COMPRESSOR"))?;
        Ok(Self { pattern: pattern.to_owned(), compressor: compressor.parse()? })
    }
}

/// How names become keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHashChoice {
    /// What Linux uses.
    R5,
    /// For testing.
    Test,
}

/// A UUID: 32 hexadecimal digits, dashes anywhere between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UuidChoice(pub [u8; 16]);

impl FromStr for UuidChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("`{text}` is not a UUID: expected 32 hexadecimal digits");
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| *c != '-')
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()
            .ok_or_else(fail)?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair[0] << 4 | pair[pair.len() - 1]).collect();
        if digits.len() != 32 {
            return Err(fail());
        }
        Ok(Self(bytes.try_into().map_err(|_| fail())?))
    }
}

macro_rules! deserialize_from_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
deserialize_from_text!(CompressorChoice, CompressRule, UuidChoice);

/// A size in a layout file: a number of bytes, or a text with a unit. Fails if it is neither.
pub fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of bytes, or a text such as \"128KiB\"")]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Bytes(bytes) => Ok(Some(bytes)),
        Size::Text(text) => parse_size(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_in_all_spellings() {
        assert_eq!("zstd:19".parse(), Ok(CompressorChoice::Zstd(Some(19))));
        assert_eq!("favor_lzo".parse(), Ok(CompressorChoice::FavorLzo(20)));
        assert_eq!("favor-lzo:5".parse(), Ok(CompressorChoice::FavorLzo(5)));
        for text in ["lzo:1", "zstd:99", "gzip", ""] {
            assert!(text.parse::<CompressorChoice>().is_err(), "{text}");
        }
        let rule: CompressRule = "usr/**/*.so=none".parse().unwrap();
        assert_eq!(
            (rule.pattern.as_str(), rule.compressor),
            ("usr/**/*.so", CompressorChoice::None)
        );
        assert!("usr".parse::<CompressRule>().is_err());
    }

    #[test]
    fn uuids_are_hexadecimal() {
        let uuid: UuidChoice = "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap();
        assert_eq!(uuid.0[..3], [0, 0x11, 0x22]);
        assert_eq!(uuid.0[15], 0xff);
        for text in
            ["", "0", "001122334455667788990011223344556", "zz112233445566778899aabbccddeeff"]
        {
            assert!(text.parse::<UuidChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn layout_files_write_them_without_dashes() {
        let text = "compressor = 'zlib'\njournal = '1MiB'\nreserved = 4096\nmap-uid = ['5:0']";
        let options: UbifsOptions = toml::from_str(text).unwrap();
        assert_eq!(options.compressor, Some(CompressorChoice::Zlib));
        assert_eq!((options.journal, options.reserved), (Some(1 << 20), Some(4096)));
        assert!(toml::from_str::<UbifsOptions>("compresor = 'zlib'").is_err());
    }
}
