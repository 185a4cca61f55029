//! `eraseblock ubi mkvol`, `rmvol`, `rsvol` and `rename`: the volume table changes.

use super::{open, settle};
use crate::args::{FlashTargetArgs, size32, size64};
use crate::failure::Failure;
use crate::session::Session;
use clap::ValueEnum;
use eraseblock::raw::ubi_format::VolumeKind;
use eraseblock::target::volumes::{VolumeOptions, VolumeSize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What a volume is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Kind {
    /// Changes at any time.
    Dynamic,
    /// Written as a whole, with a checksum.
    Static,
}

/// The size of a volume.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Size {
    /// Size, rounded up to whole LEBs
    #[arg(long = "size", value_name = "SIZE", value_parser = size64)]
    bytes: Option<u64>,
    /// Size in LEBs
    #[arg(long, value_name = "NUMBER")]
    lebs: Option<u32>,
    /// Everything that is available
    #[arg(long)]
    all: bool,
}

impl Size {
    fn wanted(&self) -> VolumeSize {
        match (self.bytes, self.lebs) {
            (Some(size), _) => VolumeSize::Bytes(size),
            (None, Some(lebs)) => VolumeSize::Lebs(lebs),
            (None, None) => VolumeSize::Available,
        }
    }
}

/// Arguments of `ubi mkvol`.
#[derive(Debug, clap::Args)]
pub(super) struct MkvolArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// Its name
    name: OsString,
    #[command(flatten)]
    size: Size,
    /// What it is for
    #[arg(long = "type", value_name = "TYPE", default_value = "dynamic")]
    kind: Kind,
    /// Its number; the lowest free one when left out
    #[arg(long, value_name = "NUMBER")]
    id: Option<u32>,
    /// The usable LEB size is a multiple of this
    #[arg(long, value_name = "SIZE", value_parser = size32, default_value = "1")]
    alignment: u32,
    /// Do not check the checksum of a static volume when it is opened
    #[arg(long)]
    skip_check: bool,
}

/// Makes a volume.
pub(super) fn mkvol(args: &MkvolArgs, session: &mut Session) -> Result<(), Failure> {
    let change = open(&args.flash)?;
    change.flash().refuse_volume()?;
    let volume = VolumeOptions::new(args.name.as_bytes(), args.size.wanted())
        .kind(match args.kind {
            Kind::Dynamic => VolumeKind::Dynamic,
            Kind::Static => VolumeKind::Static,
        })
        .id(args.id)
        .alignment(args.alignment)
        .skip_check(args.skip_check);
    change.create(&volume)?;
    settle(&change, session)
}

/// Arguments of `ubi rmvol`.
#[derive(Debug, clap::Args)]
pub(super) struct RmvolArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// The volume's name or number
    #[arg(required = true)]
    volume: Vec<OsString>,
}

/// Removes volumes.
pub(super) fn rmvol(args: &RmvolArgs, session: &mut Session) -> Result<(), Failure> {
    let change = open(&args.flash)?;
    change.flash().refuse_volume()?;
    for volume in &args.volume {
        change.remove(volume.as_bytes())?;
    }
    settle(&change, session)
}

/// Arguments of `ubi rsvol`.
#[derive(Debug, clap::Args)]
pub(super) struct RsvolArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// The volume's name or number
    volume: OsString,
    #[command(flatten)]
    size: Size,
}

/// Changes the size of a volume.
pub(super) fn rsvol(args: &RsvolArgs, session: &mut Session) -> Result<(), Failure> {
    let change = open(&args.flash)?;
    change.flash().refuse_volume()?;
    change.resize(args.volume.as_bytes(), args.size.wanted())?;
    settle(&change, session)
}

/// Arguments of `ubi rename`.
#[derive(Debug, clap::Args)]
pub(super) struct RenameArgs {
    #[command(flatten)]
    flash: FlashTargetArgs,
    /// Old and new names in pairs; a volume whose name is taken goes
    #[arg(required = true, num_args = 2.., value_names = ["OLD", "NEW"])]
    names: Vec<OsString>,
}

/// Renames volumes.
pub(super) fn rename(args: &RenameArgs, session: &mut Session) -> Result<(), Failure> {
    let change = open(&args.flash)?;
    change.flash().refuse_volume()?;
    let (pairs, []) = args.names.as_chunks::<2>() else {
        return Err(Failure::usage("rename: expected pairs of an old and a new name"));
    };
    let pairs: Vec<_> = pairs.iter().map(|[old, new]| (old.as_bytes(), new.as_bytes())).collect();
    change.rename(&pairs)?;
    settle(&change, session)
}
