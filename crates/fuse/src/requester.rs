//! Who made the request that is handled.

use std::cell::Cell;

thread_local! {
    static REQUESTER: Cell<u32> = const { Cell::new(0) };
}

/// Returns the thread whose request the calling thread handles: its number in the name space of the mount.
/// 0 if it has none there, and for what the kernel does by itself, as writing back a mapped file.
pub fn requester() -> u32 {
    REQUESTER.get()
}

/// Starts a request.
pub(crate) fn begin(thread: u32) {
    REQUESTER.set(thread);
}
