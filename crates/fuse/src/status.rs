//! Queries about a mount in use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The xattr of a mount's root directory that returns its [`Status`]. Listings do not contain it.
pub const STATUS: &[u8] = b"user.eraseblock.status";

/// The provider of a mount's status text.
#[derive(Clone)]
pub struct Status(Arc<dyn Fn() -> String + Send + Sync>);

impl Status {
    /// Calls `text` for every query, from any thread. The text must be shorter than 64 KiB.
    pub fn new(text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(text))
    }

    pub(crate) fn text(&self) -> String {
        (self.0)()
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Status")
    }
}

/// Counts of file content bytes transferred through the mount, without those that the kernel serves
/// from its cache.
#[derive(Debug, Default)]
pub struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
}

impl Traffic {
    /// Returns the number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(crate) fn read(&self, len: usize) {
        self.read.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, len: usize) {
        self.written.fetch_add(len as u64, Ordering::Relaxed);
    }
}
