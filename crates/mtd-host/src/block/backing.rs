//! The disk interface of flash on a block device: reading and writing bytes in sectors, a flush,
//! and a hint that data is no longer needed.

use crate::busy;
use crate::error::HostError;
use eraseblock_mtd::{Access, ReadAt};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk; offsets and lengths are whole sectors. Until a flush, writes may reach the medium in any
/// order, or not at all if the power is cut.
pub trait Backing: Send + Sync + Debug {
    /// Returns the size in bytes.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buf`.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Writes `data`.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn flush(&self) -> io::Result<()>;

    /// Hints that the range is no longer needed; a disk may ignore it.
    fn discard(&self, offset: u64, len: u64);
}

/// A block device or a plain file of the host.
#[derive(Debug)]
pub struct HostDisk {
    file: File,
    discards: AtomicBool,
}

impl HostDisk {
    /// Opens a disk; for writing, as its only user.
    ///
    /// # Errors
    ///
    /// Fails with [`HostError::Busy`] if the disk is in use, with [`HostError::WrongKind`] if it is
    /// neither a file nor a block device, or with the error of the kernel.
    pub fn open(path: &Path, access: Access) -> Result<Self, HostError> {
        let metadata = fs::metadata(path).map_err(|e| HostError::refused(path, "stat", e))?;
        let is_block = metadata.file_type().is_block_device();
        if !is_block && !metadata.is_file() {
            let expected = "a block device or a plain file";
            return Err(HostError::WrongKind { path: path.to_owned(), expected });
        }
        let mut options = File::options();
        options.read(true).write(access.is_write());
        if is_block && access.is_write() {
            // On a block device this claims exclusive use; a mount holds the same claim.
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        let file = options.open(path).map_err(|e| {
            if e.kind() == io::ErrorKind::ResourceBusy {
                let by = "it is mounted, or part of another device".to_owned();
                return HostError::Busy { path: path.to_owned(), by };
            }
            HostError::refused(path, "open", e)
        })?;
        busy::lock(&file, path, access)?;
        Ok(Self { file, discards: AtomicBool::new(true) })
    }

    /// Returns the size of a logical sector in bytes, the smallest write of a block device.
    pub fn sector(&self) -> u32 {
        let device = self.file.metadata().ok().filter(|m| m.file_type().is_block_device());
        let Some(device) = device.map(|m| m.rdev()) else { return 512 };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let dir = format!("/sys/dev/block/{major}:{minor}");
        // A partition has no queue directory of its own.
        ["queue", "../queue"]
            .iter()
            .find_map(|queue| {
                let text = fs::read_to_string(format!("{dir}/{queue}/logical_block_size")).ok()?;
                text.trim().parse().ok()
            })
            .unwrap_or(512)
    }
}

impl Backing for HostDisk {
    fn size(&self) -> io::Result<u64> {
        ReadAt::size(&self.file)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(&self.file, buf, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, offset: u64, len: u64) {
        if self.discards.load(Ordering::Relaxed) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let offered = fallocate(&self.file, flags, offset, len).is_ok();
            self.discards.store(offered, Ordering::Relaxed);
        }
    }
}
