//! File systems of an image, and their files.

use crate::error::{Listed, listed};
use crate::view::{Members, View};
use crate::work::{Threads, short, stoppable, whole};
use eraseblock::raw::tree::{extract, tar_out};
use eraseblock::raw::vfs::{self, FsError, FsErrorKind, Timestamp};
use eraseblock::{ExtractOptions, ExtractReport, Metadata, Owners, ReadAt, VolumeContent};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Bytes that a file object gets at a time.
const PIECE: usize = 1 << 20;

/// What `stat` returns: mode, ino, nlink, uid, gid, size, times in nanoseconds, device number.
type Stat = (u32, u64, u32, u32, u32, u64, (i128, i128, i128), (u32, u32));

/// Names of an entry of a directory: name, mode bits of its kind, inode number.
type Entry<'py> = (Bound<'py, PyBytes>, u32, u64);

/// Of an extraction: whether owners are set, xattrs are, existing files are replaced, and damaged files
/// kept.
type Choices = (Option<bool>, bool, bool, bool);

/// The numbers of an extraction: files, directories, symlinks, specials, further names, bytes, names
/// left out, damaged files; and the findings.
type Extracted = ([u64; 8], Listed);

/// A file system, opened to be read.
#[pyclass(frozen, module = "eraseblock._native")]
#[derive(Debug)]
pub(crate) struct FileSystem {
    fs: eraseblock::FileSystem,
    threads: Threads,
}

impl FileSystem {
    pub(crate) fn new(fs: eraseblock::FileSystem, threads: Threads) -> Self {
        Self { fs, threads }
    }
}

#[pymethods]
impl FileSystem {
    fn stat(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<Stat> {
        let metadata = short(py, || {
            if follow { self.fs.metadata(path) } else { self.fs.symlink_metadata(path) }
        })?;
        Ok(stat(&metadata))
    }

    fn read_dir<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Vec<Entry<'py>>> {
        let entries = short(py, || self.fs.read_dir(path))?;
        let entry = |entry: eraseblock::DirEntry| {
            (PyBytes::new(py, entry.name_bytes()), entry.kind().mode_bits(), entry.ino())
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn read_link<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let target = short(py, || self.fs.read_link(path))?;
        Ok(PyBytes::new(py, &target))
    }

    fn read<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let content = short(py, || self.regular(path).and_then(|()| self.fs.read(path)))?;
        Ok(PyBytes::new(py, &content))
    }

    fn xattrs<'py>(
        &self,
        py: Python<'py>,
        path: &[u8],
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let pairs = short(py, || self.fs.xattrs(path))?;
        let pair =
            |(name, value): (Vec<u8>, Vec<u8>)| (PyBytes::new(py, &name), PyBytes::new(py, &value));
        Ok(pairs.into_iter().map(pair).collect())
    }

    fn open(&self, py: Python<'_>, path: &[u8]) -> PyResult<File> {
        let file = short(py, || self.regular(path).and_then(|()| self.fs.open(path)))?;
        let size = file.len();
        Ok(File { content: Box::new(file), size })
    }

    fn findings(&self) -> Listed {
        listed(self.fs.findings())
    }

    fn late_findings(&self) -> Listed {
        listed(&self.fs.late_findings())
    }

    fn check(&self, py: Python<'_>) -> PyResult<Listed> {
        whole(py, self.threads, || Ok(listed(&self.fs.check())))
    }

    fn extract(
        &self,
        py: Python<'_>,
        dest: PathBuf,
        members: Option<Vec<Vec<u8>>>,
        choices: Choices,
    ) -> PyResult<Extracted> {
        let (owners, xattrs, force, keep_damaged) = choices;
        let set = |keep| if keep { Owners::Keep } else { Owners::Skip };
        let owners = owners.map_or(Owners::IfRoot, set);
        let options = ExtractOptions::default().owners(owners).xattrs(xattrs).force(force);
        let options = options.keep_damaged(keep_damaged);
        self.viewed(py, members, |view| {
            let root = vfs::FileSystem::root(view);
            Ok(extract::to_dir(view, root, &dest, &options, &|_| {})?)
        })
    }

    fn to_tar(
        &self,
        py: Python<'_>,
        out: Py<PyAny>,
        members: Option<Vec<Vec<u8>>>,
        xattrs: bool,
        keep_damaged: bool,
    ) -> PyResult<Extracted> {
        let options = tar_out::TarOptions { xattrs, keep_damaged, ..Default::default() };
        let refusal = Mutex::new(None);
        let mut out = Writer { out, refusal: &refusal };
        let written = self.viewed(py, members, |view| {
            let root = vfs::FileSystem::root(view);
            Ok(tar_out::write(
                view,
                root,
                &mut io::BufWriter::with_capacity(PIECE, &mut out),
                &options,
            )?)
        });
        // What the file object raised says more than the error that it led to.
        written.map_err(|error| refusal.into_inner().ok().flatten().unwrap_or(error))
    }
}

impl FileSystem {
    /// Fails if the path leads to something that is no regular file.
    fn regular(&self, path: &[u8]) -> eraseblock::Result<()> {
        if !self.fs.metadata(path)?.is_dir() {
            return Ok(());
        }
        let error = FsError::new(FsErrorKind::IsADirectory, "is a directory");
        Err(eraseblock::Error::from(error).context(eraseblock::text::name(path)))
    }

    /// Runs an extraction over the members that were chosen, until a signal stops it.
    fn viewed(
        &self,
        py: Python<'_>,
        members: Option<Vec<Vec<u8>>>,
        work: impl FnOnce(&View<'_>) -> eraseblock::Result<ExtractReport> + Send,
    ) -> PyResult<Extracted> {
        let stop = AtomicBool::new(false);
        let report = stoppable(py, self.threads, &stop, || {
            let fs = self.fs.inner();
            let members = members.map(|paths| Members::new(fs, &paths)).transpose()?;
            work(&View { fs, members, stop: &stop })
        })?;
        Ok(extracted(&report))
    }
}

fn extracted(report: &ExtractReport) -> Extracted {
    let numbers = [
        report.files,
        report.directories,
        report.symlinks,
        report.specials,
        report.hard_links,
        report.bytes,
        report.left_out,
        report.damaged,
    ];
    (numbers, listed(&report.findings))
}

fn stat(metadata: &Metadata) -> Stat {
    let attr = metadata.attr();
    let time =
        |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let times = (time(attr.atime), time(attr.mtime), time(attr.ctime));
    (attr.mode(), attr.ino, attr.nlink, attr.uid, attr.gid, attr.size, times, attr.rdev)
}

/// An open regular file, or the raw content of a volume.
#[pyclass(frozen, module = "eraseblock._native")]
#[derive(Debug)]
pub(crate) struct File {
    content: Box<dyn ReadAt>,
    size: u64,
}

impl File {
    pub(crate) fn of_volume(content: VolumeContent) -> Self {
        let size = content.len();
        Self { content: Box::new(Raw(content)), size }
    }
}

/// The content of a volume, read at any place.
#[derive(Debug)]
struct Raw(VolumeContent);

impl ReadAt for Raw {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        use io::{Read, Seek};
        // Clones share the content, and have a position of their own.
        let mut content = self.0.clone();
        content.seek(io::SeekFrom::Start(offset))?;
        content.read_exact(buf)
    }
}

#[pymethods]
impl File {
    fn size(&self) -> u64 {
        self.size
    }

    /// Fills the whole buffer with the bytes at `offset`; another one takes them first, because the
    /// interpreter is not held meanwhile.
    fn read_into(&self, py: Python<'_>, buffer: PyBuffer<u8>, offset: u64) -> PyResult<()> {
        let mut bytes = vec![0; buffer.item_count()];
        short(py, || Ok(self.content.read_exact_at(&mut bytes, offset)?))?;
        buffer.copy_from_slice(py, &bytes)
    }
}

/// A file object of Python that takes an archive.
struct Writer<'a> {
    out: Py<PyAny>,
    refusal: &'a Mutex<Option<PyErr>>,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = Python::attach(|py| {
            let written = self.out.call_method1(py, "write", (PyBytes::new(py, bytes),))?;
            // A raw file may take less; an object that returns nothing has taken everything.
            Ok(written.extract(py).unwrap_or(bytes.len()).min(bytes.len()))
        });
        written.map_err(|error: PyErr| {
            let other = io::Error::other(error.to_string());
            self.refusal.lock().unwrap_or_else(PoisonError::into_inner).replace(error);
            other
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
