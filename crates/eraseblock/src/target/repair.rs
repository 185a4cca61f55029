//! Repairs of a UBIFS in a file: planned on the file that is only read, made in a copy, and verified
//! there.

use super::flash::Flash;
use super::image::{self, Image};
use super::lock::lock;
use super::{FlashOptions, Place, Shape, filesystem, peek};
use crate::error::{Context, Error};
use crate::observe::Observer;
use eraseblock_base::VolumeId;
use eraseblock_mtd::{Access, LebDevice, LebImage};
use eraseblock_repair::{Repair, undo};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that was examined, and its repair.
#[derive(Debug)]
pub struct Examined {
    /// The repair; its plan is empty if there is nothing to do.
    pub repair: Repair,
    place: Place,
    shape: Shape,
    held: Held,
    flash_size: Option<u64>,
    /// Keeps others away from a file that is repaired in place.
    _lock: Option<File>,
}

/// Where the file system is.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The file is the volume.
    Bare { leb_size: u32, min_io: u32, leb_count: u32 },
    /// In a UBI volume.
    Volume(VolumeId),
}

/// Reads the UBIFS that `place` names and plans its repair; `access` says whether the file itself will
/// be repaired. Fails if there is none, if it cannot be repaired, or if `place` is no file.
pub fn examine(
    place: &Place,
    shape: &Shape,
    access: Access,
    observer: &mut dyn Observer,
) -> Result<Examined, Error> {
    image::refuse_folder(&place.path)?;
    refuse_device(&place.path)?;
    let lock = if access.is_write() {
        observer.reads(&place.path);
        Some(lock(&place.path, access)?)
    } else {
        observer.keep_still(&place.path)?;
        None
    };
    let (device, held) = open(place, shape, observer)?;
    let repair = eraseblock_repair::examine(&device).context(place.path.display())?;
    let (place, shape) = (place.clone(), shape.clone());
    Ok(Examined { repair, place, shape, held, flash_size: None, _lock: lock })
}

fn refuse_device(path: &Path) -> Result<(), Error> {
    if path.metadata().context(path.display())?.is_file() {
        return Ok(());
    }
    Err(Error::new(format!("{}: only files are repaired", path.display()))
        .hint("copy the device into a file, repair the copy, and write it back"))
}

fn open(
    place: &Place,
    shape: &Shape,
    observer: &dyn Observer,
) -> Result<(Arc<dyn LebDevice>, Held), Error> {
    let not_ubifs = || {
        Error::new(format!("{}: only UBIFS is repaired", place.path.display()))
            .with_kind(crate::ErrorKind::Unsupported)
    };
    match image::open(place, shape, observer)? {
        Image::Ubifs(bare) => {
            place.refuse_volume()?;
            let (leb_size, min_io) = (bare.device.leb_size(), bare.device.min_io());
            let leb_count = bare.device.leb_count();
            Ok((bare.device, Held::Bare { leb_size, min_io, leb_count }))
        }
        Image::Ubi(ubi) => {
            let volume = ubi.file_system_volume(place.volume.as_deref())?;
            let id = volume.info().id;
            let content = peek::content(&volume);
            let is_other = content.is_jffs2() || content.is_read_only();
            if is_other {
                return Err(not_ubifs());
            }
            Ok((filesystem::grown(volume, &content), Held::Volume(id)))
        }
        Image::Jffs2(_) | Image::Yaffs(_) | Image::Read(_) => Err(not_ubifs()),
    }
}

impl Examined {
    /// Sets the size of the flash that a UBI image is made for, in bytes, if the image is shorter.
    #[must_use]
    pub fn flash_size(mut self, bytes: Option<u64>) -> Self {
        self.flash_size = bytes;
        self
    }

    /// Repairs a copy of the file at `copy`. Fails if it cannot be written; then the copy is of no use.
    pub fn repair(&self, copy: &Path, observer: &dyn Observer) -> Result<(), Error> {
        let place = Place { path: copy.to_owned(), ..self.place.clone() };
        match self.held {
            Held::Bare { leb_size, min_io, leb_count } => {
                let image = LebImage::open(copy, leb_size, min_io, leb_count)?;
                self.repair.apply(&image)?;
                drop(image);
                complete(copy, leb_size)?;
            }
            Held::Volume(id) => self.in_volume(&place, id)?,
        }
        let (device, _) = open(&place, &self.shape, observer)?;
        let again = eraseblock_repair::examine(&device)?;
        if again.plan().is_empty() {
            return Ok(());
        }
        let left = again.plan().actions().len() as u64;
        let left = crate::text::count(left, "action is", "actions are");
        Err(Error::new(format!("{left} left after the repair: nothing is delivered")))
    }

    fn in_volume(&self, place: &Place, id: VolumeId) -> Result<(), Error> {
        let place = Place { volume: None, ..place.clone() };
        let args = FlashOptions {
            target: place.target(),
            size_in_bytes: true,
            flash_size: self.flash_size,
            sizes: self.shape.sizes.clone(),
            ..FlashOptions::default()
        };
        let flash = Flash::open(&args, Access::Write)?;
        let ubi = flash.ubi(&args, Access::Write)?;
        let volume = ubi.volume(id)?;
        self.repair.apply(&volume)?;
        drop(volume);
        ubi.flush()?;
        ubi.sync()?;
        flash.device.sync()?;
        flash.keep();
        Ok(())
    }

    /// Repairs the file in place, by way of a copy in its folder: what changes is in a new undo file
    /// first. Fails if a file has the name of the undo file.
    pub fn in_place(
        &self,
        undo_file: &Path,
        observer: &dyn Observer,
    ) -> Result<undo::UndoReport, Error> {
        let path = &self.place.path;
        if undo_file.symlink_metadata().is_ok() {
            return Err(Error::new(format!("{}: exists already", undo_file.display()))
                .hint("an undo file is never replaced: give another name"));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let copy = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        std::fs::copy(path, copy.path())?;
        self.repair(copy.path(), observer)?;
        let target = File::options().read(true).write(true).open(path).context(path.display())?;
        Ok(undo::replace(&target, copy.as_file(), undo_file)?)
    }

    /// Writes what is removed into a folder: the bytes of each piece, and a list of their places and
    /// reasons. Returns the number of pieces. Fails if a file of the same name is there.
    pub fn write_quarantine(&self, folder: &Path) -> Result<usize, Error> {
        use std::fmt::Write;
        std::fs::create_dir_all(folder).context(folder.display())?;
        let mut list = String::new();
        for (number, piece) in self.repair.quarantine().iter().enumerate() {
            let name = format!("{:05}.bin", number + 1);
            let path = folder.join(&name);
            let mut file = File::create_new(&path).context(path.display())?;
            std::io::Write::write_all(&mut file, &piece.bytes).context(path.display())?;
            let _ = writeln!(list, "{name}\t{}\t{}", piece.at, piece.why);
        }
        let path: PathBuf = folder.join("list.tsv");
        let mut file = File::create_new(&path).context(path.display())?;
        std::io::Write::write_all(&mut file, list.as_bytes()).context(path.display())?;
        Ok(self.repair.quarantine().len())
    }
}

/// Fills a bare image up to the last LEB that its superblock counts: erased LEBs at its end may have
/// been cut off.
fn complete(copy: &Path, leb_size: u32) -> Result<(), Error> {
    use std::os::unix::fs::FileExt;
    let file = File::options().read(true).write(true).open(copy)?;
    let start = image::beginning(&file)?;
    let peek::Content::Ubifs(sb) = peek::of_bytes(&start, leb_size) else { return Ok(()) };
    let (size, whole) = (file.metadata()?.len(), u64::from(sb.leb_cnt) * u64::from(leb_size));
    let erased = vec![0xFF; leb_size as usize];
    let mut at = size;
    while at < whole {
        let len = usize::try_from(whole - at).unwrap_or(usize::MAX).min(erased.len());
        file.write_all_at(&erased[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// Takes back what [`Examined::in_place`] changed. Fails if the undo file does not belong to the target,
/// or if something else changed the target since.
pub fn take_back(
    undo_file: &Path,
    target: &Path,
    run: undo::Run,
) -> Result<undo::UndoReport, Error> {
    refuse_device(target)?;
    let access = if run == undo::Run::Dry { Access::Read } else { Access::Write };
    let _lock = lock(target, access)?;
    let record = File::open(undo_file).context(undo_file.display())?;
    let mut options = File::options();
    options.read(true).write(access.is_write());
    let file = options.open(target).context(target.display())?;
    undo::undo(&record, &file, run).context(target.display())
}
