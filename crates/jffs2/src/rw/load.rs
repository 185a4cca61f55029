//! Loads an inode from its nodes and checks them (spec: jffs2 8, 12.9).
//!
//! Layer: above `store` and `remains`. Reads nodes and declares them dead, writes nothing.
//!
//! # Invariants
//! 1. A node that was good when it was checked is never replaced by older data: if it cannot be
//!    read any more, loading fails. The deletion of a name may go: the older nodes of the name died
//!    when it was found.
//! 2. A node dies here only if a newer one supersedes it, or if nothing in it can be used.

use super::dents::{self, Dent};
use super::failure::{corrupted, damaged, io};
use super::inode::{Attributes, Fragments, Loaded, PAGE, Source};
use super::nodelist::{NodeRef, RefKind, RefState};
use super::remains::Remains;
use super::store::Store;
use crate::codes;
use crate::damage::{Broken, Placed, Range, gaps, is_torn, judge};
use eraseblock_base::{Finding, Location};
use eraseblock_jffs2_format::constants::{INODE_LEN, ROOT_INO, compression, pad};
use eraseblock_jffs2_format::{FormatError, Inode, decode, device};
use eraseblock_vfs::{FileKind, FsError};

/// Live nodes of an inode.
#[derive(Debug, Default)]
pub(crate) struct Found {
    data: Vec<Placed>,
    metadata: Option<Placed>,
    /// Nodes that cannot be used.
    broken: Vec<Broken>,
    dents: dents::Found,
    /// The newest time in its names.
    time: NewestTime,
    /// Nodes found damaged during this load.
    dropped: Vec<Dropped>,
    /// Nodes that newer ones supersede.
    dead: Vec<u32>,
}

/// The time of a directory that its newest name with a time states.
#[derive(Clone, Copy, Debug, Default)]
struct NewestTime {
    version: u32,
    mctime: u32,
}

/// A node found damaged.
#[derive(Debug)]
struct Dropped {
    place: u32,
    error: FormatError,
}

/// An inode that is being loaded.
#[derive(Debug)]
pub(crate) struct Loading<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) remains: &'a mut Remains,
    pub(crate) ino: u32,
}

impl Loading<'_> {
    /// Reads the nodes of an inode. Checks those not checked before; damaged ones die.
    pub(crate) fn collect(&mut self, places: &[u32]) -> Result<Found, FsError> {
        let mut found = Found::default();
        for place in places.iter().copied() {
            let Some(node) = self.store.blocks.node(place).filter(|node| node.is_live()) else {
                continue;
            };
            let taken = match node.kind() {
                RefKind::Dirent | RefKind::Deletion => self.take_dirent(node, &mut found)?,
                RefKind::Broken => {
                    let bytes = self.store.read_node(node)?;
                    found.broken.push(self.broken(place, &bytes));
                    continue;
                }
                _ => self.take_inode(node, &mut found)?,
            };
            if let Err(error) = taken {
                let was_checked = node.state() != RefState::Unchecked;
                if was_checked && node.kind() != RefKind::Deletion {
                    // It was good when it was checked: older data must not show through.
                    return Err(corrupted(error));
                }
                if node.kind().is_of_name() {
                    self.store.obsolete(place);
                }
                found.dropped.push(Dropped { place, error });
            }
        }
        for place in std::mem::take(&mut found.dead) {
            self.store.obsolete(place);
        }
        Ok(found)
    }

    fn take_inode(
        &self,
        node: NodeRef,
        found: &mut Found,
    ) -> Result<Result<(), FormatError>, FsError> {
        let (place, at) = (node.place(), self.store.flash.location(node.place()));
        let checked = node.state() != RefState::Unchecked;
        let len = if checked { INODE_LEN.min(node.len()) } else { node.len() };
        let mut bytes = vec![0; len as usize];
        self.store.read_flash(place, &mut bytes).map_err(io)?;
        let check = || {
            let inode = decode::inode(self.store.flash.order, &bytes, at)?;
            decode::inode_lengths(&inode, at)?;
            let is_right =
                inode.ino == self.ino && pad(INODE_LEN + inode.csize) == Some(node.len());
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
                found.broken.push(self.broken(place, &bytes));
                return Ok(Err(error));
            }
        };
        if inode.dsize > 0 {
            found.data.push(Placed { node: inode, place });
            return Ok(Ok(()));
        }
        let is_kept = match &found.metadata {
            Some(kept) if kept.node.version == inode.version => {
                // The first one of a version is kept (spec: jffs2 8.1), unless it is going.
                !self.store.is_safer(place, kept.place).map_err(io)?
            }
            Some(kept) => kept.node.version > inode.version,
            None => false,
        };
        let loser = if is_kept {
            Some(place)
        } else {
            found.metadata.replace(Placed { node: inode, place }).map(|old| old.place)
        };
        found.dead.extend(loser);
        Ok(Ok(()))
    }

    /// Returns a node that cannot be used, with its fields if they are right.
    fn broken(&self, place: u32, bytes: &[u8]) -> Broken {
        let node =
            decode::inode(self.store.flash.order, bytes, self.store.flash.location(place)).ok();
        let is_torn = is_torn(bytes);
        Broken { place, node: node.filter(|node| node.ino == self.ino), is_torn }
    }

    fn take_dirent(
        &self,
        node: NodeRef,
        found: &mut Found,
    ) -> Result<Result<(), FormatError>, FsError> {
        let at = self.store.flash.location(node.place());
        let bytes = self.store.read_node(node)?;
        let dirent = match decode::dirent(self.store.flash.order, &bytes, at) {
            Ok(dirent) if dirent.pino == self.ino => dirent,
            Ok(dirent) => return Ok(Err(not_as_listed(at, dirent.pino))),
            Err(error) => return Ok(Err(error)),
        };
        let (version, mctime) = (dirent.version, dirent.mctime);
        if mctime != 0 && version > found.time.version {
            found.time = NewestTime { version, mctime };
        }
        let dent = Dent { place: node.place(), ino: dirent.ino, file_type: dirent.file_type };
        found.dents.push(dirent.name, dent, version);
        Ok(Ok(()))
    }

    /// Combines the nodes into the inode (spec: jffs2 8.2, 8.3).
    pub(crate) fn resolve(&mut self, mut found: Found) -> Result<Loaded, FsError> {
        found.data.sort_by_key(|it| it.node.version);
        self.sort_copies(&mut found.data)?;
        let newest = found.data.last().map(|it| it.node);
        if let Some(old) = found.metadata
            && newest.is_some_and(|newest| newest.version > old.node.version)
        {
            found.metadata = None;
            self.store.obsolete(old.place);
        }
        // The fields of a node whose data is damaged are right: better than nothing.
        found.broken.sort_by_key(|broken| broken.node.map(|node| node.version));
        let broken = found.broken.last().and_then(|broken| broken.node);
        let winner = found.metadata.map(|it| it.node).or(newest).or(broken);
        let is_made_up = winner.is_none();
        let winner = self.or_made_up(winner, &found)?;
        let mut loaded = Loaded {
            attributes: Attributes::of(&winner),
            metadata: found.metadata.map(|it| it.place),
            is_made_up,
            ..Loaded::default()
        };
        self.lay_nodes(&mut loaded.fragments, &found.data);
        self.lay_lost(&mut loaded, &found);
        // Reported only now: a node that still holds a part of the file is kept, not dropped.
        for Dropped { place, error } in &found.dropped {
            if !self.store.node(*place).is_live() {
                self.store.late.note(error.at(), codes::NODE_DROPPED, error.to_string());
            }
        }
        if loaded.attributes.is_directory() {
            self.resolve_names(&mut loaded, found.dents, found.time, &winner);
        } else if loaded.attributes.is_regular() {
            self.resolve_size(&mut loaded);
        } else if loaded.attributes.has_payload() {
            self.resolve_payload(&mut loaded, &winner)?;
        } else {
            loaded.attributes.size = 0;
        }
        self.check_off_nodes(&loaded, &found.data);
        Ok(loaded)
    }

    /// Moves a safe one of several copies of a node to their end: the last counts.
    fn sort_copies(&self, data: &mut [Placed]) -> Result<(), FsError> {
        for copies in data.chunk_by_mut(|a, b| a.node.version == b.node.version) {
            for end in 1..copies.len() {
                if self.store.is_safer(copies[end - 1].place, copies[end].place).map_err(io)? {
                    copies.swap(end - 1, end);
                }
            }
        }
        Ok(())
    }

    /// Returns the node whose fields count. A directory without one gets fields as Linux makes them
    /// up: a cut may have destroyed its node, but its names prove that it existed.
    fn or_made_up(&self, winner: Option<Inode>, found: &Found) -> Result<Inode, FsError> {
        let is_faked = self.ino == ROOT_INO || !found.dents.is_empty();
        let winner = match winner {
            Some(winner) => winner,
            // Its times are 0 regardless of the names (spec: jffs2 6).
            None if is_faked => Inode { mode: 0o040_755, version: u32::MAX, ..Inode::default() },
            None => return Err(damaged(self.ino, "no usable node")),
        };
        if FileKind::from_mode(winner.mode).is_none() {
            return Err(damaged(self.ino, &format!("mode {:o} names no file type", winner.mode)));
        }
        Ok(winner)
    }

    /// Keeps the newest node of each name. A name newer than the node of the directory states the
    /// directory's times: creating it wrote no other node.
    fn resolve_names(
        &mut self,
        loaded: &mut Loaded,
        names: dents::Found,
        time: NewestTime,
        winner: &Inode,
    ) {
        loaded.attributes.size = 0;
        let mut dead = Vec::new();
        loaded.dents = names.resolve(&mut dead);
        for place in dead {
            self.store.obsolete(place);
        }
        if time.version > winner.version {
            loaded.attributes.mtime = time.mctime;
            loaded.attributes.ctime = time.mctime;
        }
    }

    /// Applies data nodes in the order of their versions; completely hidden ones die.
    fn lay_nodes(&mut self, fragments: &mut Fragments, data: &[Placed]) {
        for Placed { node: inode, place } in data {
            let is_hole = inode.compression == compression::ZERO;
            let source = if is_hole { Source::Hole(*place) } else { Source::Data(*place) };
            let gone = fragments.lay(range_of(inode), Some(source));
            for place in gone {
                self.store.obsolete(place);
            }
        }
    }

    /// Assigns lost ranges of a file to the nodes that held them, and keeps these nodes. Broken
    /// nodes without lost data die (spec: jffs2 8.6).
    fn lay_lost(&mut self, loaded: &mut Loaded, found: &Found) {
        let size = loaded.attributes.is_regular().then_some(loaded.attributes.size);
        // Only a regular file has content that could show as a hole.
        let verdict = size.map(|size| judge(&found.data, &found.broken, size)).unwrap_or_default();
        for part in &verdict.lost {
            loaded
                .fragments
                .lay(Range { start: part.start, end: part.end }, Some(Source::Lost(part.place)));
        }
        for broken in &found.broken {
            if loaded.fragments.count(broken.place) > 0 {
                self.store.blocks.set_broken(broken.place);
            } else {
                self.store.obsolete(broken.place);
            }
        }
        if let Some((severity, message)) = verdict.doubt(|place| self.store.flash.location(place)) {
            let (at, code) = (Location::Inode(self.ino.into()), codes::OLDER_CONTENT);
            self.store.late.push(Finding { severity, at, code, message });
        }
        if let Some(size) = size
            && !self.remains.unassigned.is_empty()
        {
            for gap in gaps(loaded.fragments.ranges(), size) {
                self.remains.are_missed();
                loaded.fragments.lay(gap, Some(Source::Unknown));
            }
        }
    }

    /// Sets the size of a file from its newest node, or from its content (spec: jffs2 8.2, step 5).
    fn resolve_size(&mut self, loaded: &mut Loaded) {
        let end = loaded.fragments.end();
        if end < loaded.attributes.size {
            let message = format!("file size {} reduced to {end}", loaded.attributes.size);
            self.store.late.warn(Location::Inode(self.ino.into()), codes::SIZE_REDUCED, message);
            loaded.attributes.size = end;
        }
        for place in loaded.fragments.cut(loaded.attributes.size) {
            self.store.obsolete(place);
        }
    }

    /// Links and devices have exactly one node (spec: jffs2 6).
    fn resolve_payload(&mut self, loaded: &mut Loaded, winner: &Inode) -> Result<(), FsError> {
        let mut parts = loaded.fragments.from(0);
        let place = parts.next().and_then(|(_, fragment)| fragment.place());
        let (Some(place), None, None) = (place, parts.next(), loaded.metadata) else {
            return Err(damaged(self.ino, "link or device without exactly one node of data"));
        };
        drop(parts);
        loaded.fragments = Fragments::default();
        loaded.metadata = Some(place);
        let kind = FileKind::from_mode(winner.mode);
        if kind == Some(FileKind::Symlink) {
            loaded.attributes.size = if winner.isize == 0 { winner.dsize } else { winner.isize };
            return Ok(());
        }
        let (_, payload) = self.store.payload(place)?;
        loaded.attributes.size = 0;
        let rdev = device(self.store.flash.order, &payload);
        loaded.rdev =
            rdev.ok_or_else(|| damaged(self.ino, "device number of neither 2 nor 4 bytes"))?;
        Ok(())
    }

    /// Marks the remaining nodes as checked (spec: jffs2 8.2, quality).
    fn check_off_nodes(&mut self, loaded: &Loaded, data: &[Placed]) {
        for Placed { node: inode, place } in data {
            let range = range_of(inode);
            let whole = loaded.fragments.span(inode.offset, *place) == Some(range)
                && loaded.fragments.count(*place) == 1;
            let aligned = inode.offset.is_multiple_of(PAGE)
                && (range.end.is_multiple_of(PAGE) || range.end == loaded.attributes.size);
            let pristine = whole && aligned && inode.compression != compression::ZERO;
            let state = if pristine { RefState::Pristine } else { RefState::Normal };
            if self.store.node(*place).is_live() {
                self.store.blocks.check_off(*place, state);
            }
        }
        if let Some(place) = loaded.metadata {
            self.store.blocks.check_off(place, RefState::Pristine);
        }
        for dent in loaded.dents.iter() {
            self.store.blocks.check_off(dent.place, RefState::Normal);
        }
    }
}

/// Returns the range of a file that a node with checked fields holds.
fn range_of(node: &Inode) -> Range {
    Range { start: node.offset, end: node.offset + node.dsize }
}

fn not_as_listed(at: Location, found: u32) -> FormatError {
    let expected = "what the summary of the block says";
    FormatError::Field { at, what: "node", field: "inode or length", found: found.into(), expected }
}
