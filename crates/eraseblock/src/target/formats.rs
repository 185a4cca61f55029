//! The registry of formats: how a flash or an image of one is recognised, and who opens it.
//!
//! `detect` asks the rows of `ROWS` in order of confidence: a superblock or a node with a checksum
//! at the start decides before samples of pages do. UBI in an image is not among them: its headers may
//! be anywhere, so [`super::image`] searches for it if no row fits.
//!
//! # Adding a file system that is only read
//! 1. Write `formats/NAME.rs` with a `Reader`: its magic numbers, a probe and an opener.
//! 2. Add it to `READERS`, and a variant to [`Format`].
//!
//! Everything else follows from the table: it is found at any offset of a file, in a UBI volume and in
//! an MTD partition, and every command reads it.

#[cfg(feature = "axfs")]
mod axfs;
#[cfg(feature = "logfs")]
mod logfs;
mod media;
#[cfg(feature = "squashfs")]
mod squashfs;

use super::{Format, Shape, image, magic};
use crate::error::Error;
#[cfg(feature = "edit")]
use crate::error::Setting;
use eraseblock_base::{Findings, Peb};
use eraseblock_mtd::{LebDevice, Mtd, RawDump, ReadAt};
use eraseblock_ubi::UbiVolume;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_vfs::FileSystem;
use eraseblock_yaffs::{Layout, Source, YaffsError};
pub(super) use media::Lebs;
use media::{Depth, GoodBlocks, find};
use std::cell::OnceCell;
use std::fmt::Debug;
use std::io;
use std::ops::{ControlFlow, Range};
#[cfg(feature = "edit")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// All file systems that are only read.
static READERS: &[&dyn Reader] = &[
    #[cfg(feature = "axfs")]
    &axfs::AxfsReader,
    #[cfg(feature = "logfs")]
    &logfs::LogfsReader,
    #[cfg(feature = "squashfs")]
    &squashfs::SquashfsReader,
];

/// A file system that is only read, from bytes without gaps.
pub(crate) trait Reader: Debug + Sync {
    /// Returns its format, which users can state.
    fn format(&self) -> Format;

    /// Returns the magic numbers that it can begin with. A search of a file looks for them.
    fn magics(&self) -> &'static [Magic];

    /// Returns how far the file system reaches that begins at `offset`; `None` if its superblock is not
    /// valid. Is asked where a magic number is. Fails if the image cannot be read.
    fn probe(&self, image: &dyn ReadAt, offset: u64) -> io::Result<Option<Extent>>;

    /// Returns whether places in the file system count the bad blocks of a flash, which are skipped
    /// otherwise.
    fn counts_bad_blocks(&self) -> bool {
        false
    }

    /// Opens the file system that begins at the start of the image. Its superblocks are in a part of it,
    /// at whose ends a flash may have bad blocks. Fails if it cannot be read.
    fn open(&self, image: Arc<dyn ReadAt>, superblocks: Range<u64>) -> Result<Read, Error>;
}

/// A magic number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Magic {
    /// Its bytes.
    pub(crate) bytes: &'static [u8],
    /// Where they are after the start of the file system.
    pub(crate) at: u64,
}

/// The bytes of a file system that was recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// How many there are, from its start.
    pub(crate) length: u64,
}

/// A file system that was opened.
#[derive(Debug)]
pub(crate) struct Read {
    /// The file system.
    pub(crate) fs: Arc<dyn FileSystem>,
    /// What was found when it was opened.
    pub(crate) findings: Findings,
    /// What `info` says of it.
    pub(crate) facts: Vec<Fact>,
}

/// Something that a superblock says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fact {
    /// Its name in documents, in words with underscores.
    pub key: &'static str,
    /// Its value.
    pub value: FactValue,
}

/// The value of a [`Fact`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
#[non_exhaustive]
pub enum FactValue {
    /// Words.
    Text(String),
    /// A count.
    Number(u64),
    /// A size in bytes.
    Bytes(u64),
    /// Seconds since 1970, UTC.
    Time(i64),
}

/// A file or a flash with a file system that is only read.
#[derive(Debug)]
pub struct ReadImage {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// What it is.
    pub format: Format,
    /// The file system.
    pub opened: super::filesystem::Opened,
}

/// Where something is recognised.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    /// A file or a part of one.
    Image(Arc<dyn ReadAt>),
    /// A flash.
    Device(Arc<dyn Mtd>),
}

/// What was recognised.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// UBI, and on a flash the layout of its headers.
    Ubi(Option<HeaderLayout>),
    /// A bare UBIFS.
    Ubifs,
    /// A JFFS2 that begins with a node.
    Jffs2,
    /// A YAFFS, and its layout unless the user stated the format.
    Yaffs(Option<Layout>),
    /// A file system that is only read.
    Read(Located),
}

/// A file system that is only read, and where.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) reader: &'static dyn Reader,
    /// Its bytes and everything that follows, without the bad blocks of a flash unless they count.
    pub(crate) bytes: Arc<dyn ReadAt>,
    /// Where its superblocks are.
    pub(crate) superblocks: Range<u64>,
    /// The raw dump that it is in, if there are out-of-band bytes between its pages.
    pub(crate) dump: Option<RawDump>,
}

impl Located {
    /// All of these bytes. Fails if their number cannot be found out.
    pub(crate) fn new(reader: &'static dyn Reader, bytes: Arc<dyn ReadAt>) -> io::Result<Self> {
        let superblocks = 0..bytes.size()?;
        Ok(Self { reader, bytes, superblocks, dump: None })
    }

    /// Opens it. Fails if it cannot be read.
    pub(crate) fn open(&self) -> Result<Read, Error> {
        let mut read = self.reader.open(Arc::clone(&self.bytes), self.superblocks.clone())?;
        if let Some(dump) = &self.dump {
            super::raw_dump::note(dump, &mut read.findings);
        }
        Ok(read)
    }

    /// Returns whether a short look shows nothing wrong: it can be opened, and its root can be listed
    /// with what the first entries lead to.
    fn is_whole(&self) -> bool {
        const ENTRIES: usize = 64;
        let Ok(Read { fs, findings, .. }) = self.open() else { return false };
        let (mut left, mut is_good) = (ENTRIES, !findings.has_problems());
        let listed = fs.read_dir(fs.root(), 0, &mut |entry| {
            left -= 1;
            is_good &= fs.attr(entry.ino).is_ok();
            if left == 0 || !is_good { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        is_good && listed.is_ok()
    }

    /// The same file system without the out-of-band bytes of a raw dump, if there are such.
    fn without_oob(self) -> Result<Self, Error> {
        if !RawDump::could_be(self.bytes.as_ref())? || self.is_whole() {
            return Ok(self);
        }
        for (page, oob) in RawDump::USUAL {
            let Some(dump) = RawDump::new(Arc::clone(&self.bytes), page, oob)? else { continue };
            let bytes: Arc<dyn ReadAt> = Arc::new(dump.clone());
            let other = Self { dump: Some(dump), ..Self::new(self.reader, bytes)? };
            if other.is_whole() {
                return Ok(other);
            }
        }
        Ok(self)
    }
}

/// A medium, and what was read of it to recognise what is there.
#[derive(Debug)]
struct Look<'a> {
    medium: &'a Medium,
    /// Its first bytes.
    start: Vec<u8>,
    good: OnceCell<Arc<GoodBlocks>>,
}

/// A way to recognise one format.
type Row = fn(&Look<'_>, &Shape) -> Result<Option<Found>, Error>;

/// In order of confidence. Files in a YAFFS may contain headers of anything else, at the start of an
/// eraseblock, too, but its first page contains its own.
const ROWS: [Row; 6] = [ubi, ubifs, jffs2, read, yaffs, read_further_on];

/// Returns what a flash or an image is, as stated or as its first bytes and its pages show; `None` if
/// headers or nodes have to be searched for. Fails if it cannot be read, or if stated sizes contradict
/// the headers.
pub(crate) fn detect(medium: &Medium, shape: &Shape) -> Result<Option<Found>, Error> {
    if let Some(format) = shape.format {
        return stated(medium, shape, format);
    }
    let look = Look { medium, start: medium.beginning()?, good: OnceCell::new() };
    for row in ROWS {
        if let Some(found) = row(&look, shape)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What a stated format is opened as.
fn stated(medium: &Medium, shape: &Shape, format: Format) -> Result<Option<Found>, Error> {
    Ok(match format {
        Format::Ubi | Format::Ubifs => match medium {
            Medium::Device(device) => {
                image::layout(device.as_ref(), &shape.sizes)?.map(|layout| Found::Ubi(Some(layout)))
            }
            Medium::Image(_) if format == Format::Ubi => Some(Found::Ubi(None)),
            Medium::Image(_) => Some(Found::Ubifs),
        },
        Format::Jffs2 => Some(Found::Jffs2),
        Format::Yaffs => Some(Found::Yaffs(None)),
        Format::Axfs | Format::Logfs | Format::Squashfs => {
            let reader = reader_of(format).ok_or_else(|| left_out(format))?;
            Some(Found::Read(medium.located(reader)?))
        }
    })
}

/// Why a stated format is not opened.
fn left_out(format: Format) -> Error {
    let name = format.name();
    Error::new(format!("{name}: this build has no reader for it"))
        .with_kind(crate::ErrorKind::Unsupported)
}

fn ubi(look: &Look<'_>, shape: &Shape) -> Result<Option<Found>, Error> {
    let Medium::Device(device) = look.medium else { return Ok(None) };
    let layout = image::layout(device.as_ref(), &shape.sizes)?;
    Ok(layout.map(|layout| Found::Ubi(Some(layout))))
}

#[allow(clippy::unnecessary_wraps)] // as of every row
fn ubifs(look: &Look<'_>, shape: &Shape) -> Result<Option<Found>, Error> {
    let is_image = matches!(look.medium, Medium::Image(_));
    let is_one = is_image && (magic::is_ubifs(&look.start) || shape.leb.is_some());
    Ok(is_one.then_some(Found::Ubifs))
}

#[allow(clippy::unnecessary_wraps)] // as of every row
fn jffs2(look: &Look<'_>, _: &Shape) -> Result<Option<Found>, Error> {
    Ok(magic::is_jffs2(&look.start).then_some(Found::Jffs2))
}

fn read(look: &Look<'_>, _: &Shape) -> Result<Option<Found>, Error> {
    let located = match look.medium {
        Medium::Image(image) => match reader_at(image.as_ref(), 0)? {
            Some((reader, _)) => Some(Located::new(reader, Arc::clone(image))?.without_oob()?),
            None => None,
        },
        Medium::Device(device) => find(look.good_blocks(device)?, Depth::First)?,
    };
    Ok(located.map(Found::Read))
}

/// What comes before it on a flash may be a boot loader, say.
fn read_further_on(look: &Look<'_>, _: &Shape) -> Result<Option<Found>, Error> {
    let Medium::Device(device) = look.medium else { return Ok(None) };
    Ok(find(look.good_blocks(device)?, Depth::All)?.map(Found::Read))
}

fn yaffs(look: &Look<'_>, shape: &Shape) -> Result<Option<Found>, Error> {
    if shape.leb.is_some() {
        return Ok(None);
    }
    let source = match look.medium {
        Medium::Image(image) => Source::Image(Arc::clone(image)),
        Medium::Device(device) => Source::Device(Arc::clone(device)),
    };
    let layout = eraseblock_yaffs::detect(&source, &super::yaffs::hints(shape));
    Ok(layout.map_err(YaffsError::from)?.map(|layout| Found::Yaffs(Some(layout))))
}

impl Look<'_> {
    /// The good blocks of its flash, which are listed once.
    fn good_blocks(&self, device: &Arc<dyn Mtd>) -> Result<&Arc<GoodBlocks>, Error> {
        if let Some(good) = self.good.get() {
            return Ok(good);
        }
        let good = Arc::new(GoodBlocks::of(device)?);
        Ok(self.good.get_or_init(|| good))
    }
}

impl Medium {
    /// Returns where the file system of a reader is that was stated: where it is found on a flash,
    /// otherwise at the start.
    fn located(&self, reader: &'static dyn Reader) -> Result<Located, Error> {
        let device = match self {
            Self::Image(image) => return Located::new(reader, Arc::clone(image))?.without_oob(),
            Self::Device(device) => device,
        };
        let good = Arc::new(GoodBlocks::of(device)?);
        match find(&good, Depth::All)? {
            Some(at) if at.reader.format() == reader.format() => Ok(at),
            _ => media::located(&good, reader, 0),
        }
    }

    /// The first bytes, on a flash those of the first block that is not bad. What cannot be read is
    /// nothing.
    fn beginning(&self) -> Result<Vec<u8>, Error> {
        let device = match self {
            Self::Image(image) => return image::beginning(image.as_ref()),
            Self::Device(device) => device,
        };
        let geometry = device.geometry();
        let mut start = vec![0; magic::LOOK.min(geometry.peb_size() as usize)];
        for block in 0..geometry.peb_count() {
            if device.is_bad(Peb::new(block))? {
                continue;
            }
            let read = device.read(u64::from(block) * u64::from(geometry.peb_size()), &mut start);
            let is_good = read.is_ok_and(|outcome| !outcome.uncorrectable);
            return Ok(if is_good { start } else { Vec::new() });
        }
        Ok(Vec::new())
    }
}

/// Returns the reader of what begins at an offset of an image, and how far it reaches; `None` if there
/// is none. Fails if the image cannot be read.
pub(crate) fn reader_at(
    image: &dyn ReadAt,
    offset: u64,
) -> io::Result<Option<(&'static dyn Reader, Extent)>> {
    let size = image.size()?;
    for reader in READERS {
        let fits = |magic: &&Magic| -> io::Result<bool> {
            let mut bytes = vec![0; magic.bytes.len()];
            let Some(at) = offset.checked_add(magic.at) else { return Ok(false) };
            if at.saturating_add(bytes.len() as u64) > size {
                return Ok(false);
            }
            image.read_exact_at(&mut bytes, at)?;
            Ok(bytes == magic.bytes)
        };
        for magic in reader.magics() {
            if fits(&magic)?
                && let Some(extent) = reader.probe(image, offset)?
            {
                return Ok(Some((*reader, extent)));
            }
        }
    }
    Ok(None)
}

/// Returns the magic numbers of all readers, each with its reader.
pub(super) fn magics() -> impl Iterator<Item = (Magic, &'static dyn Reader)> {
    READERS.iter().flat_map(|reader| reader.magics().iter().map(|magic| (*magic, *reader)))
}

/// Why nothing is written to a file system.
#[cfg(feature = "edit")]
pub(super) fn only_read(path: &Path, format: Format) -> Error {
    let (path, name) = (path.display(), format.name());
    Error::new(format!("{path}: {name} can only be read"))
        .hint(Setting::Extract + " copies everything out")
}

/// Returns the reader of a format; `None` if this build has none.
pub(crate) fn reader_of(format: Format) -> Option<&'static dyn Reader> {
    READERS.iter().find(|reader| reader.format() == format).copied()
}

/// Returns the reader of what a volume begins with; `None` if there is none. What cannot be read is
/// nothing.
pub(super) fn reader_of_volume(device: &dyn LebDevice) -> Option<&'static dyn Reader> {
    reader_at(&Lebs::all(device), 0).ok().flatten().map(|(reader, _)| reader)
}

/// Returns whether a volume begins with a page of a YAFFS. What cannot be read is nothing.
pub(super) fn is_yaffs_volume(device: &dyn LebDevice) -> bool {
    matches!(eraseblock_yaffs::locate(&Lebs::all(device), 0, 0), Ok(Some(_)))
}

/// The bytes of a volume, without those after the end of a static one.
pub(super) fn of_volume(volume: UbiVolume) -> Arc<dyn ReadAt> {
    let size = volume.info().used_bytes;
    Arc::new(Lebs::new(Arc::new(volume), size))
}
