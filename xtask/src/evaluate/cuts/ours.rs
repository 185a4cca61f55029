//! UBIFS on our flash on a disk, in process: recorded and judged like the file systems of Linux.

use super::guest::Judged;
use super::image::Image;
use super::recording::{Event, Recording};
use super::script::{Expected, workload};
use super::session::Recorded;
use super::state::{Builder, Cut, Units};
use super::verdict::{Finding, Harm};
use anyhow::{Context, Result};
use eraseblock_base::{Severity, VolumeId};
use eraseblock_lab::one_volume;
use eraseblock_mtd::Access;
use eraseblock_mtd_host::block::{Backing, BlockDevice, BlockShape};
use eraseblock_ubi::{OpenOptions, UbiDevice};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::{
    Caller, FileKind, FileSystem, Ino, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem,
};
use eraseblock_vfs_testkit::scripted::{Listed, ListedContent, Step, blocks, content};
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) const NAME: &str = "ubifs";
const SIZE: u64 = 24 << 20;
const PEB: u32 = 128 << 10;
const UNIT: u32 = 4096;

/// A disk in memory that records what it is asked for.
#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<(Image, Recording)>>);

impl Disk {
    fn new(image: Image) -> Self {
        Self(Arc::new(Mutex::new((image.clone(), Recording::new(image)))))
    }

    fn lock(&self) -> MutexGuard<'_, (Image, Recording)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, number: u32) {
        self.lock().1.events.push(Event::Mark(number));
    }
}

impl Backing for Disk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.lock().0.size())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.lock().0.read(offset, buf)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.lock();
        disk.0.write(offset, data);
        disk.1.events.push(Event::Write { offset, data: data.into(), through: false });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.lock().1.events.push(Event::Flush);
        Ok(())
    }

    fn discard(&self, _offset: u64, _len: u64) {
        // As in the guests, the disk does not know what is no longer needed.
    }
}

fn caller() -> Caller {
    Caller::owner(Timestamp::from_seconds(1_700_000_000))
}

fn layout() -> Result<HeaderLayout> {
    Ok(HeaderLayout::new(PEB, UNIT, UNIT, None)?)
}

fn mount(ubi: &UbiDevice) -> Result<UbifsMount> {
    let volume = Arc::new(ubi.volume(VolumeId::new(0))?);
    Ok(UbifsMount::mount(volume, MountOptions::default())?.0)
}

fn attach(image: Image) -> Result<UbiDevice> {
    let flash = BlockDevice::new(Disk::new(image), Access::Write)?;
    Ok(UbiDevice::open(Arc::new(flash), &layout()?, &OpenOptions::default())?)
}

/// Records the workload. With `is_through` the disk has no cache.
pub(super) fn record(seed: u64, marks: u32, is_through: bool) -> Result<Recorded> {
    let disk = Disk::new(Image::new(SIZE));
    let shape = BlockShape { peb_size: PEB, unit: UNIT };
    let flash = Arc::new(BlockDevice::make(disk.clone(), &shape)?);
    let ubi = one_volume(flash, &layout()?)?;
    mount(&ubi)?.unmount()?;
    let mounted = mount(&ubi)?;
    mounted.sync()?;
    disk.mark(0);
    let steps = workload(seed, marks);
    for step in &steps {
        perform(&mounted, step, &disk).with_context(|| step.to_string())?;
    }
    mounted.unmount()?;
    let mut recording = disk.lock().1.clone();
    if is_through {
        for event in &mut recording.events {
            if let Event::Write { through, .. } = event {
                *through = true;
            }
        }
    }
    Ok(Recorded { steps, recording: Arc::new(recording) })
}

fn perform(mounted: &UbifsMount, step: &Step, disk: &Disk) -> Result<()> {
    let place = |path: &str| -> Result<(Ino, Vec<u8>)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((mounted.resolve(dir.as_bytes())?, name.as_bytes().to_vec()))
    };
    match step {
        Step::MakeDir(path) => {
            let (dir, name) = place(path)?;
            let new = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
            mounted.create(dir, &name, &new, &caller())?;
        }
        Step::Write(path, seed, len) => {
            let (dir, name) = place(path)?;
            let ino = if let Ok(ino) = mounted.lookup(dir, &name) {
                let empty = SetAttr { size: Some(0), ..SetAttr::default() };
                mounted.set_attr(ino, &empty, &caller())?;
                ino
            } else {
                let new = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
                mounted.create(dir, &name, &new, &caller())?
            };
            mounted.write(ino, 0, &content(*seed, *len), &caller())?;
        }
        Step::Rename(from, to) => {
            let (from, to) = (place(from)?, place(to)?);
            let places = ((from.0, from.1.as_slice()), (to.0, to.1.as_slice()));
            mounted.rename(places.0, places.1, RenameMode::Replace, &caller())?;
        }
        Step::Remove(path) => {
            let (dir, name) = place(path)?;
            mounted.unlink(dir, &name, &caller())?;
        }
        Step::Sync(path) => mounted.sync_file(mounted.resolve(path.as_bytes())?)?,
        Step::SyncAll => mounted.sync()?,
        Step::Mark(number) => disk.mark(*number),
    }
    Ok(())
}

/// Judges states, equal ones once.
pub(super) fn judge_states(recorded: &Recorded, cuts: &[Cut], units: Units) -> Result<Vec<Judged>> {
    let mut builder = Builder::new(Arc::clone(&recorded.recording), units);
    let (mut seen, mut judged) = (HashSet::new(), Vec::new());
    for cut in cuts {
        builder.advance(cut.position);
        let image = builder.image(*cut)?;
        if seen.insert(image.hash()) {
            let mark = recorded.recording.mark_before(cut.position);
            let expected = Expected::after(&recorded.steps, mark.filter(|mark| *mark > 0));
            judged.push(Judged { cut: *cut, findings: judge(image, &expected) });
        }
    }
    Ok(judged)
}

fn judge(image: Image, expected: &Expected) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mounted = attach(image).and_then(|ubi| Ok((mount(&ubi)?, ubi)));
    let (mounted, ubi) = match mounted {
        Ok(both) => both,
        Err(error) => return vec![Finding::new(Harm::Refused, format!("{error:#}"))],
    };
    let mut listed = Vec::new();
    list(&mounted, mounted.root(), "", &mut listed);
    findings.extend(expected.judge(&listed).into_iter().map(Finding::from));
    findings.extend(checked(&mounted, Harm::Check));
    let written = write_more(&mounted).and_then(|()| Ok(mounted.unmount()?));
    let again = written.and_then(|()| mount(&ubi));
    match again {
        Ok(again) => findings.extend(checked(&again, Harm::CheckAfter)),
        Err(error) => findings.push(Finding::new(Harm::Write, format!("{error:#}"))),
    }
    findings
}

fn checked(mounted: &UbifsMount, harm: Harm) -> Option<Finding> {
    match mounted.check() {
        Ok(found) => {
            let errors = found.iter().filter(|finding| finding.severity != Severity::Note);
            errors.map(|finding| Finding::new(harm, finding.message.clone())).next()
        }
        Err(error) => Some(Finding::new(harm, error.to_string())),
    }
}

fn write_more(mounted: &UbifsMount) -> Result<()> {
    let disk = Disk::new(Image::new(0));
    let steps = ["mkdir after", "write after/file 1 5000", "sync"];
    for step in steps {
        let step: Step = step.parse().map_err(anyhow::Error::msg)?;
        perform(mounted, &step, &disk)?;
    }
    Ok(())
}

fn list(fs: &UbifsMount, dir: Ino, path: &str, listed: &mut Vec<Listed>) {
    let mut add = |path: &str, content| listed.push(Listed { path: path.to_owned(), content });
    let entries = match fs.entries(dir) {
        Ok(entries) => entries,
        Err(error) => return add(path, ListedContent::Error(error.to_string())),
    };
    add(path, ListedContent::Directory);
    for entry in entries {
        let name = String::from_utf8_lossy(&entry.name);
        let path = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
        if entry.kind == FileKind::Directory {
            list(fs, entry.ino, &path, listed);
            continue;
        }
        let content = match read(fs, entry.ino) {
            Ok(bytes) => ListedContent::File(bytes.len() as u64, blocks(&bytes)),
            Err(error) => ListedContent::Error(error.to_string()),
        };
        listed.push(Listed { path, content });
    }
}

fn read(fs: &UbifsMount, ino: Ino) -> Result<Vec<u8>> {
    let size = usize::try_from(fs.attr(ino)?.size)?;
    let mut bytes = vec![0; size.min(1 << 24)];
    let mut done = 0;
    while done < bytes.len() {
        let count = fs.read(ino, done as u64, &mut bytes[done..])?;
        if count == 0 {
            break;
        }
        done += count;
    }
    bytes.truncate(done);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::state::{Level, cuts, sample};
    use super::*;

    const UNITS: Units = Units { unit: 1 << 20, page: 16 << 10, open: 5 };

    fn violations(recorded: &Recorded, level: Level, states: usize) -> Vec<Judged> {
        let from = recorded.recording.position_of(0).unwrap();
        let chosen = sample(&cuts(&recorded.recording, level, from, UNITS), states);
        let judged = judge_states(recorded, &chosen, UNITS).unwrap();
        assert!(judged.len() > states / 2, "{level:?}: {} states", judged.len());
        judged.into_iter().filter(|state| !state.findings.is_empty()).collect()
    }

    #[test]
    fn cuts_of_an_honest_disk_lose_nothing_synced() {
        let recorded = record(3, 12, false).unwrap();
        let found = violations(&recorded, Level::V1, 24);
        assert!(found.is_empty(), "{found:?}");
    }

    /// A judge that finds nothing here would find nothing at all.
    #[test]
    fn a_disk_that_ignores_flushes_is_found() {
        let mut recorded = record(3, 12, false).unwrap();
        let mut recording = (*recorded.recording).clone();
        recording.events.retain(|event| *event != Event::Flush);
        recorded.recording = Arc::new(recording);
        assert!(!violations(&recorded, Level::V1, 24).is_empty());
    }
}
