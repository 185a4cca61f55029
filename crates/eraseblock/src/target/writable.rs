//! A file system opened for changing, or for a thorough look: on an image file, a simulated chip
//! or `/dev/mtdX`, in a UBI volume or bare.

use super::driver::{self, Chip, Node};
use super::flash::{self, Flash};
use super::formats::{self, Found, Medium};
use super::image::{self, Image};
use super::lock::lock;
use super::span::{self, Span};
use super::yaffs_writable;
use super::{
    FlashOptions, Format, Place, Shape, Wanted, bare, file_bytes, jffs2_image, magic, peek,
};
use crate::error::{Context, Error, Setting, Words};
use crate::observe::Observer;
use crate::recovery::{self, TURNED};
use eraseblock_base::{Findings, VolumeId};
use eraseblock_jffs2::{Compression as Jffs2Compression, Jffs2Rw, RwOptions};
use eraseblock_mtd::{Access, CountedMtd, LebDevice, Mtd, WritableDump};
use eraseblock_ubi::{UbiDevice, VolumeInfo};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{FsError, FsErrorKind, WritableFileSystem};
use eraseblock_yaffs::{Layout, YaffsRw};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// How to open.
#[allow(clippy::struct_excessive_bools)] // each of them is independent
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Change nothing.
    pub read_only: bool,
    /// Size of the target flash in bytes, if larger than the image.
    pub size: Option<u64>,
    /// Compressor of what is written; the file system's own if not given.
    pub compression: Option<Compression>,
    /// Bytes kept in memory, about.
    pub cache: Option<usize>,
    /// Everything is durable when an operation returns.
    pub sync: bool,
    /// No bulk read.
    pub nodes_alone: bool,
    /// Leave a fastmap on the flash.
    pub fastmap: bool,
}

impl Mode {
    /// Change nothing.
    pub const READ_ONLY: Self = Self {
        read_only: true,
        size: None,
        compression: None,
        cache: None,
        sync: false,
        nodes_alone: false,
        fastmap: false,
    };

    /// The same for UBIFS.
    pub fn ubifs(self) -> MountOptions {
        let usual = MountOptions::default();
        MountOptions {
            read_only: self.read_only,
            compression: self.compression,
            sync: self.sync,
            bulk_read: !self.nodes_alone,
            dirty_bytes: self.cache.map_or(usual.dirty_bytes, |bytes| bytes / 2),
            index_bytes: self.cache.map_or(usual.index_bytes, |bytes| bytes / 2),
            ..usual
        }
    }

    fn access(self) -> Access {
        if self.read_only { Access::Read } else { Access::Write }
    }

    fn jffs2(self) -> Result<RwOptions, Error> {
        let compression = match self.compression {
            None => Jffs2Compression::Priority,
            Some(Compression::None) => Jffs2Compression::None,
            Some(Compression::Lzo) => Jffs2Compression::Lzo,
            Some(Compression::Zlib) => Jffs2Compression::Zlib,
            Some(Compression::Zstd) => {
                return Err(Error::usage("compressor=zstd: JFFS2 has no zstd"));
            }
        };
        Ok(RwOptions { read_only: self.read_only, compression, ..RwOptions::default() })
    }
}

#[derive(Clone, Debug)]
enum Mounted {
    Ubifs(Arc<UbifsMount>),
    Jffs2(Arc<Jffs2Rw>),
    Yaffs(Arc<YaffsRw>),
}

/// The layers below writable file systems, which are closed after them.
#[derive(Debug, Default)]
pub struct Below {
    /// The UBI device.
    pub ubi: Option<UbiDevice>,
    /// The simulated chip.
    pub chip: Option<Arc<Chip>>,
    /// The flash, counting.
    pub counted: Option<Arc<CountedMtd>>,
    device: Option<Arc<dyn Mtd>>,
    /// Keeps the lock of an image file.
    flash: Option<Flash>,
    /// A fastmap is written at the end.
    fastmap: bool,
    /// Keeps other writers away where nothing else does.
    lock: Option<File>,
    /// A raw dump, whose changes are undone unless they are kept.
    dump: Option<Arc<WritableDump>>,
}

impl Below {
    /// Does one bounded piece of UBI's background work; says whether there is more. Fails if the
    /// device does.
    pub fn background_step(&self) -> Result<bool, FsError> {
        let step = self.ubi.as_ref().map(UbiDevice::background_step);
        let step = step.unwrap_or(Ok(false));
        step.map_err(|error| FsError::from_source(FsErrorKind::Io, error))
    }

    fn rest(&self) -> Result<(), Error> {
        if let Some(ubi) = &self.ubi {
            ubi.flush()?;
            if self.fastmap {
                ubi.detach()?;
            }
            ubi.sync()?;
        }
        if let Some(device) = &self.device {
            device.sync()?;
        }
        Ok(())
    }

    /// Keeps the changes to an image file that were made so far, and those to come. Until then, a
    /// failure leaves the file as it was.
    pub fn keep(&self) {
        if let Some(flash) = &self.flash {
            flash.keep();
        }
        if let Some(dump) = &self.dump {
            dump.keep();
        }
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct Writable {
    fs: Mounted,
    below: Arc<Below>,
    volume: Option<VolumeId>,
    read_only: bool,
    /// What the user pointed at.
    target: OsString,
}

impl Writable {
    /// The file system.
    pub fn fs(&self) -> &dyn WritableFileSystem {
        match &self.fs {
            Mounted::Ubifs(fs) => &**fs,
            Mounted::Jffs2(fs) => &**fs,
            Mounted::Yaffs(fs) => &**fs,
        }
    }

    /// The file system for many users at once.
    pub fn shared(&self) -> Arc<dyn WritableFileSystem> {
        match self.fs.clone() {
            Mounted::Ubifs(fs) => fs,
            Mounted::Jffs2(fs) => fs,
            Mounted::Yaffs(fs) => fs,
        }
    }

    /// The number of the UBI volume that it is in, if it is in one.
    pub fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    /// What it stands on.
    pub fn below(&self) -> &Arc<Below> {
        &self.below
    }

    /// What the user pointed at.
    pub fn target(&self) -> &OsStr {
        &self.target
    }

    /// A failure with its reason and the next step, if the file system turned read-only over it.
    pub fn explained(&self, failure: Error) -> Error {
        let reason = if self.read_only { None } else { self.fs().why_read_only() };
        match reason {
            None => failure,
            Some(reason) if failure.message().contains(TURNED) => failure.because(&reason),
            Some(reason) => failure
                .because(&format!("{TURNED}: {reason}"))
                .also(recovery::after_read_only(&self.target)),
        }
    }

    /// Verifies every structure; what does not hold is a finding or, at worst, the error.
    pub fn check(&self) -> Result<Findings, FsError> {
        match &self.fs {
            Mounted::Ubifs(fs) => {
                fs.check().map_err(|error| FsError::from_source(FsErrorKind::Corrupted, error))
            }
            Mounted::Jffs2(fs) => fs.check().map(|()| Findings::new()),
            Mounted::Yaffs(fs) => fs.check().map(|()| Findings::new()),
        }
    }

    /// What was found since the mount.
    pub fn late_findings(&self) -> Findings {
        match &self.fs {
            Mounted::Ubifs(_) | Mounted::Yaffs(_) => Findings::new(),
            Mounted::Jffs2(fs) => fs.late_findings(),
        }
    }

    /// Unmounts and hands over what was found. Fails if not everything could be written.
    pub fn close(self, observer: &mut dyn Observer) -> Result<(), Error> {
        observer.report(self.late_findings());
        self.rest()
    }

    /// Unmounts: afterwards everything is in the image. Fails if not everything could be written.
    pub fn rest(&self) -> Result<(), Error> {
        if self.read_only {
            return Ok(());
        }
        let unmounted = self.fs().unmount().map_err(Error::from);
        let done = unmounted.and_then(|()| self.below.rest());
        let shown = self.target.display();
        match (done, self.fs().why_read_only()) {
            (Err(failure), _) => Err(self.explained(failure)),
            (Ok(()), Some(_)) => Err(self.explained(Error::new(shown.to_string()))),
            (Ok(()), None) => Ok(()),
        }
    }
}

/// Opens what the arguments point at. Fails if it cannot be written to, or if no file system is
/// found.
pub fn open(args: &Wanted, mode: Mode, observer: &mut dyn Observer) -> Result<Writable, Error> {
    let volume = Place::parse(&args.target)?.volume;
    let mut opened = open_volumes(args, &[volume], mode, observer)?;
    opened.pop().ok_or_else(|| Error::new("nothing was opened"))
}

/// Opens these volumes on the flash that the arguments point at. Fails like [`open`], for any of
/// them.
pub fn open_volumes(
    args: &Wanted,
    volumes: &[Option<Vec<u8>>],
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Vec<Writable>, Error> {
    open_at(&Place::parse(&args.target)?, args, volumes, mode, observer)
}

/// Opens the file system that `place` names without changing it: repairs stay in memory. Fails like
/// [`open`].
#[cfg(feature = "extract")]
pub(crate) fn open_to_look(
    place: &Place,
    shape: &Shape,
    observer: &mut dyn Observer,
) -> Result<Writable, Error> {
    let args = Wanted { target: place.target(), shape: shape.clone() };
    let volume = place.volume.clone();
    let mut opened = open_at(place, &args, &[volume], Mode::READ_ONLY, observer)?;
    opened.pop().ok_or_else(|| Error::new("nothing was opened"))
}

fn open_at(
    place: &Place,
    args: &Wanted,
    volumes: &[Option<Vec<u8>>],
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Vec<Writable>, Error> {
    image::refuse_folder(&place.path)?;
    observer.reads(&place.path);
    if mode.read_only {
        observer.keep_still(&place.path)?;
    }
    let alone = |opened: Writable| match volumes {
        [_] => Ok(vec![opened]),
        _ => Err(Error::usage(format!("{}: there are no volumes in it", place.path.display()))),
    };
    let no_ubi = || {
        let path = format!("{}: ", place.path.display());
        let message = Words::from(path) + Setting::Fastmap + ": there is no UBI in it";
        if mode.fastmap { Err(Error::usage(message)) } else { Ok(()) }
    };
    let span = span::one(place, &args.shape)?;
    let opened = match held(place, span, &args.shape)? {
        Held::Yaffs(_) if mode.read_only => return Err(yaffs_writable::only_read(&place.path)),
        Held::Yaffs(layout) => {
            no_ubi()?;
            Some(open_yaffs(place, span, layout, args, mode, observer))
        }
        Held::Jffs2 => {
            no_ubi()?;
            Some(open_jffs2(place, span, args, mode, observer))
        }
        Held::Read(format) => return Err(formats::only_read(&place.path, format)),
        Held::Other => None,
    };
    if let Some(opened) = opened {
        return alone(opened.context(place.path.display())?);
    }
    if mode.read_only {
        return alone(read_ubifs(place, span, args, observer)?);
    }
    if driver::node(&place.path)? == Some(Node::UbiVolume) {
        no_ubi()?;
        let opened = open_volume_node(place, mode, observer).context(place.path.display())?;
        return alone(opened);
    }
    if let Some(part) = span.filter(|span| !span.is_whole)
        && bare::is_part(&place.path, part)?
    {
        return Err(bare::can_only_be_read(&place.path, part));
    }
    if place.at.is_none() && bare::is_one(&place.path, &args.shape)? {
        no_ubi()?;
        return alone(open_bare(place, args, mode, observer)?);
    }
    open_ubifs(args, volumes, mode, observer)
}

/// What is on a flash, or in an image of one, as far as it matters to who mounts it.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// A JFFS2, or an erased flash, on which one can be.
    Jffs2,
    /// A YAFFS, and its layout unless the user stated the format.
    Yaffs(Option<Layout>),
    /// A file system that is only read.
    Read(Format),
    /// UBI or UBIFS.
    Other,
}

/// Returns what is on a flash or in an image, before it is opened. Fails if it cannot be read.
pub(crate) fn held(place: &Place, span: Option<Span>, shape: &Shape) -> Result<Held, Error> {
    let Some(medium) = medium(place, span)? else { return Ok(Held::Other) };
    Ok(match formats::detect(&medium, shape)? {
        Some(Found::Jffs2) => Held::Jffs2,
        Some(Found::Yaffs(layout)) => Held::Yaffs(layout),
        Some(Found::Read(at)) => Held::Read(at.reader.format()),
        None if shape.format.is_none() && jffs2_image::is_in(medium, shape)? => Held::Jffs2,
        _ => Held::Other,
    })
}

/// Where the format of a place shows; `None` for a device that holds a UBI volume, and for a disk that
/// was made a flash, on which only UBI is found.
fn medium(place: &Place, span: Option<Span>) -> Result<Option<Medium>, Error> {
    match driver::node(&place.path)? {
        None => {}
        Some(Node::Mtd) => {
            let device = driver::mtd(&place.path, Access::Read)?.device;
            return Ok(Some(Medium::Device(device)));
        }
        Some(_) => return Ok(None),
    }
    if let Some(chip) = driver::chip(&place.path, Access::Read)? {
        return Ok(Some(Medium::Device(chip.device)));
    }
    let mut file = file_bytes::open(&place.path)?;
    if let Some(span) = span {
        file = span.of(file)?;
    }
    let is_flash = magic::is_flash(&image::beginning(file.as_ref())?);
    Ok((!is_flash).then_some(Medium::Image(file)))
}

fn open_jffs2(
    place: &Place,
    span: Option<Span>,
    args: &Wanted,
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Writable, Error> {
    if let Some(volume) = &place.volume {
        let volume = crate::text::name(volume);
        return Err(Error::new(format!("there is no volume `{volume}`: this is JFFS2")));
    }
    let mut options = RwOptions { order: args.shape.byte_order, ..mode.jffs2()? };
    let below = below_jffs2(place, span, args, mode, &mut options)?;
    let device = below.device.clone().ok_or_else(|| Error::new("no flash"))?;
    let (fs, report) = Jffs2Rw::mount(device, &options)?;
    observer.report(report.findings);
    let fs = Mounted::Jffs2(Arc::new(fs));
    let (below, target) = (Arc::new(below), place.target());
    Ok(Writable { fs, below, volume: None, read_only: mode.read_only, target })
}

impl Below {
    /// Opens a flash device or a chip; returns `None` for a file that is an image.
    fn open_flash(&mut self, path: &Path, access: Access) -> Result<Option<Arc<dyn Mtd>>, Error> {
        if driver::node(path)? == Some(Node::Mtd) {
            return Ok(Some(driver::mtd(path, access)?.device));
        }
        let found = if access.is_write() {
            driver::chip(path, access)?
        } else {
            driver::chip_in_memory(path)?
        };
        Ok(found.map(|found| {
            self.chip = found.chip;
            found.device
        }))
    }

    /// Counts what is done to the flash from now on.
    fn count(&mut self, device: Arc<dyn Mtd>) -> Arc<CountedMtd> {
        let counted = Arc::new(CountedMtd::new(device));
        self.device = Some(Arc::clone(&counted) as Arc<dyn Mtd>);
        self.counted = Some(Arc::clone(&counted));
        counted
    }
}

/// The flash under a JFFS2. An image has no flash to ask: `options` gets what the image shows of it.
fn below_jffs2(
    place: &Place,
    span: Option<Span>,
    args: &Wanted,
    mode: Mode,
    options: &mut RwOptions,
) -> Result<Below, Error> {
    let path = place.path.as_path();
    let access = mode.access();
    let write = access.is_write();
    let mut below = Below::default();
    let device = if let Some(device) = below.open_flash(path, access)? {
        device
    } else {
        below.lock = if write { Some(lock(path, access)?) } else { None };
        let part = span.filter(|span| !span.is_whole);
        if write && let Some(part) = part {
            return Err(jffs2_image::is_a_part(path, part));
        }
        let image = jffs2_image::open(path, part, &args.shape, mode.size, access)?;
        options.order = Some(image.order);
        options.cleanmarker = image.cleanmarker;
        image.device
    };
    below.count(device);
    Ok(below)
}

fn open_yaffs(
    place: &Place,
    span: Option<Span>,
    layout: Option<Layout>,
    args: &Wanted,
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Writable, Error> {
    place.refuse_volume()?;
    if mode.compression.is_some_and(|compression| compression != Compression::None) {
        return Err(Error::usage("compressor: YAFFS2 stores everything uncompressed"));
    }
    let (path, mut below, mut layout) = (place.path.as_path(), Below::default(), layout);
    let device = if let Some(device) = below.open_flash(path, Access::Write)? {
        device
    } else {
        below.lock = Some(lock(path, Access::Write)?);
        let (dump, found) = yaffs_writable::dump(path, span, layout, &args.shape, mode.size)?;
        layout = Some(found);
        below.dump = Some(Arc::clone(&dump));
        dump
    };
    let counted = below.count(device);
    let (fs, findings) = yaffs_writable::mount(path, counted, layout, &args.shape)?;
    observer.report(findings);
    let (fs, below) = (Mounted::Yaffs(Arc::new(fs)), Arc::new(below));
    Ok(Writable { fs, below, volume: None, read_only: false, target: place.target() })
}

/// A UBIFS that is only read: repairs stay in memory.
fn read_ubifs(
    place: &Place,
    span: Option<Span>,
    args: &Wanted,
    observer: &mut dyn Observer,
) -> Result<Writable, Error> {
    let device: Arc<dyn LebDevice> = match image::open_span(place, span, &args.shape, observer)? {
        Image::Ubifs(image) => {
            place.refuse_volume()?;
            image.device
        }
        Image::Ubi(image) => {
            image.report(observer)?;
            let volume = image.file_system_volume(place.volume.as_deref())?;
            let content = peek::content(&volume);
            if let Some(format) = content.read_only() {
                return Err(formats::only_read(&place.path, format));
            }
            match content {
                peek::Content::Jffs2 => {
                    return Err(Error::new("a JFFS2 in a UBI volume can only be read")
                        .hint("info, ls, cat and extract read it"));
                }
                peek::Content::Ubifs(sb) => Arc::new(volume.resized(sb.max_leb_cnt)),
                _ => Arc::new(volume),
            }
        }
        Image::Jffs2(_) => {
            return Err(Error::new(
                Words::from("JFFS2 inside another format: ") + Setting::Format.to("jffs2"),
            ));
        }
        Image::Yaffs(image) => return Err(yaffs_writable::only_read(&image.path)),
        Image::Read(image) => return Err(formats::only_read(&image.path, image.format)),
    };
    let (fs, findings) =
        UbifsMount::mount(device, Mode::READ_ONLY.ubifs()).context(place.path.display())?;
    observer.report_aside(findings);
    let (fs, below) = (Mounted::Ubifs(Arc::new(fs)), Arc::new(Below::default()));
    Ok(Writable { fs, below, volume: None, read_only: true, target: place.target() })
}

/// A UBIFS in a volume of the kernel's UBI.
fn open_volume_node(
    place: &Place,
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Writable, Error> {
    let node = driver::ubi_volume(&place.path)?;
    let (fs, findings) = UbifsMount::mount(node, mode.ubifs())?;
    observer.report(findings);
    let (fs, below) = (Mounted::Ubifs(Arc::new(fs)), Arc::new(Below::default()));
    Ok(Writable { fs, below, volume: None, read_only: false, target: place.target() })
}

/// A bare UBIFS image.
fn open_bare(
    place: &Place,
    args: &Wanted,
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Writable, Error> {
    place.refuse_volume()?;
    let lock = Some(lock(&place.path, Access::Write)?);
    let image = bare::open(&place.path, &args.shape, mode.size).context(place.path.display())?;
    let stored_bytes = image.cut_at;
    let device: Arc<dyn LebDevice> = Arc::new(image.device);
    let mount = |options| UbifsMount::mount(Arc::clone(&device), options);
    let mounted = match stored_bytes {
        None => mount(mode.ubifs()),
        // Before anything is written: that everything in use is there.
        Some(_) => mount(MountOptions { stored_bytes, ..Mode::READ_ONLY.ubifs() })
            .and_then(|_| mount(mode.ubifs())),
    };
    let (fs, findings) = mounted.context(place.path.display())?;
    observer.report(findings);
    let (fs, below) = (Mounted::Ubifs(Arc::new(fs)), Below { lock, ..Below::default() });
    let (below, target) = (Arc::new(below), place.target());
    Ok(Writable { fs, below, volume: None, read_only: false, target })
}

fn open_ubifs(
    args: &Wanted,
    volumes: &[Option<Vec<u8>>],
    mode: Mode,
    observer: &mut dyn Observer,
) -> Result<Vec<Writable>, Error> {
    let args = FlashOptions {
        target: args.target.clone(),
        blocks: None,
        flash_size: mode.size,
        size_in_bytes: true,
        as_it_is: false,
        fastmap: mode.fastmap,
        force: false,
        force_rw: false,
        sizes: args.shape.sizes.clone(),
    };
    let mut flash = Flash::open(&args, Access::Write)?;
    flash.on_trouble = observer.late_remark();
    let ubi = flash.ubi(&args, Access::Write)?;
    let mut mounts: Vec<(VolumeId, Mounted, OsString)> = Vec::new();
    for name in volumes {
        let volume = volume_of(&flash, name.as_deref(), &ubi)?;
        if mounts.iter().any(|(id, ..)| *id == volume.id) {
            return Err(Error::usage("a volume can be mounted for writing only once"));
        }
        let device = Arc::new(ubi.volume(volume.id)?);
        let mounted = UbifsMount::mount(device, mode.ubifs());
        // Only now, so that a UBIFS is mounted without more reads.
        if mounted.is_err()
            && let Some(format) = peek::content(&ubi.volume(volume.id)?).read_only()
        {
            return Err(formats::only_read(&flash.path, format));
        }
        let (fs, findings) = mounted.context(flash.path.display())?;
        observer.report(findings);
        let at = flash.at;
        let target = Place { path: flash.path.clone(), at, volume: name.clone() }.target();
        mounts.push((volume.id, Mounted::Ubifs(Arc::new(fs)), target));
    }
    // A fastmap says that free blocks have their headers.
    flash.cut_at_end = !mode.fastmap;
    let below = Arc::new(Below {
        ubi: Some(ubi),
        chip: flash.chip.clone(),
        counted: Some(Arc::clone(&flash.counted)),
        device: Some(Arc::clone(&flash.device)),
        flash: Some(flash),
        fastmap: mode.fastmap,
        lock: None,
        dump: None,
    });
    let writable = |(id, fs, target)| {
        let below = Arc::clone(&below);
        Writable { fs, below, volume: Some(id), read_only: false, target }
    };
    Ok(mounts.into_iter().map(writable).collect())
}

/// The volume that was named, the only one with a UBIFS, or the only one.
fn volume_of(flash: &Flash, name: Option<&[u8]>, ubi: &UbiDevice) -> Result<VolumeInfo, Error> {
    if let Some(name) = name {
        return flash::find(ubi, name).context(flash.path.display());
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
