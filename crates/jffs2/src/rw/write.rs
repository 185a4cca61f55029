//! Writes nodes to flash (spec: jffs2 5, 14, 16).

use super::dents::Dent;
use super::inode::{Attributes, Place};
use super::nodelist::{NodeRef, RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::{State, io};
use super::summary;
use eraseblock_jffs2_format::constants::{DIRENT_LEN, INODE_LEN, compression};
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_jffs2_format::{Dirent, Inode, encode};
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};

/// Bytes of a page of a file: no data node crosses its end (spec: jffs2 8.5).
pub(crate) const PAGE: u32 = 4096;
/// Minimum space for which a data node is written.
pub(crate) const MIN_DATA: u32 = INODE_LEN + 128;

/// A node about to be written.
#[derive(Debug)]
pub(crate) struct NewNode<'a> {
    pub(crate) kind: RefKind,
    pub(crate) owner: u32,
    pub(crate) state: RefState,
    /// Its record in the summary, and its length without alignment.
    pub(crate) record: Option<(RecordNode, u32)>,
    /// The node with its alignment bytes.
    pub(crate) bytes: &'a [u8],
}

/// Data of a file for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<'a> {
    pub(crate) offset: u32,
    pub(crate) dsize: u32,
    pub(crate) compression: u8,
    pub(crate) stored: &'a [u8],
}

impl Extent<'_> {
    /// A hole.
    pub(crate) fn hole(start: u32, end: u32) -> Self {
        let dsize = end - start;
        Self { offset: start, dsize, compression: compression::ZERO, stored: &[] }
    }
}

impl State {
    /// Writes a node to the reserved space; if that fails, once more elsewhere. Returns its place.
    pub(crate) fn put(&mut self, node: &NewNode<'_>) -> Result<u32, FsError> {
        let error = match self.try_put(node) {
            Ok(place) => return Ok(place),
            Err(error) => error,
        };
        self.give_up(node, error)?;
        let len = node.bytes.len() as u32;
        self.reserve(len, Alloc::Collection, node.record.as_ref().map_or(0, record_len))?;
        match self.try_put(node) {
            Ok(place) => Ok(place),
            Err(error) => {
                let text = error.to_string();
                self.give_up(node, error)?;
                Err(FsError::new(FsErrorKind::Io, text))
            }
        }
    }

    /// Gives up the space of a node that could not be written (spec: jffs2 16).
    fn give_up(&mut self, node: &NewNode<'_>, error: MtdError) -> Result<(), FsError> {
        let Some(block) = self.blocks.next() else { return Err(io(error)) };
        if !self.flash.has_buffer() {
            let len = node.bytes.len() as u32;
            self.retire_marker(block);
            self.blocks.resize(block, |sizes| {
                sizes.free -= len;
                sizes.wasted += len;
            });
        }
        self.write_failed(block, error)
    }

    fn try_put(&mut self, node: &NewNode<'_>) -> Result<u32, MtdError> {
        let Some(block) = self.blocks.next() else {
            return Err(MtdError::Unsupported { operation: "writing without an open block" });
        };
        let len = node.bytes.len() as u32;
        let offset = self.flash.block - self.blocks.get(block).sizes.free;
        let place = self.flash.start(block) + offset;
        self.write_flash(place, node.bytes)?;
        self.retire_marker(block);
        self.blocks.append(block, NodeRef::new(place, len, node.kind, node.owner, node.state));
        match &node.record {
            Some((record, totlen)) => {
                self.summary.add(summary::record(place, self.flash.block, *totlen, record.clone()));
            }
            None => self.summary.stop(),
        }
        if node.kind.is_of_inode() {
            self.cache_mut(node.owner).nodes.push(place);
            let name = if node.kind == RefKind::Dirent { node.bytes.len() } else { 0 };
            self.loaded.grow(node.owner, name);
        }
        Ok(place)
    }

    /// Counts the cleanmarker as dead once the first other node is written (spec: jffs2 11.3).
    fn retire_marker(&mut self, block: u32) {
        if let [marker] = self.blocks.get(block).refs[..]
            && marker.kind() == RefKind::Filler
        {
            self.blocks.obsolete(marker.place());
        }
    }

    /// Writes an INODE node with the attributes of `loaded`; it must fit the reserved space.
    pub(crate) fn put_inode(
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
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        encode::inode(self.flash.order, &node, extent.stored, &mut bytes);
        let totlen = INODE_LEN + extent.stored.len() as u32;
        let record = Some((RecordNode::Inode { ino, version }, totlen));
        let new = NewNode { kind: RefKind::Inode, owner: ino, state, record, bytes: &bytes };
        let place = self.put(&new);
        self.scratch = bytes;
        place
    }

    /// Writes a DIRENT node to the reserved space; `ino` 0 deletes the name.
    pub(crate) fn put_dirent(
        &mut self,
        dir: u32,
        name: &[u8],
        ino: u32,
        file_type: u8,
        mctime: u32,
    ) -> Result<Dent, FsError> {
        let version = self.next_version(dir);
        let node = Dirent { pino: dir, version, ino, mctime, file_type, name };
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        encode::dirent(self.flash.order, &node, &mut bytes);
        let totlen = DIRENT_LEN + name.len() as u32;
        let record = RecordNode::Dirent { pino: dir, version, ino, file_type, name: name.to_vec() };
        let state = if ino == 0 { RefState::Normal } else { RefState::Pristine };
        let record = self.options.summary.then_some((record, totlen));
        let new = NewNode { kind: RefKind::Dirent, owner: dir, state, record, bytes: &bytes };
        let place = self.put(&new);
        self.scratch = bytes;
        Ok(Dent { place: place?, ino, file_type })
    }

    /// Reserves space for a DIRENT node, writes it and adds it to the directory. First writes a
    /// node with unchanged attributes for a directory without one, so that the DIRENT's time
    /// counts. Returns the inode that the name referred to before, 0 for none.
    pub(crate) fn set_name(
        &mut self,
        dir: u32,
        name: &[u8],
        ino: u32,
        file_type: u8,
        mctime: u32,
        alloc: Alloc,
    ) -> Result<u32, FsError> {
        let known = self.inode(dir);
        if known.is_made_up && mctime != 0 {
            self.put_attributes(dir, known.attributes, &[], alloc)?;
        }
        let record = summary::record_len(RefKind::Dirent, name.len());
        self.reserve(DIRENT_LEN + name.len() as u32, alloc, record)?;
        let dent = self.put_dirent(dir, name, ino, file_type, mctime)?;
        let loaded = self.inode_mut(dir);
        if mctime != 0 {
            loaded.attributes.mtime = mctime;
            loaded.attributes.ctime = mctime;
        }
        let old = loaded.dents.insert(name, dent);
        if let Some(old) = &old {
            self.obsolete(old.place);
        }
        Ok(old.map_or(0, |old| old.ino))
    }

    /// Writes the attributes of an inode, which become `changed`, in one node: without data, or
    /// with the payload of a link or device (spec: jffs2 14).
    pub(crate) fn put_attributes(
        &mut self,
        ino: u32,
        changed: Attributes,
        payload: &[u8],
        alloc: Alloc,
    ) -> Result<(), FsError> {
        let len = payload.len() as u32;
        let record = summary::record_len(RefKind::Inode, 0);
        self.reserve(INODE_LEN + len, alloc, record)?;
        let version = self.next_version(ino);
        let number = compression::NONE;
        let extent = Extent { offset: 0, dsize: len, compression: number, stored: payload };
        let place = self.put_inode(ino, version, &changed, &extent, RefState::Pristine)?;
        let loaded = self.inode_mut(ino);
        loaded.attributes = changed;
        loaded.is_made_up = false;
        let old = loaded.metadata.replace(place);
        let cut =
            if changed.is_regular() { loaded.fragments.cut(changed.size) } else { Vec::new() };
        for place in old.into_iter().chain(cut) {
            self.obsolete(place);
        }
        Ok(())
    }

    /// Records that the content in [start, end) of a file is now in the node at `place`. Nodes that
    /// are completely hidden die, and so does an older node of attributes.
    pub(crate) fn map_node(&mut self, ino: u32, start: u32, end: u32, place: Place) {
        let loaded = self.inode_mut(ino);
        let dead = loaded.fragments.lay(start, end, Some(place));
        let metadata = loaded.metadata.take();
        for place in dead.into_iter().chain(metadata) {
            self.obsolete(place);
        }
    }

    /// Writes bytes of a regular file that lie in one page. The size becomes at least that in
    /// `loaded`. Returns the number of bytes in the node.
    pub(crate) fn put_data(
        &mut self,
        ino: u32,
        offset: u32,
        data: &[u8],
        alloc: Alloc,
        mtime: Option<u32>,
    ) -> Result<u32, FsError> {
        let record = summary::record_len(RefKind::Inode, 0);
        let room = self.reserve(MIN_DATA, alloc, record)? - INODE_LEN;
        let mut compress = std::mem::take(&mut self.compress);
        let (number, taken) = compress.run(self.options.compression, data, room & !3);
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
        let version = self.next_version(ino);
        let end = extent.offset + extent.dsize;
        let mut changed = self.inode(ino).attributes;
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
        self.inode_mut(ino).attributes = changed;
        self.map_node(ino, extent.offset, end, Place::new(place, is_hole));
        self.mix(ino, extent.offset);
        Ok(())
    }
}

impl State {
    /// Marks fragments that should be merged: one that ends inside a page and is followed by
    /// another one there (spec: jffs2 8.2, quality).
    fn mix(&mut self, ino: u32, at: u32) {
        if at.is_multiple_of(PAGE) {
            return;
        }
        let before = self.inode(ino).fragments.before(at).and_then(|(_, fragment)| fragment.node);
        if let Some(node) = before {
            self.blocks.check_off(node.place, RefState::Normal);
        }
    }
}

fn record_len(record: &(RecordNode, u32)) -> u32 {
    match &record.0 {
        RecordNode::Inode { .. } | RecordNode::Xattr { .. } => 18,
        RecordNode::Dirent { name, .. } => 24 + name.len() as u32,
        RecordNode::Xref => 6,
    }
}
