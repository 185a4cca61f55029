//! A device node of the host as a target: `/dev/mtdX`, `/dev/ubiX` and `/dev/ubiX_Y`.

use super::formats::{self, Lebs, Located};
use super::image::{self, BareUbifs, Image};
use super::{Place, Shape};
use crate::error::{Context, Error, Setting, Words};
use eraseblock_mtd::{Access, LebDevice};
use eraseblock_mtd_host::{
    BlockError, HostError, MtdChar, MtdOptions, NodeKind, UbiChar, ubi_volume_node,
};
use std::path::Path;
use std::sync::Arc;

/// Replaces a UBI device of the kernel by the node of its volume; every other place stays.
pub(super) fn resolve(place: Place) -> Result<Place, Error> {
    if NodeKind::of(&place.path).map_err(failure)? != Some(NodeKind::UbiDevice) {
        return Ok(place);
    }
    let path = ubi_volume_node(&place.path, place.volume.as_deref()).map_err(failure)?;
    Ok(Place { path, at: None, volume: None })
}

/// Opens a device node read-only; `None` if the path is none, or a block device, which is read
/// like a file.
pub(super) fn open(path: &Path, shape: &Shape) -> Result<Option<Image>, Error> {
    match NodeKind::of(path).map_err(failure)? {
        None | Some(NodeKind::Block) => Ok(None),
        Some(NodeKind::Mtd) => open_mtd(path, shape).map(Some),
        Some(NodeKind::UbiVolume) => open_volume(path).map(Some),
        Some(NodeKind::UbiDevice | NodeKind::OtherDevice) => {
            Err(Error::new(format!("{}: this device holds no file system", path.display()))
                .hint("/dev/mtdX, /dev/ubiX_Y and block devices do"))
        }
    }
}

fn open_mtd(path: &Path, shape: &Shape) -> Result<Image, Error> {
    let device = Arc::new(MtdChar::open(path, MtdOptions::default()).map_err(failure)?);
    image::attach(path, device, shape).context(path.display())
}

fn open_volume(path: &Path) -> Result<Image, Error> {
    let device = UbiChar::open(path, Access::Read).map_err(failure)?;
    if device.facts().update_unfinished {
        return Err(Error::new(format!("{}: an update was interrupted", path.display()))
            .hint("only a new update makes the volume usable"));
    }
    let file_size = u64::from(device.leb_count()) * u64::from(device.leb_size());
    let device = Arc::new(device);
    let bytes = Arc::new(Lebs::all(Arc::clone(&device)));
    if let Some((reader, _)) = formats::reader_at(bytes.as_ref(), 0).context(path.display())? {
        return image::open_read(path, &Located::new(reader, bytes)?, file_size).map(Image::Read);
    }
    Ok(Image::Ubifs(BareUbifs { path: path.to_owned(), file_size, start: 0, device }))
}

/// Such an error names its path, and may know the next step.
pub(super) fn failure(error: HostError) -> Error {
    let hint = match &error {
        HostError::Block { source: BlockError::NoSuperblock, .. } => {
            Some(Setting::MakeFlash + " creates one")
        }
        HostError::Block { source: BlockError::NotEmpty, .. } => {
            Some(Setting::Force + " overwrites it")
        }
        other => other.hint().map(Words::from),
    };
    let failure = Error::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_are_refused_and_files_are_none() {
        let shape = Shape::default();
        let failure = open(Path::new("/dev/null"), &shape).unwrap_err();
        assert_eq!(failure.message(), "/dev/null: this device holds no file system");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(open(file.path(), &shape).unwrap().is_none());
        let place = Place { path: file.path().to_owned(), at: None, volume: Some(b"a".to_vec()) };
        assert_eq!(resolve(place.clone()).unwrap(), place);
    }
}
