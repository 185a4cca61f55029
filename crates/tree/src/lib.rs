//! What a folder is: a directory, a tar or cpio archive or a device table on the way in, a directory
//! or a tar archive on the way out.
//!
//! In: [`source::open`] finds out which it is; [`dir::read`], [`tar::read`] and [`cpio::read`] make a
//! [`SourceTree`](eraseblock_vfs::SourceTree); [`devtable`], [`owners`], [`selinux`] and
//! [`times`] change it.
//! Out: [`extract`] writes a directory and [`tar_out`] an archive from any
//! [`FileSystem`](eraseblock_vfs::FileSystem).
//! [`scrub`] reads all of one, to find what cannot be read.

pub mod cpio;
pub mod devtable;
pub mod dir;
mod draft;
pub mod error;
pub mod extract;
mod input;
pub mod owners;
pub mod put;
pub mod scrub;
pub mod selinux;
pub mod source;
pub mod tar;
pub mod tar_out;
#[cfg(test)]
mod testing;
pub mod times;

pub use error::TreeError;
