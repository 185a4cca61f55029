//! An image as the structures that it consists of: cut into formats, for text, differences and the
//! census. Nothing is mounted or attached, so that damage hides nothing.

use super::image::{hints, refuse_folder};
use super::survey::{Kind, Part, survey};
use super::{Format, Place, Shape, file_bytes, magic};
use crate::error::{Context, Error};
use crate::observe::Observer;
use eraseblock_base::ByteOrder;
use eraseblock_census::text::Contents;
use eraseblock_census::{Format as Stretch, Plan, Segment};
use eraseblock_jffs2::{Jffs2, OpenOptions, Source};
#[cfg(feature = "chips")]
use eraseblock_mtd::Mtd;
use eraseblock_mtd::{ReadAt, Slice};
use eraseblock_ubi::detect::{Hints, detect};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An image, and how it is cut.
#[derive(Debug)]
pub struct Cut {
    /// Its bytes.
    pub image: Arc<dyn ReadAt>,
    /// Its segments.
    pub plan: Plan,
}

/// Cuts what a target names: a file, a part of one, or a simulated chip. Fails if it cannot be read,
/// or names a volume.
pub fn cut(place: &Place, shape: &Shape, observer: &mut dyn Observer) -> Result<Cut, Error> {
    refuse_folder(&place.path)?;
    place.refuse_volume()?;
    observer.keep_still(&place.path)?;
    let image = bytes(place).context(place.path.display())?;
    let cut = || -> Result<Plan, Error> {
        let segments = segments(&image, shape)?;
        Ok(Plan::new(image.as_ref(), segments)?)
    };
    let plan = cut().context(place.path.display())?;
    Ok(Cut { image, plan })
}

/// The bytes that a target names.
fn bytes(place: &Place) -> Result<Arc<dyn ReadAt>, Error> {
    if !place.path.metadata()?.is_file() {
        return Err(Error::new("only files and simulated chips are read as structures")
            .hint("copy the device into a file first"));
    }
    let file = file_bytes::open(&place.path)?;
    let start = super::image::beginning(&file)?;
    #[cfg(feature = "chips")]
    if eraseblock_nandsim::is_chip_file(&start) {
        let chip = eraseblock_nandsim::Chip::open_read_only(&place.path)?;
        return Ok(Arc::new(FlashBytes(Arc::new(chip))));
    }
    if magic::is_flash(&start) {
        return Err(Error::new("only files and simulated chips are read as structures"));
    }
    let Some(at) = place.at else { return Ok(file) };
    let size = file.size()?;
    let rest = size.checked_sub(at.offset).filter(|rest| *rest > 0);
    let rest = rest.ok_or_else(|| Error::usage(format!("{at}: the file has {size} bytes")))?;
    let len = at.length.unwrap_or(rest);
    if len > rest {
        return Err(Error::usage(format!("{at}: {rest} bytes follow in the file")));
    }
    Ok(Arc::new(Slice::new(file, at.offset, len)?))
}

/// The bytes of a flash without those out of band.
#[cfg(feature = "chips")]
#[derive(Debug)]
struct FlashBytes(Arc<dyn Mtd>);

#[cfg(feature = "chips")]
impl ReadAt for FlashBytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.geometry().size())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read(offset, buf).map(drop).map_err(io::Error::other)
    }
}

/// The stretches of an image that have a format.
fn segments(image: &Arc<dyn ReadAt>, shape: &Shape) -> Result<Vec<Segment>, Error> {
    let size = image.size()?;
    if let Some(forced) = forced(image, shape, size)? {
        return Ok(vec![forced]);
    }
    let found = survey(image.as_ref())?;
    let mut segments = Vec::new();
    for part in &found.parts {
        segments.extend(segment(image, part, found.parts.len() == 1)?);
    }
    Ok(segments)
}

/// The whole image in the format that the user states.
fn forced(image: &Arc<dyn ReadAt>, shape: &Shape, size: u64) -> Result<Option<Segment>, Error> {
    let whole = |offset: u64, format| Segment { offset, len: size - offset.min(size), format };
    match shape.format {
        Some(Format::Ubi) => {
            let found = detect(image.as_ref(), &hints(&shape.sizes))?;
            Ok(found.map(|found| whole(found.start, Stretch::Ubi(found.layout))))
        }
        Some(Format::Ubifs) => {
            let leb_size = shape.leb.ok_or_else(|| Error::usage("the size of a LEB is missing"))?;
            Ok(Some(whole(0, Stretch::Ubifs { leb_size })))
        }
        Some(Format::Jffs2) => jffs2(image, shape, whole(0, Stretch::Bytes)),
        Some(_) => Ok(Some(whole(0, Stretch::Bytes))),
        None => Ok(None),
    }
}

/// The segment of something that a search found. The only UBI of an image begins with the blocks
/// before its first header.
fn segment(image: &Arc<dyn ReadAt>, part: &Part, is_only: bool) -> Result<Option<Segment>, Error> {
    let Part { offset, length: len, kind } = *part;
    match kind {
        Kind::Ubi { peb_size, .. } => {
            let hints = Hints { peb_size: Some(peb_size), ..Hints::default() };
            let own = Slice::new(Arc::clone(image), offset, len)?;
            let Some(found) = detect(&own, &hints)? else { return Ok(None) };
            let peb = u64::from(peb_size);
            let first = if is_only { detect(image.as_ref(), &hints)? } else { None };
            let first = first.map(|first| first.start).filter(|start| {
                offset.checked_sub(*start).is_some_and(|before| before.is_multiple_of(peb))
            });
            let start = first.unwrap_or(offset);
            let end = if first.is_some() { image.size()? } else { offset + len };
            let len = end - start - (end - start) % peb;
            Ok(Some(Segment { offset: start, len, format: Stretch::Ubi(found.layout) }))
        }
        Kind::Ubifs { leb_size } => {
            Ok(Some(Segment { offset, len, format: Stretch::Ubifs { leb_size } }))
        }
        Kind::Jffs2 { big_endian } => {
            let order = if big_endian { ByteOrder::Big } else { ByteOrder::Little };
            let shape = Shape { byte_order: Some(order), ..Shape::default() };
            jffs2(image, &shape, Segment { offset, len, format: Stretch::Bytes })
        }
        Kind::Yaffs { .. } | Kind::Read { .. } => Ok(None),
    }
}

/// The JFFS2 in a stretch, whose blocks are counted from its start.
fn jffs2(
    image: &Arc<dyn ReadAt>,
    shape: &Shape,
    within: Segment,
) -> Result<Option<Segment>, Error> {
    let Segment { offset, len, .. } = within;
    let own = Slice::new(Arc::clone(image), offset, len)?;
    let options = OpenOptions {
        start: shape.start,
        erase_size: shape.sizes.peb,
        order: shape.byte_order,
        empty: true,
    };
    let Ok((found, _)) = Jffs2::survey(&Source::Image(Arc::new(own)), &options) else {
        return Ok(None);
    };
    let start = found.shape.start.min(len);
    let (block_size, order) = (found.shape.erase_size, found.shape.order);
    let format = Stretch::Jffs2 { block_size, order };
    Ok(Some(Segment { offset: offset + start, len: len - start, format }))
}

/// A folder for the long contents of a text: files named by the SHA-256 of their bytes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    kept: BTreeSet<String>,
}

/// Digits of a SHA-256.
const DIGITS: usize = 64;
/// The largest content, in bytes.
const LARGEST: u64 = 64 << 20;

impl Folder {
    /// Returns the folder at `path`, which is made when something is kept.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), kept: BTreeSet::new() }
    }

    /// Returns how many different contents were kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn at(&self, name: &str) -> io::Result<PathBuf> {
        let own = Path::new(name).file_name().is_some_and(|own| own == name);
        if own {
            Ok(self.path.join(name))
        } else {
            Err(io::Error::other(format!("`{name}` is no file name")))
        }
    }
}

fn name_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Contents for Folder {
    fn put(&mut self, bytes: &[u8]) -> io::Result<String> {
        let name = name_of(bytes);
        if self.kept.insert(name.clone()) {
            if self.kept.len() == 1 {
                fs::create_dir_all(&self.path)?;
            }
            fs::write(self.path.join(&name), bytes)?;
        }
        Ok(name)
    }

    fn get(&mut self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.at(name)?;
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let meta = fs::metadata(&path).map_err(named)?;
        if !meta.is_file() || meta.len() > LARGEST {
            let message = format!("{}: expected a file of at most {LARGEST} bytes", path.display());
            return Err(io::Error::other(message));
        }
        let bytes = fs::read(&path).map_err(named)?;
        let is_hash = name.len() == DIGITS && name.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_hash && name_of(&bytes) != name {
            let message =
                format!("{}: its content was changed: give it another name", path.display());
            return Err(io::Error::other(message));
        }
        Ok(bytes)
    }
}
