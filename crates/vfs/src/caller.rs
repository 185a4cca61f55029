//! The user on whose behalf a file system is changed. Front ends check permissions; only space that
//! is reserved for some users depends on the caller (spec: ubifs-runtime 15.6).

use crate::attr::Timestamp;

/// Who changes a file system, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user, by the id on the medium.
    pub uid: u32,
    /// The group of the call, by the id on the medium.
    pub gid: u32,
    /// The time of the call.
    pub now: Timestamp,
}

impl Caller {
    /// Returns the owner of the medium, who can use all reserved space, at a time.
    pub const fn owner(now: Timestamp) -> Self {
        Self { uid: 0, gid: 0, now }
    }
}
