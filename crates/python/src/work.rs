//! How long work runs: without the interpreter, on threads of our own, until a signal ends it.
//!
//! # Invariants
//! 1. The pool is looked up only while attached to the interpreter. `os.fork` holds the interpreter, too,
//!    so no fork meets a pool that is half made, or its lock taken.
//! 2. A forked child has none of the threads of its parent; it makes a pool of its own.

use crate::error::{internal, raised};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a signal may wait for an answer.
const POLL: Duration = Duration::from_millis(50);

/// What a panic leaves.
type Payload = Box<dyn Any + Send>;

/// The pool of this process.
struct Owned {
    process: u32,
    pool: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Owned>> = Mutex::new(None);

/// Threads that work is done on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Threads(pub(crate) Option<NonZeroUsize>);

impl Threads {
    /// Returns the pool: the shared one of this process, or one of this many threads.
    fn pool(self, _attached: Python<'_>) -> PyResult<Arc<ThreadPool>> {
        if let Some(threads) = self.0 {
            return Ok(Arc::new(made(threads.get())?));
        }
        let mut owned = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(owned) = owned.as_ref().filter(|owned| owned.process == process) {
            return Ok(Arc::clone(&owned.pool));
        }
        let pool = Arc::new(made(0)?);
        let before = owned.replace(Owned { process, pool: Arc::clone(&pool) });
        // The parent's threads do not exist here, so nothing can end them.
        std::mem::forget(before);
        Ok(pool)
    }
}

/// Starts a pool; no number means all processors.
fn made(threads: usize) -> PyResult<ThreadPool> {
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    let named = builder.thread_name(|index| format!("eraseblock-{index}"));
    named.build().map_err(|error| pyo3::exceptions::PyOSError::new_err(error.to_string()))
}

/// Runs short work, on this thread.
pub(crate) fn short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> eraseblock::Result<T> + Send,
) -> PyResult<T> {
    settled(py, py.detach(|| catch_unwind(AssertUnwindSafe(work))))
}

/// Runs work that cannot be stopped.
pub(crate) fn whole<T: Send>(
    py: Python<'_>,
    threads: Threads,
    work: impl FnOnce() -> eraseblock::Result<T> + Send,
) -> PyResult<T> {
    let pool = threads.pool(py)?;
    settled(py, py.detach(|| catch_unwind(AssertUnwindSafe(|| pool.install(work)))))
}

/// Runs work that ends soon after `stop` is set, which the first signal does whose handler raises.
pub(crate) fn stoppable<T: Send>(
    py: Python<'_>,
    threads: Threads,
    stop: &AtomicBool,
    work: impl FnOnce() -> eraseblock::Result<T> + Send,
) -> PyResult<T> {
    let pool = threads.pool(py)?;
    let over = AtomicBool::new(false);
    let mut signal = None;
    let outcome = thread::scope(|scope| {
        let waiting = Waiting { over: &over, caller: thread::current() };
        let worker = scope.spawn(move || {
            let _waiting = waiting;
            pool.install(work)
        });
        while !over.load(Ordering::Acquire) {
            py.detach(|| thread::park_timeout(POLL));
            if signal.is_none()
                && let Err(raised) = py.check_signals()
            {
                stop.store(true, Ordering::Release);
                signal = Some(raised);
            }
        }
        py.detach(|| worker.join())
    });
    match signal {
        Some(raised) => Err(raised),
        None => settled(py, outcome),
    }
}

/// Wakes the caller when the work is over, also by a panic.
struct Waiting<'a> {
    over: &'a AtomicBool,
    caller: Thread,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.caller.unpark();
    }
}

fn settled<T>(py: Python<'_>, outcome: Result<eraseblock::Result<T>, Payload>) -> PyResult<T> {
    match outcome {
        Ok(result) => result.map_err(|error| raised(py, error)),
        Err(payload) => Err(internal(py, payload.as_ref())),
    }
}

/// Panics in the middle of work, for the test of what becomes of that.
#[pyfunction]
#[pyo3(name = "_provoke_panic")]
pub(crate) fn provoke_panic(py: Python<'_>) -> PyResult<()> {
    whole(py, Threads::default(), || panic!("provoked"))
}
