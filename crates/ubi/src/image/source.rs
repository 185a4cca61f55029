//! Sources of the contents of volumes.

use std::io::{self, Read};

/// The content of a volume, LEB by LEB.
pub trait LebSource {
    /// Fills `buf` with the content of LEB `leb`. The buffer is as long as the content of the LEB:
    /// the usable LEB size, or the rest for the last one. Called with ascending numbers.
    fn read_leb(&mut self, leb: u32, buf: &mut [u8]) -> io::Result<()>;
}

/// The bytes of a reader, split into LEBs.
#[derive(Debug)]
pub struct ReaderSource<R: Read> {
    reader: R,
}

impl<R: Read> ReaderSource<R> {
    /// Takes the content from `reader`, which must deliver exactly the announced size of the
    /// volume.
    pub fn new(reader: R) -> Self {
        Self { reader }
    }
}

impl<R: Read> LebSource for ReaderSource<R> {
    fn read_leb(&mut self, _leb: u32, buf: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(buf)
    }
}
