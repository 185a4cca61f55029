//! Creates nodes for everything, in the order of the plan: the root, then the names of each
//! directory, each followed by its inode at its first name (spec: jffs2 5 to 7).
//!
//! A directory's attributes are version 1, its names follow; a file's nodes count from 1. Times of
//! directories are repeated in their names if one number can express them.

use super::blocks::Blocks;
use super::compress::{Engines, cut};
use super::content::Piece;
use super::error::MkfsError;
use super::options::MkfsOptions;
use super::plan::{Plan, StoredXattr, shape, xattrs};
use super::report::{MkfsReport, Progress};
use crate::mount::NodeCounts;
use eraseblock_jffs2_format::constants::{INODE_LEN, compression, pad};
use eraseblock_jffs2_format::{ByteOrder, Dirent, Inode, Xattr, Xref, device_bytes, encode};
use eraseblock_vfs::Timestamp;
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode};
use std::collections::HashMap;
use std::io::Write;

/// The minimum payload for which a page is cut (spec: jffs2 21.1).
const CUT_LEAST: u32 = 128;
/// Bytes of the summary record of an INODE node.
const INODE_RECORD: u32 = 18;

/// Creates nodes and adds them to blocks.
pub(super) struct Writer<'a, 't> {
    plan: &'a Plan<'t>,
    options: &'a MkfsOptions,
    order: ByteOrder,
    blocks: Blocks<'a>,
    engines: Engines,
    next_step: usize,
    /// The last version used in each directory.
    versions: HashMap<NodeId, u32>,
    pairs: HashMap<StoredXattr, u32>,
    next_xid: u32,
    xseqno: u32,
    /// The file whose content is being written.
    file: OpenFile,
    report: MkfsReport,
    node: Vec<u8>,
}

/// A file being written.
#[derive(Default)]
struct OpenFile {
    /// The fields of all its nodes; `version` is that of the last one.
    inode: Inode,
    /// Pending zeros: offset and length.
    hole: (u32, u32),
}

impl<'a, 't> Writer<'a, 't> {
    pub(super) fn new(
        plan: &'a Plan<'t>,
        options: &'a MkfsOptions,
        out: &'a mut (dyn Write + Send),
    ) -> Result<Self, MkfsError> {
        let base = options.base;
        let root_version = base.map_or(0, |base| base.root_version);
        Ok(Self {
            plan,
            options,
            order: options.order,
            blocks: Blocks::new(shape(options), out),
            engines: Engines::new(&options.compression)?,
            next_step: 0,
            versions: HashMap::from([(NodeId::ROOT, root_version)]),
            pairs: HashMap::new(),
            next_xid: base.map_or(1, |base| base.xid.saturating_add(1)),
            xseqno: base.map_or(0, |base| base.xseqno & !1),
            file: OpenFile::default(),
            report: MkfsReport {
                inodes: plan.inodes,
                names: plan.steps.len() as u64,
                content_bytes: plan.content_bytes,
                highest_ino: plan.highest_ino,
                ..MkfsReport::default()
            },
            node: Vec::new(),
        })
    }

    /// Writes the pieces of a batch, and the names and inodes before them.
    pub(super) fn contents(
        &mut self,
        batch: &[Piece],
        progress: &(dyn Progress + Sync),
    ) -> Result<(), MkfsError> {
        for piece in batch {
            if piece.offset == 0 {
                self.steps_up_to(Some(piece.id))?;
                let inode = common(self.plan, piece.id);
                self.file = OpenFile { inode, hole: (0, 0) };
            }
            self.piece(piece)?;
            progress.advance(piece.len as u64);
            if piece.is_last {
                self.hole()?;
                self.attributes(piece.id)?;
            }
        }
        Ok(())
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result<MkfsReport, MkfsError> {
        self.steps_up_to(None)?;
        self.blocks.finish(self.options.padding)?;
        let mut report = self.report;
        report.image_bytes = self.blocks.written();
        report.blocks = self.blocks.count();
        report.nodes.summaries = self.blocks.summaries();
        if self.options.cleanmarker > 0 {
            report.nodes.cleanmarkers = report.blocks.into();
        }
        Ok(report)
    }

    /// Names, and inodes without content, up to the first name of the file `end`, whose content
    /// comes next.
    fn steps_up_to(&mut self, end: Option<NodeId>) -> Result<(), MkfsError> {
        if self.next_step == 0 && self.options.base.is_none() && self.report.nodes.inodes == 0 {
            self.inode(NodeId::ROOT)?;
        }
        while let Some(step) = self.plan.steps.get(self.next_step).copied() {
            self.next_step += 1;
            self.name(step.dir, step.name, step.target)?;
            if !step.is_first {
                continue;
            }
            if Some(step.target) == end {
                break;
            }
            self.inode(step.target)?;
        }
        Ok(())
    }

    fn counts(&mut self) -> &mut NodeCounts {
        &mut self.report.nodes
    }

    /// Adds the finished node to a block.
    fn put(&mut self) -> Result<(), MkfsError> {
        let fits = self.blocks.place(&self.node)?;
        assert!(fits, "no node is longer than what plan and cut allow");
        self.node.clear();
        Ok(())
    }

    fn name(&mut self, dir: NodeId, name: &[u8], target: NodeId) -> Result<(), MkfsError> {
        let parent = self.plan.tree.node(dir);
        let (mtime, ctime) = (seconds(parent.mtime), seconds(parent.ctime));
        let version = self.versions.entry(dir).or_insert(1);
        *version = version.saturating_add(1);
        let dirent = Dirent {
            pino: self.plan.ino(dir),
            version: *version,
            ino: self.plan.ino(target),
            mctime: if mtime == ctime { mtime } else { 0 },
            file_type: (mode(self.plan.tree.node(target)) >> 12) as u8,
            name,
        };
        encode::dirent(self.order, &dirent, &mut self.node);
        self.counts().entries += 1;
        self.put()
    }

    /// Writes an inode without content, and its xattrs.
    fn inode(&mut self, id: NodeId) -> Result<(), MkfsError> {
        let mut inode = Inode { version: 1, ..common(self.plan, id) };
        let data = match &self.plan.tree.node(id).kind {
            SourceKind::Symlink(target) => {
                inode.isize = target.len() as u32;
                target.clone()
            }
            SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor) => {
                device_bytes(self.order, *major, *minor).expect("the plan has checked it")
            }
            _ => Vec::new(),
        };
        inode.dsize = data.len() as u32;
        if id == NodeId::ROOT {
            self.versions.insert(id, 1);
        }
        encode::inode(self.order, &inode, &data, &mut self.node);
        self.counts().inodes += 1;
        self.put()?;
        self.attributes(id)
    }

    /// Writes XATTR nodes of new pairs, and XREF nodes (spec: jffs2 10).
    fn attributes(&mut self, id: NodeId) -> Result<(), MkfsError> {
        let stored = xattrs(self.plan.tree.node(id), self.order).expect("the plan has checked it");
        for pair in stored {
            let xid = match self.pairs.get(&pair) {
                Some(xid) => *xid,
                None => self.pair(pair)?,
            };
            self.xseqno = self.xseqno.wrapping_add(2);
            let xref = Xref { ino: self.plan.ino(id), xid, xseqno: self.xseqno };
            encode::xref(self.order, &xref, &mut self.node);
            self.counts().xrefs += 1;
            self.put()?;
        }
        Ok(())
    }

    fn pair(&mut self, pair: StoredXattr) -> Result<u32, MkfsError> {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(1);
        let node = Xattr { xid, version: 1, prefix: pair.0, name: &pair.1, value: &pair.2 };
        encode::xattr(self.order, &node, &mut self.node);
        self.pairs.insert(pair, xid);
        self.counts().xattrs += 1;
        self.put()?;
        Ok(xid)
    }

    fn piece(&mut self, piece: &Piece) -> Result<(), MkfsError> {
        let page_size = self.options.page_size as usize;
        let mut stored = &piece.stored[..];
        let mut offset = piece.offset as u32;
        for (page, data) in piece.pages.iter().zip(piece.content.chunks(page_size)) {
            let len = data.len() as u32;
            match page.number {
                compression::ZERO if self.file.hole.1 > 0 => self.file.hole.1 += len,
                compression::ZERO => self.file.hole = (offset, len),
                compression::NONE => {
                    self.hole()?;
                    self.page(offset, data, None)?;
                }
                number => {
                    self.hole()?;
                    let (own, rest) = stored.split_at(page.len);
                    stored = rest;
                    self.page(offset, data, Some((number, own)))?;
                }
            }
            offset = offset.wrapping_add(len);
        }
        Ok(())
    }

    /// Writes the pending zeros: one node without payload for any number of pages.
    fn hole(&mut self) -> Result<(), MkfsError> {
        let (offset, len) = std::mem::take(&mut self.file.hole);
        if len == 0 {
            return Ok(());
        }
        self.data(offset, len, compression::ZERO, &[])
    }

    /// Writes a page of content, compressed if there is space for that.
    fn page(
        &mut self,
        offset: u32,
        data: &[u8],
        made: Option<(u8, &[u8])>,
    ) -> Result<(), MkfsError> {
        let (number, stored) = made.unwrap_or((compression::NONE, data));
        if self.fits(stored.len()) {
            return self.data(offset, data.len() as u32, number, stored);
        }
        self.cut(offset, data, made.map(|(number, stored)| (number, stored.to_vec())))
    }

    /// Writes a page that must be cut at the end of a block.
    fn cut(
        &mut self,
        mut offset: u32,
        mut data: &[u8],
        mut made: Option<(u8, Vec<u8>)>,
    ) -> Result<(), MkfsError> {
        while !data.is_empty() {
            let (number, stored) =
                made.as_ref().map_or((compression::NONE, data), |made| (made.0, &made.1));
            if self.fits(stored.len()) {
                return self.data(offset, data.len() as u32, number, stored);
            }
            let room = self.blocks.room(INODE_RECORD).saturating_sub(INODE_LEN) & !3;
            if room < CUT_LEAST {
                self.blocks.next()?;
                continue;
            }
            let whole = made.as_ref().map(|made| made.1.len());
            let (taken, number, stored) = cut(&mut self.engines, data, whole, room as usize)?;
            data = &data[taken..];
            let rest = self.engines.compress(data, data.len())?;
            made = rest.map(|(number, stored)| (number, stored.to_vec()));
            self.data(offset, taken as u32, number, &stored)?;
            offset += taken as u32;
        }
        Ok(())
    }

    /// Returns whether a data node with this payload fits into the block.
    fn fits(&self, payload: usize) -> bool {
        let needed = pad(INODE_LEN + payload as u32);
        needed.is_some_and(|needed| needed <= self.blocks.room(INODE_RECORD))
    }

    fn data(
        &mut self,
        offset: u32,
        dsize: u32,
        number: u8,
        stored: &[u8],
    ) -> Result<(), MkfsError> {
        self.file.inode.version += 1;
        let inode = Inode { offset, dsize, compression: number, ..self.file.inode };
        encode::inode(self.order, &inode, stored, &mut self.node);
        self.report.stored_bytes += stored.len() as u64;
        self.counts().inodes += 1;
        let row = &mut self.counts().compressors;
        row[usize::from(number)] += 1;
        self.put()
    }
}

/// Returns the fields of all nodes of an inode.
fn common(plan: &Plan<'_>, id: NodeId) -> Inode {
    let node = plan.tree.node(id);
    let size = match &node.kind {
        SourceKind::Regular(content) => content.size() as u32,
        _ => 0,
    };
    Inode {
        ino: plan.ino(id),
        mode: mode(node),
        uid: node.uid as u16,
        gid: node.gid as u16,
        isize: size,
        atime: seconds(node.atime),
        mtime: seconds(node.mtime),
        ctime: seconds(node.ctime),
        ..Inode::default()
    }
}

fn mode(node: &SourceNode) -> u32 {
    let kind = match node.kind {
        SourceKind::Fifo => 0o010_000,
        SourceKind::CharDevice(..) => 0o020_000,
        SourceKind::Directory(_) => 0o040_000,
        SourceKind::BlockDevice(..) => 0o060_000,
        SourceKind::Regular(_) => 0o100_000,
        SourceKind::Symlink(_) => 0o120_000,
        SourceKind::Socket => 0o140_000,
    };
    kind | (node.permissions & 0o7777)
}

/// Whole seconds since 1970, as far as 32 bits go.
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX)
}
