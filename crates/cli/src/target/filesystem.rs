//! A file system in a volume, opened read-only.

use crate::failure::Failure;
use crate::session::Session;
use eraseblock_base::{Findings, Location, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::FileSystem;
use std::sync::Arc;

/// An opened file system.
#[derive(Debug)]
pub(crate) struct Opened {
    ubifs: Ubifs,
    volume: Option<VolumeId>,
    findings: Findings,
    /// How many late findings are among `findings` already.
    late_seen: usize,
}

impl Opened {
    /// The file system.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        &self.ubifs
    }

    /// The same with what only UBIFS has.
    pub(crate) fn ubifs(&self) -> &Ubifs {
        &self.ubifs
    }

    /// The file system for many users at once; what was found so far goes to the session.
    pub(crate) fn shared(self, session: &mut Session) -> Arc<dyn FileSystem> {
        session.report(self.findings);
        Arc::new(self.ubifs)
    }

    /// Hands what it found over to the session.
    pub(crate) fn finish(self, session: &mut Session) {
        let mut findings = self.findings;
        for finding in self.ubifs.late_findings().iter().skip(self.late_seen) {
            findings.push(finding.clone());
        }
        session.report(match self.volume {
            Some(volume) => findings.relocate(|at| within(volume, at)),
            None => findings,
        });
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
    let late_seen = ubifs.late_findings().iter().count();
    Ok(Opened { ubifs, volume, findings, late_seen })
}

/// The same; what is in the way becomes a finding.
pub(crate) fn try_open(
    device: Arc<dyn LebDevice>,
    volume: Option<VolumeId>,
    session: &mut Session,
) -> Option<Opened> {
    match open(device, volume, session) {
        Ok(opened) => Some(opened),
        Err(failure) => {
            let at = volume.map_or(Location::Whole, Location::Volume);
            session.refused(at, failure.message());
            None
        }
    }
}

/// A place in a volume, told from those in other volumes.
fn within(volume: VolumeId, at: Location) -> Location {
    match at {
        Location::Leb(leb, offset) => Location::VolumeLeb(volume, leb, offset),
        Location::Whole => Location::Volume(volume),
        other => other,
    }
}
