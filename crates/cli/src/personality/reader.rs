//! What the readers have in common: the images of a file, and extracting a file system.

use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::tree::extract::{ExtractOptions, to_dir};
use eraseblock::target::filesystem::Opened;
use eraseblock::target::image::{self, Image};
use eraseblock::target::span::{self, At, Meant, Span};
use eraseblock::target::{Place, Shape, Sizes};
use std::path::{Path, PathBuf};

/// Which bytes of a file are looked at, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct Range {
    /// The first one.
    pub start: Option<u64>,
    /// The one after the last.
    pub end: Option<u64>,
    /// Where the search for images begins.
    pub search: u64,
    /// The size of an eraseblock, if it is given.
    pub peb: Option<u32>,
    /// The size of a LEB of a bare UBIFS, if it is given.
    pub leb: Option<u32>,
}

/// An image of a file.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// The image.
    pub image: Image,
}

/// Opens every image in a file; one that cannot be opened is a finding if there are others.
pub(super) fn images(
    path: &Path,
    range: &Range,
    session: &mut Session,
) -> Result<Vec<Found>, Failure> {
    if !path.exists() {
        return Err(Failure::usage(format!("{}: no such file", path.display())));
    }
    session.keep_still(path)?;
    let at = range
        .start
        .or(range.end.map(|_| 0))
        .map(|offset| At { offset, length: range.end.map(|end| end.saturating_sub(offset)) });
    let place = Place { path: path.to_owned(), at, volume: None };
    let sizes = Sizes { peb: range.peb, ..Sizes::default() };
    let shape = Shape { sizes, leb: range.leb, ..Shape::default() };
    let spans = match span::meant(&place, &shape)? {
        Meant::Device => vec![None],
        Meant::Span(span) => vec![Some(span)],
        Meant::Several(survey) => survey.parts.iter().map(|part| Some(Span::from(part))).collect(),
    };
    let mut found = Vec::new();
    let several = spans.len() > 1;
    for span in spans {
        let offset = span.map_or(0, |span| span.offset);
        match image::open_span(&place, span, &shape, session) {
            _ if several && offset < range.search => {}
            Ok(image) => found.push(Found { offset, image }),
            Err(failure) if several => {
                session.refused(eraseblock::raw::base::Location::Byte(offset), failure.message());
            }
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(found)
}

/// Extracts a file system into a folder that may hold something already.
pub(super) fn extract(
    opened: Opened,
    dest: &Path,
    options: &ExtractOptions,
    session: &mut Session,
) -> Result<(), Failure> {
    std::fs::create_dir_all(dest).context(dest.display())?;
    let root = opened.fs().root();
    let report = to_dir(opened.fs(), root, dest, options, &|_| {}).context(dest.display())?;
    opened.finish(session);
    session.report(report.findings);
    Ok(())
}

/// A folder of its own for each image where there are several, by the offset.
pub(super) fn folder(dest: &Path, offset: u64, several: bool) -> PathBuf {
    if several { dest.join(offset.to_string()) } else { dest.to_owned() }
}
