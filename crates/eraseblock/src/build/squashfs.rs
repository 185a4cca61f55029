//! A SquashFS as the content of a volume, made by `mksquashfs`.
//!
//! The program compresses in parallel, with the same result each time. Nothing of the format is special
//! to flash, so this library has no writer of its own.

use crate::error::{Context, Error};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::NamedTempFile;

/// How to make a SquashFS: the further keys of its content.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct SquashfsOptions {
    /// The compressor, by the name that `mksquashfs` gives it; its default if left out.
    compressor: Option<Compressor>,
    /// Bytes in a block: a power of two from 4 KiB to 1 MiB; 128 KiB if left out.
    #[serde(deserialize_with = "crate::builder::ubifs_choices::optional_size")]
    block_size: Option<u64>,
    /// Everything belongs to user 0 and group 0.
    squash_owner: bool,
    /// Extended attributes are left out.
    no_xattrs: bool,
}

/// A compressor of SquashFS 4.0.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Compressor {
    Gzip,
    Lzma,
    Lzo,
    Lz4,
    Xz,
    Zstd,
}

impl Compressor {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lzma => "lzma",
            Self::Lzo => "lzo",
            Self::Lz4 => "lz4",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

/// Makes a SquashFS from a folder, without the image that is about to be written. Fails if `mksquashfs` is not installed or refuses; the message
/// contains what it said.
pub(super) fn make(
    folder: &Path,
    options: &SquashfsOptions,
    output: &Path,
) -> Result<NamedTempFile, Error> {
    if !std::fs::metadata(folder).context(folder.display())?.is_dir() {
        return Err(Error::new(format!("{}: not a directory", folder.display()))
            .hint("`mksquashfs` makes a SquashFS from a directory"));
    }
    let made = NamedTempFile::new()?;
    let mut command = Command::new("mksquashfs");
    command.arg(folder).arg(made.path()).args(arguments(options));
    if std::env::var_os("SOURCE_DATE_EPOCH").is_some_and(|text| text.is_empty()) {
        command.env_remove("SOURCE_DATE_EPOCH");
    }
    if let Ok(output) = output.canonicalize() {
        // The last option: it takes all words that follow.
        command.arg("-e").arg(output);
    }
    let done = command.stdin(Stdio::null()).output().map_err(|error| {
        Error::new(format!("mksquashfs: {error}"))
            .hint("install squashfs-tools, or give a finished image as `file`")
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(Error::new(format!("mksquashfs: {}: {}", done.status, said.trim())));
    }
    Ok(made)
}

/// The options of `mksquashfs`. An image has the time 0, so that the same folder gives the same bytes.
fn arguments(options: &SquashfsOptions) -> Vec<String> {
    let mut words = vec!["-noappend", "-no-progress", "-quiet"];
    // The program itself respects SOURCE_DATE_EPOCH, and refuses both.
    if std::env::var_os("SOURCE_DATE_EPOCH").is_none_or(|text| text.is_empty()) {
        words.extend(["-mkfs-time", "0"]);
    }
    if options.squash_owner {
        words.push("-all-root");
    }
    if options.no_xattrs {
        words.push("-no-xattrs");
    }
    if let Some(compressor) = options.compressor {
        words.extend(["-comp", compressor.name()]);
    }
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if let Some(size) = options.block_size {
        words.extend(["-b".to_owned(), size.to_string()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn is_installed() -> bool {
        Command::new("mksquashfs").arg("-version").output().is_ok()
    }

    #[test]
    fn the_same_folder_gives_the_same_bytes_without_the_old_image() {
        if !is_installed() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"content").unwrap();
        let options =
            SquashfsOptions { compressor: Some(Compressor::Xz), ..SquashfsOptions::default() };
        let output = folder.path().join("old.ubi");
        let bytes = || fs::read(make(folder.path(), &options, &output).unwrap().path()).unwrap();
        let modified = fs::metadata(folder.path()).unwrap().modified().unwrap();
        let first = bytes();
        fs::write(&output, b"an image of the last build").unwrap();
        fs::File::open(folder.path()).unwrap().set_modified(modified).unwrap();
        assert!(first == bytes());
    }

    #[test]
    fn what_mksquashfs_refuses_is_refused_with_its_words() {
        if !is_installed() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let options = SquashfsOptions { block_size: Some(5000), ..SquashfsOptions::default() };
        let error = make(folder.path(), &options, Path::new("none")).unwrap_err();
        assert!(error.message().contains("block size"), "{}", error.message());
        let file = folder.path().join("file");
        fs::write(&file, b"no folder").unwrap();
        let error = make(&file, &options, Path::new("none")).unwrap_err();
        assert!(error.message().contains("not a directory"), "{}", error.message());
    }
}
