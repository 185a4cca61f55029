//! Creates the file system when an empty volume is first mounted (layer 2; spec: ubifs-runtime 5.1
//! step 2).

use super::MountOptions;
use crate::error::UbifsError;
use crate::mkfs::{self, Compressor, DeviceSink, MkfsError, MkfsOptions, NoProgress};
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::SourceTree;
use eraseblock_vfs::source::{SourceKind, SourceNode};
use std::collections::BTreeMap;

/// Returns whether nothing is mapped.
pub(super) fn is_empty(device: &dyn LebDevice) -> Result<bool, UbifsError> {
    for leb in 0..device.leb_count() {
        if device.is_mapped(Leb::new(leb))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates an empty file system that fills the volume, with areas as Linux chooses them (spec:
/// ubifs-format 17.7).
pub(super) fn make(device: &dyn LebDevice, options: &MountOptions) -> Result<(), UbifsError> {
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let compressor = match options.compression {
        Some(Compression::None) => Compressor::None,
        Some(Compression::Zlib) => Compressor::Zlib,
        Some(Compression::Zstd) => Compressor::Zstd { level: 3 },
        Some(Compression::Lzo) | None => Compressor::Lzo,
    };
    let mut shape = MkfsOptions::new(device.leb_size(), device.min_io(), device.leb_count());
    shape.layout.in_place = true;
    let options = MkfsOptions { compressor, ..shape };
    let made = mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(device), &NoProgress);
    made.map(drop).map_err(|error| match error {
        MkfsError::Sink(source) => UbifsError::Device(eraseblock_mtd::MtdError::Io {
            at: Location::Whole,
            operation: "making a file system",
            source,
        }),
        error => UbifsError::Make(Box::new(error)),
    })
}
