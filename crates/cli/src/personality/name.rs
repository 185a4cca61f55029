//! The names of the classic tools and of the readers, and the exit codes of their failures.

use std::ffi::OsStr;

/// A classic tool, or one of the readers that programs for firmware analysis start by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Personality {
    /// fsck.jffs2
    FsckJffs2,
    /// fsck.ubifs(8)
    FsckUbifs,
    /// jefferson
    Jefferson,
    /// mkfs.jffs2(1)
    MkfsJffs2,
    /// mkfs.ubifs(8)
    MkfsUbifs,
    /// sumtool(1)
    Sumtool,
    /// ubinize(8)
    Ubinize,
    /// ubireader_extract_files
    UbireaderFiles,
    /// ubireader_extract_images
    UbireaderImages,
}

/// The exit code of the classic tools for everything that goes wrong.
const CLASSIC_FAILURE: u8 = 255;

impl Personality {
    /// The tools that make and repair images.
    pub(crate) const CLASSIC: [Self; 6] = [
        Self::FsckJffs2,
        Self::FsckUbifs,
        Self::MkfsJffs2,
        Self::MkfsUbifs,
        Self::Sumtool,
        Self::Ubinize,
    ];
    /// The tools that take them apart.
    pub(crate) const READERS: [Self; 3] =
        [Self::Jefferson, Self::UbireaderFiles, Self::UbireaderImages];

    /// Returns the tool of this name.
    pub(crate) fn by_name(name: &OsStr) -> Option<Self> {
        let mut all = Self::CLASSIC.into_iter().chain(Self::READERS);
        all.find(|one| name == one.name())
    }

    /// What the program is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FsckJffs2 => "fsck.jffs2",
            Self::FsckUbifs => "fsck.ubifs",
            Self::Jefferson => "jefferson",
            Self::UbireaderFiles => "ubireader_extract_files",
            Self::UbireaderImages => "ubireader_extract_images",
            Self::MkfsJffs2 => "mkfs.jffs2",
            Self::MkfsUbifs => "mkfs.ubifs",
            Self::Sumtool => "sumtool",
            Self::Ubinize => "ubinize",
        }
    }

    /// The exit code for a command line that cannot be understood.
    pub(super) fn usage_failure(self) -> u8 {
        match self {
            Self::FsckJffs2 | Self::FsckUbifs => 16,
            Self::MkfsJffs2 | Self::Sumtool => 1,
            Self::MkfsUbifs | Self::Ubinize => CLASSIC_FAILURE,
            Self::Jefferson | Self::UbireaderFiles | Self::UbireaderImages => 2,
        }
    }

    /// The exit code for everything else that goes wrong.
    pub(super) fn failure(self) -> u8 {
        match self {
            Self::FsckJffs2 | Self::FsckUbifs => 8,
            _ if Self::READERS.contains(&self) => 1,
            _ => CLASSIC_FAILURE,
        }
    }
}
