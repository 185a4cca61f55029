//! `eraseblock info`: what an image is, what is in it and how well it is.

mod print;
mod report;
mod several;

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::base::{Location, VolumeId};
use eraseblock::raw::mtd::LebDevice;
use eraseblock::raw::ubi::UbiVolume;
use eraseblock::raw::ubi_format::VolumeKind;
use eraseblock::target::filesystem::Opened;
use eraseblock::target::image::{self, BareUbifs, Image, Jffs2Image, UbiImage};
use eraseblock::target::span::{self, Meant};
use eraseblock::target::{Place, filesystem, peek};
use report::{Jffs2Report, Report, UbiReport, UbifsFacts, UbifsReport, VolumeReport, YaffsReport};
use serde::Serialize;
use std::sync::Arc;

/// Arguments of `info`.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Prints what is known.
pub(crate) fn run(args: &InfoArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    session.keep_still(&place.path)?;
    let span = match span::meant(&place, &args.target.shape.shape())? {
        Meant::Device => None,
        Meant::Span(span) => Some(span),
        Meant::Several(survey) => return several::list(&place, &survey, session),
    };
    let report = match image::open_span(&place, span, &args.target.shape.shape(), session)? {
        Image::Ubi(image) => of_ubi(&image, place.volume.as_deref(), session)?,
        Image::Ubifs(image) => {
            place.refuse_volume()?;
            of_ubifs(&image, session)
        }
        Image::Jffs2(image) => {
            place.refuse_volume()?;
            of_jffs2(image, session)
        }
        Image::Yaffs(image) => {
            place.refuse_volume()?;
            let report = YaffsReport::of(&image);
            image.opened.finish(session);
            Report::Yaffs(report)
        }
    };
    let report = Located { offset: span.map_or(0, |span| span.offset), report };
    if session.options.json {
        return session.json(&report);
    }
    let lines = print::lines(&report.report, session.style);
    session.lines(lines)?;
    if report.offset > 0 {
        session.lines([format!("\n  begins at byte {} of the file", report.offset)])?;
    }
    Ok(())
}

/// An image in a file that also holds other data.
#[derive(Debug, Serialize)]
struct Located {
    /// Where the part of the file begins that the report is about.
    offset: u64,
    #[serde(flatten)]
    report: Report,
}

fn of_ubi(image: &UbiImage, only: Option<&[u8]>, session: &mut Session) -> Result<Report, Failure> {
    image.report(session)?;
    let mut report = UbiReport::of(image)?;
    let only = only.map(|name| image.named_volume(name)).transpose()?;
    for info in &image.attachment().volumes {
        if only.as_ref().is_some_and(|volume| volume.info().id != info.id) {
            continue;
        }
        let volume = image.open(info)?;
        if info.kind == VolumeKind::Static {
            image::check_static(&volume, session);
        }
        let content = peek::content(&volume);
        let mut row = VolumeReport::of(info, &content);
        if let peek::Content::Ubifs(superblock) = &content {
            let mut facts = UbifsFacts::of(superblock);
            if let Some(opened) = try_open_volume(volume, info.id, session) {
                facts.add_state(&opened);
                opened.finish(session);
            }
            row.ubifs = Some(facts);
        } else if content.is_jffs2()
            && let Some(opened) = try_open_volume(volume, info.id, session)
        {
            opened.finish(session);
        }
        report.volumes.push(row);
    }
    Ok(Report::Ubi(report))
}

fn of_jffs2(image: Jffs2Image, session: &mut Session) -> Report {
    let report = Jffs2Report::of(&image);
    image.opened.finish(session);
    Report::Jffs2(report)
}

fn of_ubifs(image: &BareUbifs, session: &mut Session) -> Report {
    let mut report = UbifsReport::of(image);
    if let peek::Content::Ubifs(superblock) = peek::content(&*image.device) {
        report.facts = Some(UbifsFacts::of(&superblock));
    }
    if let Some(opened) = try_open(Arc::clone(&image.device) as _, session) {
        if let Some(facts) = &mut report.facts {
            facts.add_state(&opened);
        }
        opened.finish(session);
    }
    Report::Ubifs(report)
}

/// The file system in a volume; what is in the way becomes a finding.
fn try_open_volume(volume: UbiVolume, id: VolumeId, session: &mut Session) -> Option<Opened> {
    let opened = filesystem::open_volume(volume, Some(id), session);
    opened.map_err(|error| session.refused(Location::Volume(id), error.message())).ok()
}

/// The file system in a bare volume; what is in the way becomes a finding.
fn try_open(device: Arc<dyn LebDevice>, session: &mut Session) -> Option<Opened> {
    let opened = filesystem::open(device, None, session);
    opened.map_err(|error| session.refused(Location::Whole, error.message())).ok()
}
