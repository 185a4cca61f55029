//! A tiny file system for the tests of the judge: the model, and a log of its operations on the
//! chip. Frames of records are appended page by page; a block with a torn frame is abandoned at
//! once. Bugs can be planted in it.

use super::stack::{Mounted, Order, Rules, Stack};
use eraseblock_base::crc::crc32;
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_mtd::{Access, Mtd};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::*;
use eraseblock_vfs_testkit::{CompareOptions, ModelFs, ModelRules};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// The bugs that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bug {
    None,
    /// fsync returns without writing.
    LazyFsync,
    /// Frames are used without verifying their checksums.
    BlindMount,
    /// A torn frame at the end is refused.
    ProudMount,
    /// Rename is logged as two records.
    SplitRename,
    /// The next frame is appended after a torn one, where no mount reads.
    ReuseTorn,
    /// The newest whole frame is forgotten at mount.
    ForgetLast,
    /// Pages of a frame are written last to first.
    Backwards,
    /// Modes are not logged.
    ForgetModes,
    /// Data written in one operation is logged for the block before.
    Misplace,
    /// Every mount loses a block.
    Leak,
    /// A read-only mount writes.
    NosyReader,
}

pub(super) const BUGS: [Bug; 11] = [
    Bug::LazyFsync,
    Bug::BlindMount,
    Bug::ProudMount,
    Bug::SplitRename,
    Bug::ReuseTorn,
    Bug::ForgetLast,
    Bug::Backwards,
    Bug::ForgetModes,
    Bug::Misplace,
    Bug::Leak,
    Bug::NosyReader,
];

#[derive(Debug)]
pub(super) struct ToyStack(pub(super) Bug);

const PAGE: usize = 512;
const HEAD: usize = 12;
const MAGIC: u32 = 0x5059_0754;

impl Stack for ToyStack {
    fn name(&self) -> (&'static str, &'static str) {
        ("toy", "mini")
    }

    fn rules(&self) -> Rules {
        Rules {
            model: ModelRules::UBIFS,
            compare: CompareOptions::ALL,
            order: Order::Total,
            rename_leaves_both: false,
            decay_may_fail: false,
            slack_blocks: 0,
            cut_blocks: 0,
            probe_blocks: 0,
        }
    }

    fn format(&self) -> Result<Chip, String> {
        let geometry = Geometry::new(MediumKind::Nand, 16_384, 64, 512, 512, 16).unwrap();
        Ok(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
    }

    fn mount(&self, chip: &Arc<Chip>, access: Access) -> Result<Box<dyn Mounted>, String> {
        let toy = Toy {
            model: ModelFs::default(),
            chip: chip.clone(),
            bug: self.0,
            log: Mutex::new(Log { at: 0, buffer: Vec::new() }),
        };
        toy.replay(access)?;
        toy.model.drop_open();
        if !access.is_write() {
            toy.model.become_read_only().unwrap();
        }
        Ok(Box::new(toy))
    }
}

#[derive(Debug)]
struct Log {
    at: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Toy {
    model: ModelFs,
    chip: Arc<Chip>,
    bug: Bug,
    log: Mutex<Log>,
}

/// Returns a record: a letter, numbers, strings.
fn record(letter: u8, numbers: &[u64], strings: &[&[u8]]) -> Vec<u8> {
    let mut bytes =
        vec![letter, u8::try_from(numbers.len()).unwrap(), u8::try_from(strings.len()).unwrap()];
    for number in numbers {
        bytes.extend(number.to_le_bytes());
    }
    for string in strings {
        bytes.extend(u32::try_from(string.len()).unwrap().to_le_bytes());
        bytes.extend(*string);
    }
    bytes
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

impl Toy {
    fn read_at(&self, at: usize, len: usize) -> (Vec<u8>, bool) {
        let mut bytes = vec![0; len];
        let outcome = self.chip.read(at as u64, &mut bytes);
        (bytes, outcome.is_ok_and(|outcome| !outcome.uncorrectable))
    }

    fn replay(&self, access: Access) -> Result<(), String> {
        let size = usize::try_from(self.chip.geometry().size()).unwrap();
        let block = self.chip.geometry().peb_size() as usize;
        let mut frames = Vec::new();
        let mut at = 0;
        while at + PAGE <= size {
            match self.frame(at, size) {
                Frame::End => break,
                Frame::Good(payload, next) => {
                    frames.push(payload);
                    at = next;
                }
                Frame::Torn if self.bug == Bug::ProudMount => return Err("torn frame".into()),
                Frame::Torn if self.bug == Bug::ReuseTorn => {
                    at += PAGE;
                    break;
                }
                Frame::Torn | Frame::Gap => at = (at / block + 1) * block,
            }
        }
        // Pages that read as empty may not be: continue in a new block after every mount.
        if self.bug != Bug::ReuseTorn && !at.is_multiple_of(block) {
            at = (at / block + 1) * block;
        }
        if self.bug == Bug::Leak && access.is_write() {
            self.chip.program(at as u64, &[0; PAGE]).ok();
            at += block;
        }
        if self.bug == Bug::ForgetLast {
            frames.pop();
        }
        if !access.is_write() && self.bug == Bug::NosyReader {
            self.chip.program((size - PAGE) as u64, &[0; PAGE]).ok();
        }
        for frame in &frames {
            let mut rest = frame.as_slice();
            while !rest.is_empty() {
                self.apply(&mut rest).ok_or("bad record")?;
            }
        }
        self.log.lock().unwrap().at = at;
        Ok(())
    }

    /// Reads the frame at a position: an empty block ends the log, an empty page only its block.
    fn frame(&self, at: usize, size: usize) -> Frame {
        let block = self.chip.geometry().peb_size() as usize;
        let (page, good) = self.read_at(at, PAGE);
        if good && page.iter().all(|byte| *byte == 0xFF) {
            return if at.is_multiple_of(block) { Frame::End } else { Frame::Gap };
        }
        let len = u32_at(&page, 4) as usize;
        if u32_at(&page, 0) != MAGIC || len > size - at - HEAD {
            return Frame::Torn;
        }
        let (bytes, good) = self.read_at(at, HEAD + len);
        let right = good && crc32(&bytes[HEAD..]) == u32_at(&bytes, 8);
        if !right && self.bug != Bug::BlindMount {
            return Frame::Torn;
        }
        Frame::Good(bytes[HEAD..].to_vec(), at + (HEAD + len).next_multiple_of(PAGE))
    }

    fn apply(&self, rest: &mut &[u8]) -> Option<()> {
        let head = take(rest, 3)?;
        let (letter, numbers, strings) = (head[0], head[1], head[2]);
        let n: Vec<u64> = (0..numbers)
            .map(|_| Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?)))
            .collect::<Option<_>>()?;
        let s: Vec<&[u8]> = (0..strings)
            .map(|_| {
                let len = u32_at(take(rest, 4)?, 0) as usize;
                take(rest, len)
            })
            .collect::<Option<_>>()?;
        let time = |index: usize| Timestamp::from_seconds(n[index].cast_signed());
        let by = |index: usize| Caller::owner(time(index));
        let some = |index: usize| (n[index] != u64::MAX).then(|| n[index]);
        let fs = &self.model;
        let done = match letter {
            b'c' | b't' => {
                let small = |index: usize| u32::try_from(n[index]).unwrap();
                let kind = match n[2] {
                    0 => NewKind::Regular,
                    1 => NewKind::Directory,
                    2 => NewKind::Symlink(s[1]),
                    3 => NewKind::BlockDevice(small(6), small(7)),
                    4 => NewKind::CharDevice(small(6), small(7)),
                    5 => NewKind::Fifo,
                    _ => NewKind::Socket,
                };
                let inode = NewInode { kind, permissions: small(3), uid: small(4), gid: small(5) };
                match letter {
                    b'c' => fs.create(n[0], s[0], &inode, &by(1)).map(|_| ()),
                    _ => fs.create_unnamed(n[0], &inode, &by(1)).map(|_| ()),
                }
            }
            b'l' => fs.link(n[0], n[1], s[0], &by(2)),
            b'u' => fs.unlink(n[0], s[0], &by(1)),
            b'd' => fs.remove_dir(n[0], s[0], &by(1)),
            b'r' => {
                let mode = [
                    RenameMode::Replace,
                    RenameMode::NoReplace,
                    RenameMode::Exchange,
                    RenameMode::Whiteout,
                ];
                fs.rename((n[0], s[0]), (n[1], s[1]), mode[usize::try_from(n[2]).unwrap()], &by(3))
            }
            b'w' => fs.write(n[0], n[1], s[0], &by(2)),
            b'a' => {
                let small = |index: usize| some(index).map(|value| u32::try_from(value).unwrap());
                let when = |index: usize| some(index).map(|_| time(index));
                let changes = SetAttr {
                    permissions: small(2),
                    uid: small(3),
                    gid: small(4),
                    size: some(5),
                    atime: when(6),
                    mtime: when(7),
                    touch: false,
                    flags: None,
                };
                fs.set_attr(n[0], &changes, &by(1))
            }
            b'x' => fs.set_xattr(n[0], s[0], s[1], XattrMode::Either, &by(1)),
            b'y' => fs.remove_xattr(n[0], s[0], &by(1)),
            b'o' => fs.open(n[0]),
            _ => fs.release(n[0]),
        };
        // Data lost by a planted bug makes later records fail.
        drop(done);
        Some(())
    }

    fn log(&self, record: Vec<u8>) {
        let mut log = self.log.lock().unwrap();
        log.buffer.extend(record);
        if log.buffer.len() > 2000 {
            drop(log);
            self.flush().unwrap();
        }
    }

    fn flush(&self) -> Result<(), FsError> {
        let mut log = self.log.lock().unwrap();
        if log.buffer.is_empty() {
            return Ok(());
        }
        let payload = std::mem::take(&mut log.buffer);
        let mut frame = Vec::new();
        frame.extend(MAGIC.to_le_bytes());
        frame.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        frame.extend(crc32(&payload).to_le_bytes());
        frame.extend(payload);
        frame.resize(frame.len().next_multiple_of(PAGE), 0);
        let mut pages: Vec<(usize, &[u8])> = frame.chunks(PAGE).enumerate().collect();
        if self.bug == Bug::Backwards {
            pages.reverse();
        }
        for (index, page) in pages {
            let at = (log.at + index * PAGE) as u64;
            self.chip
                .program(at, page)
                .map_err(|error| FsError::new(FsErrorKind::Io, error.to_string()))?;
        }
        log.at += frame.len();
        Ok(())
    }
}

enum Frame {
    End,
    Gap,
    Torn,
    Good(Vec<u8>, usize),
}

impl Mounted for Toy {
    fn fs(&self) -> &dyn WritableFileSystem {
        self
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl FileSystem for Toy {
    fn root(&self) -> Ino {
        self.model.root()
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.model.lookup(dir, name)
    }
    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.model.attr(ino)
    }
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        self.model.read_dir(dir, cookie, sink)
    }
    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.model.read_link(ino)
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.model.read(ino, offset, buf)
    }
    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.model.seek_data(ino, offset)
    }
    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.model.seek_hole(ino, offset)
    }
    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.model.list_xattrs(ino)
    }
    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.model.xattr(ino, name)
    }
    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let blocks = self.chip.geometry().size() / 16_384;
        let left = blocks.saturating_sub((self.log.lock().unwrap().at / 16_384) as u64);
        // The log only grows: each mount uses at most two blocks.
        let free = if self.bug == Bug::Leak { left } else { blocks };
        Ok(StatFs { blocks, blocks_free: free, blocks_available: free, ..self.model.stat_fs()? })
    }
}

fn kind_of(kind: NewKind<'_>) -> (u64, &[u8], u32, u32) {
    match kind {
        NewKind::Regular => (0, b"", 0, 0),
        NewKind::Directory => (1, b"", 0, 0),
        NewKind::Symlink(target) => (2, target, 0, 0),
        NewKind::BlockDevice(major, minor) => (3, b"", major, minor),
        NewKind::CharDevice(major, minor) => (4, b"", major, minor),
        NewKind::Fifo => (5, b"", 0, 0),
        NewKind::Socket => (6, b"", 0, 0),
    }
}

fn secs(time: Timestamp) -> u64 {
    time.seconds.cast_unsigned()
}

impl Toy {
    fn log_new(&self, letter: u8, dir: Ino, name: &[u8], inode: &NewInode<'_>, now: Timestamp) {
        let (kind, target, major, minor) = kind_of(inode.kind);
        let small = [inode.permissions, inode.uid, inode.gid, major, minor].map(u64::from);
        let numbers = [dir, secs(now), kind, small[0], small[1], small[2], small[3], small[4]];
        self.log(record(letter, &numbers, &[name, target]));
    }
}

impl WritableFileSystem for Toy {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError> {
        let ino = self.model.create(dir, name, inode, by)?;
        self.log_new(b'c', dir, name, inode, by.now);
        Ok(ino)
    }
    fn create_unnamed(&self, dir: Ino, inode: &NewInode<'_>, by: &Caller) -> Result<Ino, FsError> {
        let ino = self.model.create_unnamed(dir, inode, by)?;
        self.log_new(b't', dir, b"", inode, by.now);
        Ok(ino)
    }
    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.model.link(ino, dir, name, by)?;
        self.log(record(b'l', &[ino, dir, secs(by.now)], &[name]));
        Ok(())
    }
    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.model.unlink(dir, name, by)?;
        self.log(record(b'u', &[dir, secs(by.now)], &[name]));
        Ok(())
    }
    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.model.remove_dir(dir, name, by)?;
        self.log(record(b'd', &[dir, secs(by.now)], &[name]));
        Ok(())
    }
    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        let ino = self.model.lookup(from.0, from.1);
        self.model.rename(from, to, mode, by)?;
        let number = match mode {
            RenameMode::Replace => 0,
            RenameMode::NoReplace => 1,
            RenameMode::Exchange => 2,
            RenameMode::Whiteout => 3,
        };
        let whole = record(b'r', &[from.0, to.0, number, secs(by.now)], &[from.1, to.1]);
        if self.bug == Bug::SplitRename && mode == RenameMode::Replace && ino.is_ok() {
            self.log(record(b'u', &[to.0, secs(by.now)], &[to.1]));
            self.flush()?;
        }
        self.log(whole);
        Ok(())
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError> {
        self.model.write(ino, offset, data, by)?;
        let logged = match self.bug {
            Bug::Misplace if offset >= 4096 => offset - 4096,
            _ => offset,
        };
        self.log(record(b'w', &[ino, logged, secs(by.now)], &[data]));
        Ok(())
    }
    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError> {
        self.model.set_attr(ino, changes, by)?;
        if self.bug == Bug::ForgetModes && changes.permissions.is_some() {
            return Ok(());
        }
        let none = u64::MAX;
        // The log stores no flags, so nothing refuses explicit times.
        let touched = changes.touch.then_some(by.now);
        let numbers = [
            ino,
            secs(by.now),
            changes.permissions.map_or(none, u64::from),
            changes.uid.map_or(none, u64::from),
            changes.gid.map_or(none, u64::from),
            changes.size.unwrap_or(none),
            changes.atime.or(touched).map_or(none, secs),
            changes.mtime.or(touched).map_or(none, secs),
        ];
        self.log(record(b'a', &numbers, &[]));
        Ok(())
    }
    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.model.set_xattr(ino, name, value, mode, by)?;
        self.log(record(b'x', &[ino, secs(by.now)], &[name, value]));
        Ok(())
    }
    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.model.remove_xattr(ino, name, by)?;
        self.log(record(b'y', &[ino, secs(by.now)], &[name]));
        Ok(())
    }
    fn open(&self, ino: Ino) -> Result<(), FsError> {
        self.model.open(ino)?;
        self.log(record(b'o', &[ino], &[]));
        Ok(())
    }
    fn release(&self, ino: Ino) -> Result<(), FsError> {
        self.model.release(ino)?;
        self.log(record(b'z', &[ino], &[]));
        Ok(())
    }
    fn sync_file(&self, _: Ino) -> Result<(), FsError> {
        if self.bug == Bug::LazyFsync { Ok(()) } else { self.flush() }
    }
    fn sync(&self) -> Result<(), FsError> {
        self.flush()
    }
    fn background_step(&self) -> Result<Background, FsError> {
        Ok(Background::Idle)
    }
    fn become_read_only(&self) -> Result<(), FsError> {
        self.flush()?;
        self.model.become_read_only()
    }
    fn become_writable(&self) -> Result<(), FsError> {
        self.model.become_writable()
    }
    fn unmount(&self) -> Result<(), FsError> {
        self.flush()?;
        self.model.unmount()
    }
}
