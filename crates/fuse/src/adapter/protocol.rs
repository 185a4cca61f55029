//! Receives requests and sends replies.

use super::create::Mode;
use super::listing::{Listed, nothing_known};
use super::xattrs::{Sized, sized};
use super::{Adapter, Changes};
use crate::convert::new_node;
use crate::errno::Fault;
use crate::requester;
use eraseblock_vfs::NewKind;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The file system has no other writer, so the kernel's caches stay valid.
const TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// The largest write request.
const MAX_WRITE: u32 = 1 << 20;

/// Inode numbers are never reused.
const GENERATION: Generation = Generation(0);

/// Capabilities to enable if the kernel supports them. Not FUSE_ASYNC_DIO: with it, the kernel
/// keeps data that a reader put into the page cache during an asynchronous direct write, and serves
/// that old content until the mount ends.
const WANTED: [InitFlags; 6] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
];

thread_local! {
    /// The read buffer of each thread of the session.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends a result, or its error number.
macro_rules! answer {
    ($adapter:ident, $reply:ident, $result:expr, $value:pat => $sent:expr) => {
        match $result {
            Ok($value) => $sent,
            Err(fault) => $reply.error($adapter.errno(&fault)),
        }
    };
}

impl Adapter {
    fn answer_entry(&self, reply: ReplyEntry, result: Result<FileAttr, Fault>) {
        answer!(self, reply, result, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn answer_attr(&self, reply: ReplyAttr, result: Result<FileAttr, Fault>) {
        answer!(self, reply, result, attr => reply.attr(&TTL, &attr));
    }

    fn answer_empty(&self, reply: ReplyEmpty, result: Result<(), Fault>) {
        answer!(self, reply, result, () => reply.ok());
    }

    fn answer_created(&self, reply: ReplyCreate, result: Result<FileAttr, Fault>) {
        let flags = FopenFlags::FOPEN_KEEP_CACHE;
        answer!(self, reply, result, attr => {
            reply.created(&TTL, &attr, GENERATION, FileHandle(0), flags);
        });
    }

    fn answer_xattr(&self, reply: ReplyXattr, room: u32, value: Result<Vec<u8>, Fault>) {
        match value.and_then(|value| sized(value, room)) {
            Ok(Sized::Bytes(bytes)) => reply.data(&bytes),
            Ok(Sized::Length(len)) => reply.size(len),
            Err(fault) => reply.error(self.errno(&fault)),
        }
    }

    /// Adds one entry, with attributes if they are `wanted`; returns true if it does not fit.
    fn add_known(&self, reply: &mut ReplyDirectoryPlus, listed: &Listed, wanted: bool) -> bool {
        let name = OsStr::from_bytes(&listed.name);
        let known = if wanted { self.known(listed) } else { None };
        let attr = known.unwrap_or_else(|| nothing_known(listed.kind));
        let is_full = reply.add(listed.node, listed.offset, name, &TTL, &attr, GENERATION);
        if is_full && known.is_some() {
            self.forget(attr.ino, 1);
        }
        is_full
    }

    /// Passes the entries after `offset` to `add` until it is full or the directory ends.
    fn list(
        &self,
        dir: INodeNo,
        mut offset: u64,
        mut add: impl FnMut(&Listed) -> bool,
    ) -> Result<(), Fault> {
        loop {
            let entries = self.entries(dir, offset)?;
            let Some(last) = entries.last() else { return Ok(()) };
            offset = last.offset;
            if entries.iter().any(&mut add) {
                return Ok(());
            }
        }
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A capability that the kernel does not support is not required.
        for flag in WANTED {
            let _ = config.add_capabilities(flag);
        }
        if self.served.is_read_only() {
            let _ = config.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT);
            let _ = config.add_capabilities(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        }
        if self.settings.acl {
            let _ = config.add_capabilities(InitFlags::FUSE_DONT_MASK);
            if self.settings.enforces_acl {
                self.settings.acl = config.add_capabilities(InitFlags::FUSE_POSIX_ACL).is_ok();
            }
        }
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        if let Some(over) = self.over.take() {
            over();
        }
    }

    fn begin(&self, req: &Request) {
        requester::begin(req.pid());
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.lookup(parent, name.as_bytes()) {
            Ok(Some(attr)) => reply.entry(&TTL, &attr, GENERATION),
            // An entry without an inode lets the kernel cache that the name does not exist.
            Ok(None) => match self.attr(self.root) {
                Ok(root) => {
                    reply.entry(&TTL, &FileAttr { ino: INodeNo(0), ..root }, GENERATION);
                }
                Err(_) => reply.error(Errno::ENOENT),
            },
            Err(fault) => reply.error(self.errno(&fault)),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.forget(ino, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.answer_attr(reply, self.attr(self.ino(ino)));
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, uid, gid, size, atime, mtime };
        self.answer_attr(reply, self.set_attr(&self.caller(req), ino, &changes));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.served.reading().read_link(self.ino(ino)).map_err(Fault::from);
        answer!(self, reply, target, target => reply.data(&target));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = new_node(mode, rdev).ok_or(Fault::from(Errno::EINVAL));
        let made = made
            .and_then(|kind| self.make(req, parent, name.as_bytes(), kind, Mode { mode, umask }));
        self.answer_entry(reply, made);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mode = Mode { mode, umask };
        let made = self.make(req, parent, name.as_bytes(), NewKind::Directory, mode);
        self.answer_entry(reply, made);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove_file(&self.caller(req), parent, name.as_bytes());
        self.answer_empty(reply, removed);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove_dir(&self.caller(req), parent, name.as_bytes());
        self.answer_empty(reply, removed);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let kind = NewKind::Symlink(target.as_os_str().as_bytes());
        let mode = Mode { mode: 0o777, umask: 0 };
        self.answer_entry(reply, self.make(req, parent, link_name.as_bytes(), kind, mode));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent, name.as_bytes()), (newparent, newname.as_bytes()));
        self.answer_empty(reply, self.rename(&self.caller(req), from, to, flags));
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let linked = self.link(&self.caller(req), ino, newparent, newname.as_bytes());
        self.answer_entry(reply, linked);
    }

    /// Needs no handles. A read-only mount reports this, and the kernel stops asking.
    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.served.is_read_only() {
            return reply.error(Errno::ENOSYS);
        }
        answer!(self, reply, self.check_open(ino, flags), () => {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.served.reading().read(self.ino(ino), offset, &mut buffer[..size]) {
                Ok(len) => {
                    self.settings.traffic.read(len);
                    reply.data(&buffer[..len.min(size)]);
                }
                Err(error) => reply.error(self.errno(&error.into())),
            }
        });
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.write(&self.caller(req), ino, offset, data);
        answer!(self, reply, written, len => reply.written(u32::try_from(len).unwrap_or(u32::MAX)));
    }

    /// Does nothing at close(2): write(2) has reported all errors. The kernel stops asking.
    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.answer_empty(reply, self.sync(ino));
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.served.is_read_only() {
            return reply.error(Errno::ENOSYS);
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(ino, offset, |listed| {
            let name = OsStr::from_bytes(&listed.name);
            reply.add(listed.node, listed.offset, listed.kind, name)
        });
        answer!(self, reply, listed, () => reply.ok());
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let wanted = self.interest.in_attributes(offset == 0);
        let listed = self.list(ino, offset, |listed| self.add_known(&mut reply, listed, wanted));
        answer!(self, reply, listed, () => reply.ok());
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.answer_empty(reply, self.sync(ino));
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let stat = self.served.reading().stat_fs().map_err(Fault::from);
        answer!(self, reply, stat, stat => reply.statfs(
            stat.blocks,
            stat.blocks_free,
            stat.blocks_available,
            0,
            0,
            stat.block_size,
            stat.name_max,
            stat.block_size,
        ));
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let set = self.set_xattr(req, ino, name.as_bytes(), value, flags);
        self.answer_empty(reply, set);
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.answer_xattr(reply, size, self.xattr(ino, name.as_bytes()));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.answer_xattr(reply, size, self.xattr_names(req, ino));
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove_xattr(&self.caller(req), ino, name.as_bytes());
        self.answer_empty(reply, removed);
    }

    /// Does nothing: the kernel checks permissions if requested, and stops asking.
    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let mode = Mode { mode, umask };
        let made = self.make(req, parent, name.as_bytes(), NewKind::Regular, mode);
        self.answer_created(reply, made);
    }

    fn tmpfile(
        &self,
        req: &Request,
        parent: INodeNo,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let mode = Mode { mode, umask };
        let made = self.create_unnamed(req, parent, mode);
        self.answer_created(reply, made);
    }

    fn ioctl(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let answer = self.flags(&self.caller(req), ino, cmd, in_data);
        answer!(self, reply, answer, data => reply.ioctl(0, &data));
    }

    /// Refuses with EOPNOTSUPP: flash file systems do not preallocate.
    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        answer!(self, reply, self.seek(ino, offset, whence), offset => reply.offset(offset));
    }
}
