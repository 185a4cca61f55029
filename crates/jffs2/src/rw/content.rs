//! Content and attributes of files: what writing and setting attributes come to (spec: jffs2 14).

use super::names::{id16, refuse};
use super::nodelist::{RefKind, RefState};
use super::nodemgmt::Alloc;
use super::sabotage::Sabotage;
use super::state::State;
use super::summary::record_len;
use super::write::{Extent, PAGE};
use eraseblock_jffs2_format::constants::INODE_LEN;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{FsError, FsErrorKind, Ino, SetAttr, Timestamp};

/// A time as nodes store it.
pub(crate) fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX)
}

impl State {
    /// Writes to a regular file.
    pub(crate) fn write(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: u32,
    ) -> Result<(), FsError> {
        let ino = self.regular(ino)?;
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= u32::MAX.into());
        if end.is_none() {
            return Err(refuse(FsErrorKind::TooBig, ino, "a file ends below 4 GiB"));
        }
        if data.is_empty() {
            return Ok(());
        }
        let offset = offset as u32;
        let size = self.inode(ino).attributes.size;
        if offset > size && !self.is_sabotaged(Sabotage::NoHole) {
            self.reserve(INODE_LEN, Alloc::Normal, record_len(RefKind::Inode, 0))?;
            self.put_extent(ino, &Extent::hole(size, offset), Some(now))?;
        }
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let left = PAGE - at % PAGE;
            let (piece, tail) = rest.split_at(rest.len().min(left as usize));
            self.write_piece(ino, at, piece, now)?;
            at = at.wrapping_add(piece.len() as u32);
            rest = tail;
        }
        Ok(())
    }

    /// Writes bytes of one page. A write that ends where the page ends takes the bytes before it
    /// along, so that small nodes become one.
    fn write_piece(&mut self, ino: u32, at: u32, piece: &[u8], now: u32) -> Result<(), FsError> {
        let inside = at % PAGE;
        if inside == 0 || inside + piece.len() as u32 != PAGE {
            return self.write_nodes(ino, at, piece, now);
        }
        let mut page = vec![0; PAGE as usize];
        let before = self.read_content(ino, at - inside, &mut page[..inside as usize]);
        if before.is_err() {
            return self.write_nodes(ino, at, piece, now);
        }
        page[inside as usize..].copy_from_slice(piece);
        self.write_nodes(ino, at - inside, &page, now)
    }

    fn write_nodes(&mut self, ino: u32, at: u32, data: &[u8], now: u32) -> Result<(), FsError> {
        let mut done = 0;
        while done < data.len() {
            let start = at + done as u32;
            let taken = self.put_data(ino, start, &data[done..], Alloc::Normal, Some(now))?;
            done += taken as usize;
        }
        Ok(())
    }

    /// Changes attributes.
    pub(crate) fn set_attributes(
        &mut self,
        ino: Ino,
        changes: &SetAttr,
        now: u32,
    ) -> Result<(), FsError> {
        let ino = self.existing(ino)?;
        if changes.flags.is_some_and(|flags| flags != InodeFlags::default()) {
            return Err(refuse(FsErrorKind::Unsupported, ino, "JFFS2 has no inode flags"));
        }
        let old = self.inode(ino).attributes;
        let mut new = old;
        if let Some(permissions) = changes.permissions {
            new.mode = new.mode & !0o7777 | permissions & 0o7777;
        }
        if let Some(uid) = changes.uid {
            new.uid = id16(uid)?;
        }
        if let Some(gid) = changes.gid {
            new.gid = id16(gid)?;
        }
        new.ctime = now;
        if let Some(size) = changes.size {
            self.regular(ino.into())?;
            let too_big = |_| refuse(FsErrorKind::TooBig, ino, "a file ends below 4 GiB");
            new.size = u32::try_from(size).map_err(too_big)?;
            new.mtime = now;
        }
        new.atime = changes.atime.map_or(new.atime, seconds);
        new.mtime = changes.mtime.map_or(new.mtime, seconds);
        if new.size > old.size {
            return self.grow(ino, new);
        }
        let place = self.inode(ino).metadata.filter(|_| old.has_payload());
        let payload = match place {
            Some(place) => self.payload(place)?.1,
            None => Vec::new(),
        };
        let empties = new.size == 0 && old.size > 0 && old.is_regular();
        let alloc = if empties { Alloc::Deletion } else { Alloc::Normal };
        self.put_attributes(ino, new, &payload, alloc)
    }

    /// Lengthens a file by a hole, which carries the new attributes.
    fn grow(&mut self, ino: u32, new: super::inode::Attributes) -> Result<(), FsError> {
        let size = self.inode(ino).attributes.size;
        self.reserve(INODE_LEN, Alloc::Normal, record_len(RefKind::Inode, 0))?;
        let version = self.next_version(ino);
        let hole = Extent::hole(size, new.size);
        let place = self.put_inode(ino, version, &new, &hole, RefState::Normal)?;
        self.inode_mut(ino).attributes = new;
        self.map_node(ino, size, new.size, super::inode::Place { place, is_hole: true });
        Ok(())
    }
}
