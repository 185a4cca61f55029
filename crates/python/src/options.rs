//! What an image is taken for instead of what is detected: keyword arguments of `open`, `check`.

use crate::work::Threads;
use eraseblock::raw::base::ByteOrder;
use eraseblock::{Image, Kind, OpenOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

const KINDS: [Kind; 7] =
    [Kind::Ubi, Kind::Ubifs, Kind::Jffs2, Kind::Yaffs, Kind::Axfs, Kind::Logfs, Kind::Squashfs];

/// Returns what Python calls a format.
pub(crate) fn kind_name(kind: Kind) -> String {
    kind.name().to_lowercase()
}

/// Returns the options of these keywords, and the threads to work on. `None` is no choice.
pub(crate) fn options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<(OpenOptions, Threads)> {
    let (mut options, mut threads) = (Image::options(), Threads::default());
    for (name, value) in keywords.into_iter().flat_map(PyDictMethods::iter) {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        options = match name.as_str() {
            "format" => options.format(format(value.extract()?)?),
            "peb" => options.peb(value.extract()?),
            "page" => options.page(value.extract()?),
            "subpage" => options.subpage(value.extract()?),
            "vid_offset" => options.vid_offset(value.extract()?),
            "leb" => options.leb(value.extract()?),
            "byte_order" => options.byte_order(byte_order(value.extract()?)?),
            "offset" => options.offset(value.extract()?),
            "length" => options.length(value.extract()?),
            "strict" => options.strict(value.extract()?),
            "threads" => {
                threads = Threads(Some(value.extract()?));
                options
            }
            other => return Err(PyTypeError::new_err(format!("unknown option `{other}`"))),
        };
    }
    Ok((options, threads))
}

fn format(name: &str) -> PyResult<Kind> {
    let found = KINDS.into_iter().find(|kind| kind_name(*kind) == name);
    found.ok_or_else(|| {
        let names = KINDS.map(kind_name).join(", ");
        PyValueError::new_err(format!("format `{name}` is not known: expected {names}"))
    })
}

fn byte_order(name: &str) -> PyResult<ByteOrder> {
    match name {
        "little" => Ok(ByteOrder::Little),
        "big" => Ok(ByteOrder::Big),
        other => {
            Err(PyValueError::new_err(format!("byte order `{other}`: expected little or big")))
        }
    }
}
