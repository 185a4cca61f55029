//! Operations as values, for property tests and the power-cut lab. Their name space is small, so
//! that operations affect each other.

#[cfg(any(test, feature = "proptest"))]
pub mod strategy;

use eraseblock_vfs::Caller;
use eraseblock_vfs::attr::{InodeFlags, Timestamp};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::Ino;
use eraseblock_vfs::write::{
    NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem, XattrMode,
};

/// The directories of operations. Operations create and remove all but the root.
pub const DIRS: [&[u8]; 4] = [b"", b"d", b"e", b"d/s"];

/// The names used by operations; `d`, `e` and `s` create and move the directories of [`DIRS`].
pub const NAMES: [&[u8]; 6] = [b"a", b"b", b"d", b"e", b"s", &[b'l'; 200]];

/// Names of xattrs.
pub const XATTRS: [&[u8]; 4] = [b"user.a", b"user.b", b"trusted.a", b"security.a"];

/// Maximum number of files held open at a time.
pub const SLOTS: usize = 3;

/// A name in a directory: indices of [`DIRS`] and [`NAMES`], taken modulo their lengths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The directory.
    pub dir: u8,
    /// The name.
    pub name: u8,
}

impl Place {
    /// Returns the path of the directory.
    pub fn dir_path(self) -> &'static [u8] {
        DIRS[usize::from(self.dir) % DIRS.len()]
    }

    /// Returns the name.
    pub fn name(self) -> &'static [u8] {
        NAMES[usize::from(self.name) % NAMES.len()]
    }

    /// Returns the whole path.
    pub fn path(self) -> Vec<u8> {
        let dir = self.dir_path();
        let slash: &[u8] = if dir.is_empty() { b"" } else { b"/" };
        [dir, slash, self.name()].concat()
    }
}

/// The inode an operation works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Object {
    /// The root.
    Root,
    /// The inode of a name.
    At(Place),
    /// The file held open in a slot, by number modulo [`SLOTS`].
    Slot(u8),
}

/// The kind of inode that [`Op::Create`] creates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Make {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link with a target of this many bytes.
    Symlink(u16),
    /// A block device.
    Block,
    /// A character device.
    Char,
    /// A pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// The pattern of written bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Texture {
    /// Incompressible; every 16 bytes identify their write and their position.
    Random,
    /// Well compressible, different for each write.
    Text,
    /// Zeros.
    Zeros,
}

/// The attribute that [`Op::Change`] changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// Permission bits.
    Mode(u16),
    /// Owner and group.
    Owner(u32, u32),
    /// atime and mtime, in seconds.
    Times(u32, u32),
    /// Flags: compress, sync, immutable, append, dirsync as bits 0 to 4.
    Flags(u8),
    /// The size.
    Size(u64),
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Creates an inode.
    Create(Place, Make),
    /// Creates a file without a name and holds it in a slot.
    Unnamed(u8, u8),
    /// Adds another name for an inode.
    Link(Object, Place),
    /// Removes anything but a directory.
    Unlink(Place),
    /// Removes a directory.
    RemoveDir(Place),
    /// Renames.
    Rename(Place, Place, RenameMode),
    /// Writes at an offset.
    Write {
        /// The file.
        object: Object,
        /// The offset.
        offset: u64,
        /// The length.
        len: u32,
        /// The pattern.
        texture: Texture,
    },
    /// Writes at the end.
    Append(Object, u32, Texture),
    /// Changes attributes.
    Change(Object, Change),
    /// Sets an xattr (index of [`XATTRS`]) to a value of this many bytes.
    SetXattr(Object, u8, u16, XattrMode),
    /// Removes an xattr.
    RemoveXattr(Object, u8),
    /// Holds a file open in a slot; releases its previous file.
    Open(Place, u8),
    /// Releases a slot.
    Release(u8),
    /// Makes one inode durable.
    SyncFile(Object),
    /// Makes everything durable.
    Sync,
    /// Performs one piece of background work.
    Step,
    /// Turns read-only, then writable again.
    ReadOnlyAndBack,
    /// Unmounts and mounts again.
    Restart,
    /// Makes everything durable, cuts the power and mounts again.
    SyncAndCut,
}

/// The files held open on one file system.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    held: [Option<Ino>; SLOTS],
}

impl Slots {
    /// Returns the inode in a slot.
    pub fn get(&self, slot: u8) -> Option<Ino> {
        self.held[usize::from(slot) % SLOTS]
    }

    /// Clears all slots after an unmount.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn hold(
        &mut self,
        fs: &dyn WritableFileSystem,
        slot: u8,
        ino: Option<Ino>,
    ) -> Result<(), FsError> {
        let old = std::mem::replace(&mut self.held[usize::from(slot) % SLOTS], ino);
        old.map_or(Ok(()), |old| fs.release(old))
    }
}

/// Returns the time of the operation with this number.
pub fn time_of(number: u64) -> Timestamp {
    Timestamp::from_seconds(i64::try_from(number).unwrap_or(0).saturating_add(1_000_000))
}

/// Returns the bytes that write `number` stores at `offset`.
pub fn data_of(number: u64, offset: u64, len: u32, texture: Texture) -> Vec<u8> {
    let byte = |at: u64| match texture {
        Texture::Random => {
            let mixed = mix(number.wrapping_mul(0x1_0000_0001) ^ mix(at / 8));
            mixed.to_le_bytes()[usize::try_from(at % 8).unwrap_or(0)]
        }
        Texture::Text => {
            let text = b"every block tells whose it is; ";
            let word = text[usize::try_from(at % 31).unwrap_or(0)];
            word ^ number.to_le_bytes()[usize::from(at.is_multiple_of(7))] & 0x1F
        }
        Texture::Zeros => 0,
    };
    (offset..).take(len as usize).map(byte).collect()
}

/// Mixes 64 bits well.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

/// Returns the inode of an object.
///
/// # Errors
///
/// Fails with ENOENT if it does not exist.
pub fn find(fs: &dyn WritableFileSystem, slots: &Slots, object: Object) -> Result<Ino, FsError> {
    match object {
        Object::Root => Ok(fs.root()),
        Object::At(place) => fs.lookup(fs.resolve(place.dir_path())?, place.name()),
        Object::Slot(slot) => slots
            .get(slot)
            .ok_or_else(|| FsError::new(FsErrorKind::NotFound, "nothing is open in this slot")),
    }
}

/// Like [`apply`], but stores only as much of a write as fits, at most `most` bytes; returns the
/// number of bytes.
///
/// # Errors
///
/// Fails with the error of the file system.
pub fn apply_some(
    fs: &dyn WritableFileSystem,
    slots: &mut Slots,
    op: &Op,
    number: u64,
    most: usize,
) -> Result<usize, FsError> {
    if !matches!(op, Op::Write { .. } | Op::Append(..)) {
        return apply(fs, slots, op, number).map(|()| 0);
    }
    let (ino, offset, mut data) = bytes_of(fs, slots, op, number)?;
    data.truncate(most);
    fs.write_some(ino, offset, &data, &Caller::owner(time_of(number)))
}

/// Returns file, offset and bytes of a write.
fn bytes_of(
    fs: &dyn WritableFileSystem,
    slots: &Slots,
    op: &Op,
    number: u64,
) -> Result<(Ino, u64, Vec<u8>), FsError> {
    let (ino, offset, len, texture) = match *op {
        Op::Write { object, offset, len, texture } => {
            (find(fs, slots, object)?, offset, len, texture)
        }
        Op::Append(object, len, texture) => {
            let ino = find(fs, slots, object)?;
            (ino, fs.attr(ino)?.size, len, texture)
        }
        _ => return Err(FsError::new(FsErrorKind::Invalid, "no write")),
    };
    Ok((ino, offset, data_of(number, offset, len, texture)))
}

/// Performs an operation on one file system. Ignores [`Op::Restart`] and [`Op::SyncAndCut`], which
/// need more than a file system.
///
/// # Errors
///
/// Fails with the error of the file system.
pub fn apply(
    fs: &dyn WritableFileSystem,
    slots: &mut Slots,
    op: &Op,
    number: u64,
) -> Result<(), FsError> {
    let now = time_of(number);
    let by = &Caller::owner(now);
    let dir = |place: Place| fs.resolve(place.dir_path());
    match *op {
        Op::Create(place, make) => create(fs, place, make, by),
        Op::Unnamed(at, slot) => {
            let dir = fs.resolve(DIRS[usize::from(at) % DIRS.len()])?;
            let ino = fs.create_unnamed(dir, &inode(NewKind::Regular, now), by)?;
            slots.hold(fs, slot, Some(ino))
        }
        Op::Link(object, to) => fs.link(find(fs, slots, object)?, dir(to)?, to.name(), by),
        Op::Unlink(at) => fs.unlink(dir(at)?, at.name(), by),
        Op::RemoveDir(at) => fs.remove_dir(dir(at)?, at.name(), by),
        Op::Rename(from, to, mode) => {
            fs.rename((dir(from)?, from.name()), (dir(to)?, to.name()), mode, by)
        }
        Op::Write { .. } | Op::Append(..) => {
            let (ino, offset, data) = bytes_of(fs, slots, op, number)?;
            fs.write(ino, offset, &data, by)
        }
        Op::Change(object, change) => fs.set_attr(find(fs, slots, object)?, &set(change), by),
        Op::SetXattr(object, name, len, mode) => {
            let value = data_of(number, 0, u32::from(len), Texture::Text);
            fs.set_xattr(find(fs, slots, object)?, xattr_name(name), &value, mode, by)
        }
        Op::RemoveXattr(object, name) => {
            fs.remove_xattr(find(fs, slots, object)?, xattr_name(name), by)
        }
        Op::Open(place, slot) => {
            let ino = find(fs, slots, Object::At(place))?;
            fs.open(ino)?;
            slots.hold(fs, slot, Some(ino))
        }
        Op::Release(slot) => slots.hold(fs, slot, None),
        Op::SyncFile(object) => fs.sync_file(find(fs, slots, object)?),
        Op::Sync => fs.sync(),
        Op::Step => fs.background_step().map(|_| ()),
        Op::ReadOnlyAndBack => fs.become_read_only().and_then(|()| fs.become_writable()),
        Op::Restart | Op::SyncAndCut => Ok(()),
    }
}

fn xattr_name(index: u8) -> &'static [u8] {
    XATTRS[usize::from(index) % XATTRS.len()]
}

fn inode(kind: NewKind<'_>, now: Timestamp) -> NewInode<'_> {
    let odd = u32::from(now.seconds % 2 == 1);
    NewInode { kind, permissions: 0o644 + odd * 0o111, uid: odd, gid: 100 + odd }
}

fn create(
    fs: &dyn WritableFileSystem,
    place: Place,
    make: Make,
    by: &Caller,
) -> Result<(), FsError> {
    let target;
    let kind = match make {
        Make::Regular => NewKind::Regular,
        Make::Directory => NewKind::Directory,
        Make::Symlink(len) => {
            target = vec![b't'; usize::from(len)];
            NewKind::Symlink(&target)
        }
        Make::Block => NewKind::BlockDevice(8, 300),
        Make::Char => NewKind::CharDevice(5, 1),
        Make::Fifo => NewKind::Fifo,
        Make::Socket => NewKind::Socket,
    };
    let dir = fs.resolve(place.dir_path())?;
    fs.create(dir, place.name(), &inode(kind, by.now), by).map(|_| ())
}

fn set(change: Change) -> SetAttr {
    let none = SetAttr::default();
    match change {
        Change::Mode(mode) => SetAttr { permissions: Some(u32::from(mode) & 0o7777), ..none },
        Change::Owner(uid, gid) => SetAttr { uid: Some(uid), gid: Some(gid), ..none },
        Change::Times(atime, mtime) => SetAttr {
            atime: Some(Timestamp::from_seconds(atime.into())),
            mtime: Some(Timestamp::from_seconds(mtime.into())),
            ..none
        },
        Change::Flags(bits) => SetAttr { flags: Some(flags(bits)), ..none },
        Change::Size(size) => SetAttr { size: Some(size), ..none },
    }
}

fn flags(bits: u8) -> InodeFlags {
    InodeFlags {
        compress: bits & 1 != 0,
        sync: bits & 2 != 0,
        immutable: bits & 4 != 0,
        append: bits & 8 != 0,
        dirsync: bits & 16 != 0,
        encrypted: false,
    }
}
