//! An image file, opened as the UBI device, the bare UBIFS volume, the JFFS2 or the YAFFS that it is.

use super::filesystem::{self, Opened};
use super::formats::{self, Found, Located, Medium, ReadImage};
use super::span::{self, Span};
use super::yaffs::{self, YaffsImage};
use super::{Format, Place, Shape, Sizes, cut_short, file_bytes, magic, peek, raw_dump};
use crate::codes;
use crate::error::{Context, Error, Setting};
use crate::observe::Observer;
use crate::text;
use eraseblock_base::{Findings, Location, VolumeId};
use eraseblock_jffs2::{Jffs2, Jffs2Error, OpenOptions, Source, Survey};
use eraseblock_mtd::{LebDevice, LebFile, Mtd, RawDump, ReadAt};
use eraseblock_ubi::detect::{Hints, detect_layout};
use eraseblock_ubi::{AttachOptions, Attachment, Ubi, UbiVolume, VolumeInfo};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_yaffs::Source as PagesSource;
use std::cmp::Reverse;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Findings that say that an image may be a raw dump with out-of-band bytes between its pages.
const DAMAGE: [&str; 3] = [codes::NODE_DAMAGED.name(), codes::NO_NODE.name(), "foreign-block"];

/// An opened image.
#[derive(Debug)]
pub enum Image {
    /// A UBI device.
    Ubi(UbiImage),
    /// A bare UBIFS volume.
    Ubifs(BareUbifs),
    /// A JFFS2.
    Jffs2(Jffs2Image),
    /// A YAFFS.
    Yaffs(YaffsImage),
    /// A file system that is only read.
    Read(ReadImage),
}

/// A file with a UBI device in it.
#[derive(Debug)]
pub struct UbiImage {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// Where the first eraseblock begins.
    pub start: u64,
    /// The device, attached.
    pub ubi: Ubi,
    /// The raw dump that it is in, if there are out-of-band bytes between its pages.
    pub dump: Option<RawDump>,
    /// Whether offsets in the flash are offsets in the file, as they are not in the file of a simulated chip.
    pub is_plain: bool,
    /// The whole file, unless it is a device.
    pub(super) file: Option<Arc<dyn ReadAt>>,
}

/// A file that is a UBIFS volume.
#[derive(Debug)]
pub struct BareUbifs {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// Where the first LEB begins.
    pub start: u64,
    /// The file as LEBs.
    pub device: Arc<dyn LebDevice>,
}

/// A file with a JFFS2 in it.
#[derive(Debug)]
pub struct Jffs2Image {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// Where in the file the bytes begin that the file system counts from; `None` if offsets on the flash are
    /// none in the file.
    pub plain_start: Option<u64>,
    /// The file system.
    pub opened: Opened,
}

impl UbiImage {
    /// What attaching found.
    pub fn attachment(&self) -> &Attachment {
        self.ubi.attachment()
    }

    /// Hands what attaching found over to the observer. With `--strict`, what Linux would refuse is
    /// refused.
    pub fn report(&self, observer: &mut dyn Observer) -> Result<(), Error> {
        let mut findings = self.attachment().findings.clone();
        match &self.dump {
            Some(dump) => raw_dump::note(dump, &mut findings),
            None => cut_short::note(self, &mut findings),
        }
        observer.report_aside(findings);
        match &self.attachment().linux_refuses {
            Some(why) if observer.is_strict() => {
                let path = self.path.display();
                Err(Error::new(format!("{path}: Linux would refuse it: {}", why.message)))
            }
            _ => Ok(()),
        }
    }

    /// Opens a volume that attaching found. Fails if nothing is recognised there, or if it cannot
    /// be read.
    pub fn open(&self, info: &VolumeInfo) -> Result<UbiVolume, Error> {
        Ok(self.ubi.volume(info.id)?)
    }

    /// The volume that the user named, or the only one with a file system. Fails with the list of
    /// volumes if there is none or more than one.
    pub fn file_system_volume(&self, name: Option<&[u8]>) -> Result<UbiVolume, Error> {
        if let Some(name) = name {
            return self.named_volume(name);
        }
        let mut candidates = Vec::new();
        for info in &self.attachment().volumes {
            let volume = self.open(info)?;
            if peek::content(&volume).is_file_system() {
                candidates.push(volume);
            }
        }
        match (candidates.pop(), candidates.is_empty()) {
            (Some(volume), true) => Ok(volume),
            (None, _) => Err(self.choose("no volume holds a file system")),
            (Some(_), false) => Err(self.choose("several volumes hold a file system")),
        }
    }

    /// The volume of this name, or else of this number. Fails with the list of volumes if there is
    /// none.
    pub fn named_volume(&self, name: &[u8]) -> Result<UbiVolume, Error> {
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
    pub fn choose(&self, why: &str) -> Error {
        let path = self.path.display();
        let volumes = &self.attachment().volumes;
        let names: Vec<String> = volumes
            .iter()
            .map(|info| format!("{} (number {})", text::name(info.name.as_bytes()), info.id))
            .collect();
        let failure = Error::new(format!("{path}: {why}"));
        match names.first() {
            None => failure.hint("the image has no volumes"),
            Some(_) => {
                failure.hint(format!("{path}:VOLUME names one; there are {}", names.join(", ")))
            }
        }
    }
}

/// Checks the checksums of a static volume; returns whether they are right.
pub fn check_static(volume: &UbiVolume, observer: &mut dyn Observer) -> bool {
    let id = volume.info().id;
    let mut findings = Findings::new();
    for (leb, _) in volume.map().iter() {
        if let Err(error) = volume.check_leb(leb) {
            let at = Location::VolumeLeb(id, leb, 0);
            findings.error(at, codes::STATIC_DATA_CORRUPT, error.to_string());
        }
    }
    let is_right = findings.is_empty();
    observer.report(findings);
    is_right
}

/// Refuses a folder in the place of an image.
pub fn refuse_folder(path: &Path) -> Result<(), Error> {
    if !path.is_dir() {
        return Ok(());
    }
    Err(Error::new(format!("{}: is a folder, not an image", path.display()))
        .hint("`eraseblock mkfs` makes an image of a folder"))
}

/// Opens what the arguments point at. Fails if nothing is recognised there, or if it cannot be
/// read.
pub fn open(place: &Place, shape: &Shape, observer: &dyn Observer) -> Result<Image, Error> {
    let span = span::one(place, shape)?;
    open_span(place, span, shape, observer)
}

/// The shape under which end marks count or not.
pub(crate) fn strictly(shape: &Shape, observer: &dyn Observer) -> Shape {
    let sizes = Sizes { ignore_end_marks: observer.is_strict(), ..shape.sizes.clone() };
    Shape { sizes, ..shape.clone() }
}

/// Opens a part of a file, or a device. Fails like [`open`].
pub fn open_span(
    place: &Place,
    span: Option<Span>,
    shape: &Shape,
    observer: &dyn Observer,
) -> Result<Image, Error> {
    let path = &place.path;
    let shape = &strictly(shape, observer);
    let opened = match span {
        Some(span) => open_file(path, span, shape),
        None => match in_node(path, shape)? {
            Some(image) => return Ok(image),
            None => open_flash(path, shape),
        },
    };
    opened.context(path.display())
}

/// Opens what is on a device node; `None` if the path is none.
#[cfg(feature = "host")]
fn in_node(path: &Path, shape: &Shape) -> Result<Option<Image>, Error> {
    super::device::open(path, shape)
}

/// Opens what is on a device node, of which this build has none.
#[cfg(not(feature = "host"))]
#[allow(clippy::unnecessary_wraps)] // as with drivers
fn in_node(_: &Path, _: &Shape) -> Result<Option<Image>, Error> {
    Ok(None)
}

/// How UBI is attached only to be read.
pub fn attach_options(sizes: &Sizes) -> AttachOptions {
    AttachOptions { end_marks: !sizes.ignore_end_marks, ..AttachOptions::default() }
}

/// A simulated chip, or a disk that was made a flash.
fn open_flash(path: &Path, shape: &Shape) -> Result<Image, Error> {
    let file = File::open(path)?;
    let start = beginning(&file)?;
    #[cfg(feature = "chips")]
    if eraseblock_nandsim::is_chip_file(&start) {
        let chip = eraseblock_nandsim::Chip::open_read_only(path)?;
        return attach(path, Arc::new(chip), shape).map(not_plain);
    }
    #[cfg(feature = "host")]
    if eraseblock_mtd_host::is_block_flash(&start) {
        let device = eraseblock_mtd_host::BlockDevice::open(path, eraseblock_mtd::Access::Read);
        let device = Arc::new(device.map_err(super::device::failure)?);
        return attach(path, device, shape).map(not_plain);
    }
    if let Some(what) = magic::other_flash(&start) {
        return Err(Error::new(format!("this is {what}")).with_kind(crate::ErrorKind::Unsupported));
    }
    let span = Span { offset: 0, length: ReadAt::size(&file)?, is_whole: true, is_certain: true };
    open_file(path, span, shape)
}

/// The same of a file that holds more than the bytes of its flash.
#[cfg(any(feature = "chips", feature = "host"))]
fn not_plain(image: Image) -> Image {
    match image {
        Image::Ubi(ubi) => Image::Ubi(UbiImage { is_plain: false, ..ubi }),
        Image::Jffs2(image) => Image::Jffs2(Jffs2Image { plain_start: None, ..image }),
        other => other,
    }
}

/// The first bytes of something, as many as are looked at. Fails if they cannot be read.
pub fn beginning(image: &dyn ReadAt) -> Result<Vec<u8>, Error> {
    let len = usize::try_from(image.size()?).unwrap_or(usize::MAX).min(magic::LOOK);
    let mut start = vec![0; len];
    image.read_exact_at(&mut start, 0)?;
    Ok(start)
}

fn open_file(path: &Path, span: Span, shape: &Shape) -> Result<Image, Error> {
    open_bytes(path, file_bytes::open(path)?, span, shape)
}

/// Opens a part of a file that need not be one of this machine; errors call it `path`.
pub(crate) fn open_bytes(
    path: &Path,
    file: Arc<dyn ReadAt>,
    span: Span,
    shape: &Shape,
) -> Result<Image, Error> {
    let file_size = file.size()?;
    let part = span.of(Arc::clone(&file))?;
    let start = beginning(part.as_ref())?;
    let unknown = || unknown(&start);
    let source = Source::Image(Arc::clone(&part));
    let image = match formats::detect(&Medium::Image(Arc::clone(&part)), shape)? {
        Some(Found::Ubifs) => {
            open_bare(path, part, file_size, shape, &start).map(|bare| Some(Image::Ubifs(bare)))?
        }
        Some(Found::Jffs2) => open_jffs2(path, source, file_size, shape)?.map(Image::Jffs2),
        Some(Found::Yaffs(layout)) => {
            let pages = PagesSource::Image(Arc::clone(&part));
            yaffs::open(path, pages, file_size, layout, shape)?.map(Image::Yaffs)
        }
        Some(Found::Read(at)) => Some(open_read(path, &at, file_size).map(Image::Read)?),
        Some(Found::Ubi(_)) => open_ubi(path, &part, file_size, shape)?.map(Image::Ubi),
        None => match open_ubi(path, &part, file_size, shape)? {
            Some(image) => Some(Image::Ubi(image)),
            None => open_jffs2(path, source, file_size, shape)?.map(Image::Jffs2),
        },
    };
    let mut image = image.ok_or_else(unknown)?;
    match &mut image {
        Image::Ubi(image) => {
            image.start += span.offset;
            image.file = Some(file);
        }
        Image::Ubifs(image) => image.start += span.offset,
        Image::Jffs2(image) => {
            image.plain_start = image.plain_start.map(|start| start + span.offset);
        }
        Image::Yaffs(_) | Image::Read(_) => {}
    }
    Ok(image)
}

/// Opens a file system that is only read.
pub(super) fn open_read(path: &Path, at: &Located, file_size: u64) -> Result<ReadImage, Error> {
    let opened = filesystem::of_read(at, None)?;
    Ok(ReadImage { path: path.to_owned(), file_size, format: at.reader.format(), opened })
}

/// A JFFS2, opened or only looked at.
pub trait Looked: Sized {
    /// Opens it, or looks at it.
    fn look(source: Source, options: &OpenOptions) -> Result<(Self, Findings), Jffs2Error>;
    /// Bytes of its nodes.
    fn node_bytes(&self) -> u64;
}

impl Looked for Jffs2 {
    fn look(source: Source, options: &OpenOptions) -> Result<(Self, Findings), Jffs2Error> {
        Self::open(source, options)
    }

    fn node_bytes(&self) -> u64 {
        self.info().node_bytes
    }
}

impl Looked for Survey {
    fn look(source: Source, options: &OpenOptions) -> Result<(Self, Findings), Jffs2Error> {
        Jffs2::survey(&source, options)
    }

    fn node_bytes(&self) -> u64 {
        self.node_bytes
    }
}

/// A JFFS2 anywhere in an image or on a device, with what was found; `None` when there is no node
/// of one. A raw dump with out-of-band bytes is read without them. Fails if it cannot be read.
pub fn find_jffs2<T: Looked>(
    source: Source,
    options: &OpenOptions,
    page: Option<u32>,
) -> Result<Option<(T, Findings, Option<RawDump>)>, Error> {
    let open = |source| match T::look(source, options) {
        Ok(found) => Ok(Some(found)),
        Err(Jffs2Error::NotJffs2 { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let plain = open(source.clone())?;
    let is_whole =
        |findings: &Findings| findings.iter().all(|found| !DAMAGE.contains(&found.code.name()));
    let mut best = plain.map(|(jffs2, findings)| (jffs2, findings, None));
    let Source::Image(image) = source else { return Ok(best) };
    if best.as_ref().is_some_and(|(_, findings, _)| is_whole(findings)) || options.start.is_some() {
        return Ok(best);
    }
    for (size, oob) in RawDump::USUAL {
        let wanted = page.is_none_or(|page| page == size);
        if !wanted {
            continue;
        }
        let Some(dump) = RawDump::new(Arc::clone(&image), size, oob)? else { continue };
        let Some((jffs2, findings)) = open(Source::Image(Arc::new(dump.clone())))? else {
            continue;
        };
        // Nodes that a page border cuts are good only where the out-of-band bytes are left out.
        let rank =
            |jffs2: &T, findings: &Findings| (jffs2.node_bytes(), Reverse(findings.iter().count()));
        let found = rank(&jffs2, &findings);
        if best.as_ref().is_none_or(|best| found > rank(&best.0, &best.1)) {
            best = Some((jffs2, findings, Some(dump)));
        }
    }
    Ok(best)
}

/// A JFFS2 anywhere in an image or on a device; `None` when there is no node of one. Fails if it
/// cannot be read.
pub fn open_jffs2(
    path: &Path,
    source: Source,
    file_size: u64,
    shape: &Shape,
) -> Result<Option<Jffs2Image>, Error> {
    let options = OpenOptions {
        start: shape.start,
        erase_size: shape.sizes.peb,
        order: shape.byte_order,
        empty: shape.format == Some(Format::Jffs2),
    };
    let found = find_jffs2::<Jffs2>(source, &options, shape.sizes.page)?;
    Ok(found.map(|(jffs2, mut findings, dump)| {
        let plain_start = dump.is_none().then_some(0);
        if let Some(dump) = dump {
            raw_dump::note(&dump, &mut findings);
        }
        let opened = filesystem::of_jffs2(jffs2, findings);
        Jffs2Image { path: path.to_owned(), file_size, plain_start, opened }
    }))
}

/// Opens the UBI, the YAFFS or the JFFS2 on a flash.
pub(crate) fn attach(path: &Path, device: Arc<dyn Mtd>, shape: &Shape) -> Result<Image, Error> {
    let size = device.geometry().size();
    match formats::detect(&Medium::Device(Arc::clone(&device)), shape)? {
        Some(Found::Ubi(Some(layout))) => {
            let ubi = Ubi::attach(device, &layout, &attach_options(&shape.sizes))?;
            let (path, file_size) = (path.to_owned(), size);
            let (start, dump, file, is_plain) = (0, None, None, true);
            let ubi = UbiImage { path, file_size, start, ubi, dump, is_plain, file };
            return Ok(Image::Ubi(ubi));
        }
        Some(Found::Yaffs(layout)) => {
            let pages = PagesSource::Device(Arc::clone(&device));
            if let Some(image) = yaffs::open(path, pages, size, layout, shape)? {
                return Ok(Image::Yaffs(image));
            }
        }
        Some(Found::Read(at)) => return open_read(path, &at, size).map(Image::Read),
        _ => {}
    }
    let source = Source::Device(Arc::clone(&device));
    if let Some(image) = open_jffs2(path, source, size, shape)? {
        return Ok(Image::Jffs2(image));
    }
    let mut start = vec![0; magic::LOOK.min(device.geometry().peb_size() as usize)];
    device.read(0, &mut start)?;
    Err(unknown(&start))
}

/// Where UBI's headers are on a flash: as they say themselves, or as `sizes` demand; `None` if
/// there are none. Fails if the sizes are impossible or contradict the headers.
pub fn layout(device: &dyn Mtd, sizes: &Sizes) -> Result<Option<HeaderLayout>, Error> {
    match sizes.vid_offset {
        Some(_) => Ok(Some(usual_layout(device, sizes)?)),
        None => Ok(detect_layout(device)?),
    }
}

/// Where UBI's headers will be on a flash that has none. Fails if the sizes are impossible.
pub fn usual_layout(device: &dyn Mtd, sizes: &Sizes) -> Result<HeaderLayout, Error> {
    let geometry = device.geometry();
    let subpage = sizes.subpage.unwrap_or(geometry.subpage());
    let (peb_size, min_io) = (geometry.peb_size(), geometry.min_io());
    Ok(HeaderLayout::new(peb_size, min_io, subpage, sizes.vid_offset)?)
}

fn open_bare(
    path: &Path,
    file: Arc<dyn ReadAt>,
    file_size: u64,
    shape: &Shape,
    start: &[u8],
) -> Result<BareUbifs, Error> {
    let superblock = match peek::of_bytes(start, shape.leb.unwrap_or(1 << 20)) {
        peek::Content::Ubifs(superblock) => Some(superblock),
        _ => None,
    };
    let stated = |pick: fn(&eraseblock_ubifs_format::node::Superblock) -> u32| {
        superblock.as_deref().map(pick)
    };
    let unreadable = |setting: Setting| {
        Error::new("the UBIFS superblock cannot be read")
            .hint(setting + " replaces its missing value")
    };
    let leb_size =
        shape.leb.or(stated(|sb| sb.leb_size)).ok_or_else(|| unreadable(Setting::Leb))?;
    let page = shape.sizes.page.or(stated(|sb| sb.min_io_size));
    let min_io = page.ok_or_else(|| unreadable(Setting::Page))?;
    // The image is meant for a volume in which the file system can grow.
    let leb_count = stated(|sb| sb.max_leb_cnt.max(sb.leb_cnt));
    let device = Arc::new(LebFile::new(file, leb_size, min_io, leb_count)?);
    Ok(BareUbifs { path: path.to_owned(), file_size, start: 0, device })
}

/// What `sizes` say about a file beforehand.
pub fn hints(sizes: &Sizes) -> Hints {
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
    image: &Arc<dyn ReadAt>,
    file_size: u64,
    shape: &Shape,
) -> Result<Option<UbiImage>, Error> {
    let found = raw_dump::find_ubi(image, &shape.sizes)?;
    Ok(found.map(|raw_dump::Found { ubi, start, dump }| {
        let path = path.to_owned();
        UbiImage { path, file_size, start, ubi, dump, is_plain: true, file: None }
    }))
}

/// Why a file is nothing we open.
fn unknown(start: &[u8]) -> Error {
    match magic::recognise(start) {
        Some(known) => Error::new(format!("this is {}", known.name)).hint(known.hint()),
        None if start.is_empty() => Error::new("the file is empty"),
        None => Error::new("neither a UBI, a UBIFS, a JFFS2 nor a YAFFS image").hint(
            Setting::Format
                + " with "
                + Setting::Peb
                + " and "
                + Setting::Page
                + ", or "
                + Setting::Leb
                + ", say what it is when headers are missing",
        ),
    }
}
