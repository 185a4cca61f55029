//! Everything in an image verified, nothing changed: the UBI device, static volumes, and every
//! structure and every byte of the file systems.

mod overheard;
mod volume;

use crate::codes;
use crate::error::{Context, Result, Words};
use crate::observe::{Notes, Observer};
use crate::recovery;
use crate::target::formats::ReadImage;
use crate::target::image::{self, Image, Jffs2Image, UbiImage};
use crate::target::span;
use crate::target::writable::{self, Held};
use crate::target::yaffs::YaffsImage;
use crate::target::{Place, Shape, open_place};
use crate::text;
use eraseblock_base::{Findings, Location};
use eraseblock_tree::scrub::scrub;
use eraseblock_vfs::FileSystem;
use eraseblock_vfs::walk::paths;
use overheard::Overheard;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

/// Checks everything in the image at `path`, as [`crate::OpenOptions::check`] does with the usual
/// options. Fails as that does.
pub fn check(path: impl AsRef<Path>) -> Result<CheckReport> {
    crate::Image::options().check(path)
}

/// The result of a check.
#[derive(Debug)]
pub struct CheckReport {
    findings: Findings,
    why_read_only: Option<String>,
    target: OsString,
}

impl CheckReport {
    /// Returns whether nothing is wrong: notes at most were found.
    pub fn is_consistent(&self) -> bool {
        !self.findings.has_problems()
    }

    /// Returns everything that was found: first about the image as a whole, then about what is in
    /// it.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns why a consistent file system can only be read, if one of its nodes forbids more.
    pub fn why_read_only(&self) -> Option<&str> {
        self.why_read_only.as_deref()
    }

    /// Returns what could be done about the findings: runs of the `eraseblock` command.
    pub fn next_steps(&self) -> Vec<Words> {
        let mut steps = recovery::steps(&self.findings, &self.target);
        steps.extend(
            self.why_read_only().map(|reason| format!("it can only be read: {reason}").into()),
        );
        steps
    }
}

/// Checks what `place` names, with `shape` instead of what is detected. `observer` takes the findings
/// as they are made, also those before a failure. What cannot be read is a finding; fails if nothing
/// that can be checked is recognised.
pub fn check_place(
    place: &Place,
    shape: &Shape,
    observer: &mut dyn Observer,
) -> Result<CheckReport> {
    image::refuse_folder(&place.path)?;
    observer.keep_still(&place.path)?;
    let mut heard = Overheard::new(observer);
    let span = span::one(place, shape)?;
    let why_read_only = if matches!(writable::held(place, span, shape)?, Held::Jffs2) {
        flash_jffs2(place, shape, &mut heard)?
    } else {
        let image = image::open_span(place, span, shape, &heard)?;
        opened(image, place, &mut heard).context(place.path.display())?;
        None
    };
    Ok(CheckReport { findings: heard.findings(), why_read_only, target: place.target() })
}

/// An image that was opened: anything but a JFFS2 on a flash of its own.
fn opened(image: Image, place: &Place, heard: &mut Overheard<'_>) -> Result<()> {
    match image {
        Image::Ubifs(image) => {
            place.refuse_volume()?;
            volume::ubifs(image.device, None, heard)
        }
        Image::Jffs2(Jffs2Image { opened, .. })
        | Image::Yaffs(YaffsImage { opened, .. })
        | Image::Read(ReadImage { opened, .. }) => {
            place.refuse_volume()?;
            volume::scrubbed(opened, None, heard);
            Ok(())
        }
        Image::Ubi(image) => device(&image, place.volume.as_deref(), heard),
    }
}

/// A JFFS2 on a flash; returns why it can only be read, if a node forbids more. One that no mount
/// takes is read all the same.
fn flash_jffs2(
    place: &Place,
    shape: &Shape,
    observer: &mut Overheard<'_>,
) -> Result<Option<String>> {
    let failure = match writable::open_to_look(place, shape, observer) {
        Ok(opened) => {
            match opened.check() {
                Ok(findings) => observer.report(findings),
                Err(error) => {
                    let code = codes::of_trouble(error.kind());
                    observer.error(Location::Whole, code, &error.to_string());
                }
            }
            let found = all_of(opened.fs(), observer);
            let (forbids, late) = (opened.fs().why_read_only(), opened.late_findings());
            observer.report(named(late, opened.fs()));
            observer.report(found);
            return Ok(forbids);
        }
        Err(failure) => failure,
    };
    // The reader reports its own findings.
    let mut aside = Notes::new(observer.is_strict());
    let Ok((opened, _)) = open_place(place, shape, &mut aside) else {
        return Err(failure);
    };
    observer.error(Location::Whole, codes::NOT_MOUNTABLE, failure.message());
    volume::scrubbed(opened, None, observer);
    Ok(None)
}

/// A UBI device, and the volume that is named or all of them.
fn device(image: &UbiImage, name: Option<&[u8]>, observer: &mut Overheard<'_>) -> Result<()> {
    image.report(observer)?;
    if let Some(name) = name {
        return volume::check(image.named_volume(name)?, None, observer);
    }
    let volumes = &image.attachment().volumes;
    if volumes.is_empty() && observer.has_problems() {
        return Err(image.choose("no volume holds a file system"));
    }
    for info in volumes {
        let id = (volumes.len() > 1).then_some(info.id);
        let checked = image.open(info).and_then(|opened| volume::check(opened, id, observer));
        match (checked, id) {
            (Ok(()), _) => {}
            (Err(failure), None) => return Err(failure),
            // The others are checked, too.
            (Err(failure), Some(id)) => {
                observer.error(Location::Volume(id), codes::NOT_OPENED, failure.message());
            }
        }
    }
    Ok(())
}

/// Reads every name, attribute and byte: what cannot be read is a finding.
fn all_of(fs: &dyn FileSystem, observer: &dyn Observer) -> Findings {
    let meter = observer.progress(0, "check");
    scrub(fs, &|bytes| meter.advance(bytes))
}

/// Findings about inodes get the paths of those.
fn named(findings: Findings, fs: &dyn FileSystem) -> Findings {
    let ino = |at| match at {
        Location::Inode(ino) => Some(ino),
        _ => None,
    };
    let wanted: BTreeSet<u64> = findings.iter().filter_map(|finding| ino(finding.at)).collect();
    if wanted.is_empty() {
        return findings;
    }
    let paths = paths(fs, &wanted);
    findings.reword(|_, finding| {
        let path = paths.get(&ino(finding.at)?)?;
        Some(format!("{}: {}", text::name(path), finding.message))
    })
}
