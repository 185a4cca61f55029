//! Repairs of UBI, UBIFS and JFFS2 in a file: planned on the file that is only read, made in a copy, and
//! verified there.

use super::flash::Flash;
use super::image::{self, Image, UbiImage};
use super::lock::lock;
use super::{FlashOptions, Place, Shape, driver, file_bytes, filesystem, peek, raw_dump, span};
use crate::error::{Context, Error, Setting};
use crate::observe::Observer;
use eraseblock_base::{Finding, Location, VolumeId};
use eraseblock_jffs2::{OpenOptions, Source, Survey};
use eraseblock_mtd::{Access, LebDevice, LebImage, Mtd};
use eraseblock_repair::flash::{self, Blocks};
use eraseblock_repair::ubi::{self, FlashRepair, UbiOptions};
use eraseblock_repair::{Level, Plan, Quarantined, Repair, jffs2, undo};
use eraseblock_ubi::{Ubi, UbiVolume};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that was examined, and its repair.
#[derive(Debug)]
pub struct Examined {
    plan: Plan,
    quarantine: Vec<Quarantined>,
    place: Place,
    shape: Shape,
    held: Held,
    /// Of the flash, before its volumes.
    flash: Option<FlashRepair>,
    volumes: Vec<Volume>,
    level: Level,
    flash_size: Option<u64>,
    /// Keeps others away from a file that is repaired in place, and writers from a chip.
    lock: Option<File>,
}

/// The repair of one file system.
#[derive(Debug)]
struct Volume {
    id: Option<VolumeId>,
    repair: Repair,
}

/// Where the file systems are.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The file is the volume.
    Bare { leb_size: u32, min_io: u32, leb_count: u32 },
    /// In eraseblocks that begin at this byte of the file.
    Blocks { start: u64, peb_size: u32 },
}

/// Reads what `place` names and plans its repair, with what `level` allows; `access` says whether the
/// file itself will be repaired. Fails if nothing in it can be repaired, or if `place` is no file.
pub fn examine(
    place: &Place,
    shape: &Shape,
    (access, level): (Access, Level),
    observer: &mut dyn Observer,
) -> Result<Examined, Error> {
    image::refuse_folder(&place.path)?;
    refuse_device(&place.path)?;
    let lock = if access.is_write() {
        observer.reads(&place.path);
        // A chip locks its file itself when it is written to.
        let kind = if driver::is_chip(&place.path)? { Access::Read } else { access };
        Some(lock(&place.path, kind)?)
    } else {
        observer.keep_still(&place.path)?;
        None
    };
    let examined = look(place, shape, level, observer)?;
    Ok(Examined { lock, ..examined })
}

fn refuse_device(path: &Path) -> Result<(), Error> {
    if path.metadata().context(path.display())?.is_file() {
        return Ok(());
    }
    Err(Error::new(format!("{}: only files are repaired", path.display()))
        .hint("copy the device into a file, repair the copy, and write it back"))
}

fn look(
    place: &Place,
    shape: &Shape,
    level: Level,
    observer: &dyn Observer,
) -> Result<Examined, Error> {
    match image::open(place, shape, observer)? {
        Image::Ubifs(bare) => of_bare(place, shape, level, &bare.device),
        Image::Ubi(ubi) => of_ubi(place, shape, level, ubi),
        Image::Jffs2(_) => of_jffs2(place, shape, level),
        Image::Yaffs(_) | Image::Read(_) => Err(not_repaired(place)),
    }
}

fn not_repaired(place: &Place) -> Error {
    Error::new(format!("{}: only UBI, UBIFS and JFFS2 are repaired", place.path.display()))
        .with_kind(crate::ErrorKind::Unsupported)
}

fn of_bare(
    place: &Place,
    shape: &Shape,
    level: Level,
    device: &Arc<dyn LebDevice>,
) -> Result<Examined, Error> {
    place.refuse_volume()?;
    let (leb_size, min_io, leb_count) = (device.leb_size(), device.min_io(), device.leb_count());
    let held = Held::Bare { leb_size, min_io, leb_count };
    let repair = eraseblock_repair::examine(device).context(place.path.display())?;
    Ok(Examined::new((place, shape), level, held, None, vec![Volume { id: None, repair }]))
}

/// Plans the repair of a flash, then that of the file systems in it as they will be found then.
fn of_ubi(place: &Place, shape: &Shape, level: Level, image: UbiImage) -> Result<Examined, Error> {
    let path = place.path.display();
    let layout = image.attachment().layout;
    let (start, peb_size) = (image.start, layout.peb_size());
    let device = image.ubi.shared_device();
    let end = start.saturating_add(device.geometry().size());
    let attach = image::attach_options(&shape.sizes);
    let can_grow = image.file.is_some() && end.saturating_add(peb_size.into()) > image.file_size;
    let options = UbiOptions { attach, level, can_grow };
    let flash = ubi::examine(&device, &layout, options).context(&path)?;
    let planned = Ubi::attach(flash.planned(device).context(&path)?, &layout, &attach)?;
    let image = UbiImage { ubi: planned, ..image };
    let mut volumes = Vec::new();
    for volume in wanted(place, &image)? {
        let id = volume.info().id;
        let content = peek::content(&volume);
        let device: Arc<dyn LebDevice> = filesystem::grown(volume, &content);
        let repair = eraseblock_repair::examine(&device).context(&path)?;
        volumes.push(Volume { id: Some(id), repair });
    }
    let mut all = Examined::new(
        (place, shape),
        level,
        Held::Blocks { start, peb_size },
        Some(flash),
        Vec::new(),
    );
    let is_alone = place.volume.is_some() || volumes.len() == 1;
    for volume in volumes {
        let name = volume.id.and_then(|id| image.attachment().volume(id));
        let name = name.map(|info| info.name.as_bytes()).filter(|_| !is_alone);
        all.add(volume, name);
    }
    Ok(all)
}

/// Plans the repair of a JFFS2.
fn of_jffs2(place: &Place, shape: &Shape, level: Level) -> Result<Examined, Error> {
    place.refuse_volume()?;
    let path = place.path.as_path();
    let source = if let Some(chip) = driver::chip(path, Access::Read)? {
        Source::Device(chip.device)
    } else {
        let file = file_bytes::open(path).context(path.display())?;
        if span::one(place, shape)?.is_some_and(|span| !span.is_whole) {
            let message = format!("{}: only whole files are repaired", path.display());
            return Err(Error::new(message).hint("cut the JFFS2 out into a file of its own"));
        }
        Source::Image(file)
    };
    let options = OpenOptions {
        start: shape.start,
        erase_size: shape.sizes.peb,
        order: shape.byte_order,
        empty: true,
    };
    let found = image::find_jffs2::<Survey>(source.clone(), &options, shape.sizes.page)?;
    let Some((survey, _, None)) = found else { return Err(raw_dump::only_read()) };
    let found = survey.shape;
    if found.start > 0 && shape.start.is_none() {
        let start = found.start;
        let message =
            format!("{}: the JFFS2 begins at byte {start}, after other data", path.display());
        return Err(Error::new(message).hint("cut it out into a file of its own"));
    }
    let flash = jffs2::examine(&source, &options).context(path.display())?;
    if !found.is_certain && !flash.plan().is_empty() {
        let size = crate::text::size(found.erase_size.into());
        return Err(Error::usage(format!(
            "{}: nothing in the image proves the size of an eraseblock, {size} is a guess",
            path.display()
        ))
        .hint(Setting::Peb.to("SIZE") + " states it"));
    }
    let held = Held::Blocks { start: found.start, peb_size: found.erase_size };
    Ok(Examined::new((place, shape), level, held, Some(flash), Vec::new()))
}

/// Returns the volume that is named, or all with a UBIFS.
fn wanted(place: &Place, image: &UbiImage) -> Result<Vec<UbiVolume>, Error> {
    if let Some(name) = place.volume.as_deref() {
        let volume = image.named_volume(name)?;
        let is_ubifs = peek::content(&volume).is_ubifs();
        let content = peek::content(&volume);
        if !is_ubifs && (content.is_jffs2() || content.is_read_only()) {
            return Err(not_repaired(place));
        }
        return Ok(vec![volume]);
    }
    let mut all = Vec::new();
    for info in &image.attachment().volumes {
        let volume = image.open(info)?;
        if peek::content(&volume).is_ubifs() {
            all.push(volume);
        }
    }
    Ok(all)
}

impl Examined {
    fn new(
        (place, shape): (&Place, &Shape),
        level: Level,
        held: Held,
        flash: Option<FlashRepair>,
        volumes: Vec<Volume>,
    ) -> Self {
        let (place, shape) = (place.clone(), shape.clone());
        let (plan, quarantine) = (Plan::default(), Vec::new());
        let mut all = Self {
            plan,
            quarantine,
            place,
            shape,
            held,
            flash,
            volumes: Vec::new(),
            level,
            flash_size: None,
            lock: None,
        };
        if let Some(flash) = &all.flash {
            all.plan.append(flash.plan(), None, |at| at);
            all.quarantine.extend(flash.quarantine().iter().cloned());
        }
        for volume in volumes {
            all.add(volume, None);
        }
        all
    }

    /// Adds the repair of a file system; `name` is that of its volume, where there are others.
    fn add(&mut self, volume: Volume, name: Option<&[u8]>) {
        let place = |at: Location| match (volume.id.filter(|_| name.is_some()), at) {
            (Some(id), Location::Leb(leb, offset)) => Location::VolumeLeb(id, leb, offset),
            (Some(id), Location::Whole) => Location::Volume(id),
            (_, at) => at,
        };
        self.plan.append(volume.repair.plan(), name, place);
        self.quarantine.extend(volume.repair.quarantine().iter().map(|one| one.placed(place)));
        self.volumes.push(volume);
    }

    /// Returns what is going to be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns how many LEBs and eraseblocks change.
    pub fn changes(&self) -> usize {
        let blocks = self.flash.as_ref().map_or(0, |flash| flash.blocks().len());
        blocks + self.volumes.iter().map(|volume| volume.repair.lebs()).sum::<usize>()
    }

    /// Returns the problems that are left because no rule repairs them, or none at this level.
    pub fn left(&self) -> &[Finding] {
        self.flash.as_ref().map_or(&[], FlashRepair::left)
    }

    /// Sets the size of the flash that a UBI image is made for, in bytes, if the image is shorter.
    #[must_use]
    pub fn flash_size(mut self, bytes: Option<u64>) -> Self {
        self.flash_size = bytes;
        self
    }

    /// Repairs a copy of the file at `copy`. Fails if it cannot be written; then the copy is of no use.
    pub fn repair(&self, copy: &Path, observer: &dyn Observer) -> Result<(), Error> {
        let place = Place { path: copy.to_owned(), ..self.place.clone() };
        match (&self.flash, self.held) {
            (Some(flash), Held::Blocks { start, peb_size }) => {
                if driver::is_chip(copy)? {
                    let args = FlashOptions { target: place.target(), ..FlashOptions::default() };
                    flash::write(&*Flash::open(&args, Access::Write)?.device, flash.blocks())?;
                } else {
                    put(copy, start, peb_size, flash.blocks())?;
                }
            }
            (_, Held::Bare { leb_size, min_io, leb_count }) => {
                let image = LebImage::open(copy, leb_size, min_io, leb_count)?;
                for volume in &self.volumes {
                    volume.repair.apply(&image)?;
                }
                drop(image);
                complete(copy, leb_size)?;
            }
            (None, Held::Blocks { .. }) => {}
        }
        for volume in self.volumes.iter().filter(|volume| !volume.repair.plan().is_empty()) {
            if let Some(id) = volume.id {
                self.in_volume(&place, id, &volume.repair)?;
            }
        }
        let again = look(&place, &self.shape, self.level, observer)?;
        if again.plan.is_empty() {
            return Ok(());
        }
        let left = again.plan.actions().len() as u64;
        let left = crate::text::count(left, "action is", "actions are");
        Err(Error::new(format!("{left} left after the repair: nothing is delivered")))
    }

    fn in_volume(&self, place: &Place, id: VolumeId, repair: &Repair) -> Result<(), Error> {
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
        repair.apply(&volume)?;
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
        let folder = folder.unwrap_or(Path::new("."));
        let copy = tempfile::NamedTempFile::new_in(folder)?;
        std::fs::copy(path, copy.path())?;
        self.repair(copy.path(), observer)?;
        if driver::is_chip(path)? {
            let before = tempfile::NamedTempFile::new_in(folder)?;
            std::fs::copy(path, before.path())?;
            return self.on_chip([before.path(), copy.path()], undo_file);
        }
        let target = File::options().read(true).write(true).open(path).context(path.display())?;
        Ok(undo::replace(&target, copy.as_file(), undo_file)?)
    }

    /// Makes the eraseblocks of a chip what they are on its repaired copy, through the chip. Fails if it is
    /// no longer what it was before.
    fn on_chip(
        &self,
        [before, after]: [&Path; 2],
        undo_file: &Path,
    ) -> Result<undo::UndoReport, Error> {
        let path = &self.place.path;
        let missing = || Error::new(format!("{}: is no chip any more", path.display()));
        let before = driver::chip(before, Access::Read)?.ok_or_else(missing)?;
        let after = driver::chip(after, Access::Read)?.ok_or_else(missing)?;
        if let Some(lock) = &self.lock {
            lock.unlock()?;
        }
        let chip = driver::chip(path, Access::Write)?.ok_or_else(missing)?;
        if !differing(&*chip.device, &*before.device)?.is_empty() {
            return Err(Error::new(format!(
                "{}: was changed since it was examined",
                path.display()
            )));
        }
        let blocks = differing(&*chip.device, &*after.device)?;
        Ok(undo::replace_blocks(&*chip.device, &blocks, undo_file)?)
    }

    /// Writes what is removed into a folder: the bytes of each piece, and a list of their places and
    /// reasons. Returns the number of pieces. Fails if a file of the same name is there.
    pub fn write_quarantine(&self, folder: &Path) -> Result<usize, Error> {
        use std::fmt::Write;
        std::fs::create_dir_all(folder).context(folder.display())?;
        let mut list = String::new();
        for (number, piece) in self.quarantine.iter().enumerate() {
            let name = format!("{:05}.bin", number + 1);
            let path = folder.join(&name);
            let mut file = File::create_new(&path).context(path.display())?;
            std::io::Write::write_all(&mut file, &piece.bytes).context(path.display())?;
            let _ = writeln!(list, "{name}\t{}\t{}", piece.at, piece.why);
        }
        let path: PathBuf = folder.join("list.tsv");
        let mut file = File::create_new(&path).context(path.display())?;
        std::io::Write::write_all(&mut file, list.as_bytes()).context(path.display())?;
        Ok(self.quarantine.len())
    }
}

/// Returns the eraseblocks that are to be different.
fn differing(now: &dyn Mtd, wanted: &dyn Mtd) -> Result<Blocks, Error> {
    let geometry = now.geometry();
    let size = geometry.peb_size() as usize;
    let (mut one, mut other) = (vec![0; size], vec![0; size]);
    let mut blocks = Blocks::new();
    for peb in geometry.pebs() {
        if now.is_bad(peb)? {
            continue;
        }
        now.read(geometry.address_of(peb), &mut one)?;
        wanted.read(geometry.address_of(peb), &mut other)?;
        if one != other {
            blocks.insert(peb.get(), other.clone());
        }
    }
    Ok(blocks)
}

/// Writes eraseblocks into a file.
fn put(copy: &Path, start: u64, peb_size: u32, blocks: &Blocks) -> Result<(), Error> {
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(copy)?;
    for (peb, bytes) in blocks {
        let mut block = bytes.clone();
        block.resize(peb_size as usize, 0xFF);
        let at = start + u64::from(*peb) * u64::from(peb_size);
        // The last block of the file may have been cut short: its rest is erased.
        let end = file.metadata()?.len();
        if end < at {
            let missing = usize::try_from(at - end).unwrap_or(usize::MAX).min(peb_size as usize);
            file.write_all_at(&vec![0xFF; missing], end)?;
        }
        file.write_all_at(&block, at)?;
    }
    Ok(())
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
    let record = File::open(undo_file).context(undo_file.display())?;
    if undo::is_of_flash(&record).context(undo_file.display())?
        && let Some(chip) = driver::chip(target, access)?
    {
        return undo::undo_blocks(&record, &*chip.device, run).context(target.display());
    }
    let _lock = lock(target, access)?;
    let mut options = File::options();
    options.read(true).write(access.is_write());
    let file = options.open(target).context(target.display())?;
    undo::undo(&record, &file, run).context(target.display())
}

/// Takes back a repair that was interrupted, if the undo file is that of one, and removes the undo file;
/// returns whether it was. Fails as [`take_back`] does.
pub fn take_back_interrupted(undo_file: &Path, target: &Path) -> Result<bool, Error> {
    let Ok(record) = File::open(undo_file) else { return Ok(false) };
    if undo::is_finished(&record)? {
        return Ok(false);
    }
    // An undo file that is not whole was not followed by a change of the target.
    if undo::is_whole(&record)? {
        take_back(undo_file, target, undo::Run::Real)?;
    }
    std::fs::remove_file(undo_file).context(undo_file.display())?;
    Ok(true)
}
