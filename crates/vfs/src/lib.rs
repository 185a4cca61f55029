//! The interface of file systems: inodes, names as bytes, attributes and one error type; and the
//! source trees for builders.

pub mod attr;
pub mod caller;
pub mod compare;
pub mod drive;
pub mod error;
pub mod fill;
pub mod fs;
#[cfg(feature = "manifest")]
pub mod manifest;
pub mod memory;
pub mod model;
pub mod ops;
pub mod rules;
pub mod source;
pub mod walk;
pub mod write;

pub use attr::{Attr, FileKind, StatFs, Timestamp};
pub use compare::{CompareOptions, Difference, same_tree};
pub use error::{FsError, FsErrorKind};
pub use fs::{DirEntry, FileSystem, Ino};
pub use memory::MemoryFs;
pub use model::{ModelFs, ModelRules};
pub use source::{Content, SourceKind, SourceNode, SourceTree};
pub use write::{
    Background, NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem, XattrMode,
};
