//! A target that is mounted or served over a network: its volumes are opened as file systems, and
//! the target is locked.
//!
//! # Invariants
//! 1. A writer holds an exclusive lock; readers share one.

use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::base::VolumeId;
use eraseblock::raw::fuse::Served;
use eraseblock::raw::mtd::Access;
use eraseblock::target::lock::lock;
use eraseblock::target::span::At;
use eraseblock::target::writable::{self, Below, Mode, Writable};
use eraseblock::target::{self, Place, Wanted};
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// An opened target and its lock.
#[derive(Debug)]
pub(crate) struct Held {
    /// The requested volumes, in that order.
    pub(crate) volumes: Vec<Volume>,
    /// The file or device, by its canonical path.
    pub(crate) path: PathBuf,
    /// The part of the file, if one was named.
    pub(crate) at: Option<At>,
    /// The layers below writable file systems.
    pub(crate) below: Option<Arc<Below>>,
    /// Keeps writers away from a target that is only read; a writable one is locked further down.
    _lock: Option<File>,
}

/// An opened file system.
#[derive(Debug)]
pub(crate) struct Volume {
    /// The file system.
    pub(crate) served: Served,
    /// The volume's name, if one was given.
    pub(crate) name: Option<Vec<u8>>,
    /// The number of the UBI volume, if it is in one: the same however the target was spelled.
    pub(crate) id: Option<VolumeId>,
    /// The volume as the user named it, or could.
    pub(crate) target: OsString,
    writable: Option<Writable>,
}

impl Volume {
    /// A failure with its reason and the next step, if the file system turned read-only over it.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match &self.writable {
            Some(writable) => failure.map(|error| writable.explained(error)),
            None => failure,
        }
    }

    /// Ends the use of this volume; afterwards everything is in the image.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        Ok(self.writable.as_ref().map_or(Ok(()), Writable::rest)?)
    }
}

impl Held {
    /// Keeps changes in the target from now on.
    pub(crate) fn keep(&self) {
        if let Some(below) = &self.below {
            below.keep();
        }
    }
}

/// Locks and opens the target's volume, and others on the same flash. A state of the past is only read.
pub(crate) fn open(
    args: &Wanted,
    others: &[Vec<u8>],
    mode: Option<Mode>,
    session: &mut Session,
) -> Result<Held, Failure> {
    let Place { path, at, volume } = Place::parse(&args.target)?;
    if !others.is_empty() && volume.is_none() {
        return Err(Failure::usage("several volumes of one target must all be named")
            .hint("TARGET:VOLUME names the first one"));
    }
    let canonical = path.canonicalize().unwrap_or_else(|_| path.clone());
    let names = std::iter::once(volume).chain(others.iter().cloned().map(Some));
    let Some(mode) = mode else {
        let lock = Some(lock(&canonical, Access::Read)?);
        let open = |name: Option<Vec<u8>>| {
            let target = Place { path: path.clone(), at, volume: name.clone() }.target();
            let args = Wanted { target: target.clone(), shape: args.shape.clone() };
            let (opened, id) = target::open_volume(&args, session)?;
            let served = Served::ReadOnly(opened.shared(session));
            Ok(Volume { served, name, id, target, writable: None })
        };
        let volumes = names.map(open).collect::<Result<_, Failure>>()?;
        return Ok(Held { volumes, path: canonical, at, below: None, _lock: lock });
    };
    let names: Vec<Option<Vec<u8>>> = names.collect();
    let opened = writable::open_volumes(args, &names, mode, session)?;
    let below = opened.first().map(|writable| Arc::clone(writable.below()));
    let volumes = names.into_iter().zip(opened).map(|(name, writable)| {
        let served = Served::ReadWrite(writable.shared());
        let (id, target) = (writable.volume(), writable.target().to_owned());
        Volume { served, name, id, target, writable: Some(writable) }
    });
    Ok(Held { volumes: volumes.collect(), path: canonical, at, below, _lock: None })
}
