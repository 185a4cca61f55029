//! Sources and destinations of file trees: directories, tar and cpio archives and device tables as
//! input, directories and tar archives as output.
//!
//! Input: [`source::open`] detects the format; [`dir::read`], [`tar::read`] and [`cpio::read`]
//! return a [`SourceTree`](eraseblock_vfs::SourceTree); [`devtable`], [`owners`], [`selinux`] and
//! [`times`] change it. Output: [`extract`] writes a directory and [`tar_out`] an archive from any
//! [`FileSystem`](eraseblock_vfs::FileSystem). [`scrub`] reads a whole file system to find
//! unreadable parts.

pub mod codes;
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
