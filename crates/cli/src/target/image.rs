//! An image file, opened as the UBI device, the bare UBIFS volume or the JFFS2 that it is.

use super::filesystem::{self, Opened};
use super::span::{self, Span};
use super::{Place, cut_short, device, jffs2_image, magic, peek, raw_dump};
use crate::args::{Format, ShapeArgs, SizeArgs};
use crate::failure::{Context, Failure};
use crate::session::Session;
use crate::text;
use eraseblock_base::{Findings, Location, VolumeId};
use eraseblock_jffs2::{Jffs2, Jffs2Error, OpenOptions, Source, Survey};
use eraseblock_mtd::{LebDevice, LebFile, Mtd, RawDump, ReadAt};
use eraseblock_mtd_host::{BlockDevice, is_block_flash};
use eraseblock_nandsim::Chip;
use eraseblock_ubi::detect::{Hints, detect_layout};
use eraseblock_ubi::{AttachOptions, Attachment, Ubi, UbiVolume, VolumeInfo};
use eraseblock_ubi_format::HeaderLayout;
use std::cmp::Reverse;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Findings that say that an image may be a raw dump with out-of-band bytes between its pages.
const DAMAGE: [&str; 3] = ["node-damaged", "no-node", "foreign-block"];

/// An opened image.
#[derive(Debug)]
pub(crate) enum Image {
    /// A UBI device.
    Ubi(UbiImage),
    /// A bare UBIFS volume.
    Ubifs(BareUbifs),
    /// A JFFS2.
    Jffs2(Jffs2Image),
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
    /// The raw dump that it is in, if there are out-of-band bytes between its pages.
    pub dump: Option<RawDump>,
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

/// A file with a JFFS2 in it.
#[derive(Debug)]
pub(crate) struct Jffs2Image {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// The file system.
    pub opened: Opened,
}

impl UbiImage {
    /// What attaching found.
    pub(crate) fn attachment(&self) -> &Attachment {
        self.ubi.attachment()
    }

    /// Hands what attaching found over to the session. With `--strict`, what Linux would refuse is
    /// refused.
    pub(crate) fn report(&self, session: &mut Session) -> Result<(), Failure> {
        let mut findings = self.attachment().findings.clone();
        match &self.dump {
            Some(dump) => raw_dump::note(dump, &mut findings),
            None => cut_short::note(self, &mut findings),
        }
        session.report_aside(findings);
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

/// Refuses a folder in the place of an image.
pub(crate) fn refuse_folder(path: &Path) -> Result<(), Failure> {
    if !path.is_dir() {
        return Ok(());
    }
    Err(Failure::new(format!("{}: is a folder, not an image", path.display()))
        .hint("`eraseblock mkfs` makes an image of a folder"))
}

/// Opens what the arguments point at.
pub(crate) fn open(place: &Place, shape: &ShapeArgs, session: &Session) -> Result<Image, Failure> {
    let span = span::one(place, shape)?;
    open_span(place, span, shape, session)
}

/// Opens a part of a file, or a device.
pub(crate) fn open_span(
    place: &Place,
    span: Option<Span>,
    shape: &ShapeArgs,
    session: &Session,
) -> Result<Image, Failure> {
    let path = &place.path;
    let sizes = SizeArgs { ignore_end_marks: session.options.strict, ..shape.sizes.clone() };
    let shape = &ShapeArgs { sizes, ..shape.clone() };
    let opened = match span {
        Some(span) => open_file(path, span, shape),
        None => match device::open(path, shape)? {
            Some(image) => return Ok(image),
            None => open_flash(path, shape),
        },
    };
    opened.context(path.display())
}

/// How UBI is attached only to be read.
pub(super) fn attach_options(sizes: &SizeArgs) -> AttachOptions {
    AttachOptions { end_marks: !sizes.ignore_end_marks, ..AttachOptions::default() }
}

/// A simulated chip, or a disk that was made a flash.
fn open_flash(path: &Path, shape: &ShapeArgs) -> Result<Image, Failure> {
    let file = File::open(path)?;
    let start = beginning(&file)?;
    if eraseblock_nandsim::is_chip_file(&start) {
        return attach(path, Arc::new(Chip::open_read_only(path)?), shape);
    }
    if is_block_flash(&start) {
        let device = BlockDevice::open(path, false).map_err(device::failure)?;
        return attach(path, Arc::new(device), shape);
    }
    let span = Span { offset: 0, length: ReadAt::size(&file)?, is_whole: true, is_certain: true };
    open_file(path, span, shape)
}

/// The first bytes of something, as many as are looked at.
pub(super) fn beginning(image: &dyn ReadAt) -> Result<Vec<u8>, Failure> {
    let len = usize::try_from(image.size()?).unwrap_or(usize::MAX).min(magic::LOOK);
    let mut start = vec![0; len];
    image.read_exact_at(&mut start, 0)?;
    Ok(start)
}

fn open_file(path: &Path, span: Span, shape: &ShapeArgs) -> Result<Image, Failure> {
    let file: Arc<dyn ReadAt> = Arc::new(File::open(path)?);
    let file_size = file.size()?;
    let part = span.of(file)?;
    let start = beginning(part.as_ref())?;
    let format = shape.format.or_else(|| match () {
        () if magic::is_ubifs(&start) || shape.leb.is_some() => Some(Format::Ubifs),
        () if magic::is_jffs2(&start) => Some(Format::Jffs2),
        () => None,
    });
    let unknown = || unknown(&start);
    let source = Source::Image(Arc::clone(&part));
    let image = match format {
        Some(Format::Ubifs) => {
            open_bare(path, part, file_size, shape, &start).map(|bare| Some(Image::Ubifs(bare)))?
        }
        Some(Format::Jffs2) => open_jffs2(path, source, file_size, shape)?.map(Image::Jffs2),
        Some(Format::Ubi) => open_ubi(path, &part, file_size, shape)?.map(Image::Ubi),
        None => match open_ubi(path, &part, file_size, shape)? {
            Some(image) => Some(Image::Ubi(image)),
            None => open_jffs2(path, source, file_size, shape)?.map(Image::Jffs2),
        },
    };
    let mut image = image.ok_or_else(unknown)?;
    if let Image::Ubi(image) = &mut image {
        image.start += span.offset;
    }
    Ok(image)
}

/// A JFFS2, opened or only looked at.
pub(super) trait Looked: Sized {
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

/// A JFFS2 anywhere in an image or on a device, with what was found; `None` when there is no node of
/// one. A raw dump with out-of-band bytes is read without them.
pub(super) fn find_jffs2<T: Looked>(
    source: Source,
    options: &OpenOptions,
    page: Option<u32>,
) -> Result<Option<(T, Findings, Option<RawDump>)>, Failure> {
    let open = |source| match T::look(source, options) {
        Ok(found) => Ok(Some(found)),
        Err(Jffs2Error::NotJffs2 { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let plain = open(source.clone())?;
    let is_whole = |findings: &Findings| findings.iter().all(|found| !DAMAGE.contains(&found.code));
    let mut best = plain.map(|(jffs2, findings)| (jffs2, findings, None));
    let Source::Image(image) = source else { return Ok(best) };
    if best.as_ref().is_some_and(|(_, findings, _)| is_whole(findings)) || options.start.is_some() {
        return Ok(best);
    }
    for (size, oob) in RawDump::USUAL {
        let wanted = page.is_none_or(|page| page == size);
        let Some(dump) = RawDump::new(Arc::clone(&image), size, oob)?.filter(|_| wanted) else {
            continue;
        };
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

/// A JFFS2 anywhere in an image or on a device; `None` when there is no node of one.
pub(super) fn open_jffs2(
    path: &Path,
    source: Source,
    file_size: u64,
    shape: &ShapeArgs,
) -> Result<Option<Jffs2Image>, Failure> {
    let options = OpenOptions {
        start: shape.start,
        erase_size: shape.sizes.peb,
        order: jffs2_image::order(shape),
        empty: shape.format == Some(Format::Jffs2),
    };
    let found = find_jffs2::<Jffs2>(source, &options, shape.sizes.page)?;
    Ok(found.map(|(jffs2, mut findings, dump)| {
        if let Some(dump) = dump {
            raw_dump::note(&dump, &mut findings);
        }
        let opened = filesystem::of_jffs2(jffs2, findings);
        Jffs2Image { path: path.to_owned(), file_size, opened }
    }))
}

/// Opens the UBI or the JFFS2 on a flash.
pub(super) fn attach(
    path: &Path,
    device: Arc<dyn Mtd>,
    shape: &ShapeArgs,
) -> Result<Image, Failure> {
    let (geometry, is_jffs2) = (*device.geometry(), shape.format == Some(Format::Jffs2));
    let layout = if is_jffs2 { None } else { layout(device.as_ref(), &shape.sizes)? };
    if let Some(layout) = layout {
        let ubi = Ubi::attach(device, &layout, &attach_options(&shape.sizes))?;
        let (path, file_size) = (path.to_owned(), geometry.size());
        return Ok(Image::Ubi(UbiImage { path, file_size, start: 0, ubi, dump: None }));
    }
    let source = Source::Device(Arc::clone(&device));
    if let Some(image) = open_jffs2(path, source, geometry.size(), shape)? {
        return Ok(Image::Jffs2(image));
    }
    let mut start = vec![0; magic::LOOK.min(geometry.peb_size() as usize)];
    device.read(0, &mut start)?;
    Err(unknown(&start))
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
    file: Arc<dyn ReadAt>,
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
    image: &Arc<dyn ReadAt>,
    file_size: u64,
    shape: &ShapeArgs,
) -> Result<Option<UbiImage>, Failure> {
    let found = raw_dump::find_ubi(image, &shape.sizes)?;
    Ok(found.map(|raw_dump::Found { ubi, start, dump }| {
        let path = path.to_owned();
        UbiImage { path, file_size, start, ubi, dump }
    }))
}

/// Why a file is nothing we open.
fn unknown(start: &[u8]) -> Failure {
    match magic::recognise(start) {
        Some(known) => Failure::new(format!("this is {}", known.name)).hint(known.hint),
        None if start.is_empty() => Failure::new("the file is empty"),
        None => Failure::new("neither a UBI, a UBIFS nor a JFFS2 image").hint(
            "--format with --peb and --page, or --leb, say what it is when headers are missing",
        ),
    }
}
