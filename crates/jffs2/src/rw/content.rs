//! Writes content and attributes of files (spec: jffs2 14).

use super::inode::{Attributes, Place};
use super::names::{id16, refuse};
use super::nodelist::{RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::State;
use super::summary::record_len;
use super::write::{Extent, MIN_DATA, PAGE};
use eraseblock_jffs2_format::constants::INODE_LEN;
use eraseblock_vfs::rules::{changed_attr, check_set_attr, check_write};
use eraseblock_vfs::{FsError, FsErrorKind, Ino, SetAttr, Timestamp};

/// Returns a time as stored in nodes.
pub(crate) fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX)
}

impl State {
    /// Writes as much as fits to a regular file and returns the byte count.
    pub(crate) fn write(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: u32,
    ) -> Result<usize, FsError> {
        let attr = self.attr(ino)?;
        check_write(&attr, offset, data.len(), u32::MAX.into())?;
        if data.is_empty() {
            return Ok(0);
        }
        let ino = self.existing(ino)?;
        let offset = offset as u32;
        let size = self.inode(ino).attributes.size;
        let mut alloc = Alloc::Normal;
        if offset > size {
            // Write the hole only if some of the data after it fits, too.
            let record = record_len(RefKind::Inode, 0);
            self.reserve(INODE_LEN + MIN_DATA, Alloc::Normal, 2 * record)?;
            self.put_extent(ino, &Extent::hole(size, offset), Some(now))?;
            alloc = Alloc::Reserved;
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset.wrapping_add(done as u32);
            let left = (PAGE - at % PAGE) as usize;
            let piece = &data[done..data.len().min(done + left)];
            let (taken, result) = self.write_piece(ino, at, piece, now, alloc);
            (done, alloc) = (done + taken, Alloc::Normal);
            match result {
                Err(error) if error.kind() == FsErrorKind::NoSpace && done > 0 => break,
                result => result?,
            }
        }
        Ok(done)
    }

    /// Writes bytes of one page; if not all fit, returns the byte count. A write that ends at the
    /// end of the page includes the bytes before it, so that small nodes become one.
    fn write_piece(
        &mut self,
        ino: u32,
        at: u32,
        piece: &[u8],
        now: u32,
        alloc: Alloc,
    ) -> (usize, Result<(), FsError>) {
        let inside = at % PAGE;
        if inside == 0 || inside + piece.len() as u32 != PAGE {
            return self.write_nodes(ino, at, piece, now, alloc);
        }
        let mut page = vec![0; PAGE as usize];
        let before = self.read_content(ino, at - inside, &mut page[..inside as usize]);
        if before.is_err() {
            return self.write_nodes(ino, at, piece, now, alloc);
        }
        page[inside as usize..].copy_from_slice(piece);
        let (done, result) = self.write_nodes(ino, at - inside, &page, now, alloc);
        (done.saturating_sub(inside as usize), result)
    }

    fn write_nodes(
        &mut self,
        ino: u32,
        at: u32,
        data: &[u8],
        now: u32,
        mut alloc: Alloc,
    ) -> (usize, Result<(), FsError>) {
        let mut done = 0;
        while done < data.len() {
            let start = at + done as u32;
            match self.put_data(ino, start, &data[done..], alloc, Some(now)) {
                Ok(taken) => (done, alloc) = (done + taken as usize, Alloc::Normal),
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Changes attributes.
    pub(crate) fn set_attributes(
        &mut self,
        ino: Ino,
        changes: &SetAttr,
        now: u32,
    ) -> Result<(), FsError> {
        let attr = self.attr(ino)?;
        let ino = self.existing(ino)?;
        if changes.flags.is_some() {
            return Err(refuse(FsErrorKind::Unsupported, ino, "JFFS2 has no inode flags"));
        }
        check_set_attr(&attr, changes, u32::MAX.into())?;
        if *changes == SetAttr::default() {
            return Ok(());
        }
        let wanted = changed_attr(&attr, changes, Timestamp::from_seconds(now.into()));
        let old = self.inode(ino).attributes;
        let new = Attributes {
            mode: wanted.mode(),
            uid: id16(wanted.uid)?,
            gid: id16(wanted.gid)?,
            size: if old.is_regular() { wanted.size as u32 } else { old.size },
            atime: seconds(wanted.atime),
            mtime: seconds(wanted.mtime),
            ctime: seconds(wanted.ctime),
        };
        if new.size > old.size {
            return self.grow(ino, new);
        }
        let payload = self.own_payload(ino)?;
        let empties = new.size == 0 && old.size > 0 && old.is_regular();
        let alloc = if empties { Alloc::Deletion } else { Alloc::Normal };
        self.put_attributes(ino, new, &payload, alloc)
    }

    /// Writes the attributes of an inode with a new ctime, after another change of the inode.
    pub(crate) fn stamp(&mut self, ino: u32, now: u32) -> Result<(), FsError> {
        let old = self.inode(ino).attributes;
        if old.ctime == now {
            return Ok(());
        }
        let payload = self.own_payload(ino)?;
        // The old node dies, so this is allowed on a full medium, like a deletion.
        self.put_attributes(ino, Attributes { ctime: now, ..old }, &payload, Alloc::Deletion)
    }

    /// Returns the payload that every attribute node of a link or device must contain.
    fn own_payload(&mut self, ino: u32) -> Result<Vec<u8>, FsError> {
        let inode = self.inode(ino);
        match inode.metadata.filter(|_| inode.attributes.has_payload()) {
            Some(place) => Ok(self.payload(place)?.1),
            None => Ok(Vec::new()),
        }
    }

    /// Extends a file by a hole, whose node contains the new attributes.
    fn grow(&mut self, ino: u32, new: Attributes) -> Result<(), FsError> {
        let size = self.inode(ino).attributes.size;
        self.reserve(INODE_LEN, Alloc::Normal, record_len(RefKind::Inode, 0))?;
        let version = self.next_version(ino);
        let hole = Extent::hole(size, new.size);
        let place = self.put_inode(ino, version, &new, &hole, RefState::Normal)?;
        self.inode_mut(ino).attributes = new;
        self.map_node(ino, size, new.size, Place::new(place, true));
        Ok(())
    }
}
