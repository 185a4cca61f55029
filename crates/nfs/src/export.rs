//! The effect of each call on the file system.

use crate::convert::{attributes, changes, handle_status, owner, status};
use crate::listing::Listing;
use eraseblock_vfs::background::Activity;
use eraseblock_vfs::{
    FsErrorKind, NewInode, NewKind, RenameMode, Served, SetAttr, WritableFileSystem, walk,
};
use nfs3_server::nfs3_types::nfs3::{
    Nfs3Option, createverf3, fattr3, filename3, nfspath3, nfsstat3, sattr3, stable_how,
};
use nfs3_server::vfs::{
    FileHandleU64, NfsFileSystem, NfsReadFileSystem, ReadDirPlusIterator, VFSCapabilities,
};
use std::sync::Arc;

/// A handle is an inode number.
pub(crate) type Handle = FileHandleU64;

/// The maximum length of one read.
const MAX_READ: u32 = 1 << 20;

/// The maximum name length if the file system does not state one.
const USUAL_NAME_MAX: u32 = 255;

/// Neither file system has a limit below that of the number's type.
const MAX_LINKS: u32 = i32::MAX.cast_unsigned();

/// The exported file system.
#[derive(Debug)]
pub(crate) struct Export {
    exported: Served,
    /// Owner and group of new files.
    owner: (u32, u32),
    activity: Arc<Activity>,
}

impl Export {
    pub(crate) fn new(exported: Served, owner: (u32, u32), activity: Arc<Activity>) -> Self {
        Self { exported, owner, activity }
    }

    /// Returns the file system for a change, after which background work is due.
    fn writing(&self) -> Result<&dyn WritableFileSystem, nfsstat3> {
        let fs = self.exported.writing().map_err(|error| status(&error))?;
        self.activity.changed();
        Ok(fs)
    }

    fn attr(&self, id: Handle) -> Result<fattr3, nfsstat3> {
        let attr = self.exported.reading().attr(id.as_u64());
        attr.map(|attr| attributes(&attr)).map_err(|error| handle_status(&error))
    }

    /// Creates an inode, durable when this returns.
    fn make(
        &self,
        dir: Handle,
        name: &filename3<'_>,
        kind: NewKind<'_>,
        wanted: &SetAttr,
    ) -> Result<(Handle, fattr3), nfsstat3> {
        let fs = self.writing()?;
        let usual = if kind == NewKind::Directory { 0o755 } else { 0o644 };
        let inode = NewInode {
            kind,
            permissions: wanted.permissions.unwrap_or(usual),
            uid: wanted.uid.unwrap_or(self.owner.0),
            gid: wanted.gid.unwrap_or(self.owner.1),
        };
        let ino = fs.create(dir.as_u64(), name.0.as_ref(), &inode, &owner());
        let ino = ino.map_err(|error| status(&error))?;
        let rest = SetAttr { permissions: None, uid: None, gid: None, ..*wanted };
        if rest != SetAttr::default() {
            fs.set_attr(ino, &rest, &owner()).map_err(|error| status(&error))?;
        }
        settle(fs, &[ino, dir.as_u64()])?;
        let handle = Handle::new(ino);
        Ok((handle, self.attr(handle)?))
    }
}

/// Makes the changes of an operation durable: NFS has no later point for it.
fn settle(fs: &dyn WritableFileSystem, inodes: &[u64]) -> Result<(), nfsstat3> {
    for ino in inodes {
        fs.sync_file(*ino).map_err(|error| status(&error))?;
    }
    Ok(())
}

impl NfsReadFileSystem for Export {
    type Handle = Handle;

    fn root_dir(&self) -> Handle {
        Handle::new(self.exported.reading().root())
    }

    async fn lookup(&self, dirid: &Handle, filename: &filename3<'_>) -> Result<Handle, nfsstat3> {
        let name: &[u8] = filename.0.as_ref();
        let (fs, dir) = (self.exported.reading(), dirid.as_u64());
        let ino = match name {
            b"." => Ok(dir),
            b".." => walk::parent(fs, dir),
            name => fs.lookup(dir, name),
        };
        ino.map(Handle::new).map_err(|error| status(&error))
    }

    fn limits(&self) -> (u32, u32) {
        let name_max = self.exported.reading().stat_fs().map_or(USUAL_NAME_MAX, |fs| fs.name_max);
        (MAX_LINKS, name_max)
    }

    async fn space(&self) -> Result<Option<(u64, u64, u64)>, nfsstat3> {
        let fs = self.exported.reading().stat_fs().map_err(|error| status(&error))?;
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(fs.block_size));
        Ok(Some((bytes(fs.blocks), bytes(fs.blocks_free), bytes(fs.blocks_available))))
    }

    async fn getattr(&self, id: &Handle) -> Result<fattr3, nfsstat3> {
        self.attr(*id)
    }

    async fn read(
        &self,
        id: &Handle,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), nfsstat3> {
        let fs = self.exported.reading();
        let size = self.attr(*id)?.size;
        let mut bytes = vec![0; count.min(MAX_READ) as usize];
        let len = fs.read(id.as_u64(), offset, &mut bytes).map_err(|error| status(&error))?;
        bytes.truncate(len);
        let at_end = offset.saturating_add(len as u64) >= size;
        Ok((bytes, at_end))
    }

    async fn readdirplus(
        &self,
        dirid: &Handle,
        cookie: u64,
    ) -> Result<impl ReadDirPlusIterator<Handle>, nfsstat3> {
        Ok(Listing::new(self.exported.clone(), dirid.as_u64(), cookie))
    }

    async fn readlink(&self, id: &Handle) -> Result<nfspath3<'_>, nfsstat3> {
        let target = self.exported.reading().read_link(id.as_u64());
        target.map(nfspath3::from).map_err(|error| status(&error))
    }
}

impl NfsFileSystem for Export {
    fn capabilities(&self) -> VFSCapabilities {
        match self.exported {
            Served::ReadOnly(_) => VFSCapabilities::ReadOnly,
            Served::ReadWrite(_) => VFSCapabilities::ReadWrite,
        }
    }

    async fn setattr(&self, id: &Handle, setattr: sattr3) -> Result<fattr3, nfsstat3> {
        let fs = self.writing()?;
        let ino = id.as_u64();
        fs.set_attr(ino, &changes(&setattr), &owner()).map_err(|error| handle_status(&error))?;
        settle(fs, &[ino])?;
        self.attr(*id)
    }

    /// Every write is durable: otherwise a restarted server would have to report to the client
    /// which writes it lost.
    async fn write(
        &self,
        id: &Handle,
        offset: u64,
        data: &[u8],
        _stable: stable_how,
    ) -> Result<(fattr3, stable_how), nfsstat3> {
        let fs = self.writing()?;
        let ino = id.as_u64();
        fs.write(ino, offset, data, &owner()).map_err(|error| handle_status(&error))?;
        settle(fs, &[ino])?;
        Ok((self.attr(*id)?, stable_how::FILE_SYNC))
    }

    /// Creates a file, or uses an existing one.
    async fn create(
        &self,
        dirid: &Handle,
        filename: &filename3<'_>,
        attr: sattr3,
    ) -> Result<(Handle, fattr3), nfsstat3> {
        let fs = self.writing()?;
        match fs.lookup(dirid.as_u64(), filename.0.as_ref()) {
            Ok(ino) => {
                let size = match attr.size {
                    Nfs3Option::Some(size) => Some(size),
                    Nfs3Option::None => None,
                };
                let wanted = SetAttr { size, ..SetAttr::default() };
                fs.set_attr(ino, &wanted, &owner()).map_err(|error| status(&error))?;
                settle(fs, &[ino])?;
                let handle = Handle::new(ino);
                Ok((handle, self.attr(handle)?))
            }
            Err(error) if error.kind() == FsErrorKind::NotFound => {
                self.make(*dirid, filename, NewKind::Regular, &changes(&attr))
            }
            Err(error) => Err(status(&error)),
        }
    }

    /// An image cannot store the verifier of such a call; clients fall back to another form.
    async fn create_exclusive(
        &self,
        _dirid: &Handle,
        _filename: &filename3<'_>,
        _createverf: createverf3,
    ) -> Result<Handle, nfsstat3> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    async fn mkdir(
        &self,
        dirid: &Handle,
        dirname: &filename3<'_>,
        attr: sattr3,
    ) -> Result<(Handle, fattr3), nfsstat3> {
        let wanted = SetAttr { size: None, ..changes(&attr) };
        self.make(*dirid, dirname, NewKind::Directory, &wanted)
    }

    async fn remove(&self, dirid: &Handle, filename: &filename3<'_>) -> Result<(), nfsstat3> {
        let fs = self.writing()?;
        let dir = dirid.as_u64();
        fs.unlink(dir, filename.0.as_ref(), &owner()).map_err(|error| status(&error))?;
        settle(fs, &[dir])
    }

    async fn rmdir(&self, dirid: &Handle, dirname: &filename3<'_>) -> Result<(), nfsstat3> {
        let fs = self.writing()?;
        let dir = dirid.as_u64();
        fs.remove_dir(dir, dirname.0.as_ref(), &owner()).map_err(|error| status(&error))?;
        settle(fs, &[dir])
    }

    async fn link(
        &self,
        id: &Handle,
        dirid: &Handle,
        filename: &filename3<'_>,
    ) -> Result<(), nfsstat3> {
        let fs = self.writing()?;
        let (ino, dir) = (id.as_u64(), dirid.as_u64());
        fs.link(ino, dir, filename.0.as_ref(), &owner()).map_err(|error| status(&error))?;
        settle(fs, &[ino, dir])
    }

    async fn rename<'a>(
        &self,
        from_dirid: &Handle,
        from_filename: &filename3<'a>,
        to_dirid: &Handle,
        to_filename: &filename3<'a>,
    ) -> Result<(), nfsstat3> {
        let fs = self.writing()?;
        let from: (u64, &[u8]) = (from_dirid.as_u64(), from_filename.0.as_ref());
        let to: (u64, &[u8]) = (to_dirid.as_u64(), to_filename.0.as_ref());
        fs.rename(from, to, RenameMode::Replace, &owner()).map_err(|error| status(&error))?;
        settle(fs, &[from.0, to.0])
    }

    async fn symlink<'a>(
        &self,
        dirid: &Handle,
        linkname: &filename3<'a>,
        symlink: &nfspath3<'a>,
        attr: &sattr3,
    ) -> Result<(Handle, fattr3), nfsstat3> {
        let wanted = SetAttr { size: None, ..changes(attr) };
        self.make(*dirid, linkname, NewKind::Symlink(symlink.0.as_ref()), &wanted)
    }

    async fn commit(&self, id: &Handle, _offset: u64, _count: u32) -> Result<(), nfsstat3> {
        settle(self.writing()?, &[id.as_u64()])
    }
}
