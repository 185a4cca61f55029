//! Errors of opening.

use eraseblock_base::ErrorClass;
use eraseblock_codec::CodecError;
use std::error::Error;
use std::fmt;
use std::io;

/// An image that cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum AxfsError {
    /// The superblock is not one of AXFS.
    NotAxfs {
        /// The first four bytes.
        found: u32,
    },
    /// The image cannot be read.
    Read {
        /// What was read.
        what: &'static str,
        /// Its place.
        offset: u64,
        /// The reason.
        error: io::Error,
    },
    /// A value that no image has.
    Field {
        /// The structure and the field.
        field: &'static str,
        /// Its place.
        offset: u64,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: String,
    },
    /// Bytes of the image are not there.
    Missing {
        /// What they belong to.
        what: &'static str,
        /// Where it ends.
        end: u64,
        /// Bytes there are.
        size: u64,
        /// Bytes of the first device if the image is split.
        mmap_size: u64,
    },
    /// A table cannot be decompressed.
    Table {
        /// The table.
        what: &'static str,
        /// Its place.
        offset: u64,
        /// The reason.
        error: CodecError,
    },
}

impl fmt::Display for AxfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAxfs { found } => write!(
                f,
                "byte 0: no superblock of AXFS: magic number {found:#010x}, expected {:#010x}",
                crate::MAGIC
            ),
            Self::Read { what, offset, error } => {
                write!(f, "byte {offset}: cannot read {what}: {error}")
            }
            Self::Field { field, offset, found, expected } => {
                write!(f, "byte {offset}: {field} is {found}, expected {expected}")
            }
            Self::Missing { what, end, size, mmap_size } => {
                write!(f, "{what} ends at byte {end}, but there are only {size} bytes")?;
                if mmap_size < end {
                    write!(
                        f,
                        "; the image is split: append the second part to the first {mmap_size} \
                         bytes of this one"
                    )?;
                }
                Ok(())
            }
            Self::Table { what, offset, error } => write!(f, "byte {offset}: {what}: {error}"),
        }
    }
}

impl Error for AxfsError {}

impl AxfsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Table { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Read { .. } => ErrorClass::Media,
            _ => ErrorClass::Corruption,
        }
    }
}
