//! An image that was opened to be read, and its volumes.

#[cfg(all(feature = "edit", feature = "extract"))]
use crate::check::{CheckReport, check_place};
#[cfg(feature = "parallel")]
use crate::error::ErrorKind;
use crate::error::{Context, Error, Result};
use crate::file::VolumeContent;
use crate::fs::{DirEntry, FileSystem, Metadata};
use crate::info::Info;
use crate::observe::{Notes, Observer};
use crate::target::filesystem::{self, Opened};
use crate::target::image::{self as opened, Image as Content};
use crate::target::span::{self, At, Meant};
use crate::target::{Format as Kind, Place, Shape, file_name, resolve};
use eraseblock_base::{Findings, VolumeId};
use eraseblock_jffs2_format::ByteOrder;
use eraseblock_mtd::{LebDevice, Mtd, ReadAt};
use eraseblock_ubi::VolumeInfo;
use eraseblock_ubi_format::VolumeKind;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File as HostFile;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Opens the image at `path` to be read; nothing is ever written to it.
///
/// The format is detected: a UBI image, a bare UBIFS or JFFS2 image, a raw dump with out-of-band
/// bytes (also of a YAFFS), and with the features for them a SquashFS image, a simulated chip or a device. Until the [`Image`] and all
/// that was made of it are dropped, writers that lock files are kept away. Fails if the file cannot
/// be read, or if no format is recognised in it.
pub fn open(path: impl AsRef<Path>) -> Result<Image> {
    Image::options().open(path)
}

/// What an image is taken for instead of what is detected.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    shape: Shape,
    offset: Option<u64>,
    length: Option<u64>,
    threads: Option<NonZeroUsize>,
    strict: bool,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $($field:ident).+;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$($field).+ = Some($name);
            self
        }
    )*};
}

impl OpenOptions {
    setters! {
        /// Sets the format.
        format: Kind => shape.format;
        /// Sets the size of a physical eraseblock in bytes.
        peb: u32 => shape.sizes.peb;
        /// Sets the size of a page in bytes: the smallest unit that can be programmed.
        page: u32 => shape.sizes.page;
        /// Sets the size of a sub-page in bytes: the unit of UBI headers.
        subpage: u32 => shape.sizes.subpage;
        /// Sets the offset of the volume identifier header in an eraseblock.
        vid_offset: u32 => shape.sizes.vid_offset;
        /// Sets the size of a logical eraseblock of a bare UBIFS image in bytes.
        leb: u32 => shape.leb;
        /// Sets the byte order of a JFFS2 or YAFFS.
        byte_order: ByteOrder => shape.byte_order;
        /// Sets where in the file the image begins, in bytes.
        offset: u64 => offset;
        /// Sets the length of the image in bytes; with an offset, that stretch is not looked
        /// through for images.
        length: u64 => length;
        /// Sets how many threads an image is opened with, with the feature `parallel`: they are
        /// started for that and end with it. Without this, the threads that all work of the process
        /// shares open it, which hang in a process that was forked after they were first used.
        threads: NonZeroUsize => threads;
    }

    /// Refuses what Linux would refuse, instead of reading it with findings.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Opens the image at `path`. Fails if the file cannot be read, or if no format is recognised
    /// in it.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Image> {
        let path = path.as_ref();
        self.noting(path, |notes| self.open_place(path, notes))
    }

    fn open_place(&self, path: &Path, notes: &mut Notes) -> Result<Content> {
        path.metadata()?;
        let place = resolve(self.place(path))?;
        notes.keep_still(&place.path)?;
        let span = span::one(&place, &self.shape)?;
        opened::open_span(&place, span, &self.shape, notes)
    }

    /// Returns what the image at `path` is and what is in it, and what was found on the way. Fails if
    /// the file cannot be read, or if no format is recognised in it.
    pub fn info(&self, path: impl AsRef<Path>) -> Result<(Info, Findings)> {
        let path = path.as_ref();
        let mut notes = Notes::new(self.strict);
        let opened = self.in_threads(|| self.open_place(path, &mut notes));
        let info = opened.and_then(|content| {
            Info::of(content, &self.place(path), &mut notes).context(path.display())
        });
        match info {
            Ok(info) => Ok((info, notes.findings)),
            Err(error) => Err(error.with_findings(notes.findings)),
        }
    }

    /// Checks everything in the image at `path`: the UBI device, static volumes, and every structure
    /// and every byte of the file systems. What cannot be read is a finding. Fails if the file
    /// cannot be read, or if no format is recognised in it.
    #[cfg(all(feature = "edit", feature = "extract"))]
    pub fn check(&self, path: impl AsRef<Path>) -> Result<CheckReport> {
        self.check_in(path.as_ref(), None)
    }

    /// The same for the volume of a UBI image with this name or number, and the UBI device. Fails
    /// also if there is no such volume.
    #[cfg(all(feature = "edit", feature = "extract"))]
    pub fn check_volume<'v>(
        &self,
        path: impl AsRef<Path>,
        volume: impl Into<VolumeRef<'v>>,
    ) -> Result<CheckReport> {
        self.check_in(path.as_ref(), Some(volume.into().bytes()))
    }

    #[cfg(all(feature = "edit", feature = "extract"))]
    fn check_in(&self, path: &Path, volume: Option<Vec<u8>>) -> Result<CheckReport> {
        let mut notes = Notes::new(self.strict);
        path.metadata().context(path.display())?;
        let place = resolve(Place { volume, ..self.place(path) })?;
        self.in_threads(|| check_place(&place, &self.shape, &mut notes))
            .map_err(|error| error.with_findings(notes.findings))
    }

    /// Opens an image that is no file of this machine; errors call it `image`.
    pub fn from_reader(&self, reader: Arc<dyn ReadAt>) -> Result<Image> {
        let path = Path::new("image");
        self.noting(path, |notes| {
            let place = self.place(path);
            let shape = opened::strictly(&self.shape, notes);
            let span = match span::within(&place, &reader, &shape)? {
                Meant::Span(span) => span,
                Meant::Several(survey) => return Err(span::choose(&place, &survey)),
                Meant::Device => return Err(Error::new("not bytes")),
            };
            opened::open_bytes(&place.path, reader, span, &shape)
        })
    }

    /// Opens what is on a flash; offset and length do not count. Errors call it `flash`.
    pub fn from_flash(&self, flash: Arc<dyn Mtd>) -> Result<Image> {
        let path = Path::new("flash");
        self.noting(path, |notes| {
            opened::attach(path, flash, &opened::strictly(&self.shape, notes))
        })
    }

    /// Opens an image in memory. Fails if no format is recognised in them.
    pub fn from_bytes(&self, bytes: impl Into<Arc<[u8]>>) -> Result<Image> {
        self.from_reader(Arc::new(Bytes(bytes.into())))
    }

    fn place(&self, path: &Path) -> Place {
        let at = self.offset.or(self.length.map(|_| 0));
        let at = at.map(|offset| At { offset, length: self.length });
        Place { path: path.to_owned(), at, volume: None }
    }

    /// Runs the work on as many threads as were asked for.
    #[cfg(feature = "parallel")]
    fn in_threads<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(threads) = self.threads else { return work() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build();
        pool.map_err(|error| Error::of(&error).with_kind(ErrorKind::Host))?.install(work)
    }

    /// Runs the work on this thread.
    #[cfg(not(feature = "parallel"))]
    fn in_threads<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _ = self.threads;
        work()
    }

    /// Runs `open` and puts together what it opened and what it found.
    fn noting(
        &self,
        path: &Path,
        open: impl FnOnce(&mut Notes) -> Result<Content> + Send,
    ) -> Result<Image> {
        let mut notes = Notes::new(self.strict);
        let content = self.in_threads(|| open(&mut notes)).and_then(|content| {
            if let Content::Ubi(image) = &content {
                image.report(&mut notes)?;
            }
            Ok(content)
        });
        match content.context(path.display()) {
            Ok(content) => Ok(Image(Arc::new(Inner::new(content, path, notes)))),
            Err(error) => Err(error.with_findings(notes.findings)),
        }
    }
}

/// An image in memory.
#[derive(Debug)]
struct Bytes(Arc<[u8]>);

impl ReadAt for Bytes {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(buf.len()));
        let bytes = start.zip(end).and_then(|(start, end)| self.0.get(start..end));
        buf.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An opened image. Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Image(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    kind: Kind,
    content: Opening,
    findings: Findings,
    strict: bool,
    /// Keep writers away.
    #[expect(dead_code, reason = "holding them is what they are for")]
    locks: Vec<HostFile>,
}

/// What there is to open in an image.
#[derive(Debug)]
enum Opening {
    Ubi(opened::UbiImage),
    Ubifs(Arc<dyn LebDevice>, OnceLock<FileSystem>),
    /// Was opened to find out what the image is.
    Opened(Mutex<Option<Opened>>, OnceLock<FileSystem>),
}

impl Opening {
    fn opened(opened: Opened) -> Self {
        Self::Opened(Mutex::new(Some(opened)), OnceLock::new())
    }
}

impl Inner {
    fn new(content: Content, path: &Path, mut notes: Notes) -> Self {
        let (kind, content) = match content {
            Content::Ubi(image) => (Kind::Ubi, Opening::Ubi(image)),
            Content::Ubifs(bare) => (Kind::Ubifs, Opening::Ubifs(bare.device, OnceLock::new())),
            Content::Jffs2(image) => (Kind::Jffs2, Opening::opened(image.opened)),
            Content::Yaffs(image) => (Kind::Yaffs, Opening::opened(image.opened)),
            Content::Read(image) => (image.format, Opening::opened(image.opened)),
        };
        let locks = notes.take_locks();
        let Notes { findings, strict, .. } = notes;
        Self { path: path.to_owned(), kind, content, findings, strict, locks }
    }
}

impl Image {
    /// Returns options that say more than a path.
    pub fn options() -> OpenOptions {
        OpenOptions::default()
    }

    /// Opens an image that is no file of this machine: bytes on another machine, in an archive, and
    /// so on. Fails if the reader does, or if no format is recognised.
    pub fn from_reader(reader: Arc<dyn ReadAt>) -> Result<Self> {
        Self::options().from_reader(reader)
    }

    /// Opens an image in memory. Fails if no format is recognised in them.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Result<Self> {
        Self::options().from_bytes(bytes)
    }

    /// Returns what it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns what was found when it was opened: damage, what a power cut left, and what Linux
    /// would refuse.
    pub fn findings(&self) -> &Findings {
        &self.0.findings
    }

    /// Returns the volumes of a UBI image, in the order of their numbers; a bare image has none.
    pub fn volumes(&self) -> impl Iterator<Item = Volume> + use<> {
        let infos = match &self.0.content {
            Opening::Ubi(image) => image.attachment().volumes.clone(),
            _ => Vec::new(),
        };
        let image = self.clone();
        infos.into_iter().map(move |info| Volume::new(&image, info))
    }

    /// Returns the volume of this name or number. The error for a missing one lists those that
    /// there are.
    pub fn volume<'v>(&self, volume: impl Into<VolumeRef<'v>>) -> Result<Volume> {
        let Opening::Ubi(image) = &self.0.content else {
            let path = self.0.path.display();
            let message = format!("{path}: there are no volumes in it: it is no UBI image");
            return Err(Error::new(message).hint("`Image::file_system` opens what is in it"));
        };
        let found = image.named_volume(&volume.into().bytes())?;
        Ok(Volume::new(self, found.info().clone()))
    }

    /// Opens the only file system: of a bare image, or of the one volume that holds one. The error
    /// for several lists the volumes.
    pub fn file_system(&self) -> Result<FileSystem> {
        match &self.0.content {
            Opening::Ubi(image) => {
                let only = image.file_system_volume(None)?;
                Volume::new(self, only.info().clone()).file_system()
            }
            Opening::Ubifs(device, made) => {
                self.once(made, |notes| filesystem::open(Arc::clone(device), None, notes))
            }
            Opening::Opened(opened, made) => self.once(made, |_| {
                let opened = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
                opened.ok_or_else(|| Error::new("opened already"))
            }),
        }
    }

    /// Opens a file system when it is first asked for.
    fn once(
        &self,
        made: &OnceLock<FileSystem>,
        open: impl FnOnce(&mut Notes) -> Result<Opened>,
    ) -> Result<FileSystem> {
        if let Some(fs) = made.get() {
            return Ok(fs.clone());
        }
        let mut notes = Notes::new(self.0.strict);
        let opened = open(&mut notes).context(self.0.path.display());
        let opened = opened.map_err(|error| error.with_findings(self.0.findings.clone()))?;
        Ok(made.get_or_init(|| FileSystem::new(opened, self.clone())).clone())
    }
}

/// A volume by its name or number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VolumeRef<'v> {
    /// The name; text that is a number also finds a volume of that number.
    Name(&'v [u8]),
    /// The number.
    Id(u32),
}

impl VolumeRef<'_> {
    /// The same as text.
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Name(name) => name.to_vec(),
            Self::Id(id) => id.to_string().into_bytes(),
        }
    }
}

impl<'v> From<&'v str> for VolumeRef<'v> {
    fn from(name: &'v str) -> Self {
        Self::Name(name.as_bytes())
    }
}

impl<'v> From<&'v [u8]> for VolumeRef<'v> {
    fn from(name: &'v [u8]) -> Self {
        Self::Name(name)
    }
}

impl From<u32> for VolumeRef<'_> {
    fn from(id: u32) -> Self {
        Self::Id(id)
    }
}

/// A volume of a UBI image.
#[derive(Clone, Debug)]
pub struct Volume {
    image: Image,
    info: VolumeInfo,
    made: Arc<OnceLock<FileSystem>>,
}

impl Volume {
    fn new(image: &Image, info: VolumeInfo) -> Self {
        Self { image: image.clone(), info, made: Arc::default() }
    }

    /// Returns its name, with what is no UTF-8 replaced.
    pub fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.name_bytes())
    }

    /// Returns its name as the image has it.
    pub fn name_bytes(&self) -> &[u8] {
        self.info.name.as_bytes()
    }

    /// Returns the name of a file or folder for it: its own where that can be one, `volume-NUMBER`
    /// elsewhere. Volumes of an image never have equal ones.
    pub fn file_name(&self) -> OsString {
        match &self.image.0.content {
            Opening::Ubi(image) => file_name(&image.attachment().volumes, self.info.id),
            _ => file_name(std::slice::from_ref(&self.info), self.info.id),
        }
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.info.id.get()
    }

    /// Returns whether it is dynamic or static.
    pub fn kind(&self) -> VolumeKind {
        self.info.kind
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.info.reserved_lebs) * u64::from(self.info.usable_leb_size)
    }

    /// Returns everything that UBI knows about it.
    pub fn info(&self) -> &VolumeInfo {
        &self.info
    }

    /// Returns its raw content: the data of a static volume, all LEBs of a dynamic one. Fails if
    /// the image has no volumes.
    pub fn content(&self) -> Result<VolumeContent> {
        VolumeContent::new(Arc::new(self.open()?))
    }

    /// Opens the file system in it. Fails if there is none that can be read.
    pub fn file_system(&self) -> Result<FileSystem> {
        let id = Some(VolumeId::new(self.id()));
        let opened = self
            .image
            .once(&self.made, |notes| filesystem::open_volume(self.open()?, id, None, notes));
        opened.map_err(|error| error.in_volume(&self.name()))
    }

    fn open(&self) -> Result<eraseblock_ubi::UbiVolume> {
        match &self.image.0.content {
            Opening::Ubi(image) => image.open(&self.info),
            _ => Err(Error::new("no UBI image")),
        }
    }

    /// Reads a whole file of its file system: [`FileSystem::read`]. Fails as that does.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.file_system()?.read(path)
    }

    /// Reads a whole file of its file system as text: [`FileSystem::read_to_string`]. Fails as that
    /// does.
    pub fn read_to_string(&self, path: impl AsRef<[u8]>) -> Result<String> {
        self.file_system()?.read_to_string(path)
    }

    /// Lists a directory of its file system: [`FileSystem::read_dir`]. Fails as that does.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirEntry>> {
        self.file_system()?.read_dir(path)
    }

    /// Returns what its file system knows about a file: [`FileSystem::metadata`]. Fails as that
    /// does.
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.file_system()?.metadata(path)
    }
}
