//! A file system in a volume, opened read-only.

use crate::error::Error;
use crate::observe::Observer;
use crate::target::formats::{self, Fact, Located, Read};
use crate::target::{AsOf, peek};
use crate::text;
use eraseblock_base::{Findings, Leb, Location, VolumeId};
use eraseblock_jffs2::{Jffs2, OpenOptions as Jffs2Options, Source};
use eraseblock_mtd::{LebDevice, Slice};
use eraseblock_ubi::UbiVolume;
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::{Attr, FileSystem, FsError, FsErrorKind};
use eraseblock_yaffs::{OpenOptions as YaffsOptions, Source as YaffsSource, Yaffs};
use std::sync::Arc;

/// A file system of one of the kinds.
#[derive(Debug)]
pub enum Kind {
    /// UBIFS.
    Ubifs(Box<Ubifs>),
    /// JFFS2.
    Jffs2(Box<Jffs2>),
    /// YAFFS1 or YAFFS2.
    Yaffs(Box<Yaffs>),
    /// One that is only read, and what its superblock says.
    Read(Arc<dyn FileSystem>, Vec<Fact>),
}

/// An opened file system.
#[derive(Debug)]
pub struct Opened {
    kind: Kind,
    volume: Option<VolumeId>,
    findings: Findings,
    /// How many late findings are among `findings` already.
    late_seen: usize,
}

impl Opened {
    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        match &self.kind {
            Kind::Ubifs(fs) => &**fs,
            Kind::Jffs2(fs) => &**fs,
            Kind::Yaffs(fs) => &**fs,
            Kind::Read(fs, _) => &**fs,
        }
    }

    /// The same with what only its kind has.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns what was found when it was opened.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns what reading it has found.
    pub fn late_findings(&self) -> Findings {
        match &self.kind {
            Kind::Ubifs(fs) => fs.late_findings(),
            Kind::Jffs2(fs) => fs.late_findings(),
            // Damage that reading meets is an error of that read.
            Kind::Yaffs(_) | Kind::Read(..) => Findings::new(),
        }
    }

    /// Returns the JFFS2 that it is, and what was found when it was opened.
    #[cfg(feature = "history")]
    pub(crate) fn into_jffs2(self) -> Option<(Jffs2, Findings)> {
        match self.kind {
            Kind::Jffs2(fs) => Some((*fs, self.findings)),
            _ => None,
        }
    }

    /// The file system for many users at once; what was found so far goes to the observer.
    pub fn shared(self, observer: &mut dyn Observer) -> Arc<dyn FileSystem> {
        observer.report(self.findings);
        match self.kind {
            Kind::Ubifs(fs) => Arc::new(*fs),
            Kind::Jffs2(fs) => Arc::new(*fs),
            Kind::Yaffs(fs) => Arc::new(*fs),
            Kind::Read(fs, _) => fs,
        }
    }

    /// Hands what it found over to the observer.
    pub fn finish(self, observer: &mut dyn Observer) {
        let mut late = Findings::new();
        for finding in self.late_findings().iter().skip(self.late_seen) {
            late.push(finding.clone());
        }
        // What reading met touches what was read; opening is about everything.
        observer.report(placed(late, self.volume));
        observer.report_aside(placed(self.findings, self.volume));
    }
}

/// Findings with their volume where there may be others.
pub fn placed(findings: Findings, volume: Option<VolumeId>) -> Findings {
    match volume {
        Some(volume) => findings.relocate(|at| within(volume, at)),
        None => findings,
    }
}

/// Opens the file system in a volume. `volume` names it where there may be others. Fails if there
/// is none that can be read.
pub fn open(
    device: Arc<dyn LebDevice>,
    volume: Option<VolumeId>,
    observer: &dyn Observer,
) -> Result<Opened, Error> {
    let options = OpenOptions { strict: observer.is_strict() };
    let (ubifs, findings) = Ubifs::open(device, &options)?;
    Ok(of_ubifs(ubifs, findings, volume))
}

/// Opens a UBIFS as it was. Fails if nothing of that state is left.
pub fn open_past(
    device: Arc<dyn LebDevice>,
    volume: Option<VolumeId>,
    as_of: AsOf,
) -> Result<Opened, Error> {
    let number = match as_of {
        AsOf::Commit(number) => number,
        AsOf::Sqnum(sqnum) => {
            let commits = Ubifs::commits(Arc::clone(&device))?;
            let before = commits.iter().rev().find(|commit| commit.sqnum < sqnum);
            let none = || Error::new(format!("no commit is left that ended before {sqnum}"));
            before.ok_or_else(none)?.number
        }
        AsOf::Time(seconds) => commit_of(&device, seconds)?,
    };
    let (ubifs, findings) = Ubifs::open_commit(device, number)?;
    Ok(of_ubifs(ubifs, findings, volume))
}

/// Returns the number of the last commit whose changes end at a time or before. A commit has no time: it is that
/// of the last change of an inode since the commit before, or the time of that one if no inode is left.
fn commit_of(device: &Arc<dyn LebDevice>, seconds: i64) -> Result<u64, Error> {
    let (fs, _) = Ubifs::open(Arc::clone(device), &OpenOptions::default())?;
    let mut changes: Vec<(u64, i64)> = Vec::new();
    fs.visit_nodes(
        &mut |_, _, node| {
            if let Ok(inode) = node.inode() {
                changes.push((node.header.sqnum, inode.ctime.seconds));
            }
        },
        &mut |_, _| {},
    );
    changes.sort_unstable();
    let (mut found, mut latest, mut since) = (None, None, 0);
    for commit in Ubifs::commits(Arc::clone(device))? {
        let end = changes.partition_point(|(sqnum, _)| *sqnum < commit.sqnum);
        let own = changes.get(since..end).unwrap_or_default().iter().map(|(_, time)| *time).max();
        (latest, since) = (own.or(latest), end);
        if latest.is_some_and(|latest| latest <= seconds) {
            found = Some(commit.number);
        }
    }
    let shown = text::time(seconds);
    found.ok_or_else(|| Error::new(format!("no commit is left whose changes end by {shown}")))
}

/// Fails: a state of the past was asked of something that has none.
pub(super) fn refuse_past(as_of: Option<AsOf>) -> Result<(), Error> {
    match as_of {
        None => Ok(()),
        Some(_) => Err(Error::new("only UBIFS keeps commits of the past")
            .with_kind(crate::ErrorKind::Unsupported)),
    }
}

/// A UBIFS that was opened, with what was found then.
pub fn of_ubifs(ubifs: Ubifs, findings: Findings, volume: Option<VolumeId>) -> Opened {
    let late_seen = ubifs.late_findings().iter().count();
    Opened { kind: Kind::Ubifs(Box::new(ubifs)), volume, findings, late_seen }
}

/// A JFFS2 that was opened, with what was found then.
pub fn of_jffs2(jffs2: Jffs2, findings: Findings) -> Opened {
    Opened { kind: Kind::Jffs2(Box::new(jffs2)), volume: None, findings, late_seen: 0 }
}

/// A YAFFS that was opened, with what was found then.
pub(super) fn of_yaffs(yaffs: Yaffs, findings: Findings) -> Opened {
    Opened { kind: Kind::Yaffs(Box::new(yaffs)), volume: None, findings, late_seen: 0 }
}

/// Opens a file system that is only read. `volume` names the volume where there may be others. Fails if
/// it cannot be read.
pub(super) fn of_read(at: &Located, volume: Option<VolumeId>) -> Result<Opened, Error> {
    let Read { fs, findings, facts } = at.open()?;
    Ok(Opened { kind: Kind::Read(fs, facts), volume, findings, late_seen: 0 })
}

/// Opens the file system of any kind in a UBI volume. `id` names it where there may be others.
/// Fails if there is none that can be read.
pub fn open_volume(
    volume: UbiVolume,
    id: Option<VolumeId>,
    as_of: Option<AsOf>,
    observer: &dyn Observer,
) -> Result<Opened, Error> {
    let content = peek::content(&volume);
    if let (Some(as_of), peek::Content::Ubifs(_)) = (as_of, &content) {
        return open_past(grown(volume, &content), id, as_of);
    }
    refuse_past(as_of)?;
    if let peek::Content::Read(format) = content
        && let Some(reader) = formats::reader_of(format)
    {
        return of_read(&Located::new(reader, formats::of_volume(volume))?, id);
    }
    if matches!(content, peek::Content::Yaffs) {
        return yaffs_in_volume(volume, id);
    }
    if !content.is_jffs2() {
        return open(grown(volume, &content), id, observer);
    }
    // An erase block is what the volume has for a user in an eraseblock.
    let erase_size = Some(volume.info().usable_leb_size);
    let options = Jffs2Options { start: Some(0), erase_size, ..Jffs2Options::default() };
    let (jffs2, findings) = Jffs2::open(Source::Image(Arc::new(volume)), &options)?;
    Ok(Opened { volume: id, ..of_jffs2(jffs2, findings) })
}

/// Opens the YAFFS in a volume, which may be longer. Fails if it cannot be read.
fn yaffs_in_volume(volume: UbiVolume, id: Option<VolumeId>) -> Result<Opened, Error> {
    let bytes = formats::of_volume(volume);
    let found = eraseblock_yaffs::locate(bytes.as_ref(), 0, 0)?;
    let length = found.map_or(bytes.size()?, |found| found.length);
    let source = YaffsSource::Image(Arc::new(Slice::new(bytes, 0, length)?));
    let (yaffs, findings) = Yaffs::open(source, &YaffsOptions::default())?;
    Ok(Opened { volume: id, ..of_yaffs(yaffs, findings) })
}

/// The volume as its file system may use it: an image is meant for a flash on which a UBIFS can
/// grow.
pub fn grown(volume: UbiVolume, content: &peek::Content) -> Arc<UbiVolume> {
    match content {
        peek::Content::Ubifs(sb) => Arc::new(volume.resized(sb.max_leb_cnt)),
        _ => Arc::new(volume),
    }
}

/// A place in a volume, distinct from those in other volumes.
fn within(volume: VolumeId, at: Location) -> Location {
    match at {
        Location::Leb(leb, offset) => Location::VolumeLeb(volume, leb, offset),
        // The erase blocks of a JFFS2.
        Location::Peb(block, offset) => Location::VolumeLeb(volume, Leb::new(block.get()), offset),
        Location::Whole => Location::Volume(volume),
        other => other,
    }
}

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Hands the content of a regular file over piece by piece, with the offset of each.
///
/// Memory is bounded by the size of a piece, regardless of the length in the inode. Fails if a part
/// of the content is lost, or if `sink` does.
pub fn copy(
    fs: &dyn FileSystem,
    attr: &Attr,
    sink: &mut dyn FnMut(u64, &[u8]) -> std::io::Result<()>,
) -> Result<u64, Error> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(attr.size).unwrap_or(CHUNK))];
    let mut offset = 0;
    while offset < attr.size {
        let len = fs.read(attr.ino, offset, &mut buffer)?;
        if len == 0 {
            let (ino, size) = (attr.ino, attr.size);
            let message = format!("inode {ino}: content ends at byte {offset}, its size is {size}");
            return Err(FsError::new(FsErrorKind::Corrupted, message).into());
        }
        sink(offset, &buffer[..len])?;
        offset += len as u64;
    }
    Ok(offset)
}
