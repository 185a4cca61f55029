//! Things that take long: worked out once, on a thread of their own, while the page asks again.

use eraseblock_explore::Refusal;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a question waits before it is asked again.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thing that is there later.
#[derive(Debug)]
pub(super) struct Later<T>(Arc<(Mutex<State<T>>, Condvar)>);

enum State<T> {
    Unasked,
    Working,
    Done(Result<Arc<T>, Refusal>),
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unasked => "Unasked",
            Self::Working => "Working",
            Self::Done(_) => "Done",
        })
    }
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self(Arc::new((Mutex::new(State::Unasked), Condvar::new())))
    }
}

impl<T> Clone for Later<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> Later<T> {
    /// Returns the thing; the first to ask starts the work. Refuses for now while it is not done.
    pub(super) fn get(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Arc<T>, Refusal> {
        let (state, changed) = &*self.0;
        let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*held, State::Unasked) {
            *held = State::Working;
            let at_end = self.clone();
            std::thread::spawn(move || {
                // A broken invariant of ours ends this thread: those who wait are told.
                let end = End(at_end);
                let done = work().map(Arc::new);
                end.set(done);
            });
        }
        let wait =
            changed.wait_timeout_while(held, PATIENCE, |state| matches!(state, State::Working));
        held = wait.unwrap_or_else(PoisonError::into_inner).0;
        match &*held {
            State::Done(done) => done.clone(),
            _ => Err(Refusal::not_yet("this is being worked out")),
        }
    }
}

/// Sets the result, or a refusal if there is none at the end.
struct End<T>(Later<T>);

impl<T> End<T> {
    fn set(&self, done: Result<Arc<T>, Refusal>) {
        let (state, changed) = &*self.0.0;
        *state.lock().unwrap_or_else(PoisonError::into_inner) = State::Done(done);
        changed.notify_all();
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        let (state, _) = &*self.0.0;
        let is_open =
            matches!(*state.lock().unwrap_or_else(PoisonError::into_inner), State::Working);
        if is_open {
            self.set(Err(Refusal {
                status: 500,
                message: "the work ended without a result".to_owned(),
            }));
        }
    }
}
