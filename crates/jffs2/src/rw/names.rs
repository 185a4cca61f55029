//! Names and inodes: what the operations on directories come to (spec: jffs2 14).

use super::inode::{Attributes, Dent, Fragments, Loaded};
use super::nodelist::{RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::{InodeCache, State};
use super::summary::record_len;
use super::write::Extent;
use eraseblock_jffs2_format::constants::{INODE_LEN, MAX_NAME_LEN, MAX_TARGET_LEN, compression};
use eraseblock_vfs::{FileKind, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode};

/// Set-group-id bit of a mode.
const SET_GID: u32 = 0o2000;

pub(crate) fn refuse(kind: FsErrorKind, ino: u32, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

fn check_name(dir: u32, name: &[u8]) -> Result<(), FsError> {
    if name.len() > MAX_NAME_LEN {
        return Err(refuse(FsErrorKind::NameTooLong, dir, "name of more than 254 bytes"));
    }
    if matches!(name, b"" | b"." | b"..") || name.contains(&0) || name.contains(&b'/') {
        return Err(refuse(FsErrorKind::Invalid, dir, "not a name"));
    }
    Ok(())
}

/// An owner as nodes store it.
pub(crate) fn id16(id: u32) -> Result<u16, FsError> {
    u16::try_from(id).map_err(|_| {
        FsError::new(FsErrorKind::Invalid, format!("owner {id}: JFFS2 has 16 bits for it"))
    })
}

impl State {
    /// The inode number, if such an inode exists; it is loaded then.
    pub(crate) fn existing(&mut self, ino: Ino) -> Result<u32, FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("no inode {ino}"));
        let ino = u32::try_from(ino).map_err(|_| missing())?;
        self.load(ino)?;
        Ok(ino)
    }

    /// The same of a directory.
    pub(crate) fn directory(&mut self, ino: Ino) -> Result<u32, FsError> {
        let ino = self.existing(ino)?;
        if self.inode(ino).attributes.is_directory() {
            return Ok(ino);
        }
        Err(refuse(FsErrorKind::NotADirectory, ino, "not a directory"))
    }

    /// The same of a regular file.
    pub(crate) fn regular(&mut self, ino: Ino) -> Result<u32, FsError> {
        let ino = self.existing(ino)?;
        let attributes = self.inode(ino).attributes;
        if attributes.is_regular() {
            return Ok(ino);
        }
        if attributes.is_directory() {
            return Err(refuse(FsErrorKind::IsADirectory, ino, "is a directory"));
        }
        Err(refuse(FsErrorKind::Invalid, ino, "not a regular file"))
    }

    /// What a name refers to.
    pub(crate) fn find(&self, dir: u32, name: &[u8]) -> Result<Dent, FsError> {
        self.inode(dir).dents.live(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            refuse(FsErrorKind::NotFound, dir, &format!("no entry `{name}`"))
        })
    }

    /// A directory in which a name may be made, and the name may.
    fn place_for(&mut self, dir: Ino, name: &[u8]) -> Result<u32, FsError> {
        let dir = self.directory(dir)?;
        check_name(dir, name)?;
        if self.cache(dir).is_none_or(|cache| cache.names == 0) {
            return Err(refuse(FsErrorKind::NotFound, dir, "the directory has been removed"));
        }
        Ok(dir)
    }

    fn refuse_existing(&self, dir: u32, name: &[u8]) -> Result<(), FsError> {
        match self.inode(dir).dents.live(name) {
            Some(_) => Err(refuse(FsErrorKind::Exists, dir, "the name exists")),
            None => Ok(()),
        }
    }

    /// Makes a new inode with a name.
    pub(crate) fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        new: &NewInode<'_>,
        now: u32,
    ) -> Result<u32, FsError> {
        let dir = self.place_for(dir, name)?;
        self.refuse_existing(dir, name)?;
        let parent = self.inode(dir).attributes;
        let (kind, payload) = self.content_of(new)?;
        let mut attributes = Attributes {
            mode: kind.mode_bits() | new.permissions & 0o7777,
            uid: id16(new.uid)?,
            gid: id16(new.gid)?,
            size: 0,
            atime: now,
            mtime: now,
            ctime: now,
        };
        if kind == FileKind::Symlink {
            attributes.mode = kind.mode_bits() | 0o777;
            attributes.size = payload.len() as u32;
        }
        if parent.mode & SET_GID != 0 {
            attributes.gid = parent.gid;
            attributes.mode |= if kind == FileKind::Directory { SET_GID } else { 0 };
        }
        let ino = self
            .highest_ino
            .checked_add(1)
            .ok_or_else(|| FsError::new(FsErrorKind::NoSpace, "no inode number is left"))?;
        self.put_new(ino, dir, attributes, &payload, new)?;
        match self.set_name(dir, name, ino, attributes.file_type(), now, Alloc::Normal) {
            Ok(_) => {
                self.cache_mut(ino).names = 1;
                Ok(ino)
            }
            Err(error) => {
                self.delete(ino);
                Err(error)
            }
        }
    }

    /// What the one node of a new inode holds.
    fn content_of(&self, new: &NewInode<'_>) -> Result<(FileKind, Vec<u8>), FsError> {
        let wrong = |kind, message: &str| Err(FsError::new(kind, message));
        let device = |major, minor| {
            self.flash.order.device_bytes(major, minor).ok_or_else(|| {
                FsError::new(FsErrorKind::Invalid, "device number beyond 12 and 20 bits")
            })
        };
        Ok(match new.kind {
            NewKind::Regular => (FileKind::Regular, Vec::new()),
            NewKind::Directory => (FileKind::Directory, Vec::new()),
            NewKind::Fifo => (FileKind::Fifo, Vec::new()),
            NewKind::Socket => (FileKind::Socket, Vec::new()),
            NewKind::BlockDevice(major, minor) => (FileKind::BlockDevice, device(major, minor)?),
            NewKind::CharDevice(major, minor) => (FileKind::CharDevice, device(major, minor)?),
            NewKind::Symlink(target) if target.is_empty() || target.contains(&0) => {
                return wrong(FsErrorKind::Invalid, "not the target of a link");
            }
            NewKind::Symlink(target) if target.len() > MAX_TARGET_LEN as usize => {
                return wrong(FsErrorKind::NameTooLong, "link target of more than 254 bytes");
            }
            NewKind::Symlink(target) => (FileKind::Symlink, target.to_vec()),
        })
    }

    /// Writes the first node of an inode that has no name yet.
    fn put_new(
        &mut self,
        ino: u32,
        parent: u32,
        attributes: Attributes,
        payload: &[u8],
        new: &NewInode<'_>,
    ) -> Result<(), FsError> {
        let len = payload.len() as u32;
        self.reserve(INODE_LEN + len, Alloc::Normal, record_len(RefKind::Inode, 0))?;
        let number = compression::NONE;
        let extent = Extent { offset: 0, dsize: len, compression: number, stored: payload };
        let place = self.put_inode(ino, 1, &attributes, &extent, RefState::Pristine);
        let rdev = match new.kind {
            NewKind::BlockDevice(major, minor) | NewKind::CharDevice(major, minor) => {
                (major, minor)
            }
            _ => (0, 0),
        };
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                self.inodes.remove(&ino);
                return Err(error);
            }
        };
        self.highest_ino = ino;
        let loaded = Loaded {
            attributes,
            metadata: Some(place),
            fragments: Fragments::default(),
            rdev,
            ..Loaded::default()
        };
        let cache = self.cache_mut(ino);
        cache.highest = 1;
        cache.parent = parent;
        cache.is_checked = true;
        cache.loaded = Some(Box::new(loaded));
        self.loaded += 1;
        Ok(())
    }

    /// Gives an inode another name.
    pub(crate) fn link(
        &mut self,
        ino: Ino,
        dir: Ino,
        name: &[u8],
        now: u32,
    ) -> Result<(), FsError> {
        let ino = self.existing(ino)?;
        let attributes = self.inode(ino).attributes;
        if attributes.is_directory() {
            return Err(refuse(FsErrorKind::NotPermitted, ino, "is a directory"));
        }
        if self.cache(ino).is_none_or(|cache| cache.names == 0) {
            return Err(refuse(FsErrorKind::NotFound, ino, "has been removed"));
        }
        let dir = self.place_for(dir, name)?;
        self.refuse_existing(dir, name)?;
        self.set_name(dir, name, ino, attributes.file_type(), now, Alloc::Normal)?;
        self.cache_mut(ino).names += 1;
        Ok(())
    }

    /// Takes a name away from anything but a directory.
    pub(crate) fn unlink(&mut self, dir: Ino, name: &[u8], now: u32) -> Result<(), FsError> {
        let dir = self.directory(dir)?;
        let dent = self.find(dir, name)?;
        if dent.file_type == FileKind::Directory.dirent_type() {
            return Err(refuse(FsErrorKind::IsADirectory, dent.ino, "is a directory"));
        }
        self.set_name(dir, name, 0, 0, now, Alloc::Deletion)?;
        self.drop_name(dent.ino);
        Ok(())
    }

    /// Takes the name of an empty directory away.
    pub(crate) fn remove_dir(&mut self, dir: Ino, name: &[u8], now: u32) -> Result<(), FsError> {
        let dir = self.directory(dir)?;
        let dent = self.find(dir, name)?;
        if dent.file_type != FileKind::Directory.dirent_type() {
            return Err(refuse(FsErrorKind::NotADirectory, dent.ino, "not a directory"));
        }
        self.check_removable(dent.ino)?;
        self.set_name(dir, name, 0, 0, now, Alloc::Deletion)?;
        self.drop_name(dent.ino);
        Ok(())
    }

    /// A directory must be empty, unless an interrupted rename left it another name.
    fn check_removable(&mut self, ino: u32) -> Result<(), FsError> {
        self.load(ino)?;
        let is_last = self.cache(ino).is_none_or(|cache| cache.names < 2);
        if is_last && !self.inode(ino).dents.is_empty() {
            return Err(refuse(FsErrorKind::NotEmpty, ino, "the directory is not empty"));
        }
        Ok(())
    }

    /// Moves a name.
    pub(crate) fn rename(
        &mut self,
        (dir, name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
        mode: RenameMode,
        now: u32,
    ) -> Result<(), FsError> {
        if !matches!(mode, RenameMode::Replace | RenameMode::NoReplace) {
            let message = "JFFS2 cannot exchange names or leave whiteouts";
            return Err(FsError::new(FsErrorKind::Unsupported, message));
        }
        let dir = self.directory(dir)?;
        let to_dir = self.place_for(to_dir, to_name)?;
        self.load(dir)?;
        let dent = self.find(dir, name)?;
        let is_dir = dent.file_type == FileKind::Directory.dirent_type();
        if let Some(old) = self.inode(to_dir).dents.live(to_name) {
            if mode == RenameMode::NoReplace {
                return Err(refuse(FsErrorKind::Exists, to_dir, "the name exists"));
            }
            if old.ino == dent.ino {
                return Ok(());
            }
            self.check_replaceable(old, is_dir)?;
        }
        if is_dir {
            self.refuse_cycle(dent.ino, to_dir)?;
        }
        let kind = dent.file_type;
        let old = self.set_name(to_dir, to_name, dent.ino, kind, now, Alloc::Normal)?;
        let cache = self.cache_mut(dent.ino);
        cache.names += 1;
        cache.parent = to_dir;
        if old != 0 {
            self.drop_name(old);
        }
        self.set_name(dir, name, 0, 0, now, Alloc::Deletion)?;
        self.drop_name(dent.ino);
        Ok(())
    }

    fn check_replaceable(&mut self, old: Dent, by_dir: bool) -> Result<(), FsError> {
        let is_dir = old.file_type == FileKind::Directory.dirent_type();
        match (is_dir, by_dir) {
            (false, true) => Err(refuse(FsErrorKind::NotADirectory, old.ino, "not a directory")),
            (true, false) => Err(refuse(FsErrorKind::IsADirectory, old.ino, "is a directory")),
            (true, true) => self.check_removable(old.ino),
            (false, false) => Ok(()),
        }
    }

    /// A directory must not move below itself.
    fn refuse_cycle(&self, moved: u32, to: u32) -> Result<(), FsError> {
        let mut at = to;
        for _ in 0..=self.inodes.len() {
            if at == moved {
                return Err(refuse(FsErrorKind::Invalid, moved, "would be moved below itself"));
            }
            match self.cache(at) {
                Some(cache) if cache.parent != 0 => at = cache.parent,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// A name of the inode is gone.
    pub(crate) fn drop_name(&mut self, ino: u32) {
        let Some(cache) = self.inodes.get_mut(&ino) else { return };
        cache.names = cache.names.saturating_sub(1);
        if cache.names == 0 && cache.opens == 0 {
            self.delete(ino);
        }
    }

    /// The inode is gone: its nodes are dead, nothing needs to be written.
    pub(crate) fn delete(&mut self, ino: u32) {
        self.drop_xattrs(ino);
        let InodeCache { nodes, loaded, .. } = self.inodes.remove(&ino).unwrap_or_default();
        self.loaded -= usize::from(loaded.is_some());
        for place in nodes {
            self.obsolete(place);
        }
    }
}

/// File types as DIRENT nodes have them.
trait DirentType {
    fn dirent_type(self) -> u8;
}

impl DirentType for FileKind {
    fn dirent_type(self) -> u8 {
        (self.mode_bits() >> 12) as u8
    }
}
