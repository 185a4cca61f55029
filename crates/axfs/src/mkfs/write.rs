//! Writing what is planned.
//!
//! The order in the file: superblock, descriptors, tables, strings, byte-aligned pages, compressed pages,
//! pages for execution in place from a page boundary on, the end magic, zeros up to a page boundary.

use super::plan::{Packer, Plan};
use super::{MkfsError, MkfsOptions, MkfsReport, PAGE};
use crate::pages::PageKind;
use crate::raw::{RawRegion, RawSuperblock, RawTail64};
use crate::superblock::{MAGIC, REGIONS, RegionId, SIGNATURE, SUPERBLOCK_LEN};
use eraseblock_base::raw::Raw;
use eraseblock_vfs::source::{NodeId, SourceKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Bytes from one descriptor to the next.
const DESCRIPTOR_STEP: u64 = 40;
/// Version of the historical tool.
const VERSION: [u8; 3] = [2, 2, 0];
/// The kinds of pages, in the order of their regions in the file.
const KINDS: [(PageKind, RegionId); 3] = [
    (PageKind::ByteAligned, RegionId::ByteAligned),
    (PageKind::Compressed, RegionId::Compressed),
    (PageKind::Xip, RegionId::Xip),
];

/// The regions that are not pages.
#[derive(Default)]
struct Tables {
    /// Numbers, by region.
    numbers: BTreeMap<usize, Vec<u32>>,
    strings: Vec<u8>,
    /// Bytes of the pages of each kind.
    bytes: [u64; 3],
    report: MkfsReport,
}

impl Tables {
    fn push(&mut self, id: RegionId, number: u32) {
        self.numbers.entry(id as usize).or_default().push(number);
    }

    fn len(&self, id: RegionId) -> u32 {
        self.numbers.get(&(id as usize)).map_or(0, Vec::len) as u32
    }

    /// Adds a page of a kind that takes `len` bytes of its region.
    fn page(&mut self, kind: PageKind, len: u32) {
        let offset = self.bytes[kind as usize] as u32;
        let index = match kind {
            PageKind::Xip => offset / PAGE as u32,
            PageKind::Compressed => {
                let index = self.len(RegionId::CnodeOffset);
                self.push(RegionId::CnodeOffset, 0);
                self.push(RegionId::CnodeIndex, index);
                self.push(RegionId::CblockOffset, offset);
                index
            }
            PageKind::ByteAligned => {
                let index = self.len(RegionId::BanodeOffset);
                self.push(RegionId::BanodeOffset, offset);
                index
            }
        };
        self.push(RegionId::NodeType, kind as u32);
        self.push(RegionId::NodeIndex, index);
        self.bytes[kind as usize] += u64::from(len);
    }

    fn of(plan: &Plan<'_>) -> Self {
        let mut tables = Self::default();
        tables.report.inodes = plan.inodes.len() as u32;
        let (mut modes, mut seen) = (BTreeMap::new(), BTreeSet::new());
        for (index, inode) in plan.inodes.iter().enumerate() {
            let node = plan.tree.node(inode.node);
            let mode = (node.file_kind().mode_bits() | node.permissions, node.uid, node.gid);
            let count = modes.len() as u32;
            let mode_index = *modes.entry(mode).or_insert(count);
            if mode_index == count {
                tables.push(RegionId::Modes, mode.0);
                tables.push(RegionId::Uids, mode.1);
                tables.push(RegionId::Gids, mode.2);
            }
            let name_offset = tables.strings.len() as u32;
            tables.push(RegionId::FileSize, inode.size);
            tables.push(RegionId::NameOffset, name_offset);
            tables.push(RegionId::NumEntries, inode.entries);
            tables.push(RegionId::ModeIndex, mode_index);
            tables.push(RegionId::ArrayIndex, inode.array);
            tables.strings.extend(inode.name);
            tables.strings.push(0);
            for page in plan.pages_of(index) {
                tables.page(plan.pages[page].kind, plan.pages[page].len);
            }
            tables.count(inode.node, &node.kind, node.xattrs.len(), &mut seen);
        }
        let count = |kind| plan.pages.iter().filter(|page| page.kind == kind).count() as u64;
        tables.report.xip_pages = count(PageKind::Xip);
        tables.report.compressed_pages = count(PageKind::Compressed);
        tables.report.byte_aligned_pages = count(PageKind::ByteAligned);
        // The end of the last block is the start of this one, which no file has.
        for kind in [PageKind::Xip, PageKind::Compressed, PageKind::ByteAligned] {
            tables.page(kind, 0);
        }
        tables
    }

    fn count(
        &mut self,
        node: NodeId,
        kind: &SourceKind,
        xattrs: usize,
        seen: &mut BTreeSet<NodeId>,
    ) {
        if !seen.insert(node) {
            self.report.copies += 1;
        }
        self.report.xattrs_left_out += xattrs as u64;
        if let SourceKind::Regular(content) = kind {
            self.report.content_bytes += content.size();
        }
    }

    /// Returns the stored bytes of a table.
    fn stored(&self, id: usize) -> Vec<u8> {
        let numbers = self.numbers.get(&id).map_or(&[][..], Vec::as_slice);
        if id == RegionId::NodeType as usize {
            return numbers.iter().map(|kind| *kind as u8).collect();
        }
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }
}

/// Where regions are.
struct Layout {
    offsets: [u64; REGIONS],
    sizes: [u64; REGIONS],
    /// Bytes up to the end of the end magic.
    image_size: u64,
}

impl Layout {
    fn of(tables: &Tables) -> Self {
        let (mut offsets, mut sizes) = ([0; REGIONS], [0; REGIONS]);
        let mut at = descriptors() + REGIONS as u64 * DESCRIPTOR_STEP;
        let mut place = |id: usize, size: u64, alignment: u64| {
            at = at.next_multiple_of(alignment);
            (offsets[id], sizes[id]) = (at, size);
            at += size;
        };
        for id in RegionId::NodeType as usize..REGIONS {
            place(id, tables.stored(id).len() as u64, 1);
        }
        place(RegionId::Strings as usize, tables.strings.len() as u64, 1);
        for (kind, id) in KINDS {
            let alignment = if kind == PageKind::Xip { PAGE as u64 } else { 1 };
            place(id as usize, tables.bytes[kind as usize], alignment);
        }
        Self { offsets, sizes, image_size: at + 4 }
    }
}

/// Where the first descriptor is.
fn descriptors() -> u64 {
    (SUPERBLOCK_LEN as u64).next_multiple_of(8)
}

/// A writer that knows its place.
struct Out<'a> {
    out: &'a mut dyn Write,
    at: u64,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), MkfsError> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(MkfsError::Output)
    }

    /// Writes zeros up to a place.
    fn pad(&mut self, to: u64) -> Result<(), MkfsError> {
        let zeros = io::copy(&mut io::Read::take(io::repeat(0), to - self.at), &mut self.out);
        self.at = to;
        zeros.map(drop).map_err(MkfsError::Output)
    }
}

/// Writes an image.
pub(super) fn image(
    plan: &Plan<'_>,
    options: &MkfsOptions,
    out: &mut dyn Write,
) -> Result<MkfsReport, MkfsError> {
    let tables = Tables::of(plan);
    let layout = Layout::of(&tables);
    if layout.image_size > u64::from(u32::MAX) {
        return Err(MkfsError::TooLarge { bytes: layout.image_size });
    }
    let mut out = Out { out, at: 0 };
    out.put(&superblock(plan, options, &layout))?;
    for id in 0..REGIONS {
        out.pad(descriptors() + id as u64 * DESCRIPTOR_STEP)?;
        out.put(&descriptor(id, &layout))?;
    }
    out.pad(descriptors() + REGIONS as u64 * DESCRIPTOR_STEP)?;
    for id in RegionId::NodeType as usize..REGIONS {
        out.put(&tables.stored(id))?;
    }
    out.put(&tables.strings)?;
    for (kind, id) in KINDS {
        out.pad(layout.offsets[id as usize])?;
        pages(plan, kind, &mut out)?;
    }
    out.put(&MAGIC.to_be_bytes())?;
    out.pad(out.at.next_multiple_of(PAGE as u64))?;
    Ok(MkfsReport { image_bytes: out.at, ..tables.report })
}

fn superblock(plan: &Plan<'_>, options: &MkfsOptions, layout: &Layout) -> Vec<u8> {
    let mut raw = RawSuperblock::zeroed();
    raw.magic.set(MAGIC);
    raw.signature = SIGNATURE;
    raw.cblock_size.set(PAGE as u32);
    raw.inodes.set(plan.inodes.len() as u64);
    raw.image_size.set(layout.image_size);
    raw.nodes.set(plan.pages.len() as u64);
    raw.mmap_size.set(layout.image_size);
    for (place, id) in raw.regions.chunks_exact_mut(8).zip(0_u64..) {
        place.copy_from_slice(&(descriptors() + id * DESCRIPTOR_STEP).to_be_bytes());
    }
    raw.version = VERSION;
    let mut tail = RawTail64::zeroed();
    tail.time.set(options.time);
    tail.page_shift = PAGE.trailing_zeros() as u8;
    [&raw.to_bytes()[..], &tail.to_bytes()].concat()
}

fn descriptor(id: usize, layout: &Layout) -> [u8; RawRegion::SIZE] {
    let is_table = id >= RegionId::NodeType as usize;
    let depth = if id == RegionId::NodeType as usize { 1 } else { 4 };
    let mut raw = RawRegion::zeroed();
    raw.offset.set(layout.offsets[id]);
    raw.size.set(layout.sizes[id]);
    raw.entries.set(if is_table { layout.sizes[id] / depth } else { 0 });
    raw.depth = if is_table { depth as u8 } else { 0 };
    raw.to_bytes()
}

/// Writes all pages of a kind, from files that have some.
fn pages(plan: &Plan<'_>, kind: PageKind, out: &mut Out<'_>) -> Result<(), MkfsError> {
    let mut packer = Packer::new();
    for index in 0..plan.inodes.len() {
        let planned = &plan.pages[plan.pages_of(index)];
        if !planned.iter().any(|page| page.kind == kind) {
            continue;
        }
        plan.each_page(index, &mut |number, bytes| {
            if planned[number].kind != kind {
                return Ok(());
            }
            if kind != PageKind::Compressed {
                return out.put(bytes);
            }
            if !packer.pack(bytes) || packer.out.len() != planned[number].len as usize {
                return Err(MkfsError::Changed { path: plan.path(index) });
            }
            out.put(&packer.out)
        })?;
    }
    Ok(())
}
