//! `eraseblock ubi`: what the ubi-utils do, on chip files, image files and `/dev/mtdX`.

mod change;
mod format;
mod update;
mod wear;

use crate::args::FlashTargetArgs;
use crate::failure::Failure;
use crate::session::{Session, say};
use clap::Subcommand;
use eraseblock::raw::ubi::VolumeInfo;
use eraseblock::raw::ubi_format::VolumeKind;
use eraseblock::target::volumes::VolumeChange;
use serde::Serialize;

/// Arguments of `ubi`.
#[derive(Debug, clap::Args)]
pub(crate) struct UbiArgs {
    #[command(subcommand)]
    command: UbiCommand,
}

/// What can be done with UBI.
#[derive(Debug, Subcommand)]
enum UbiCommand {
    /// Erase a flash and make it an empty UBI device; erase counters are kept
    Format(format::FormatArgs),
    /// Make a volume
    Mkvol(change::MkvolArgs),
    /// Remove a volume
    Rmvol(change::RmvolArgs),
    /// Change the size of a volume
    Rsvol(change::RsvolArgs),
    /// Rename volumes, all of them at once
    Rename(change::RenameArgs),
    /// Replace the content of a volume
    Update(update::UpdateArgs),
    /// Show erase counters, bad blocks and errors
    Wear(wear::WearArgs),
}

/// Does what was asked.
pub(crate) fn run(args: &UbiArgs, session: &mut Session) -> Result<(), Failure> {
    match &args.command {
        UbiCommand::Format(args) => format::run(args, session),
        UbiCommand::Mkvol(args) => change::mkvol(args, session),
        UbiCommand::Rmvol(args) => change::rmvol(args, session),
        UbiCommand::Rsvol(args) => change::rsvol(args, session),
        UbiCommand::Rename(args) => change::rename(args, session),
        UbiCommand::Update(args) => update::run(args, session),
        UbiCommand::Wear(args) => wear::run(args, session),
    }
}

/// A volume, for people and as JSON.
#[derive(Debug, Serialize)]
struct VolumeReport {
    id: u32,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    lebs: u32,
    leb_size: u32,
    bytes: u64,
}

impl VolumeReport {
    fn of(info: &VolumeInfo) -> Self {
        Self {
            id: info.id.get(),
            name: eraseblock::text::name(info.name.as_bytes()),
            kind: match info.kind {
                VolumeKind::Dynamic => "dynamic",
                VolumeKind::Static => "static",
            },
            lebs: info.reserved_lebs,
            leb_size: info.usable_leb_size,
            bytes: u64::from(info.reserved_lebs) * u64::from(info.usable_leb_size),
        }
    }

    fn line(&self) -> String {
        let lebs = eraseblock::text::count(u64::from(self.lebs), "LEB", "LEBs");
        let size = eraseblock::text::size(self.bytes);
        format!("volume {} `{}`: {}, {lebs}, {size}", self.id, self.name, self.kind)
    }
}

/// What all commands that change volumes print.
#[derive(Debug, Serialize)]
struct Changed {
    volumes: Vec<VolumeReport>,
    available_lebs: u32,
}

/// Completes a change and prints the new state.
fn settle(change: &VolumeChange, session: &mut Session) -> Result<(), Failure> {
    change.finish()?;
    let ubi = change.ubi();
    let volumes = ubi.volumes().iter().map(VolumeReport::of).collect();
    let changed = Changed { volumes, available_lebs: ubi.available_lebs() };
    if session.options.json {
        return session.json(&changed);
    }
    for volume in &changed.volumes {
        session.remark(&volume.line());
    }
    let free = eraseblock::text::count(u64::from(changed.available_lebs), "LEB", "LEBs");
    session.remark(&format!("{free} available"));
    Ok(())
}

/// Opens the device that `args` point at for a change.
fn open(args: &FlashTargetArgs) -> Result<VolumeChange, Failure> {
    Ok(VolumeChange::begin(args.options(), say)?)
}
