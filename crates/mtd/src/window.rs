//! Reading ahead in an image.

use crate::read_at::ReadAt;
use std::io;

/// Most bytes that are read at once.
const MOST: usize = 64 << 10;

/// Bytes of an image that were read together with others, for one request that goes forward.
#[derive(Debug, Default)]
pub struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Creates a window without bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills `buf` with the bytes at `offset`, from the window if they are in it. Else up to `ahead`
    /// bytes are read at once, and at most 64 KiB.
    ///
    /// # Errors
    ///
    /// Fails if the bytes for `buf` cannot be read; those after them do not matter.
    pub fn read(
        &mut self,
        image: &dyn ReadAt,
        offset: u64,
        ahead: usize,
        buf: &mut [u8],
    ) -> io::Result<()> {
        let skip = offset.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok());
        if let Some(seen) = skip.and_then(|skip| self.bytes.get(skip..)?.get(..buf.len())) {
            buf.copy_from_slice(seen);
            return Ok(());
        }
        let left = usize::try_from(image.size()?.saturating_sub(offset)).unwrap_or(usize::MAX);
        let ahead = ahead.min(MOST).min(left);
        if ahead > buf.len() {
            self.bytes.resize(ahead, 0);
            self.offset = offset;
            if image.read_exact_at(&mut self.bytes, offset).is_ok() {
                buf.copy_from_slice(&self.bytes[..buf.len()]);
                return Ok(());
            }
            self.bytes.clear();
        }
        image.read_exact_at(buf, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts reads; bytes from 100 on cannot be read.
    #[derive(Debug, Default)]
    struct Image(AtomicUsize);

    impl ReadAt for Image {
        fn size(&self) -> io::Result<u64> {
            Ok(200)
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if offset + buf.len() as u64 > 100 {
                return Err(io::Error::other("unreadable"));
            }
            buf.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = at.to_le_bytes()[0]);
            Ok(())
        }
    }

    #[test]
    fn bytes_are_read_once_and_those_after_them_do_not_matter() {
        let (image, mut window, mut buf) = (Image::default(), Window::new(), [0; 10]);
        for offset in [0, 10, 40] {
            window.read(&image, offset, 60, &mut buf).unwrap();
            assert_eq!(u64::from(buf[0]), offset);
        }
        assert_eq!(image.0.load(Ordering::Relaxed), 1);
        window.read(&image, 90, 60, &mut buf).unwrap();
        assert_eq!(buf[9], 99);
        assert!(window.read(&image, 95, 10, &mut buf).is_err());
    }
}
