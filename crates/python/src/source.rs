//! Images that Python holds: bytes, other buffers, and file objects.
//!
//! # Invariants
//! 1. The lock of a file object is taken by threads that are detached from the interpreter, so that the
//!    one that has it can always attach.

use eraseblock::ReadAt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are asked of a file object at a time.
const PIECE: usize = 1 << 20;

/// Returns the source that a Python object is: bytes are borrowed, of other buffers and of file objects
/// what is read is copied.
pub(crate) fn source(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn ReadAt>> {
    if object.is_instance_of::<PyBytes>() {
        return Ok(Arc::new(Bytes(object.extract()?)));
    }
    // A mapped file is both; its memory needs no position.
    if let Ok(view) = PyMemoryView::from(object) {
        let view = view.call_method1("cast", ("B",))?;
        let size = view.len()?;
        return Ok(Arc::new(Buffer { view: view.unbind(), size }));
    }
    if !object.hasattr("read")? || !object.hasattr("seek")? {
        let found = object.get_type().name()?;
        let message = format!("{found}: expected a path, bytes or a seekable binary file");
        return Err(PyTypeError::new_err(message));
    }
    let size = object.call_method1("seek", (0, 2))?.extract()?;
    Ok(Arc::new(FileObject { file: Mutex::new(object.clone().unbind()), size }))
}

/// An object of type `bytes`.
struct Bytes(PyBackedBytes);

/// An object with the buffer protocol, as a memoryview of bytes.
#[derive(Debug)]
struct Buffer {
    view: Py<PyAny>,
    size: usize,
}

/// A binary file object.
#[derive(Debug)]
struct FileObject {
    file: Mutex<Py<PyAny>>,
    size: u64,
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.0.len())
    }
}

/// Returns the end of a range, if it lies within `size`.
fn end(offset: u64, len: usize, size: usize) -> io::Result<(usize, usize)> {
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some((start, start.checked_add(len)?)));
    range.filter(|(_, end)| *end <= size).ok_or(io::ErrorKind::UnexpectedEof.into())
}

impl ReadAt for Bytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (start, end) = end(offset, buf.len(), self.0.len())?;
        buf.copy_from_slice(&self.0[start..end]);
        Ok(())
    }
}

impl ReadAt for Buffer {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (start, end) = end(offset, buf.len(), self.size)?;
        let index = |place: usize| isize::try_from(place).map_err(io::Error::other);
        let (start, end) = (index(start)?, index(end)?);
        Python::attach(|py| {
            let part = self.view.bind(py).get_item(PySlice::new(py, start, end, 1))?;
            let bytes = part.call_method0("tobytes")?;
            let bytes: PyBackedBytes = bytes.extract().map_err(PyErr::from)?;
            fill(buf, &bytes)
        })
    }
}

impl ReadAt for FileObject {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        Python::attach(|py| {
            let file = file.bind(py);
            file.call_method1("seek", (offset,))?;
            let mut rest = buf;
            while !rest.is_empty() {
                let wanted = rest.len().min(PIECE);
                let bytes = file.call_method1("read", (wanted,))?;
                let bytes: PyBackedBytes = bytes.extract().map_err(PyErr::from)?;
                if bytes.is_empty() || bytes.len() > wanted {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let (now, later) = rest.split_at_mut(bytes.len());
                fill(now, &bytes)?;
                rest = later;
            }
            Ok(())
        })
    }
}

fn fill(buf: &mut [u8], bytes: &[u8]) -> io::Result<()> {
    if bytes.len() != buf.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    buf.copy_from_slice(bytes);
    Ok(())
}
