//! `eraseblock ubi mkvol`, `rmvol`, `rsvol` and `rename`: the volume table changes.

use super::{open, settle};
use crate::args::{FlashTargetArgs, size32, size64};
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::ValueEnum;
use eraseblock::raw::base::VolumeId;
use eraseblock::raw::ubi::{NewVolume, UbiDevice, UbiError, VolumeInfo};
use eraseblock::raw::ubi_format::{VolumeFlags, VolumeKind, VolumeName};
use eraseblock::target::flash::{self, Flash};
use eraseblock::target::peek;
use eraseblock::text;
use std::ffi::{OsStr, OsString};
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
    /// In LEBs of `leb_size` usable bytes, where `all` would be this many.
    fn lebs(&self, leb_size: u32, all: u32) -> Result<u32, Failure> {
        match (self.bytes, self.lebs) {
            (Some(size), _) => u32::try_from(size.div_ceil(u64::from(leb_size.max(1))))
                .map_err(|_| Failure::usage(format!("--size {size}: larger than any volume"))),
            (None, Some(lebs)) => Ok(lebs),
            (None, None) => Ok(all),
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
    let (flash, ubi) = open(&args.flash)?;
    flash.refuse_volume()?;
    let leb_size = flash.layout.map_or(0, |layout| layout.leb_size());
    let usable = leb_size - leb_size % args.alignment.max(1);
    let volume = NewVolume {
        id: args.id.map(VolumeId::new),
        name: name(&args.name)?,
        kind: match args.kind {
            Kind::Dynamic => VolumeKind::Dynamic,
            Kind::Static => VolumeKind::Static,
        },
        lebs: args.size.lebs(usable, ubi.available_lebs())?,
        alignment: args.alignment,
        flags: if args.skip_check { VolumeFlags::SKIP_CHECK } else { VolumeFlags::default() },
    };
    ubi.create_volume(&volume).map_err(|error| no_room(&flash, &ubi, error, &args.flash))?;
    settle(&args.flash, &flash, &ubi, session)
}

/// An error with the next step, if there are too few LEBs.
fn no_room(flash: &Flash, ubi: &UbiDevice, error: UbiError, args: &FlashTargetArgs) -> Failure {
    let is_full = matches!(error, UbiError::NoSpace { .. });
    let failure = Failure::from(error).context(flash.path.display());
    if !is_full {
        return failure;
    }
    let volumes = ubi.volumes();
    let largest = volumes.iter().max_by_key(|volume| volume.reserved_lebs);
    let failure = match largest {
        Some(volume) => {
            let name = text::name(volume.name.as_bytes());
            let lebs = text::count(u64::from(volume.reserved_lebs), "LEB", "LEBs");
            failure.hint(format!(
                "`{name}` has {lebs} (with the flag autoresize a volume takes all free LEBs at the \
                 first attach); `eraseblock ubi rsvol` makes it smaller"
            ))
        }
        None => failure,
    };
    match flash.size_hint(&args.options()) {
        Some(hint) => failure.also(hint),
        None => failure,
    }
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
    let (flash, ubi) = open(&args.flash)?;
    flash.refuse_volume()?;
    for volume in &args.volume {
        let id = find(&flash, &ubi, volume)?;
        ubi.remove_volume(id).context(flash.path.display())?;
    }
    settle(&args.flash, &flash, &ubi, session)
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
    let (flash, ubi) = open(&args.flash)?;
    flash.refuse_volume()?;
    let path = flash.path.display();
    let info = flash::find(&ubi, args.volume.as_bytes()).context(&path)?;
    let all = info.reserved_lebs + ubi.available_lebs();
    let lebs = args.size.lebs(info.usable_leb_size, all)?;
    if !args.flash.force {
        keeps_content(&ubi, &info, lebs).context(&path)?;
    }
    ubi.resize_volume(info.id, lebs).map_err(|error| no_room(&flash, &ubi, error, &args.flash))?;
    settle(&args.flash, &flash, &ubi, session)
}

/// Refuses a size below what is in the volume.
fn keeps_content(ubi: &UbiDevice, info: &VolumeInfo, lebs: u32) -> Result<(), Failure> {
    if lebs >= info.reserved_lebs {
        return Ok(());
    }
    let content = peek::content(&ubi.volume(info.id)?);
    let (what, needed) = match &content {
        peek::Content::Ubifs(sb) => ("a UBIFS", sb.leb_cnt),
        _ if info.kind == VolumeKind::Static => ("data", info.used_lebs),
        _ => ("data", info.highest_leb.map_or(0, |highest| highest + 1)),
    };
    if needed <= lebs {
        return Ok(());
    }
    let size = |lebs: u32| {
        let count = text::count(u64::from(lebs), "LEB", "LEBs");
        format!("{count}, {}", text::size(u64::from(lebs) * u64::from(info.usable_leb_size)))
    };
    let name = text::name(info.name.as_bytes());
    Err(Failure::new(format!(
        "volume `{name}` holds {what} of {}; the new size is {}",
        size(needed),
        size(lebs)
    ))
    .hint("--force shrinks the volume all the same, and what lies after its new end is lost"))
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
    let (flash, ubi) = open(&args.flash)?;
    flash.refuse_volume()?;
    let mut renames = Vec::new();
    for pair in args.names.chunks(2) {
        let [old, new] = pair else {
            return Err(Failure::usage("rename: expected pairs of an old and a new name"));
        };
        renames.push((find(&flash, &ubi, old)?, name(new)?));
    }
    ubi.rename_volumes(&renames).context(flash.path.display())?;
    settle(&args.flash, &flash, &ubi, session)
}

fn find(flash: &Flash, ubi: &UbiDevice, volume: &OsStr) -> Result<VolumeId, Failure> {
    let found = flash::find(ubi, volume.as_bytes());
    Ok(found.context(flash.path.display())?.id)
}

fn name(name: &OsStr) -> Result<VolumeName, Failure> {
    VolumeName::new(name.as_bytes()).ok_or_else(|| {
        Failure::usage(format!("`{}`: no name for a volume", name.display()))
            .hint("1 to 127 bytes, none of them NUL")
    })
}
