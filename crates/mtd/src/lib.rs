//! The device interfaces: [`Mtd`], a flash device addressed by byte and eraseblock, and
//! [`LebDevice`], the logical eraseblocks that UBIFS uses; and devices that are plain image files.

pub mod access;
pub mod bbt;
pub mod counted;
pub mod device;
pub mod ecc;
pub mod error;
pub mod file;
mod forward;
pub mod leb;
pub mod leb_image;
pub mod memory;
pub mod oob;
pub mod partition;
pub mod raw_dump;
pub mod read_at;
pub mod read_error;
mod redo;
pub mod slice;
pub mod verify;
mod window;
pub mod writable;
pub mod writable_dump;

pub use access::Access;
pub use counted::{CountedMtd, Counts};
pub use device::{Mtd, ReadOutcome};
pub use error::MtdError;
pub use file::{ImageFile, ImageShape, LebFile, OpenError};
pub use leb::{LebDevice, read_only_leb, usual_max_write};
pub use leb_image::LebImage;
pub use memory::MemoryMtd;
pub use raw_dump::RawDump;
pub use read_at::ReadAt;
pub use read_error::ReadError;
pub use slice::Slice;
pub use window::Window;
pub use writable::WritableImage;
pub use writable_dump::{DumpShape, WritableDump};
