//! The effect of each request on the file system; `protocol` receives requests and sends replies.
//!
//! # Invariants
//! 1. Every reply that names an inode of a writable file system is counted in [`Lookups`] first.
//! 2. Nothing of the file system is called from inside its own directory listing.
//! 3. Operations that may change anything run on behalf of the requester ([`Adapter::caller`]).

mod create;
mod listing;
mod protocol;
mod xattrs;

use crate::acl::{self, Acl};
use crate::convert::{file_attr, inode_number, node_number, now, timestamp};
use crate::errno::Fault;
use crate::flags::{self, Request};
use crate::ids::{IdMap, IdMaps, NOBODY};
use crate::lookups::Lookups;
use crate::mount::Report;
use crate::status::{Status, Traffic};
use eraseblock_vfs::background::Activity;
use eraseblock_vfs::walk;
use eraseblock_vfs::{
    Caller, FsErrorKind, Ino, RenameMode, Served, SetAttr, WritableFileSystem, XattrMode,
};
use fuser::{Errno, FileAttr, FileType, INodeNo, OpenAccMode, OpenFlags, RenameFlags, TimeOrNow};
use listing::Interest;
use rustix::fs::OFlags;
use std::fmt;
use std::sync::Arc;

/// Settings for replies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Maps between owners in the image and on the host.
    pub(crate) ids: IdMaps,
    /// Whether ACLs are kept consistent with modes.
    pub(crate) acl: bool,
    /// Whether the kernel enforces ACLs.
    pub(crate) enforces_acl: bool,
    /// Whether every change is durable before the reply.
    pub(crate) sync: bool,
    /// Receives reports of trouble with the medium.
    pub(crate) report: Option<Report>,
    /// Counts reads and writes.
    pub(crate) traffic: Arc<Traffic>,
    /// Answers queries about the mount.
    pub(crate) status: Option<Status>,
}

/// A file system that handles requests.
pub(crate) struct Adapter {
    served: Served,
    root: Ino,
    settings: Settings,
    lookups: Arc<Lookups>,
    activity: Arc<Activity>,
    interest: Interest,
    /// The user who mounts; the reserved space is available to this user, who has the medium.
    operator: u32,
    over: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("served", &self.served).finish_non_exhaustive()
    }
}

/// The attribute changes of a request.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
}

impl Adapter {
    pub(crate) fn new(
        served: Served,
        settings: Settings,
        lookups: Arc<Lookups>,
        activity: Arc<Activity>,
    ) -> Self {
        let root = served.reading().root();
        let interest = Interest::default();
        let operator = rustix::process::geteuid().as_raw();
        Self { served, root, settings, lookups, activity, interest, operator, over: None }
    }

    /// Calls `over` after the last request.
    pub(crate) fn when_over(mut self, over: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.over = Some(Box::new(over));
        self
    }

    fn ino(&self, node: INodeNo) -> Ino {
        inode_number(node, self.root)
    }

    /// Returns the error number for the kernel; reports trouble to the operator.
    fn errno(&self, fault: &Fault) -> Errno {
        if let (Some(report), Some(trouble)) = (&self.settings.report, fault.trouble()) {
            report.send(&trouble);
        }
        fault.errno()
    }

    fn attr(&self, ino: Ino) -> Result<FileAttr, Fault> {
        let attr = self.served.reading().attr(ino)?;
        Ok(file_attr(node_number(ino, self.root), &attr, &self.settings.ids))
    }

    /// Returns the attributes of an inode for a reply that names it.
    fn named(&self, ino: Ino) -> Result<FileAttr, Fault> {
        let Served::ReadWrite(fs) = &self.served else { return self.attr(ino) };
        self.lookups.remember(fs.as_ref(), ino)?;
        self.attr(ino).inspect_err(|_| {
            let _ = self.lookups.forget(fs.as_ref(), ino, 1);
        })
    }

    fn forget(&self, node: INodeNo, count: u64) {
        let Served::ReadWrite(fs) = &self.served else { return };
        if let Err(error) = self.lookups.forget(fs.as_ref(), self.ino(node), count) {
            self.errno(&error.into());
        }
        self.activity.changed();
    }

    /// Returns the user on whose behalf the file system is called.
    fn caller(&self, req: &fuser::Request) -> Caller {
        if [0, self.operator].contains(&req.uid()) {
            return Caller::owner(now());
        }
        let IdMaps { uid, gid } = &self.settings.ids;
        let stored = |map: &IdMap, id| map.stored(id).unwrap_or(NOBODY);
        Caller { uid: stored(uid, req.uid()), gid: stored(gid, req.gid()), now: now() }
    }

    /// Completes an operation that changed something.
    fn changed(&self, fs: &dyn WritableFileSystem) -> Result<(), Fault> {
        self.activity.changed();
        if self.settings.sync {
            fs.flush()?;
        }
        Ok(())
    }

    /// Returns the entry of a name, or `None` if it does not exist. For a file handle whose inode
    /// it has forgotten, the kernel looks up `.` in any inode, and `..` in a directory.
    fn lookup(&self, dir: INodeNo, name: &[u8]) -> Result<Option<FileAttr>, Fault> {
        let (fs, dir) = (self.served.reading(), self.ino(dir));
        let found = match name {
            b"." => Ok(dir),
            b".." => walk::parent(fs, dir),
            name => fs.lookup(dir, name),
        };
        let ino = match found {
            Ok(ino) => ino,
            Err(error) if error.kind() == FsErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let attr = self.named(ino)?;
        // Programs that only list names also enter directories.
        if attr.kind != FileType::Directory {
            self.interest.shown();
        }
        Ok(Some(attr))
    }

    fn set_attr(&self, by: &Caller, node: INodeNo, changes: &Changes) -> Result<FileAttr, Fault> {
        let fs = self.served.writing()?;
        let ino = self.ino(node);
        let stored = |map: &IdMap, id: Option<u32>| match id.map(|id| map.stored(id)) {
            Some(None) => Err(Fault::from(Errno::EOVERFLOW)),
            Some(Some(id)) => Ok(Some(id)),
            None => Ok(None),
        };
        let both = (changes.atime, changes.mtime);
        let touch = matches!(both, (Some(TimeOrNow::Now), Some(TimeOrNow::Now)));
        let explicit = |time: Option<TimeOrNow>| if touch { None } else { time.map(timestamp) };
        let wanted = SetAttr {
            permissions: changes.mode.map(|mode| mode & 0o7777),
            uid: stored(&self.settings.ids.uid, changes.uid)?,
            gid: stored(&self.settings.ids.gid, changes.gid)?,
            size: changes.size,
            atime: explicit(changes.atime),
            mtime: explicit(changes.mtime),
            touch,
            flags: None,
        };
        fs.set_attr(ino, &wanted, by)?;
        if let (Some(mode), true) = (wanted.permissions, self.settings.acl)
            && let Some(list) = self.access_list(ino)?
        {
            let list = list.with_permissions(mode);
            fs.set_xattr(ino, acl::ACCESS, &list.encode(), XattrMode::Either, by)?;
        }
        self.changed(fs)?;
        self.attr(ino)
    }

    /// Returns the ACL of an inode, if it has one.
    fn access_list(&self, ino: Ino) -> Result<Option<Acl>, Fault> {
        self.acl(ino, acl::ACCESS)
    }

    fn acl(&self, ino: Ino, name: &[u8]) -> Result<Option<Acl>, Fault> {
        match self.served.reading().xattr(ino, name) {
            Ok(value) => Ok(Acl::decode(&value)),
            Err(error) => match error.kind() {
                FsErrorKind::NoAttribute | FsErrorKind::Unsupported => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    fn remove_file(&self, by: &Caller, dir: INodeNo, name: &[u8]) -> Result<(), Fault> {
        let fs = self.served.writing()?;
        fs.unlink(self.ino(dir), name, by)?;
        self.changed(fs)
    }

    fn remove_dir(&self, by: &Caller, dir: INodeNo, name: &[u8]) -> Result<(), Fault> {
        let fs = self.served.writing()?;
        fs.remove_dir(self.ino(dir), name, by)?;
        self.changed(fs)
    }

    fn rename(
        &self,
        by: &Caller,
        from: (INodeNo, &[u8]),
        to: (INodeNo, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Fault> {
        let fs = self.served.writing()?;
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            RenameFlags::RENAME_WHITEOUT => RenameMode::Whiteout,
            // The kernel holds both directories, so the name cannot be created in between.
            flags if flags == RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_WHITEOUT => {
                if fs.lookup(self.ino(to.0), to.1).is_ok() {
                    return Err(Errno::EEXIST.into());
                }
                RenameMode::Whiteout
            }
            _ => return Err(Errno::EINVAL.into()),
        };
        fs.rename((self.ino(from.0), from.1), (self.ino(to.0), to.1), mode, by)?;
        self.changed(fs)
    }

    fn link(
        &self,
        by: &Caller,
        node: INodeNo,
        dir: INodeNo,
        name: &[u8],
    ) -> Result<FileAttr, Fault> {
        let fs = self.served.writing()?;
        let ino = self.ino(node);
        fs.link(ino, self.ino(dir), name, by)?;
        self.changed(fs)?;
        self.named(ino)
    }

    /// Refuses to open a file in a mode that its flags forbid (EPERM), as open(2) does.
    fn check_open(&self, node: INodeNo, flags: OpenFlags) -> Result<(), Fault> {
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            return Ok(());
        }
        self.served.writing()?;
        let attr = self.served.reading().attr(self.ino(node))?;
        let asked = OFlags::from_bits_retain(flags.0.cast_unsigned());
        let appends = asked.contains(OFlags::APPEND) && !asked.contains(OFlags::TRUNC);
        if attr.flags.immutable || attr.flags.append && !appends {
            return Err(Errno::EPERM.into());
        }
        Ok(())
    }

    /// Writes data; returns the number of bytes that fit.
    fn write(&self, by: &Caller, node: INodeNo, offset: u64, data: &[u8]) -> Result<usize, Fault> {
        let fs = self.served.writing()?;
        let done = fs.write_some(self.ino(node), offset, data, by)?;
        self.settings.traffic.wrote(done);
        self.changed(fs)?;
        Ok(done)
    }

    fn seek(&self, node: INodeNo, offset: i64, whence: i32) -> Result<i64, Fault> {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let fs = self.served.reading();
        let ino = self.ino(node);
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        if offset >= fs.attr(ino)?.size {
            return Err(Errno::ENXIO.into());
        }
        let found = match whence {
            SEEK_DATA => fs.seek_data(ino, offset)?.ok_or(Errno::ENXIO)?,
            SEEK_HOLE => fs.seek_hole(ino, offset)?,
            _ => return Err(Errno::EINVAL.into()),
        };
        Ok(i64::try_from(found).map_err(|_| Errno::EOVERFLOW)?)
    }

    fn sync(&self, node: INodeNo) -> Result<(), Fault> {
        match &self.served {
            Served::ReadOnly(_) => Ok(()),
            Served::ReadWrite(fs) => Ok(fs.sync_file(self.ino(node))?),
        }
    }

    /// Gets or sets the flags of chattr; returns the bytes of the reply.
    fn flags(
        &self,
        by: &Caller,
        node: INodeNo,
        command: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let ino = self.ino(node);
        match flags::request(command, data).ok_or(Errno::ENOTTY)? {
            Request::Get => {
                let attr = self.served.reading().attr(ino)?;
                Ok(flags::bits(attr.flags).to_ne_bytes().to_vec())
            }
            Request::GetExtended => {
                let attr = self.served.reading().attr(ino)?;
                Ok(flags::extended(attr.flags).to_vec())
            }
            Request::Set(bits) => {
                let fs = self.served.writing()?;
                let flags = flags::flags(bits).ok_or(Errno::EOPNOTSUPP)?;
                let changes = SetAttr { flags: Some(flags), ..SetAttr::default() };
                fs.set_attr(ino, &changes, by)?;
                self.changed(fs)?;
                Ok(Vec::new())
            }
        }
    }
}
