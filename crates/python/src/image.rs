//! Images that were opened to be read, and their volumes.

use crate::error::{Listed, listed, unopened};
use crate::fs::{File, FileSystem};
use crate::options::{kind_name, options};
use crate::source::source;
use crate::work::{Threads, short, whole};
use eraseblock::VolumeKind;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// An opened image.
#[pyclass(frozen, module = "eraseblock._native")]
#[derive(Debug)]
pub(crate) struct Image {
    image: eraseblock::Image,
    threads: Threads,
}

/// Opens a path, or else an object that is an image.
#[pyfunction]
#[pyo3(signature = (path, object, **keywords))]
pub(crate) fn open(
    py: Python<'_>,
    path: Option<PathBuf>,
    object: &Bound<'_, PyAny>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Image> {
    let (options, threads) = options(keywords)?;
    let image = if let Some(path) = path {
        whole(py, threads, || options.open(path).map_err(unopened))?
    } else {
        let reader = source(object)?;
        whole(py, threads, || options.from_reader(reader).map_err(unopened))?
    };
    Ok(Image { image, threads })
}

#[pymethods]
impl Image {
    fn kind(&self) -> String {
        kind_name(self.image.kind())
    }

    fn findings(&self) -> Listed {
        listed(self.image.findings())
    }

    fn volumes(&self) -> Vec<Volume> {
        let volumes = self.image.volumes();
        volumes.map(|volume| Volume { volume, threads: self.threads }).collect()
    }

    fn file_system(&self, py: Python<'_>) -> PyResult<FileSystem> {
        let fs = whole(py, self.threads, || self.image.file_system())?;
        Ok(FileSystem::new(fs, self.threads))
    }
}

/// A volume of a UBI image.
#[pyclass(frozen, module = "eraseblock._native")]
#[derive(Debug)]
pub(crate) struct Volume {
    volume: eraseblock::Volume,
    threads: Threads,
}

#[pymethods]
impl Volume {
    fn name(&self) -> &[u8] {
        self.volume.name_bytes()
    }

    fn file_name(&self) -> Vec<u8> {
        self.volume.file_name().into_vec()
    }

    fn id(&self) -> u32 {
        self.volume.id()
    }

    fn kind(&self) -> &'static str {
        match self.volume.kind() {
            VolumeKind::Dynamic => "dynamic",
            VolumeKind::Static => "static",
        }
    }

    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn content(&self, py: Python<'_>) -> PyResult<File> {
        let content = short(py, || self.volume.content())?;
        Ok(File::of_volume(content))
    }

    fn file_system(&self, py: Python<'_>) -> PyResult<FileSystem> {
        let fs = whole(py, self.threads, || self.volume.file_system())?;
        Ok(FileSystem::new(fs, self.threads))
    }
}
