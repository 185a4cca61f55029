//! Writes the nodes of inodes and names (spec: jffs2 5, 14).
//!
//! Layer: above `log` and `read`, below garbage collection and all operations. Collects no garbage:
//! callers outside of collection make space first.
//!
//! # Invariants
//! 1. An older node dies only after the node that supersedes it was written: a cut between them
//!    leaves both, and the higher version counts.
//! 2. The state in memory changes only after the node was written: a failed write changes nothing.

use super::compress::Compress;
use super::dents::Dent;
use super::inode::{Attributes, PAGE, Source};
use super::log::{Log, NewNode};
use super::nodelist::{RefKind, RefState};
use super::summary::{Listed, Summaries};
use crate::damage::Range;
use eraseblock_jffs2_format::constants::{DIRENT_LEN, INODE_LEN, compression};
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_jffs2_format::{Dirent, Inode, encode};
use eraseblock_vfs::FsError;
use std::num::NonZeroU32;

/// Minimum space for which a data node is written.
pub(crate) const MIN_DATA: u32 = INODE_LEN + 128;

/// Data of a file for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<'a> {
    pub(crate) offset: u32,
    pub(crate) dsize: u32,
    pub(crate) compression: u8,
    pub(crate) stored: &'a [u8],
}

impl<'a> Extent<'a> {
    /// The payload of a link or device, or nothing: attributes only.
    fn payload(stored: &'a [u8]) -> Self {
        let dsize = stored.len() as u32;
        Self { offset: 0, dsize, compression: compression::NONE, stored }
    }

    /// A hole.
    pub(crate) fn hole(start: u32, end: u32) -> Self {
        let dsize = end - start;
        Self { offset: start, dsize, compression: compression::ZERO, stored: &[] }
    }
}

/// A name about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewName<'a> {
    pub(crate) dir: u32,
    pub(crate) name: &'a [u8],
    /// The inode; `None` deletes the name.
    pub(crate) target: Option<Target>,
    /// The new time of the directory; `None` leaves it.
    pub(crate) mctime: Option<NonZeroU32>,
}

/// The inode of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) ino: u32,
    pub(crate) file_type: u8,
}

/// Writes nodes.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) log: Log,
    compress: Compress,
    /// A node under construction.
    scratch: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(log: Log, compress: Compress) -> Self {
        Self { log, compress, scratch: Vec::new() }
    }

    /// Writes an INODE node with these attributes; it must fit the reserved space.
    fn put_inode(
        &mut self,
        ino: u32,
        version: u32,
        attributes: &Attributes,
        extent: &Extent<'_>,
        state: RefState,
    ) -> Result<u32, FsError> {
        let node = Inode {
            ino,
            version,
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            isize: if attributes.is_directory() { 0 } else { attributes.size },
            atime: attributes.atime,
            mtime: attributes.mtime,
            ctime: attributes.ctime,
            offset: extent.offset,
            dsize: extent.dsize,
            compression: extent.compression,
            ..Inode::default()
        };
        self.scratch.clear();
        let order = self.log.tree.store.flash.order;
        encode::inode(order, &node, extent.stored, &mut self.scratch);
        let totlen = INODE_LEN + extent.stored.len() as u32;
        let listed = Some(Listed { node: RecordNode::Inode { ino, version }, totlen });
        let bytes = &self.scratch;
        self.log.put(&NewNode { kind: RefKind::Inode, owner: ino, state, listed, bytes })
    }

    /// Writes a DIRENT node to the reserved space.
    fn put_dirent(&mut self, new: &NewName<'_>) -> Result<Dent, FsError> {
        let NewName { dir, name, target, mctime } = *new;
        let Target { ino, file_type } = target.unwrap_or(Target { ino: 0, file_type: 0 });
        let mctime = mctime.map_or(0, NonZeroU32::get);
        let version = self.log.tree.owners.next_version(dir);
        let node = Dirent { pino: dir, version, ino, mctime, file_type, name };
        self.scratch.clear();
        encode::dirent(self.log.tree.store.flash.order, &node, &mut self.scratch);
        let listed = (self.log.summary.summaries() == Summaries::Written).then(|| Listed {
            node: RecordNode::Dirent { pino: dir, version, ino, file_type, name: name.to_vec() },
            totlen: DIRENT_LEN + name.len() as u32,
        });
        let (bytes, state) = (&self.scratch, RefState::Normal);
        let new = NewNode { kind: RefKind::of_name(ino), owner: dir, state, listed, bytes };
        let place = self.log.put(&new)?;
        Ok(Dent { place, ino, file_type })
    }

    /// Returns the attributes to be written before a name, for a directory without a node of its
    /// own: without them, the time of the DIRENT node would not count.
    pub(crate) fn attributes_before(&self, new: &NewName<'_>) -> Option<Attributes> {
        let known = self.log.tree.inode(new.dir);
        (known.is_made_up && new.mctime.is_some()).then_some(known.attributes)
    }

    /// Reserves space for a DIRENT node, writes it and adds it to the directory. Returns the inode
    /// that the name referred to before.
    pub(crate) fn put_name(&mut self, new: &NewName<'_>) -> Result<Option<u32>, FsError> {
        let len = new.name.len();
        self.log.reserve(DIRENT_LEN + len as u32, RecordNode::dirent_len(len))?;
        let dent = self.put_dirent(new)?;
        let loaded = self.log.tree.owners.inode_mut(new.dir);
        if let Some(mctime) = new.mctime {
            loaded.attributes.mtime = mctime.get();
            loaded.attributes.ctime = mctime.get();
        }
        let old = loaded.dents.insert(new.name, dent);
        self.log.tree.obsolete_all(old.map(|old| old.place));
        Ok(old.map(|old| old.ino).filter(|ino| *ino != 0))
    }

    /// Writes the first node of an inode, which nothing refers to yet. Returns its place.
    pub(crate) fn put_first(
        &mut self,
        ino: u32,
        attributes: &Attributes,
        payload: &[u8],
    ) -> Result<u32, FsError> {
        let extent = Extent::payload(payload);
        self.log.reserve(INODE_LEN + extent.dsize, RecordNode::INODE_LEN)?;
        let place = self.put_inode(ino, 1, attributes, &extent, RefState::Pristine);
        if place.is_err() {
            self.log.tree.owners.remove_inode(ino);
        }
        place
    }

    /// Writes the attributes of an inode, which become `changed`, in one node: without data, or
    /// with the payload of a link or device (spec: jffs2 14).
    pub(crate) fn put_attributes(
        &mut self,
        ino: u32,
        changed: Attributes,
        payload: &[u8],
    ) -> Result<(), FsError> {
        let extent = Extent::payload(payload);
        self.log.reserve(INODE_LEN + extent.dsize, RecordNode::INODE_LEN)?;
        let version = self.log.tree.owners.next_version(ino);
        let place = self.put_inode(ino, version, &changed, &extent, RefState::Pristine)?;
        let loaded = self.log.tree.owners.inode_mut(ino);
        loaded.attributes = changed;
        loaded.is_made_up = false;
        let old = loaded.metadata.replace(place);
        let cut =
            if changed.is_regular() { loaded.fragments.cut(changed.size) } else { Vec::new() };
        self.log.tree.obsolete_all(old.into_iter().chain(cut));
        Ok(())
    }

    /// Extends a file by a hole, whose node contains the new attributes.
    pub(crate) fn put_growth(&mut self, ino: u32, new: Attributes) -> Result<(), FsError> {
        let size = self.log.tree.inode(ino).attributes.size;
        self.log.reserve(INODE_LEN, RecordNode::INODE_LEN)?;
        let version = self.log.tree.owners.next_version(ino);
        let hole = Extent::hole(size, new.size);
        let place = self.put_inode(ino, version, &new, &hole, RefState::Normal)?;
        self.log.tree.owners.inode_mut(ino).attributes = new;
        self.map_node(ino, Range { start: size, end: new.size }, Source::Hole(place));
        Ok(())
    }

    /// Records that the content of a range of a file is now in a new node. Nodes that are completely
    /// hidden die, and so does an older node of attributes.
    fn map_node(&mut self, ino: u32, range: Range, source: Source) {
        let loaded = self.log.tree.owners.inode_mut(ino);
        let dead = loaded.fragments.lay(range, Some(source));
        let metadata = loaded.metadata.take();
        self.log.tree.obsolete_all(dead.into_iter().chain(metadata));
    }

    /// Writes bytes of a regular file that lie in one page. The size becomes at least that in
    /// `loaded`. Returns the number of bytes in the node.
    pub(crate) fn put_data(
        &mut self,
        ino: u32,
        offset: u32,
        data: &[u8],
        mtime: Option<u32>,
    ) -> Result<u32, FsError> {
        let room = self.log.reserve(MIN_DATA, RecordNode::INODE_LEN)? - INODE_LEN;
        // Taken out, because its output is borrowed while the node is written.
        let mut compress = std::mem::take(&mut self.compress);
        let (number, taken) = compress.run(data, room & !3);
        let stored = if number == compression::NONE { &data[..taken] } else { compress.output() };
        let dsize = taken as u32;
        let extent = Extent { offset, dsize, compression: number, stored };
        let done = self.put_extent(ino, &extent, mtime);
        self.compress = compress;
        done.map(|()| dsize)
    }

    /// Writes a node with data, or a hole, to the reserved space.
    pub(crate) fn put_extent(
        &mut self,
        ino: u32,
        extent: &Extent<'_>,
        mtime: Option<u32>,
    ) -> Result<(), FsError> {
        let version = self.log.tree.owners.next_version(ino);
        let end = extent.offset + extent.dsize;
        let mut changed = self.log.tree.inode(ino).attributes;
        changed.size = changed.size.max(end);
        if let Some(mtime) = mtime {
            changed.mtime = mtime;
            changed.ctime = mtime;
        }
        let whole =
            extent.offset.is_multiple_of(PAGE) && (extent.dsize >= PAGE || end == changed.size);
        let is_hole = extent.compression == compression::ZERO;
        let state = if whole && !is_hole { RefState::Pristine } else { RefState::Normal };
        let place = self.put_inode(ino, version, &changed, extent, state)?;
        self.log.tree.owners.inode_mut(ino).attributes = changed;
        let source = if is_hole { Source::Hole(place) } else { Source::Data(place) };
        self.map_node(ino, Range { start: extent.offset, end }, source);
        self.mix(ino, extent.offset);
        Ok(())
    }

    /// Marks fragments that should be merged: one that ends inside a page and is followed by
    /// another one there (spec: jffs2 8.2, quality).
    fn mix(&mut self, ino: u32, at: u32) {
        if at.is_multiple_of(PAGE) {
            return;
        }
        let tree = &mut self.log.tree;
        let before = tree.inode(ino).fragments.before(at);
        if let Some(place) = before.and_then(|(_, fragment)| fragment.place()) {
            tree.store.blocks.check_off(place, RefState::Normal);
        }
    }
}
