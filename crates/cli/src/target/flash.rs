//! A flash that is written to: a simulated chip, an image file, `/dev/mtdX`, or a block device made
//! into one.

use super::lock::{self, lock};
use super::{Place, device, image, raw_dump};
use crate::args::{FlashTargetArgs, SizeArgs};
use crate::failure::{Context, Failure};
use eraseblock_mtd::{CountedMtd, ImageShape, Mtd, ReadAt, WritableImage};
use eraseblock_mtd_host::{BlockDevice, BlockShape, MtdChar, MtdOptions, NodeKind, is_block_flash};
use eraseblock_nandsim::{Chip, ChipFileError, is_chip_file};
use eraseblock_ubi::{OpenOptions, ReadOnlyReason, UbiDevice, UbiError, VolumeInfo, detect};
use eraseblock_ubi_format::HeaderLayout;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What helps where an image file lacks blocks.
pub(super) const SIZE_HINT: &str =
    "--size SIZE gives an image file the size of the flash it is made for";

/// An opened flash, and the volume that was named behind it.
#[derive(Debug)]
pub(crate) struct Flash {
    /// Where it is.
    pub path: PathBuf,
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
    /// Corrected bits from which on a block is to be renewed.
    bitflip_threshold: u16,
    /// A plain file that can grow.
    is_image_file: bool,
    /// Keeps other writers away.
    _lock: Option<File>,
}

impl Flash {
    /// Opens what the arguments point at, for writing if `write`.
    pub(crate) fn open(args: &FlashTargetArgs, write: bool) -> Result<Self, Failure> {
        let place = Place::parse(&args.target)?;
        let path = place.path.clone();
        Self::open_place(place, args, write).context(path.display())
    }

    /// Makes an erased flash of the block device or plain file that the arguments point at.
    pub(crate) fn make(args: &FlashTargetArgs) -> Result<Self, Failure> {
        let place = Place::parse(&args.target)?;
        let usual = BlockShape::default();
        let shape = BlockShape {
            peb_size: args.sizes.peb.unwrap_or(usual.peb_size),
            unit: args.sizes.page.unwrap_or(usual.unit),
        };
        let device =
            BlockDevice::create(&place.path, &shape, args.force).map_err(device::failure)?;
        Ok(Self::of(place, Found::plain(Arc::new(device)), None))
    }

    fn open_place(place: Place, args: &FlashTargetArgs, write: bool) -> Result<Self, Failure> {
        let path = place.path.as_path();
        let opened = open_device(path, args, write)?;
        let layout = image::layout(opened.device.as_ref(), &args.sizes)?;
        Ok(Self::of(place, opened, layout))
    }

    fn of(place: Place, found: Found, layout: Option<HeaderLayout>) -> Self {
        let counted = Arc::new(CountedMtd::new(found.device));
        Self {
            path: place.path,
            volume: place.volume,
            device: counted.clone(),
            counted,
            chip: found.chip,
            layout,
            bitflip_threshold: found.threshold.max(1),
            is_image_file: found.lock.is_some(),
            _lock: found.lock,
        }
    }

    /// Attaches the UBI on it.
    pub(crate) fn ubi(&self, args: &FlashTargetArgs, write: bool) -> Result<UbiDevice, Failure> {
        let path = self.path.display();
        let layout = self.layout.ok_or_else(|| {
            Failure::new(format!("{path}: no UBI on it")).hint(format!(
                "`eraseblock ubi format {path}` makes one; everything else on the flash is lost"
            ))
        })?;
        let options = OpenOptions {
            read_only: !write,
            force: args.force,
            force_rw: args.force_rw,
            bitflip_threshold: self.bitflip_threshold,
            ..OpenOptions::default()
        };
        let device = UbiDevice::open(Arc::clone(&self.device), &layout, &options);
        let device = device.map_err(|error| self.cannot_be_attached(error, write))?;
        if write && args.force_rw {
            device.verify_flash().context(self.path.display())?;
        }
        match device.read_only().filter(|_| write) {
            Some(reason) => Err(self.can_only_be_read(reason)),
            None => Ok(device),
        }
    }

    /// A file without the blocks that its volumes want: it may be shorter than its flash.
    fn cannot_be_attached(&self, error: UbiError, write: bool) -> Failure {
        let is_short = match &error {
            UbiError::Refused(refusal) => refusal.code == "volume-table-unusable",
            UbiError::NoSpace { .. } => true,
            _ => false,
        };
        let failure = Failure::from(error).context(self.path.display());
        if write && is_short && self.is_image_file { failure.hint(SIZE_HINT) } else { failure }
    }

    fn can_only_be_read(&self, reason: ReadOnlyReason) -> Failure {
        let path = self.path.display();
        let failure = Failure::new(format!("{path}: the device can only be read: {reason}"));
        match reason {
            ReadOnlyReason::NotEnoughBlocks => failure.hint(SIZE_HINT),
            ReadOnlyReason::InternalVolume => failure.hint(
                "--force-rw writes to the other volumes, if everything on flash is as it should be",
            ),
            _ => failure,
        }
    }

    /// Where the headers are, or will be on a flash without any.
    pub(crate) fn layout_or_usual(&self, sizes: &SizeArgs) -> Result<HeaderLayout, Failure> {
        self.layout.map_or_else(|| image::usual_layout(self.device.as_ref(), sizes), Ok)
    }

    /// The volume that was named behind the target.
    pub(crate) fn named_volume(&self, ubi: &UbiDevice) -> Result<VolumeInfo, Failure> {
        let path = self.path.display();
        let name = self.volume.as_deref().ok_or_else(|| {
            Failure::usage(format!("{path}: which volume?")).hint(format!("{path}:VOLUME names it"))
        })?;
        find(ubi, name).context(path)
    }

    /// Refuses a volume behind a target that is meant as a whole.
    pub(crate) fn refuse_volume(&self) -> Result<(), Failure> {
        match &self.volume {
            None => Ok(()),
            Some(_) => Err(Failure::usage("this command is about the whole flash, not a volume")),
        }
    }
}

/// The volume of this name, or else of this number.
pub(crate) fn find(ubi: &UbiDevice, name: &[u8]) -> Result<VolumeInfo, Failure> {
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
    Err(Failure::new(format!("there is no volume `{}`", shown(name)))
        .hint(format!("the volumes are: {}", names.join(", "))))
}

/// A device, and what else is known of it. Nodes and disks lock themselves.
struct Found {
    device: Arc<dyn Mtd>,
    chip: Option<Arc<Chip>>,
    threshold: u16,
    lock: Option<File>,
}

impl Found {
    fn plain(device: Arc<dyn Mtd>) -> Self {
        Self { device, chip: None, threshold: 1, lock: None }
    }
}

fn open_device(path: &Path, args: &FlashTargetArgs, write: bool) -> Result<Found, Failure> {
    if NodeKind::of(path).map_err(device::failure)? == Some(NodeKind::Mtd) {
        let options = MtdOptions { writable: write, ..MtdOptions::default() };
        let node = MtdChar::open(path, options).map_err(device::failure)?;
        let threshold = u16::try_from(node.facts().bitflip_threshold).unwrap_or(1);
        return Ok(Found { device: Arc::new(node), chip: None, threshold, lock: None });
    }
    if is_chip(path)? {
        let chip = open_chip(path, write)?;
        let threshold = (chip.config().ecc_bits() * 3).div_ceil(4);
        let chip = Arc::new(chip);
        return Ok(Found { device: chip.clone(), chip: Some(chip), threshold, lock: None });
    }
    if is_block_flash(&first_bytes(path)?) {
        let device = BlockDevice::open(path, write).map_err(device::failure)?;
        return Ok(Found::plain(Arc::new(device)));
    }
    let (device, lock) = open_image(path, args, write)?;
    Ok(Found { lock, ..Found::plain(device) })
}

/// Whether the file holds a simulated chip.
pub(crate) fn is_chip(path: &Path) -> Result<bool, Failure> {
    Ok(is_chip_file(&first_bytes(path)?))
}

/// The simulated chip in a file.
pub(crate) fn open_chip(path: &Path, write: bool) -> Result<Chip, Failure> {
    let opened = if write { Chip::open(path) } else { Chip::open_read_only(path) };
    opened.map_err(|error| match error {
        ChipFileError::InUse { .. } => lock::in_use(path),
        error => Failure::from(error).context(path.display()),
    })
}

/// What a file begins with.
fn first_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut start = Vec::new();
    File::open(path)?.take(16).read_to_end(&mut start)?;
    Ok(start)
}

fn open_image(
    path: &Path,
    args: &FlashTargetArgs,
    write: bool,
) -> Result<(Arc<dyn Mtd>, Option<File>), Failure> {
    let mut file: Arc<dyn ReadAt> = Arc::new(File::open(path)?);
    let sizes = &args.sizes;
    if let Some(dump) = raw_dump::dump_of(&file, sizes)? {
        if write {
            return Err(raw_dump::only_read());
        }
        file = Arc::new(dump);
    }
    let mut shape = match (detect(&file, &image::hints(sizes))?, sizes.peb, sizes.page) {
        (Some(found), ..) => found.shape(),
        (None, Some(peb_size), Some(min_io)) => {
            let subpage = sizes.subpage.unwrap_or(min_io);
            ImageShape { start: 0, peb_size, min_io, subpage, peb_count: None }
        }
        (None, ..) => {
            return Err(Failure::new("neither a simulated chip nor a UBI image")
                .hint("--peb and --page tell the sizes of a flash without headers; `ubi format --block-device` makes a flash of a disk"));
        }
    };
    if !write {
        return Ok((Arc::new(eraseblock_mtd::ImageFile::new(file, &shape)?), None));
    }
    let lock = lock(path, true)?;
    let wanted = args.flash_size.map(|size| size / u64::from(shape.peb_size));
    let wanted = wanted.map(u32::try_from).transpose();
    let wanted = wanted.map_err(|_| Failure::usage("--size: too large"))?;
    shape.peb_count = args.blocks.or(wanted).or(shape.peb_count);
    Ok((Arc::new(WritableImage::open(path, &shape)?), Some(lock)))
}
