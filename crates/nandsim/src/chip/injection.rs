//! Deliberate damage, outside the numbered events.

use super::Chip;
use crate::overlay::flip;
use crate::rng::Rng;
use eraseblock_base::Peb;
use eraseblock_mtd::MtdError;

impl Chip {
    /// Makes bits wrong until the next erase. `bits` count from bit 0 of the byte at the start of
    /// the page that holds `peb`, `offset`; positions after the data are out-of-band bits.
    ///
    /// # Errors
    ///
    /// Fails if the position is not on the chip, or if the chip's file cannot be accessed.
    pub fn flip_bits(&self, peb: Peb, offset: u32, bits: &[u32]) -> Result<(), MtdError> {
        self.check_peb(peb, "flip")?;
        self.check_writable("flip")?;
        let page = (offset / self.config.page).min(self.config.pages_per_peb() - 1);
        let mut inner = self.exclusive();
        inner.state.add_flips(peb, page, bits.to_vec());
        inner.state.persist(peb, &self.tally)
    }

    /// Changes bits so that ECC accepts the result (silent corruption).
    ///
    /// # Errors
    ///
    /// Fails if the position is not on the chip, or if the chip's file cannot be accessed.
    pub fn corrupt_bits(&self, peb: Peb, offset: u32, bits: &[u32]) -> Result<(), MtdError> {
        self.check_peb(peb, "corrupt")?;
        self.check_writable("corrupt")?;
        let page = (offset / self.config.page).min(self.config.pages_per_peb() - 1);
        let mut inner = self.exclusive();
        inner
            .state
            .change_cells(peb, page, |cells| bits.iter().for_each(|bit| flip(cells, *bit)))?;
        inner.state.persist(peb, &self.tally)
    }

    /// Simulates ageing: in every programmed page, cleared bits leak back to 1, `per_million` of
    /// them in a new block and up to ten times as many in one at the end of its endurance (spec:
    /// mtd-nand 15.4).
    ///
    /// # Errors
    ///
    /// Fails if the chip's file cannot be accessed.
    pub fn age(&self, per_million: u32, seed: u64) -> Result<(), MtdError> {
        self.check_writable("ageing")?;
        let pebs: Vec<Peb> = self.config.geometry.pebs().collect();
        for peb in pebs {
            let mut inner = self.exclusive();
            if inner.state.store.get(peb).block.is_none() {
                continue;
            }
            let mut rng = Rng::new(seed, u64::from(peb.get()));
            inner.state.leak(peb, per_million, &mut rng)?;
            inner.state.persist(peb, &self.tally)?;
        }
        Ok(())
    }

    /// Makes a block bad as from the factory: marker set, no event, no wear.
    ///
    /// # Errors
    ///
    /// Fails if the block is not on the chip, or if the chip's file cannot be accessed.
    pub fn set_factory_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.check_peb(peb, "mark bad")?;
        self.check_writable("mark bad")?;
        if !self.config.is_nand() {
            return Err(MtdError::Unsupported { operation: "marking blocks bad" });
        }
        let mut inner = self.exclusive();
        inner.state.factory_bad(peb)?;
        inner.state.persist(peb, &self.tally)
    }
}
