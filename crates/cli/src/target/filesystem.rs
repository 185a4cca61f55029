//! A file system in a volume, opened read-only.

use crate::failure::Failure;
use crate::session::Session;
use crate::target::peek;
use eraseblock_base::{Findings, Leb, Location, VolumeId};
use eraseblock_jffs2::{Jffs2, OpenOptions as Jffs2Options, Source};
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::UbiVolume;
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::FileSystem;
use std::sync::Arc;

/// A file system of one of the kinds.
#[derive(Debug)]
pub(crate) enum Kind {
    /// UBIFS.
    Ubifs(Box<Ubifs>),
    /// JFFS2.
    Jffs2(Box<Jffs2>),
}

/// An opened file system.
#[derive(Debug)]
pub(crate) struct Opened {
    kind: Kind,
    volume: Option<VolumeId>,
    findings: Findings,
    /// How many late findings are among `findings` already.
    late_seen: usize,
}

impl Opened {
    /// The file system.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        match &self.kind {
            Kind::Ubifs(fs) => &**fs,
            Kind::Jffs2(fs) => &**fs,
        }
    }

    /// The same with what only its kind has.
    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    fn late_findings(&self) -> Findings {
        match &self.kind {
            Kind::Ubifs(fs) => fs.late_findings(),
            Kind::Jffs2(fs) => fs.late_findings(),
        }
    }

    /// The file system for many users at once; what was found so far goes to the session.
    pub(crate) fn shared(self, session: &mut Session) -> Arc<dyn FileSystem> {
        session.report(self.findings);
        match self.kind {
            Kind::Ubifs(fs) => Arc::new(*fs),
            Kind::Jffs2(fs) => Arc::new(*fs),
        }
    }

    /// Hands what it found over to the session.
    pub(crate) fn finish(self, session: &mut Session) {
        let mut late = Findings::new();
        for finding in self.late_findings().iter().skip(self.late_seen) {
            late.push(finding.clone());
        }
        // What reading met touches what was read; opening is about everything.
        session.report(placed(late, self.volume));
        session.report_aside(placed(self.findings, self.volume));
    }
}

/// Findings with their volume where there may be others.
pub(crate) fn placed(findings: Findings, volume: Option<VolumeId>) -> Findings {
    match volume {
        Some(volume) => findings.relocate(|at| within(volume, at)),
        None => findings,
    }
}

/// Opens the file system in a volume. `volume` names it where there may be others.
pub(crate) fn open(
    device: Arc<dyn LebDevice>,
    volume: Option<VolumeId>,
    session: &Session,
) -> Result<Opened, Failure> {
    let options = OpenOptions { strict: session.options.strict };
    let (ubifs, findings) = Ubifs::open(device, &options)?;
    Ok(of_ubifs(ubifs, findings, volume))
}

/// A UBIFS that was opened, with what was found then.
pub(crate) fn of_ubifs(ubifs: Ubifs, findings: Findings, volume: Option<VolumeId>) -> Opened {
    let late_seen = ubifs.late_findings().iter().count();
    Opened { kind: Kind::Ubifs(Box::new(ubifs)), volume, findings, late_seen }
}

/// A JFFS2 that was opened, with what was found then.
pub(crate) fn of_jffs2(jffs2: Jffs2, findings: Findings) -> Opened {
    Opened { kind: Kind::Jffs2(Box::new(jffs2)), volume: None, findings, late_seen: 0 }
}

/// Opens the file system of either kind in a UBI volume. `id` names it where there may be others.
pub(crate) fn open_volume(
    volume: UbiVolume,
    id: Option<VolumeId>,
    session: &Session,
) -> Result<Opened, Failure> {
    let content = peek::content(&volume);
    if !content.is_jffs2() {
        return open(grown(volume, &content), id, session);
    }
    // An erase block is what the volume has for a user in an eraseblock.
    let erase_size = Some(volume.info().usable_leb_size);
    let options = Jffs2Options { start: Some(0), erase_size, ..Jffs2Options::default() };
    let (jffs2, findings) = Jffs2::open(Source::Image(Arc::new(volume)), &options)?;
    Ok(Opened { volume: id, ..of_jffs2(jffs2, findings) })
}

/// The volume as its file system may use it: an image is meant for a flash on which a UBIFS can
/// grow.
pub(crate) fn grown(volume: UbiVolume, content: &peek::Content) -> Arc<UbiVolume> {
    match content {
        peek::Content::Ubifs(sb) => Arc::new(volume.resized(sb.max_leb_cnt)),
        _ => Arc::new(volume),
    }
}

/// The same; what is in the way becomes a finding.
pub(crate) fn try_open_volume(
    volume: UbiVolume,
    id: VolumeId,
    session: &mut Session,
) -> Option<Opened> {
    let opened = open_volume(volume, Some(id), session);
    opened.map_err(|failure| session.refused(Location::Volume(id), failure.message())).ok()
}

/// A bare volume opened; what is in the way becomes a finding.
pub(crate) fn try_open(device: Arc<dyn LebDevice>, session: &mut Session) -> Option<Opened> {
    let opened = open(device, None, session);
    opened.map_err(|failure| session.refused(Location::Whole, failure.message())).ok()
}

/// A place in a volume, told from those in other volumes.
fn within(volume: VolumeId, at: Location) -> Location {
    match at {
        Location::Leb(leb, offset) => Location::VolumeLeb(volume, leb, offset),
        // The erase blocks of a JFFS2.
        Location::Peb(block, offset) => Location::VolumeLeb(volume, Leb::new(block.get()), offset),
        Location::Whole => Location::Volume(volume),
        other => other,
    }
}
