//! Changes of the flash that are not events: injected damage, ageing, import.

use super::State;
use crate::rng::Rng;
use eraseblock_base::Peb;
use eraseblock_mtd::MtdError;

impl State {
    /// Changes the cells of a page without counting a program.
    pub(crate) fn change_cells(
        &mut self,
        peb: Peb,
        page: u32,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), MtdError> {
        self.with_page(peb, page, |cells, meta| {
            change(cells);
            meta.oob_programs = meta.oob_programs.max(u8::from(!meta.is_touched()));
        })?;
        self.refresh_bad(peb)
    }

    /// Sets the cells of a page as one program would.
    pub(crate) fn set_cells(&mut self, peb: Peb, page: u32, bytes: &[u8]) -> Result<(), MtdError> {
        let data = &bytes[..self.config.page as usize];
        let mask = self.mask_of(data);
        let has_data = !eraseblock_base::align::is_erased(data);
        self.with_page(peb, page, |cells, meta| {
            cells[..bytes.len()].copy_from_slice(bytes);
            meta.programs = u8::from(has_data);
            meta.oob_programs = u8::from(!has_data);
            meta.mask = mask;
        })
    }

    /// Returns one bit for each sub-page that is not erased.
    fn mask_of(&self, data: &[u8]) -> u64 {
        if !self.config.is_nand() {
            return 0;
        }
        let subpages = data.chunks(self.config.geometry.subpage() as usize);
        let written = subpages.map(|bytes| !eraseblock_base::align::is_erased(bytes));
        (0..).zip(written).filter(|(_, written)| *written).map(|(bit, _)| 1 << bit).sum()
    }

    /// Erases a block without wear and without an event.
    pub(crate) fn wipe(&mut self, peb: Peb) {
        let erases = self.store.get(peb).erases;
        self.clear(peb);
        self.store.get_mut(peb).erases = erases;
    }

    /// Sets a factory bad-block marker.
    pub(crate) fn factory_bad(&mut self, peb: Peb) -> Result<(), MtdError> {
        let erases = self.store.get(peb).erases;
        self.write_marks(peb, 0)?;
        self.store.get_mut(peb).erases = erases;
        Ok(())
    }

    /// Makes cleared bits leak back to 1 in `per_million` cases, more with wear.
    pub(crate) fn leak(
        &mut self,
        peb: Peb,
        per_million: u32,
        rng: &mut Rng,
    ) -> Result<(), MtdError> {
        let wear = self.wear_of(peb).min(1000);
        let per_billion = u64::from(per_million) * u64::from(1000 + wear * 9);
        let per_billion = u32::try_from(per_billion).unwrap_or(u32::MAX);
        let mut cells = vec![0xFF; self.config.stride()];
        for page in 0..self.store.get(peb).page_count() {
            self.load(peb, page, 0, &mut cells)?;
            let mut flips = Vec::new();
            for (bit, byte) in (0_u32..).step_by(8).zip(&cells) {
                let cleared = (0..8).filter(|index| byte >> index & 1 == 0);
                flips.extend(cleared.filter(|_| rng.chance(per_billion)).map(|index| bit + index));
            }
            if !flips.is_empty() {
                self.add_flips(peb, page, flips);
            }
        }
        Ok(())
    }
}
