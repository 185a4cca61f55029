//! Background work of the front ends: a thread that steps the file system after a short idle time, and
//! at the latest some seconds after a change, as the kernel's write-back does.
//!
//! Nothing here runs, or reads the clock, unless a front end starts a [`Worker`].

use crate::{Background, FsError, WritableFileSystem};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Idle time before background work begins.
const QUIET: Duration = Duration::from_millis(500);
/// Further idle time after which the file system frees space that waits for a commit. This costs
/// writes that the next changes would cause anyway, so a short pause between two changes does not
/// start it.
const IDLE: Duration = Duration::from_secs(3);
/// Maximum delay of background work after a change.
const LATEST: Duration = Duration::from_secs(5);
/// Interval of background work without changes: reads alone can show that blocks must be scrubbed.
const ROUND: Duration = Duration::from_secs(30);

/// Performs background work until none is left, at most `most` steps of it.
///
/// # Errors
///
/// Fails as [`WritableFileSystem::background_step`] does.
pub fn rest(fs: &dyn WritableFileSystem, most: u32) -> Result<(), FsError> {
    for _ in 0..most {
        if fs.background_step()? == Background::Idle {
            break;
        }
    }
    Ok(())
}

/// Background work below the file system.
#[derive(Clone)]
pub struct BackgroundWork(Arc<dyn Fn() -> Result<bool, FsError> + Send + Sync>);

impl BackgroundWork {
    /// Calls `step` for one bounded piece of work; it returns whether there is more.
    pub fn new(step: impl Fn() -> Result<bool, FsError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(step))
    }
}

impl fmt::Debug for BackgroundWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackgroundWork")
    }
}

#[derive(Debug, Default)]
struct State {
    /// The times of the first and the latest change since the last piece of work.
    changed: Option<(Instant, Instant)>,
    /// The time at which the file system counts as idle if nothing changes before.
    idle: Option<Instant>,
    stopping: bool,
}

/// The next thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// Background work.
    Work,
    /// Work for idle moments.
    Idle,
    /// Terminate.
    End,
}

/// Notifies the thread of changes.
#[derive(Debug, Default)]
pub struct Activity {
    state: Mutex<State>,
    wake: Condvar,
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change of the file system.
    pub fn changed(&self) {
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

    /// Waits until there is work.
    fn wait(&self) -> Due {
        let round = Instant::now() + ROUND;
        let mut state = self.lock();
        loop {
            if state.stopping {
                return Due::End;
            }
            let due = match (state.changed, state.idle) {
                (Some((first, last)), _) => (last + QUIET).min(first + LATEST),
                (None, idle) => idle.map_or(round, |idle| idle.min(round)),
            };
            let now = Instant::now();
            if due <= now {
                let is_idle = state.changed.is_none() && state.idle.is_some_and(|idle| idle <= now);
                state.changed = None;
                state.idle = (!is_idle).then(|| now + IDLE);
                return if is_idle { Due::Idle } else { Due::Work };
            }
            let waited = self.wake.wait_timeout(state, due - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Returns whether more urgent work is pending.
    fn is_wanted(&self) -> bool {
        let state = self.lock();
        state.stopping || state.changed.is_some()
    }
}

/// The thread; it terminates when this is dropped.
#[derive(Debug)]
pub struct Worker {
    activity: Arc<Activity>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts stepping `fs`, followed by `background_work`; errors are passed to `failed`. Fails if
    /// the thread cannot be started.
    pub fn start(
        fs: Arc<dyn WritableFileSystem>,
        background_work: Option<BackgroundWork>,
        activity: Arc<Activity>,
        failed: impl Fn(&FsError) + Send + 'static,
    ) -> std::io::Result<Self> {
        let seen = Arc::clone(&activity);
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(move || run(fs.as_ref(), background_work.as_ref(), &seen, failed))?;
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

fn run(
    fs: &dyn WritableFileSystem,
    background_work: Option<&BackgroundWork>,
    activity: &Activity,
    failed: impl Fn(&FsError),
) {
    loop {
        let done = match activity.wait() {
            Due::Work => step(fs, activity),
            Due::Idle => fs.free_waiting_space(),
            Due::End => return,
        };
        // The file system runs first: the background work erases the blocks that it released.
        let done =
            done.and_then(|()| background_work.map_or(Ok(()), |work| exhaust(work, activity)));
        if let Err(error) = done {
            failed(&error);
        }
    }
}

/// Steps the file system until it has no more work.
fn step(fs: &dyn WritableFileSystem, activity: &Activity) -> Result<(), FsError> {
    while fs.background_step()? == Background::More && !activity.is_stopping() {}
    Ok(())
}

/// Runs the background work until it has no more work or something changes.
fn exhaust(work: &BackgroundWork, activity: &Activity) -> Result<(), FsError> {
    while !activity.is_wanted() && (work.0)()? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn work_begins_after_a_quiet_moment_and_ends_on_demand() {
        let activity = Activity::default();
        activity.changed();
        let start = Instant::now();
        assert_eq!(activity.wait(), Due::Work);
        assert!(start.elapsed() >= QUIET / 2);
        assert_eq!(activity.wait(), Due::Idle);
        assert!(start.elapsed() >= QUIET / 2 + IDLE);
        activity.changed();
        activity.stop();
        assert_eq!(activity.wait(), Due::End);
    }

    #[test]
    fn a_change_puts_off_what_waits_for_idle_moments() {
        let activity = Activity::default();
        activity.changed();
        assert_eq!(activity.wait(), Due::Work);
        std::thread::sleep(IDLE / 2);
        activity.changed();
        assert_eq!(activity.wait(), Due::Work);
        let start = Instant::now();
        assert_eq!(activity.wait(), Due::Idle);
        assert!(start.elapsed() > IDLE / 2);
    }

    #[test]
    fn background_work_waits_for_the_file_system() {
        let left = Arc::new(AtomicU32::new(3));
        let (seen, activity) = (Arc::clone(&left), Activity::default());
        let work = BackgroundWork::new(move || Ok(seen.fetch_sub(1, Ordering::Relaxed) > 1));
        activity.changed();
        assert!(activity.is_wanted());
        exhaust(&work, &activity).unwrap();
        assert_eq!(left.load(Ordering::Relaxed), 3, "something had changed");
        assert_eq!(activity.wait(), Due::Work);
        exhaust(&work, &activity).unwrap();
        assert_eq!(left.load(Ordering::Relaxed), 0);
    }
}
