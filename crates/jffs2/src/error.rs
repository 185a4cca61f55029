//! Why an image cannot be opened.

use eraseblock_base::ErrorClass;

/// An image that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Jffs2Error {
    /// No JFFS2 node was found.
    #[error("no JFFS2 node in {bytes} bytes")]
    NotJffs2 {
        /// Bytes looked at.
        bytes: u64,
    },
    /// The image cannot be read at all.
    #[error("cannot read image: {0}")]
    Read(String),
    /// An option is out of its range.
    #[error("{option} is {found}, expected {expected}")]
    Option {
        /// The option at fault.
        option: &'static str,
        /// Its value.
        found: u64,
        /// What is allowed.
        expected: &'static str,
    },
}

impl Jffs2Error {
    /// How the error is to be answered.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotJffs2 { .. } => ErrorClass::Corruption,
            Self::Read(_) => ErrorClass::Media,
            Self::Option { .. } => ErrorClass::Caller,
        }
    }
}
