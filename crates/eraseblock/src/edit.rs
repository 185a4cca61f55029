//! Images changed in place.

use crate::error::{Context, Error, Result};
use crate::fs::{self, path};
use crate::image::VolumeRef;
use crate::observe::Notes;
use crate::target::writable::{self, Mode, Writable};
use crate::target::{Place, Shape, Wanted};
use crate::text;
use eraseblock_base::Findings;
use eraseblock_vfs::{
    Caller, FileKind, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Begins to change the image at `path`. Nothing is opened or written before a volume or file
/// system is chosen. Fails if there is no such file.
pub fn edit(path: impl AsRef<Path>) -> Result<Edit> {
    let path = path.as_ref();
    path.metadata().context(path.display())?;
    Ok(Edit { path: path.to_owned(), mode: Mode::default(), shape: Shape::default(), time: None })
}

/// An image that is going to be changed.
#[derive(Clone, Debug)]
pub struct Edit {
    path: PathBuf,
    mode: Mode,
    shape: Shape,
    time: Option<Timestamp>,
}

impl Edit {
    /// Sets the size of the flash that the image is made for, in bytes, if the image is shorter: the
    /// file grows to that.
    #[must_use]
    pub fn flash_size(mut self, bytes: u64) -> Self {
        self.mode.size = Some(bytes);
        self
    }

    /// Leaves a fastmap on the flash of a UBI image, so that the next attach need not scan it; without
    /// this, one that is found is removed. Which eraseblocks the flash has must be known: by
    /// [`Self::flash_size`], or from a fastmap.
    #[must_use]
    pub fn fastmap(mut self, fastmap: bool) -> Self {
        self.mode.fastmap = fastmap;
        self
    }

    /// Sets the size of a physical eraseblock, which the nodes of a JFFS2 do not always prove.
    #[must_use]
    pub fn peb(mut self, bytes: u32) -> Self {
        self.shape.sizes.peb = Some(bytes);
        self
    }

    /// Sets the time that changes get, instead of that of the clock: the same changes give the same
    /// bytes then.
    #[must_use]
    pub fn time(mut self, time: SystemTime) -> Self {
        self.time = Some(timestamp(time));
        self
    }

    /// Mounts the file system in the volume of this name or number for writing. Fails if there is
    /// no such volume, or if its file system cannot be mounted for writing.
    pub fn volume<'v>(&self, volume: impl Into<VolumeRef<'v>>) -> Result<EditVolume> {
        self.open(Some(volume.into().bytes()))
    }

    /// Mounts the only file system for writing. Fails if there is none or more than one, or if it
    /// cannot be mounted for writing.
    pub fn file_system(&self) -> Result<EditVolume> {
        self.open(None)
    }

    fn open(&self, volume: Option<Vec<u8>>) -> Result<EditVolume> {
        let place = Place { path: self.path.clone(), at: None, volume };
        let wanted = Wanted { target: place.target(), shape: self.shape.clone() };
        let mut notes = Notes::default();
        let opened = writable::open(&wanted, self.mode, &mut notes);
        let fs = match opened {
            Ok(fs) => fs,
            Err(error) => return Err(error.with_findings(notes.findings)),
        };
        Ok(EditVolume { fs: Some(fs), findings: notes.findings, time: self.time })
    }
}

/// A file system mounted for writing.
///
/// When a change returns, it is durable. Before the first change is complete, an error leaves the
/// image as it was; afterwards, it leaves the file system consistent, with the changes before.
/// Dropping unmounts and discards errors of that; [`EditVolume::close`] returns them. An image that
/// was not unmounted loses nothing: the next mount replays the journal.
///
/// Paths are as those of [`crate::FileSystem`].
#[derive(Debug)]
pub struct EditVolume {
    /// `None` once it is closed.
    fs: Option<Writable>,
    findings: Findings,
    time: Option<Timestamp>,
}

impl EditVolume {
    /// Returns what was found when it was mounted.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns the layer below, which works with inode numbers. Its changes are durable after
    /// [`EditVolume::sync`].
    pub fn inner(&self) -> &dyn WritableFileSystem {
        self.fs.as_ref().expect("only `close` takes it").fs()
    }

    /// Reads a whole regular file. Fails if there is no such file, or if a part of it is lost.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        fs::read(self.inner(), path.as_ref())
    }

    /// Writes a file: makes it, or replaces its content and keeps owner and permissions. A new file
    /// belongs to root and has the permissions 0644. Fails if the folder is missing, or if no space
    /// is left.
    pub fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.change(path, |fs, by| {
            let ino = match path::resolve(fs, path) {
                Ok(ino) => ino,
                Err(error) if error.is_missing() => create(fs, path, NewKind::Regular, 0o644, by)?,
                Err(error) => return Err(error),
            };
            if fs.attr(ino)?.kind != FileKind::Regular {
                return Err(Error::new("is not a regular file"));
            }
            let empty = SetAttr { size: Some(0), ..SetAttr::default() };
            fs.set_attr(ino, &empty, by)?;
            Ok(fs.write(ino, 0, content.as_ref(), by)?)
        })
    }

    /// Makes a directory with the permissions 0755, and those above it that are missing. Fails if
    /// one of them is a file, or if no space is left.
    pub fn create_dir_all(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.change(path, |fs, by| {
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            for end in ends.map(|(end, _)| end).chain([path.len()]) {
                let part = &path[..end];
                match path::resolve(fs, part) {
                    Err(error) if error.is_missing() => {
                        create(fs, part, NewKind::Directory, 0o755, by)?;
                    }
                    Err(error) => return Err(error),
                    Ok(ino) if fs.attr(ino)?.kind == FileKind::Directory => {}
                    Ok(_) => {
                        let message = format!("{} is not a directory", text::name(part));
                        return Err(FsError::new(FsErrorKind::NotADirectory, message).into());
                    }
                }
            }
            Ok(())
        })
    }

    /// Makes a symbolic link at `path` to `target`. Fails if the name is taken, or if no space is
    /// left.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.change(path, |fs, by| {
            create(fs, path, NewKind::Symlink(target.as_ref()), 0o777, by).map(drop)
        })
    }

    /// Removes a file or an empty directory; a symbolic link itself. Fails if there is no such
    /// file, or if the directory is not empty.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.change(path, |fs, by| {
            let (dir, name) = path::resolve_parent(fs, path)?;
            let ino = fs.lookup(dir, name)?;
            match fs.attr(ino)?.kind {
                FileKind::Directory => Ok(fs.remove_dir(dir, name, by)?),
                _ => Ok(fs.unlink(dir, name, by)?),
            }
        })
    }

    /// Renames a file or directory; a file that has the new name is replaced. Fails if there is no
    /// such file, or if the new name is that of a directory with entries.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.change(from, |fs, by| {
            let old = path::resolve_parent(fs, from)?;
            let new = path::resolve_parent(fs, to)?;
            Ok(fs.rename(old, new, RenameMode::Replace, by)?)
        })
    }

    /// Sets permission bits, set-id bits and the sticky bit. Fails if there is no such file.
    pub fn set_permissions(&self, path: impl AsRef<[u8]>, permissions: u32) -> Result<()> {
        let changes = SetAttr { permissions: Some(permissions & 0o7777), ..SetAttr::default() };
        self.set(path.as_ref(), &changes)
    }

    /// Sets owner and group. Fails if there is no such file.
    pub fn set_owner(&self, path: impl AsRef<[u8]>, uid: u32, gid: u32) -> Result<()> {
        let changes = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
        self.set(path.as_ref(), &changes)
    }

    fn set(&self, path: &[u8], changes: &SetAttr) -> Result<()> {
        self.change(path, |fs, by| {
            let ino = path::resolve(fs, path)?;
            Ok(fs.set_attr(ino, changes, by)?)
        })
    }

    /// Makes everything durable. Fails if the image cannot be written.
    pub fn sync(&self) -> Result<()> {
        self.change(b"", |_, _| Ok(()))
    }

    /// Verifies every structure of the file system, and returns what is wrong. Fails if the image
    /// cannot be read.
    pub fn check(&self) -> Result<Findings> {
        Ok(self.fs.as_ref().expect("only `close` takes it").check()?)
    }

    /// Unmounts: afterwards everything is in the image, and a mount has nothing to replay. Fails if
    /// the image cannot be written, or if the file system has turned read-only.
    pub fn close(mut self) -> Result<Findings> {
        let mut notes = Notes::default();
        self.fs.take().map_or(Ok(()), |fs| fs.close(&mut notes))?;
        Ok(notes.findings)
    }

    /// Makes one change and makes it durable. Only then the image keeps it: a failure before leaves
    /// an image file without half a change.
    fn change(
        &self,
        path: &[u8],
        work: impl FnOnce(&dyn WritableFileSystem, &Caller) -> Result<()>,
    ) -> Result<()> {
        let writable = self.fs.as_ref().expect("only `close` takes it");
        let now = self.time.unwrap_or_else(|| timestamp(SystemTime::now()));
        let done =
            work(writable.fs(), &Caller::owner(now)).and_then(|()| Ok(writable.fs().sync()?));
        match done {
            Ok(()) => {
                Arc::clone(writable.below()).keep();
                Ok(())
            }
            Err(error) if path.is_empty() => Err(writable.explained(error)),
            Err(error) => Err(writable.explained(error.context(text::name(path)))),
        }
    }
}

impl Drop for EditVolume {
    fn drop(&mut self) {
        if let Some(fs) = self.fs.take() {
            // `close` is for callers who want to know; the journal has everything.
            let _ = fs.close(&mut Notes::default());
        }
    }
}

/// Makes an inode of root's at a path.
fn create(
    fs: &dyn WritableFileSystem,
    path: &[u8],
    kind: NewKind<'_>,
    permissions: u32,
    by: &Caller,
) -> Result<Ino> {
    let (dir, name) = path::resolve_parent(fs, path)?;
    let inode = NewInode { kind, permissions, uid: 0, gid: 0 };
    Ok(fs.create(dir, name, &inode, by)?)
}

fn timestamp(time: SystemTime) -> Timestamp {
    let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => {
            Timestamp { seconds: seconds(since.as_secs()), nanoseconds: since.subsec_nanos() }
        }
        Err(before) => Timestamp::from_seconds(-seconds(before.duration().as_secs())),
    }
}
