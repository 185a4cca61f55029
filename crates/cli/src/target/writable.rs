//! A file system opened for changing, or for a thorough look: on an image file, a simulated chip
//! or `/dev/mtdX`, in a UBI volume or bare.

use super::flash::{self, Flash};
use super::image::{self, Image};
use super::{Place, magic, peek};
use crate::args::{FlashTargetArgs, Format, TargetArgs};
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock_base::Findings;
use eraseblock_jffs2::{Jffs2, Jffs2Rw, OpenOptions, RwOptions, Source};
use eraseblock_mtd::{ImageShape, LebDevice, Mtd, WritableImage};
use eraseblock_nandsim::Chip;
use eraseblock_ubi::{UbiDevice, VolumeInfo};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::{FsError, WritableFileSystem};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// How to open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    /// Nothing is to be changed.
    pub read_only: bool,
    /// Bytes the flash has behind an image that is shorter.
    pub size: Option<u64>,
}

#[derive(Debug)]
enum Mounted {
    Ubifs(Box<UbifsMount>),
    Jffs2(Box<Jffs2Rw>),
}

/// What has to be brought to rest when the file system is.
#[derive(Debug, Default)]
struct Below {
    ubi: Option<UbiDevice>,
    device: Option<Arc<dyn Mtd>>,
    /// Keeps the lock of an image file.
    _flash: Option<Flash>,
}

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Writable {
    fs: Mounted,
    below: Below,
    read_only: bool,
}

impl Writable {
    /// The file system.
    pub(crate) fn fs(&self) -> &dyn WritableFileSystem {
        match &self.fs {
            Mounted::Ubifs(fs) => &**fs,
            Mounted::Jffs2(fs) => &**fs,
        }
    }

    /// Verifies every structure; what does not hold is a finding or, at worst, the error.
    pub(crate) fn check(&self) -> Result<Findings, FsError> {
        match &self.fs {
            Mounted::Ubifs(fs) => fs.check().map_err(|error| {
                FsError::from_source(eraseblock_vfs::FsErrorKind::Corrupted, error)
            }),
            Mounted::Jffs2(fs) => fs.check().map(|()| Findings::new()),
        }
    }

    /// Unmounts and hands over what was found.
    pub(crate) fn close(self, session: &mut Session) -> Result<(), Failure> {
        if let Mounted::Jffs2(fs) = &self.fs {
            session.report(fs.late_findings());
        }
        if self.read_only {
            return Ok(());
        }
        self.fs().unmount()?;
        if let Some(ubi) = &self.below.ubi {
            ubi.flush()?;
            ubi.sync()?;
        }
        if let Some(device) = &self.below.device {
            device.sync()?;
        }
        Ok(())
    }
}

/// Opens what the arguments point at.
pub(crate) fn open(
    args: &TargetArgs,
    mode: Mode,
    session: &mut Session,
) -> Result<Writable, Failure> {
    let place = Place::parse(&args.target)?;
    if holds_jffs2(&place, args)? {
        return open_jffs2(&place, args, mode, session).context(place.path.display());
    }
    if mode.read_only { read_ubifs(&place, args, session) } else { open_ubifs(args, session) }
}

/// Whether there is a JFFS2, or a chip without a UBI, on which one can be.
fn holds_jffs2(place: &Place, args: &TargetArgs) -> Result<bool, Failure> {
    if let Some(format) = args.shape.format {
        return Ok(format == Format::Jffs2);
    }
    if flash::is_chip(&place.path)? {
        let chip = Chip::open_read_only(&place.path)?;
        return Ok(image::layout(&chip, &args.shape.sizes)?.is_none());
    }
    let mut start = [0; 2];
    let len = File::open(&place.path)?.read(&mut start)?;
    Ok(matches!(start[..len], [0x85, 0x19] | [0x19, 0x85]))
}

fn open_jffs2(
    place: &Place,
    args: &TargetArgs,
    mode: Mode,
    session: &mut Session,
) -> Result<Writable, Failure> {
    if let Some(volume) = &place.volume {
        let volume = crate::text::name(volume);
        return Err(Failure::new(format!("there is no volume `{volume}`: this is JFFS2")));
    }
    let device: Arc<dyn Mtd> = match (flash::is_chip(&place.path)?, mode.read_only) {
        (true, true) => Arc::new(Chip::load(&place.path)?),
        (true, false) => Arc::new(Chip::open(&place.path)?),
        (false, _) => Arc::new(jffs2_image(&place.path, args.shape.sizes.peb, mode)?),
    };
    let options = RwOptions { read_only: mode.read_only, ..RwOptions::default() };
    let (fs, report) = Jffs2Rw::mount(device.clone(), &options)?;
    session.report(report.findings);
    let below = Below { device: Some(device), ..Below::default() };
    Ok(Writable { fs: Mounted::Jffs2(Box::new(fs)), below, read_only: mode.read_only })
}

/// A JFFS2 image file as the flash it is meant for.
fn jffs2_image(path: &Path, peb: Option<u32>, mode: Mode) -> Result<WritableImage, Failure> {
    let options = OpenOptions { erase_size: peb, ..OpenOptions::default() };
    let (jffs2, _) = Jffs2::open(Source::Image(Arc::new(File::open(path)?)), &options)?;
    let shape = jffs2.info().shape;
    let blocks = mode.size.map(|size| size / u64::from(shape.erase_size));
    let blocks = blocks.map(u32::try_from).transpose();
    let shape = ImageShape {
        start: shape.start,
        peb_size: shape.erase_size,
        min_io: 1,
        subpage: 1,
        peb_count: blocks.map_err(|_| Failure::usage("--size: too large for JFFS2"))?,
    };
    Ok(WritableImage::open(path, &shape)?)
}

/// A UBIFS that is only read: repairs stay in memory.
fn read_ubifs(
    place: &Place,
    args: &TargetArgs,
    session: &mut Session,
) -> Result<Writable, Failure> {
    let device: Arc<dyn LebDevice> = match image::open(place, &args.shape)? {
        Image::Ubifs(image) => {
            place.refuse_volume()?;
            image.device
        }
        Image::Ubi(image) => {
            image.report(session)?;
            Arc::new(image.file_system_volume(place.volume.as_deref())?)
        }
        Image::Jffs2(_) => return Err(Failure::new("JFFS2 inside another format: --format jffs2")),
    };
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let (fs, findings) = UbifsMount::mount(device, options).context(place.path.display())?;
    session.report(findings);
    Ok(Writable { fs: Mounted::Ubifs(Box::new(fs)), below: Below::default(), read_only: true })
}

fn open_ubifs(args: &TargetArgs, session: &mut Session) -> Result<Writable, Failure> {
    let args = FlashTargetArgs {
        target: args.target.clone(),
        blocks: None,
        force: false,
        sizes: args.shape.sizes.clone(),
    };
    let place = Place::parse(&args.target)?;
    let mut start = vec![0; magic::LOOK];
    let len = File::open(&place.path)?.read(&mut start)?;
    if magic::is_ubifs(&start[..len]) {
        return Err(Failure::new(format!("{}: a bare UBIFS image", place.path.display()))
            .hint("it can be changed in a UBI volume: `eraseblock ubi update` puts it into one"));
    }
    let flash = Flash::open(&args, true)?;
    let ubi = flash.ubi(&args, true)?;
    let volume = Arc::new(ubi.volume(volume_of(&flash, &ubi)?.id)?);
    let mounted = UbifsMount::mount(volume, MountOptions::default());
    let (fs, findings) = mounted.context(flash.path.display())?;
    session.report(findings);
    let device = Some(Arc::clone(&flash.device));
    let below = Below { ubi: Some(ubi), device, _flash: Some(flash) };
    Ok(Writable { fs: Mounted::Ubifs(Box::new(fs)), below, read_only: false })
}

/// The volume that was named, the only one with a UBIFS, or the only one.
fn volume_of(flash: &Flash, ubi: &UbiDevice) -> Result<VolumeInfo, Failure> {
    if flash.volume.is_some() {
        return flash.named_volume(ubi);
    }
    let mut volumes = ubi.volumes();
    if volumes.len() == 1 {
        return Ok(volumes.remove(0));
    }
    let mut found = Vec::new();
    for info in volumes {
        let volume = ubi.volume(info.id)?;
        if peek::content(&volume).is_ubifs() {
            found.push(info);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        _ => flash.named_volume(ubi),
    }
}
