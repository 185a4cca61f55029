//! The layout of the out-of-band bytes of a page: bad-block marker, ECC bytes, and free bytes
//! (spec: mtd-nand 6, 10.1).

use eraseblock_base::{Geometry, MediumKind};
use std::error::Error;
use std::fmt;

/// The pages of a block that may carry a bad-block marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkerPages {
    /// The first page only.
    First,
    /// The first and the second page.
    FirstTwo,
    /// The first, the second and the last page.
    FirstTwoLast,
    /// The last page only.
    Last,
}

/// The position of the bad-block marker: a value other than 0xFF in this byte of any of these
/// pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMarker {
    /// The byte in the out-of-band area.
    pub offset: u32,
    /// The pages that carry the marker.
    pub pages: MarkerPages,
}

impl BadMarker {
    /// Returns the usual position for a geometry: byte 5 of small pages, byte 0 of large ones, in
    /// the first two pages.
    pub fn usual(geometry: &Geometry) -> Self {
        let offset = if geometry.min_io() <= 512 { 5 } else { 0 };
        Self { offset, pages: MarkerPages::FirstTwo }
    }

    /// Returns the page numbers inside a block of `count` pages, ascending.
    pub fn page_numbers(self, count: u32) -> Vec<u32> {
        let last = count.saturating_sub(1);
        let mut pages = match self.pages {
            MarkerPages::First => vec![0],
            MarkerPages::FirstTwo => vec![0, 1.min(last)],
            MarkerPages::FirstTwoLast => vec![0, 1.min(last), last],
            MarkerPages::Last => vec![last],
        };
        pages.dedup();
        pages
    }
}

/// ECC bytes that do not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutError {
    /// The requested scheme.
    pub scheme: &'static str,
    /// Bytes it needs.
    pub needed: u32,
    /// Bytes available.
    pub available: u32,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, needed, available } = self;
        write!(f, "{scheme} needs {needed} out-of-band bytes a page, {available} can be used")
    }
}

impl Error for LayoutError {}

/// The positions of ECC bytes and free bytes in the out-of-band area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OobLayout {
    ecc: Vec<u32>,
    free: Vec<u32>,
}

impl OobLayout {
    /// Returns the layout of Linux's software Hamming code for pages of `steps` steps, 3 bytes
    /// each.
    ///
    /// # Errors
    ///
    /// Fails if the ECC bytes do not fit into `oob_size` bytes.
    pub fn hamming(oob_size: u32, steps: u32) -> Result<Self, LayoutError> {
        let total = steps * 3;
        let fail = |available| LayoutError { scheme: "Hamming", needed: total, available };
        let (ecc, free): (Vec<u32>, Vec<u32>) = match oob_size {
            8 => (vec![0, 1, 2], vec![3, 4, 6, 7]),
            16 => (vec![0, 1, 2, 3, 6, 7], (8..16).collect()),
            64 => ((40..64).collect(), (2..40).collect()),
            size if size >= 128 => {
                let end = 80 + total;
                let free = (2..80).chain(end..size).collect();
                ((80..end).collect(), free)
            }
            _ => return Err(fail(0)),
        };
        let available = u32::try_from(ecc.len()).unwrap_or(u32::MAX);
        if available < total || ecc.last().is_some_and(|last| *last >= oob_size) {
            return Err(fail(available.min(oob_size)));
        }
        let ecc = ecc.into_iter().take(total as usize).collect();
        Ok(Self { ecc, free })
    }

    /// Returns the layout of Linux's software BCH code: the last `total` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the ECC bytes do not fit into `oob_size` bytes.
    pub fn at_end(oob_size: u32, total: u32) -> Result<Self, LayoutError> {
        let available = oob_size.saturating_sub(2);
        if oob_size < 64 || total > available {
            return Err(LayoutError { scheme: "BCH", needed: total, available });
        }
        let start = oob_size - total;
        Ok(Self { ecc: (start..oob_size).collect(), free: (2..start).collect() })
    }

    /// Returns the positions of the ECC bytes, in the order of the steps.
    pub fn ecc_positions(&self) -> &[u32] {
        &self.ecc
    }

    /// Returns the positions of the free bytes, ascending.
    pub fn free_positions(&self) -> &[u32] {
        &self.free
    }

    /// Returns the number of free bytes (`oobavail`).
    pub fn available(&self) -> usize {
        self.free.len()
    }
}

/// Returns whether a medium has out-of-band bytes.
pub fn has_oob(geometry: &Geometry) -> bool {
    geometry.kind() == MediumKind::Nand && geometry.oob_size() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_byte_counts_are_those_of_the_specification() {
        // spec: mtd-nand 4.3, 6
        for (oob, steps, available) in
            [(16, 2, 8), (64, 8, 38), (128, 16, 78), (128, 8, 102), (8, 1, 4)]
        {
            let layout = OobLayout::hamming(oob, steps).unwrap();
            assert_eq!(layout.available(), available, "{oob} bytes");
            assert_eq!(layout.ecc_positions().len(), steps as usize * 3);
        }
        assert_eq!(OobLayout::at_end(64, 28).unwrap().available(), 34);
        let bch8 = OobLayout::at_end(64, 52).unwrap();
        assert_eq!((bch8.available(), bch8.ecc_positions()[0]), (10, 12));
        assert_eq!(OobLayout::hamming(16, 2).unwrap().ecc_positions(), [0, 1, 2, 3, 6, 7]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(OobLayout::hamming(16, 8).is_err());
        assert!(OobLayout::hamming(64, 16).is_err());
        assert!(OobLayout::hamming(32, 1).is_err());
        assert!(OobLayout::at_end(64, 63).is_err());
        assert!(OobLayout::at_end(16, 7).is_err());
        let error = OobLayout::at_end(64, 104).unwrap_err();
        assert_eq!(error.to_string(), "BCH needs 104 out-of-band bytes a page, 62 can be used");
    }

    #[test]
    fn marker_pages() {
        let marker = |pages| BadMarker { offset: 0, pages }.page_numbers(64);
        assert_eq!(marker(MarkerPages::First), [0]);
        assert_eq!(marker(MarkerPages::FirstTwo), [0, 1]);
        assert_eq!(marker(MarkerPages::FirstTwoLast), [0, 1, 63]);
        assert_eq!(marker(MarkerPages::Last), [63]);
        assert_eq!(BadMarker { offset: 0, pages: MarkerPages::FirstTwo }.page_numbers(1), [0]);
    }
}
