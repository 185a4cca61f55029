//! The stretches of an image that have a format, and the sizes by which they are read.

use eraseblock_base::{ByteOrder, Leb, Location};
use eraseblock_mtd::ReadAt;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubi_format::decode::{HEADER_BYTES, decode_vid, salvage_vid};
use eraseblock_ubi_format::types::VidHeader;
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::fields::LptFields;
use eraseblock_ubifs_format::lpt::{LptGeometry, LptInputs};
use eraseblock_ubifs_format::raw::SuperblockNode;
use eraseblock_ubifs_format::{Superblock, layout};
use std::collections::BTreeMap;
use std::io;

/// What a stretch of an image is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A UBI device.
    Ubi(HeaderLayout),
    /// A UBIFS volume without UBI.
    Ubifs {
        /// Bytes in a LEB.
        leb_size: u32,
    },
    /// A JFFS2.
    Jffs2 {
        /// Bytes in an erase block.
        block_size: u32,
        /// Its byte order.
        order: ByteOrder,
    },
    /// Nothing that is known.
    Bytes,
}

impl Format {
    /// Returns its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ubi(_) => "ubi",
            Self::Ubifs { .. } => "ubifs",
            Self::Jffs2 { .. } => "jffs2",
            Self::Bytes => "bytes",
        }
    }

    /// Returns the bytes of a block, by which places are counted; `None` if there are no blocks.
    pub fn block_size(&self) -> Option<u32> {
        match self {
            Self::Ubi(layout) => Some(layout.peb_size()),
            Self::Ubifs { leb_size } => Some(*leb_size),
            Self::Jffs2 { block_size, .. } => Some(*block_size),
            Self::Bytes => None,
        }
    }
}

/// A stretch of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// What it is.
    pub format: Format,
}

impl Segment {
    /// Returns where it ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Returns the place of a byte of the image as text: `7.512` in blocks, `3584` without.
    pub fn place(&self, offset: u64) -> String {
        let own = offset.saturating_sub(self.offset);
        match self.format.block_size().map(u64::from) {
            Some(size) if size > 0 => format!("{}.{}", own / size, own % size),
            _ => own.to_string(),
        }
    }
}

/// The LEB properties tree of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lpt {
    /// The sizes that determine its nodes.
    pub inputs: LptInputs,
    /// Its tables.
    pub fields: LptFields,
}

impl Lpt {
    /// Returns the tables for these sizes.
    pub fn new(inputs: LptInputs) -> Self {
        Self { inputs, fields: LptFields::new(&LptGeometry::new(inputs)) }
    }

    /// Returns whether a LEB holds nodes of the tree.
    pub fn holds(&self, leb: Leb) -> bool {
        let first = self.inputs.lpt_first.get();
        (first..first.saturating_add(self.inputs.lpt_lebs)).contains(&leb.get())
    }
}

/// An image, cut into segments without gaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its length in bytes.
    pub size: u64,
    /// The segments, in ascending order; they tile the image.
    pub segments: Vec<Segment>,
    /// The trees of UBIFS volumes, by index of the segment and number of the volume; a bare UBIFS has
    /// the number 0.
    pub lpts: BTreeMap<(usize, u32), Lpt>,
}

impl Plan {
    /// Fills the gaps between the known segments, and looks for superblocks. Segments that overlap an
    /// earlier one, leave the image or are empty are dropped.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read.
    pub fn new(image: &dyn ReadAt, mut known: Vec<Segment>) -> io::Result<Self> {
        let size = image.size()?;
        known.sort_by_key(|segment| segment.offset);
        let (mut segments, mut end) = (Vec::new(), 0);
        let gap =
            |from: u64, to: u64| Segment { offset: from, len: to - from, format: Format::Bytes };
        for segment in known {
            let fits = segment.len > 0 && segment.offset >= end && segment.end() <= size;
            if !fits || segment.format.block_size() == Some(0) {
                continue;
            }
            if segment.offset > end {
                segments.push(gap(end, segment.offset));
            }
            end = segment.end();
            segments.push(segment);
        }
        if end < size {
            segments.push(gap(end, size));
        }
        let mut plan = Self { size, segments, lpts: BTreeMap::new() };
        for index in 0..plan.segments.len() {
            plan.find_lpts(image, index)?;
        }
        Ok(plan)
    }

    fn find_lpts(&mut self, image: &dyn ReadAt, index: usize) -> io::Result<()> {
        let segment = self.segments[index];
        match segment.format {
            Format::Ubifs { leb_size } => {
                self.find_lpt(image, (index, 0), segment.offset, leb_size)?;
            }
            Format::Ubi(layout) => {
                let size = u64::from(layout.peb_size());
                for peb in (segment.offset..segment.end()).step_by(layout.peb_size() as usize) {
                    if peb + size > segment.end() {
                        break;
                    }
                    let Some(vid) = vid_of(image, peb, &layout)? else { continue };
                    if vid.leb.get() == 0 {
                        let data = peb + u64::from(layout.data_offset());
                        let key = (index, vid.volume.get());
                        self.find_lpt(image, key, data, layout.leb_size())?;
                    }
                }
            }
            Format::Jffs2 { .. } | Format::Bytes => {}
        }
        Ok(())
    }

    fn find_lpt(
        &mut self,
        image: &dyn ReadAt,
        key: (usize, u32),
        at: u64,
        leb_size: u32,
    ) -> io::Result<()> {
        let superblock = superblock(image, at, leb_size.min(self.left(at)))?;
        if let Some(inputs) = superblock.and_then(|superblock| lpt_inputs(&superblock)) {
            self.lpts.insert(key, Lpt::new(inputs));
        }
        Ok(())
    }

    fn left(&self, at: u64) -> u32 {
        u32::try_from(self.size.saturating_sub(at)).unwrap_or(u32::MAX)
    }
}

/// Returns the volume identifier header of an eraseblock if its checksum is right.
pub(crate) fn vid_of(
    image: &dyn ReadAt,
    peb: u64,
    layout: &HeaderLayout,
) -> io::Result<Option<VidHeader>> {
    let mut bytes = [0; HEADER_BYTES];
    image.read_exact_at(&mut bytes, peb + u64::from(layout.vid_hdr_offset()))?;
    Ok(vid(&bytes, layout))
}

/// Returns the volume identifier header in the bytes if its checksum is right.
pub(crate) fn vid(bytes: &[u8], layout: &HeaderLayout) -> Option<VidHeader> {
    decode_vid(bytes, layout, Location::Whole).ok().or_else(|| salvage_vid(bytes, layout))
}

/// Returns the superblock of a volume whose first LEB is at `at`.
fn superblock(image: &dyn ReadAt, at: u64, leb_size: u32) -> io::Result<Option<Superblock>> {
    if (leb_size as usize) < SuperblockNode::SIZE {
        return Ok(None);
    }
    let mut bytes = [0; SuperblockNode::SIZE];
    image.read_exact_at(&mut bytes, at)?;
    let limits = Limits::unknown(leb_size);
    let node = decode::expect(&bytes, NodeType::Superblock, &limits, Location::Whole);
    Ok(node.and_then(|node| node.superblock()).ok())
}

/// Returns the sizes of the tree of a volume; `None` if its areas are impossible.
pub(crate) fn lpt_inputs(superblock: &Superblock) -> Option<LptInputs> {
    let most = layout::MAX_LEB_SIZE;
    let is_possible = superblock.leb_size <= most && superblock.lpt_lebs <= superblock.leb_cnt;
    is_possible.then(|| superblock.lpt_inputs())
}
