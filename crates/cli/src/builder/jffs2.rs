//! Making a JFFS2: the options of the command as those of the builder, and its progress as a bar.

use crate::args::Endian;
use crate::args::jffs2::{Jffs2Options, ModeChoice};
use crate::failure::{Context, Failure};
use crate::session::Session;
use crate::text;
use eraseblock_base::size::format_size;
use eraseblock_jffs2::mkfs::{
    self, CompressionMode, MkfsError, MkfsOptions, MkfsReport, NodeProblem, Padding, Progress,
};
use eraseblock_jffs2::{Highest, Jffs2, OpenOptions, Source};
use eraseblock_jffs2_format::ByteOrder;
use eraseblock_vfs::SourceTree;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The page size of nearly every Linux: larger nodes get lost there.
const USUAL_PAGE: u32 = 4096;

/// The builder's options for eraseblocks of this size. `cleanmarker` is the usual length on the
/// flash, `limit` what the flash holds.
pub(crate) fn options(
    block_size: u32,
    cleanmarker: u32,
    limit: Option<u64>,
    choices: &Jffs2Options,
) -> Result<MkfsOptions, Failure> {
    let mut options = MkfsOptions::new(block_size);
    // What is to fill a partition must fit into it.
    let whole = |size: u64| size.next_multiple_of(block_size.max(1).into());
    options.limit = limit.into_iter().chain(choices.pad_to.map(whole)).min();
    options.cleanmarker = choices.cleanmarker.map_or(cleanmarker, |marker| marker.0);
    options.order = match choices.byte_order {
        Some(Endian::Big) => ByteOrder::Big,
        _ => ByteOrder::Little,
    };
    options.summary = choices.summary;
    options.padding = match (choices.pad_to, choices.pad) {
        (Some(size), _) => Padding::Size(size),
        (None, true) => Padding::Block,
        (None, false) => Padding::None,
    };
    options.page_size = choices.node_data.unwrap_or(options.page_size);
    let compression = &mut options.compression;
    compression.mode = match choices.compression {
        None | Some(ModeChoice::Priority) => CompressionMode::Priority,
        Some(ModeChoice::Size) => CompressionMode::Size,
        Some(ModeChoice::FavourLzo) => CompressionMode::FavourLzo,
        Some(ModeChoice::None) => CompressionMode::None,
    };
    if !choices.compressor.is_empty() {
        compression.compressors = choices.compressor.iter().map(|row| (row.0, row.1)).collect();
    }
    compression.zlib_level = choices.zlib_level.unwrap_or(compression.zlib_level);
    options.base = choices.append_to.as_deref().map(highest).transpose()?;
    Ok(options)
}

/// The highest numbers in the image at `path`.
pub(crate) fn highest(path: &Path) -> Result<Highest, Failure> {
    let file = File::open(path).context(path.display())?;
    let opened = Jffs2::open(Source::Image(Arc::new(file)), &OpenOptions::default());
    let (jffs2, _) = opened.context(path.display())?;
    Ok(jffs2.info().highest)
}

/// Builds the image into `out`, with a progress bar.
pub(crate) fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut (dyn Write + Send),
    session: &Session,
) -> Result<MkfsReport, Failure> {
    if options.page_size > USUAL_PAGE {
        session.remark(&format!(
            "note: nodes with up to {} bytes of data; Linux with pages of {USUAL_PAGE} bytes reads \
             them but loses their content when it moves them",
            options.page_size
        ));
    }
    let bar = Bar(session.progress(0, "content"));
    let report = mkfs::build(tree, options, out, &bar);
    bar.0.finish_and_clear();
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
        let failure = Failure::from(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

struct Bar(ProgressBar);

impl Progress for Bar {
    fn total(&self, bytes: u64) {
        self.0.set_length(bytes);
    }

    fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

/// What was built, as JSON and in one line.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Summary {
    pub inodes: u64,
    pub names: u64,
    pub content_bytes: u64,
    pub stored_bytes: u64,
    pub image_bytes: u64,
    pub blocks: u32,
    pub summaries: u64,
    pub inode_nodes: u64,
    pub highest_ino: u32,
}

impl Summary {
    /// The summary of a report.
    pub(crate) fn of(report: &MkfsReport) -> Self {
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
    pub(crate) fn line(&self) -> String {
        let ratio = if self.content_bytes == 0 {
            String::new()
        } else {
            let percent = u128::from(self.stored_bytes) * 100 / u128::from(self.content_bytes);
            format!(" in {} ({percent}%)", format_size(self.stored_bytes))
        };
        format!(
            "{}, {} of content{ratio}, {} in {}",
            text::count(self.inodes, "inode", "inodes"),
            format_size(self.content_bytes),
            format_size(self.image_bytes),
            text::count(u64::from(self.blocks), "eraseblock", "eraseblocks"),
        )
    }
}
