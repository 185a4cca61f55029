//! A raw NAND dump, in which the out-of-band bytes of each page follow the page: read without them.

use crate::ReadAt;
use std::io;
use std::sync::Arc;

/// The pages of a raw dump, consecutively. Bit errors that ECC would correct are delivered
/// unchanged.
#[derive(Clone, Debug)]
pub struct RawDump {
    inner: Arc<dyn ReadAt>,
    page: u32,
    oob: u32,
}

impl RawDump {
    /// Usual sizes of a page and of its out-of-band area, in bytes.
    pub const USUAL: [(u32, u32); 9] = [
        (512, 16),
        (2048, 64),
        (2048, 128),
        (4096, 128),
        (4096, 224),
        (4096, 256),
        (8192, 256),
        (8192, 448),
        (8192, 640),
    ];

    /// Opens a dump of pages of `page` bytes, each followed by `oob` bytes; returns `None` if the
    /// dump is empty or not a multiple of these.
    ///
    /// # Errors
    ///
    /// Fails if the dump cannot be read.
    pub fn new(inner: Arc<dyn ReadAt>, page: u32, oob: u32) -> io::Result<Option<Self>> {
        let (size, raw) = (inner.size()?, u64::from(page) + u64::from(oob));
        let fits = page > 0 && size > 0 && size.is_multiple_of(raw);
        Ok(fits.then_some(Self { inner, page, oob }))
    }

    /// Returns whether the dump may consist of pages of one of the usual sizes.
    ///
    /// # Errors
    ///
    /// Fails if the dump cannot be read.
    pub fn could_be(image: &dyn ReadAt) -> io::Result<bool> {
        let size = image.size()?;
        let raw = |(page, oob): &(u32, u32)| u64::from(*page) + u64::from(*oob);
        Ok(size > 0 && Self::USUAL.iter().any(|shape| size.is_multiple_of(raw(shape))))
    }

    /// Returns the page size in bytes.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Returns the number of out-of-band bytes after each page.
    pub fn oob(&self) -> u32 {
        self.oob
    }
}

impl ReadAt for RawDump {
    fn size(&self) -> io::Result<u64> {
        let (page, oob) = (u64::from(self.page), u64::from(self.oob));
        Ok(self.inner.size()? / (page + oob) * page)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (page, oob) = (u64::from(self.page), u64::from(self.oob));
        let (mut position, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (number, inside) = (position / page, position % page);
            let room = usize::try_from(page - inside).map_err(io::Error::other)?;
            let (part, after) = rest.split_at_mut(room.min(rest.len()));
            let at = number.checked_mul(page + oob).and_then(|start| start.checked_add(inside));
            self.inner.read_exact_at(part, at.ok_or(io::ErrorKind::UnexpectedEof)?)?;
            position += part.len() as u64;
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let page = |byte: u8| [vec![byte; 8], vec![0xEE; 2]].concat();
        let bytes: Arc<Vec<u8>> = Arc::new([page(1), page(2), page(3)].concat());
        let dump = RawDump::new(bytes.clone(), 8, 2).unwrap().unwrap();
        assert_eq!((dump.size().unwrap(), dump.page(), dump.oob()), (24, 8, 2));
        let mut read = [0; 18];
        dump.read_exact_at(&mut read, 5).unwrap();
        assert_eq!(read.to_vec(), [vec![1; 3], vec![2; 8], vec![3; 7]].concat());
        assert!(dump.read_exact_at(&mut read, 7).is_err());
        assert!(RawDump::new(bytes, 8, 3).unwrap().is_none());
        assert!(RawDump::new(Arc::new(Vec::new()), 8, 2).unwrap().is_none());
        for (size, could_be) in [(0, false), (2112, true), (2048, false), (64 * 528, true)] {
            assert_eq!(RawDump::could_be(&vec![0; size]).unwrap(), could_be, "{size}");
        }
    }
}
