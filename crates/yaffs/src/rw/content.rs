//! Contents, attributes and xattrs (spec: yaffs2 4, 5).
//!
//! Layer: above `core`.

use super::core::{Core, Flags, Purpose, area_len};
use eraseblock_vfs::rules::{
    XattrUse, changed_attr, check_acl_value, check_changeable, check_set_attr, check_write,
    check_xattr_name, check_xattr_value,
};
use eraseblock_vfs::{FileSystem, FsError, FsErrorKind, Ino, SetAttr, Timestamp, XattrMode};
use eraseblock_yaffs_format::constants::MAX_CHUNK;
use eraseblock_yaffs_format::xattr::{Records, encode};

/// The longest value that Linux passes to a file system.
const MAX_VALUE: usize = 65_535;

/// Chunks of a write that are appended together.
const PIECE: u64 = 32;

/// Seconds as the format stores them.
pub(crate) fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0)
}

impl Core {
    fn size_max(&self) -> u64 {
        u64::from(MAX_CHUNK) * self.data_len()
    }

    pub(crate) fn write(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: u64,
    ) -> Result<(), FsError> {
        check_write(&self.fs.attr(ino)?, offset, data.len(), self.size_max())?;
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let room = self.data_len() * PIECE - at % self.data_len();
            let len = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) = rest.split_at(len);
            self.write_piece(ino as u32, at, piece, now)?;
            (at, rest) = (at + len as u64, after);
        }
        Ok(())
    }

    fn write_piece(&mut self, id: u32, offset: u64, data: &[u8], now: u64) -> Result<(), FsError> {
        let (len, end) = (self.data_len(), offset + data.len() as u64);
        let (first, last) = (offset / len, (end - 1) / len);
        self.begin((last - first) as u32 + 4, Purpose::Growth)?;
        self.prepare_growth(id, offset)?;
        for index in first..=last {
            let start = index * len;
            let (from, to) = (start.max(offset), (start + len).min(end));
            let chunk = index as u32 + 1;
            let is_whole = to - from == len;
            let (mut content, valid) =
                if is_whole { (vec![0; len as usize], 0) } else { self.content(id, chunk)? };
            let part = &data[(from - offset) as usize..(to - offset) as usize];
            content[(from - start) as usize..][..part.len()].copy_from_slice(part);
            self.put_data(id, chunk, &content, valid.max((to - start) as u32))?;
        }
        if let Some(object) = self.fs.objects.all.get_mut(&id) {
            object.size = object.size.max(end);
        }
        self.change_header(id, Flags::default(), None, &|it| (it.mtime, it.ctime) = (now, now))
    }

    /// Makes sure that a file reads as zeros from its end to `offset`. Older data there is void only
    /// by a header that states the old size (spec: yaffs2 5).
    fn prepare_growth(&mut self, id: u32, offset: u64) -> Result<(), FsError> {
        let (size, len) = (self.object(id)?.size, self.data_len());
        if offset <= size {
            return Ok(());
        }
        let (last, inside) = ((size / len) as u32 + 1, (size % len) as u32);
        if let Some(page) = self.fs.objects.chunks.get(&(id, last)).copied()
            && inside > 0
            && self.fs.whole_chunk(id, last, page)?.1 > inside
        {
            let (content, valid) = self.content(id, last)?;
            self.put_data(id, last, &content, valid)?;
        }
        if offset > size.next_multiple_of(len) {
            let flags = Flags { is_shrink: true, ..Flags::default() };
            self.change_header(id, flags, None, &|_| {})?;
        }
        Ok(())
    }

    pub(crate) fn set_attr(
        &mut self,
        ino: Ino,
        changes: &SetAttr,
        now: Timestamp,
    ) -> Result<(), FsError> {
        let attr = self.fs.attr(ino)?;
        check_set_attr(&attr, changes, self.size_max())?;
        if changes.flags.is_some() {
            let message = format!("inode {ino}: YAFFS stores no flags");
            return Err(FsError::new(FsErrorKind::Unsupported, message));
        }
        if *changes == SetAttr::default() {
            return Ok(());
        }
        let next = changed_attr(&attr, changes, now);
        let id = ino as u32;
        let is_shorter = changes.size.is_some_and(|size| size < attr.size);
        self.begin(5, if is_shorter { Purpose::Deletion } else { Purpose::Growth })?;
        if let Some(size) = changes.size {
            self.prepare_growth(id, size)?;
            if let Some(object) = self.fs.objects.all.get_mut(&id) {
                object.size = size;
            }
        }
        let flags = Flags { is_shrink: is_shorter, ..Flags::default() };
        self.change_header(id, flags, None, &|it| {
            it.mode = it.mode & !0o7777 | next.permissions;
            (it.uid, it.gid) = (next.uid, next.gid);
            (it.atime, it.mtime) = (seconds(next.atime), seconds(next.mtime));
            it.ctime = seconds(next.ctime);
        })?;
        if is_shorter { self.cut(id) } else { Ok(()) }
    }

    /// Drops what a file had after its new end. The header with the size is on flash already, so a
    /// power cut shows the file either way as a whole; the zeros in the last chunk are for writers
    /// that do not look at the size.
    fn cut(&mut self, id: u32) -> Result<(), FsError> {
        let (size, len) = (self.object(id)?.size, self.data_len());
        let (whole, inside) = ((size / len) as u32, (size % len) as u32);
        self.drop_data(id, whole + 1 + u32::from(inside > 0));
        if inside > 0 && self.fs.objects.chunks.contains_key(&(id, whole + 1)) {
            let (content, valid) = self.content(id, whole + 1)?;
            self.put_data(id, whole + 1, &content, valid)?;
        }
        Ok(())
    }

    pub(crate) fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: Option<(&[u8], XattrMode)>,
        now: u64,
    ) -> Result<(), FsError> {
        let attr = self.fs.attr(ino)?;
        check_changeable(&attr)?;
        check_xattr_name(attr.kind, name, XattrUse::Change)?;
        let exists = self.fs.list_xattrs(ino)?.iter().any(|it| it == name);
        let mode = value.map(|(_, mode)| mode);
        if let Some((value, _)) = value {
            check_acl_value(name, value)?;
            check_xattr_value(value, MAX_VALUE)?;
        }
        let refusal = match (mode, exists) {
            (Some(XattrMode::Create), true) => Some(FsErrorKind::Exists),
            (Some(XattrMode::Replace) | None, false) => Some(FsErrorKind::NoAttribute),
            _ => None,
        };
        let fail = |kind| {
            let name = String::from_utf8_lossy(name);
            FsError::new(kind, format!("inode {ino}: attribute `{name}` cannot be set"))
        };
        if let Some(kind) = refusal {
            return Err(fail(kind));
        }
        let order = self.fs.flash.layout.order;
        let old = self.fs.xattr_area(ino)?;
        let kept = Records::new(order, &old).filter(|(other, _)| *other != name);
        let new = value.map(|(value, _)| (name, value));
        let records: Vec<(&[u8], &[u8])> = kept.chain(new).collect();
        let area = encode(order, &records, area_len(self.data_len()));
        let area = area.ok_or_else(|| fail(FsErrorKind::NoSpace))?;
        self.begin(1, if value.is_some() { Purpose::Growth } else { Purpose::Deletion })?;
        self.change_header(ino as u32, Flags::default(), Some(area), &|it| it.ctime = now)
    }
}
