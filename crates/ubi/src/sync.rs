//! The locks of the run-time half: the standard library's, or those of the schedule tests, which
//! build this source once more and try it in every order of its threads.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
