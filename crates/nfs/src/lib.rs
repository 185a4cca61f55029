//! A file system of ours over NFSv3, for hosts where nothing can be mounted through FUSE: a server
//! in user space, meant for the loopback interface.
//!
//! File handles are inode numbers and directory cookies are those of the file system, so that both
//! outlive a restart of the server. Every write is durable before it is answered. There are no
//! device nodes to be made, and no permissions: who may reach the port may do everything.

mod convert;
mod export;
mod listing;
mod server;

pub use export::Exported;
pub use server::{Server, ServerError, ServerOptions};
