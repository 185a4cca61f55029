//! What a user points at: a file, perhaps with a volume in it, opened as what it is.

pub(crate) mod bare;
mod cut_short;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod filesystem;
pub(crate) mod filter;
pub(crate) mod find;
pub(crate) mod flash;
pub(crate) mod held;
pub(crate) mod image;
pub(crate) mod jffs2_image;
pub(crate) mod lock;
pub(crate) mod magic;
pub(crate) mod map;
pub(crate) mod peek;
mod raw_dump;
pub(crate) mod span;
pub(crate) mod survey;
pub(crate) mod writable;

use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock_base::VolumeId;
use filesystem::Opened;
use image::Image;
use span::At;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path, and what in it is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
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
    pub(crate) fn parse(target: &OsStr) -> Result<Self, Failure> {
        let whole = Path::new(target);
        let nothing = || Failure::new(format!("{}: no such file", whole.display()));
        if whole.exists() {
            return device::resolve(Self { path: whole.to_owned(), at: None, volume: None });
        }
        let bytes = target.as_bytes();
        let parted = |sign: u8| {
            let places = (0..bytes.len()).rev().filter(move |at| bytes[*at] == sign);
            let split = |at| (Path::new(OsStr::from_bytes(&bytes[..at])), &bytes[at + 1..]);
            places.map(split).find(|(path, _)| path.exists())
        };
        if let Some((path, volume)) = parted(b':') {
            let volume = Some(volume.to_vec());
            return device::resolve(Self { path: path.to_owned(), at: None, volume });
        }
        let (path, rest) = parted(b'@').ok_or_else(nothing)?;
        let mut rest = rest.splitn(2, |byte| *byte == b':');
        let offset = rest.next().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("?");
        let at = Some(At::parse(offset)?);
        Ok(Self { path: path.to_owned(), at, volume: rest.next().map(<[u8]>::to_vec) })
    }

    /// The target as the user may write it again.
    pub(crate) fn target(&self) -> OsString {
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
    pub(crate) fn refuse_part(&self) -> Result<(), Failure> {
        match &self.at {
            None => Ok(()),
            Some(at) => Err(Failure::usage(format!("{at}: this command takes the whole file"))),
        }
    }

    /// Refuses a volume behind something that has none.
    pub(crate) fn refuse_volume(&self) -> Result<(), Failure> {
        match &self.volume {
            None => Ok(()),
            Some(volume) => {
                let (path, volume) = (self.path.display(), crate::text::name(volume));
                Err(Failure::new(format!("{path}: there are no volumes in it, so no `{volume}`")))
            }
        }
    }
}

/// Opens the file system the arguments point at.
pub(crate) fn open_file_system(
    args: &TargetArgs,
    session: &mut Session,
) -> Result<Opened, Failure> {
    open_volume(args, session).map(|(opened, _)| opened)
}

/// The same, and the number of the UBI volume that it is in, if it is in one.
pub(crate) fn open_volume(
    args: &TargetArgs,
    session: &mut Session,
) -> Result<(Opened, Option<VolumeId>), Failure> {
    let place = Place::parse(&args.target)?;
    session.keep_still(&place.path)?;
    match image::open(&place, &args.shape, session)? {
        Image::Ubifs(image) => {
            place.refuse_volume()?;
            filesystem::open(image.device, None, session).map(|opened| (opened, None))
        }
        Image::Jffs2(image) => {
            place.refuse_volume()?;
            Ok((image.opened, None))
        }
        Image::Ubi(image) => {
            image.report(session)?;
            let volume = image.file_system_volume(place.volume.as_deref())?;
            let id = volume.info().id;
            filesystem::open_volume(volume, None, session).map(|opened| (opened, Some(id)))
        }
    }
    .context(place.path.display())
}

/// Writes the raw content of the volume that is named, or of the only one, to standard output.
pub(crate) fn write_raw(args: &TargetArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target)?;
    session.keep_still(&place.path)?;
    let Image::Ubi(image) = image::open(&place, &args.shape, session)? else {
        return Err(Failure::usage(format!("{}: which file?", place.path.display()))
            .hint("there are no volumes in it; name a path"));
    };
    image.report(session)?;
    let volume = match (&place.volume, image.attachment().volumes.as_slice()) {
        (Some(name), _) => image.named_volume(name)?,
        (None, [only]) => image.open(only)?,
        (None, _) => return Err(image.choose("which volume?")),
    };
    image::check_static(&volume, session);
    io::copy(&mut volume.mapped_reader(), &mut session.out)?;
    Ok(())
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
