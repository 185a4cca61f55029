//! `eraseblock check`: everything in a target verified, nothing changed: the UBI device, static
//! volumes, and every structure and every byte of the file systems.

mod volume;

use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::base::{Findings, Location};
use eraseblock::raw::tree::scrub::scrub;
use eraseblock::raw::vfs::FileSystem;
use eraseblock::raw::vfs::walk::paths;
use eraseblock::recovery;
use eraseblock::target::image::{self, Image, Jffs2Image, UbiImage};
use eraseblock::target::span;
use eraseblock::target::writable::{self, Mode};
use eraseblock::target::yaffs::YaffsImage;
use eraseblock::target::{Place, open_file_system};
use serde::Serialize;
use std::collections::BTreeSet;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// The result of a check, as JSON.
#[derive(Debug, Serialize)]
struct Verdict {
    /// Whether nothing is wrong.
    consistent: bool,
    /// The next steps for the findings.
    next_steps: Vec<String>,
}

/// Checks.
pub(crate) fn run(args: &CheckArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    image::refuse_folder(&place.path)?;
    session.keep_still(&place.path)?;
    let mut next_steps = Vec::new();
    let span = span::one(&place, &args.target.shape.shape())?;
    if writable::holds_jffs2(&place, span, &args.target.wanted())? {
        let forbids = jffs2(args, session)?;
        next_steps.extend(forbids.map(|reason| format!("it can only be read: {reason}")));
    } else {
        let shape = &args.target.shape.shape();
        let refused = || place.refuse_volume().map_err(Failure::from);
        let checked = match image::open_span(&place, span, shape, session)? {
            Image::Ubifs(image) => {
                refused().and_then(|()| volume::ubifs(image.device, None, session))
            }
            Image::Jffs2(Jffs2Image { opened, .. }) | Image::Yaffs(YaffsImage { opened, .. }) => {
                refused().map(|()| {
                    let found = all_of(opened.fs(), session);
                    session.report(found);
                    opened.finish(session);
                })
            }
            Image::Ubi(image) => device(&image, place.volume.as_deref(), session),
        };
        checked.context(place.path.display())?;
    }
    let consistent = !session.findings().has_problems();
    let mut steps = recovery::steps(session.findings(), &place.target());
    steps.append(&mut next_steps);
    if session.options.json {
        return session.json(&Verdict { consistent, next_steps: steps });
    }
    session.advise(steps);
    if consistent {
        session.conclude("consistent");
    }
    Ok(())
}

/// A JFFS2 on a flash; why it can only be read, if a node forbids more. One that no mount takes is
/// read all the same.
fn jffs2(args: &CheckArgs, session: &mut Session) -> Result<Option<String>, Failure> {
    let failure = match writable::open(&args.target.wanted(), Mode::READ_ONLY, session) {
        Ok(opened) => {
            match opened.check() {
                Ok(findings) => session.report(findings),
                Err(error) => session.trouble(Location::Whole, &error),
            }
            let found = all_of(opened.fs(), session);
            let (forbids, late) = (opened.fs().why_read_only(), opened.late_findings());
            session.report(named(late, opened.fs()));
            session.report(found);
            return Ok(forbids);
        }
        Err(failure) => failure,
    };
    // The reader reports its own findings.
    let mut aside = Session::new(session.options.clone());
    let Ok(opened) = open_file_system(&args.target.wanted(), &mut aside) else {
        return Err(failure.into());
    };
    session.not_mounted(Location::Whole, failure.message());
    let found = all_of(opened.fs(), session);
    session.report(found);
    opened.finish(session);
    Ok(None)
}

/// A UBI device, and the volume that is named or all of them.
fn device(image: &UbiImage, name: Option<&[u8]>, session: &mut Session) -> Result<(), Failure> {
    image.report(session)?;
    if let Some(name) = name {
        return volume::check(image.named_volume(name)?, None, session);
    }
    let volumes = &image.attachment().volumes;
    if volumes.is_empty() && session.findings().has_problems() {
        return Err(image.choose("no volume holds a file system").into());
    }
    for info in volumes {
        let id = (volumes.len() > 1).then_some(info.id);
        let opened = image.open(info).map_err(Failure::from);
        let checked = opened.and_then(|opened| volume::check(opened, id, session));
        match (checked, id) {
            (Ok(()), _) => {}
            (Err(failure), None) => return Err(failure),
            // The others are checked, too.
            (Err(failure), Some(id)) => {
                session.refused(Location::Volume(id), failure.message());
            }
        }
    }
    Ok(())
}

/// Reads every name, attribute and byte: what cannot be read is a finding.
fn all_of(fs: &dyn FileSystem, session: &Session) -> Findings {
    let bar = session.progress(0, "check");
    let findings = scrub(fs, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    findings
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
        Some(format!("{}: {}", eraseblock::text::name(path), finding.message))
    })
}
