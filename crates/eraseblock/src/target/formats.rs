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
use eraseblock_base::{Findings, Peb};
use eraseblock_mtd::{LebDevice, Mtd, ReadAt};
use eraseblock_ubi::UbiVolume;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_vfs::FileSystem;
use eraseblock_yaffs::{Layout, Source, YaffsError};
pub(super) use media::Lebs;
use media::{Depth, find, good_blocks};
use std::fmt::Debug;
use std::io;
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

    /// Opens the file system that begins at the start of the image. Fails if it cannot be read.
    fn open(&self, image: Arc<dyn ReadAt>) -> Result<Read, Error>;
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
    /// Its bytes and everything that follows, without the bad blocks of a flash.
    pub(crate) bytes: Arc<dyn ReadAt>,
}

/// A way to recognise one format.
type Row = fn(&Medium, &Shape, &[u8]) -> Result<Option<Found>, Error>;

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
    let start = medium.beginning()?;
    for row in ROWS {
        if let Some(found) = row(medium, shape, &start)? {
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

fn ubi(medium: &Medium, shape: &Shape, _: &[u8]) -> Result<Option<Found>, Error> {
    let Medium::Device(device) = medium else { return Ok(None) };
    let layout = image::layout(device.as_ref(), &shape.sizes)?;
    Ok(layout.map(|layout| Found::Ubi(Some(layout))))
}

#[allow(clippy::unnecessary_wraps)] // as of every row
fn ubifs(medium: &Medium, shape: &Shape, start: &[u8]) -> Result<Option<Found>, Error> {
    let is_image = matches!(medium, Medium::Image(_));
    let is_one = is_image && (magic::is_ubifs(start) || shape.leb.is_some());
    Ok(is_one.then_some(Found::Ubifs))
}

#[allow(clippy::unnecessary_wraps)] // as of every row
fn jffs2(_: &Medium, _: &Shape, start: &[u8]) -> Result<Option<Found>, Error> {
    Ok(magic::is_jffs2(start).then_some(Found::Jffs2))
}

fn read(medium: &Medium, _: &Shape, _: &[u8]) -> Result<Option<Found>, Error> {
    let located = match medium {
        Medium::Image(image) => reader_at(image.as_ref(), 0)?
            .map(|(reader, _)| Located { reader, bytes: Arc::clone(image) }),
        Medium::Device(device) => find(device, Depth::First)?,
    };
    Ok(located.map(Found::Read))
}

/// What comes before it on a flash may be a boot loader, say.
fn read_further_on(medium: &Medium, _: &Shape, _: &[u8]) -> Result<Option<Found>, Error> {
    let Medium::Device(device) = medium else { return Ok(None) };
    Ok(find(device, Depth::All)?.map(Found::Read))
}

fn yaffs(medium: &Medium, shape: &Shape, _: &[u8]) -> Result<Option<Found>, Error> {
    if shape.leb.is_some() {
        return Ok(None);
    }
    let source = match medium {
        Medium::Image(image) => Source::Image(Arc::clone(image)),
        Medium::Device(device) => Source::Device(Arc::clone(device)),
    };
    let layout = eraseblock_yaffs::detect(&source, &super::yaffs::hints(shape));
    Ok(layout.map_err(YaffsError::from)?.map(|layout| Found::Yaffs(Some(layout))))
}

impl Medium {
    /// Returns where the file system of a reader is that was stated: where it is found on a flash,
    /// otherwise at the start.
    fn located(&self, reader: &'static dyn Reader) -> Result<Located, Error> {
        let bytes = match self {
            Self::Image(image) => Arc::clone(image),
            Self::Device(device) => match find(device, Depth::All)? {
                Some(at) if at.reader.format() == reader.format() => return Ok(at),
                _ => good_blocks(device)?,
            },
        };
        Ok(Located { reader, bytes })
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
        .hint(format!("`eraseblock extract {path} DIR` copies everything out"))
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

/// The bytes of a volume, without those after the end of a static one.
pub(super) fn of_volume(volume: UbiVolume) -> Arc<dyn ReadAt> {
    let size = volume.info().used_bytes;
    Arc::new(Lebs::new(Arc::new(volume), size))
}
