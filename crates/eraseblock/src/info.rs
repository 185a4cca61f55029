//! What an image is and what is in it, for people and as documents.

mod jffs2;
mod read;
mod ubi;
mod ubifs;
mod yaffs;

use crate::codes;
use crate::error::Result;
use crate::observe::Observer;
use crate::target::filesystem::{self, Opened};
use crate::target::image::{self, BareUbifs, Image, UbiImage};
use crate::target::{Place, peek};
use eraseblock_base::{Location, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::{UbiVolume, VolumeInfo};
use eraseblock_ubi_format::VolumeKind;
pub use jffs2::Jffs2Facts;
pub use read::ReadFacts;
use std::sync::Arc;
pub use ubi::{BlockUse, UbiInfo, VolumeFacts};
pub use ubifs::{BareUbifsFacts, UbifsFacts, UbifsState};
pub use yaffs::YaffsFacts;

/// An image of one of the kinds.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "format", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Info {
    /// A UBI device.
    Ubi(UbiInfo),
    /// A bare UBIFS volume.
    Ubifs(BareUbifsFacts),
    /// A JFFS2.
    Jffs2(Jffs2Facts),
    /// A YAFFS.
    Yaffs(YaffsFacts),
    /// A file system that is only read.
    #[cfg_attr(feature = "serde", serde(untagged))]
    Read(ReadFacts),
}

impl Info {
    /// Looks at everything in an image that was opened, or of a UBI device at the volume that `place`
    /// names. File systems are opened, and `observer` takes what that finds: one that cannot be
    /// opened is a finding. Fails if there is no such volume, or if the device fails.
    pub fn of(image: Image, place: &Place, observer: &mut dyn Observer) -> Result<Self> {
        if !matches!(image, Image::Ubi(_)) {
            place.refuse_volume()?;
        }
        Ok(match image {
            Image::Ubi(image) => Self::Ubi(of_ubi(&image, place.volume.as_deref(), observer)?),
            Image::Ubifs(image) => Self::Ubifs(of_ubifs(&image, observer)),
            Image::Jffs2(image) => {
                let facts = Jffs2Facts::of(&image);
                image.opened.finish(observer);
                Self::Jffs2(facts)
            }
            Image::Yaffs(image) => {
                let facts = YaffsFacts::of(&image);
                image.opened.finish(observer);
                Self::Yaffs(facts)
            }
            Image::Read(image) => {
                let facts = ReadFacts::of(&image);
                image.opened.finish(observer);
                Self::Read(facts)
            }
        })
    }
}

fn of_ubi(image: &UbiImage, only: Option<&[u8]>, observer: &mut dyn Observer) -> Result<UbiInfo> {
    image.report(observer)?;
    let mut info = UbiInfo::of(image)?;
    let only = only.map(|name| image.named_volume(name)).transpose()?;
    for volume in &image.attachment().volumes {
        if only.as_ref().is_none_or(|only| only.info().id == volume.id) {
            info.volumes.push(of_volume(image, volume, observer)?);
        }
    }
    Ok(info)
}

fn of_volume(
    image: &UbiImage,
    info: &VolumeInfo,
    observer: &mut dyn Observer,
) -> Result<VolumeFacts> {
    let volume = image.open(info)?;
    if info.kind == VolumeKind::Static {
        image::check_static(&volume, observer);
    }
    let content = peek::content(&volume);
    let mut facts = VolumeFacts::of(info, &content);
    if let peek::Content::Ubifs(superblock) = &content {
        let mut ubifs = UbifsFacts::of(superblock);
        if let Some(opened) = try_open_volume(volume, info.id, observer) {
            ubifs.add_state(&opened);
            opened.finish(observer);
        }
        facts.ubifs = Some(ubifs);
    } else if (content.is_jffs2() || content.is_read_only())
        && let Some(opened) = try_open_volume(volume, info.id, observer)
    {
        opened.finish(observer);
    }
    Ok(facts)
}

fn of_ubifs(image: &BareUbifs, observer: &mut dyn Observer) -> BareUbifsFacts {
    let mut bare = BareUbifsFacts::of(image);
    if let peek::Content::Ubifs(superblock) = peek::content(&*image.device) {
        bare.facts = Some(UbifsFacts::of(&superblock));
    }
    if let Some(opened) = try_open(Arc::clone(&image.device), observer) {
        if let Some(facts) = &mut bare.facts {
            facts.add_state(&opened);
        }
        opened.finish(observer);
    }
    bare
}

/// The file system in a volume; what is in the way becomes a finding.
fn try_open_volume(volume: UbiVolume, id: VolumeId, observer: &mut dyn Observer) -> Option<Opened> {
    let opened = filesystem::open_volume(volume, Some(id), None, observer);
    let mut refused = |message: &str| {
        observer.error(Location::Volume(id), codes::NOT_OPENED, message);
    };
    opened.map_err(|error| refused(error.message())).ok()
}

/// The file system in a bare volume; what is in the way becomes a finding.
fn try_open(device: Arc<dyn LebDevice>, observer: &mut dyn Observer) -> Option<Opened> {
    let opened = filesystem::open(device, None, observer);
    let mut refused = |message: &str| {
        observer.error(Location::Whole, codes::NOT_OPENED, message);
    };
    opened.map_err(|error| refused(error.message())).ok()
}
