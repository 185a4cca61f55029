//! What a user points at: a file, perhaps with a volume in it, opened as what it is.

pub(crate) mod entry;
pub(crate) mod magic;
pub(crate) mod map;

use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock_vfs::FileSystem;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A path, and the volume named behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The file.
    pub path: PathBuf,
    /// The volume's name or number.
    pub volume: Option<Vec<u8>>,
}

impl Place {
    /// Splits `TARGET[:VOLUME]`. A path that exists wins over splitting at the last colon.
    pub(crate) fn parse(target: &OsStr) -> Result<Self, Failure> {
        let whole = Path::new(target);
        let nothing = || Failure::new(format!("{}: no such file", whole.display()));
        if whole.exists() {
            return Ok(Self { path: whole.to_owned(), volume: None });
        }
        let bytes = target.as_bytes();
        let colon = bytes.iter().rposition(|byte| *byte == b':').ok_or_else(nothing)?;
        let path = Path::new(OsStr::from_bytes(&bytes[..colon]));
        if !path.exists() {
            return Err(nothing());
        }
        Ok(Self { path: path.to_owned(), volume: Some(bytes[colon + 1..].to_vec()) })
    }
}

/// A file system, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    fs: Box<dyn FileSystem>,
}

impl Opened {
    /// The file system.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// Hands what it found over to the session.
    pub(crate) fn finish(self, _session: &mut Session) {}
}

/// Opens the file system the arguments point at.
pub(crate) fn open_file_system(
    args: &TargetArgs,
    _session: &mut Session,
) -> Result<Opened, Failure> {
    let place = Place::parse(&args.target)?;
    let file = File::open(&place.path).context(place.path.display())?;
    let mut start = vec![0; magic::LOOK];
    let len = file.read_at(&mut start, 0).context(place.path.display())?;
    start.truncate(len);
    Err(unknown(&place.path, &start))
}

/// Why a file is nothing we open.
fn unknown(path: &Path, start: &[u8]) -> Failure {
    match magic::recognise(start) {
        Some(known) => {
            Failure::new(format!("{}: this is {}", path.display(), known.name)).hint(known.hint)
        }
        None if start.is_empty() => Failure::new(format!("{}: the file is empty", path.display())),
        None => Failure::new(format!("{}: neither a UBI nor a UBIFS image", path.display())).hint(
            "--format with --peb and --page, or --leb, say what it is when headers are missing",
        ),
    }
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
}
