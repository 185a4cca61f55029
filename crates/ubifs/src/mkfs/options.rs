//! Options of an image.

use super::error::MkfsError;
use eraseblock_ubifs_format::layout::LayoutOptions;
use eraseblock_ubifs_format::{Compression, KeyHash};
use std::num::NonZeroUsize;

/// The compression of file contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compressor {
    /// Not at all.
    None,
    /// LZO1X.
    Lzo,
    /// Deflate.
    Zlib,
    /// Zstandard.
    Zstd {
        /// 1 to 22; 3 is the common default.
        level: i32,
    },
    /// LZO1X, or deflate if it is better by this percentage.
    FavourLzo {
        /// 1 to 99; 20 is the common default.
        percent: u8,
    },
}

impl Compressor {
    /// Returns the compressor stored in inodes for data written later.
    pub const fn on_flash(self) -> Compression {
        match self {
            Self::None => Compression::None,
            Self::Lzo | Self::FavourLzo { .. } => Compression::Lzo,
            Self::Zlib => Compression::Zlib,
            Self::Zstd { .. } => Compression::Zstd,
        }
    }

    fn check(self) -> Result<(), MkfsError> {
        let refuse = |option, found, expected| Err(MkfsError::Option { option, found, expected });
        match self {
            Self::Zstd { level } if !(1..=22).contains(&level) => {
                refuse("zstd level", i64::from(level), "1 to 22")
            }
            Self::FavourLzo { percent } if !(1..=99).contains(&percent) => {
                refuse("favour percentage", i64::from(percent), "1 to 99")
            }
            _ => Ok(()),
        }
    }
}

/// A compressor for some of the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompressionRule {
    /// The files: `?` matches one byte of a name, `*` any bytes of a name, `**` any bytes of a
    /// path. A pattern with a slash is matched against the path from the root, otherwise against
    /// the name alone.
    pub pattern: Vec<u8>,
    /// Their compressor.
    pub compressor: Compressor,
}

impl CompressionRule {
    /// Returns whether the rule applies to the file at `path` (no leading slash).
    pub fn matches(&self, path: &[u8]) -> bool {
        if self.pattern.contains(&b'/') {
            let pattern = self.pattern.strip_prefix(b"/").unwrap_or(&self.pattern);
            return glob(pattern, path);
        }
        glob(&self.pattern, path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
    }
}

/// Returns whether `text` matches `pattern`, in time proportional to the product of their lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // reach[i]: the pattern so far can end before text[i].
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    let mut rest = pattern;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        let mut next = vec![false; text.len() + 1];
        if *byte == b'*' {
            let deep = rest.first() == Some(&b'*');
            while rest.first() == Some(&b'*') {
                rest = &rest[1..];
            }
            let mut open = false;
            for index in 0..=text.len() {
                open |= reach[index];
                next[index] = open;
                open &= deep || text.get(index) != Some(&b'/');
            }
        } else {
            for (index, found) in text.iter().enumerate() {
                let same = if *byte == b'?' { *found != b'/' } else { found == byte };
                next[index + 1] = reach[index] && same;
            }
        }
        reach = next;
    }
    reach[text.len()]
}

/// The format version to write (spec: ubifs-format 13).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FormatVersion {
    /// Version 4, supported by every Linux.
    #[default]
    V4,
    /// Version 5: entries carry cookies ("double hash"), derived from directory and name.
    V5,
}

/// Options of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkfsOptions {
    /// LEB size, areas, journal, reserved pool.
    pub layout: LayoutOptions,
    /// Compressor of files without a rule.
    pub compressor: Compressor,
    /// Compressors of some files; the first matching rule applies.
    pub rules: Vec<CompressionRule>,
    /// The hash function of names.
    pub key_hash: KeyHash,
    /// Whether Linux shall rewrite free space at the first writable mount.
    pub space_fixup: bool,
    /// Format version.
    pub version: FormatVersion,
    /// The volume's UUID; derived from the content by default.
    pub uuid: Option<[u8; 16]>,
    /// Owner of the reserved pool.
    pub reserved_uid: u32,
    /// Group of the reserved pool.
    pub reserved_gid: u32,
    /// Number of worker threads that read and compress; by default the number of processors.
    pub threads: Option<NonZeroUsize>,
}

impl MkfsOptions {
    /// Returns the defaults for a volume of this shape: LZO, fanout 8, format version 4.
    pub const fn new(leb_size: u32, min_io: u32, max_leb_cnt: u32) -> Self {
        Self {
            layout: LayoutOptions::new(leb_size, min_io, max_leb_cnt),
            compressor: Compressor::Lzo,
            rules: Vec::new(),
            key_hash: KeyHash::R5,
            space_fixup: false,
            version: FormatVersion::V4,
            uuid: None,
            reserved_uid: 0,
            reserved_gid: 0,
            threads: None,
        }
    }

    /// Checks everything outside the layout.
    pub(super) fn check(&self) -> Result<(), MkfsError> {
        self.compressor.check()?;
        self.rules.iter().try_for_each(|rule| rule.compressor.check())
    }

    /// Returns the compressor of the file at `path`; `asked` is its compression flag.
    pub(super) fn compressor_for(&self, path: &[u8], asked: bool) -> Compressor {
        match self.rules.iter().find(|rule| rule.matches(path)) {
            Some(rule) => rule.compressor,
            None if asked && self.compressor == Compressor::None => Compressor::Lzo,
            None => self.compressor,
        }
    }

    pub(super) fn threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(available, NonZeroUsize::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_paths() {
        let matches = |pattern: &[u8], path: &[u8]| {
            CompressionRule { pattern: pattern.to_vec(), compressor: Compressor::None }
                .matches(path)
        };
        assert!(matches(b"*.gz", b"usr/share/a.gz"));
        assert!(!matches(b"*.gz", b"usr/share/a.gz/b"));
        assert!(matches(b"/boot/*", b"boot/vmlinuz"));
        assert!(!matches(b"/boot/*", b"boot/grub/x"));
        assert!(matches(b"/boot/**", b"boot/grub/x"));
        assert!(matches(b"usr/**/*.py?", b"usr/lib/python/a.pyc"));
        assert!(!matches(b"usr/?/a", b"usr//a"));
        assert!(matches(b"**", b""));
        assert!(!matches(b"", b"a"));
    }

    #[test]
    fn the_first_matching_rule_counts() {
        let mut options = MkfsOptions::new(15360, 512, 60);
        let rule =
            |pattern: &[u8], compressor| CompressionRule { pattern: pattern.into(), compressor };
        options.rules = vec![rule(b"*.gz", Compressor::None), rule(b"/a/**", Compressor::Zlib)];
        assert_eq!(options.compressor_for(b"a/b.gz", false), Compressor::None);
        assert_eq!(options.compressor_for(b"a/b", false), Compressor::Zlib);
        assert_eq!(options.compressor_for(b"b", false), Compressor::Lzo);
        options.compressor = Compressor::None;
        assert_eq!(options.compressor_for(b"b", true), Compressor::Lzo);
        options.compressor = Compressor::Zstd { level: 0 };
        assert!(matches!(options.check(), Err(MkfsError::Option { option: "zstd level", .. })));
        options.compressor = Compressor::FavourLzo { percent: 100 };
        assert!(options.check().is_err());
    }
}
