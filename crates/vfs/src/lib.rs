//! The interface of file systems: inodes, names as bytes, attributes and one error type; and the
//! source trees for builders.

pub mod attr;
pub mod background;
mod caller;
pub mod error;
pub mod fs;
pub mod rules;
mod served;
pub mod source;
pub mod walk;
pub mod write;

pub use attr::{Attr, FileKind, StatFs, Timestamp};
pub use caller::Caller;
pub use error::{FsError, FsErrorKind};
pub use fs::{DirEntry, FileSystem, Ino};
pub use served::Served;
pub use source::{Content, SourceKind, SourceNode, SourceTree};
pub use write::{
    Background, NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem, XattrMode,
};
