//! Why no image was made.

use eraseblock_base::ErrorClass;
use std::io;

/// Why no image was made. Paths are those inside the image, without a leading slash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
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
    /// Something JFFS2 cannot store.
    #[error("`/{}`: {problem}", String::from_utf8_lossy(path))]
    Node {
        /// The file.
        path: Vec<u8>,
        /// What is wrong with it.
        problem: NodeProblem,
    },
    /// A file could not be read.
    #[error("`/{}`: cannot read: {error}", String::from_utf8_lossy(path))]
    Read {
        /// The file.
        path: Vec<u8>,
        /// Why.
        error: io::Error,
    },
    /// A file did not have the length it had when the tree was made.
    #[error(
        "`/{}`: changed while it was read, expected {expected} bytes",
        String::from_utf8_lossy(path)
    )]
    Changed {
        /// The file.
        path: Vec<u8>,
        /// Its length in the tree.
        expected: u64,
    },
    /// A compressor failed, which none does on a page of a file.
    #[error("{compressor} compressor failed: {message}")]
    Compressor {
        /// Which one.
        compressor: &'static str,
        /// Its own words.
        message: String,
    },
    /// More inodes than inode numbers.
    #[error("more inodes than numbers for them")]
    TooManyInodes,
    /// The image does not fit where it is to go.
    #[error("image of more than {limit} bytes")]
    TooLarge {
        /// Bytes there are.
        limit: u64,
    },
    /// A node of the input cannot be put into a block of this size.
    #[error("byte {at}: a node of {length} bytes does not fit into a block")]
    NodeTooLarge {
        /// Where it is in the input.
        at: u64,
        /// Its length in bytes.
        length: u32,
    },
    /// The input cannot be read.
    #[error("cannot read image: {0}")]
    Input(String),
    /// The output could not be written.
    #[error("cannot write image: {0}")]
    Output(#[source] io::Error),
    /// Worker threads could not be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
}

impl MkfsError {
    /// How the error is to be answered.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooLarge { .. } => ErrorClass::NoSpace,
            Self::Read { .. } | Self::Input(_) | Self::Output(_) => ErrorClass::Media,
            Self::Node { .. } | Self::TooManyInodes | Self::NodeTooLarge { .. } => {
                ErrorClass::Unsupported
            }
            _ => ErrorClass::Caller,
        }
    }
}

/// What JFFS2 cannot store about a node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// A name that Linux could not look up.
    #[error("a name of {0} bytes, expected at most 254")]
    Name(usize),
    /// 4 GiB or more.
    #[error("{0} bytes are more than the 4294967295 of the largest file")]
    FileSize(u64),
    /// A link target of 0 or more than 254 bytes.
    #[error("a link target of {0} bytes, expected 1 to 254")]
    Target(usize),
    /// A device number beyond 12 bits of major and 20 bits of minor.
    #[error("device {0}:{1}, expected at most 4095:1048575")]
    Device(u32, u32),
    /// An owner or group beyond 16 bits.
    #[error("owner {0}:{1}, expected at most 65535:65535")]
    Owner(u32, u32),
    /// An attribute outside the name spaces JFFS2 has, or with a name that is too long.
    #[error("attribute `{0}` is none that JFFS2 can store")]
    AttributeName(String),
    /// An attribute whose value does not fit.
    #[error("attribute `{0}` has {1} bytes, which do not fit into an eraseblock or 65535 bytes")]
    AttributeValue(String, usize),
    /// An access control list that is none.
    #[error("attribute `{0}` is not an access control list")]
    Acl(String),
}
