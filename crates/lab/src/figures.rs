//! Figures of UBI on simulated chips: counts and virtual times, the same in every run.

pub mod side_by_side;

use eraseblock_base::{Geometry, GeometryError, Leb, MediumKind};
use eraseblock_mtd::{LebDevice, MtdError};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice, UbiError};
use eraseblock_ubi_format::{HeaderLayout, LayoutError, VolumeFlags, VolumeKind, VolumeName};
use std::sync::Arc;

/// A figure.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Row {
    /// The table it belongs to.
    pub table: &'static str,
    /// What was measured.
    pub case: String,
    /// The numbers, each with its name and unit.
    pub figures: Vec<(&'static str, f64)>,
}

/// Why a figure could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] MtdError),
    /// UBI failed.
    #[error(transparent)]
    Ubi(#[from] UbiError),
    /// The chip is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The layout is impossible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// A chip of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Bytes in an eraseblock.
    pub peb: u32,
    /// Eraseblocks.
    pub count: u32,
    /// Bytes in a page.
    pub page: u32,
    /// Bytes in a sub-page.
    pub subpage: u32,
}

impl Size {
    /// 128 KiB blocks of 2 KiB pages with sub-pages: both headers in one page.
    pub const fn large_page(mebibytes: u32) -> Self {
        Self { peb: 131_072, count: mebibytes * 8, page: 2048, subpage: 512 }
    }

    /// 16 KiB blocks of 512-byte pages without sub-pages: each header in its own page.
    pub const fn small_page(mebibytes: u32) -> Self {
        Self { peb: 16_384, count: mebibytes * 64, page: 512, subpage: 512 }
    }

    fn chip(self) -> Result<(Arc<Chip>, HeaderLayout), FigureError> {
        let oob = self.page / 32;
        let kind = MediumKind::Nand;
        let geometry = Geometry::new(kind, self.peb, self.count, self.page, self.subpage, oob)?;
        let layout = HeaderLayout::new(self.peb, self.page, self.subpage, None)?;
        Ok((Arc::new(Chip::new(ChipConfig::of_geometry(geometry)?)), layout))
    }
}

/// What attaching costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct AttachCost {
    /// Pages read.
    pub page_reads: u64,
    /// Nanoseconds on the part.
    pub virtual_ns: u64,
    /// A fastmap was used.
    pub by_fastmap: bool,
}

/// Formats a chip, makes a volume over half of it with 32 LEBs written, detaches, and attaches.
pub fn attach_cost(size: Size, fastmap: bool) -> Result<AttachCost, FigureError> {
    let (chip, layout) = size.chip()?;
    let options = OpenOptions { fastmap, ..OpenOptions::default() };
    let ubi = UbiDevice::open(chip.clone(), &layout, &options)?;
    ubi.flush()?;
    fill(&ubi, size.count / 2, 32)?;
    ubi.detach()?;
    drop(ubi);
    let before = chip.counters();
    let (_, attachment) = UbiDevice::open_with_report(chip.clone(), &layout, &options)?;
    let after = chip.counters();
    Ok(AttachCost {
        page_reads: after.page_reads - before.page_reads,
        virtual_ns: after.virtual_ns - before.virtual_ns,
        by_fastmap: attachment.is_by_fastmap(),
    })
}

fn fill(ubi: &UbiDevice, lebs: u32, written: u32) -> Result<(), FigureError> {
    let id = ubi.create_volume(&NewVolume {
        id: None,
        name: VolumeName::new("data").expect("a short name"),
        kind: VolumeKind::Dynamic,
        lebs,
        alignment: 1,
        flags: VolumeFlags::default(),
    })?;
    let volume = ubi.volume(id)?;
    let data = vec![0x5A; volume.min_io() as usize];
    (0..written.min(lebs)).try_for_each(|leb| volume.change(Leb::new(leb), &data))?;
    Ok(())
}

/// How evenly a chip wears.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Wear {
    /// The wear-levelling threshold.
    pub threshold: u32,
    /// Largest less smallest erase counter at the end.
    pub spread: u32,
    /// Erasures until the first block reached its endurance, of those possible: 0 to 1.
    pub lifetime: f64,
}

/// Rewrites a tenth of the LEBs, the others holding data that never change, until the first block
/// has been erased `endurance` times.
pub fn wear(pebs: u32, threshold: u32, endurance: u32) -> Result<Wear, FigureError> {
    let size = Size { peb: 16_384, count: pebs, page: 512, subpage: 512 };
    let (chip, layout) = size.chip()?;
    let options =
        OpenOptions { wl_threshold: threshold, max_bad_blocks: Some(0), ..OpenOptions::default() };
    let ubi = UbiDevice::open(chip, &layout, &options)?;
    let lebs = ubi.available_lebs();
    fill(&ubi, lebs, lebs)?;
    ubi.flush()?;
    let volumes = ubi.volumes();
    let volume = ubi.volume(volumes[0].id)?;
    let (mut round, busy) = (0, (lebs / 10).max(1));
    let data = [0xA5; 512];
    while ubi.health().max_ec < endurance {
        for _ in 0..busy {
            volume.change(Leb::new(round % busy), &data)?;
            while ubi.background_step()? {}
            round += 1;
        }
    }
    let health = ubi.health();
    let sum: u64 = ubi.erase_counters().iter().map(|ec| u64::from(*ec)).sum();
    let ideal = f64::from(pebs) * f64::from(health.max_ec);
    let lifetime = f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / ideal;
    Ok(Wear { threshold, spread: health.max_ec - health.min_ec, lifetime })
}

/// Pages programmed to write `pages` pages to an unmapped LEB, and to change it atomically; the
/// headers of the blocks included, those of erasures not.
pub fn write_cost(size: Size, pages: u32) -> Result<(u64, u64), FigureError> {
    let (chip, layout) = size.chip()?;
    let ubi = UbiDevice::open(chip.clone(), &layout, &OpenOptions::default())?;
    fill(&ubi, 4, 0)?;
    ubi.flush()?;
    let volumes = ubi.volumes();
    let volume = ubi.volume(volumes[0].id)?;
    let data = vec![0x5A; (pages * size.page) as usize];
    let start = chip.counters().page_programs;
    volume.write(Leb::new(0), 0, &data)?;
    let written = chip.counters().page_programs;
    volume.change(Leb::new(0), &data)?;
    Ok((written - start, chip.counters().page_programs - written))
}

/// All figures of UBI.
pub fn ubi() -> Result<Vec<Row>, FigureError> {
    let mut rows = Vec::new();
    for mebibytes in [32, 64, 128, 256, 512, 1024, 2048, 4096] {
        rows.push(attach_row("attach", Size::large_page(mebibytes), mebibytes)?);
    }
    for mebibytes in [32, 16, 8] {
        rows.push(attach_row("boot time", Size::small_page(mebibytes), mebibytes)?);
    }
    let wear = wear(64, 16, 1000)?;
    rows.push(Row {
        table: "wear",
        case: "90 % static data, threshold 16, endurance 1000".to_owned(),
        figures: vec![
            ("largest less smallest counter", wear.spread.into()),
            ("lifetime of ideal (%)", wear.lifetime * 100.0),
        ],
    });
    for pages in [1, 8] {
        let (write, change) = write_cost(Size::small_page(1), pages)?;
        let figures = vec![("pages to write", real(write)), ("pages to change", real(change))];
        let case = format!("{pages} pages of a LEB");
        rows.push(Row { table: "write path", case, figures });
    }
    Ok(rows)
}

fn attach_row(table: &'static str, size: Size, mebibytes: u32) -> Result<Row, FigureError> {
    let (scan, fast) = (attach_cost(size, false)?, attach_cost(size, true)?);
    Ok(Row {
        table,
        case: format!("{mebibytes} MiB, {} KiB blocks, {}-byte pages", size.peb / 1024, size.page),
        figures: vec![
            ("page reads by scan", real(scan.page_reads)),
            ("page reads per block", real(scan.page_reads) / f64::from(size.count)),
            ("page reads by fastmap", real(fast.page_reads)),
            ("scan (virtual ms)", real(scan.virtual_ns / 1000) / 1000.0),
            ("fastmap (virtual ms)", real(fast.virtual_ns / 1000) / 1000.0),
        ],
    })
}

fn real(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
