//! The layout of an image, and its checks.

use super::fastmap::{FastmapPlace, FastmapPlan, first_volume_peb};
use super::{ContentSize, ImageSpec, VolumeSize, VolumeSpec};
use eraseblock_base::{ErrorClass, VolumeId};
use eraseblock_ubi_format::constants::LAYOUT_LEBS;
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeRecord};
use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;

/// An image that cannot be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageError {
    /// A LEB is too small for a volume table.
    LebTooSmall {
        /// Bytes in a LEB.
        found: u32,
        /// Bytes of the table.
        expected: u32,
    },
    /// A parameter of a volume is impossible.
    Volume {
        /// The number of the volume.
        volume: VolumeId,
        /// The parameter.
        field: &'static str,
        /// Its value.
        found: String,
        /// The valid values.
        expected: String,
    },
    /// The end marks do not fit.
    TooLong {
        /// Requested end marks.
        end_marks: u32,
    },
    /// The number of sources is not that of the volumes.
    Sources {
        /// Sources given.
        found: usize,
        /// Volumes of the image.
        expected: usize,
    },
    /// The content of a volume cannot be read.
    Content {
        /// The number of the volume.
        volume: VolumeId,
        /// The LEB.
        leb: u32,
        /// The reason.
        source: io::Error,
    },
    /// Fastmaps are not used on a flash of this size.
    NoFastmap {
        /// Eraseblocks of the flash.
        found: u32,
        /// The largest flash that is always scanned.
        more_than: u32,
    },
    /// There is no space for a fastmap next to the contents.
    FastmapFull {
        /// Eraseblocks needed.
        found: u64,
        /// Eraseblocks of the flash.
        expected: u32,
        /// Blocks that may be bad.
        bad_blocks: u32,
    },
    /// The image cannot be written.
    Output(io::Error),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LebTooSmall { found, expected } => write!(
                f,
                "a LEB has {found} bytes, expected at least {expected} for the volume table"
            ),
            Self::Volume { volume, field, found, expected } => {
                write!(f, "volume {volume}: {field} is {found}, expected {expected}")
            }
            Self::TooLong { end_marks } => write!(
                f,
                "{end_marks} end marks are too many: expected an image of at most 2^31 eraseblocks"
            ),
            Self::Sources { found, expected } => {
                write!(f, "{found} contents for {expected} volumes")
            }
            Self::Content { volume, leb, source } => {
                write!(f, "cannot read LEB {leb} of the content of volume {volume}: {source}")
            }
            Self::NoFastmap { found, more_than } => write!(
                f,
                "a flash of {found} eraseblocks has no fastmap, expected more than {more_than} and a fastmap \
         of at most 32"
            ),
            Self::FastmapFull { found, expected, bad_blocks } => write!(
                f,
                "with a fastmap and {bad_blocks} blocks that may be bad the image takes {found} eraseblocks, \
         expected at most {expected}"
            ),
            Self::Output(error) => write!(f, "cannot write the image: {error}"),
        }
    }
}

impl Error for ImageError {}

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl ImageError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Content { source, .. } => Some(source),
            Self::Output(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Content { .. } | Self::Output(_) => ErrorClass::Media,
            _ => ErrorClass::Caller,
        }
    }
}

/// A checked image with its layout.
#[derive(Clone, Debug)]
pub struct ImagePlan {
    pub(super) spec: ImageSpec,
    pub(super) volumes: Vec<PlannedVolume>,
    pub(super) fastmap: Option<FastmapPlan>,
}

/// A volume with its position in the image.
#[derive(Clone, Debug)]
pub(super) struct PlannedVolume {
    pub(super) record: VolumeRecord,
    pub(super) usable: u32,
    /// LEBs with content.
    pub(super) lebs: u32,
    /// Bytes of content in the last of them.
    pub(super) last_bytes: u32,
    pub(super) first_peb: u32,
}

impl ImagePlan {
    /// Checks the specification and computes the layout. Fails if the volumes do not fit, or if two
    /// have one name or number.
    pub fn new(spec: ImageSpec) -> Result<Self, ImageError> {
        Self::starting_at(LAYOUT_LEBS, spec)
    }

    /// Like [`ImagePlan::new`], with a fastmap for a flash of exactly the given size. The volumes
    /// begin at [`first_volume_peb`].
    ///
    /// Fails if Linux uses no fastmap on such a flash, or if there is no space for it.
    pub fn with_fastmap(spec: ImageSpec, flash: FastmapPlace) -> Result<Self, ImageError> {
        let first = first_volume_peb(&spec.layout, flash.peb_count).unwrap_or(LAYOUT_LEBS);
        let mut plan = Self::starting_at(first, spec)?;
        let end = plan.lebs_end(first);
        // The fastmap has an entry for each LEB of a volume, with content or not.
        let lebs: u64 = plan.volumes.iter().map(|one| u64::from(one.record.reserved_lebs)).sum();
        if lebs > u64::from(flash.peb_count) {
            let FastmapPlace { peb_count: expected, bad_blocks } = flash;
            return Err(ImageError::FastmapFull { found: lebs, expected, bad_blocks });
        }
        plan.fastmap = Some(FastmapPlan::new(&plan.spec.layout, flash, end)?);
        Ok(plan)
    }

    fn starting_at(first: u32, spec: ImageSpec) -> Result<Self, ImageError> {
        check_table_fits(&spec.layout)?;
        check_uniqueness(&spec)?;
        let mut volumes = Vec::with_capacity(spec.volumes.len());
        let mut next_peb = first;
        for volume in &spec.volumes {
            let planned = plan_volume(volume, &spec.layout, next_peb)?;
            next_peb = next_peb.checked_add(planned.lebs).ok_or_else(|| too_large(volume))?;
            volumes.push(planned);
        }
        if i32::try_from(u64::from(next_peb) + u64::from(spec.end_marks)).is_err() {
            return Err(ImageError::TooLong { end_marks: spec.end_marks });
        }
        Ok(Self { spec, volumes, fastmap: None })
    }

    /// Returns the specification.
    pub fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    /// Returns the number of eraseblocks of the image.
    pub fn peb_count(&self) -> u32 {
        let marked = || self.lebs_end(LAYOUT_LEBS) + self.spec.end_marks;
        self.fastmap.map_or_else(marked, |fastmap| fastmap.end())
    }

    /// Returns the eraseblocks with end marks.
    pub(super) fn end_marks(&self) -> Range<u32> {
        match self.fastmap {
            None => self.lebs_end(LAYOUT_LEBS)..self.peb_count(),
            Some(_) => 0..0,
        }
    }

    /// Returns the block after the last LEB of the volumes, which begin at `first`.
    fn lebs_end(&self, first: u32) -> u32 {
        self.volumes.last().map_or(first, |last| last.first_peb + last.lebs)
    }

    /// Returns the number of bytes of the image.
    pub fn size(&self) -> u64 {
        u64::from(self.peb_count()) * u64::from(self.spec.layout.peb_size())
    }

    /// Returns the size of a volume in LEBs, by its index in the specification.
    pub fn reserved_lebs(&self, volume: usize) -> Option<u32> {
        self.volumes.get(volume).map(|volume| volume.record.reserved_lebs)
    }

    /// Returns the usable size of a LEB of a volume, by its index in the specification.
    pub fn usable_leb_size(&self, volume: usize) -> Option<u32> {
        self.volumes.get(volume).map(|volume| volume.usable)
    }

    /// Returns the offset in the image of the data of a LEB; `None` if the volume, given by its
    /// index in the specification, or the LEB has no content.
    pub fn data_offset(&self, volume: usize, leb: u32) -> Option<u64> {
        let volume = self.volumes.get(volume)?;
        let inside = leb < volume.lebs;
        inside.then(|| {
            self.peb_offset(volume.first_peb + leb) + u64::from(self.spec.layout.data_offset())
        })
    }

    pub(super) fn peb_offset(&self, peb: u32) -> u64 {
        u64::from(peb) * u64::from(self.spec.layout.peb_size())
    }
}

fn check_table_fits(layout: &HeaderLayout) -> Result<(), ImageError> {
    let (found, expected) = (layout.leb_size(), layout.table_size().max(1));
    let slots = layout.volume_slots();
    if slots == 0 || found < expected {
        return Err(ImageError::LebTooSmall { found, expected });
    }
    Ok(())
}

fn check_uniqueness(spec: &ImageSpec) -> Result<(), ImageError> {
    let (mut ids, mut names, mut resizing) = (HashSet::new(), HashSet::new(), false);
    let slots = spec.layout.volume_slots();
    for volume in &spec.volumes {
        if volume.id.get() >= slots {
            return refuse(volume, "number", volume.id, format!("below {slots}"));
        }
        if !ids.insert(volume.id) {
            return refuse(volume, "number", volume.id, "a number no other volume has");
        }
        if !names.insert(&volume.name) {
            return refuse(volume, "name", &volume.name, "a name no other volume has");
        }
        let autoresize = volume.flags.contains(VolumeFlags::AUTORESIZE);
        if autoresize && resizing {
            return refuse(volume, "autoresize flag", "set", "set for one volume only");
        }
        resizing |= autoresize;
    }
    Ok(())
}

fn refuse<T>(
    volume: &VolumeSpec,
    field: &'static str,
    found: impl std::fmt::Display,
    expected: impl Into<String>,
) -> Result<T, ImageError> {
    let (found, expected) = (found.to_string(), expected.into());
    Err(ImageError::Volume { volume: volume.id, field, found, expected })
}

fn too_large(volume: &VolumeSpec) -> ImageError {
    ImageError::Volume {
        volume: volume.id,
        field: "size",
        found: "beyond all bounds".to_owned(),
        expected: "an image of at most 2^31 eraseblocks".to_owned(),
    }
}

fn plan_volume(
    volume: &VolumeSpec,
    layout: &HeaderLayout,
    first_peb: u32,
) -> Result<PlannedVolume, ImageError> {
    check_flags(volume)?;
    let usable = usable_leb_size(volume, layout)?;
    let (lebs, last_bytes) = content_lebs(volume, usable)?;
    let reserved = reserved_lebs(volume, layout, usable, lebs)?;
    if reserved < lebs {
        let expected = format!("at least the {lebs} its content needs");
        return refuse(volume, "size in LEBs", reserved, expected);
    }
    if reserved == 0 {
        return refuse(volume, "size", 0, "a size or content");
    }
    let record = VolumeRecord {
        reserved_lebs: reserved,
        alignment: volume.alignment,
        data_pad: layout.leb_size() - usable,
        kind: volume.kind,
        upd_marker: false,
        name: volume.name.clone(),
        flags: volume.flags,
    };
    Ok(PlannedVolume { record, usable, lebs, last_bytes, first_peb })
}

fn check_flags(volume: &VolumeSpec) -> Result<(), ImageError> {
    let skips = volume.flags.contains(VolumeFlags::SKIP_CHECK);
    if skips && volume.kind == VolumeKind::Dynamic {
        return refuse(volume, "skip-check flag", "set", "set for static volumes only");
    }
    Ok(())
}

/// Linux requires an alignment of 1 or a multiple of the minimum I/O unit that wastes less than
/// half of a LEB (spec: ubi 5, 6.3).
fn usable_leb_size(volume: &VolumeSpec, layout: &HeaderLayout) -> Result<u32, ImageError> {
    let (alignment, leb_size) = (volume.alignment, layout.leb_size());
    let multiple = alignment == 1 || alignment.is_multiple_of(layout.min_io());
    if !multiple || !(1..=leb_size).contains(&alignment) {
        let unit = layout.min_io();
        let expected = format!("1 or a multiple of {unit}, at most {leb_size}");
        return refuse(volume, "alignment", alignment, expected);
    }
    let pad = leb_size % alignment;
    if pad >= leb_size / 2 {
        let expected = "one that leaves more than half of a LEB usable";
        return refuse(volume, "alignment", alignment, expected);
    }
    Ok(leb_size - pad)
}

fn content_lebs(volume: &VolumeSpec, usable: u32) -> Result<(u32, u32), ImageError> {
    match volume.content {
        ContentSize::Empty | ContentSize::Bytes(0) | ContentSize::Lebs(0) => Ok((0, 0)),
        ContentSize::Lebs(_) if volume.kind == VolumeKind::Static => {
            refuse(volume, "content", "a number of LEBs", "a number of bytes for a static volume")
        }
        ContentSize::Lebs(lebs) => Ok((lebs, usable)),
        ContentSize::Bytes(bytes) => {
            let lebs = signed_count(volume, bytes.div_ceil(u64::from(usable)))?;
            let last = (bytes - 1) % u64::from(usable) + 1;
            Ok((lebs, u32::try_from(last).expect("not above the usable LEB size")))
        }
    }
}

fn reserved_lebs(
    volume: &VolumeSpec,
    layout: &HeaderLayout,
    usable: u32,
    content: u32,
) -> Result<u32, ImageError> {
    match volume.size {
        VolumeSize::Content => Ok(content),
        VolumeSize::Lebs(lebs) => signed_count(volume, lebs.into()),
        VolumeSize::Bytes(bytes) => signed_count(volume, bytes.div_ceil(usable.into())),
        VolumeSize::UbinizeBytes(bytes) => {
            signed_count(volume, bytes.div_ceil(layout.leb_size().into()))
        }
    }
}

/// Numbers of eraseblocks are signed 32-bit numbers.
fn signed_count(volume: &VolumeSpec, count: u64) -> Result<u32, ImageError> {
    i32::try_from(count).map(i32::cast_unsigned).map_err(|_| too_large(volume))
}
