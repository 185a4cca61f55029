//! Mounts: a file system of ours behind `/dev/fuse`, for every program of the host.
//!
//! [`mount`] takes a [`Served`] file system and a directory and gives a [`Mounted`]. Whoever holds
//! it waits in [`Mounted::wait`] until the mount ends, from outside (`umount`, `fusermount3 -u`)
//! or through a [`Stopper`]; everything is durable and the medium clean when that returns.
//!
//! This room and the NFS one are the only ones that know protocol error numbers, and among the
//! few that read the clock.

mod acl;
mod adapter;
mod background;
mod convert;
mod errno;
mod flags;
mod ids;
mod lookups;
mod mount;
mod served;
mod source;
mod status;

pub use background::Chore;
pub use ids::{IdMap, IdMapError, IdMaps, IdRange};
pub use mount::{MountError, MountOptions, Mounted, Report, Stopper, is_dead, mount};
pub use served::Served;
pub use source::{decoded, source_name, source_path};
pub use status::{STATUS, Status, Traffic};
