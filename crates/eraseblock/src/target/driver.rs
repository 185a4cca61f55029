//! The flash that is not an image: nodes of this machine and simulated chips. Builds of the crate
//! without their drivers find none of them here.

// Without a driver, a function only has the signature of the one with it.
#![allow(clippy::unnecessary_wraps)]

use crate::Result;
use eraseblock_mtd::{Access, LebDevice, Mtd};
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "chips")]
pub use eraseblock_nandsim::Chip;

/// A simulated chip; this build has none.
#[cfg(not(feature = "chips"))]
#[derive(Debug)]
pub enum Chip {}

/// What is meant by a path that is no image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// `/dev/mtdX`.
    Mtd,
    /// `/dev/ubiX_Y`.
    UbiVolume,
    /// Another device, but no block device.
    Other,
}

/// Returns what kind of device node a path is; `None` for files and block devices.
#[cfg(feature = "host")]
pub(super) fn node(path: &Path) -> Result<Option<Node>> {
    use eraseblock_mtd_host::NodeKind;
    Ok(match NodeKind::of(path).map_err(super::device::failure)? {
        None | Some(NodeKind::Block) => None,
        Some(NodeKind::Mtd) => Some(Node::Mtd),
        Some(NodeKind::UbiVolume) => Some(Node::UbiVolume),
        Some(NodeKind::UbiDevice | NodeKind::OtherDevice) => Some(Node::Other),
    })
}

/// Returns what kind of device node a path is; `None` for files and block devices.
#[cfg(not(feature = "host"))]
pub(super) fn node(path: &Path) -> Result<Option<Node>> {
    use std::os::unix::fs::FileTypeExt;
    Ok(path.metadata()?.file_type().is_char_device().then_some(Node::Other))
}

/// A flash that one of the drivers opened.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) device: Arc<dyn Mtd>,
    pub(super) chip: Option<Arc<Chip>>,
    /// Number of corrected bits from which a block must be renewed.
    pub(super) threshold: u16,
}

/// Opens `/dev/mtdX`.
#[cfg(feature = "host")]
pub(super) fn mtd(path: &Path, access: Access) -> Result<Driven> {
    use eraseblock_mtd_host::{MtdChar, MtdOptions};
    let options = MtdOptions { writable: access.is_write(), ..MtdOptions::default() };
    let node = MtdChar::open(path, options).map_err(super::device::failure)?;
    let threshold = u16::try_from(node.facts().bitflip_threshold).unwrap_or(1);
    Ok(Driven { device: Arc::new(node), chip: None, threshold })
}

/// Opens `/dev/mtdX`.
#[cfg(not(feature = "host"))]
pub(super) fn mtd(path: &Path, _: Access) -> Result<Driven> {
    Err(crate::Error::new(format!("{}: only the feature `host` opens devices", path.display())))
}

/// Opens `/dev/ubiX_Y` for writing.
#[cfg(feature = "host")]
pub(super) fn ubi_volume(path: &Path) -> Result<Arc<dyn LebDevice>> {
    use eraseblock_mtd_host::UbiChar;
    Ok(Arc::new(UbiChar::open(path, Access::Write).map_err(super::device::failure)?))
}

/// Opens `/dev/ubiX_Y` for writing.
#[cfg(not(feature = "host"))]
pub(super) fn ubi_volume(path: &Path) -> Result<Arc<dyn LebDevice>> {
    Err(crate::Error::new(format!("{}: only the feature `host` opens devices", path.display())))
}

/// Opens the flash that a disk was made, if it begins like one.
#[cfg(feature = "host")]
pub(super) fn disk(path: &Path, access: Access) -> Result<Option<Driven>> {
    use eraseblock_mtd_host::{BlockDevice, is_block_flash};
    if !is_block_flash(&first_bytes(path)?) {
        return Ok(None);
    }
    let device = BlockDevice::open(path, access).map_err(super::device::failure)?;
    Ok(Some(Driven { device: Arc::new(device), chip: None, threshold: 1 }))
}

/// Opens the flash that a disk was made, if it begins like one.
#[cfg(not(feature = "host"))]
pub(super) fn disk(_: &Path, _: Access) -> Result<Option<Driven>> {
    Ok(None)
}

/// Returns whether the file holds a simulated chip. Fails if the file cannot be read.
#[cfg(feature = "chips")]
pub fn is_chip(path: &Path) -> Result<bool> {
    Ok(eraseblock_nandsim::is_chip_file(&first_bytes(path)?))
}

/// Returns whether the file holds a simulated chip. Fails if the file cannot be read.
#[cfg(not(feature = "chips"))]
pub fn is_chip(_: &Path) -> Result<bool> {
    Ok(false)
}

/// Opens the simulated chip in a file. Fails if it is none, or if it is damaged.
#[cfg(feature = "chips")]
pub fn open_chip(path: &Path, access: Access) -> Result<Chip> {
    use eraseblock_nandsim::ChipFileError;
    let opened = match access {
        Access::Write => Chip::open(path),
        Access::Read => Chip::open_read_only(path),
    };
    opened.map_err(|error| match error {
        ChipFileError::InUse { .. } => super::lock::in_use(path),
        error => crate::Error::from(error).context(path.display()),
    })
}

/// Opens a simulated chip as a flash, if the file holds one.
#[cfg(feature = "chips")]
pub(super) fn chip(path: &Path, access: Access) -> Result<Option<Driven>> {
    if !is_chip(path)? {
        return Ok(None);
    }
    let chip = Arc::new(open_chip(path, access)?);
    let threshold = (chip.config().ecc_bits() * 3).div_ceil(4);
    Ok(Some(Driven { device: chip.clone(), chip: Some(chip), threshold }))
}

/// Opens a simulated chip as a flash, if the file holds one.
#[cfg(not(feature = "chips"))]
pub(super) fn chip(_: &Path, _: Access) -> Result<Option<Driven>> {
    Ok(None)
}

/// Opens a copy in memory of the simulated chip in a file, if it holds one.
#[cfg(feature = "chips")]
pub(super) fn chip_in_memory(path: &Path) -> Result<Option<Driven>> {
    if !is_chip(path)? {
        return Ok(None);
    }
    let chip = Arc::new(Chip::load(path)?);
    Ok(Some(Driven { device: chip.clone(), chip: Some(chip), threshold: 1 }))
}

/// Opens a copy in memory of the simulated chip in a file, if it holds one.
#[cfg(not(feature = "chips"))]
pub(super) fn chip_in_memory(_: &Path) -> Result<Option<Driven>> {
    Ok(None)
}

/// What a file begins with.
#[cfg(any(feature = "chips", feature = "host"))]
fn first_bytes(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(16).read_to_end(&mut start)?;
    Ok(start)
}
