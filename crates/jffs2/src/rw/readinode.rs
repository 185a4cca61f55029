//! Loads an inode from its nodes and checks them, and reads content (spec: jffs2 8, 12.9).

use super::dents::{self, Dent};
use super::inode::{Attributes, Fragments, Loaded, Place, UNKNOWN};
use super::inodes::InodeCache;
use super::nodelist::{NodeRef, RefKind, RefState};
use super::state::{State, damaged, io};
use super::write::PAGE;
use crate::codes;
use crate::damage::{Broken, gaps, is_torn, judge, unread};
use crate::inode::decompress;
use eraseblock_base::{Finding, Location};
use eraseblock_jffs2_format::constants::{INODE_LEN, ROOT_INO, compression, pad};
use eraseblock_jffs2_format::{FormatError, Inode, decode};
use eraseblock_vfs::{FileKind, FsError, FsErrorKind};

/// Live nodes of an inode.
#[derive(Debug, Default)]
struct Found {
    data: Vec<(Inode, u32)>,
    metadata: Option<(Inode, u32)>,
    /// Nodes that cannot be used.
    broken: Vec<Broken>,
    dents: dents::Found,
    /// Version and value of the newest time in its names.
    time: (u32, u32),
    /// Nodes found damaged during this load, and their damage.
    dropped: Vec<(u32, FormatError)>,
    /// Nodes that newer ones supersede.
    dead: Vec<u32>,
}

impl State {
    /// Loads the inode if necessary.
    pub(crate) fn load(&mut self, ino: u32) -> Result<(), FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("no inode {ino}"));
        if self.loaded.want(ino) {
            return Ok(());
        }
        if !self.cache(ino).is_some_and(InodeCache::is_wanted) {
            return Err(missing());
        }
        let found = self.collect(ino)?;
        let loaded = self.resolve(ino, found);
        self.cache_mut(ino).set_checked();
        self.loaded.insert(ino, loaded?);
        Ok(())
    }

    /// Reads the nodes of an inode. Checks those not checked before; damaged ones die.
    fn collect(&mut self, ino: u32) -> Result<Found, FsError> {
        let places = self.cache(ino).map(|cache| cache.nodes.clone()).unwrap_or_default();
        let mut found = Found::default();
        for place in places.as_slice().iter().copied() {
            let Some(node) = self.blocks.node(place).filter(|node| node.is_live()) else {
                continue;
            };
            let taken = match node.kind() {
                RefKind::Dirent => self.take_dirent(ino, node, &mut found)?,
                RefKind::Broken => {
                    let bytes = self.read_node(node)?;
                    found.broken.push(self.broken(ino, place, &bytes));
                    continue;
                }
                _ => self.take_inode(ino, node, &mut found)?,
            };
            if let Err(error) = taken {
                if node.state() != RefState::Unchecked {
                    // It was good when it was checked: older data must not show through.
                    return Err(FsError::from_source(FsErrorKind::Corrupted, error));
                }
                if node.kind() == RefKind::Dirent {
                    self.obsolete(place);
                }
                found.dropped.push((place, error));
            }
        }
        for place in std::mem::take(&mut found.dead) {
            self.obsolete(place);
        }
        Ok(found)
    }

    fn take_inode(
        &self,
        ino: u32,
        node: NodeRef,
        found: &mut Found,
    ) -> Result<Result<(), FormatError>, FsError> {
        let (place, at) = (node.place(), self.flash.location(node.place()));
        let checked = node.state() != RefState::Unchecked;
        let len = if checked { INODE_LEN.min(node.len()) } else { node.len() };
        let mut bytes = vec![0; len as usize];
        self.read_flash(place, &mut bytes).map_err(io)?;
        let check = || {
            let inode = decode::inode(self.flash.order, &bytes, at)?;
            decode::inode_lengths(&inode, at)?;
            let is_right = inode.ino == ino && pad(INODE_LEN + inode.csize) == Some(node.len());
            if !is_right {
                return Err(not_as_listed(at, inode.ino));
            }
            if !checked {
                decode::inode_data(&inode, &bytes, at)?;
            }
            Ok(inode)
        };
        let inode = match check() {
            Ok(inode) => inode,
            Err(error) => {
                found.broken.push(self.broken(ino, place, &bytes));
                return Ok(Err(error));
            }
        };
        if inode.dsize > 0 {
            found.data.push((inode, place));
            return Ok(Ok(()));
        }
        // The first one of a version is kept (spec: jffs2 8.1).
        let kept = found.metadata.filter(|kept| kept.0.version >= inode.version);
        let loser = if kept.is_some() {
            Some(place)
        } else {
            found.metadata.replace((inode, place)).map(|old| old.1)
        };
        found.dead.extend(loser);
        Ok(Ok(()))
    }

    /// Returns a node that cannot be used, with its fields if they are right.
    fn broken(&self, ino: u32, place: u32, bytes: &[u8]) -> Broken {
        let node = decode::inode(self.flash.order, bytes, self.flash.location(place)).ok();
        let is_torn = is_torn(bytes);
        Broken { place, node: node.filter(|node| node.ino == ino), is_torn }
    }

    fn take_dirent(
        &self,
        dir: u32,
        node: NodeRef,
        found: &mut Found,
    ) -> Result<Result<(), FormatError>, FsError> {
        let at = self.flash.location(node.place());
        let bytes = self.read_node(node)?;
        let dirent = match decode::dirent(self.flash.order, &bytes, at) {
            Ok(dirent) if dirent.pino == dir => dirent,
            Ok(dirent) => return Ok(Err(not_as_listed(at, dirent.pino))),
            Err(error) => return Ok(Err(error)),
        };
        let (version, mctime) = (dirent.version, dirent.mctime);
        if mctime != 0 && version > found.time.0 {
            found.time = (version, mctime);
        }
        let dent = Dent { place: node.place(), ino: dirent.ino, file_type: dirent.file_type };
        found.dents.push(dirent.name, dent, version);
        Ok(Ok(()))
    }

    /// Combines the nodes into the inode (spec: jffs2 8.2, 8.3).
    fn resolve(&mut self, ino: u32, mut found: Found) -> Result<Loaded, FsError> {
        found.data.sort_by_key(|(inode, _)| inode.version);
        let newest = found.data.last().map(|(inode, _)| *inode);
        if let Some((old, place)) = found.metadata
            && newest.is_some_and(|newest| newest.version > old.version)
        {
            found.metadata = None;
            self.obsolete(place);
        }
        // The fields of a node whose data is damaged are right: better than nothing.
        found.broken.sort_by_key(|broken| broken.node.map(|node| node.version));
        let broken = found.broken.last().and_then(|broken| broken.node);
        let winner = found.metadata.map(|(inode, _)| inode).or(newest).or(broken);
        let is_faked = ino == ROOT_INO || !found.dents.is_empty();
        let is_made_up = winner.is_none();
        let winner = match winner {
            Some(winner) => winner,
            // Its times are 0 regardless of the names (spec: jffs2 6).
            None if is_faked => Inode { mode: 0o040_755, version: u32::MAX, ..Inode::default() },
            None => return Err(damaged(ino, "no usable node")),
        };
        if FileKind::from_mode(winner.mode).is_none() {
            return Err(damaged(ino, &format!("mode {:o} names no file type", winner.mode)));
        }
        let mut loaded = Loaded {
            attributes: Attributes {
                mode: winner.mode,
                uid: winner.uid,
                gid: winner.gid,
                size: winner.isize,
                atime: winner.atime,
                mtime: winner.mtime,
                ctime: winner.ctime,
            },
            metadata: found.metadata.map(|(_, place)| place),
            is_made_up,
            ..Loaded::default()
        };
        self.lay_nodes(&mut loaded.fragments, &found.data);
        self.lay_lost(ino, &mut loaded, &found);
        for (place, error) in &found.dropped {
            if !self.node(*place).is_live() {
                self.late.note(error.at(), codes::NODE_DROPPED, error.to_string());
            }
        }
        if loaded.attributes.is_directory() {
            loaded.attributes.size = 0;
            let mut dead = Vec::new();
            loaded.dents = found.dents.resolve(&mut dead);
            for place in dead {
                self.obsolete(place);
            }
            let (version, mctime) = found.time;
            if version > winner.version {
                loaded.attributes.mtime = mctime;
                loaded.attributes.ctime = mctime;
            }
        } else if loaded.attributes.is_regular() {
            self.resolve_size(ino, &mut loaded);
        } else if loaded.attributes.has_payload() {
            self.resolve_payload(ino, &mut loaded, &winner)?;
        } else {
            loaded.attributes.size = 0;
        }
        self.check_off_nodes(&loaded, &found.data);
        Ok(loaded)
    }

    /// Applies data nodes in the order of their versions; completely hidden ones die.
    fn lay_nodes(&mut self, fragments: &mut Fragments, data: &[(Inode, u32)]) {
        for (inode, place) in data {
            let is_hole = inode.compression == compression::ZERO;
            let node = Place::new(*place, is_hole);
            let gone = fragments.lay(inode.offset, inode.offset + inode.dsize, Some(node));
            for place in gone {
                self.obsolete(place);
            }
        }
    }

    /// Assigns lost ranges of a file to the nodes that held them, and keeps these nodes. Broken
    /// nodes without lost data die (spec: jffs2 8.6).
    fn lay_lost(&mut self, ino: u32, loaded: &mut Loaded, found: &Found) {
        let size = loaded.attributes.is_regular().then_some(loaded.attributes.size);
        // Only a regular file has content that could show as a hole.
        let verdict = size.map(|size| judge(&found.data, &found.broken, size)).unwrap_or_default();
        for part in &verdict.lost {
            loaded.fragments.lay(part.start, part.end, Some(Place::lost(part.place)));
        }
        for broken in &found.broken {
            if loaded.fragments.count(broken.place) > 0 {
                self.blocks.set_broken(broken.place);
            } else {
                self.obsolete(broken.place);
            }
        }
        if let Some((severity, message)) = verdict.doubt(|place| self.flash.location(place)) {
            let (at, code) = (Location::Inode(ino.into()), codes::OLDER_CONTENT);
            self.late.push(Finding { severity, at, code, message });
        }
        if let Some(size) = size.filter(|_| !self.unassigned.is_empty()) {
            for (start, end) in gaps(loaded.fragments.ranges(), size) {
                self.remains.are_missed();
                loaded.fragments.lay(start, end, Some(Place::lost(UNKNOWN)));
            }
        }
    }

    /// Sets the size of a file from its newest node, or from its content (spec: jffs2 8.2, step 5).
    fn resolve_size(&mut self, ino: u32, loaded: &mut Loaded) {
        let end = loaded.fragments.end();
        if end < loaded.attributes.size {
            let message = format!("file size {} reduced to {end}", loaded.attributes.size);
            self.late.warn(Location::Inode(ino.into()), codes::SIZE_REDUCED, message);
            loaded.attributes.size = end;
        }
        for place in loaded.fragments.cut(loaded.attributes.size) {
            self.obsolete(place);
        }
    }

    /// Links and devices have exactly one node (spec: jffs2 6).
    fn resolve_payload(
        &mut self,
        ino: u32,
        loaded: &mut Loaded,
        winner: &Inode,
    ) -> Result<(), FsError> {
        let mut parts = loaded.fragments.from(0);
        let place = parts.next().and_then(|(_, fragment)| fragment.node).map(|node| node.place);
        let (Some(place), None, None) = (place, parts.next(), loaded.metadata) else {
            return Err(damaged(ino, "link or device without exactly one node of data"));
        };
        drop(parts);
        loaded.fragments = Fragments::default();
        loaded.metadata = Some(place);
        let kind = FileKind::from_mode(winner.mode);
        if kind == Some(FileKind::Symlink) {
            loaded.attributes.size = if winner.isize == 0 { winner.dsize } else { winner.isize };
            return Ok(());
        }
        let (_, payload) = self.payload(place)?;
        loaded.attributes.size = 0;
        let rdev = self.flash.order.device(&payload);
        loaded.rdev = rdev.ok_or_else(|| damaged(ino, "device number of neither 2 nor 4 bytes"))?;
        Ok(())
    }

    /// Marks the remaining nodes as checked (spec: jffs2 8.2, quality).
    fn check_off_nodes(&mut self, loaded: &Loaded, data: &[(Inode, u32)]) {
        for (inode, place) in data {
            let end = inode.offset + inode.dsize;
            let whole = loaded.fragments.span(inode.offset, *place) == Some((inode.offset, end))
                && loaded.fragments.count(*place) == 1;
            let aligned = inode.offset.is_multiple_of(PAGE)
                && (end.is_multiple_of(PAGE) || end == loaded.attributes.size);
            let pristine = whole && aligned && inode.compression != compression::ZERO;
            let state = if pristine { RefState::Pristine } else { RefState::Normal };
            if self.node(*place).is_live() {
                self.blocks.check_off(*place, state);
            }
        }
        if let Some(place) = loaded.metadata {
            self.blocks.check_off(place, RefState::Pristine);
        }
        for dent in loaded.dents.iter() {
            let state = if dent.ino == 0 { RefState::Normal } else { RefState::Pristine };
            self.blocks.check_off(dent.place, state);
        }
    }

    /// Returns the node at `place` and its stored bytes, all checksums verified.
    pub(crate) fn payload(&self, place: u32) -> Result<(Inode, Vec<u8>), FsError> {
        let (node, at) = (self.node(place), self.flash.location(place));
        let mut bytes = self.read_node(node)?;
        let corrupted = |error| FsError::from_source(FsErrorKind::Corrupted, error);
        let inode = decode::inode(self.flash.order, &bytes, at).map_err(corrupted)?;
        decode::inode_lengths(&inode, at).map_err(corrupted)?;
        decode::inode_data(&inode, &bytes, at).map_err(corrupted)?;
        bytes.truncate((INODE_LEN + inode.csize) as usize);
        bytes.drain(..INODE_LEN as usize);
        Ok((inode, bytes))
    }

    /// Returns the data of the node at `place`, decompressed, and its offset in the file.
    fn data(&self, place: u32) -> Result<(u32, Vec<u8>), FsError> {
        let (inode, stored) = self.payload(place)?;
        if inode.compression == compression::NONE {
            return Ok((inode.offset, stored));
        }
        let mut out = vec![0; inode.dsize as usize];
        decompress(inode.compression, &stored, &mut out).map_err(|error| {
            let text = format!("{}: {error}", self.flash.location(place));
            FsError::new(FsErrorKind::Corrupted, text)
        })?;
        Ok((inode.offset, out))
    }

    /// Returns why a range of a file is lost.
    fn lost(&self, ino: u32, range: (u32, u32), place: u32) -> FsError {
        if place == UNKNOWN {
            return unread(ino.into(), range, &self.unassigned);
        }
        match self.payload(place) {
            Err(error) => unread(ino.into(), range, &error),
            Ok(_) => unread(ino.into(), range, &"the node was damaged when it was checked"),
        }
    }

    /// Fills `buf` with the content of a loaded file from `offset`; holes, and everything after the
    /// end, are zeros.
    pub(crate) fn read_content(
        &self,
        ino: u32,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<(), FsError> {
        buf.fill(0);
        let end = u64::from(offset) + buf.len() as u64;
        let mut last: Option<(u32, u32, Vec<u8>)> = None;
        for (start, fragment) in self.inode(ino).fragments.from(offset) {
            if u64::from(start) >= end {
                break;
            }
            let Some(node) = fragment.node.filter(|node| !node.is_hole) else { continue };
            if node.is_lost {
                return Err(self.lost(ino, (start, fragment.end), node.place));
            }
            if last.as_ref().is_none_or(|last| last.0 != node.place) {
                let (at, data) = self.data(node.place)?;
                last = Some((node.place, at, data));
            }
            let Some((_, at, data)) = &last else { continue };
            let first = start.max(offset);
            let until = u64::from(fragment.end).min(end);
            let count = (until - u64::from(first)) as usize;
            let part =
                first.checked_sub(*at).and_then(|skip| data.get(skip as usize..)?.get(..count));
            let part = part.ok_or_else(|| damaged(ino, "a node is shorter than it was"))?;
            buf[(first - offset) as usize..][..count].copy_from_slice(part);
        }
        Ok(())
    }
}

fn not_as_listed(at: Location, found: u32) -> FormatError {
    let expected = "what the summary of the block says";
    FormatError::Field { at, what: "node", field: "inode or length", found: found.into(), expected }
}
