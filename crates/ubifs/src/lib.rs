//! UBIFS: reads volumes exactly as Linux would see them after mounting, salvages those it would
//! refuse, and builds images.
//!
//! Modules have the names used in the kernel's documentation: `sb`, `master`, `log`, `replay`,
//! `recovery`, `orphan`, `index` (the committed index on flash), `tnc` (the journal's changes on
//! top of it), `fs` (the file-system interface), `cookies` (positions in listings), `read`
//! (content), `rescue` (working without an index), `mkfs` (building images).

// Lengths and offsets refer to one LEB; block numbers have 29 bits by the size limit.
#![allow(clippy::cast_possible_truncation)]

pub mod codes;
mod cookies;
pub mod error;
mod fs;
mod index;
mod inode;
pub mod live;
mod log;
mod master;
#[cfg(feature = "write")]
pub mod mkfs;
pub mod mount;
mod names;
mod orphan;
mod overlay;
pub mod past;
mod read;
mod recovery;
mod replay;
mod report;
mod rescue;
#[cfg(feature = "write")]
pub mod rw;
mod sb;
mod statfs;
mod tnc;
mod volume;

pub use error::UbifsError;
pub use live::{Live, Stored};
pub use mount::{MountInfo, OpenOptions, Ubifs};
pub use names::shown_name;
pub use past::Commit;
#[cfg(feature = "write")]
pub use rw::{CHECK_INCOMPLETE, MountOptions, UbifsMount};
