//! Background work: a thread that steps the file system when it has been quiet for a moment, and
//! at the latest some seconds after a change, as the kernel's write-back does.

use eraseblock_vfs::{Background, FsError, WritableFileSystem};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Quiet this long, background work begins.
const QUIET: Duration = Duration::from_millis(500);
/// After this long it begins in any case.
const LATEST: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    /// When the first change since the last piece of work happened, and the latest.
    changed: Option<(Instant, Instant)>,
    stopping: bool,
}

/// Tells the thread what happens.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    state: Mutex<State>,
    wake: Condvar,
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change of the file system.
    pub(crate) fn changed(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let is_first = state.changed.is_none();
        state.changed = Some((state.changed.map_or(now, |(first, _)| first), now));
        drop(state);
        if is_first {
            self.wake.notify_all();
        }
    }

    fn stop(&self) {
        self.lock().stopping = true;
        self.wake.notify_all();
    }

    /// Waits until there is work to do; false when there never will be.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return false;
            }
            let Some((first, last)) = state.changed else {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = (last + QUIET).min(first + LATEST);
            let now = Instant::now();
            if due <= now {
                state.changed = None;
                return true;
            }
            let waited = self.wake.wait_timeout(state, due - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn is_stopping(&self) -> bool {
        self.lock().stopping
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    activity: Arc<Activity>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts stepping `fs`; `failed` hears of errors.
    pub(crate) fn start(
        fs: Arc<dyn WritableFileSystem>,
        activity: Arc<Activity>,
        failed: impl Fn(&FsError) + Send + 'static,
    ) -> std::io::Result<Self> {
        let seen = Arc::clone(&activity);
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(move || run(fs.as_ref(), &seen, failed))?;
        Ok(Self { activity, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.activity.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(fs: &dyn WritableFileSystem, activity: &Activity, failed: impl Fn(&FsError)) {
    while activity.wait() {
        loop {
            match fs.background_step() {
                Ok(Background::More) if !activity.is_stopping() => {}
                Ok(_) => break,
                Err(error) => {
                    failed(&error);
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_begins_after_a_quiet_moment_and_ends_on_demand() {
        let activity = Activity::default();
        activity.changed();
        let start = Instant::now();
        assert!(activity.wait());
        assert!(start.elapsed() >= QUIET / 2);
        activity.changed();
        activity.stop();
        assert!(!activity.wait());
    }
}
