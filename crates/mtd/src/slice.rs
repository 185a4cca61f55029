//! A part of a larger source as a source of its own.

use crate::ReadAt;
use std::io;
use std::sync::Arc;

/// The bytes `[start, start + len)` of another source.
#[derive(Clone, Debug)]
pub struct Slice {
    inner: Arc<dyn ReadAt>,
    start: u64,
    len: u64,
}

impl Slice {
    /// Takes `len` bytes from `start`, or fewer if the source ends before.
    ///
    /// # Errors
    ///
    /// Fails if the size of the source is unknown.
    pub fn new(inner: Arc<dyn ReadAt>, start: u64, len: u64) -> io::Result<Self> {
        let len = inner.size()?.saturating_sub(start).min(len);
        Ok(Self { inner, start, len })
    }
}

impl ReadAt for Slice {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.inner.read_exact_at(buf, self.start + offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let found = self.inner.next_data(self.start.saturating_add(offset))?;
        Ok((found - self.start).min(self.len.max(offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_read() {
        let bytes: Arc<Vec<u8>> = Arc::new((0..10).collect());
        let slice = Slice::new(bytes.clone(), 3, 4).unwrap();
        let mut buf = [0; 2];
        slice.read_exact_at(&mut buf, 2).unwrap();
        assert_eq!((slice.size().unwrap(), buf), (4, [5, 6]));
        for offset in [3, u64::MAX] {
            assert!(slice.read_exact_at(&mut buf, offset).is_err());
        }
        assert_eq!(Slice::new(bytes.clone(), 8, 4).unwrap().size().unwrap(), 2);
        assert_eq!(Slice::new(bytes, 11, 4).unwrap().size().unwrap(), 0);
    }
}
