//! Why bytes are programmed: the parts of the write amplification.
//!
//! Blocks are programmed in ascending order, so each one is a stream of headers and nodes. A node may
//! span programs; it is counted when its end arrives.
//!
//! # Invariants
//! 1. Every programmed byte is counted once, when its node is complete or its block is erased.
//! 2. A node seen before is a copy by garbage collection. Nodes that JFFS2 merges while it collects
//!    are new ones: they count as content.

use eraseblock_base::crc::crc32_continue;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_jffs2_format::constants::node_type;
use eraseblock_jffs2_format::{ByteOrder, decode as jffs2};
use eraseblock_ubi_format::decode::decode_vid;
use eraseblock_ubi_format::types::is_internal_volume;
use eraseblock_ubi_format::{HeaderLayout, VidHeader};
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::decode::{self as ubifs, Limits};
use std::collections::{HashMap, HashSet};

/// Why bytes are programmed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Content of files.
    Content,
    /// Inodes, names and xattrs.
    Names,
    /// The index of UBIFS.
    Index,
    /// The log, the LPT, masters and orphans of UBIFS; summaries of JFFS2.
    Commit,
    /// Content, inodes and names that garbage collection copied.
    Collected,
    /// LEBs that UBI moved to level wear, or away from bit flips.
    Moved,
    /// Headers of UBI, its volume table and fastmaps; clean markers of JFFS2.
    Headers,
    /// Bytes that mean nothing.
    Padding,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Content,
        Self::Names,
        Self::Index,
        Self::Commit,
        Self::Collected,
        Self::Moved,
        Self::Headers,
        Self::Padding,
    ];

    /// Returns the words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Names => "inodes and names",
            Self::Index => "index",
            Self::Commit => "commits, log and summaries",
            Self::Collected => "garbage collection",
            Self::Moved => "wear levelling",
            Self::Headers => "headers of blocks",
            Self::Padding => "padding",
        }
    }
}

/// Bytes by cause, in the order of [`Cause::ALL`].
pub(super) type Bytes = [u64; Cause::ALL.len()];

/// The smallest node of UBIFS is its common header.
const UBIFS_HEADER: usize = 24;
/// The smallest node of JFFS2.
const JFFS2_HEADER: usize = 12;

/// The stream of one block.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// The start of a node whose end has not arrived.
    node: Vec<u8>,
    /// Bytes since the start of the data.
    at: u32,
    /// The volume and LEB, if UBI uses the block.
    leb: Option<(VolumeId, Leb)>,
    /// Bytes at the start of the data that UBI has moved.
    moved: u32,
    /// The checksum of the data up to the end of each program.
    checksums: Vec<(u32, u32)>,
}

/// Counts the bytes of each cause.
#[derive(Debug)]
pub(super) struct Causes {
    /// The layout of UBI's headers; `None` without UBI, for JFFS2.
    layout: Option<HeaderLayout>,
    streams: Vec<Stream>,
    /// The block that last got each LEB.
    lebs: HashMap<(VolumeId, Leb), Peb>,
    /// Nodes that were written before, by what identifies them.
    seen: HashSet<(u64, u32, u32)>,
    bytes: Bytes,
}

impl Causes {
    /// For a chip of so many blocks; `layout` is that of UBI's headers if UBIFS is on it.
    pub(super) fn new(blocks: u32, layout: Option<HeaderLayout>) -> Self {
        let streams = vec![Stream::default(); blocks as usize];
        let (lebs, seen) = (HashMap::new(), HashSet::new());
        Self { layout, streams, lebs, seen, bytes: Bytes::default() }
    }

    /// Returns the bytes so far; those of nodes whose end has not arrived are padding.
    pub(super) fn bytes(&self) -> Bytes {
        let mut bytes = self.bytes;
        let open = self.streams.iter().map(|stream| stream.node.len() as u64).sum::<u64>();
        bytes[Cause::Padding as usize] += open;
        bytes
    }

    fn add(&mut self, cause: Cause, bytes: usize) {
        self.bytes[cause as usize] += bytes as u64;
    }

    pub(super) fn erased(&mut self, peb: Peb) {
        let stream = std::mem::take(&mut self.streams[peb.get() as usize]);
        self.add(Cause::Padding, stream.node.len());
    }

    /// Counts a program.
    pub(super) fn programmed(&mut self, peb: Peb, offset: u32, data: &[u8]) {
        let Some(layout) = self.layout else { return self.feed(peb, data) };
        let head = layout.data_offset().saturating_sub(offset) as usize;
        let (head, data) = data.split_at(head.min(data.len()));
        self.add(Cause::Headers, head.len());
        let vid =
            layout.vid_hdr_offset().checked_sub(offset).and_then(|at| head.get(at as usize..));
        let at = Location::Peb(peb, layout.vid_hdr_offset());
        if let Some(vid) = vid.and_then(|bytes| decode_vid(bytes, &layout, at).ok()) {
            self.claimed(peb, &vid);
        }
        match self.streams[peb.get() as usize].leb {
            Some((volume, _)) if is_internal_volume(volume) => {
                self.add(Cause::Headers, data.len());
            }
            _ => self.feed(peb, data),
        }
    }

    /// A block becomes that of a LEB. UBI writes a copy of a LEB with the length and the checksum of
    /// its data, but also new content that replaces a LEB at once: the checksum decides.
    fn claimed(&mut self, peb: Peb, vid: &VidHeader) {
        let leb = (vid.volume, vid.leb);
        let before = self.lebs.insert(leb, peb).map(|peb| &self.streams[peb.get() as usize]);
        let is_copy = vid.copy_flag
            && before.is_some_and(|old| {
                old.leb == Some(leb) && old.checksums.contains(&(vid.data_size, vid.data_crc))
            });
        let stream = &mut self.streams[peb.get() as usize];
        stream.leb = Some(leb);
        stream.moved = if is_copy { vid.data_size } else { 0 };
    }

    /// Counts data of a block.
    fn feed(&mut self, peb: Peb, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let stream = &mut self.streams[peb.get() as usize];
        let (end, crc) = stream.checksums.last().copied().unwrap_or((0, 0xFFFF_FFFF));
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        stream.checksums.push((end.saturating_add(len), crc32_continue(crc, data)));
        let mut node = std::mem::take(&mut stream.node);
        node.extend_from_slice(data);
        let mut rest = &node[..];
        while let Some((cause, len)) = self.next(rest) {
            let stream = &mut self.streams[peb.get() as usize];
            let moved = (stream.moved.saturating_sub(stream.at) as usize).min(len);
            stream.at += u32::try_from(len).unwrap_or(u32::MAX);
            self.add(Cause::Moved, moved);
            self.add(cause, len - moved);
            rest = &rest[len..];
        }
        self.streams[peb.get() as usize].node = rest.to_vec();
    }

    /// Returns the cause and the length of what the bytes begin with; `None` if the end of it is
    /// missing.
    fn next(&mut self, bytes: &[u8]) -> Option<(Cause, usize)> {
        let filler = |byte: &u8| matches!(byte, 0 | 0xCE | 0xFF);
        let fill = bytes.iter().take_while(|byte| filler(byte)).count();
        match (fill, bytes.is_empty()) {
            (_, true) => None,
            (0, _) if self.layout.is_some() => self.ubifs_node(bytes),
            (0, _) => self.jffs2_node(bytes),
            // The bit-packed LPT may begin with zeros: it is nothing but that.
            (fill, _) => Some((Cause::Padding, fill)),
        }
    }

    /// A node of UBIFS. The nodes of the LPT have no header and fill their programs.
    fn ubifs_node(&mut self, bytes: &[u8]) -> Option<(Cause, usize)> {
        if bytes.len() < UBIFS_HEADER {
            return None;
        }
        let header = ubifs::header(bytes, &Limits::unknown(1 << 21), Location::Whole);
        let Ok(header) = header else { return Some((Cause::Commit, bytes.len())) };
        let len = header.len as usize;
        if bytes.len() < len {
            return None;
        }
        let cause = match header.node_type {
            NodeType::Data => Cause::Content,
            NodeType::Inode | NodeType::Dent | NodeType::Xent | NodeType::Truncation => {
                Cause::Names
            }
            NodeType::Index => Cause::Index,
            NodeType::Padding => Cause::Padding,
            _ => Cause::Commit,
        };
        Some((self.unless_seen(cause, (header.sqnum, 0, 0)), len))
    }

    fn jffs2_node(&mut self, bytes: &[u8]) -> Option<(Cause, usize)> {
        if bytes.len() < JFFS2_HEADER {
            return None;
        }
        let header = jffs2::header(ByteOrder::Little, bytes, Location::Whole);
        let Ok(header) = header else { return Some((Cause::Padding, bytes.len())) };
        let len = (header.totlen as usize).next_multiple_of(4);
        if bytes.len() < len && header.node_type != node_type::PADDING {
            return None;
        }
        let len = len.min(bytes.len());
        let cause = match header.node_type {
            node_type::INODE => return Some((self.jffs2_inode(bytes), len)),
            node_type::DIRENT => return Some((self.jffs2_dirent(bytes), len)),
            node_type::XATTR | node_type::XREF => Cause::Names,
            node_type::SUMMARY => Cause::Commit,
            node_type::CLEANMARKER => Cause::Headers,
            _ => Cause::Padding,
        };
        Some((cause, len))
    }

    fn jffs2_inode(&mut self, bytes: &[u8]) -> Cause {
        let Ok(node) = jffs2::inode(ByteOrder::Little, bytes, Location::Whole) else {
            return Cause::Padding;
        };
        if node.dsize == 0 {
            return self.unless_seen(Cause::Names, (u64::from(node.ino), node.version, 0));
        }
        let file = u64::from(node.ino) << 32 | u64::from(node.offset);
        self.unless_seen(Cause::Content, (file, node.dsize, node.data_crc))
    }

    fn jffs2_dirent(&mut self, bytes: &[u8]) -> Cause {
        match jffs2::dirent(ByteOrder::Little, bytes, Location::Whole) {
            Ok(name) => {
                let directory = u64::from(name.pino) << 32 | u64::from(name.ino);
                self.unless_seen(Cause::Names, (directory, name.version, u32::MAX))
            }
            Err(_) => Cause::Padding,
        }
    }

    /// Returns the cause, or that of a copy if the node was written before.
    fn unless_seen(&mut self, cause: Cause, node: (u64, u32, u32)) -> Cause {
        let can_be_copied = matches!(cause, Cause::Content | Cause::Names);
        if can_be_copied && !self.seen.insert(node) { Cause::Collected } else { cause }
    }
}
