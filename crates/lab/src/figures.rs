//! Figures of UBI on simulated chips: counts and virtual times, the same in every run, and times on
//! the clock of the caller.

pub mod side_by_side;

use eraseblock_base::{Geometry, GeometryError, Leb, MediumKind};
use eraseblock_mtd::{LebDevice, MtdError};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice, UbiError};
use eraseblock_ubi_format::fastmap::{ANCHOR_RANGE, fastmap_size, pool_sizes};
use eraseblock_ubi_format::{HeaderLayout, LayoutError, VolumeFlags, VolumeKind, VolumeName};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A group of figures.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Row {
    /// The table it belongs to.
    pub table: &'static str,
    /// The measured case.
    pub case: String,
    /// The numbers.
    pub figures: Vec<Figure>,
}

/// A number and its limits.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Figure {
    /// What it counts.
    pub what: &'static str,
    /// The number.
    pub value: f64,
    /// The maximum, if there is a limit.
    pub at_most: Option<f64>,
    /// The minimum, if there is a limit.
    pub at_least: Option<f64>,
}

impl Figure {
    const fn new(what: &'static str, value: f64) -> Self {
        Self { what, value, at_most: None, at_least: None }
    }

    const fn at_most(self, limit: f64) -> Self {
        Self { at_most: Some(limit), ..self }
    }

    const fn at_least(self, limit: f64) -> Self {
        Self { at_least: Some(limit), ..self }
    }

    /// Returns whether the limits are met.
    pub fn is_met(&self) -> bool {
        self.at_most.is_none_or(|most| self.value <= most)
            && self.at_least.is_none_or(|least| self.value >= least)
    }
}

/// A figure that could not be measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum FigureError {
    /// The device failed.
    Device(MtdError),
    /// UBI failed.
    Ubi(UbiError),
    /// The chip is impossible.
    Geometry(GeometryError),
    /// The layout is impossible.
    Layout(LayoutError),
}

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => fmt::Display::fmt(error, f),
            Self::Ubi(error) => fmt::Display::fmt(error, f),
            Self::Geometry(error) => fmt::Display::fmt(error, f),
            Self::Layout(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for FigureError {}

impl From<MtdError> for FigureError {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

impl From<UbiError> for FigureError {
    fn from(error: UbiError) -> Self {
        Self::Ubi(error)
    }
}

impl From<GeometryError> for FigureError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<LayoutError> for FigureError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl FigureError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Ubi(error) => Some(error),
            _ => None,
        }
    }
}

/// The chip of a figure.
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

    /// Returns the number of pages the two headers of a block take.
    const fn header_pages(self) -> u32 {
        if self.subpage < self.page { 1 } else { 2 }
    }

    fn chip(self) -> Result<(Arc<Chip>, HeaderLayout), FigureError> {
        let oob = self.page / 32;
        let kind = MediumKind::Nand;
        let geometry = Geometry::new(kind, self.peb, self.count, self.page, self.subpage, oob)?;
        let layout = HeaderLayout::new(self.peb, self.page, self.subpage, None)?;
        Ok((Arc::new(Chip::new(ChipConfig::of_geometry(geometry)?)), layout))
    }
}

/// The cost of attaching.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct AttachCost {
    /// Pages read.
    pub page_reads: u64,
    /// Of these, the pages of both copies of the volume table.
    pub table_reads: u64,
    /// Nanoseconds on the part.
    pub virtual_ns: u64,
    /// Seconds on the clock of the caller.
    pub host_seconds: f64,
    /// Whether a fastmap was used.
    pub by_fastmap: bool,
}

/// How a device is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachBy {
    /// By reading the headers of all blocks.
    Scan,
    /// By a fastmap.
    Fastmap,
}

/// A clock: seconds since any moment.
pub type Clock<'a> = &'a dyn Fn() -> f64;

/// Formats a chip, creates a volume over half of it, writes all its LEBs, detaches, and attaches.
/// Fails if the simulated chip does.
pub fn attach_cost(size: Size, by: AttachBy, clock: Clock<'_>) -> Result<AttachCost, FigureError> {
    let (chip, layout) = size.chip()?;
    let fastmap = by == AttachBy::Fastmap;
    let options = OpenOptions { fastmap, ..OpenOptions::default() };
    let ubi = UbiDevice::open(chip.clone(), &layout, &options)?;
    ubi.flush()?;
    fill(&ubi, size.count / 2, size.count / 2)?;
    ubi.flush()?;
    ubi.detach()?;
    drop(ubi);
    let before = chip.counters();
    let start = clock();
    let (_, attachment) = UbiDevice::open_with_report(chip.clone(), &layout, &options)?;
    let host_seconds = clock() - start;
    let after = chip.counters();
    Ok(AttachCost {
        page_reads: after.page_reads - before.page_reads,
        table_reads: 2 * u64::from(layout.table_size().div_ceil(size.page)),
        virtual_ns: after.virtual_ns - before.virtual_ns,
        host_seconds,
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

/// The distribution of wear.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Wear {
    /// The wear-levelling threshold.
    pub threshold: u32,
    /// The maximum difference of the largest and the smallest erase counter.
    pub spread: u32,
    /// Erases until the first block reached its endurance, as a fraction of those possible: 0 to 1.
    pub lifetime: f64,
}

/// Rewrites a tenth of the LEBs, while the others hold data that never changes, until the first
/// block has been erased `endurance` times. Fails if the simulated chip does.
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
    let mut spread = 0;
    let data = [0xA5; 512];
    while ubi.health().max_ec < endurance {
        for _ in 0..busy {
            volume.change(Leb::new(round % busy), &data)?;
            while ubi.background_step()? {}
            round += 1;
        }
        let health = ubi.health();
        spread = spread.max(health.max_ec - health.min_ec);
    }
    let health = ubi.health();
    let sum: u64 = ubi.erase_counters().iter().map(|ec| u64::from(*ec)).sum();
    let ideal = f64::from(pebs) * f64::from(health.max_ec);
    let lifetime = f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / ideal;
    Ok(Wear { threshold, spread, lifetime })
}

/// Returns the pages programmed to write `pages` pages to an unmapped LEB, and to change it
/// atomically; including the headers of the blocks, but not those of erases. Fails if the simulated
/// chip does.
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

/// The wear-levelling threshold of the wear figures, and the erases a block endures.
const WEAR: (u32, u32) = (16, 1000);

/// Returns all figures of UBI. Fails if the simulated chip does.
pub fn ubi(clock: Clock<'_>) -> Result<Vec<Row>, FigureError> {
    let mut rows = Vec::new();
    for mebibytes in [32, 64, 128, 256, 512, 1024, 2048, 4096] {
        rows.push(attach_row("attach", Size::large_page(mebibytes), mebibytes, clock)?);
    }
    for mebibytes in [32, 16, 8] {
        rows.push(attach_row("boot time", Size::small_page(mebibytes), mebibytes, clock)?);
    }
    for pebs in [64, 256] {
        rows.push(wear_row(pebs)?);
    }
    for size in [Size::small_page(1), Size::large_page(8)] {
        for pages in [1, 8] {
            rows.push(write_row(size, pages)?);
        }
    }
    Ok(rows)
}

fn wear_row(pebs: u32) -> Result<Row, FigureError> {
    let (threshold, endurance) = WEAR;
    let wear = wear(pebs, threshold, endurance)?;
    let (spread, most) = (f64::from(wear.spread), f64::from(threshold + 1));
    Ok(Row {
        table: "wear",
        case: format!("{pebs} blocks of {endurance} erasures, 90 % static, threshold {threshold}"),
        figures: vec![
            Figure::new("largest less smallest counter, ever", spread).at_most(most),
            Figure::new("lifetime (% of ideal)", wear.lifetime * 100.0).at_least(95.0),
        ],
    })
}

/// Returns the row for a write: it takes the pages of its data, and one for the second header,
/// because the first header is written at the erase.
fn write_row(size: Size, pages: u32) -> Result<Row, FigureError> {
    let (write, change) = write_cost(size, pages)?;
    let least = f64::from(pages) + 1.0;
    Ok(Row {
        table: "write path",
        case: format!("{pages} pages of {} bytes", size.page),
        figures: vec![
            Figure::new("programs to write", real(write)).at_most(least),
            Figure::new("programs to change", real(change)).at_most(least),
        ],
    })
}

fn attach_row(
    table: &'static str,
    size: Size,
    mebibytes: u32,
    clock: Clock<'_>,
) -> Result<Row, FigureError> {
    let (scan, fast) =
        (attach_cost(size, AttachBy::Scan, clock)?, attach_cost(size, AttachBy::Fastmap, clock)?);
    let headers = real(scan.page_reads - scan.table_reads) / f64::from(size.count);
    Ok(Row {
        table,
        case: format!("{mebibytes} MiB, {} KiB blocks, {}-byte pages", size.peb / 1024, size.page),
        figures: vec![
            Figure::new("page reads", real(scan.page_reads)),
            Figure::new("a block", headers).at_most(f64::from(size.header_pages())),
            Figure::new("simulated ms", milliseconds(scan.virtual_ns)),
            Figure::new("seconds here", scan.host_seconds).at_most(0.5),
            Figure::new("by fastmap: page reads", real(fast.page_reads))
                .at_most(fastmap_limit(size)),
            Figure::new("simulated ms", milliseconds(fast.virtual_ns)),
            Figure::new("seconds here", fast.host_seconds).at_most(0.5),
        ],
    })
}

/// Returns the limit for attaching by fastmap: the first blocks, two full pools, the blocks of the
/// fastmap with their headers, and the volume table. Nothing else may be read, regardless of the
/// size of the chip.
fn fastmap_limit(size: Size) -> f64 {
    let Ok(layout) = HeaderLayout::new(size.peb, size.page, size.subpage, None) else {
        return 0.0;
    };
    let (user, moves) = pool_sizes(size.count);
    let map = fastmap_size(size.count, layout.leb_size()).unwrap_or(0);
    let blocks = u32::try_from(map / layout.leb_size() as usize).unwrap_or(u32::MAX);
    let scanned = ANCHOR_RANGE + u32::from(user) + u32::from(moves) + blocks;
    let data = blocks * (layout.leb_size() / size.page);
    let table = 4 * layout.table_size().div_ceil(size.page);
    f64::from(scanned * size.header_pages() + data + table)
}

fn milliseconds(ns: u64) -> f64 {
    real(ns / 1000) / 1000.0
}

fn real(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
