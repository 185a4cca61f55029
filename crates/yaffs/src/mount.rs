//! Opens a file system without writing.

use crate::detect::{Hints, detect};
use crate::error::YaffsError;
use crate::layout::{Layout, TagsPlace, Version};
use crate::medium::{Flash, Source};
use crate::objects::Objects;
use crate::restore::{Restored, restore};
use crate::scan::{Ending, Scanned, scan};
use crate::small;
use crate::tree::{self, Tree};
use eraseblock_base::{Findings, Location};
use eraseblock_yaffs_format::constants::{HEADER_LEN, SEQUENCES};

/// How an image is opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// The layout, instead of the detected one.
    pub layout: Option<Layout>,
    /// What is known of the layout.
    pub hints: Hints,
    /// Scan the blocks even if there is a checkpoint.
    pub ignore_checkpoint: bool,
}

/// Where the state of a file system came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A checkpoint.
    Checkpoint,
    /// The tags of all pages.
    Scan,
}

/// Counts of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bad_blocks: u32,
    pub(crate) free_blocks: u32,
    pub(crate) checkpoint_blocks: u32,
    pub(crate) used_pages: u32,
    pub(crate) sequence: u32,
    pub(crate) summaries: u32,
}

/// The properties of an open image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// Where everything is on the pages.
    pub layout: Layout,
    /// Number of blocks; the last one may be incomplete.
    pub blocks: u32,
    /// Where the state came from.
    pub origin: Origin,
    /// Blocks marked bad.
    pub bad_blocks: u32,
    /// Erased blocks.
    pub free_blocks: u32,
    /// Blocks of a checkpoint, valid or not.
    pub checkpoint_blocks: u32,
    /// Full blocks with a summary; 0 after a mount from a checkpoint.
    pub summaries: u32,
    /// The highest sequence number; 0 for YAFFS1.
    pub sequence: u32,
    /// Number of objects with a name.
    pub objects: u64,
    /// Chunks with content or an object's header that is needed.
    pub live_chunks: u64,
}

impl Info {
    /// Returns whether all blocks have the lowest sequence number, as in an image that was built.
    pub fn is_built(&self) -> bool {
        self.layout.version == Version::Yaffs2 && self.sequence == *SEQUENCES.start()
    }
}

/// An open file system. It is never written to.
///
/// # Invariants
/// 1. The ECC of a page is checked whenever its data is delivered, as far as the layout has one.
/// 2. Opening and reading are bounded by the size of the image; its content does not matter.
#[derive(Debug)]
pub struct Yaffs {
    pub(crate) flash: Flash,
    pub(crate) info: Info,
    pub(crate) objects: Objects,
    pub(crate) tree: Tree,
}

impl Yaffs {
    /// Opens a raw dump or a device: damaged pages become findings, everything else is available.
    ///
    /// # Errors
    ///
    /// Fails if no YAFFS is found, if a stated layout is impossible, or if the image cannot be read
    /// at all.
    pub fn open(source: Source, options: &OpenOptions) -> Result<(Self, Findings), YaffsError> {
        let bytes = source.size()?;
        let layout = match &options.layout {
            Some(layout) => layout.clone(),
            None => detect(&source, &options.hints)?.ok_or(YaffsError::NotYaffs { bytes })?,
        };
        check(&layout)?;
        let blocks = blocks(&layout, bytes)?;
        let mut flash = Flash { source, layout, blocks, held: None };
        let mut findings = Findings::new();
        let (mut objects, counts, origin) = mount(&mut flash, options, &mut findings)?;
        let tree = tree::build(&mut objects, &mut findings);
        let info = info(&flash, &objects, &tree, counts, origin);
        Ok((Self { flash, info, objects, tree }, findings))
    }

    /// Returns the properties of the image.
    pub fn info(&self) -> &Info {
        &self.info
    }
}

fn mount(
    flash: &mut Flash,
    options: &OpenOptions,
    findings: &mut Findings,
) -> Result<(Objects, Counts, Origin), YaffsError> {
    if flash.layout.version == Version::Yaffs1 {
        let (objects, counts) = small::scan(flash, findings)?;
        return Ok((objects, counts, Origin::Scan));
    }
    let ending = match restore(flash)? {
        Restored::None => Ending::Cut,
        Restored::State(state) if !options.ignore_checkpoint => {
            return Ok((state.objects, state.counts, Origin::Checkpoint));
        }
        Restored::State(_) => Ending::Clean,
        Restored::Damaged(why) => {
            let message = format!("{why}; all blocks are scanned");
            findings.note(Location::Whole, "checkpoint-damaged", message);
            Ending::Cut
        }
    };
    let Scanned { objects, counts, .. } = scan(flash, ending, findings)?;
    Ok((objects, counts, Origin::Scan))
}

/// Refuses layouts that no page can have.
pub(crate) fn check(layout: &Layout) -> Result<(), YaffsError> {
    let fail = |option, found: u32, expected| {
        Err(YaffsError::Layout { option, found: found.into(), expected })
    };
    if !(HEADER_LEN as u32..=1 << 16).contains(&layout.page) || !layout.page.is_power_of_two() {
        return fail("page size", layout.page, "a power of two from 512 to 65536");
    }
    if layout.data() < HEADER_LEN as u32 {
        return fail("page size", layout.page, "room for a header and in-band tags");
    }
    if layout.spare > 1 << 13 {
        return fail("spare size", layout.spare, "at most 8192");
    }
    if !(1..=1024).contains(&layout.pages_per_block) {
        return fail("pages in a block", layout.pages_per_block, "1 to 1024");
    }
    let last = match &layout.place {
        TagsPlace::Spare(places) => places.iter().max().map_or(0, |last| u32::from(*last) + 1),
        TagsPlace::InBand => 0,
    };
    if last > layout.spare {
        return fail("end of the tags", last, "at most the spare size");
    }
    Ok(())
}

/// Returns the number of blocks of an image.
pub(crate) fn blocks(layout: &Layout, bytes: u64) -> Result<u32, YaffsError> {
    let pages = bytes / u64::from(layout.raw());
    let blocks = pages.div_ceil(layout.pages_per_block.into());
    let fail =
        YaffsError::Layout { option: "number of pages", found: pages, expected: "1 to 2^31" };
    let is_possible = (1..1 << 31).contains(&(blocks * u64::from(layout.pages_per_block)));
    u32::try_from(blocks).ok().filter(|_| is_possible).ok_or(fail)
}

pub(crate) fn info(
    flash: &Flash,
    objects: &Objects,
    tree: &Tree,
    counts: Counts,
    origin: Origin,
) -> Info {
    let has_name = |id: &u32| tree.links.get(id).is_some_and(|links| *links > 0);
    let headers = objects.all.values().filter(|object| object.header.is_some()).count() as u64;
    let content = objects.chunks.keys().filter(|(id, _)| has_name(id)).count() as u64;
    Info {
        layout: flash.layout.clone(),
        blocks: flash.blocks,
        origin,
        bad_blocks: counts.bad_blocks,
        free_blocks: counts.free_blocks,
        checkpoint_blocks: counts.checkpoint_blocks,
        summaries: counts.summaries,
        sequence: counts.sequence,
        objects: tree.links.values().filter(|links| **links > 0).count() as u64,
        live_chunks: headers + content,
    }
}
