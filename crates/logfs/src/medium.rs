//! The image with what the journal holds of it (spec: readonly-formats A.5, AREA).

use eraseblock_mtd::ReadAt;
use std::io;
use std::sync::Arc;

/// An image, some of whose bytes are in the journal only.
#[derive(Debug)]
pub(crate) struct Medium {
    pub(crate) image: Arc<dyn ReadAt>,
    /// Places and bytes that are laid over the image.
    pub(crate) overlays: Vec<(u64, Vec<u8>)>,
}

impl ReadAt for Medium {
    fn size(&self) -> io::Result<u64> {
        self.image.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.image.read_exact_at(buf, offset)?;
        let end = offset.saturating_add(buf.len() as u64);
        for (place, bytes) in &self.overlays {
            let first = offset.max(*place);
            let last = end.min(place.saturating_add(bytes.len() as u64));
            if first < last {
                let len = (last - first) as usize;
                let from = &bytes[(first - place) as usize..][..len];
                buf[(first - offset) as usize..][..len].copy_from_slice(from);
            }
        }
        Ok(())
    }
}
