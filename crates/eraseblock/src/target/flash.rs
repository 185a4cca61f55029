//! A flash that is written to: a simulated chip, an image file, `/dev/mtdX`, or a block device made
//! into one.

use super::driver::{self, Chip, Driven, Node};
use super::lock::lock;
use super::span::{self, At, Span};
use super::{FlashOptions, Place, Shape, Sizes, file_bytes, image, raw_dump};
use crate::accounting;
use crate::error::{Context, Error, Setting, Words};
use eraseblock_base::align::is_erased;
use eraseblock_mtd::{Access, CountedMtd, ImageFile, ImageShape, Mtd, ReadAt, WritableImage};
use eraseblock_ubi::image::fastmap_blocks;
use eraseblock_ubi::{
    AttachOptions, OpenOptions, ReadOnlyReason, UbiDevice, UbiError, VolumeInfo, attach,
    described_peb_count, detect,
};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What helps where an image file lacks blocks.
pub(super) fn size_in_bytes() -> Words {
    Setting::FlashSize.to("SIZE") + " says how large the flash is that the image is made for"
}

/// The same for callers that count blocks.
fn size_hint(args: &FlashOptions) -> Words {
    if args.size_in_bytes {
        return size_in_bytes();
    }
    Setting::Blocks.to("NUMBER")
        + " says how many eraseblocks the flash has that the image is made for"
}

/// An opened flash, and the volume that was named after it.
#[derive(Debug)]
pub struct Flash {
    /// Where it is.
    pub path: PathBuf,
    /// The part of the file, if one was named.
    pub at: Option<At>,
    /// The volume's name or number.
    pub volume: Option<Vec<u8>>,
    /// The flash.
    pub device: Arc<dyn Mtd>,
    /// The same; knows what was done to it since it was opened.
    pub counted: Arc<CountedMtd>,
    /// The same if it is a simulated chip.
    pub chip: Option<Arc<Chip>>,
    /// Where UBI's headers are, if there are any.
    pub layout: Option<HeaderLayout>,
    /// Number of corrected bits from which a block must be renewed.
    bitflip_threshold: u16,
    /// A plain file that is written to; its changes are undone unless they are kept.
    image: Option<Arc<WritableImage>>,
    /// Cut blocks off an image file at the end that were added for the time of the work and hold
    /// nothing but an erase counter: on the flash, erased blocks are as good.
    pub cut_at_end: bool,
    /// Takes a message for people when putting an image file right fails at the end.
    pub on_trouble: fn(&str),
    /// Keeps other writers away.
    _lock: Option<File>,
}

/// A command that failed leaves an image file as it was. The lock is let go afterwards.
impl Drop for Flash {
    fn drop(&mut self) {
        let Some(image) = &self.image else { return };
        let undone = image.undo();
        // Only now: several volumes may have been mounted, and none of them writes any more.
        let cut = match self.layout {
            Some(layout) if self.cut_at_end => {
                image.cut(|block| is_erased(&block[layout.vid_hdr_offset() as usize..]))
            }
            _ => Ok(()),
        };
        if let Err(error) = undone.and(cut) {
            let path = self.path.display();
            (self.on_trouble)(&format!("{path}: its end cannot be put right: {error}"));
        }
    }
}

impl Flash {
    /// Opens what the arguments point at, for writing or only for reading. Fails if it is no flash, or if
    /// another process writes to it.
    pub fn open(args: &FlashOptions, access: Access) -> Result<Self, Error> {
        let place = Place::parse(&args.target)?;
        let path = place.path.clone();
        Self::open_place(place, args, access).context(path.display())
    }

    /// Makes an erased flash of the block device or plain file that the arguments point at. Fails
    /// if there is a flash already, or if the device cannot be written.
    #[cfg(feature = "host")]
    pub fn make(args: &FlashOptions) -> Result<Self, Error> {
        let place = Place::parse(&args.target)?;
        place.refuse_part()?;
        let usual = eraseblock_mtd_host::BlockShape::default();
        let shape = eraseblock_mtd_host::BlockShape {
            peb_size: args.sizes.peb.unwrap_or(usual.peb_size),
            unit: args.sizes.page.unwrap_or(usual.unit),
        };
        let device = eraseblock_mtd_host::BlockDevice::create(&place.path, &shape, args.force)
            .map_err(super::device::failure)?;
        Ok(Self::of(place, Found::plain(Arc::new(device)), None))
    }

    fn open_place(place: Place, args: &FlashOptions, access: Access) -> Result<Self, Error> {
        let opened = open_device(&place, args, access)?;
        let layout = image::layout(opened.device.as_ref(), &args.sizes)?;
        Ok(Self::of(place, opened, layout))
    }

    fn of(place: Place, found: Found, layout: Option<HeaderLayout>) -> Self {
        let counted = Arc::new(CountedMtd::new(found.device));
        Self {
            path: place.path,
            at: place.at,
            volume: place.volume,
            device: counted.clone(),
            counted,
            chip: found.chip,
            layout,
            bitflip_threshold: found.threshold.max(1),
            image: found.image,
            cut_at_end: found.image_for_a_while,
            on_trouble: |_| {},
            _lock: found.lock,
        }
    }

    /// Keeps the changes to an image file.
    pub fn keep(&self) {
        if let Some(image) = &self.image {
            image.keep();
        }
    }

    /// What helps if an image file lacks blocks and its flash may have more.
    pub fn size_hint(&self, args: &FlashOptions) -> Option<Words> {
        let is_known = args.blocks.is_some() || args.flash_size.is_some();
        (self.image.is_some() && !is_known).then(|| size_hint(args))
    }

    /// Attaches the UBI on it. Fails if Linux would refuse it, unless forced.
    pub fn ubi(&self, args: &FlashOptions, access: Access) -> Result<UbiDevice, Error> {
        let path = self.path.display();
        let layout = self.layout.ok_or_else(|| {
            Error::new(format!("{path}: no UBI on it")).hint(format!(
                "`eraseblock ubi format {path}` makes one; everything else on the flash is lost"
            ))
        })?;
        let options = OpenOptions {
            read_only: !access.is_write(),
            force: args.force,
            force_rw: args.force_rw,
            bitflip_threshold: self.bitflip_threshold,
            fastmap: args.fastmap,
            ..OpenOptions::default()
        };
        if args.fastmap {
            self.check_fastmap(&layout)?;
        }
        let device = UbiDevice::open(Arc::clone(&self.device), &layout, &options);
        let device = device.map_err(|error| self.cannot_be_attached(error, args, access))?;
        if access.is_write() && args.force_rw {
            device.verify_flash().context(self.path.display())?;
        }
        match device.read_only() {
            Some(reason) if access.is_write() => Err(self.can_only_be_read(reason, args)),
            _ => Ok(device),
        }
    }

    /// Fails on small devices, on which Linux neither writes nor uses fastmaps.
    pub fn check_fastmap(&self, layout: &HeaderLayout) -> Result<(), Error> {
        let blocks = self.device.geometry().peb_count();
        if fastmap_blocks(layout, blocks).is_some() {
            return Ok(());
        }
        let path = format!("{}: ", self.path.display());
        let message = format!(": Linux uses none on {blocks} eraseblocks");
        Err(Error::usage(Words::from(path) + Setting::Fastmap + message)
            .hint("more than 64 are needed; such a flash is scanned quickly"))
    }

    /// A file without the blocks that its volumes want: it may be shorter than its flash.
    fn cannot_be_attached(&self, error: UbiError, args: &FlashOptions, access: Access) -> Error {
        let is_short = match &error {
            UbiError::Refused(refusal) => {
                ["volume-table-unusable", "not-enough-pebs"].contains(&refusal.code.name())
            }
            UbiError::NoSpace { .. } => true,
            _ => false,
        };
        let path = self.path.display();
        if !(access.is_write() && is_short && self.image.is_some()) {
            return Error::from(error).context(path);
        }
        let blocks = self.device.geometry().peb_count();
        Error::new(format!(
            "{path}: the image has {blocks} eraseblocks, its volumes and reserves need more: it is \
             shorter than its flash ({error})"
        ))
        .hint(size_hint(args))
    }

    fn can_only_be_read(&self, reason: ReadOnlyReason, args: &FlashOptions) -> Error {
        let path = self.path.display();
        let failure = Error::new(format!("{path}: the device can only be read: {reason}"));
        match reason {
            ReadOnlyReason::NotEnoughBlocks => failure.hint(size_hint(args)),
            ReadOnlyReason::InternalVolume => failure.hint(
                Setting::ForceRw
                    + " writes to the other volumes, if everything on flash is as it should be",
            ),
            _ => failure,
        }
    }

    /// Where the headers are, or will be on a flash without any. Fails if the sizes are impossible
    /// or contradict the headers.
    pub fn layout_or_usual(&self, sizes: &Sizes) -> Result<HeaderLayout, Error> {
        self.layout.map_or_else(|| image::usual_layout(self.device.as_ref(), sizes), Ok)
    }

    /// Returns the volume that was named after the target. Fails if none was named, or if there is
    /// no such volume.
    pub fn named_volume(&self, ubi: &UbiDevice) -> Result<VolumeInfo, Error> {
        let path = self.path.display();
        let name = self.volume.as_deref().ok_or_else(|| {
            Error::usage(format!("{path}: which volume?")).hint(format!("{path}:VOLUME names it"))
        })?;
        find(ubi, name).context(path)
    }

    /// Refuses a volume name after a target that is used as a whole.
    pub fn refuse_volume(&self) -> Result<(), Error> {
        match &self.volume {
            None => Ok(()),
            Some(_) => Err(Error::usage("this command is about the whole flash, not a volume")),
        }
    }
}

/// The volume of this name, or else of this number. Fails with the list of volumes if there is
/// none.
pub fn find(ubi: &UbiDevice, name: &[u8]) -> Result<VolumeInfo, Error> {
    let number = std::str::from_utf8(name).ok().and_then(|text| text.parse::<u32>().ok());
    let mut volumes = ubi.volumes();
    let place = volumes
        .iter()
        .position(|volume| volume.name.as_bytes() == name)
        .or_else(|| volumes.iter().position(|volume| Some(volume.id.get()) == number));
    if let Some(place) = place {
        return Ok(volumes.swap_remove(place));
    }
    let shown = |bytes: &[u8]| crate::text::name(bytes);
    let names: Vec<String> = volumes.iter().map(|volume| shown(volume.name.as_bytes())).collect();
    Err(Error::new(format!("there is no volume `{}`", shown(name)))
        .hint(format!("the volumes are: {}", names.join(", "))))
}

/// A device, and what else is known of it. Nodes and disks lock themselves.
struct Found {
    device: Arc<dyn Mtd>,
    chip: Option<Arc<Chip>>,
    threshold: u16,
    image: Option<Arc<WritableImage>>,
    /// The image may have grown, but was not asked to.
    image_for_a_while: bool,
    lock: Option<File>,
}

impl Found {
    fn plain(device: Arc<dyn Mtd>) -> Self {
        let (image, image_for_a_while) = (None, false);
        Self { device, chip: None, threshold: 1, image, image_for_a_while, lock: None }
    }

    fn driven(driven: Driven) -> Self {
        let Driven { device, chip, threshold } = driven;
        Self { chip, threshold, ..Self::plain(device) }
    }
}

fn open_device(place: &Place, args: &FlashOptions, access: Access) -> Result<Found, Error> {
    let path = place.path.as_path();
    let shape = Shape { sizes: args.sizes.clone(), ..Shape::default() };
    let span = span::one(place, &shape)?;
    if driver::node(path)? == Some(Node::Mtd) {
        return Ok(Found::driven(driver::mtd(path, access)?));
    }
    if let Some(chip) = driver::chip(path, access)? {
        return Ok(Found::driven(chip));
    }
    if let Some(disk) = driver::disk(path, access)? {
        return Ok(Found::driven(disk));
    }
    open_image(path, span.filter(|span| !span.is_whole), args, access)
}

fn open_image(
    path: &Path,
    part: Option<Span>,
    args: &FlashOptions,
    access: Access,
) -> Result<Found, Error> {
    let mut file = file_bytes::open(path)?;
    let file_size = file.size()?;
    if let Some(part) = part {
        file = part.of(file)?;
    }
    let sizes = &args.sizes;
    if let Some(dump) = raw_dump::dump_of(&file, sizes)? {
        if access.is_write() {
            return Err(raw_dump::only_read());
        }
        file = Arc::new(dump);
    }
    let mut shape = match (detect(file.as_ref(), &image::hints(sizes))?, sizes.peb, sizes.page) {
        (Some(found), ..) => found.shape(),
        (None, Some(peb_size), Some(min_io)) => {
            let subpage = sizes.subpage.unwrap_or(min_io);
            ImageShape { start: 0, peb_size, min_io, subpage, peb_count: None }
        }
        (None, ..) => {
            return Err(Error::new("neither a simulated chip nor a UBI image").hint(
                Setting::Peb
                    + " and "
                    + Setting::Page
                    + " state the sizes of a flash without headers; "
                    + Setting::MakeFlash
                    + " makes a flash of a disk",
            ));
        }
    };
    if !access.is_write() {
        return Ok(Found::plain(Arc::new(ImageFile::new(file, &shape)?)));
    }
    if let Some(part) = part.filter(|part| !part.is_certain) {
        return Err(is_guessed(path, part));
    }
    let lock = lock(path, access)?;
    let wanted = args.flash_size.map(|size| size / u64::from(shape.peb_size));
    let wanted = wanted.map(u32::try_from).transpose();
    let wanted = wanted.map_err(|_| Error::usage(Setting::FlashSize + ": too large"))?;
    let is_last = part.is_none_or(|part| part.offset.saturating_add(part.length) >= file_size);
    let wanted = args.blocks.or(wanted);
    let is_asked = wanted.is_some();
    let wanted = match wanted {
        // Where something else follows, the flash is as large as the room before that.
        None if !args.as_it_is && is_last => known_blocks(&file, &shape, args)?,
        wanted => wanted,
    };
    if args.fastmap && wanted.is_none() {
        return Err(Error::usage(
            Setting::Fastmap
                + ": how many eraseblocks the flash has is not known: a fastmap lists all of \
                   them, an image file may have fewer",
        )
        .hint(size_hint(args)));
    }
    shape.peb_count = wanted.or(shape.peb_count);
    if let Some(part) = part {
        shape = placed(shape, part, file_size)?;
    }
    let image = WritableImage::open_undoable(path, &shape, tempfile::tempfile()?)?;
    let image = Arc::new(image);
    let image_for_a_while = !is_asked && !args.as_it_is && is_last;
    Ok(Found {
        image: Some(image.clone()),
        image_for_a_while,
        lock: Some(lock),
        ..Found::plain(image)
    })
}

/// The most bytes that an image file grows by without being asked.
const MOST_GROWTH: u64 = 1 << 30;

/// Eraseblocks of the flash that an image is made for, as far as the image says: a fastmap lists them
/// all, and volumes have at least their sizes. `None` if a volume is yet to take what is free.
fn known_blocks(
    file: &Arc<dyn ReadAt>,
    shape: &ImageShape,
    args: &FlashOptions,
) -> Result<Option<u32>, Error> {
    let device = ImageFile::new(Arc::clone(file), shape)?;
    let here = device.geometry().peb_count();
    let Some(layout) = image::layout(&device, &args.sizes)? else { return Ok(None) };
    if let Some(blocks) = described_peb_count(&device, &layout).filter(|blocks| *blocks >= here) {
        return Ok(Some(blocks));
    }
    let attached = attach(&device, &layout, &AttachOptions::default())?;
    let grows = |volume: &VolumeInfo| volume.flags.contains(VolumeFlags::AUTORESIZE);
    if args.fastmap || attached.linux_refuses.is_some() || attached.volumes.iter().any(grows) {
        return Ok(None);
    }
    let counts = &attached.counts;
    let lost = counts.corrupted + counts.alien + counts.foreign + counts.unreadable;
    let lebs: u64 = attached.volumes.iter().map(|one| u64::from(one.reserved_lebs)).sum();
    let needed = lebs + u64::from(accounting::OVERHEAD + lost);
    let growth = needed.saturating_sub(u64::from(here)) * u64::from(shape.peb_size);
    let may_grow = (1..=MOST_GROWTH).contains(&growth);
    Ok(if may_grow { u32::try_from(needed).ok() } else { None })
}

/// Why nothing is written to a part whose end is not known.
fn is_guessed(path: &Path, part: Span) -> Error {
    let (shown, Span { offset, length, .. }) = (path.display(), part);
    Error::new(format!("where the UBI at byte {offset} ends is a guess: nothing is written"))
        .hint(format!("FILE@OFFSET+LENGTH says it: {shown}@{offset}+{length} if that is right"))
}

/// The shape of a flash that is a part of a file: no block lies outside, so that nothing that follows
/// is written over.
fn placed(mut shape: ImageShape, part: Span, file_size: u64) -> Result<ImageShape, Error> {
    shape.start = shape.start.saturating_add(part.offset);
    let end = part.offset.saturating_add(part.length);
    if end >= file_size {
        return Ok(shape);
    }
    let blocks = end.saturating_sub(shape.start) / u64::from(shape.peb_size.max(1));
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    if shape.peb_count.is_some_and(|wanted| wanted > blocks) {
        return Err(Error::usage(format!(
            "the flash cannot grow: something else begins at byte {end} of the file"
        )));
    }
    shape.peb_count = Some(blocks);
    Ok(shape)
}
