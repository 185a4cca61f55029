//! Reading from a file or from a flash device, whichever holds the image.

use crate::error::MtdError;
use std::error::Error;
use std::fmt;
use std::io;

/// A failure to read an image, with the message of its source.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// A file, or bytes in memory.
    Image(io::Error),
    /// A flash device.
    Device(MtdError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => fmt::Display::fmt(error, f),
            Self::Device(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for ReadError {}

impl ReadError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Image(error) => Some(error),
            Self::Device(error) => Some(error),
        }
    }
}
