//! Functions on whole files: building, checking, looking for images, the command.

use crate::error::{Listed, listed, unopened};
use crate::options::options;
use crate::source::source;
use crate::work::{Threads, short, whole};
use eraseblock::target::survey;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

/// What was built: number of the image, size, eraseblocks, and of each volume number, name, its LEBs, and
/// those with content.
type Built = (u32, u64, u32, Vec<(u32, String, u32, u32)>);

/// Builds the image of the layout file at `layout`; with its text, `layout` is the folder that paths in it
/// are relative to.
#[pyfunction]
#[pyo3(signature = (layout, text, out))]
pub(crate) fn build(
    py: Python<'_>,
    layout: PathBuf,
    text: Option<&str>,
    out: PathBuf,
) -> PyResult<Built> {
    let report = whole(py, Threads::default(), || {
        let build = match text {
            Some(text) => eraseblock::Build::from_text(text, &layout)?,
            None => eraseblock::build(&layout)?,
        };
        build.write_to(&out)
    })?;
    let volume = |volume: &eraseblock::BuiltVolume| {
        (volume.id, volume.name.clone(), volume.reserved_lebs, volume.content_lebs)
    };
    let volumes = report.volumes.iter().map(volume).collect();
    Ok((report.image_seq, report.image_size, report.blocks, volumes))
}

/// Checks everything in an image: whether it is consistent, findings, next steps.
#[pyfunction]
#[pyo3(signature = (path, volume, **keywords))]
pub(crate) fn check(
    py: Python<'_>,
    path: PathBuf,
    volume: Option<&[u8]>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<(bool, Listed, Vec<String>)> {
    let (options, threads) = options(keywords)?;
    let report = whole(py, threads, || match volume {
        Some(volume) => options.check_volume(&path, volume),
        None => options.check(&path).map_err(unopened),
    })?;
    let steps = report.next_steps().iter().map(|step| step.as_str().to_owned()).collect();
    Ok((report.is_consistent(), listed(report.findings()), steps))
}

/// Looks through a file or an object for everything that can be opened: offset, length, format, and a
/// description of each.
#[pyfunction]
#[pyo3(name = "survey", signature = (path, object))]
pub(crate) fn survey_of(
    py: Python<'_>,
    path: Option<PathBuf>,
    object: &Bound<'_, PyAny>,
) -> PyResult<Vec<(u64, u64, String, String)>> {
    let found = if let Some(path) = path {
        short(py, || Ok(survey::survey(&File::open(path)?)?))?
    } else {
        let reader = source(object)?;
        short(py, || Ok(survey::survey(reader.as_ref())?))?
    };
    let part = |part: &survey::Part| (part.offset, part.length, format(part), part.describe());
    Ok(found.parts.iter().map(part).collect())
}

fn format(part: &survey::Part) -> String {
    match part.kind {
        survey::Kind::Ubi { .. } => "ubi".to_owned(),
        survey::Kind::Ubifs { .. } => "ubifs".to_owned(),
        survey::Kind::Jffs2 { .. } => "jffs2".to_owned(),
        survey::Kind::Yaffs { .. } => "yaffs".to_owned(),
        survey::Kind::Read { format } => crate::options::kind_name(format),
    }
}

/// Runs the `eraseblock` command, which the file `program` starts, with these arguments, the program's
/// name first; returns its exit code.
#[pyfunction]
pub(crate) fn cli(py: Python<'_>, program: PathBuf, arguments: Vec<OsString>) -> u8 {
    py.detach(|| eraseblock_cli::run_within(&program, arguments))
}
