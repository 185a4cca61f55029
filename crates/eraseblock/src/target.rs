//! Opens the targets that users name: a file, or a volume in it. The command uses these parts;
//! [`crate::Image`] and [`crate::Edit`] are the simple interface to them.

#[cfg(feature = "edit")]
mod bare;
mod cut_short;
#[cfg(feature = "host")]
mod device;
#[cfg(feature = "edit")]
pub mod driver;
mod file_bytes;
mod file_names;
pub mod filesystem;
#[cfg(feature = "edit")]
pub mod flash;
pub mod formats;
pub mod image;
#[cfg(feature = "edit")]
mod jffs2_image;
pub mod lock;
pub mod magic;
#[cfg(feature = "history")]
mod old_blocks;
#[cfg(feature = "history")]
pub mod past;
pub mod peek;
mod raw_dump;
#[cfg(feature = "repair")]
pub mod repair;
pub mod span;
#[cfg(feature = "census")]
pub mod structures;
pub mod survey;
#[cfg(feature = "edit")]
pub mod volumes;
mod wanted;
#[cfg(feature = "edit")]
pub mod writable;
pub mod yaffs;
#[cfg(feature = "edit")]
mod yaffs_writable;

#[cfg(all(feature = "edit", feature = "extract"))]
pub use crate::check::check_place;
use crate::error::{Context, Error};
use crate::observe::Observer;
use eraseblock_base::VolumeId;
pub use file_names::file_name;
use filesystem::Opened;
use image::Image;
use span::At;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
pub use wanted::{AsOf, FlashOptions, Format, Shape, Sizes, Wanted};

/// A path, and what in it is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file or device node.
    pub path: PathBuf,
    /// Which part of the file, if one was named.
    pub at: Option<At>,
    /// The volume's name or number.
    pub volume: Option<Vec<u8>>,
}

impl Place {
    /// Splits `FILE[@OFFSET[+LENGTH]][:VOLUME]`. A path that exists wins over splitting, at a colon
    /// and then at an `@`. A volume of a UBI device of the kernel becomes the node of that volume.
    /// Fails if an offset or length is no number.
    pub fn parse(target: &OsStr) -> Result<Self, Error> {
        let whole = Path::new(target);
        let nothing = || Error::new(format!("{}: no such file", whole.display()));
        if whole.exists() {
            return resolve(Self { path: whole.to_owned(), at: None, volume: None });
        }
        let bytes = target.as_bytes();
        let parted = |sign: u8| {
            let places = (0..bytes.len()).rev().filter(move |at| bytes[*at] == sign);
            let split = |at| (Path::new(OsStr::from_bytes(&bytes[..at])), &bytes[at + 1..]);
            places.map(split).find(|(path, _)| path.exists())
        };
        if let Some((path, volume)) = parted(b':') {
            let volume = Some(volume.to_vec());
            return resolve(Self { path: path.to_owned(), at: None, volume });
        }
        let (path, rest) = parted(b'@').ok_or_else(nothing)?;
        let mut rest = rest.splitn(2, |byte| *byte == b':');
        let offset = rest.next().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("?");
        let at = Some(At::parse(offset)?);
        Ok(Self { path: path.to_owned(), at, volume: rest.next().map(<[u8]>::to_vec) })
    }

    /// The target as the user may write it again.
    pub fn target(&self) -> OsString {
        let mut target = self.path.clone().into_os_string();
        if let Some(at) = self.at {
            target.push(at.to_string());
        }
        if let Some(volume) = &self.volume {
            target.push(":");
            target.push(OsStr::from_bytes(volume));
        }
        target
    }

    /// Refuses a part of a file where only a whole one will do.
    pub fn refuse_part(&self) -> Result<(), Error> {
        match &self.at {
            None => Ok(()),
            Some(at) => Err(Error::usage(format!("{at}: this command takes the whole file"))),
        }
    }

    /// Refuses a volume of something that has none.
    pub fn refuse_volume(&self) -> Result<(), Error> {
        match &self.volume {
            None => Ok(()),
            Some(volume) => {
                let (path, volume) = (self.path.display(), crate::text::name(volume));
                Err(Error::new(format!("{path}: there are no volumes in it, so no `{volume}`")))
            }
        }
    }
}

/// Replaces a UBI device of the kernel by the node of its volume; every other place stays.
#[cfg_attr(not(feature = "host"), allow(clippy::unnecessary_wraps))]
pub(crate) fn resolve(place: Place) -> Result<Place, Error> {
    #[cfg(feature = "host")]
    let place = device::resolve(place)?;
    Ok(place)
}

/// Opens the file system the arguments point at. Fails if there is none that can be read, or
/// several.
pub fn open_file_system(args: &Wanted, observer: &mut dyn Observer) -> Result<Opened, Error> {
    open_volume(args, observer).map(|(opened, _)| opened)
}

/// The same, and the number of the UBI volume that it is in, if it is in one. Fails like
/// [`open_file_system`].
pub fn open_volume(
    args: &Wanted,
    observer: &mut dyn Observer,
) -> Result<(Opened, Option<VolumeId>), Error> {
    open_place(&Place::parse(&args.target)?, &args.shape, observer)
}

/// The same for a target that is taken apart already. Fails like [`open_file_system`].
pub(crate) fn open_place(
    place: &Place,
    shape: &Shape,
    observer: &mut dyn Observer,
) -> Result<(Opened, Option<VolumeId>), Error> {
    observer.keep_still(&place.path)?;
    open_image(image::open(place, shape, observer)?, place, shape.as_of, observer)
        .context(place.path.display())
}

fn open_image(
    image: Image,
    place: &Place,
    as_of: Option<AsOf>,
    observer: &mut dyn Observer,
) -> Result<(Opened, Option<VolumeId>), Error> {
    let opened = match image {
        Image::Ubi(image) => {
            image.report(observer)?;
            let volume = image.file_system_volume(place.volume.as_deref())?;
            let id = volume.info().id;
            let opened = filesystem::open_volume(volume, None, as_of, observer)?;
            return Ok((opened, Some(id)));
        }
        Image::Ubifs(image) => match as_of {
            Some(as_of) => filesystem::open_past(image.device, None, as_of)?,
            None => filesystem::open(image.device, None, observer)?,
        },
        Image::Jffs2(image) => image.opened,
        Image::Yaffs(image) => image.opened,
        Image::Read(image) => image.opened,
    };
    place.refuse_volume()?;
    if !matches!(opened.kind(), filesystem::Kind::Ubifs(_)) {
        filesystem::refuse_past(as_of)?;
    }
    Ok((opened, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_exists_wins_over_a_colon() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("a");
        let colon = folder.path().join("a:b");
        std::fs::write(&plain, "").unwrap();
        let place = Place::parse(colon.as_os_str()).unwrap();
        assert_eq!((place.path, place.volume), (plain, Some(b"b".to_vec())));
        std::fs::write(&colon, "").unwrap();
        assert_eq!(Place::parse(colon.as_os_str()).unwrap().volume, None);
        assert!(Place::parse(folder.path().join("x:y").as_os_str()).is_err());
    }

    #[test]
    fn parts_of_a_file_are_named_by_offsets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "").unwrap();
        let parse = |rest: &str| Place::parse(folder.path().join(rest).as_os_str());
        for (rest, offset, length, volume) in [
            ("a@0", 0, None, None),
            ("a@0x10:b@1:c", 16, None, Some("b@1:c")),
            ("a@4KiB+1MiB", 4096, Some(1 << 20), None),
            ("a@74565:", 74_565, None, Some("")),
        ] {
            let place = parse(rest).unwrap();
            assert_eq!((&place.path, place.at), (&path, Some(At { offset, length })), "{rest}");
            assert_eq!(place.volume.as_deref(), volume.map(str::as_bytes), "{rest}");
            assert_eq!(Place::parse(&place.target()).unwrap(), place);
        }
        assert!(parse("a@x").unwrap_err().message().contains("@x"));
        assert!(parse("b@0").is_err());
        let volume = parse("a:b@0").unwrap();
        assert_eq!((volume.at, volume.volume), (None, Some(b"b@0".to_vec())));
        std::fs::write(folder.path().join("a@0"), "").unwrap();
        assert_eq!(parse("a@0").unwrap().at, None);
        assert_eq!(parse("a@0:b").unwrap().volume, Some(b"b".to_vec()));
    }
}
