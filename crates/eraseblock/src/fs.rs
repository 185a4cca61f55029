//! A file system of an image, opened to be read.

pub(crate) mod path;

use crate::error::{Context, Error, Result};
use crate::file::File;
use crate::image::Image;
use crate::target::filesystem::{Opened, copy};
use crate::text;
use eraseblock_base::Findings;
use eraseblock_vfs::walk::{Descend, Visit};
use eraseblock_vfs::{Attr, FileKind, Timestamp};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file system, opened to be read. Clones are cheap and share everything; all methods can be called
/// from several threads.
///
/// Paths are text or bytes, from the root, with or without a slash at the start. Symbolic links are
/// followed inside the image, 40 of them at most; `..` of the root is the root.
#[derive(Clone, Debug)]
pub struct FileSystem(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    opened: Opened,
    /// Keeps writers away.
    _image: Image,
}

impl FileSystem {
    pub(crate) fn new(opened: Opened, image: Image) -> Self {
        Self(Arc::new(Inner { opened, _image: image }))
    }

    /// Returns the layer below, which works with inode numbers.
    pub fn inner(&self) -> &dyn eraseblock_vfs::FileSystem {
        self.0.opened.fs()
    }

    /// Reads a whole regular file. Fails if there is no such file, or if a part of it is lost.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        read(self.inner(), path.as_ref())
    }

    /// Reads a whole regular file that is UTF-8. Fails like [`Self::read`], and if the content is
    /// not UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<[u8]>) -> Result<String> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|error| Error::new(format!("{}: {error}", text::name(path))))
    }

    /// Returns the entries of a directory, sorted by name. Fails if there is no such directory, or
    /// if it cannot be read.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirEntry>> {
        let path = path.as_ref();
        let ino = path::resolve(self.inner(), path)?;
        let mut entries: Vec<DirEntry> = self
            .inner()
            .entries(ino)
            .context(text::name(path))?
            .into_iter()
            .map(|entry| DirEntry { name: entry.name, kind: entry.kind, ino: entry.ino })
            .collect();
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(entries)
    }

    /// Returns what is known about the file at `path`, symbolic links followed. Fails if there is
    /// no such file, or if its inode cannot be read.
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        let path = path.as_ref();
        let ino = path::resolve(self.inner(), path)?;
        self.inner().attr(ino).map(Metadata).context(text::name(path))
    }

    /// Returns what is known about the file or symbolic link at `path`. Fails if there is no such
    /// file, or if its inode cannot be read.
    pub fn symlink_metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        let path = path.as_ref();
        let ino = path::resolve_link(self.inner(), path)?;
        self.inner().attr(ino).map(Metadata).context(text::name(path))
    }

    /// Returns the target of a symbolic link. Fails if there is no symbolic link at `path`.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let ino = path::resolve_link(self.inner(), path)?;
        self.inner().read_link(ino).context(text::name(path))
    }

    /// Returns whether `path` leads to something, symbolic links followed. What cannot be read counts
    /// as missing.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> bool {
        path::resolve(self.inner(), path.as_ref()).is_ok()
    }

    /// Opens a regular file. Fails if there is no regular file at `path`.
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<File> {
        let path = path.as_ref();
        let attr = regular(self.inner(), path)?;
        Ok(File::new(self.clone(), attr.ino, attr.size))
    }

    /// Calls `visit` with the path and the entry of everything below the directory at `path`,
    /// parents first. Paths begin at that directory, without a slash. What cannot be read is
    /// skipped; after the walk, [`FileSystem::late_findings`] names it. Fails if there is no
    /// directory at `path`, or if `visit` does.
    pub fn walk(
        &self,
        path: impl AsRef<[u8]>,
        visit: &mut dyn FnMut(&[u8], &DirEntry) -> Result<()>,
    ) -> Result<()> {
        let top = path::resolve(self.inner(), path.as_ref())?;
        eraseblock_vfs::walk::walk(self.inner(), top, &mut |met| {
            if let Visit::Entry { path, entry } = met {
                let (name, kind, ino) = (entry.name.clone(), entry.kind, entry.ino);
                visit(path, &DirEntry { name, kind, ino })?;
            }
            Ok(Descend::Yes)
        })
    }

    /// Returns names and values of the extended attributes of the file at `path`, sorted by name.
    /// Fails if there is no such file, or if an attribute cannot be read.
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let path = path.as_ref();
        let fs = self.inner();
        let ino = path::resolve(fs, path)?;
        let mut names = fs.list_xattrs(ino).context(text::name(path))?;
        names.sort();
        let value = |name: Vec<u8>| {
            let value = fs.xattr(ino, &name).context(text::name(path))?;
            Ok((name, value))
        };
        names.into_iter().map(value).collect()
    }

    /// Copies everything into the folder `dest`, which is made if it is missing. What cannot be
    /// delivered is among the findings of the report. Fails if the folder cannot be written.
    #[cfg(feature = "extract")]
    pub fn extract_to(
        &self,
        dest: impl AsRef<std::path::Path>,
        options: &crate::ExtractOptions,
    ) -> Result<crate::ExtractReport> {
        let (fs, dest) = (self.inner(), dest.as_ref());
        let done = eraseblock_tree::extract::to_dir(fs, fs.root(), dest, options, &|_| {});
        done.context(dest.display())
    }

    /// Writes everything as a tar archive. What cannot be delivered is among the findings of the
    /// report. Fails if `out` does.
    #[cfg(feature = "extract")]
    pub fn to_tar(&self, out: &mut dyn std::io::Write) -> Result<crate::ExtractReport> {
        let options = eraseblock_tree::tar_out::TarOptions::default();
        Ok(eraseblock_tree::tar_out::write(self.inner(), self.inner().root(), out, &options)?)
    }

    /// Reads every name, attribute and byte, and returns all that is wrong.
    #[cfg(feature = "extract")]
    pub fn check(&self) -> Findings {
        let mut findings = self.0.opened.findings().clone();
        findings.append(eraseblock_tree::scrub::scrub(self.inner(), &|_| {}));
        findings
    }

    /// Returns what was found when the file system was opened.
    pub fn findings(&self) -> &Findings {
        self.0.opened.findings()
    }

    /// Returns what reading has found since.
    pub fn late_findings(&self) -> Findings {
        self.0.opened.late_findings()
    }
}

/// Reads a whole regular file.
pub(crate) fn read(fs: &dyn eraseblock_vfs::FileSystem, path: &[u8]) -> Result<Vec<u8>> {
    let attr = regular(fs, path)?;
    let mut content = Vec::new();
    copy(fs, &attr, &mut |_, bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })
    .context(text::name(path))?;
    Ok(content)
}

/// The attributes of the regular file at a path, symbolic links followed.
fn regular(fs: &dyn eraseblock_vfs::FileSystem, path: &[u8]) -> Result<Attr> {
    let shown = || text::name(path);
    let attr = fs.attr(path::resolve(fs, path)?).context(shown())?;
    match attr.kind {
        FileKind::Regular => Ok(attr),
        _ => Err(Error::new("is not a regular file").context(shown())),
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    name: Vec<u8>,
    kind: FileKind,
    ino: u64,
}

impl DirEntry {
    /// Returns its name, with what is no UTF-8 replaced.
    pub fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }

    /// Returns its name as the image has it.
    pub fn name_bytes(&self) -> &[u8] {
        &self.name
    }

    /// Returns what it is.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Returns its inode number.
    pub fn ino(&self) -> u64 {
        self.ino
    }
}

/// What a file system knows about a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata(Attr);

impl Metadata {
    /// Returns what it is.
    pub fn kind(&self) -> FileKind {
        self.0.kind
    }

    /// Returns whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.kind == FileKind::Regular
    }

    /// Returns whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileKind::Directory
    }

    /// Returns whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileKind::Symlink
    }

    /// Returns its length in bytes.
    #[allow(clippy::len_without_is_empty)] // as in std::fs
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Returns permission bits, set-id bits and the sticky bit.
    pub fn permissions(&self) -> u32 {
        self.0.permissions
    }

    /// Returns its owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Returns its group.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Returns the last change of its content.
    pub fn modified(&self) -> SystemTime {
        moment(self.0.mtime)
    }

    /// Returns everything else.
    pub fn attr(&self) -> &Attr {
        &self.0
    }
}

fn moment(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    let fraction = Duration::from_nanos(time.nanoseconds.into());
    whole.and_then(|whole| whole.checked_add(fraction)).unwrap_or(UNIX_EPOCH)
}
