//! Where the contents of volumes come from.

use std::io::{self, Read};

/// The content of a volume, LEB by LEB.
pub trait LebSource {
    /// Fills `buf` with the content of LEB `leb`. The buffer has as many bytes as the LEB holds: the
    /// usable LEB size, or what is left for the last one. Called with ascending numbers.
    fn read_leb(&mut self, leb: u32, buf: &mut [u8]) -> io::Result<()>;
}

/// The bytes of a reader, cut into LEBs.
#[derive(Debug)]
pub struct ReaderSource<R: Read> {
    reader: R,
}

impl<R: Read> ReaderSource<R> {
    /// Takes the content from `reader`, which must have as many bytes as the volume was said to hold.
    pub fn new(reader: R) -> Self {
        Self { reader }
    }
}

impl<R: Read> LebSource for ReaderSource<R> {
    fn read_leb(&mut self, _leb: u32, buf: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(buf)
    }
}
