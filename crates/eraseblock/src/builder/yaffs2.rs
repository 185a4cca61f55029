//! Making a YAFFS2.

use super::source_choices::SourceOptions;
use crate::error::{Error, Setting};
use crate::observe::Observer;
use crate::source::{Adjustments, Xattrs};
use crate::text;
use eraseblock_base::size::format_size;
use eraseblock_base::{ByteOrder, Geometry};
use eraseblock_vfs::SourceTree;
use eraseblock_yaffs::mkfs::{self, MkfsError, MkfsOptions, MkfsReport, NodeProblem};
use eraseblock_yaffs::{DataEcc, Layout, TagsPlace, Version};
use serde::Serialize;
use std::io::Write;

/// Options of a YAFFS2 image; what is left out is chosen by the builder.
#[derive(Clone, Debug, Default)]
pub struct Yaffs2Options {
    /// Spare bytes of a page; 64 on pages of 2048 when neither this nor a part states them.
    pub spare: Option<u32>,
    /// Byte order of the machine that will mount it.
    pub byte_order: ByteOrder,
    /// The spare byte at which tags begin.
    pub tags_at: u16,
    /// Tags are at the end of the data instead.
    pub in_band: bool,
    /// Tags have no ECC.
    pub no_tags_ecc: bool,
    /// Data has the ECC of Linux's software Hamming code.
    pub data_ecc: bool,
    /// Changes to the source.
    pub source: SourceOptions,
}

impl Yaffs2Options {
    /// Returns the changes to the source.
    pub fn adjustments(&self) -> Adjustments {
        self.source.adjustments(Xattrs::All)
    }
}

/// The builder's options for a flash, of which `blocks` are there. Fails if the ECC of the data has
/// no place.
pub fn options(
    geometry: &Geometry,
    blocks: Option<u32>,
    choices: &Yaffs2Options,
) -> Result<MkfsOptions, Error> {
    let page = geometry.min_io();
    let of_flash = Some(geometry.oob_size()).filter(|spare| *spare > 0);
    let spare = choices.spare.or(of_flash).unwrap_or(page / 32);
    let tags_ecc = !choices.no_tags_ecc && !choices.in_band;
    let data_ecc = if choices.data_ecc {
        let places = DataEcc::usual_places(page, spare).into_iter().next();
        let places = places.ok_or_else(|| {
            Error::usage(format!("{spare} spare bytes have no room for the ECC of the data"))
        })?;
        DataEcc::Hamming { places, is_swapped: false }
    } else {
        DataEcc::None
    };
    let layout = Layout {
        version: Version::Yaffs2,
        page,
        spare,
        pages_per_block: geometry.pages_per_peb(),
        order: choices.byte_order,
        place: if choices.in_band {
            TagsPlace::InBand
        } else {
            TagsPlace::spare(choices.tags_at, tags_ecc)
        },
        tags_ecc,
        data_ecc,
    };
    if !layout.is_disjoint() {
        return Err(Error::usage("tags and the ECC of the data are at the same spare bytes")
            .hint(Setting::TagsAt.to(2) + " is where Linux has them"));
    }
    Ok(MkfsOptions { layout, most_blocks: blocks })
}

/// Builds the image into `out`, with a progress bar. Fails if the content does not fit or cannot be
/// read, or if the output fails.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut dyn Write,
    observer: &dyn Observer,
) -> Result<MkfsReport, Error> {
    let bar = observer.progress(tree.content_bytes(), "content");
    let report = mkfs::build(tree, options, out, &|bytes| bar.advance(bytes));
    drop(bar);
    report.map_err(|error| {
        let has_attributes =
            matches!(&error, MkfsError::Node { problem: NodeProblem::Attributes(_), .. });
        let failure = Error::from(error);
        if has_attributes {
            failure.hint("an image without extended attributes can be made")
        } else {
            failure
        }
    })
}

/// What was built, as JSON and in one line.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// Objects, further links included.
    pub objects: u32,
    /// Bytes of regular files.
    pub content_bytes: u64,
    /// Bytes of the image, spare bytes included.
    pub image_bytes: u64,
    /// Eraseblocks of the image.
    pub blocks: u32,
    /// Pages in use.
    pub chunks: u32,
}

impl Summary {
    /// The summary of a report.
    pub fn of(report: &MkfsReport) -> Self {
        let MkfsReport { objects, content_bytes, image_bytes, blocks, chunks } = *report;
        Self { objects, content_bytes, image_bytes, blocks, chunks }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        format!(
            "{}, {} of content, {} in {}",
            text::count(u64::from(self.objects), "object", "objects"),
            format_size(self.content_bytes),
            format_size(self.image_bytes),
            text::count(u64::from(self.blocks), "eraseblock", "eraseblocks"),
        )
    }
}
