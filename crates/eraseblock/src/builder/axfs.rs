//! Making an AXFS.

use super::source_choices::SourceOptions;
use crate::error::{Context, Error};
use crate::observe::Observer;
use crate::source::{Adjustments, Xattrs};
use crate::text;
use eraseblock_axfs::mkfs::{self, MkfsOptions, MkfsReport};
use eraseblock_base::size::format_size;
use eraseblock_vfs::SourceTree;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Options of an AXFS image.
#[derive(Clone, Debug, Default)]
pub struct AxfsOptions {
    /// Paths in the image of files to be executed in place.
    pub xip: Vec<Vec<u8>>,
    /// A file with more of them, one a line; empty lines and those that begin with `#` do not count.
    pub xip_list: Option<PathBuf>,
    /// Time of all files, in seconds since 1970.
    pub time: u64,
    /// Changes to the source.
    pub source: SourceOptions,
}

impl AxfsOptions {
    /// Returns the changes to the source.
    pub fn adjustments(&self) -> Adjustments {
        self.source.adjustments(Xattrs::All)
    }
}

/// The builder's options. Fails if the list of files cannot be read.
pub fn options(choices: &AxfsOptions) -> Result<MkfsOptions, Error> {
    let mut xip = choices.xip.clone();
    if let Some(path) = &choices.xip_list {
        let list = std::fs::read(path).context(path.display())?;
        let lines = list.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let paths = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        xip.extend(paths.map(<[u8]>::to_vec));
    }
    Ok(MkfsOptions { xip, time: choices.time })
}

/// Builds the image into `out`, with a progress bar. Fails if the content cannot be stored or read, or
/// if the output fails.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut dyn Write,
    observer: &dyn Observer,
) -> Result<MkfsReport, Error> {
    let bar = observer.progress(tree.content_bytes(), "content");
    Ok(mkfs::build(tree, options, out, &|bytes| bar.advance(bytes))?)
}

/// What was built, as JSON and in one line.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// Inodes; each name has its own.
    pub inodes: u32,
    /// Bytes of regular files.
    pub content_bytes: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Pages stored for execution in place.
    pub xip_pages: u64,
    /// Compressed pages.
    pub compressed_pages: u64,
    /// Other pages.
    pub byte_aligned_pages: u64,
    /// Further names of files, whose content is stored again.
    pub copies: u32,
    /// Extended attributes that AXFS cannot store.
    pub xattrs_left_out: u64,
}

impl Summary {
    /// The summary of a report.
    pub fn of(report: &MkfsReport) -> Self {
        Self {
            inodes: report.inodes,
            content_bytes: report.content_bytes,
            image_bytes: report.image_bytes,
            xip_pages: report.xip_pages,
            compressed_pages: report.compressed_pages,
            byte_aligned_pages: report.byte_aligned_pages,
            copies: report.copies,
            xattrs_left_out: report.xattrs_left_out,
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let mut parts = vec![
            text::count(u64::from(self.inodes), "inode", "inodes"),
            format!("{} of content", format_size(self.content_bytes)),
            format_size(self.image_bytes),
            format!("{} executed in place", text::count(self.xip_pages, "page", "pages")),
        ];
        if self.copies > 0 {
            let copies = text::count(u64::from(self.copies), "hard link", "hard links");
            parts.push(format!("{copies} stored as copies"));
        }
        if self.xattrs_left_out > 0 {
            let names = ("extended attribute", "extended attributes");
            let left_out = text::count(self.xattrs_left_out, names.0, names.1);
            parts.push(format!("{left_out} left out"));
        }
        parts.join(", ")
    }
}
