//! An image file, opened as the UBI device or the bare UBIFS volume that it is.

use super::{Place, device, magic, peek};
use crate::args::{Format, ShapeArgs, SizeArgs};
use crate::failure::{Context, Failure};
use crate::session::Session;
use crate::text;
use eraseblock_base::{Findings, Location, VolumeId};
use eraseblock_mtd::{ImageFile, LebDevice, LebFile, Mtd, ReadAt};
use eraseblock_nandsim::Chip;
use eraseblock_ubi::detect::{Hints, detect, detect_layout};
use eraseblock_ubi::{AttachOptions, Attachment, Ubi, UbiVolume, VolumeInfo};
use eraseblock_ubi_format::HeaderLayout;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened image.
#[derive(Debug)]
pub(crate) enum Image {
    /// A UBI device.
    Ubi(UbiImage),
    /// A bare UBIFS volume.
    Ubifs(BareUbifs),
}

/// A file with a UBI device in it.
#[derive(Debug)]
pub(crate) struct UbiImage {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// Where the first eraseblock begins.
    pub start: u64,
    /// The device, attached.
    pub ubi: Ubi,
}

/// A file that is a UBIFS volume.
#[derive(Debug)]
pub(crate) struct BareUbifs {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// The file as LEBs.
    pub device: Arc<dyn LebDevice>,
}

impl UbiImage {
    /// What attaching found.
    pub(crate) fn attachment(&self) -> &Attachment {
        self.ubi.attachment()
    }

    /// Hands what attaching found over to the session. With `--strict`, what Linux would refuse is
    /// refused.
    pub(crate) fn report(&self, session: &mut Session) -> Result<(), Failure> {
        session.report(self.attachment().findings.clone());
        match &self.attachment().linux_refuses {
            Some(why) if session.options.strict => {
                let path = self.path.display();
                Err(Failure::new(format!("{path}: Linux would refuse it: {}", why.message)))
            }
            _ => Ok(()),
        }
    }

    /// Opens a volume that attaching found.
    pub(crate) fn open(&self, info: &VolumeInfo) -> Result<UbiVolume, Failure> {
        Ok(self.ubi.volume(info.id)?)
    }

    /// The volume that the user named, or the only one with a file system.
    pub(crate) fn file_system_volume(&self, name: Option<&[u8]>) -> Result<UbiVolume, Failure> {
        if let Some(name) = name {
            return self.named_volume(name);
        }
        let mut candidates = Vec::new();
        for info in &self.attachment().volumes {
            let volume = self.open(info)?;
            if peek::content(&volume).is_ubifs() {
                candidates.push(volume);
            }
        }
        match (candidates.pop(), candidates.is_empty()) {
            (Some(volume), true) => Ok(volume),
            (None, _) => Err(self.choose("no volume holds a UBIFS")),
            (Some(_), false) => Err(self.choose("several volumes hold a UBIFS")),
        }
    }

    /// The volume of this name, or else of this number.
    pub(crate) fn named_volume(&self, name: &[u8]) -> Result<UbiVolume, Failure> {
        let attachment = self.attachment();
        let by_number = || {
            let number: u32 = std::str::from_utf8(name).ok()?.parse().ok()?;
            attachment.volume(VolumeId::new(number))
        };
        match attachment.volume_named(name).or_else(by_number) {
            Some(info) => self.open(info),
            None => Err(self.choose(&format!("there is no volume `{}`", text::name(name)))),
        }
    }

    /// An error that lists the volumes.
    pub(crate) fn choose(&self, why: &str) -> Failure {
        let path = self.path.display();
        let volumes = &self.attachment().volumes;
        let names: Vec<String> = volumes
            .iter()
            .map(|info| format!("{} (number {})", text::name(info.name.as_bytes()), info.id))
            .collect();
        let failure = Failure::new(format!("{path}: {why}"));
        match names.first() {
            None => failure.hint("the image has no volumes"),
            Some(_) => {
                failure.hint(format!("{path}:VOLUME names one; there are {}", names.join(", ")))
            }
        }
    }
}

/// Checks the checksums of a static volume; returns whether they are right.
pub(crate) fn check_static(volume: &UbiVolume, session: &mut Session) -> bool {
    let id = volume.info().id;
    let mut findings = Findings::new();
    for (leb, _) in volume.map().iter() {
        if let Err(error) = volume.check_leb(leb) {
            let at = Location::VolumeLeb(id, leb, 0);
            findings.error(at, "static-data-corrupt", error.to_string());
        }
    }
    let is_right = findings.is_empty();
    session.report(findings);
    is_right
}

/// Opens what the arguments point at.
pub(crate) fn open(place: &Place, shape: &ShapeArgs) -> Result<Image, Failure> {
    let path = &place.path;
    if path.is_dir() {
        return Err(Failure::new(format!("{}: is a folder, not an image", path.display()))
            .hint("`eraseblock mkfs ubifs` makes an image of a folder"));
    }
    match device::open(path, shape)? {
        Some(image) => Ok(image),
        None => open_file(path, shape).context(path.display()),
    }
}

fn open_file(path: &Path, shape: &ShapeArgs) -> Result<Image, Failure> {
    let file = File::open(path)?;
    let file_size = ReadAt::size(&file)?;
    let mut start = vec![0; magic::LOOK];
    let len = file.read_at(&mut start, 0)?;
    start.truncate(len);
    if eraseblock_nandsim::is_chip_file(&start) {
        let chip = Arc::new(Chip::open_read_only(path)?);
        return attach(path, chip, &shape.sizes).map(Image::Ubi);
    }
    let is_bare = match shape.format {
        Some(format) => format == Format::Ubifs,
        None => magic::is_ubifs(&start) || shape.leb.is_some(),
    };
    if is_bare {
        return open_bare(path, file, file_size, shape, &start).map(Image::Ubifs);
    }
    open_ubi(path, file, file_size, shape, &start).map(Image::Ubi)
}

/// Attaches the UBI on a flash.
pub(super) fn attach(
    path: &Path,
    device: Arc<dyn Mtd>,
    sizes: &SizeArgs,
) -> Result<UbiImage, Failure> {
    let geometry = *device.geometry();
    let Some(layout) = layout(device.as_ref(), sizes)? else {
        let mut start = vec![0; magic::LOOK.min(geometry.peb_size() as usize)];
        device.read(0, &mut start)?;
        return Err(unknown(&start));
    };
    let ubi = Ubi::attach(device, &layout, &AttachOptions::default())?;
    Ok(UbiImage { path: path.to_owned(), file_size: geometry.size(), start: 0, ubi })
}

/// Where UBI's headers are on a flash: as they say themselves, or as `sizes` demand; `None` if
/// there are none.
pub(super) fn layout(device: &dyn Mtd, sizes: &SizeArgs) -> Result<Option<HeaderLayout>, Failure> {
    match sizes.vid_offset {
        Some(_) => Ok(Some(usual_layout(device, sizes)?)),
        None => Ok(detect_layout(device)?),
    }
}

/// Where UBI's headers will be on a flash that has none.
pub(super) fn usual_layout(device: &dyn Mtd, sizes: &SizeArgs) -> Result<HeaderLayout, Failure> {
    let geometry = device.geometry();
    let subpage = sizes.subpage.unwrap_or(geometry.subpage());
    let (peb_size, min_io) = (geometry.peb_size(), geometry.min_io());
    Ok(HeaderLayout::new(peb_size, min_io, subpage, sizes.vid_offset)?)
}

fn open_bare(
    path: &Path,
    file: File,
    file_size: u64,
    shape: &ShapeArgs,
    start: &[u8],
) -> Result<BareUbifs, Failure> {
    let superblock = match peek::of_bytes(start, shape.leb.unwrap_or(1 << 20)) {
        peek::Content::Ubifs(superblock) => Some(superblock),
        _ => None,
    };
    let stated = |pick: fn(&eraseblock_ubifs_format::node::Superblock) -> u32| {
        superblock.as_deref().map(pick)
    };
    let unreadable = |option: &str| {
        Failure::new("the UBIFS superblock cannot be read")
            .hint(format!("{option} says what it would have told"))
    };
    let leb_size = shape.leb.or(stated(|sb| sb.leb_size)).ok_or_else(|| unreadable("--leb"))?;
    let page = shape.sizes.page.or(stated(|sb| sb.min_io_size));
    let min_io = page.ok_or_else(|| unreadable("--page"))?;
    // The image is meant for a volume in which the file system can grow.
    let leb_count = stated(|sb| sb.max_leb_cnt.max(sb.leb_cnt));
    let device = Arc::new(LebFile::new(file, leb_size, min_io, leb_count)?);
    Ok(BareUbifs { path: path.to_owned(), file_size, device })
}

/// What `sizes` say about a file beforehand.
pub(super) fn hints(sizes: &SizeArgs) -> Hints {
    Hints {
        peb_size: sizes.peb,
        min_io: sizes.page,
        subpage: sizes.subpage,
        vid_hdr_offset: sizes.vid_offset,
        ..Hints::default()
    }
}

fn open_ubi(
    path: &Path,
    file: File,
    file_size: u64,
    shape: &ShapeArgs,
    start: &[u8],
) -> Result<UbiImage, Failure> {
    let Some(detected) = detect(&file, &hints(&shape.sizes))? else {
        return Err(unknown(start));
    };
    let device = Arc::new(ImageFile::new(file, &detected.shape())?);
    let ubi = Ubi::attach(device, &detected.layout, &AttachOptions::default())?;
    Ok(UbiImage { path: path.to_owned(), file_size, start: detected.start, ubi })
}

/// Why a file is nothing we open.
fn unknown(start: &[u8]) -> Failure {
    match magic::recognise(start) {
        Some(known) => Failure::new(format!("this is {}", known.name)).hint(known.hint),
        None if start.is_empty() => Failure::new("the file is empty"),
        None => Failure::new("neither a UBI nor a UBIFS image").hint(
            "--format with --peb and --page, or --leb, say what it is when headers are missing",
        ),
    }
}
