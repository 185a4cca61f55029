//! The user on whose behalf a file system is called. Front ends check permissions; only space that
//! is reserved for some users depends on the caller (spec: ubifs-runtime 15.6).
//!
//! # Invariants
//! 1. Without an explicit caller, the caller is the owner of the medium, who can use all reserved
//!    space.
//! 2. A caller applies to calls within [`on_behalf`], on that thread.

use std::cell::Cell;

/// A user, by ids on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group of the call.
    pub gid: u32,
}

thread_local! {
    static CALLER: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// Restores the previous caller, even after a panic.
struct Restore(Option<Caller>);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLER.set(self.0);
    }
}

/// Calls `what` on behalf of a user.
pub fn on_behalf<T>(caller: Caller, what: impl FnOnce() -> T) -> T {
    let _restore = Restore(CALLER.replace(Some(caller)));
    what()
}

/// Returns the current caller, or `None` for the owner of the medium.
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
