//! Mounts: makes a file system available to all programs of the host through `/dev/fuse`.
//!
//! [`mount`] takes a [`Served`] file system and a directory and returns a [`Mounted`]. Its owner
//! calls [`Mounted::wait`], which waits until the mount is ended from outside (`umount`,
//! `fusermount3 -u`) or through a [`Stopper`]; when it returns, everything is durable and the
//! medium clean.
//!
//! Only this crate and `nfs` use protocol error numbers; they are among the few that read the
//! clock.

mod acl;
mod adapter;
mod convert;
mod errno;
mod flags;
mod ids;
mod lookups;
mod mount;
mod requester;
mod source;
mod status;

pub use eraseblock_vfs::Served;
pub use eraseblock_vfs::background::BackgroundWork;
pub use ids::{IdMap, IdMapError, IdMaps, IdRange};
pub use mount::{MountError, MountOptions, Mounted, Report, Stopper, is_dead, mount};
pub use requester::requester;
pub use source::{decoded, source_name, source_path};
pub use status::{STATUS, Status, Traffic};
