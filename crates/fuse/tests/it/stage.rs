//! A mount in a temporary directory.

use eraseblock_fuse::{MountOptions, Mounted, Served, Stopper, mount};
use eraseblock_vfs::Timestamp;
use eraseblock_vfs_testkit::{ModelFs, ModelRules};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// Reports, bypassing the output capture of tests, that a test is skipped.
pub(crate) fn leave_out(test: &str, reason: impl std::fmt::Display) {
    let count = LEFT_OUT.fetch_add(1, Ordering::Relaxed) + 1;
    let line = format!("left out ({count} so far): {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A mount, and the thread that waits for its end.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    stopper: Stopper,
    waiting: Option<JoinHandle<()>>,
}

impl Stage {
    /// Mounts; returns `None`, with a line on standard error, if that is not possible.
    pub(crate) fn new(test: &str, served: Served, options: &MountOptions) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        match mount(served, folder.path(), options) {
            Ok(mounted) => Some(Self::of(folder, mounted)),
            Err(error) if error.is_no_fuse() => {
                leave_out(test, &error);
                None
            }
            Err(error) => panic!("{test}: {error}"),
        }
    }

    /// Mounts an empty model with nanosecond times; permissions are checked.
    pub(crate) fn model(test: &str) -> Option<(Self, Arc<ModelFs>)> {
        let rules = ModelRules { granularity_ns: 1, ..ModelRules::UBIFS };
        let fs = Arc::new(ModelFs::new(rules, Timestamp::default()));
        let options = MountOptions {
            default_permissions: true,
            acl: true,
            source: "a,model".to_owned(),
            ..MountOptions::default()
        };
        let stage = Self::new(test, Served::ReadWrite(Arc::<ModelFs>::clone(&fs)), &options)?;
        Some((stage, fs))
    }

    fn of(folder: tempfile::TempDir, mounted: Mounted) -> Self {
        let stopper = mounted.stopper();
        let waiting = std::thread::spawn(move || mounted.wait().unwrap());
        Self { folder, stopper, waiting: Some(waiting) }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Ends the mount.
    pub(crate) fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.stopper.stop();
        if let Some(waiting) = self.waiting.take() {
            waiting.join().unwrap();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.waiting.is_some() {
            self.stop();
        }
    }
}
