//! Removes half-written files when a signal ends the command.
//!
//! Only files with a name need this: an unnamed one vanishes with the process.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// The files that must not stay.
static PARTIAL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that a signal removes while this lives.
#[derive(Debug)]
pub(crate) struct Partial(PathBuf);

impl Partial {
    /// Watches over `path`, which is about to be made.
    pub(crate) fn new(path: &Path) -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(watch);
        with_list(|list| list.push(path.to_owned()));
        Self(path.to_owned())
    }

    /// Gives the file its own name, in one step.
    pub(crate) fn rename(self, path: &Path) -> std::io::Result<()> {
        fs::rename(&self.0, path)
        // Removing the old name afterwards, in `drop`, finds nothing.
    }

    /// The name it has until it is complete.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Nothing more can be done about a file that cannot be removed.
        let _ = fs::remove_file(&self.0);
        with_list(|list| list.retain(|path| *path != self.0));
    }
}

fn with_list<T>(use_it: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    use_it(&mut PARTIAL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Starts the thread that waits for signals. A signal that the parent process has this one ignore
/// (`nohup`) stays ignored.
fn watch() {
    let ignored = ignored_signals();
    let wanted =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // Without handlers a signal leaves the file; the command itself works all the same.
    let Ok(mut signals) = Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            with_list(|list| {
                for path in list.drain(..) {
                    let _ = fs::remove_file(path);
                }
                // The list stays locked, so that no file is begun between here and the end.
                let _ = emulate_default_handler(signal);
            });
        }
    });
}

/// The signals ignored by this process, bit 0 for signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
