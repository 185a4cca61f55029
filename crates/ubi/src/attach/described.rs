//! What a fastmap says about its flash, and whether Linux would attach by it.

use super::fastmap::flash_size;
use super::padded::Padded;
use super::scan::Scanner;
use super::{AttachOptions, attach};
use crate::codes;
use crate::error::UbiError;
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_ubi_format::HeaderLayout;

/// Whether there is a fastmap, and whether a device can be attached by it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "state", rename_all = "kebab-case"))]
pub enum FastmapStatus {
    /// No fastmap: attaching scans.
    Absent,
    /// A fastmap that attaching rejects, so that it scans.
    Unusable {
        /// The reason.
        reason: String,
    },
    /// A fastmap that attaching uses.
    Usable {
        /// The block of its super block.
        anchor: Peb,
        /// Number of blocks of the fastmap.
        blocks: u32,
        /// Eraseblocks of the flash that it describes; an image may have fewer.
        pebs: u32,
    },
}

impl FastmapStatus {
    /// Finds a fastmap and attaches by it, in memory. Blocks after the end of an image count as
    /// erased. Fails if the device does.
    pub fn of(device: &dyn Mtd, layout: &HeaderLayout) -> Result<Self, UbiError> {
        let scanner = Scanner { device, layout: *layout, threshold: 1 };
        let here = device.geometry().peb_count();
        let pebs = match flash_size(&scanner) {
            None => return Ok(Self::Absent),
            Some(Ok(pebs)) => pebs.max(here),
            Some(Err(reason)) => return Ok(Self::Unusable { reason }),
        };
        let Some(padded) = Padded::new(device, pebs) else {
            let reason = format!("it describes a flash of {pebs} eraseblocks");
            return Ok(Self::Unusable { reason });
        };
        let options =
            AttachOptions { whole_device: true, fastmap: true, ..AttachOptions::default() };
        let attachment = attach(&padded, layout, &options)?;
        if let Some(map) = &attachment.fastmap {
            let blocks = u32::try_from(map.blocks.len()).unwrap_or(u32::MAX);
            let anchor = map.blocks.first().copied();
            return Ok(anchor.map_or(Self::Absent, |anchor| Self::Usable { anchor, blocks, pebs }));
        }
        let why =
            attachment.findings.iter().find(|finding| finding.code == codes::FASTMAP_UNUSABLE);
        let reason = why.map_or_else(String::new, |finding| finding.message.clone());
        Ok(Self::Unusable { reason })
    }
}

/// Returns the number of eraseblocks of the flash that a fastmap on the device describes; `None` if
/// no fastmap has a valid checksum.
pub fn described_peb_count(device: &dyn Mtd, layout: &HeaderLayout) -> Option<u32> {
    flash_size(&Scanner { device, layout: *layout, threshold: 1 })?.ok()
}
