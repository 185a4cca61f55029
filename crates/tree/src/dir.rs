//! Reads a directory of the host: links are not followed, and an unreadable entry is an error,
//! because a builder must not leave things out silently.

use crate::draft::{Draft, DraftId, directory, is_kept_xattr};
use crate::error::TreeError;
use eraseblock_base::{Findings, Location};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::rules::is_acl_name;
use eraseblock_vfs::{Content, FileKind, SourceKind, SourceNode, SourceTree, Timestamp};
use rayon::prelude::*;
use rustix::fs::{AtFlags, CWD, Dir, IFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What [`read`] reads and refuses.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Read xattrs (`user.*`, `trusted.*`, `security.*`).
    pub xattrs: bool,
    /// Read ACLs as well (`system.posix_acl_*`); requires `xattrs`.
    pub acls: bool,
    /// Read the flags of the attribute ioctl.
    pub inode_flags: bool,
    /// Device and inode number of a file that must not be in the tree: the image that is about to
    /// be written. Finding it is [`TreeError::OutputInside`].
    pub exclude_inode: Option<(u64, u64)>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { xattrs: true, acls: true, inode_flags: true, exclude_inode: None }
    }
}

/// Reads the directory at `path`, which may be a link to one, and its whole tree. Contents stay on
/// the host and are opened when needed.
///
/// Findings name attributes that were left out. Files are read in parallel; the result does not
/// depend on that.
///
/// # Errors
///
/// Fails if an entry cannot be read or represented, or if the tree contains the excluded inode.
pub fn read(path: &Path, options: &ReadOptions) -> Result<(SourceTree, Findings), TreeError> {
    let top = open_directory(path)?;
    let stat = rustix::fs::fstat(&top).map_err(|e| TreeError::host("stat", path, e))?;
    let mut root = node_of(&stat, directory(0).kind);
    let mut remarks = Vec::new();
    let reader = Reader { options };
    reader.attributes(&mut root, &Handle::Open(top.as_fd()), path, &mut remarks)?;
    drop(top);

    let mut findings = Findings::new();
    note(&mut findings, remarks);
    let mut draft = Draft::new(root);
    let mut known: HashMap<(u64, u64), DraftId> = HashMap::new();
    let mut level = vec![(Draft::ROOT, path.to_owned())];
    while !level.is_empty() {
        let listed: Vec<_> = level.par_iter().map(|(_, path)| reader.directory(path)).collect();
        let mut next = Vec::new();
        for ((dir, dir_path), found) in level.iter().zip(listed) {
            for found in found? {
                note(&mut findings, found.remarks);
                place(&mut draft, *dir, dir_path, &mut known, found.entry, &mut next);
            }
        }
        level = next;
    }
    let tree = draft.finish().map_err(|source| TreeError::Source { path: path.into(), source })?;
    Ok((tree, findings))
}

/// Reads the one file, link or device at `path`, which must not be a directory. A link is not
/// followed.
///
/// Findings name attributes that were left out.
///
/// # Errors
///
/// Fails if the entry cannot be read or represented.
pub fn read_node(path: &Path, options: &ReadOptions) -> Result<(SourceNode, Findings), TreeError> {
    let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    let found = Reader { options }.entry(open_directory(above)?.as_fd(), above, name)?;
    let mut findings = Findings::new();
    note(&mut findings, found.remarks);
    Ok((found.entry.node, findings))
}

/// One entry of a directory.
struct Listed {
    name: Vec<u8>,
    node: SourceNode,
    /// Device and inode number if the inode has more names.
    shared: Option<(u64, u64)>,
}

struct Found {
    entry: Listed,
    remarks: Vec<Remark>,
}

struct Remark {
    ino: u64,
    message: String,
}

fn note(findings: &mut Findings, remarks: Vec<Remark>) {
    for remark in remarks {
        findings.warn(Location::Inode(remark.ino), "xattr-left-out", remark.message);
    }
}

fn place(
    draft: &mut Draft,
    dir: DraftId,
    dir_path: &Path,
    known: &mut HashMap<(u64, u64), DraftId>,
    found: Listed,
    next: &mut Vec<(DraftId, PathBuf)>,
) {
    let Listed { name, node, shared } = found;
    let below = (node.file_kind() == FileKind::Directory).then(|| join(dir_path, &name));
    let id = match shared.map(|key| known.entry(key)) {
        Some(Entry::Occupied(first)) => return draft.add_link(dir, name, *first.get()),
        Some(Entry::Vacant(slot)) => *slot.insert(draft.add(dir, name, node)),
        None => draft.add(dir, name, node),
    };
    next.extend(below.map(|path| (id, path)));
}

fn join(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(std::ffi::OsStr::from_bytes(name))
}

fn open_directory(path: &Path) -> Result<OwnedFd, TreeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|e| TreeError::host("open", path, e))
}

/// Access to the attributes of a file: through its descriptor, or by path without following links.
enum Handle<'a> {
    Open(BorrowedFd<'a>),
    Path(&'a Path),
}

struct Reader<'a> {
    options: &'a ReadOptions,
}

impl Reader<'_> {
    /// Returns the entries of a directory in name order.
    fn directory(&self, path: &Path) -> Result<Vec<Found>, TreeError> {
        let fd = open_directory(path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd).map_err(|e| TreeError::host("list", path, e))? {
            let entry = entry.map_err(|e| TreeError::host("list", path, e))?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push(name.to_bytes().to_vec());
            }
        }
        names.sort_unstable();
        let found: Vec<_> = names
            .into_par_iter()
            .with_min_len(64)
            .map(|name| self.entry(fd.as_fd(), path, name))
            .collect();
        found.into_iter().collect()
    }

    fn entry(&self, dir: BorrowedFd<'_>, path: &Path, name: Vec<u8>) -> Result<Found, TreeError> {
        let path = join(path, &name);
        let stat = rustix::fs::statat(dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| TreeError::host("stat", &path, e))?;
        if self.options.exclude_inode == Some((stat.st_dev, stat.st_ino)) {
            return Err(TreeError::OutputInside { path });
        }
        let kind = FileKind::from_mode(stat.st_mode);
        let fd = match kind {
            Some(FileKind::Regular | FileKind::Directory) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(dir, name.as_slice(), flags, Mode::empty());
                Some(fd.map_err(|e| TreeError::host("open", &path, e))?)
            }
            _ => None,
        };
        let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let kind = match kind {
            Some(FileKind::Regular) => SourceKind::Regular(Arc::new(HostFile::new(&path, &stat))),
            Some(FileKind::Directory) => directory(0).kind,
            Some(FileKind::Symlink) => {
                let target = rustix::fs::readlinkat(dir, name.as_slice(), Vec::new())
                    .map_err(|e| TreeError::host("read the link", &path, e))?;
                SourceKind::Symlink(target.into_bytes())
            }
            Some(FileKind::BlockDevice) => SourceKind::BlockDevice(device.0, device.1),
            Some(FileKind::CharDevice) => SourceKind::CharDevice(device.0, device.1),
            Some(FileKind::Fifo) => SourceKind::Fifo,
            Some(FileKind::Socket) => SourceKind::Socket,
            None => return Err(TreeError::host("determine the type of", &path, Errno::INVAL)),
        };
        let is_dir = matches!(kind, SourceKind::Directory(_));
        let mut node = node_of(&stat, kind);
        let mut remarks = Vec::new();
        let handle = fd.as_ref().map_or(Handle::Path(&path), |fd| Handle::Open(fd.as_fd()));
        self.attributes(&mut node, &handle, &path, &mut remarks)?;
        let shared = (!is_dir && stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino));
        for remark in &mut remarks {
            remark.ino = stat.st_ino;
        }
        Ok(Found { entry: Listed { name, node, shared }, remarks })
    }

    /// Reads xattrs and inode flags.
    fn attributes(
        &self,
        node: &mut SourceNode,
        handle: &Handle<'_>,
        path: &Path,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), TreeError> {
        if self.options.inode_flags
            && let Handle::Open(fd) = handle
        {
            node.flags = inode_flags(*fd);
        }
        if !self.options.xattrs {
            return Ok(());
        }
        let names = xattr_names(handle).map_err(|e| TreeError::host("list xattrs of", path, e))?;
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            if is_acl_name(name) && !self.options.acls {
                continue;
            }
            if !is_kept_xattr(name) {
                let attribute = String::from_utf8_lossy(name);
                let message = format!(
                    "{}: attribute `{attribute}` cannot be stored in the image and is left out",
                    path.display()
                );
                remarks.push(Remark { ino: 0, message });
                continue;
            }
            match xattr_value(handle, name) {
                Ok(value) => node.xattrs.push((name.to_vec(), value)),
                Err(Errno::NODATA) => {}
                Err(error) => return Err(TreeError::host("read an xattr of", path, error)),
            }
        }
        node.xattrs.sort_unstable();
        Ok(())
    }
}

fn inode_flags(fd: BorrowedFd<'_>) -> InodeFlags {
    // File systems without the ioctl support none of the flags.
    let flags = rustix::fs::ioctl_getflags(fd).unwrap_or(IFlags::empty());
    InodeFlags {
        compress: flags.contains(IFlags::COMPRESSED),
        sync: flags.contains(IFlags::SYNC),
        immutable: flags.contains(IFlags::IMMUTABLE),
        append: flags.contains(IFlags::APPEND),
        dirsync: flags.contains(IFlags::DIRSYNC),
        encrypted: false,
    }
}

/// The maximum size of a list or value in Linux (XATTR_LIST_MAX, XATTR_SIZE_MAX), in bytes.
const XATTR_MAX: usize = 65_536;

/// Calls `fill` with growing buffers until the result fits.
fn grow(mut fill: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 256];
    match fill(&mut small) {
        Ok(len) => return Ok(small[..len].to_vec()),
        Err(Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    let mut buf = vec![0; XATTR_MAX];
    let len = fill(&mut buf)?;
    buf.truncate(len);
    Ok(buf)
}

fn xattr_names(handle: &Handle<'_>) -> Result<Vec<u8>, Errno> {
    let names = grow(|buf| match handle {
        Handle::Open(fd) => rustix::fs::flistxattr(fd, buf),
        Handle::Path(path) => rustix::fs::llistxattr(*path, buf),
    });
    match names {
        Err(Errno::NOTSUP) => Ok(Vec::new()),
        names => names,
    }
}

fn xattr_value(handle: &Handle<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    grow(|buf| match handle {
        Handle::Open(fd) => rustix::fs::fgetxattr(fd, name, buf),
        Handle::Path(path) => rustix::fs::lgetxattr(*path, name, buf),
    })
}

fn node_of(stat: &Stat, kind: SourceKind) -> SourceNode {
    let time = |seconds, nanoseconds| Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    };
    let mut node = SourceNode::new(kind, stat.st_mode & 0o7777);
    (node.uid, node.gid) = (stat.st_uid, stat.st_gid);
    node.atime = time(stat.st_atime, stat.st_atime_nsec);
    node.mtime = time(stat.st_mtime, stat.st_mtime_nsec);
    node.ctime = time(stat.st_ctime, stat.st_ctime_nsec);
    node
}

/// The content of a file of the host.
#[derive(Debug)]
struct HostFile {
    path: PathBuf,
    size: u64,
    inode: (u64, u64),
}

impl HostFile {
    fn new(path: &Path, stat: &Stat) -> Self {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Self { path: path.to_owned(), size, inode: (stat.st_dev, stat.st_ino) }
    }

    /// Opens the file, which must still be the one found earlier.
    fn reopen(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        };
        let fd = rustix::fs::openat(CWD, &self.path, flags, Mode::empty())
            .map_err(|e| named(e.into()))?;
        let file = File::from(fd);
        let now = file.metadata().map_err(named)?;
        if (now.dev(), now.ino()) != self.inode {
            return Err(named(io::Error::other("another file has replaced it in the meantime")));
        }
        Ok(file)
    }
}

impl Content for HostFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(self.reopen()?))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let file = self.reopen()?;
        let mut filled = 0;
        while filled < buf.len() {
            match file.read_at(&mut buf[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::source::NodeId;

    #[test]
    fn the_output_file_is_refused_and_missing_folders_are_named() {
        let temp = tempfile::tempdir().unwrap();
        let output = temp.path().join("image");
        std::fs::write(&output, b"").unwrap();
        let inode = std::fs::metadata(&output).unwrap();
        let options =
            ReadOptions { exclude_inode: Some((inode.dev(), inode.ino())), ..Default::default() };
        let error = read(temp.path(), &options).unwrap_err();
        assert!(matches!(&error, TreeError::OutputInside { path } if *path == output), "{error}");
        let error = read(&temp.path().join("none"), &options).unwrap_err().to_string();
        assert!(error.contains("none: could not open"), "{error}");
    }

    #[test]
    fn contents_that_change_are_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("f");
        std::fs::write(&path, b"12345").unwrap();
        let (tree, _) = read(temp.path(), &ReadOptions::default()).unwrap();
        let id = tree.lookup(NodeId::ROOT, b"f").unwrap();
        let SourceKind::Regular(content) = &tree.node(id).kind else { panic!("a file") };
        std::fs::write(&path, b"1234567").unwrap();
        let mut bytes = Vec::new();
        content.open().unwrap().read_to_end(&mut bytes).unwrap();
        assert_ne!(bytes.len() as u64, content.size());
        let other = temp.path().join("g");
        std::fs::write(&other, b"54321").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(content.open().err().unwrap().to_string().contains("has replaced it"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(content.open().is_err());
    }
}
