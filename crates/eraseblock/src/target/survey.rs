//! Everything in a file that can be opened, wherever it begins: one pass over the bytes finds the
//! headers, their checksums decide, and what lies inside something else is not listed.
//!
//! # Invariants
//! 1. The file is read once in windows of fixed size, and once more where a JFFS2 or a YAFFS may go
//!    on; memory is bounded by `MAX_HEADERS` and `MAX_PARTS`, time by `MAX_TRIES`, too.
//! 2. Parts come in ascending order and do not overlap.

use super::formats::{self, Magic, Reader};
use super::{Format, magic};
use eraseblock_base::align::is_erased;
use eraseblock_base::{Leb, Location};
use eraseblock_jffs2_format::constants::pad;
use eraseblock_jffs2_format::{ByteOrder, scan};
use eraseblock_mtd::ReadAt;
use eraseblock_ubi::locate::{self, Extent, Header};
use eraseblock_ubifs_format::constants::{NODE_MAGIC, NodeType};
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_yaffs::{HEADER_MAGIC_AT, HEADER_MAGICS, Version};
use memchr::memmem;
use std::io;

/// Erase-counter headers that are kept: those of 16 GiB with blocks of 16 KiB, more than any chip has.
const MAX_HEADERS: usize = 1 << 20;
/// Superblocks and JFFS2 that are kept, each.
const MAX_PARTS: usize = 1024;
/// Headers of YAFFS objects after which a YAFFS is looked for.
const MAX_TRIES: u32 = 4096;
/// Bytes read at a time.
const WINDOW: usize = 1 << 20;
/// Bytes after a window that a header at its end may need: a UBIFS superblock.
const OVERLAP: usize = 4096;
/// Bytes of a UBIFS data node before its data.
const DATA_HEADER: u64 = 48;
/// The largest JFFS2 node with data of a file; what lies inside such a node is data.
const JFFS2_DATA_NODE: u64 = 4096 + 68;
/// Bytes without a node, and not erased, after which the next node is that of another JFFS2: the
/// largest usual erase block of a NOR.
const JFFS2_GAP: u64 = 256 << 10;

/// What something in a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "format", rename_all = "kebab-case"))]
pub enum Kind {
    /// A UBI device.
    Ubi {
        /// Bytes in an eraseblock.
        peb_size: u32,
        /// Number of the image.
        image_seq: u32,
    },
    /// A bare UBIFS.
    Ubifs {
        /// Bytes in a LEB.
        leb_size: u32,
    },
    /// A JFFS2.
    Jffs2 {
        /// Whether its byte order is big-endian.
        big_endian: bool,
    },
    /// A YAFFS.
    Yaffs {
        /// 1 or 2.
        version: u32,
    },
    /// A file system that is only read.
    #[cfg_attr(feature = "serde", serde(untagged))]
    Read {
        /// What it is.
        format: Format,
    },
}

/// Something in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Part {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What it is.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub kind: Kind,
}

impl Part {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    fn contains(&self, offset: u64) -> bool {
        (self.offset..self.end()).contains(&offset)
    }

    /// Returns whether the other is a UBI of the same number, or the same part.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (Kind::Ubi { image_seq: one, .. }, Kind::Ubi { image_seq: two, .. }) => one == two,
            _ => self == other,
        }
    }

    /// What it is, in words.
    pub fn describe(&self) -> String {
        match self.kind {
            Kind::Ubi { peb_size, image_seq } => {
                let peb = crate::text::size(peb_size.into());
                format!("UBI, eraseblocks of {peb}, image number {image_seq}")
            }
            Kind::Ubifs { leb_size } => {
                format!("UBIFS, LEBs of {}", crate::text::size(leb_size.into()))
            }
            Kind::Jffs2 { big_endian: false } => "JFFS2".to_owned(),
            Kind::Jffs2 { big_endian: true } => "JFFS2, big-endian".to_owned(),
            Kind::Yaffs { version } => format!("YAFFS{version}"),
            Kind::Read { format } => format.name().to_owned(),
        }
    }
}

/// A stretch of a file in which nothing was recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unknown {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What begins like this, in words, if its first bytes are known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub looks_like: Option<&'static str>,
}

/// What there is in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// In ascending order.
    pub parts: Vec<Part>,
    /// Whether there may be more, as limits were reached.
    pub more: bool,
}

/// Looks through a file. Fails if it cannot be read.
pub fn survey(image: &dyn ReadAt) -> io::Result<Survey> {
    let size = image.size()?;
    if let Some(part) = whole(image, size)? {
        return Ok(Survey { parts: vec![part], more: false });
    }
    let mut search = Search { image, size, ..Search::new(image) };
    search.run()?;
    search.parts()
}

impl Survey {
    /// Returns the stretches between the parts that are more than padding. Fails if the file cannot be
    /// read.
    pub fn unknown(&self, image: &dyn ReadAt) -> io::Result<Vec<Unknown>> {
        let size = image.size()?;
        let mut at = 0;
        let mut stretches = Vec::new();
        let known = self.parts.iter().map(|part| (part.offset, part.end()));
        for (next, end) in known.chain([(size, size)]) {
            let (offset, length) = (at, next.saturating_sub(at));
            at = end.max(at);
            if length == 0 || is_padding(image, offset, offset + length)? {
                continue;
            }
            let len = usize::try_from(length).unwrap_or(usize::MAX).min(magic::LOOK);
            let mut start = vec![0; len];
            image.read_exact_at(&mut start, offset)?;
            let looks_like = magic::recognise(&start).map(|known| known.name);
            stretches.push(Unknown { offset, length, looks_like });
        }
        Ok(stretches)
    }
}

/// What begins at the start of a file and leaves no room for anything else.
fn whole(image: &dyn ReadAt, size: u64) -> io::Result<Option<Part>> {
    let mut start = vec![0; OVERLAP.min(usize::try_from(size).unwrap_or(OVERLAP))];
    image.read_exact_at(&mut start, 0)?;
    if let Some((leb_size, lebs)) = superblock(&start)
        && u64::from(leb_size) * u64::from(lebs) >= size
    {
        return Ok(Some(Part { offset: 0, length: size, kind: Kind::Ubifs { leb_size } }));
    }
    if let Some(part) = read_only(image, 0, size)?
        && is_padding(image, part.end(), size)?
    {
        return Ok(Some(Part { length: size, ..part }));
    }
    if Header::decode(image, &start, 0)?.is_none() {
        return Ok(None);
    }
    Ok(locate::only_image(image)?.map(|one| Part { offset: 0, length: size, kind: ubi(&one) }))
}

/// The file system that is only read and begins at an offset.
fn read_only(image: &dyn ReadAt, offset: u64, size: u64) -> io::Result<Option<Part>> {
    let Some((reader, extent)) = formats::reader_at(image, offset)? else { return Ok(None) };
    let length = extent.length.min(size - offset);
    Ok(Some(Part { offset, length, kind: Kind::Read { format: reader.format() } }))
}

/// Returns whether nothing but zeros or erased bytes is between two places.
fn is_padding(image: &dyn ReadAt, from: u64, to: u64) -> io::Result<bool> {
    let mut bytes = vec![0; 1 << 16];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(bytes.len());
        image.read_exact_at(&mut bytes[..len], at)?;
        if !bytes[..len].iter().all(|byte| matches!(byte, 0 | 0xFF)) {
            return Ok(false);
        }
        at += len as u64;
    }
    Ok(true)
}

fn ubi(extent: &Extent) -> Kind {
    Kind::Ubi { peb_size: extent.peb_size, image_seq: extent.image_seq }
}

/// Sizes in a valid superblock node at the start of `bytes`: of a LEB, and how many there are.
fn superblock(bytes: &[u8]) -> Option<(u32, u32)> {
    if !magic::is_ubifs(bytes) {
        return None;
    }
    let at = Location::Leb(Leb::new(0), 0);
    let node = decode::node(bytes, &Limits::unknown(1 << 20), at).ok()?;
    let superblock = node.superblock().ok()?;
    let is_possible = superblock.leb_size >= 4096 && superblock.leb_cnt > 0;
    is_possible.then_some((superblock.leb_size, superblock.leb_cnt))
}

/// One pass over a file.
struct Search<'a> {
    image: &'a dyn ReadAt,
    size: u64,
    headers: Vec<Header>,
    ubifs: Vec<Part>,
    jffs2: Vec<Part>,
    /// File systems that are only read.
    read: Vec<Part>,
    yaffs: Vec<Part>,
    /// Headers of YAFFS objects that led to none.
    tries: u32,
    /// The last JFFS2 node: where it begins and ends.
    node: (u64, u64),
    more: bool,
}

impl<'a> Search<'a> {
    fn new(image: &'a dyn ReadAt) -> Self {
        Self {
            image,
            size: 0,
            headers: Vec::new(),
            ubifs: Vec::new(),
            jffs2: Vec::new(),
            read: Vec::new(),
            yaffs: Vec::new(),
            tries: 0,
            node: (0, 0),
            more: false,
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let needles: [&[u8]; 4] = [b"UBI#", &NODE_MAGIC.to_le_bytes(), b"\x85\x19", b"\x19\x85"];
        let finders = needles.map(memmem::Finder::new);
        let readers: Vec<(Magic, &dyn Reader)> = formats::magics().collect();
        let others: Vec<_> =
            readers.iter().map(|(magic, _)| memmem::Finder::new(magic.bytes)).collect();
        let yaffs = HEADER_MAGICS.each_ref().map(memmem::Finder::new);
        let mut buffer = vec![0; WINDOW + OVERLAP];
        let mut hits: Vec<usize> = Vec::new();
        let mut start = 0;
        while start < self.size {
            // Zeros are the beginning of nothing. What begins before the next data begins in a window
            // that ends with it.
            let data = self.image.next_data(start)?;
            if data >= start.saturating_add(2 * WINDOW as u64) {
                start = (data - WINDOW as u64).min(self.size);
                continue;
            }
            let rest = usize::try_from(self.size - start).unwrap_or(usize::MAX);
            let window = &mut buffer[..rest.min(WINDOW + OVERLAP)];
            self.image.read_exact_at(window, start)?;
            hits.clear();
            for (finder, needle) in finders.iter().zip(needles) {
                // A magic that only begins in this window is one of this window, too.
                let seen = &window[..(WINDOW + needle.len() - 1).min(window.len())];
                hits.extend(finder.find_iter(seen));
            }
            hits.sort_unstable();
            for at in &hits {
                self.look(&window[*at..], start + *at as u64)?;
            }
            for (finder, (magic, reader)) in others.iter().zip(&readers) {
                let seen = &window[..(WINDOW + magic.bytes.len() - 1).min(window.len())];
                for at in finder.find_iter(seen) {
                    self.reader(*reader, *magic, start + at as u64)?;
                }
            }
            for finder in &yaffs {
                let seen = &window[..(WINDOW + finder.needle().len() - 1).min(window.len())];
                for at in finder.find_iter(seen) {
                    self.yaffs_header(start + at as u64)?;
                }
            }
            start += WINDOW as u64;
        }
        Ok(())
    }

    /// Looks for a YAFFS around what may be the header of one of its objects.
    fn yaffs_header(&mut self, at: u64) -> io::Result<()> {
        let Some(page) = at.checked_sub(HEADER_MAGIC_AT) else { return Ok(()) };
        // A type of an object, in either byte order.
        let mut kind = [0; 4];
        self.image.read_exact_at(&mut kind, page)?;
        let is_kind = matches!(kind, [1..=5, 0, 0, 0] | [0, 0, 0, 1..=5]);
        if !is_kind || covers(&self.yaffs, page) || covers(&self.read, page) {
            return Ok(());
        }
        if self.tries == MAX_TRIES {
            self.more = true;
            return Ok(());
        }
        let floor = self.yaffs.last().map_or(0, Part::end);
        let Some(found) = eraseblock_yaffs::locate(self.image, page, floor)? else {
            self.tries += 1;
            return Ok(());
        };
        let version = match found.layout.version {
            Version::Yaffs1 => 1,
            Version::Yaffs2 => 2,
        };
        let kind = Kind::Yaffs { version };
        push(
            &mut self.yaffs,
            Part { offset: found.start, length: found.length, kind },
            &mut self.more,
        );
        self.yaffs.sort_unstable_by_key(|part| part.offset);
        Ok(())
    }

    /// Judges what begins with a magic number.
    fn look(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some((order, header)) = scan::header_order(bytes) {
            self.jffs2_node(order, header.totlen, offset)?;
        } else if self.is_in_jffs2_node(offset) {
            return Ok(());
        } else if let Some((leb_size, lebs)) = superblock(bytes) {
            self.superblock(offset, leb_size, lebs)?;
        } else if let Some(header) = Header::decode(self.image, bytes, offset)?
            && !self.is_in_data_node(offset)?
        {
            self.more |= self.headers.len() == MAX_HEADERS;
            if self.headers.len() < MAX_HEADERS {
                self.headers.push(header);
            }
        }
        Ok(())
    }

    fn superblock(&mut self, offset: u64, leb_size: u32, lebs: u32) -> io::Result<()> {
        let inside = self.ubifs.last().is_some_and(|part| part.contains(offset));
        if inside || self.is_in_data_node(offset)? {
            return Ok(());
        }
        let length = (u64::from(leb_size) * u64::from(lebs)).min(self.size - offset);
        let part = Part { offset, length, kind: Kind::Ubifs { leb_size } };
        push(&mut self.ubifs, part, &mut self.more);
        Ok(())
    }

    /// Judges what has the magic number of a reader at `at`.
    fn reader(&mut self, reader: &dyn Reader, magic: Magic, at: u64) -> io::Result<()> {
        let Some(offset) = at.checked_sub(magic.at) else { return Ok(()) };
        if covers(&self.read, offset) || self.is_in_data_node(offset)? {
            return Ok(());
        }
        let Some(extent) = reader.probe(self.image, offset)? else { return Ok(()) };
        let length = extent.length.min(self.size - offset);
        let part = Part { offset, length, kind: Kind::Read { format: reader.format() } };
        push(&mut self.read, part, &mut self.more);
        self.read.sort_unstable_by_key(|part| part.offset);
        Ok(())
    }

    /// Adds a node to the JFFS2 that it continues, or begins one.
    fn jffs2_node(&mut self, order: ByteOrder, length: u32, offset: u64) -> io::Result<()> {
        if self.is_in_jffs2_node(offset) {
            return Ok(());
        }
        let end = offset.saturating_add(pad(length).unwrap_or(length).into()).min(self.size);
        self.node = (offset, end);
        let big_endian = order == ByteOrder::Big;
        if let Some(part) = self.jffs2.last().copied()
            && part.kind == (Kind::Jffs2 { big_endian })
            && (offset - part.offset).is_multiple_of(4)
            && (offset.saturating_sub(part.end()) < JFFS2_GAP
                || self.erased_until(part.end(), offset)? == offset)
            && let Some(last) = self.jffs2.last_mut()
        {
            last.length = last.length.max(end - last.offset);
            return Ok(());
        }
        let part = Part { offset, length: end - offset, kind: Kind::Jffs2 { big_endian } };
        push(&mut self.jffs2, part, &mut self.more);
        Ok(())
    }

    fn is_in_jffs2_node(&self, offset: u64) -> bool {
        let (start, end) = self.node;
        offset > start && offset < end && end - start <= JFFS2_DATA_NODE
    }

    /// Returns whether a whole UBIFS data node holds the bytes at `offset`: then they are data of a
    /// file.
    fn is_in_data_node(&self, offset: u64) -> io::Result<bool> {
        let Some(start) = offset.checked_sub(DATA_HEADER) else { return Ok(false) };
        let len = (self.size - start).min(DATA_HEADER + 4096);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.image.read_exact_at(&mut bytes, start)?;
        let node = decode::node(&bytes, &Limits::unknown(1 << 20), Location::Byte(start));
        Ok(node.is_ok_and(|node| node.header.node_type == NodeType::Data))
    }

    /// Where the bytes from one place to another stop to be erased.
    fn erased_until(&self, from: u64, to: u64) -> io::Result<u64> {
        let mut bytes = vec![0; 1 << 16];
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(bytes.len());
            self.image.read_exact_at(&mut bytes[..len], at)?;
            if !is_erased(&bytes[..len]) {
                let run = bytes[..len].iter().take_while(|byte| **byte == 0xFF).count();
                return Ok(at + run as u64);
            }
            at += len as u64;
        }
        Ok(to)
    }

    /// Puts together what was found. A UBI is proven by many headers, a YAFFS by the tags of its pages, a
    /// UBIFS by one header, and a node of JFFS2 may be anywhere: in this order they win.
    fn parts(mut self) -> io::Result<Survey> {
        let located = locate::locate(self.image, &self.headers)?;
        let more = self.more || located.more;
        let of_ubi =
            |one: &Extent| Part { offset: one.start, length: one.end - one.start, kind: ubi(one) };
        let mut parts: Vec<Part> = located.images.iter().map(of_ubi).collect();
        // The first LEB of a volume whose block lost its headers is still no image of its own.
        self.ubifs.retain(|part| match part.kind {
            Kind::Ubifs { leb_size } => {
                !located.images.iter().any(|ubi| ubi.is_data_start(part.offset, leb_size))
            }
            _ => true,
        });
        // Files of a YAFFS or of a file system that is only read may be images.
        let mut read = std::mem::take(&mut self.read);
        let yaffs = std::mem::take(&mut self.yaffs);
        read.retain(|part| !yaffs.iter().any(|outer| holds(outer, part)));
        let outside = |part: &Part| !read.iter().any(|outer| holds(outer, part));
        let yaffs: Vec<Part> = yaffs.into_iter().filter(outside).collect();
        read.extend(yaffs);
        read.sort_unstable_by_key(|part| part.offset);
        parts.retain(|ubi| !read.iter().any(|outer| holds(outer, ubi)));
        for kind in [read, std::mem::take(&mut self.ubifs), std::mem::take(&mut self.jffs2)] {
            let found: Vec<Part> = kind
                .into_iter()
                .filter(|part| !covers(&parts, part.offset))
                .map(|part| cut(part, &parts))
                .collect();
            parts.extend(found);
            parts.sort_unstable_by_key(|part| part.offset);
        }
        for index in 0..parts.len() {
            let limit = parts.get(index + 1).map_or(self.size, |next| next.offset);
            if let Kind::Jffs2 { .. } = parts[index].kind {
                let end = self.erased_until(parts[index].end(), limit)?;
                parts[index].length = end - parts[index].offset;
            }
        }
        Ok(Survey { parts, more })
    }
}

/// Returns whether a part holds another one, which begins later.
fn holds(outer: &Part, inner: &Part) -> bool {
    outer.offset < inner.offset && outer.end() >= inner.end()
}

/// Returns whether a part, of some in ascending order, covers an offset.
fn covers(parts: &[Part], offset: u64) -> bool {
    let after = parts.partition_point(|part| part.offset <= offset);
    after.checked_sub(1).is_some_and(|index| parts[index].contains(offset))
}

/// The part up to where the next one of some in ascending order begins.
fn cut(part: Part, parts: &[Part]) -> Part {
    let next = parts.get(parts.partition_point(|other| other.offset <= part.offset));
    let length = next.map_or(part.length, |next| part.length.min(next.offset - part.offset));
    Part { length, ..part }
}

fn push(parts: &mut Vec<Part>, part: Part, more: &mut bool) {
    if parts.len() < MAX_PARTS { parts.push(part) } else { *more = true }
}
