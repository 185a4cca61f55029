//! Formats a device and keeps its erase counters (spec: ubi 19.2).
//!
//! # Invariants
//! 1. Every good block ends up erased with an erase-counter header, or is marked bad.

use crate::attach::{AttachOptions, attach};
use crate::error::UbiError;
use crate::io::{Io, is_eio};
use crate::runtime::{OpenOptions, UbiDevice};
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_ubi_format::{EraseCount, HeaderLayout};
use std::sync::Arc;

/// Number of consecutive blocks that go bad before formatting gives up.
const MAX_CONSECUTIVE_BAD: u32 = 4;

/// Options of formatting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FormatOptions {
    /// Number of the new image.
    pub image_seq: u32,
    /// Erase counter for all blocks, instead of their own.
    pub erase_count: Option<EraseCount>,
    /// Write a fastmap, on a device that can have one.
    pub fastmap: bool,
}

/// The result of formatting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FormatReport {
    /// Blocks formatted.
    pub formatted: u32,
    /// Blocks whose erase counter was known and continues.
    pub counters_kept: u32,
    /// Blocks that were bad already.
    pub bad: u32,
    /// Blocks that went bad.
    pub newly_bad: u32,
}

/// Erases all good blocks, writes their headers and an empty volume table.
///
/// If at least 95 % of the erase counters are known, they continue. If at least half are known, all
/// blocks get the mean; otherwise they start at 0. Fails if the device does, or if too few good
/// blocks are left.
pub fn format(
    device: &Arc<dyn Mtd>,
    layout: &HeaderLayout,
    options: &FormatOptions,
) -> Result<FormatReport, UbiError> {
    let attachment = attach(device.as_ref(), layout, &AttachOptions::default())?;
    let known = |peb: Peb| attachment.peb(peb).and_then(|info| info.erase_count);
    let good: Vec<Peb> = {
        let mut good = Vec::new();
        for peb in device.geometry().pebs() {
            if !device.is_bad(peb)? {
                good.push(peb);
            }
        }
        good
    };
    let all = device.geometry().peb_count();
    let good_count = u32::try_from(good.len()).expect("PEB numbers are 32 bits");
    let mut report = FormatReport { bad: all - good_count, ..FormatReport::default() };
    let counters: Vec<EraseCount> = good.iter().filter_map(|peb| known(*peb)).collect();
    let sum: u64 = counters.iter().map(|count| u64::from(count.get())).sum();
    let mean = sum.checked_div(counters.len() as u64).unwrap_or(0);
    let percent = counters.len() * 100 / good.len().max(1);
    let io = Io {
        device: Arc::clone(device),
        layout: *layout,
        image_seq: options.image_seq,
        threshold: 1,
    };
    let mut consecutive = 0;
    for peb in good {
        let count = match (options.erase_count, known(peb)) {
            (Some(count), _) => u64::from(count.get()),
            (None, Some(count)) if percent >= 95 => {
                report.counters_kept += 1;
                u64::from(count.get()) + 1
            }
            _ if percent >= 50 => mean,
            _ => 0,
        };
        let count = EraseCount::new(count).unwrap_or_default();
        match io.erase(peb).and_then(|()| io.write_ec(peb, count)) {
            Ok(()) => {
                report.formatted += 1;
                consecutive = 0;
            }
            Err(error) if is_eio(&error) && consecutive + 1 < MAX_CONSECUTIVE_BAD => {
                device.mark_bad(peb)?;
                report.newly_bad += 1;
                consecutive += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    write_table(device, layout, options)?;
    Ok(report)
}

/// A device without a volume table is refused unless forced; then a table is written.
fn write_table(
    device: &Arc<dyn Mtd>,
    layout: &HeaderLayout,
    options: &FormatOptions,
) -> Result<(), UbiError> {
    let FormatOptions { image_seq, fastmap, .. } = *options;
    let open = OpenOptions { force: true, image_seq, ..OpenOptions::default() };
    UbiDevice::open(Arc::clone(device), layout, &open)?.sync()?;
    if fastmap {
        // A device that was forced open writes no fastmap.
        let open = OpenOptions { image_seq, fastmap, ..OpenOptions::default() };
        UbiDevice::open(Arc::clone(device), layout, &open)?.detach()?;
    }
    Ok(())
}
