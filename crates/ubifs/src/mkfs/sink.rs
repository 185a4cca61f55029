//! Destinations of LEBs.

use eraseblock_base::Leb;
use eraseblock_mtd::LebDevice;
use std::collections::BTreeSet;
use std::io::{self, Seek, SeekFrom, Write};

/// Receives the LEBs of an image.
///
/// An image is only valid once [`LebSink::finish`] was called, because the superblock comes near
/// the end.
pub trait LebSink {
    /// Receives the content of a LEB, once per LEB: a multiple of the minimum I/O unit, at most a
    /// LEB; the rest of the LEB is erased (0xFF).
    fn write_leb(&mut self, leb: Leb, data: &[u8]) -> io::Result<()>;

    /// Completes the image, which has `leb_cnt` LEBs; those not written are erased.
    fn finish(&mut self, leb_cnt: u32) -> io::Result<()>;
}

/// Discards everything, to determine only the size of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoSink;

impl LebSink for NoSink {
    fn write_leb(&mut self, _leb: Leb, _data: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _leb_cnt: u32) -> io::Result<()> {
        Ok(())
    }
}

/// Writes onto a volume, each LEB at once.
#[derive(Debug)]
pub struct DeviceSink<'a>(pub &'a dyn LebDevice);

impl LebSink for DeviceSink<'_> {
    fn write_leb(&mut self, leb: Leb, data: &[u8]) -> io::Result<()> {
        self.0.change(leb, data).map_err(io::Error::other)
    }

    fn finish(&mut self, _leb_cnt: u32) -> io::Result<()> {
        self.0.sync().map_err(io::Error::other)
    }
}

/// Writes a bare `.ubifs` image: all LEBs in order, erased parts as 0xFF.
#[derive(Debug)]
pub struct FileSink<W> {
    out: W,
    erased: Vec<u8>,
    written: BTreeSet<Leb>,
    position: u64,
}

impl<W: Write + Seek> FileSink<W> {
    /// Writes to `out`, from its start.
    pub fn new(out: W, leb_size: u32) -> Self {
        // A position that no LEB has, so that the first write seeks.
        let position = u64::MAX;
        Self { out, erased: vec![0xFF; leb_size as usize], written: BTreeSet::new(), position }
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn put(&mut self, leb: Leb, data: &[u8]) -> io::Result<()> {
        let start = u64::from(leb.get()) * self.erased.len() as u64;
        if self.position != start {
            self.out.seek(SeekFrom::Start(start))?;
        }
        self.out.write_all(data)?;
        self.out.write_all(self.erased.get(data.len()..).unwrap_or_default())?;
        self.position = start + self.erased.len() as u64;
        Ok(())
    }
}

impl<W: Write + Seek> LebSink for FileSink<W> {
    fn write_leb(&mut self, leb: Leb, data: &[u8]) -> io::Result<()> {
        self.put(leb, data)?;
        self.written.insert(leb);
        Ok(())
    }

    fn finish(&mut self, leb_cnt: u32) -> io::Result<()> {
        for leb in (0..leb_cnt).map(Leb::new) {
            if !self.written.contains(&leb) {
                self.put(leb, &[])?;
            }
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn lebs_that_were_not_written_are_erased() {
        let mut sink = FileSink::new(Cursor::new(Vec::new()), 8);
        sink.write_leb(Leb::new(2), &[1, 2]).unwrap();
        sink.write_leb(Leb::new(0), &[3; 8]).unwrap();
        sink.finish(4).unwrap();
        let mut expected = vec![3; 8];
        expected.extend([0xFF; 8]);
        expected.extend([1, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        expected.extend([0xFF; 8]);
        assert_eq!(sink.into_inner().into_inner(), expected);
    }
}
