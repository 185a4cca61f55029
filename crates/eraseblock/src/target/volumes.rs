//! A UBI device that is changed as a whole: formatted, or its volumes made, removed, resized, renamed
//! and filled.

use super::FlashOptions;
use super::flash::{self, Flash};
use super::peek;
use crate::error::{Context, Error, Result, Setting};
use crate::text;
use eraseblock_base::VolumeId;
use eraseblock_mtd::Access;
use eraseblock_ubi::{
    AttachOptions, FormatOptions, FormatReport, NewVolume, UbiDevice, UbiError, VolumeInfo, attach,
    format,
};
use eraseblock_ubi_format::{EraseCount, VolumeFlags, VolumeKind, VolumeName};
use std::io::Read;

/// The size of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeSize {
    /// Bytes, rounded up to whole LEBs.
    Bytes(u64),
    /// LEBs.
    Lebs(u32),
    /// Everything that is available.
    Available,
}

impl VolumeSize {
    /// In LEBs of `leb_size` usable bytes, of which `available` are available.
    fn lebs(self, leb_size: u32, available: u32) -> Result<u32> {
        match self {
            Self::Bytes(size) => {
                u32::try_from(size.div_ceil(u64::from(leb_size.max(1)))).map_err(|_| {
                    Error::usage(Setting::VolumeSize.to(size) + ": larger than any volume")
                })
            }
            Self::Lebs(lebs) => Ok(lebs),
            Self::Available => Ok(available),
        }
    }
}

/// A volume that is going to be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VolumeOptions {
    /// Its name.
    pub name: Vec<u8>,
    /// Its size.
    pub size: VolumeSize,
    /// What it is for.
    pub kind: VolumeKind,
    /// Its number; the lowest free one if not given.
    pub id: Option<u32>,
    /// The usable LEB size is a multiple of this.
    pub alignment: u32,
    /// The checksum of a static volume is not checked when it is opened.
    pub skip_check: bool,
}

impl VolumeOptions {
    /// Describes a dynamic volume of this name and size.
    pub fn new(name: impl Into<Vec<u8>>, size: VolumeSize) -> Self {
        let (name, kind) = (name.into(), VolumeKind::Dynamic);
        Self { name, size, kind, id: None, alignment: 1, skip_check: false }
    }

    /// Sets [`Self::kind`].
    #[must_use]
    pub fn kind(mut self, kind: VolumeKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets [`Self::id`].
    #[must_use]
    pub fn id(mut self, id: Option<u32>) -> Self {
        self.id = id;
        self
    }

    /// Sets [`Self::alignment`].
    #[must_use]
    pub fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = alignment;
        self
    }

    /// Sets [`Self::skip_check`].
    #[must_use]
    pub fn skip_check(mut self, skip_check: bool) -> Self {
        self.skip_check = skip_check;
        self
    }
}

/// How a flash is formatted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UbiOptions {
    /// Number of the new image; one more than that of the image before if not given.
    pub image_seq: Option<u32>,
    /// Erase counter for all blocks, instead of their own.
    pub erase_counter: Option<u32>,
    /// A flash is made of a block device or a plain file before.
    pub make_flash: bool,
}

impl UbiOptions {
    /// Sets [`Self::image_seq`].
    #[must_use]
    pub fn image_seq(mut self, number: Option<u32>) -> Self {
        self.image_seq = number;
        self
    }

    /// Sets [`Self::erase_counter`].
    #[must_use]
    pub fn erase_counter(mut self, count: Option<u32>) -> Self {
        self.erase_counter = count;
        self
    }

    /// Sets [`Self::make_flash`].
    #[must_use]
    pub fn make_flash(mut self, make_flash: bool) -> Self {
        self.make_flash = make_flash;
        self
    }

    fn erase_count(&self) -> Result<Option<EraseCount>> {
        let Some(count) = self.erase_counter else { return Ok(None) };
        let valid = EraseCount::new(u64::from(count));
        let refused = || Setting::EraseCounter.to(count) + ": expected below 2^31";
        valid.map(Some).ok_or_else(|| Error::usage(refused()))
    }
}

/// Erases a flash and makes it an empty UBI device; erase counters are kept. Fails if it is no flash,
/// unless one is made, if sizes are impossible or contradict the headers, or if the flash does.
pub fn format_flash(
    target: &FlashOptions,
    how: &UbiOptions,
    on_trouble: fn(&str),
) -> Result<FormatReport> {
    // What is on it goes: it says nothing about the size either.
    let target = FlashOptions { as_it_is: true, ..target.clone() };
    let mut flash =
        if how.make_flash { make(&target) } else { Flash::open(&target, Access::Write) }?;
    flash.on_trouble = on_trouble;
    flash.refuse_volume()?;
    let layout = flash.layout_or_usual(&target.sizes)?;
    let path = flash.path.display();
    if target.fastmap {
        flash.check_fastmap(&layout)?;
    }
    let image_seq = match (how.image_seq, flash.layout) {
        (Some(number), _) => number,
        (None, Some(layout)) => {
            let old = attach(flash.device.as_ref(), &layout, &AttachOptions::default());
            old.context(&path)?.image_seq.wrapping_add(1)
        }
        (None, None) => 1,
    };
    let (erase_count, fastmap) = (how.erase_count()?, target.fastmap);
    let options = FormatOptions { image_seq, erase_count, fastmap };
    let report = format(&flash.device, &layout, &options).context(&path)?;
    flash.device.sync().context(&path)?;
    flash.keep();
    Ok(report)
}

#[cfg(feature = "host")]
fn make(target: &FlashOptions) -> Result<Flash> {
    Flash::make(target)
}

#[cfg(not(feature = "host"))]
fn make(_: &FlashOptions) -> Result<Flash> {
    Err(Error::new("the feature `host` makes a flash of a disk"))
}

/// A UBI device whose volumes are changed. What was changed is kept when [`VolumeChange::finish`]
/// returns; dropped before, an image file is as it was.
#[derive(Debug)]
pub struct VolumeChange {
    flash: Flash,
    ubi: UbiDevice,
    options: FlashOptions,
}

impl VolumeChange {
    /// Attaches the UBI that `options` point at. `on_trouble` takes a message for people when putting
    /// an image file right fails at the end. Fails if there is no UBI, if Linux would refuse it, or
    /// if it cannot be written to.
    pub fn begin(options: FlashOptions, on_trouble: fn(&str)) -> Result<Self> {
        let mut flash = Flash::open(&options, Access::Write)?;
        flash.on_trouble = on_trouble;
        // A fastmap says that free blocks have their headers.
        flash.cut_at_end &= !options.fastmap;
        let ubi = flash.ubi(&options, Access::Write)?;
        Ok(Self { flash, ubi, options })
    }

    /// Returns the flash.
    pub fn flash(&self) -> &Flash {
        &self.flash
    }

    /// Returns the attached device.
    pub fn ubi(&self) -> &UbiDevice {
        &self.ubi
    }

    /// Makes a volume. Fails if the name is in use or none, or if there is too little space.
    pub fn create(&self, volume: &VolumeOptions) -> Result<()> {
        let leb_size = self.flash.layout.map_or(0, |layout| layout.leb_size());
        let usable = leb_size - leb_size % volume.alignment.max(1);
        let skip_check = VolumeFlags::SKIP_CHECK;
        let volume = NewVolume {
            id: volume.id.map(VolumeId::new),
            name: name(&volume.name)?,
            kind: volume.kind,
            lebs: volume.size.lebs(usable, self.ubi.available_lebs())?,
            alignment: volume.alignment,
            flags: if volume.skip_check { skip_check } else { VolumeFlags::default() },
        };
        self.ubi.create_volume(&volume).map(|_| ()).map_err(|error| self.no_room(error))
    }

    /// Removes the volume of this name or number. Fails if there is none.
    pub fn remove(&self, volume: &[u8]) -> Result<()> {
        self.ubi.remove_volume(self.find(volume)?.id).context(self.flash.path.display())
    }

    /// Changes the size of the volume of this name or number. Fails if there is none, if there is too
    /// little space, or, unless forced, if the volume holds more than the new size.
    pub fn resize(&self, volume: &[u8], size: VolumeSize) -> Result<()> {
        let info = self.find(volume)?;
        let all = info.reserved_lebs + self.ubi.available_lebs();
        let lebs = size.lebs(info.usable_leb_size, all)?;
        if !self.options.force {
            self.keeps_content(&info, lebs).context(self.flash.path.display())?;
        }
        self.ubi.resize_volume(info.id, lebs).map_err(|error| self.no_room(error))
    }

    /// Gives volumes, named or numbered first in each pair, new names, all at once. A volume whose
    /// name is taken goes. Fails if there is no such volume, or if a name is none.
    pub fn rename(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let pair = |(old, new): &(&[u8], &[u8])| Ok((self.find(old)?.id, name(new)?));
        let renames = pairs.iter().map(pair).collect::<Result<Vec<_>>>()?;
        self.ubi.rename_volumes(&renames).context(self.flash.path.display())
    }

    /// Returns the volume that was named after the target. Fails if none was named, or if there is
    /// no such volume.
    pub fn named_volume(&self) -> Result<VolumeInfo> {
        self.flash.named_volume(&self.ubi)
    }

    /// Replaces the content of a volume by the `len` bytes of `content`. Fails if they do not fit, if
    /// `content` ends before, or if the flash does.
    pub fn update(&self, volume: &VolumeInfo, len: u64, content: &mut dyn Read) -> Result<()> {
        let room = u64::from(volume.reserved_lebs) * u64::from(volume.usable_leb_size);
        if len > room {
            let path = self.flash.path.display();
            let message = format!("{path}: {len} bytes do not fit the volume, which has {room}");
            return Err(Error::new(message).hint("`eraseblock ubi rsvol` makes it larger"));
        }
        self.ubi.update_volume(volume.id, len, content).context(self.flash.path.display())
    }

    /// Does the background work after the changes, makes them durable and keeps them. Fails if the
    /// flash does.
    pub fn finish(&self) -> Result<()> {
        let path = self.flash.path.display();
        self.ubi.flush().context(&path)?;
        if self.options.fastmap {
            self.ubi.detach().context(&path)?;
        }
        self.ubi.sync().context(&path)?;
        self.flash.keep();
        Ok(())
    }

    fn find(&self, volume: &[u8]) -> Result<VolumeInfo> {
        flash::find(&self.ubi, volume).context(self.flash.path.display())
    }

    /// An error with the next step, if there are too few LEBs.
    fn no_room(&self, error: UbiError) -> Error {
        let is_full = matches!(error, UbiError::NoSpace { .. });
        let error = Error::from(error).context(self.flash.path.display());
        if !is_full {
            return error;
        }
        let volumes = self.ubi.volumes();
        let largest = volumes.iter().max_by_key(|volume| volume.reserved_lebs);
        let error = match largest {
            Some(volume) => {
                let name = text::name(volume.name.as_bytes());
                let lebs = text::count(u64::from(volume.reserved_lebs), "LEB", "LEBs");
                error.hint(format!(
                    "`{name}` has {lebs} (with the flag autoresize a volume takes all free LEBs at \
                     the first attach); `eraseblock ubi rsvol` makes it smaller"
                ))
            }
            None => error,
        };
        match self.flash.size_hint(&self.options) {
            Some(hint) => error.also(hint),
            None => error,
        }
    }

    /// Refuses a size below what is in the volume.
    fn keeps_content(&self, info: &VolumeInfo, lebs: u32) -> Result<()> {
        if lebs >= info.reserved_lebs {
            return Ok(());
        }
        let content = peek::content(&self.ubi.volume(info.id)?);
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
        let (holds, new) = (size(needed), size(lebs));
        let message = format!("volume `{name}` holds {what} of {holds}; the new size is {new}");
        let forced = " shrinks the volume all the same, and what lies after its new end is lost";
        Err(Error::new(message).hint(Setting::Force + forced))
    }
}

fn name(name: &[u8]) -> Result<VolumeName> {
    VolumeName::new(name).ok_or_else(|| {
        let shown = String::from_utf8_lossy(name);
        Error::usage(format!("`{shown}`: no name for a volume"))
            .hint("1 to 127 bytes, none of them NUL")
    })
}
