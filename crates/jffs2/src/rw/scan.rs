//! Finds all nodes in one pass over all blocks at mount (spec: jffs2 12.2 to 12.4).
//!
//! Layer: next to the operations, but uses only data. `build` decides what the nodes mean.
//!
//! # Invariants
//! 1. Bytes that are no node, or that only a power cut explains, count as dirty, never as free.
//! 2. A node known from a summary alone is unchecked: nothing of it has been read.

use super::blocks::Blocks;
use super::flash::{Flash, Marker};
use super::inodes::Inodes;
use super::nodelist::{NodeRef, RefKind, RefState};
use super::options::{MountReport, RwOptions};
use super::suspect::Page;
use crate::codes;
use crate::damage::{Unassigned, is_remains, is_torn};
use crate::error::Jffs2Error;
use crate::scan::make_room;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Finding, Location, Peb, Severity};
use eraseblock_jffs2_format::constants::{SUMMARY_MARKER_LEN, pad};
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::summary::{self, RecordNode};
use eraseblock_jffs2_format::{FormatError, Header, NodeKind, UnknownClass, decode};
use eraseblock_mtd::ReadOutcome;

/// Number of bytes read before a block may be treated as empty.
const FIRST_LOOK: u32 = 256;
/// Number of bytes that must be erased in a block with a cleanmarker to treat it as empty.
const MARKED_LOOK: u32 = FIRST_LOOK / 8;

/// The state of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Marked bad.
    Bad,
    /// Erased, with its cleanmarker if the medium has them.
    EmptyMarked,
    /// Erased, but the cleanmarker is missing.
    AllErased,
    /// Something else.
    Content,
    /// Something else, and its free space cannot be trusted.
    Suspicious,
    /// Only the traces of an interrupted erase, an interrupted cleanmarker, or a failed first
    /// program after a cleanmarker.
    Debris,
    /// No cleanmarker, and nothing that can be read.
    Unreadable,
}

/// A name found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedName {
    pub(crate) dir: u32,
    pub(crate) version: u32,
    pub(crate) ino: u32,
    pub(crate) place: u32,
    /// The offset of its length in the text; its bytes follow.
    start: u32,
}

const _: () = assert!(size_of::<ScannedName>() == 20);

/// Names found.
#[derive(Debug, Default)]
pub(crate) struct ScannedNames {
    pub(crate) list: Vec<ScannedName>,
    pub(crate) text: ScannedText,
}

/// The bytes of names found, each preceded by its length.
#[derive(Debug, Default)]
pub(crate) struct ScannedText(Vec<u8>);

impl ScannedText {
    pub(crate) fn bytes(&self, name: &ScannedName) -> &[u8] {
        let start = name.start as usize;
        &self.0[start + 1..][..usize::from(self.0[start])]
    }
}

/// A node of unknown type that forbids writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoWrite {
    pub(crate) at: Location,
    pub(crate) node_type: u16,
}

/// Everything found, in flash order.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    flash: &'a Flash,
    read_only: bool,
    pub(crate) blocks: Blocks,
    pub(crate) classes: Vec<Class>,
    /// Inodes that have a node, with their INODE nodes.
    pub(crate) inodes: Inodes,
    pub(crate) names: ScannedNames,
    /// Sum of the versions of all nodes of inodes and names.
    pub(crate) versions: u64,
    pub(crate) pairs: Vec<u32>,
    pub(crate) references: Vec<u32>,
    /// Pages that were programmed last.
    pub(crate) suspects: Vec<Page>,
    /// Damaged nodes that may belong to any file.
    pub(crate) unassigned: Unassigned,
    /// A node says that content was lost before.
    pub(crate) has_damage_marker: bool,
    /// A node forbids writing.
    pub(crate) no_write: Option<NoWrite>,
    pub(crate) report: MountReport,
}

/// Scans the medium.
pub(crate) fn scan<'a>(flash: &'a Flash, options: &RwOptions) -> Result<Scan<'a>, Jffs2Error> {
    let mut scan = Scan {
        flash,
        read_only: options.read_only,
        blocks: Blocks::new(flash.block, flash.count),
        classes: Vec::with_capacity(flash.count as usize),
        inodes: Inodes::default(),
        names: ScannedNames::default(),
        versions: 0,
        pairs: Vec::new(),
        references: Vec::new(),
        suspects: Vec::new(),
        unassigned: Unassigned::default(),
        has_damage_marker: false,
        no_write: None,
        report: MountReport::default(),
    };
    let mut buf = vec![0; flash.block as usize];
    for block in 0..flash.count {
        let class = scan.block(block, &mut buf)?;
        scan.classes.push(class);
        scan.blocks.shrink_block(block);
    }
    Ok(scan)
}

impl Scan<'_> {
    fn read(&mut self, place: u32, buf: &mut [u8]) -> Result<ReadOutcome, Jffs2Error> {
        self.report.bytes_read += buf.len() as u64;
        Ok(self.flash.read(place, buf)?)
    }

    fn block(&mut self, block: u32, buf: &mut [u8]) -> Result<Class, Jffs2Error> {
        if self.flash.is_bad(block)? {
            return Ok(Class::Bad);
        }
        let size = self.flash.block;
        self.blocks.resize(block, |sizes| sizes.dirty = size);
        let marked = self.flash.is_oob_marked(block)?;
        if self.by_summary(block, buf)? {
            return Ok(Class::Content);
        }
        let start = self.flash.start(block);
        let first = FIRST_LOOK.min(size) as usize;
        let mut outcome = self.read(start, &mut buf[..first])?;
        let empty = is_erased(&buf[..first]);
        if empty {
            // An erase that a cut interrupted: bytes read as erased, but the out-of-band area or
            // bit flips show that they are not.
            if !self.flash.is_oob_erased(block, marked)? || outcome != ReadOutcome::CLEAN {
                return Ok(Class::Debris);
            }
            let unmarked = match self.flash.marker {
                Marker::None => false,
                Marker::InBand(_) => true,
                Marker::Oob(_) => !marked,
            };
            self.free_from(block, 0);
            return Ok(if unmarked { Class::AllErased } else { Class::EmptyMarked });
        }
        if self.is_fresh(block, &buf[..first]) {
            self.nodes(block, buf, size)?;
        } else {
            outcome = outcome.merge(self.read(start + first as u32, &mut buf[first..])?);
            self.whole(block, buf, outcome)?;
        }
        // A cut in the first program after the cleanmarker, or in an erase: nothing was ever durable.
        let torn = outcome.uncorrectable || marked && self.flash.has_header(block, buf);
        if torn && self.blocks.get(block).live() == 0 {
            return Ok(if marked { Class::Debris } else { Class::Unreadable });
        }
        if outcome != ReadOutcome::CLEAN {
            // Bit flips may come from a torn program in what looks like free space.
            return Ok(Class::Suspicious);
        }
        let entry = self.blocks.get(block);
        let cms = pad(self.flash.cleanmarker()).unwrap_or(0);
        let cut = (cms as usize).min(first);
        // A cut while the cleanmarker was programmed.
        if entry.live() == 0 && cut > 0 && is_erased(&buf[cut..]) {
            return Ok(Class::Debris);
        }
        let only_marker = entry.live() == cms && cms > 0 && entry.sizes.dirty == 0;
        Ok(if only_marker && entry.refs.len() <= 1 { Class::EmptyMarked } else { Class::Content })
    }

    /// Returns whether a block starts with its cleanmarker, followed by nothing as far as Linux
    /// looks.
    fn is_fresh(&self, block: u32, head: &[u8]) -> bool {
        let cms = self.flash.cleanmarker();
        let at = Location::peb(Peb::new(block));
        let Ok(header) = decode::header(self.flash.order, head, at) else { return false };
        let look = MARKED_LOOK.max(cms) as usize;
        header.kind() == NodeKind::Cleanmarker
            && header.is_accurate()
            && header.totlen == cms
            && head.get(cms as usize..look).is_some_and(is_erased)
            && cms < look as u32
    }

    /// Marks everything from `offset` as free.
    fn free_from(&mut self, block: u32, offset: u32) {
        let free = self.flash.block - offset;
        self.blocks.resize(block, |sizes| {
            sizes.dirty -= free;
            sizes.free = free;
        });
    }

    /// Returns the start of the page that was programmed last, if the block is not full. A torn
    /// node may claim more than exists, so erased bytes count, not free ones.
    fn last_page(&self, bytes: &[u8]) -> Option<u32> {
        let page = self.flash.page;
        let last = bytes.iter().rposition(|byte| *byte != 0xFF)?;
        let start = last as u32 / page * page;
        (self.flash.has_buffer() && start + page < self.flash.block).then_some(start)
    }

    /// Adds the nodes of a block that was read completely. A node that touches the page programmed
    /// last and is uncorrectable was never durable: its bits may read correctly now and not the
    /// next time, and a deletion must not survive without the new name before it. If a page is read
    /// again for this, the second read counts, with its outcome.
    fn whole(
        &mut self,
        block: u32,
        bytes: &mut [u8],
        outcome: ReadOutcome,
    ) -> Result<(), Jffs2Error> {
        let start = self.flash.start(block);
        let Some(last) = self.last_page(bytes) else {
            return self.nodes(block, bytes, self.flash.block);
        };
        let page = &mut bytes[last as usize..(last + self.flash.page) as usize];
        if outcome.uncorrectable && self.read(start + last, page)?.uncorrectable {
            return self.nodes(block, bytes, last);
        }
        self.suspects.push(Page { place: start + last, bytes: (&*page).into() });
        self.nodes(block, bytes, self.flash.block)
    }

    /// Adds a live node to the block.
    fn add(&mut self, block: u32, node: NodeRef) {
        self.blocks.get_mut(block).refs.push(node);
        let len = node.len();
        self.blocks.resize(block, |sizes| {
            sizes.dirty -= len;
            match node.state() {
                RefState::Unchecked => sizes.unchecked += len,
                _ => sizes.used += len,
            }
        });
    }

    /// Adds a node that is kept and copied unchanged. No summary can list it, and so its block gets
    /// none.
    fn add_copied(&mut self, block: u32, place: u32, len: u32) {
        self.add(block, NodeRef::new(place, len, RefKind::Copy, 0, RefState::Normal));
    }

    /// Adds the nodes of a block that end before `end`.
    fn nodes(&mut self, block: u32, bytes: &[u8], end: u32) -> Result<(), Jffs2Error> {
        let rules = ScanRules {
            order: self.flash.order,
            cleanmarker: Some(self.flash.cleanmarker()),
            trust_empty_start: true,
        };
        let (mut dirt, mut first_dirt) = (0_u64, None);
        for item in Scanner::new(Peb::new(block), bytes, rules) {
            match item {
                Item::Node { offset, header, bytes: node } if offset + header.totlen <= end => {
                    if let Some(error) = self.node(block, offset, header, node)? {
                        let behind = bytes.get(offset as usize + node.len()..).unwrap_or_default();
                        self.damaged(&error, header.kind(), is_torn(node) || is_erased(behind));
                    }
                }
                Item::Dirt { offset, len, expected } => {
                    let bytes = &bytes[offset as usize..][..len as usize];
                    if is_remains(bytes, expected) {
                        self.unassigned.add(Location::Peb(Peb::new(block), offset));
                    }
                    if !expected {
                        dirt += u64::from(len);
                        first_dirt = first_dirt.or(Some(offset));
                    }
                }
                Item::Free { offset } => self.free_from(block, offset),
                Item::Node { .. } | Item::Obsolete { .. } => {}
            }
        }
        if let Some(offset) = first_dirt {
            let at = Location::Peb(Peb::new(block), offset);
            let message = format!("{dirt} bytes of the block are no node");
            self.report.findings.note(at, codes::NO_NODE, message);
        }
        Ok(())
    }

    /// Handles a node with a good header and bad fields or a bad name. One that a power cut tore
    /// ends in erased flash, or is the last of its block.
    fn damaged(&mut self, error: &FormatError, kind: NodeKind, is_torn: bool) {
        if kind == NodeKind::Inode {
            self.unassigned.add(error.at());
        }
        let severity = if is_torn { Severity::Note } else { Severity::Warning };
        let (at, code, message) = (error.at(), codes::NODE_DAMAGED, error.to_string());
        self.report.findings.push(Finding { severity, at, code, message });
    }

    /// Adds a node; fails if it is damaged.
    fn node(
        &mut self,
        block: u32,
        offset: u32,
        header: Header,
        bytes: &[u8],
    ) -> Result<Option<FormatError>, Jffs2Error> {
        let at = Location::Peb(Peb::new(block), offset);
        let place = self.flash.start(block) + offset;
        let room = self.flash.block - offset;
        let len = pad(header.totlen).unwrap_or(room).min(room);
        let result = match header.kind() {
            NodeKind::Inode => decode::inode(self.flash.order, bytes, at).map(|inode| {
                self.add(
                    block,
                    NodeRef::new(place, len, RefKind::Inode, inode.ino, RefState::Unchecked),
                );
                self.inode(inode.ino, inode.version, place);
            }),
            NodeKind::Dirent => decode::dirent(self.flash.order, bytes, at).map(|dirent| {
                let kind = RefKind::of_name(dirent.ino);
                self.add(block, NodeRef::new(place, len, kind, dirent.pino, RefState::Normal));
                self.name(dirent.pino, dirent.version, dirent.ino, place, dirent.name);
            }),
            NodeKind::Xattr => decode::xattr_head(self.flash.order, bytes, at).map(|(xid, _)| {
                self.add(block, NodeRef::new(place, len, RefKind::Xattr, xid, RefState::Normal));
                self.pairs.push(place);
            }),
            NodeKind::Xref => decode::xref(self.flash.order, bytes, at).map(|xref| {
                self.add(
                    block,
                    NodeRef::new(place, len, RefKind::Xref, xref.ino, RefState::Normal),
                );
                self.references.push(place);
            }),
            NodeKind::Cleanmarker => {
                self.add(block, NodeRef::new(place, len, RefKind::Filler, 0, RefState::Normal));
                Ok(())
            }
            NodeKind::DamageMarker => {
                self.add_copied(block, place, len);
                self.unassigned.add(at);
                self.has_damage_marker = true;
                Ok(())
            }
            NodeKind::Unknown(class) => {
                return self.unknown(class, block, at, header, place, len).map(|()| None);
            }
            NodeKind::Padding | NodeKind::Summary => Ok(()),
        };
        Ok(result.err())
    }

    /// Handles a node of unknown type (spec: jffs2 4.2).
    fn unknown(
        &mut self,
        class: UnknownClass,
        block: u32,
        at: Location,
        header: Header,
        place: u32,
        len: u32,
    ) -> Result<(), Jffs2Error> {
        let node_type = header.node_type;
        let refuse = |what| Err(Jffs2Error::Incompatible { at, node_type, what });
        match class {
            UnknownClass::Incompatible => refuse("mounting"),
            UnknownClass::ReadOnly if !self.read_only => refuse("mounting for writing"),
            UnknownClass::ReadOnly => {
                self.no_write = Some(NoWrite { at, node_type });
                Ok(())
            }
            UnknownClass::Copy => {
                self.add_copied(block, place, len);
                Ok(())
            }
            UnknownClass::Delete => Ok(()),
        }
    }

    fn inode(&mut self, ino: u32, version: u32, place: u32) {
        self.versions += u64::from(version);
        self.inodes.entry(ino).add_node(place, version);
    }

    fn name(&mut self, dir: u32, version: u32, ino: u32, place: u32, name: &[u8]) {
        self.versions += u64::from(version);
        let (seen, blocks) = (self.classes.len() as u32 + 1, self.flash.count);
        let text = &mut self.names.text.0;
        make_room(text, 1 + name.len(), seen, blocks);
        make_room(&mut self.names.list, 1, seen, blocks);
        let start = text.len() as u32;
        text.push(name.len() as u8);
        text.extend_from_slice(name);
        self.names.list.push(ScannedName { dir, version, ino, place, start });
    }

    /// Adds the nodes of a block from its summary, if it has a good one (spec: jffs2 12.4).
    fn by_summary(&mut self, block: u32, buf: &mut [u8]) -> Result<bool, Jffs2Error> {
        let (start, size) = (self.flash.start(block), self.flash.block);
        let tail = self.flash.page.max(SUMMARY_MARKER_LEN);
        let at = (size - tail) as usize;
        self.read(start + size - tail, &mut buf[at..])?;
        let Some(offset) = summary::marked_offset(self.flash.order, buf) else { return Ok(false) };
        if offset >= size || !offset.is_multiple_of(4) {
            return Ok(false);
        }
        if (offset as usize) < at {
            self.read(start + offset, &mut buf[offset as usize..at])?;
        }
        let found = match summary::decode(self.flash.order, buf, Peb::new(block)) {
            Ok(found) => found,
            Err(error) => {
                self.bad_summary(&error);
                return Ok(false);
            }
        };
        let cms = self.flash.cleanmarker();
        if found.cleanmarker == cms && cms > 0 {
            self.add(block, NodeRef::new(start, cms, RefKind::Filler, 0, RefState::Normal));
        }
        for record in &found.records {
            let place = start + record.offset;
            let Some(len) = pad(record.totlen) else { continue };
            match &record.node {
                RecordNode::Inode { ino, version } => {
                    self.add(
                        block,
                        NodeRef::new(place, len, RefKind::Inode, *ino, RefState::Unchecked),
                    );
                    self.inode(*ino, *version, place);
                }
                RecordNode::Dirent { pino, version, ino, name, .. } => {
                    let kind = RefKind::of_name(*ino);
                    self.add(block, NodeRef::new(place, len, kind, *pino, RefState::Unchecked));
                    self.name(*pino, *version, *ino, place, name);
                }
                RecordNode::Xattr { xid, .. } => {
                    self.add(
                        block,
                        NodeRef::new(place, len, RefKind::Xattr, *xid, RefState::Unchecked),
                    );
                    self.pairs.push(place);
                }
                RecordNode::Xref => {
                    self.add(
                        block,
                        NodeRef::new(place, len, RefKind::Xref, 0, RefState::Unchecked),
                    );
                    self.references.push(place);
                }
            }
        }
        self.add(
            block,
            NodeRef::new(start + offset, size - offset, RefKind::Filler, 0, RefState::Normal),
        );
        self.report.summaries += 1;
        Ok(true)
    }

    fn bad_summary(&mut self, error: &FormatError) {
        self.report.findings.note(error.at(), codes::SUMMARY_DAMAGED, error.to_string());
    }
}
