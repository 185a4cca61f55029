//! Images changed in place.
//!
//! # Invariants
//! 1. The lock of a mounted file system is taken only while detached from the interpreter.
//! 2. A file system that is mounted for writing belongs to the process that mounted it: a forked child
//!    can neither use nor unmount it.

use crate::error::{Listed, listed};
use crate::work::{Threads, whole};
use eraseblock::Error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// A file system mounted for writing.
#[pyclass(frozen, module = "eraseblock._native")]
#[derive(Debug)]
pub(crate) struct EditVolume {
    /// `None` once it is closed.
    mounted: Mutex<Option<eraseblock::EditVolume>>,
    process: u32,
}

/// Mounts a file system of the image at `path` for writing: the one of this volume, or the only one.
#[pyfunction]
#[pyo3(signature = (path, volume, flash_size, fastmap, peb, time))]
pub(crate) fn edit(
    py: Python<'_>,
    path: PathBuf,
    volume: Option<&[u8]>,
    flash_size: Option<u64>,
    fastmap: bool,
    peb: Option<u32>,
    time: Option<u64>,
) -> PyResult<EditVolume> {
    let mounted = whole(py, Threads::default(), || {
        let mut edit = eraseblock::edit(path)?.fastmap(fastmap);
        edit = flash_size.into_iter().fold(edit, eraseblock::Edit::flash_size);
        edit = peb.into_iter().fold(edit, eraseblock::Edit::peb);
        let time = time.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        edit = time.into_iter().fold(edit, eraseblock::Edit::time);
        match volume {
            Some(volume) => edit.volume(volume),
            None => edit.file_system(),
        }
    })?;
    Ok(EditVolume { mounted: Mutex::new(Some(mounted)), process: std::process::id() })
}

impl EditVolume {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&eraseblock::EditVolume) -> eraseblock::Result<T> + Send,
    ) -> PyResult<T> {
        whole(py, Threads::default(), || {
            if self.process != std::process::id() {
                return Err(Error::usage("another process has mounted this file system"));
            }
            let mounted = self.mounted.lock().unwrap_or_else(PoisonError::into_inner);
            work(mounted.as_ref().ok_or_else(|| Error::usage("the file system is closed"))?)
        })
    }
}

#[pymethods]
impl EditVolume {
    fn findings(&self, py: Python<'_>) -> PyResult<Listed> {
        self.with(py, |fs| Ok(listed(fs.findings())))
    }

    fn read<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let content = self.with(py, |fs| fs.read(path))?;
        Ok(PyBytes::new(py, &content))
    }

    fn write(&self, py: Python<'_>, path: &[u8], content: &[u8]) -> PyResult<()> {
        self.with(py, |fs| fs.write(path, content))
    }

    fn mkdir(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, |fs| fs.create_dir_all(path))
    }

    fn symlink(&self, py: Python<'_>, target: &[u8], path: &[u8]) -> PyResult<()> {
        self.with(py, |fs| fs.symlink(target, path))
    }

    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, |fs| fs.remove(path))
    }

    fn rename(&self, py: Python<'_>, from: &[u8], to: &[u8]) -> PyResult<()> {
        self.with(py, |fs| fs.rename(from, to))
    }

    fn chmod(&self, py: Python<'_>, path: &[u8], permissions: u32) -> PyResult<()> {
        self.with(py, |fs| fs.set_permissions(path, permissions))
    }

    fn chown(&self, py: Python<'_>, path: &[u8], uid: u32, gid: u32) -> PyResult<()> {
        self.with(py, |fs| fs.set_owner(path, uid, gid))
    }

    fn check(&self, py: Python<'_>) -> PyResult<Listed> {
        self.with(py, |fs| Ok(listed(&fs.check()?)))
    }

    /// Unmounts; does nothing the second time.
    fn close(&self, py: Python<'_>) -> PyResult<Listed> {
        let process = self.process;
        whole(py, Threads::default(), || {
            let mut mounted = self.mounted.lock().unwrap_or_else(PoisonError::into_inner);
            match mounted.take() {
                Some(fs) if process == std::process::id() => Ok(listed(&fs.close()?)),
                other => {
                    std::mem::forget(other);
                    Ok(Listed::default())
                }
            }
        })
    }
}

impl Drop for EditVolume {
    fn drop(&mut self) {
        let mounted = self.mounted.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            std::mem::forget(mounted);
            return;
        }
        // Unmounting may write, which is work for the pool; without an interpreter, the journal has
        // everything.
        let Some(fs) = mounted else { return };
        Python::try_attach(|py| whole(py, Threads::default(), || fs.close()));
    }
}
