//! Operations on content and attributes of files (spec: jffs2 14).
//!
//! Layer: above the driver, next to `names`.
//!
//! # Invariants
//! 1. Every byte of a file up to its size is in a node: a hole is written before the data after it,
//!    so that a cut leaves a shorter file, never a gap that reads as damage.

use super::failure::refuse;
use super::inode::{Attributes, PAGE, id16, seconds};
use super::space::Purpose;
use super::state::State;
use super::write::{Extent, MIN_DATA};
use eraseblock_jffs2_format::constants::INODE_LEN;
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_vfs::rules::{changed_attr, check_set_attr, check_write};
use eraseblock_vfs::{FsError, FsErrorKind, Ino, SetAttr, Timestamp};

/// Whether space must be made for the first node of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Space {
    /// It is reserved already.
    Reserved,
    /// It must be made.
    Needed,
}

/// The end of a write, complete or not.
#[derive(Debug)]
struct Progress {
    /// Number of bytes written.
    done: usize,
    result: Result<(), FsError>,
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
        let attr = self.tree_mut().attr(ino)?;
        check_write(&attr, offset, data.len(), u32::MAX.into())?;
        if data.is_empty() {
            return Ok(0);
        }
        let ino = self.tree_mut().existing(ino)?;
        let offset = offset as u32;
        let size = self.tree().inode(ino).attributes.size;
        let mut space = Space::Needed;
        if offset > size {
            // Write the hole only if some of the data after it fits, too.
            self.make_space(Purpose::Write)?;
            self.writer.log.reserve(INODE_LEN + MIN_DATA, 2 * RecordNode::INODE_LEN)?;
            self.writer.put_extent(ino, &Extent::hole(size, offset), Some(now))?;
            space = Space::Reserved;
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset.wrapping_add(done as u32);
            let left = (PAGE - at % PAGE) as usize;
            let piece = &data[done..data.len().min(done + left)];
            let progress = self.write_piece(ino, at, piece, now, space);
            (done, space) = (done + progress.done, Space::Needed);
            match progress.result {
                Err(error) if error.kind() == FsErrorKind::NoSpace && done > 0 => break,
                result => result?,
            }
        }
        Ok(done)
    }

    /// Writes bytes of one page. A write that ends at the end of the page includes the bytes before
    /// it, so that small nodes become one.
    fn write_piece(&mut self, ino: u32, at: u32, piece: &[u8], now: u32, space: Space) -> Progress {
        let inside = at % PAGE;
        if inside == 0 || inside + piece.len() as u32 != PAGE {
            return self.write_nodes(ino, at, piece, now, space);
        }
        let mut page = vec![0; PAGE as usize];
        let before = self.tree().read_content(ino, at - inside, &mut page[..inside as usize]);
        if before.is_err() {
            // Lost bytes must stay lost, not become what could be read of them.
            return self.write_nodes(ino, at, piece, now, space);
        }
        page[inside as usize..].copy_from_slice(piece);
        let Progress { done, result } = self.write_nodes(ino, at - inside, &page, now, space);
        Progress { done: done.saturating_sub(inside as usize), result }
    }

    fn write_nodes(
        &mut self,
        ino: u32,
        at: u32,
        data: &[u8],
        now: u32,
        mut space: Space,
    ) -> Progress {
        let mut done = 0;
        while done < data.len() {
            match self.write_node(ino, at + done as u32, &data[done..], now, space) {
                Ok(taken) => (done, space) = (done + taken as usize, Space::Needed),
                Err(error) => return Progress { done, result: Err(error) },
            }
        }
        Progress { done, result: Ok(()) }
    }

    fn write_node(
        &mut self,
        ino: u32,
        at: u32,
        data: &[u8],
        now: u32,
        space: Space,
    ) -> Result<u32, FsError> {
        if space == Space::Needed {
            self.make_space(Purpose::Write)?;
        }
        self.writer.put_data(ino, at, data, Some(now))
    }

    /// Changes attributes.
    pub(crate) fn set_attributes(
        &mut self,
        ino: Ino,
        changes: &SetAttr,
        now: u32,
    ) -> Result<(), FsError> {
        let attr = self.tree_mut().attr(ino)?;
        let ino = self.tree_mut().existing(ino)?;
        if changes.flags.is_some() {
            return Err(refuse(FsErrorKind::Unsupported, ino, "JFFS2 has no inode flags"));
        }
        check_set_attr(&attr, changes, u32::MAX.into())?;
        if *changes == SetAttr::default() {
            return Ok(());
        }
        let wanted = changed_attr(&attr, changes, Timestamp::from_seconds(now.into()));
        let old = self.tree().inode(ino).attributes;
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
            self.make_space(Purpose::Write)?;
            return self.writer.put_growth(ino, new);
        }
        let empties = new.size == 0 && old.size > 0 && old.is_regular();
        self.replace_attributes(ino, new, if empties { Purpose::Deletion } else { Purpose::Write })
    }

    /// Writes the attributes of an inode with a new ctime, after another change of the inode.
    pub(crate) fn stamp(&mut self, ino: u32, now: u32) -> Result<(), FsError> {
        let old = self.tree().inode(ino).attributes;
        if old.ctime == now {
            return Ok(());
        }
        // The old node dies, so this is allowed on a full medium, like a deletion.
        self.replace_attributes(ino, Attributes { ctime: now, ..old }, Purpose::Deletion)
    }

    fn replace_attributes(
        &mut self,
        ino: u32,
        new: Attributes,
        purpose: Purpose,
    ) -> Result<(), FsError> {
        let payload = self.tree().own_payload(ino)?;
        self.make_space(purpose)?;
        self.writer.put_attributes(ino, new, &payload)
    }
}
