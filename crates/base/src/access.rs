//! What a device or file is opened for.

/// What a device or file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading alone: others may read at the same time.
    Read,
    /// Reading and writing, as the only user.
    Write,
}

impl Access {
    /// Returns whether writing is possible.
    pub fn is_write(self) -> bool {
        self == Self::Write
    }
}
