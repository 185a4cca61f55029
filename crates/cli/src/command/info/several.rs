//! Several images in one file, as `info` lists them.

use crate::failure::Failure;
use crate::session::Session;
use crate::table::{Align, Table};
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::mtd::ReadAt;
use eraseblock::target::Place;
use eraseblock::target::span;
use eraseblock::target::survey::{Part, Survey, Unknown};
use eraseblock::text;
use serde::Serialize;
use std::fs::File;

/// Several things in one file, as JSON.
#[derive(Debug, Serialize)]
struct Several<'a> {
    format: &'static str,
    path: String,
    file_size: u64,
    images: Vec<Listed<'a>>,
    unknown: Vec<Unknown>,
    more: bool,
}

/// One of them, and the target that names it.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    target: String,
    #[serde(flatten)]
    part: &'a Part,
}

/// Lists what there is in a file.
pub(super) fn list(place: &Place, survey: &Survey, session: &mut Session) -> Result<(), Failure> {
    let path = place.path.display().to_string();
    let file = File::open(&place.path)?;
    let file_size = ReadAt::size(&file)?;
    let unknown = survey.unknown(&file)?;
    if session.options.json {
        let listed = |part| Listed { target: span::target(place, part), part };
        let images = survey.parts.iter().map(listed).collect();
        let more = survey.more;
        return session.json(&Several {
            format: "several",
            path,
            file_size,
            images,
            unknown,
            more,
        });
    }
    let count = text::count(survey.parts.len() as u64, "image", "images");
    let size = format_size(file_size);
    let mut table = Table::new(&[
        ("offset", Align::Right),
        ("length", Align::Right),
        ("target", Align::Left),
        ("", Align::Left),
    ]);
    let mut rows: Vec<(u64, u64, String, String)> = Vec::new();
    for part in &survey.parts {
        rows.push((part.offset, part.length, span::target(place, part), part.describe()));
    }
    for Unknown { offset, length, looks_like, .. } in &unknown {
        let what = looks_like.map(|name| format!(", begins like {name}")).unwrap_or_default();
        rows.push((*offset, *length, "-".to_owned(), format!("unknown{what}")));
    }
    rows.sort_unstable_by_key(|row| row.0);
    for (offset, length, target, what) in rows {
        table.row(vec![offset.to_string(), length.to_string(), target, what]);
    }
    session.lines([format!("{path}: {count} in {size}"), String::new()])?;
    let lines = table.lines(2, session.style);
    session.lines(lines)?;
    if survey.more {
        session.remark("there may be more: not every header was looked at");
    }
    session.advise([format!("`eraseblock info {path}@OFFSET` shows one of them")]);
    Ok(())
}
