//! Which bytes of a file a target means: `FILE@OFFSET[+LENGTH]`, or what a look through the file
//! finds.

use super::formats::{self, Found, Medium};
use super::image::{hints, refuse_folder};
use super::survey::{Kind, Part, Survey, survey};
use super::{Place, Shape, Sizes, file_bytes, magic, raw_dump};
use crate::error::{Context, Error, Setting};
use crate::text;
use eraseblock_base::size::parse_size;
use eraseblock_mtd::{ReadAt, Slice};
use eraseblock_ubi::detect::detect;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// What a user wrote after an `@`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// Where something begins in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes, if given.
    pub length: Option<u64>,
}

impl At {
    /// Parses `OFFSET[+LENGTH]`. Fails if they are no sizes.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (offset, length) = match text.split_once('+') {
            Some((offset, length)) => (offset, Some(length)),
            None => (text, None),
        };
        let size = |text: &str| {
            parse_size(text).map_err(|error| {
                Error::usage(format!("@{text}: {error}"))
                    .hint("FILE@OFFSET[+LENGTH][:VOLUME] names a part of a file")
            })
        };
        Ok(Self { offset: size(offset)?, length: length.map(size).transpose()? })
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "@{}", self.offset)?;
        self.length.map_or(Ok(()), |length| write!(f, "+{length}"))
    }
}

/// A stretch of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Whether there is nothing else in the file.
    pub is_whole: bool,
    /// Whether its end is more than a guess: no other image in the file has the same number.
    pub is_certain: bool,
}

impl Span {
    /// Its bytes. Fails if the file ends before.
    pub fn of(&self, file: Arc<dyn ReadAt>) -> Result<Arc<dyn ReadAt>, Error> {
        if self.is_whole {
            return Ok(file);
        }
        Ok(Arc::new(Slice::new(file, self.offset, self.length)?))
    }
}

impl From<&Part> for Span {
    fn from(part: &Part) -> Self {
        let Part { offset, length, .. } = *part;
        Self { offset, length, is_whole: false, is_certain: false }
    }
}

/// What a target means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meant {
    /// A device or a simulated chip, as a whole.
    Device,
    /// A stretch of a file.
    Span(Span),
    /// One of several things in a file, or nothing can say which.
    Several(Survey),
}

/// Finds out what a target means. Sizes or a format that the user gives are not doubted. Fails if
/// the file cannot be read, or ends before the bytes that were named.
pub fn meant(place: &Place, shape: &Shape) -> Result<Meant, Error> {
    refuse_folder(&place.path)?;
    find(place, shape).context(place.path.display())
}

/// The same where one thing is needed; `None` for a device. Fails like [`meant`], and if there are
/// several.
pub fn one(place: &Place, shape: &Shape) -> Result<Option<Span>, Error> {
    match meant(place, shape)? {
        Meant::Device => Ok(None),
        Meant::Span(span) => Ok(Some(span)),
        Meant::Several(survey) => Err(choose(place, &survey)),
    }
}

fn find(place: &Place, shape: &Shape) -> Result<Meant, Error> {
    if !is_plain(place)? {
        return match place.at {
            None => Ok(Meant::Device),
            Some(at) => Err(Error::usage(format!("{at}: only a plain file has parts"))),
        };
    }
    let file = file_bytes::open(&place.path)?;
    within(place, &file, shape)
}

/// The same for the bytes of a file.
pub(crate) fn within(place: &Place, file: &Arc<dyn ReadAt>, shape: &Shape) -> Result<Meant, Error> {
    let size = file.size()?;
    if let Some(at) = place.at {
        return named(place, at, shape, file.as_ref()).map(Meant::Span);
    }
    let whole = Meant::Span(Span { offset: 0, length: size, is_whole: true, is_certain: true });
    if is_forced(shape) {
        return Ok(whole);
    }
    // What would be found may be files in it.
    if is_yaffs(file, shape)? {
        return Ok(whole);
    }
    let found = survey(file.as_ref())?;
    match found.parts.as_slice() {
        [] => Ok(whole),
        // Its pages end with it.
        [one @ Part { kind: Kind::Yaffs { .. }, .. }] => Ok(Meant::Span(one.into())),
        [one] if is_found_anyway(one, file.as_ref())? => Ok(whole),
        [one] => {
            let (offset, length) = (one.offset, size - one.offset);
            Ok(Meant::Span(Span { offset, length, is_whole: false, is_certain: true }))
        }
        // Out-of-band bytes between the pages make pieces of what is one image.
        _ if raw_dump::dump_of(file, &shape.sizes)?.is_some() => Ok(whole),
        _ => Ok(Meant::Several(found)),
    }
}

fn is_yaffs(file: &Arc<dyn ReadAt>, shape: &Shape) -> Result<bool, Error> {
    let found = formats::detect(&Medium::Image(Arc::clone(file)), shape)?;
    Ok(matches!(found, Some(Found::Yaffs(_))))
}

/// Returns whether the target is a plain file that is not a flash of its own kind.
fn is_plain(place: &Place) -> Result<bool, Error> {
    if !place.path.metadata()?.is_file() {
        return Ok(false);
    }
    let mut start = Vec::new();
    File::open(&place.path)?.take(magic::LOOK as u64).read_to_end(&mut start)?;
    Ok(!magic::is_flash(&start))
}

fn is_forced(shape: &Shape) -> bool {
    let sizes = &shape.sizes;
    shape.format.is_some()
        || shape.leb.or(sizes.peb).or(sizes.page).is_some()
        || sizes.subpage.or(sizes.vid_offset).is_some()
        || shape.start.is_some()
        || shape.byte_order.is_some()
}

/// Returns whether opening the whole file finds the part, with lost blocks before it that are its
/// own.
fn is_found_anyway(part: &Part, file: &dyn ReadAt) -> Result<bool, Error> {
    match part.kind {
        Kind::Jffs2 { .. } => Ok(true),
        Kind::Yaffs { .. } => Ok(false),
        Kind::Ubifs { .. } | Kind::Read { .. } => Ok(part.offset == 0),
        Kind::Ubi { peb_size, .. } => {
            let found = detect(file, &hints(&Sizes::default()))?;
            Ok(found.is_some_and(|found| {
                found.start <= part.offset
                    && (part.offset - found.start).is_multiple_of(peb_size.into())
            }))
        }
    }
}

/// Returns the part that the user named: with a length exactly that, otherwise the image that
/// begins there, in the stated format if there is one.
fn named(place: &Place, at: At, shape: &Shape, file: &dyn ReadAt) -> Result<Span, Error> {
    let size = file.size()?;
    let offset = at.offset;
    if offset >= size {
        return Err(Error::usage(format!("{at}: the file has {size} bytes")));
    }
    let rest = size - offset;
    let (length, is_certain) = match at.length {
        Some(length) if length == 0 || length > rest => {
            return Err(Error::usage(format!("{at}: {rest} bytes follow in the file")));
        }
        Some(length) => (length, true),
        None => {
            let found = survey(file)?;
            match found.parts.iter().find(|part| part.offset == offset) {
                Some(part) => {
                    let alike = found.parts.iter().filter(|other| part.is_like(other));
                    (part.length, alike.count() == 1)
                }
                None if is_forced(shape) => (rest, false),
                None => return Err(nothing_at(place, at, &found)),
            }
        }
    };
    Ok(Span { offset, length, is_whole: false, is_certain })
}

/// Parts that an error names.
const MOST_NAMED: usize = 16;

/// An error where nothing begins that a search finds.
fn nothing_at(place: &Place, at: At, survey: &Survey) -> Error {
    let failure = Error::new(format!("{at}: nothing that is known begins there"));
    let targets = lines(place, survey);
    let forced = Setting::Format
        + " with "
        + Setting::Peb
        + ", or @OFFSET+LENGTH, takes what is there for an image";
    if targets.is_empty() {
        failure.hint(forced)
    } else {
        failure.hint(targets.join("; ")).also(forced)
    }
}

/// An error that lists what there is, as targets.
pub(crate) fn choose(place: &Place, survey: &Survey) -> Error {
    let path = place.path.display();
    let targets = lines(place, survey);
    let count = text::count(survey.parts.len() as u64, "image", "images");
    let hint = format!("name one: {}", targets.join("; "));
    Error::new(format!("{path}: there are {count} in the file")).hint(hint)
}

/// The target that names a part.
pub fn target(place: &Place, part: &Part) -> String {
    format!("{}@{}", place.path.display(), part.offset)
}

/// One line for each part: its target, and what it is.
fn lines(place: &Place, survey: &Survey) -> Vec<String> {
    let line = |part: &Part| format!("{} ({})", target(place, part), part.describe());
    let mut lines: Vec<String> = survey.parts.iter().take(MOST_NAMED).map(line).collect();
    if survey.parts.len() > MOST_NAMED {
        lines.push(format!("... (`eraseblock info {}` lists all)", place.path.display()));
    }
    if survey.more {
        lines.push("there may be more: not every header was looked at".to_owned());
    }
    lines
}
