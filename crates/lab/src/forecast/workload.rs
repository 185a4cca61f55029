//! What applications do to a file system all day, in units of at most a few hundred KiB.

use eraseblock_nandsim::Rng;
use eraseblock_vfs::attr::Timestamp;
use eraseblock_vfs::write::{NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem};
use eraseblock_vfs::{Caller, FsError, FsErrorKind, Ino};

const KIB: u64 = 1 << 10;

/// A file for applications, or for the static content.
const FILE: NewInode<'_> = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

/// What an application does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Lines of 128 bytes appended to a log, durable every 32; at 256 KiB, or a 16th of the room, the
    /// log becomes the first of four old ones.
    Log,
    /// Transactions of a database with a rollback journal: two pages of 4 KiB saved, overwritten, each
    /// made durable, and the journal removed.
    Database,
    /// Files of 4 KiB, made durable by 16; the oldest is removed when they fill a quarter of the room.
    SmallFiles,
    /// A file of a quarter of the room: a new one is written, synced, and renamed to the old one.
    Update,
    /// Chunks of 1 MiB; the oldest is removed when they fill a quarter of the room.
    Camera,
    /// Chunks of 64 KiB that are never removed: the file system fills.
    Archive,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 6] =
        [Self::Log, Self::Database, Self::SmallFiles, Self::Update, Self::Camera, Self::Archive];

    /// Returns the name, and what it is in a few words.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Log => ("log", "Lines appended to a log, which is rotated"),
            Self::Database => ("database", "Transactions of a database with a rollback journal"),
            Self::SmallFiles => ("small-files", "Files of 4 KiB, the oldest of which are removed"),
            Self::Update => ("update", "A large file that is replaced"),
            Self::Camera => ("camera", "Files of 1 MiB, the oldest of which are removed"),
            Self::Archive => ("archive", "Files that are never removed"),
        }
    }
}

/// An application at work.
pub(super) struct Application<'a> {
    fs: &'a dyn WritableFileSystem,
    workload: Workload,
    /// Bytes that were free when the file system had been filled.
    room: u64,
    /// The number of the next operation; files are named by it.
    number: u64,
    /// The oldest file that exists, where the oldest is removed.
    oldest: u64,
    rng: Rng,
    /// Bytes written so far.
    pub(super) written: u64,
}

/// The numbers of the old logs.
const OLD_LOGS: u64 = 4;

impl<'a> Application<'a> {
    pub(super) fn new(fs: &'a dyn WritableFileSystem, workload: Workload, seed: u64) -> Self {
        let rng = Rng::new(seed, 0);
        Self { fs, workload, room: 0, number: 0, oldest: 0, rng, written: 0 }
    }

    /// Fills the file system with content that never changes, to a share of its blocks in percent.
    /// Random bytes, as compressed media are.
    pub(super) fn fill(&mut self, percent: u8) -> Result<(), FsError> {
        let dir = self.fs.root();
        for number in 0_u64.. {
            let now = self.fs.stat_fs()?;
            let used = now.blocks.saturating_sub(now.blocks_available);
            if used * 100 >= now.blocks * u64::from(percent) {
                break;
            }
            let name = format!("static-{number}");
            let ino = self.fs.create(dir, name.as_bytes(), &FILE, &self.caller())?;
            self.write(ino, 0, 64 * KIB)?;
            if number % 16 == 0 {
                self.fs.sync()?;
            }
        }
        self.fs.sync()?;
        let free = self.fs.stat_fs()?;
        self.room = u64::from(free.block_size) * free.blocks_available;
        self.written = 0;
        Ok(())
    }

    /// Does the next piece of work.
    pub(super) fn work(&mut self) -> Result<(), FsError> {
        self.number += 1;
        match self.workload {
            Workload::Log => self.log(),
            Workload::Database => self.database(),
            Workload::SmallFiles => self.ring(4 * KIB, 16),
            Workload::Update => self.update(),
            Workload::Camera => self.ring(1024 * KIB, 1),
            Workload::Archive => self.chunk(64 * KIB).and_then(|()| self.fs.sync()),
        }
    }

    fn caller(&self) -> Caller {
        let seconds = i64::try_from(self.number).unwrap_or(0);
        Caller::owner(Timestamp::from_seconds(1_700_000_000 + seconds))
    }

    /// Writes random bytes.
    fn write(&mut self, ino: Ino, offset: u64, len: u64) -> Result<(), FsError> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.rng.fill(&mut bytes);
        self.fs.write(ino, offset, &bytes, &self.caller())?;
        self.written += len;
        Ok(())
    }

    /// Returns a file of the root, created if it does not exist.
    fn file(&self, name: &str) -> Result<Ino, FsError> {
        let dir = self.fs.root();
        match self.fs.lookup(dir, name.as_bytes()) {
            Err(error) if error.kind() == FsErrorKind::NotFound => {
                self.fs.create(dir, name.as_bytes(), &FILE, &self.caller())
            }
            found => found,
        }
    }

    fn remove(&self, name: &str) -> Result<(), FsError> {
        match self.fs.unlink(self.fs.root(), name.as_bytes(), &self.caller()) {
            Err(error) if error.kind() == FsErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FsError> {
        let dir = self.fs.root();
        let (from, to) = ((dir, from.as_bytes()), (dir, to.as_bytes()));
        self.fs.rename(from, to, RenameMode::Replace, &self.caller())
    }

    fn log(&mut self) -> Result<(), FsError> {
        let ino = self.file("log")?;
        let size = self.fs.attr(ino)?.size;
        if size < (256 * KIB).min(self.room / 16) {
            for line in 0..32 {
                self.write(ino, size + line * 128, 128)?;
            }
            return self.fs.sync_file(ino);
        }
        for old in (1..OLD_LOGS).rev() {
            match self.rename(&format!("log.{old}"), &format!("log.{}", old + 1)) {
                Err(error) if error.kind() == FsErrorKind::NotFound => {}
                done => done?,
            }
        }
        self.rename("log", "log.1")
    }

    fn database(&mut self) -> Result<(), FsError> {
        let pages = (self.room / 4 / (4 * KIB)).clamp(2, 1024);
        let data = self.file("database")?;
        let at: Vec<u32> = self.rng.distinct(2, u32::try_from(pages).unwrap_or(u32::MAX));
        let journal = self.file("database-journal")?;
        self.write(journal, 0, 512 + 2 * 4 * KIB)?;
        self.fs.sync_file(journal)?;
        for page in at {
            self.write(data, u64::from(page) * 4 * KIB, 4 * KIB)?;
        }
        self.fs.sync_file(data)?;
        self.remove("database-journal")
    }

    fn update(&mut self) -> Result<(), FsError> {
        let new = self.file("firmware.new")?;
        let changes = SetAttr { size: Some(0), ..SetAttr::default() };
        self.fs.set_attr(new, &changes, &self.caller())?;
        for at in 0..self.room / 4 / (64 * KIB) {
            self.write(new, at * 64 * KIB, 64 * KIB)?;
        }
        self.fs.sync_file(new)?;
        self.rename("firmware.new", "firmware")
    }

    /// Writes a file, and removes the oldest of those that fill a quarter of the room.
    fn ring(&mut self, size: u64, durable_by: u64) -> Result<(), FsError> {
        if (self.number - self.oldest) * size > self.room / 4 {
            self.remove(&format!("file-{}", self.oldest))?;
            self.oldest += 1;
        }
        self.chunk(size)?;
        if self.number.is_multiple_of(durable_by) { self.fs.sync() } else { Ok(()) }
    }

    fn chunk(&mut self, size: u64) -> Result<(), FsError> {
        let ino = self.file(&format!("file-{}", self.number))?;
        (0..size.div_ceil(64 * KIB))
            .try_for_each(|at| self.write(ino, at * 64 * KIB, size.min(64 * KIB)))
    }
}
