//! Making file systems: options as a layout file or a command line has them, bounds, summaries.

#[cfg(feature = "axfs")]
pub mod axfs;
pub mod jffs2;
pub mod jffs2_choices;
pub mod source_choices;
pub mod ubifs_choices;
pub mod yaffs2;

use crate::error::{Error, Setting, Words};
use crate::observe::Meter;
use crate::observe::Observer;
use crate::text;
use eraseblock_base::size::format_size;
use eraseblock_ubifs::mkfs;
use eraseblock_ubifs::mkfs::{
    CompressionRule, Compressor, Fit, FormatVersion, LebSink, MkfsError, MkfsOptions, MkfsReport,
    NoSink, Phase, Preflight, Progress,
};
use eraseblock_ubifs_format::KeyHash;
use eraseblock_vfs::SourceTree;
use serde::Serialize;
use std::cell::RefCell;
use ubifs_choices::{CompressRule, CompressorChoice, KeyHashChoice, UbifsOptions};

/// The volume a file system is made for.
#[derive(Clone, Copy, Debug)]
pub struct VolumeShape {
    /// Usable bytes of a LEB.
    pub leb_size: u32,
    /// The smallest unit that can be written.
    pub min_io: u32,
    /// Most LEBs the file system may grow to.
    pub max_lebs: u32,
}

/// The builder's options.
pub fn options(shape: VolumeShape, choices: &UbifsOptions) -> MkfsOptions {
    let mut options = MkfsOptions::new(shape.leb_size, shape.min_io, shape.max_lebs);
    let layout = &mut options.layout;
    layout.journal_bytes = choices.journal;
    layout.log_lebs = choices.log_lebs;
    layout.orph_lebs = choices.orphan_lebs.unwrap_or(layout.orph_lebs);
    layout.fanout = choices.fanout.unwrap_or(layout.fanout);
    layout.reserved = choices.reserved.unwrap_or(layout.reserved);
    options.compressor = choices.compressor.map_or(options.compressor, compressor);
    let rule = |rule: &CompressRule| CompressionRule {
        pattern: rule.pattern.as_bytes().to_vec(),
        compressor: compressor(rule.compressor),
    };
    options.rules = choices.compress_path.iter().map(rule).collect();
    if choices.key_hash == Some(KeyHashChoice::Test) {
        options.key_hash = KeyHash::Test;
    }
    options.space_fixup = choices.space_fixup;
    if choices.format_version == Some(5) {
        options.version = FormatVersion::V5;
    }
    options.uuid = choices.uuid.map(|uuid| uuid.0);
    options
}

/// What zstd means without a level.
const ZSTD_LEVEL: i32 = 3;

fn compressor(choice: CompressorChoice) -> Compressor {
    match choice {
        CompressorChoice::None => Compressor::None,
        CompressorChoice::Lzo => Compressor::Lzo,
        CompressorChoice::Zlib => Compressor::Zlib,
        CompressorChoice::Zstd(level) => Compressor::Zstd { level: level.unwrap_or(ZSTD_LEVEL) },
        CompressorChoice::FavorLzo(percent) => {
            Compressor::FavourLzo { percent: u8::try_from(percent).unwrap_or(u8::MAX) }
        }
    }
}

/// Computes before the work how large the image will be, and refuses what certainly does not fit.
pub fn preflight(tree: &SourceTree, options: &MkfsOptions) -> Result<Preflight, Error> {
    let bounds = mkfs::preflight(tree, options).map_err(explain)?;
    match bounds.fit() {
        Fit::Never => Err(too_small(bounds.volume_lebs_least, bounds.layout.max_leb_cnt)),
        Fit::Always | Fit::DependsOnContent => Ok(bounds),
    }
}

/// LEBs of the image exactly: builds it and throws it away. Fails as [`build`] does.
pub fn exact_lebs(
    tree: &SourceTree,
    options: &MkfsOptions,
    observer: &dyn Observer,
) -> Result<u32, Error> {
    build(tree, options, &mut NoSink, observer).map(|report| report.leb_cnt)
}

/// The bounds of [`preflight`] if they say whether the content fits; the exact size otherwise.
/// Fails if the options contradict each other or a file cannot be read.
pub fn settled_preflight(
    tree: &SourceTree,
    options: &MkfsOptions,
    observer: &dyn Observer,
) -> Result<Preflight, Error> {
    let bounds = preflight(tree, options)?;
    if bounds.fit() == Fit::Always {
        return Ok(bounds);
    }
    let lebs = exact_lebs(tree, options, observer)?;
    let main_lebs_most = bounds.layout.max_main_lebs;
    Ok(Preflight { image_lebs_least: lebs, image_lebs_most: lebs, main_lebs_most, ..bounds })
}

/// A preflight in one line.
pub fn preflight_line(bounds: &Preflight) -> String {
    let verdict = match bounds.fit() {
        Fit::Always => "fits",
        Fit::DependsOnContent if bounds.compresses => "fits if it compresses well enough",
        Fit::DependsOnContent => "fits if enough blocks of it are zeros",
        Fit::Never => "does not fit",
    };
    format!(
        "preflight: {}, {} of content, {} LEBs of {} each, {} allowed: {verdict}",
        text::count(bounds.nodes.inodes, "inode", "inodes"),
        format_size(bounds.content_bytes),
        text::range(bounds.image_lebs_least.into(), bounds.image_lebs_most.into()),
        format_size(u64::from(bounds.layout.leb_size)),
        text::grouped(u64::from(bounds.layout.max_leb_cnt)),
    )
}

/// Builds the image into `sink`, with a progress bar. Fails if the content does not fit or cannot
/// be read, or if the sink fails.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    sink: &mut dyn LebSink,
    observer: &dyn Observer,
) -> Result<MkfsReport, Error> {
    build_numbered(tree, options, sink, observer).map(|(report, _)| report)
}

/// The same, with the inode number of every path (no leading slash, empty for the root). Fails as
/// [`build`] does.
pub fn build_numbered(
    tree: &SourceTree,
    options: &MkfsOptions,
    sink: &mut dyn LebSink,
    observer: &dyn Observer,
) -> Result<(MkfsReport, InodeNumbers), Error> {
    let progress = Watch { meter: observer.progress(0, "content"), numbers: RefCell::default() };
    let report = mkfs::build(tree, options, sink, &progress).map_err(explain);
    Ok((report?, progress.numbers.into_inner()))
}

/// Paths and their inode numbers.
pub type InodeNumbers = Vec<(Vec<u8>, u32)>;

fn explain(error: MkfsError) -> Error {
    match error {
        MkfsError::TooFewLebs { available, needed } => too_small(needed, available),
        error => error.into(),
    }
}

fn too_small(needed: u32, available: u32) -> Error {
    let larger = "a larger volume or another compressor; if the volume is larger, a higher limit: ";
    Error::new(format!("the content needs {needed} LEBs, the volume has {available}")).hint(
        Words::from(larger) + Setting::MaxLebs + ", `max-lebs` in a layout file, -c of mkfs.ubifs",
    )
}

/// Shows how far a build is and notes inode numbers.
struct Watch {
    meter: Box<dyn Meter>,
    numbers: RefCell<InodeNumbers>,
}

impl Progress for Watch {
    fn phase(&self, phase: Phase) {
        self.meter.phase(match phase {
            Phase::Plan => "plan",
            Phase::Content => "content",
            Phase::Index => "index",
            Phase::Finish => "finish",
        });
    }

    fn total(&self, bytes: u64) {
        self.meter.total(bytes);
    }

    fn advance(&self, bytes: u64) {
        self.meter.advance(bytes);
    }

    fn inode(&self, path: &[u8], ino: u32) {
        self.numbers.borrow_mut().push((path.to_vec(), ino));
    }
}

/// What was built, as JSON and in one line.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Inodes.
    pub inodes: u64,
    /// Names, those of further links included.
    pub names: u64,
    /// Bytes of regular files, holes left out.
    pub content_bytes: u64,
    /// Bytes of the same in the image, compressed.
    pub stored_bytes: u64,
    /// LEBs of the image.
    pub lebs: u32,
    /// LEBs that the file system may grow to.
    pub max_lebs: u32,
    /// LEBs with data.
    pub data_lebs: u32,
    /// LEBs with the index.
    pub index_lebs: u32,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// The UUID, with dashes.
    pub uuid: String,
}

impl Summary {
    /// The summary of a report.
    pub fn of(report: &MkfsReport) -> Self {
        Self {
            inodes: report.nodes.inodes,
            names: report.nodes.entries,
            content_bytes: report.data.content_bytes,
            stored_bytes: report.data.stored_bytes.iter().sum(),
            lebs: report.leb_cnt,
            max_lebs: report.layout.max_leb_cnt,
            data_lebs: report.data_lebs,
            index_lebs: report.index_lebs,
            free_bytes: report.free_bytes,
            uuid: text::uuid(&report.uuid),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let content = text::content(self.content_bytes, self.stored_bytes);
        format!(
            "{}, {content}, {} LEBs of at most {}, {} free",
            text::count(self.inodes, "inode", "inodes"),
            text::grouped(u64::from(self.lebs)),
            text::grouped(u64::from(self.max_lebs)),
            format_size(self.free_bytes),
        )
    }
}
