//! Making a JFFS2.

use super::jffs2_choices::Jffs2Options;
use crate::error::{Context, Error};
use crate::observe::{Meter, Observer};
use crate::text;
use eraseblock_base::size::format_size;
use eraseblock_jffs2::mkfs::{
    self, MkfsError, MkfsOptions, MkfsReport, NodeProblem, Padding, Progress,
};
use eraseblock_jffs2::{Highest, Jffs2, OpenOptions, Source};
use eraseblock_vfs::SourceTree;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The page size of nearly every Linux: larger nodes get lost there.
const USUAL_PAGE: u32 = 4096;

/// The builder's options for eraseblocks of this size. `cleanmarker` is the usual length on the
/// flash, `limit` what the flash holds. Fails if the choices contradict each other.
pub fn options(
    block_size: u32,
    cleanmarker: u32,
    limit: Option<u64>,
    choices: &Jffs2Options,
) -> Result<MkfsOptions, Error> {
    let mut options = MkfsOptions::new(block_size);
    // What is to fill a partition must fit into it.
    let whole = |size: u64| size.next_multiple_of(block_size.max(1).into());
    options.limit = limit.into_iter().chain(choices.pad_to.map(whole)).min();
    options.cleanmarker = choices.cleanmarker.map_or(cleanmarker, |marker| marker.0);
    options.order = choices.byte_order;
    options.summary = choices.summary;
    options.padding = match (choices.pad_to, choices.pad) {
        (Some(size), _) => Padding::Size(size),
        (None, true) => Padding::Block,
        (None, false) => Padding::None,
    };
    options.page_size = choices.node_data.unwrap_or(options.page_size);
    let compression = &mut options.compression;
    compression.mode = choices.compression;
    if !choices.compressor.is_empty() {
        compression.compressors = choices.compressor.iter().map(|row| (row.0, row.1)).collect();
    }
    compression.zlib_level = choices.zlib_level.unwrap_or(compression.zlib_level);
    options.base = choices.append_to.as_deref().map(highest).transpose()?;
    Ok(options)
}

/// The highest numbers in the image at `path`. Fails if the image cannot be read or holds no JFFS2.
pub fn highest(path: &Path) -> Result<Highest, Error> {
    let file = File::open(path).context(path.display())?;
    let opened = Jffs2::open(Source::Image(Arc::new(file)), &OpenOptions::default());
    let (jffs2, _) = opened.context(path.display())?;
    Ok(jffs2.info().highest)
}

/// Builds the image into `out`, with a progress bar. Fails if the content does not fit or cannot be
/// read, or if the output fails.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut (dyn Write + Send),
    observer: &dyn Observer,
) -> Result<MkfsReport, Error> {
    if options.page_size > USUAL_PAGE {
        observer.remark(&format!(
            "note: nodes with up to {} bytes of data; Linux with pages of {USUAL_PAGE} bytes reads \
             them but loses their content when it moves them",
            options.page_size
        ));
    }
    let bar = Bar(observer.progress(0, "content"));
    let report = mkfs::build(tree, options, out, &bar);
    drop(bar);
    report.map_err(|error| {
        let hint = match &error {
            MkfsError::Node { problem: NodeProblem::Owner(..), .. } => {
                Some("JFFS2 has owners of 16 bits; the options that squash or map owners help")
            }
            MkfsError::Node {
                problem: NodeProblem::AttributeName(_) | NodeProblem::AttributeValue(..),
                ..
            } => Some("an image without extended attributes can be made"),
            _ => None,
        };
        let failure = Error::from(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

struct Bar(Box<dyn Meter>);

impl Progress for Bar {
    fn total(&self, bytes: u64) {
        self.0.total(bytes);
    }

    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }
}

/// What was built, as JSON and in one line.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// Inodes.
    pub inodes: u64,
    /// Names, those of further links included.
    pub names: u64,
    /// Bytes of regular files, holes left out.
    pub content_bytes: u64,
    /// Bytes of the same in the image, compressed.
    pub stored_bytes: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Eraseblocks of the image.
    pub blocks: u32,
    /// Eraseblocks that end with a summary.
    pub summaries: u64,
    /// Nodes with attributes or data.
    pub inode_nodes: u64,
    /// The highest inode number.
    pub highest_ino: u32,
}

impl Summary {
    /// The summary of a report.
    pub fn of(report: &MkfsReport) -> Self {
        Self {
            inodes: report.inodes,
            names: report.names,
            content_bytes: report.content_bytes,
            stored_bytes: report.stored_bytes,
            image_bytes: report.image_bytes,
            blocks: report.blocks,
            summaries: report.nodes.summaries,
            inode_nodes: report.nodes.inodes,
            highest_ino: report.highest_ino,
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let content = text::content(self.content_bytes, self.stored_bytes);
        format!(
            "{}, {content}, {} in {}",
            text::count(self.inodes, "inode", "inodes"),
            format_size(self.image_bytes),
            text::count(u64::from(self.blocks), "eraseblock", "eraseblocks"),
        )
    }
}
