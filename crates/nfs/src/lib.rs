//! Serves a file system over NFSv3, for hosts without FUSE: a user-space server, intended for the
//! loopback interface.
//!
//! File handles are inode numbers, and directory cookies are those of the file system, so both stay
//! valid after a restart of the server. Every write is durable before the reply. Device nodes
//! cannot be created, and permissions are not checked: every client that can reach the port has
//! full access.

mod convert;
mod export;
mod listing;
mod server;

pub use eraseblock_vfs::Served;
pub use server::{Server, ServerError, ServerOptions};
