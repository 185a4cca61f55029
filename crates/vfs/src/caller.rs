//! On whose behalf a file system is called. Hardly anything depends on it: who may do what is decided
//! above file systems. But some keep space back for some users (spec: ubifs-runtime 15.6).
//!
//! # Invariants
//! 1. Where nobody is named the owner of the medium calls, from whom nothing is kept back.
//! 2. A name is good for what is called within [`on_behalf`], on that thread.

use std::cell::Cell;

/// A user, by the numbers that the medium has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group that goes with the call.
    pub gid: u32,
}

thread_local! {
    static CALLER: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// Puts back who was named before, also when what was called panics.
struct Restore(Option<Caller>);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLER.set(self.0);
    }
}

/// Calls `what` on behalf of somebody.
pub fn on_behalf<T>(caller: Caller, what: impl FnOnce() -> T) -> T {
    let _restore = Restore(CALLER.replace(Some(caller)));
    what()
}

/// Who calls; `None` for the owner of the medium.
pub fn current() -> Option<Caller> {
    CALLER.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_named_for_what_is_called_and_no_longer() {
        let [one, two] = [1, 2].map(|uid| Caller { uid, gid: 0 });
        assert_eq!(current(), None);
        on_behalf(one, || {
            assert_eq!(on_behalf(two, current), Some(two));
            assert_eq!(current(), Some(one));
            std::thread::scope(|scope| scope.spawn(|| assert_eq!(current(), None)).join().unwrap());
            let panicked = std::panic::catch_unwind(|| on_behalf(two, || panic!("on purpose")));
            assert!(panicked.is_err());
            assert_eq!(current(), Some(one));
        });
        assert_eq!(current(), None);
    }
}
