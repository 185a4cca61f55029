//! Export and import of whole images, with or without out-of-band bytes (spec: mtd-nand 16.10).

use super::Chip;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::MtdError;
use std::io::{Read, Write};

impl Chip {
    /// Writes the whole chip, page by page, each followed by its out-of-band bytes if `oob`. The
    /// cells are written unchanged, without read faults.
    ///
    /// # Errors
    ///
    /// Fails if the chip's file cannot be read or `to` cannot be written.
    pub fn export(&self, to: &mut dyn Write, oob: bool) -> Result<(), MtdError> {
        let len = if oob { self.config.stride() } else { self.config.page as usize };
        let mut page = vec![0xFF; len];
        for peb in self.config.geometry.pebs() {
            for number in 0..self.config.pages_per_peb() {
                self.shared().state.load(peb, number, 0, &mut page)?;
                to.write_all(&page).map_err(|source| {
                    let at = Location::Peb(peb, number * self.config.page);
                    MtdError::Io { at, operation: "export", source }
                })?;
            }
        }
        Ok(())
    }

    /// Fills the chip from an image in the format of [`Self::export`]; a shorter image leaves the
    /// rest erased. Replaces all content, keeps the wear, and counts no event. Returns the number
    /// of bytes read.
    ///
    /// # Errors
    ///
    /// Fails if `from` cannot be read or is longer than the chip, or if the chip's file cannot be
    /// written.
    pub fn import(&self, from: &mut dyn Read, oob: bool) -> Result<u64, MtdError> {
        self.check_writable("import")?;
        let len = if oob { self.config.stride() } else { self.config.page as usize };
        let mut page = vec![0xFF; len];
        let mut total = 0;
        let mut ended = false;
        for peb in self.config.geometry.pebs() {
            self.exclusive().state.wipe(peb);
            for number in 0..self.config.pages_per_peb() {
                if ended {
                    break;
                }
                page.fill(0xFF);
                let filled = fill(from, &mut page).map_err(|source| {
                    let at = Location::Peb(peb, number * self.config.page);
                    MtdError::Io { at, operation: "import", source }
                })?;
                total += filled as u64;
                ended = filled < len;
                self.import_page(peb, number, &page)?;
            }
            let mut inner = self.exclusive();
            inner.state.refresh_bad(peb)?;
            inner.state.persist(peb, &self.tally)?;
        }
        Ok(total)
    }

    fn import_page(&self, peb: Peb, page: u32, bytes: &[u8]) -> Result<(), MtdError> {
        if eraseblock_base::align::is_erased(bytes) {
            return Ok(());
        }
        self.exclusive().state.set_cells(peb, page, bytes)
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(from: &mut dyn Read, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match from.read(&mut buf[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
