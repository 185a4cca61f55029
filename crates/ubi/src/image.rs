//! Writes UBI images, byte for byte as `ubinize` does (spec: ubi 19.1).
//!
//! An [`ImageSpec`] becomes an [`ImagePlan`], which has the position of everything. The plan writes
//! the image either as a stream ([`ImagePlan::write`], contents LEB by LEB in order) or in place: a
//! caller that produces LEBs out of order writes each of them at [`ImagePlan::data_offset`] of a
//! file, and [`ImagePlan::finish_in_place`] adds everything else.
//!
//! # Invariants
//! 1. The image starts with the two copies of the volume table; the LEBs of the volumes follow in
//!    the order of the specification, one eraseblock each, without gaps. With a fastmap, its blocks
//!    and free ones lie between table and volumes and after the last volume.
//! 2. Linux attaches the result: specifications that it would refuse are refused here, except
//!    another version, which only tests of readers request.
//! 3. Same specification and contents, same bytes. Memory: one eraseblock and one volume table.

mod fastmap;
pub mod ini;
mod plan;
mod source;
mod write;

pub use fastmap::{FastmapPlace, fastmap_blocks, first_volume_peb};
pub use plan::{ImageError, ImagePlan};
pub use source::{LebSource, ReaderSource};

use eraseblock_base::VolumeId;
pub use eraseblock_ubi_format::constants::VERSION;
use eraseblock_ubi_format::{EraseCount, HeaderLayout, VolumeFlags, VolumeKind, VolumeName};

/// The specification of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageSpec {
    /// Offsets and sizes.
    pub layout: HeaderLayout,
    /// Erase counter of all eraseblocks.
    pub erase_count: EraseCount,
    /// Number of the image, stored in every eraseblock.
    pub image_seq: u32,
    /// The volumes in the order in which their LEBs are written.
    pub volumes: Vec<VolumeSpec>,
    /// Version in all headers. Linux attaches only [`VERSION`].
    pub version: u8,
    /// Number of end marks, eraseblocks that mark the end of the last volume (spec: ubi 4.1).
    pub end_marks: u32,
}

/// A volume to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Its number.
    pub id: VolumeId,
    /// Its name.
    pub name: VolumeName,
    /// Its kind.
    pub kind: VolumeKind,
    /// Alignment of the usable LEB size: 1 or a multiple of the minimum I/O unit.
    pub alignment: u32,
    /// Its size.
    pub size: VolumeSize,
    /// Its flags.
    pub flags: VolumeFlags,
    /// The amount of content.
    pub content: ContentSize,
}

/// The size of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeSize {
    /// The minimum for the content.
    Content,
    /// This many LEBs.
    Lebs(u32),
    /// At least this many bytes, counted in usable LEBs.
    Bytes(u64),
    /// This many bytes as `ubinize` counts them: in whole LEBs, even if the alignment makes less of
    /// each usable, so the volume may be too small (spec: ubi 19.1, quirk).
    UbinizeBytes(u64),
}

/// The amount of content a volume starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentSize {
    /// None.
    Empty,
    /// This many bytes; the last LEB is filled up with 0xFF.
    Bytes(u64),
    /// This many whole LEBs (dynamic volumes only).
    Lebs(u32),
}
