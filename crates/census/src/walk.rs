//! Cuts an image into records: structures, runs of one byte, and other bytes.
//!
//! # Invariants
//! 1. The records tile the image, in ascending order.
//! 2. Memory is bounded by [`WINDOW`], regardless of what the image says about its blocks.

use crate::segment::{Format, Lpt, Plan, vid};
use eraseblock_base::field::{Structure, Structures};
use eraseblock_base::{ByteOrder, Leb};
use eraseblock_jffs2_format::constants::MAGIC;
use eraseblock_jffs2_format::fields::Jffs2Fields;
use eraseblock_mtd::ReadAt;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubi_format::constants::{
    FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, HEADER_SIZE, LAYOUT_VOLUME, RECORD_SIZE,
};
use eraseblock_ubi_format::fields::{EC, FASTMAP_LIST, RECORD, UbiFields, VID};
use eraseblock_ubi_format::types::VidHeader;
use eraseblock_ubifs_format::constants::NODE_MAGIC;
use eraseblock_ubifs_format::fields::UbifsFields;
use memchr::memmem;
use std::io;
use std::ops::Range;

/// Bytes that are looked at together: a block, unless it is larger.
pub const WINDOW: u64 = 4 << 20;
/// The shortest run of one byte that is a record of its own.
const RUN: usize = 16;

/// Whose structure a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// UBI.
    Ubi,
    /// UBIFS.
    Ubifs,
    /// The LEB properties tree of a volume.
    Lpt(u32),
    /// JFFS2.
    Jffs2,
}

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A structure, and the bytes that fill up to where the next may begin.
    Structure {
        /// Whose it is.
        family: Family,
        /// Its index among the structures of the family.
        kind: usize,
        /// Its length without what follows.
        len: usize,
    },
    /// The same byte again and again.
    Run(u8),
    /// Anything else.
    Bytes,
}

/// A part of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The index of its segment.
    pub segment: usize,
    /// Where it begins in the image.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// What it is.
    pub what: What,
    /// The LEB that it is in, of which volume, where a header says so.
    pub vid: Option<&'a VidHeader>,
    /// Its bytes; empty for a run.
    pub bytes: &'a [u8],
}

/// The field tables of all formats of an image.
#[derive(Debug)]
pub struct Tables {
    ubi: UbiFields,
    ubifs: UbifsFields,
    jffs2: [Jffs2Fields; 2],
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Returns the tables.
    pub fn new() -> Self {
        let jffs2 = ByteOrder::ALL.map(Jffs2Fields::new);
        Self { ubi: UbiFields::new(), ubifs: UbifsFields::new(), jffs2 }
    }

    /// Returns the tables of a family in a segment.
    pub fn of<'a>(
        &'a self,
        plan: &'a Plan,
        segment: usize,
        family: Family,
    ) -> Option<&'a dyn Structures> {
        Some(match family {
            Family::Ubi => &self.ubi,
            Family::Ubifs => &self.ubifs,
            Family::Lpt(volume) => &plan.lpts.get(&(segment, volume))?.fields,
            Family::Jffs2 => match plan.segments.get(segment)?.format {
                Format::Jffs2 { order: ByteOrder::Big, .. } => &self.jffs2[1],
                _ => &self.jffs2[0],
            },
        })
    }

    /// Returns the structure of a record; `None` for bytes.
    pub fn structure<'a>(&'a self, plan: &'a Plan, record: &Record<'_>) -> Option<&'a Structure> {
        let What::Structure { family, kind, .. } = record.what else { return None };
        self.of(plan, record.segment, family)?.structures().get(kind)
    }
}

/// Receives records.
pub type Sink<'a> = dyn FnMut(&Record<'_>) -> io::Result<()> + 'a;

/// Hands all records of an image to `sink`.
///
/// # Errors
///
/// Fails if the image cannot be read, or with an error of `sink`.
pub fn walk(
    image: &dyn ReadAt,
    plan: &Plan,
    tables: &Tables,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    for index in 0..plan.segments.len() {
        walk_segment(image, plan, tables, index, sink)?;
    }
    Ok(())
}

/// Hands the records of one segment to `sink`. Fails as [`walk`] does.
///
/// # Errors
///
/// Fails if the image cannot be read, or with an error of `sink`.
pub fn walk_segment(
    image: &dyn ReadAt,
    plan: &Plan,
    tables: &Tables,
    index: usize,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let segment = plan.segments[index];
    walk_range(image, plan, tables, index, segment.offset..segment.end(), sink)
}

/// Hands the records of the block that the byte `at` of a segment is in to `sink`.
///
/// # Errors
///
/// Fails if the image cannot be read, or with an error of `sink`.
pub fn walk_block(
    image: &dyn ReadAt,
    plan: &Plan,
    tables: &Tables,
    index: usize,
    at: u64,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let segment = plan.segments[index];
    let block = segment.format.block_size().map_or(WINDOW, u64::from).max(1);
    let own = at.saturating_sub(segment.offset);
    let start = segment.offset + own - own % block;
    let end = start.saturating_add(block).min(segment.end());
    walk_range(image, plan, tables, index, start..end, sink)
}

/// Hands the records of whole blocks to `sink`.
fn walk_range(
    image: &dyn ReadAt,
    plan: &Plan,
    tables: &Tables,
    index: usize,
    range: Range<u64>,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let segment = plan.segments[index];
    let block = segment.format.block_size().map_or(WINDOW, u64::from);
    let mut walker = Walker { plan, tables, segment: index, vid: None, sink };
    let mut buffer = Vec::new();
    let (mut at, mut data) = (range.start, range.start);
    while at < range.end {
        let block_end = at.saturating_add(block).min(segment.end());
        let mut is_start = true;
        while at < block_end {
            let len = (block_end - at).min(WINDOW);
            if segment.format == Format::Bytes {
                data = if data > at { data } else { image.next_data(at)? };
                if data >= at + len {
                    // The records are those that reading the zeros would give.
                    walker.hole(at, len)?;
                    (at, is_start) = (at + len, false);
                    continue;
                }
            }
            buffer.resize(len as usize, 0);
            image.read_exact_at(&mut buffer, at)?;
            let window = Window { at, bytes: &buffer, is_start };
            walker.window(&window)?;
            (at, is_start) = (at + len, false);
        }
    }
    Ok(())
}

/// Bytes of one block.
struct Window<'a> {
    /// Where they begin in the image.
    at: u64,
    bytes: &'a [u8],
    /// Whether the block begins with them.
    is_start: bool,
}

struct Walker<'a, 'b> {
    plan: &'a Plan,
    tables: &'a Tables,
    segment: usize,
    /// The header of the current block.
    vid: Option<VidHeader>,
    sink: &'a mut Sink<'b>,
}

impl Walker<'_, '_> {
    fn window(&mut self, window: &Window<'_>) -> io::Result<()> {
        let whole = 0..window.bytes.len();
        let format = self.plan.segments[self.segment].format;
        match format {
            Format::Ubi(layout) => self.ubi(window, &layout),
            Format::Ubifs { leb_size } => {
                let segment = self.plan.segments[self.segment];
                let leb = (window.at - segment.offset) / u64::from(leb_size.max(1));
                self.leb(window, whole.start, 0, leb as u32)
            }
            Format::Jffs2 { .. } => self.jffs2(window),
            Format::Bytes => self.plain(window, whole.start, whole.end),
        }
    }

    /// The headers of an eraseblock, where they are expected, then its data.
    fn ubi(&mut self, window: &Window<'_>, layout: &HeaderLayout) -> io::Result<()> {
        let len = window.bytes.len();
        if !window.is_start {
            return match self.vid {
                Some(vid) => self.data(window, 0, &vid),
                None => self.nodes(window, 0),
            };
        }
        self.vid = None;
        let (vid_at, data_at) = (layout.vid_hdr_offset() as usize, layout.data_offset() as usize);
        let mut end = 0;
        for (at, wanted) in [(0, EC), (vid_at, VID)] {
            let Some(header) = window.bytes.get(at..at + HEADER_SIZE as usize) else { continue };
            if at >= end
                && self.tables.ubi.recognise(header).is_some_and(|(kind, _)| kind == wanted)
            {
                self.plain(window, end, at)?;
                if wanted == VID {
                    self.vid = vid(header, layout);
                }
                self.emit(window, Family::Ubi, wanted, at, HEADER_SIZE as usize, 1)?;
                end = at + HEADER_SIZE as usize;
            }
        }
        if data_at >= len || data_at < end {
            return self.plain(window, end, len);
        }
        self.plain(window, end, data_at)?;
        match self.vid {
            Some(vid) => self.data(window, data_at, &vid),
            None => self.nodes(window, data_at),
        }
    }

    /// The data of a LEB, as its volume says.
    fn data(&mut self, window: &Window<'_>, start: usize, vid: &VidHeader) -> io::Result<()> {
        match vid.volume {
            LAYOUT_VOLUME if window.is_start => self.table(window, start),
            FASTMAP_ANCHOR_VOLUME | FASTMAP_DATA_VOLUME => self.fastmap(window, start),
            volume => self.leb(window, start, volume.get(), vid.leb.get()),
        }
    }

    fn leb(&mut self, window: &Window<'_>, start: usize, volume: u32, leb: u32) -> io::Result<()> {
        let plan = self.plan;
        match plan.lpts.get(&(self.segment, volume)) {
            Some(lpt) if window.is_start && lpt.holds(Leb::new(leb)) => {
                self.lpt(window, start, volume, lpt)
            }
            _ => self.nodes(window, start),
        }
    }

    /// Records of the volume table, as many as a table has, unless they were never written.
    fn table(&mut self, window: &Window<'_>, start: usize) -> io::Result<()> {
        let mut at = start;
        for _ in 0..eraseblock_ubi_format::constants::MAX_VOLUMES {
            let end = at + RECORD_SIZE as usize;
            let Some(record) = window.bytes.get(at..end) else { break };
            if record.iter().all(|byte| *byte == record[0]) {
                break;
            }
            self.emit(window, Family::Ubi, RECORD, at, RECORD_SIZE as usize, 1)?;
            at = end;
        }
        self.plain(window, at, window.bytes.len())
    }

    fn fastmap(&mut self, window: &Window<'_>, start: usize) -> io::Result<()> {
        let (mut at, mut may_list) = (start, false);
        while at < window.bytes.len() {
            let rest = &window.bytes[at..];
            if let Some((kind, len)) = self.tables.ubi.recognise(rest) {
                self.emit(window, Family::Ubi, kind, at, len, 1)?;
                (at, may_list) = (at + len, true);
                continue;
            }
            let len = if may_list { UbiFields::list_len(rest) } else { 0 };
            if len == 0 {
                break;
            }
            self.emit(window, Family::Ubi, FASTMAP_LIST, at, len, 1)?;
            (at, may_list) = (at + len, false);
        }
        self.plain(window, at, window.bytes.len())
    }

    /// Nodes of UBIFS at multiples of 8.
    fn nodes(&mut self, window: &Window<'_>, start: usize) -> io::Result<()> {
        let finder = memmem::Finder::new(const { &NODE_MAGIC.to_le_bytes() });
        let tables = self.tables;
        self.scan(window, start, Family::Ubifs, &tables.ubifs, &finder, 8)
    }

    fn jffs2(&mut self, window: &Window<'_>) -> io::Result<()> {
        let (plan, tables) = (self.plan, self.tables);
        let Format::Jffs2 { order, .. } = plan.segments[self.segment].format else { return Ok(()) };
        let magic = order.u16_bytes(MAGIC);
        let fields = &tables.jffs2[usize::from(order == ByteOrder::Big)];
        self.scan(window, 0, Family::Jffs2, fields, &memmem::Finder::new(&magic), 4)
    }

    /// Structures that begin with a magic number at multiples of `align` after `start`. Where the length of a
    /// structure with a wrong checksum leads over one with a right checksum, the length is wrong, too.
    fn scan(
        &mut self,
        window: &Window<'_>,
        start: usize,
        family: Family,
        fields: &dyn Structures,
        magic: &memmem::Finder<'_>,
        align: usize,
    ) -> io::Result<()> {
        let bytes = window.bytes;
        let (mut done, mut at) = (start, start);
        let mut search = Search { bytes, start, family, fields, magic, align, wasted: 0 };
        while let Some(place) = search.next(at) {
            let Some((kind, len)) = search.recognise(place) else {
                at = place + 1;
                continue;
            };
            if let Some(inner) = search.sound_within(place, kind, len) {
                at = inner;
                continue;
            }
            self.plain(window, done, place)?;
            let align = fields.structures()[kind].align;
            done = self.emit(window, family, kind, place, len, align)?;
            at = done;
        }
        self.plain(window, done, bytes.len())
    }

    /// Nodes of an LPT follow each other at any byte; each commit begins at a minimum I/O unit.
    fn lpt(&mut self, window: &Window<'_>, start: usize, volume: u32, lpt: &Lpt) -> io::Result<()> {
        let bytes = window.bytes;
        let unit = lpt.inputs.min_io.max(8) as usize;
        let (mut done, mut at) = (start, start);
        while at < bytes.len() {
            if let Some((kind, len)) = lpt.fields.recognise(&bytes[at..]) {
                self.plain(window, done, at)?;
                at = self.emit(window, Family::Lpt(volume), kind, at, len, 1)?;
                done = at;
            } else {
                at = start + (at - start + 1).next_multiple_of(unit);
            }
        }
        self.plain(window, done, bytes.len())
    }

    /// Hands over a structure with the bytes up to the next multiple of `align`; returns its end.
    fn emit(
        &mut self,
        window: &Window<'_>,
        family: Family,
        kind: usize,
        at: usize,
        len: usize,
        align: usize,
    ) -> io::Result<usize> {
        let end = at.saturating_add(len.next_multiple_of(align)).min(window.bytes.len());
        self.hand(window, at, end, What::Structure { family, kind, len })?;
        Ok(end)
    }

    /// Hands over bytes without structure.
    fn plain(&mut self, window: &Window<'_>, start: usize, end: usize) -> io::Result<()> {
        let (mut done, mut at) = (start, start);
        while at < end {
            let byte = window.bytes[at];
            let run = run_len(&window.bytes[at..end]);
            if run >= RUN {
                if done < at {
                    self.hand(window, done, at, What::Bytes)?;
                }
                self.hand(window, at, at + run, What::Run(byte))?;
                done = at + run;
            }
            at += run;
        }
        if done < end {
            self.hand(window, done, end, What::Bytes)?;
        }
        Ok(())
    }

    /// Hands over a window in the hole of a sparse file.
    fn hole(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let what = if len >= RUN as u64 { What::Run(0) } else { What::Bytes };
        let bytes = if len >= RUN as u64 { &[][..] } else { &[0; RUN][..len as usize] };
        (self.sink)(&Record { segment: self.segment, offset, len, what, vid: None, bytes })
    }

    fn hand(
        &mut self,
        window: &Window<'_>,
        start: usize,
        end: usize,
        what: What,
    ) -> io::Result<()> {
        let bytes = match what {
            What::Run(_) => &[],
            _ => &window.bytes[start..end],
        };
        let (offset, len) = (window.at + start as u64, (end - start) as u64);
        let vid = self.vid.as_ref();
        (self.sink)(&Record { segment: self.segment, offset, len, what, vid, bytes })
    }
}

/// How many times the size of a window is checksummed without success before the rest of it is bytes: only
/// a window made to be slow needs more.
const MAX_WASTE: usize = 8;

/// A search for structures by their magic number.
struct Search<'a> {
    bytes: &'a [u8],
    start: usize,
    family: Family,
    fields: &'a dyn Structures,
    magic: &'a memmem::Finder<'a>,
    align: usize,
    /// Bytes that were checksummed without success.
    wasted: usize,
}

impl Search<'_> {
    /// Returns the next place from `at` on where a structure may begin.
    fn next(&self, mut at: usize) -> Option<usize> {
        if self.wasted > self.bytes.len().saturating_mul(MAX_WASTE) {
            return None;
        }
        loop {
            let place = at + self.magic.find(self.bytes.get(at..)?)?;
            if (place - self.start).is_multiple_of(self.align) {
                return Some(place);
            }
            at = place + 1;
        }
    }

    /// Returns the kind and the length of the structure at a place.
    fn recognise(&mut self, place: usize) -> Option<(usize, usize)> {
        let rest = self.bytes.get(place..)?;
        let known = self.fields.recognise(rest);
        let is_sound = |(kind, len): (usize, usize)| self.fields.sums_hold(kind, &rest[..len]);
        // Nodes of JFFS2 are recognised by the checksum of their header alone.
        if self.family == Family::Ubifs && !known.is_some_and(is_sound) {
            let len = rest.get(16..20).and_then(|len| <[u8; 4]>::try_from(len).ok());
            let len = len.map_or(0, |len| u32::from_le_bytes(len) as usize);
            self.wasted += if len <= rest.len() { len } else { 0 };
        }
        known
    }

    /// Returns where the first structure with right checksums begins inside of one with wrong checksums. The
    /// header of a node of JFFS2 has a checksum of its own: its length is right.
    fn sound_within(&mut self, place: usize, kind: usize, len: usize) -> Option<usize> {
        let end = place + len;
        let node = self.bytes.get(place..end)?;
        if self.family != Family::Ubifs || self.fields.sums_hold(kind, node) {
            return None;
        }
        let mut at = place + self.align;
        while let Some(inner) = self.next(at).filter(|inner| *inner < end) {
            let known = self.recognise(inner);
            let is_sound = |(kind, len): (usize, usize)| {
                self.fields.sums_hold(kind, &self.bytes[inner..inner + len])
            };
            if known.is_some_and(is_sound) {
                return Some(inner);
            }
            at = inner + self.align;
        }
        None
    }
}

/// Returns how often the first byte is repeated.
fn run_len(bytes: &[u8]) -> usize {
    let Some(first) = bytes.first() else { return 0 };
    if bytes.get(1) != Some(first) {
        return 1;
    }
    let all = [*first; 64];
    let mut run = 0;
    for chunk in bytes.chunks(64) {
        if chunk == &all[..chunk.len()] {
            run += chunk.len();
            continue;
        }
        return run + chunk.iter().take_while(|byte| *byte == first).count();
    }
    run
}
