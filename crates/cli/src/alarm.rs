//! Reports to users of a mount or server that a file system turned read-only.

use crate::held::Volume;
use crate::session::say;
use eraseblock::raw::fuse::Served;
use eraseblock::raw::vfs::WritableFileSystem;
use eraseblock::recovery::TURNED;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The next step after the process of a mount has died.
pub(crate) fn dead_mount(dir: &Path) -> String {
    format!("`eraseblock umount {}` takes the dead mount away", dir.display())
}

/// One file system in use.
struct Watched {
    fs: Arc<dyn WritableFileSystem>,
    name: String,
    is_reported: AtomicBool,
}

/// Reports once when one of several file systems in use turned read-only.
pub(crate) struct Alarm(Vec<Watched>);

impl Alarm {
    /// Watches those of the volumes that are writable.
    pub(crate) fn new(volumes: &[Volume]) -> Arc<Self> {
        let watched = volumes.iter().filter_map(|volume| match &volume.served {
            Served::ReadOnly(_) => None,
            Served::ReadWrite(fs) => {
                let name = volume.target.display().to_string();
                Some(Watched { fs: Arc::clone(fs), name, is_reported: AtomicBool::new(false) })
            }
        });
        Arc::new(Self(watched.collect()))
    }

    /// Reports changes on standard error.
    pub(crate) fn look(&self) {
        for watched in self.0.iter().filter(|watched| !watched.is_reported.load(Ordering::Relaxed))
        {
            let Some(reason) = watched.fs.why_read_only() else { continue };
            if !watched.is_reported.swap(true, Ordering::Relaxed) {
                let name = &watched.name;
                say(&format!("error: {name}: {TURNED}: {reason}"));
                say(&format!("hint: {}", while_in_use(name)));
            }
        }
    }
}

/// The next step while programs still use the file system.
pub(crate) fn while_in_use(target: &str) -> String {
    format!(
        "nothing more is written; copy out what can be read; when this has ended, `eraseblock \
        check {target}` reports what is left"
    )
}
