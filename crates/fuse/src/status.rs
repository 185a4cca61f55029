//! What can be asked about a mount while it is in use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The extended attribute of a mount's root directory that tells its [`Status`]. It is not among
/// those that are listed.
pub const STATUS: &[u8] = b"user.eraseblock.status";

/// Somebody who knows how a mount fares.
#[derive(Clone)]
pub struct Status(Arc<dyn Fn() -> String + Send + Sync>);

impl Status {
    /// Calls `tell` whenever somebody asks; from any thread. Less than 64 KiB.
    pub fn new(tell: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
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

/// Bytes of file content that crossed the mount. What the kernel answers from its cache does not.
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
