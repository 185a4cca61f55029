//! The output of `strace -f -ttt -yy -e trace=%file,%desc`.
//!
//! `-yy` writes the path of a file descriptor after its number, so that no table of descriptors is
//! needed but for their positions.

mod call;

use crate::named::Named;
use crate::op::{How, Kind, Name, Op, Step};
use call::{Call, Fd};
use std::collections::{HashMap, VecDeque};

/// An open file.
#[derive(Clone, Copy, Debug)]
struct Open {
    file: u64,
    position: u64,
    appends: bool,
}

/// An output of `strace` that is being read.
#[derive(Debug)]
pub(crate) struct Import {
    named: Named,
    /// Seconds and nanoseconds of the first line.
    start: Option<u64>,
    /// By the number and the path of the descriptor.
    open: HashMap<Fd, Open>,
    /// Sizes of files, as far as they are known.
    sizes: HashMap<u64, u64>,
    /// Beginnings of calls that other processes have interrupted, by process.
    begun: HashMap<u64, String>,
    pub(crate) left_out: u64,
}

impl Import {
    /// Starts, if this is a line of such an output.
    pub(crate) fn begin(first: &str, root: &[u8]) -> Option<Self> {
        call::timed(first).map(|_| Self {
            named: Named::new(root),
            start: None,
            open: HashMap::new(),
            sizes: HashMap::new(),
            begun: HashMap::new(),
            left_out: 0,
        })
    }

    /// Reads a line; those that are no calls, or not about files below the root, have no steps.
    pub(crate) fn line(&mut self, line: &str, steps: &mut VecDeque<Step>) {
        let Some((process, time, text)) = call::timed(line) else { return };
        let at = time.saturating_sub(*self.start.get_or_insert(time));
        let text = match call::resumed(text) {
            Some(rest) => match self.begun.remove(&process) {
                Some(begin) => begin + rest,
                None => return,
            },
            None => text.to_owned(),
        };
        if let Some(begin) = text.strip_suffix("<unfinished ...>") {
            self.begun.insert(process, begin.to_owned());
            return;
        }
        let Some(call) = Call::parse(&text) else { return };
        let mut emit = |op| steps.push_back(Step { at, thread: process, op });
        if self.call(&call, &mut emit).is_none() {
            self.left_out += u64::from(self.is_below(&call));
        }
    }

    /// Returns whether one of the paths of a call lies below the root.
    fn is_below(&self, call: &Call<'_>) -> bool {
        call.paths().any(|path| self.named.below(&path).is_some())
    }

    /// Translates a call; `None` if it is one that cannot be replayed, or not about files below the
    /// root.
    fn call(&mut self, call: &Call<'_>, emit: &mut dyn FnMut(Op)) -> Option<()> {
        match call.name {
            "open" | "openat" | "creat" => self.open(call, emit),
            "close" => {
                let fd = call.fd(0)?;
                let open = self.open.remove(&fd)?;
                emit(Op::Release { file: open.file });
                Some(())
            }
            "dup" | "dup2" | "dup3" | "fcntl" => {
                let (from, to) = (call.fd(0)?, call.result_fd());
                if let (Some(open), Some(to)) = (self.open.get(&from).copied(), to) {
                    emit(Op::Open { file: open.file });
                    self.open.insert(to, open);
                }
                Some(())
            }
            "lseek" => {
                let fd = call.fd(0)?;
                if let Some(open) = self.open.get_mut(&fd) {
                    open.position = call.result;
                }
                Some(())
            }
            "fstat" | "newfstatat" => {
                if let (Some(fd), Some(size)) = (call.fd(0), call.size())
                    && let Some(open) = self.open.get(&fd)
                {
                    self.sizes.entry(open.file).or_insert(size);
                }
                Some(())
            }
            "read" | "readv" | "write" | "writev" | "sendfile" => self.transfer(call, None, emit),
            "pread64" | "preadv" | "preadv2" | "pwrite64" | "pwritev" | "pwritev2" => {
                let offset = call.number(3)?;
                self.transfer(call, Some(offset), emit)
            }
            "fsync" | "fdatasync" => {
                let file = self.by_fd(call, 0, emit)?;
                emit(Op::SyncFile { file });
                Some(())
            }
            "sync" | "syncfs" => {
                emit(Op::Sync);
                Some(())
            }
            "ftruncate" | "truncate" => {
                let file = if call.name == "truncate" {
                    self.by_path(call, 0, emit)?
                } else {
                    self.by_fd(call, 0, emit)?
                };
                self.resize(file, call.number(1)?, emit);
                Some(())
            }
            "chmod" | "fchmodat" | "fchmod" | "chown" | "fchown" | "fchownat" | "lchown"
            | "utimensat" | "utime" | "utimes" => self.attributes(call, emit),
            "setxattr" | "lsetxattr" | "fsetxattr" | "removexattr" | "lremovexattr"
            | "fremovexattr" => self.xattr(call, emit),
            _ => self.names(call, emit),
        }
    }

    fn open(&mut self, call: &Call<'_>, emit: &mut dyn FnMut(Op)) -> Option<()> {
        let (path, flags, mode) = match call.name {
            "open" => (call.path(0)?, call.word(1)?, call.octal(2)),
            "creat" => (call.path(0)?, "O_CREAT|O_TRUNC", call.octal(1)),
            _ => (call.path_at(0, 1)?, call.word(2)?, call.octal(3)),
        };
        let path = self.named.below(&path)?;
        let has = |flag: &str| flags.split('|').any(|it| it == flag);
        if has("O_TMPFILE") {
            return None;
        }
        let kind = if has("O_DIRECTORY") { Kind::Directory } else { Kind::File };
        let is_new = has("O_CREAT") && self.named.known(&path).is_none();
        let file = if is_new {
            self.create(&path, Kind::File, mode.unwrap_or(0o644), None, emit)?
        } else {
            self.named.file(&path, kind, emit)
        };
        if is_new || has("O_TRUNC") {
            self.sizes.insert(file, 0);
        }
        if has("O_TRUNC") && !is_new {
            emit(Op::Resize { file, size: 0 });
        }
        emit(Op::Open { file });
        let open = Open { file, position: 0, appends: has("O_APPEND") };
        self.open.insert(call.result_fd()?, open);
        Some(())
    }

    fn create(
        &mut self,
        path: &[u8],
        kind: Kind,
        mode: u32,
        target: Option<Name>,
        emit: &mut dyn FnMut(Op),
    ) -> Option<u64> {
        let (dir, name) = self.named.place(path, emit)?;
        let file = self.named.number();
        self.named.emit(Op::Create { file, dir, name, kind, mode, target }, emit);
        Some(file)
    }

    fn resize(&mut self, file: u64, size: u64, emit: &mut dyn FnMut(Op)) {
        self.sizes.insert(file, size);
        emit(Op::Resize { file, size });
    }

    /// Reads or writes as many bytes as the call returned, at the position of the descriptor unless
    /// the call names one.
    fn transfer(
        &mut self,
        call: &Call<'_>,
        offset: Option<u64>,
        emit: &mut dyn FnMut(Op),
    ) -> Option<()> {
        let fd = call.fd(0)?;
        let file = self.by_fd(call, 0, emit)?;
        let (len, is_read) = (call.result, call.name.contains("read"));
        let size = self.sizes.entry(file).or_default();
        let open = self.open.entry(fd).or_insert(Open { file, position: 0, appends: false });
        let from = offset.unwrap_or_else(|| {
            let from = if open.appends && !is_read { *size } else { open.position };
            open.position = from.saturating_add(len);
            from
        });
        if !is_read {
            *size = (*size).max(from.saturating_add(len));
        }
        if len > 0 {
            emit(if is_read {
                Op::Read { file, offset: from, len }
            } else {
                Op::Write { file, offset: from, len, dense: 100 }
            });
        }
        Some(())
    }

    fn attributes(&mut self, call: &Call<'_>, emit: &mut dyn FnMut(Op)) -> Option<()> {
        let file = match call.name {
            "fchmod" | "fchown" => self.by_fd(call, 0, emit)?,
            "fchmodat" | "fchownat" | "utimensat" => {
                let path = call.path_at(0, 1).or_else(|| call.fd(0).map(|fd| fd.path))?;
                self.at(&path, emit)?
            }
            _ => self.by_path(call, 0, emit)?,
        };
        let mode = match call.name {
            "chmod" | "fchmod" => call.octal(1),
            "fchmodat" => call.octal(2),
            _ => None,
        };
        emit(Op::SetAttr { file, mode });
        Some(())
    }

    fn xattr(&mut self, call: &Call<'_>, emit: &mut dyn FnMut(Op)) -> Option<()> {
        let file = if call.name.starts_with('f') {
            self.by_fd(call, 0, emit)?
        } else {
            self.by_path(call, 0, emit)?
        };
        let name = Name::new(&call.text(1)?);
        emit(if call.name.contains("remove") {
            Op::RemoveXattr { file, name }
        } else {
            Op::SetXattr { file, name, len: u32::try_from(call.number(3)?).ok()? }
        });
        Some(())
    }

    /// Translates what changes names.
    fn names(&mut self, call: &Call<'_>, emit: &mut dyn FnMut(Op)) -> Option<()> {
        match call.name {
            "mkdir" | "mkdirat" | "mknod" | "mknodat" => {
                let is_at = call.name.ends_with("at");
                let path = if is_at { call.path_at(0, 1)? } else { call.path(0)? };
                let path = self.named.below(&path)?;
                let kind =
                    if call.name.starts_with("mkdir") { Kind::Directory } else { Kind::Special };
                let mode = call.octal(1 + usize::from(is_at)).unwrap_or(0o755);
                self.create(&path, kind, mode, None, emit).map(drop)
            }
            "symlink" | "symlinkat" => {
                let path = if call.name == "symlink" { call.path(1)? } else { call.path_at(1, 2)? };
                let path = self.named.below(&path)?;
                let target = Some(Name::new(&call.text(0)?));
                self.create(&path, Kind::Symlink, 0o777, target, emit).map(drop)
            }
            "link" | "linkat" => {
                let (old, new) = if call.name == "link" {
                    (call.path(0)?, call.path(1)?)
                } else {
                    (call.path_at(0, 1)?, call.path_at(2, 3)?)
                };
                let file = self.at(&old, emit)?;
                let (dir, name) = self.named.place(&self.named.below(&new)?, emit)?;
                self.named.emit(Op::Link { file, dir, name }, emit);
                Some(())
            }
            "unlink" | "unlinkat" | "rmdir" => {
                let is_at = call.name == "unlinkat";
                let path = if is_at { call.path_at(0, 1)? } else { call.path(0)? };
                let path = self.named.below(&path)?;
                let is_dir = call.name == "rmdir"
                    || is_at && call.word(2).is_some_and(|it| it.contains("AT_REMOVEDIR"));
                // A file that nothing has used yet existed before.
                let kind = if is_dir { Kind::Directory } else { Kind::File };
                self.named.file(&path, kind, emit);
                let (dir, name) = self.named.place(&path, emit)?;
                let op =
                    if is_dir { Op::RemoveDir { dir, name } } else { Op::Unlink { dir, name } };
                self.named.emit(op, emit);
                Some(())
            }
            "rename" | "renameat" | "renameat2" => {
                let (old, new) = if call.name == "rename" {
                    (call.path(0)?, call.path(1)?)
                } else {
                    (call.path_at(0, 1)?, call.path_at(2, 3)?)
                };
                let (old, path) = (self.named.below(&old)?, self.named.below(&new)?);
                let how = match call.word(4) {
                    Some("RENAME_EXCHANGE") => How::Exchange,
                    Some("RENAME_NOREPLACE") => How::NoReplace,
                    Some("RENAME_WHITEOUT") => How::Whiteout,
                    _ => How::Replace,
                };
                self.named.file(&old, Kind::File, emit);
                let (dir, name) = self.named.place(&old, emit)?;
                let (to, new) = self.named.place(&path, emit)?;
                self.named.emit(Op::Rename { dir, name, to, new, how }, emit);
                Some(())
            }
            // These look, or change nothing that lasts.
            "access" | "faccessat" | "faccessat2" | "stat" | "lstat" | "statx" | "readlink"
            | "readlinkat" | "getdents64" | "statfs" | "fstatfs" | "getcwd" | "chdir"
            | "fchdir" | "execve" | "flock" | "ioctl" | "poll" | "ppoll" | "select"
            | "pselect6" | "getxattr" | "lgetxattr" | "fgetxattr" | "listxattr" | "llistxattr"
            | "flistxattr" | "fadvise64" | "inotify_add_watch" | "epoll_ctl" | "umask" => Some(()),
            "mmap" => {
                let writes = call.word(2).is_some_and(|it| it.contains("PROT_WRITE"))
                    && call.word(3).is_some_and(|it| it.contains("MAP_SHARED"));
                (!writes).then_some(())
            }
            _ => None,
        }
    }

    /// Returns the file of a descriptor.
    fn by_fd(&mut self, call: &Call<'_>, at: usize, emit: &mut dyn FnMut(Op)) -> Option<u64> {
        let fd = call.fd(at)?;
        if let Some(open) = self.open.get(&fd) {
            return Some(open.file);
        }
        self.at(&fd.path, emit)
    }

    fn by_path(&mut self, call: &Call<'_>, at: usize, emit: &mut dyn FnMut(Op)) -> Option<u64> {
        self.at(&call.path(at)?, emit)
    }

    /// Returns the file with an absolute path.
    fn at(&mut self, path: &[u8], emit: &mut dyn FnMut(Op)) -> Option<u64> {
        let path = self.named.below(path)?;
        Some(self.named.file(&path, Kind::File, emit))
    }
}
