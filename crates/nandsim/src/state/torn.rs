//! The states after a power cut during a program (variants P0 to P7).

use super::{PageWrite, State};
use crate::overlay::{ALL_STEPS, MAX_FLIPS, Unstable, differing_bits};
use crate::rng::Rng;
use crate::variant::{Prefix, Variant, prefix_len};
use eraseblock_mtd::MtdError;

/// A page after an interrupted program.
struct Torn {
    /// The content of the cells.
    held: Vec<u8>,
    /// Whether the touched codewords have no matching ECC, even if few bits differ.
    hopeless: bool,
}

impl State {
    /// Leaves the state of `variant`; returns `false` if it is not a variant of this program.
    pub(super) fn tear_program(
        &mut self,
        write: &PageWrite,
        variant: Variant,
        rng: &mut Rng,
    ) -> Result<bool, MtdError> {
        let oob_only = write.data.is_empty();
        match variant {
            Variant::P0 => Ok(true),
            Variant::P1 => self.store_page(write).map(|()| true),
            Variant::P5 { good_reads } => {
                self.store_page(write)?;
                let (seed, steps) = (rng.next_u64(), self.touched_steps(write));
                let unstable = Unstable { good_reads, reads: 0, seed, steps };
                let fault = self.page_fault_mut(write.peb, write.page);
                fault.unstable = Some(unstable.and(fault.unstable));
                fault.interrupted = true;
                Ok(true)
            }
            Variant::P6 { zero_bits } => self.nearly_erased(write, zero_bits, rng).map(|()| true),
            Variant::P4 | Variant::P7Data | Variant::P7Oob if oob_only => Ok(false),
            Variant::P2(_) | Variant::P3 | Variant::P4 | Variant::P7Data | Variant::P7Oob => {
                let mut old = vec![0xFF; self.config.stride()];
                self.load(write.peb, write.page, 0, &mut old)?;
                let mut new = old.clone();
                write.apply(self.config.page, &mut new);
                let torn = self.torn_page(write, variant, &old, &new, rng);
                self.settle(write, &old, &new, torn).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn torn_page(
        &self,
        write: &PageWrite,
        variant: Variant,
        old: &[u8],
        new: &[u8],
        rng: &mut Rng,
    ) -> Torn {
        let split = self.config.page as usize;
        let mut held = old.to_vec();
        let mut hopeless = false;
        match variant {
            Variant::P2(prefix) => self.keep_prefix(write, prefix, new, &mut held),
            Variant::P3 => {
                for (cell, new) in held.iter_mut().zip(new) {
                    let [mask, ..] = rng.next_u64().to_le_bytes();
                    *cell &= new | mask;
                }
            }
            Variant::P4 => {
                let (start, end) = self.touched_bytes(write);
                let mut garbage = vec![0; end - start];
                rng.fill(&mut garbage);
                held[start..end].iter_mut().zip(garbage).for_each(|(cell, byte)| *cell &= byte);
                hopeless = true;
            }
            Variant::P7Data => {
                held[..split].copy_from_slice(&new[..split]);
                hopeless = true;
            }
            _ => {
                held[split..].copy_from_slice(&new[split..]);
                hopeless = true;
            }
        }
        Torn { held, hopeless }
    }

    /// Data is transferred first; out-of-band bytes count only if there is no data.
    fn keep_prefix(&self, write: &PageWrite, prefix: Prefix, new: &[u8], held: &mut [u8]) {
        let (start, len) = if write.data.is_empty() {
            ((self.config.page + write.oob_offset) as usize, write.oob.len())
        } else {
            (write.column as usize, write.data.len())
        };
        let end = start + prefix_len(prefix, len, &self.config);
        held[start..end].copy_from_slice(&new[start..end]);
    }

    /// Returns the codewords that the data touches, as a byte range of the page.
    fn touched_bytes(&self, write: &PageWrite) -> (usize, usize) {
        let step = self.config.ecc_step() as usize;
        let start = write.column as usize;
        let end = start + write.data.len();
        (start / step * step, end.next_multiple_of(step).min(self.config.page as usize))
    }

    /// Returns the codewords that the data touches, one bit each; all of the page if there is no
    /// data.
    fn touched_steps(&self, write: &PageWrite) -> u64 {
        let step = self.config.ecc_step() as usize;
        let (start, end) = self.touched_bytes(write);
        if write.data.is_empty() || end - start == self.config.page as usize {
            return ALL_STEPS;
        }
        (start / step..end / step).fold(0, |steps, step| steps | 1 << step)
    }

    /// Decides for each codeword what ECC will return for the cells.
    fn settle(
        &mut self,
        write: &PageWrite,
        old: &[u8],
        new: &[u8],
        torn: Torn,
    ) -> Result<(), MtdError> {
        let Torn { held, hopeless } = torn;
        let step = self.config.ecc_step() as usize;
        let strength = usize::from(self.config.ecc_bits).min(MAX_FLIPS);
        let mut truth = held.clone();
        let mut flips = Vec::new();
        let mut bad_steps = 0_u64;
        if self.config.corrects() && !write.data.is_empty() {
            let (start, end) = self.touched_bytes(write);
            for at in (start..end).step_by(step) {
                let (old, new, held) =
                    (&old[at..at + step], &new[at..at + step], &held[at..at + step]);
                if (old == new) || (held == old && !hopeless) {
                    continue;
                }
                let first = u32::try_from(at * 8).unwrap_or(u32::MAX);
                let wrong = differing_bits(new, held, first, strength);
                if hopeless || wrong.len() > strength {
                    bad_steps |= 1 << (at / step);
                } else {
                    truth[at..at + step].copy_from_slice(new);
                    flips.extend(wrong);
                }
            }
        }
        self.count_program(write)?;
        self.with_page(write.peb, write.page, |cells, _| cells.copy_from_slice(&truth))?;
        let fault = self.page_fault_mut(write.peb, write.page);
        fault.bad_steps |= bad_steps;
        fault.add_flips(flips);
        fault.interrupted = true;
        self.note_marker(write)
    }

    /// Leaves the old content except a few cleared bits in one codeword. If no more than can be
    /// corrected, the page looks erased to a driver and may be programmed.
    fn nearly_erased(
        &mut self,
        write: &PageWrite,
        zero_bits: u16,
        rng: &mut Rng,
    ) -> Result<(), MtdError> {
        let flips = self.bits_of_write(write, zero_bits, rng);
        let mut cells = vec![0xFF; self.config.stride()];
        self.load(write.peb, write.page, 0, &mut cells)?;
        // Only a 1 can be cleared.
        let is_one = |bit: &u32| cells[*bit as usize / 8] >> (bit % 8) & 1 == 1;
        let flips: Vec<u32> = flips.into_iter().filter(is_one).collect();
        if zero_bits > self.config.ecc_bits {
            self.count_program(write)?;
            self.page_fault_mut(write.peb, write.page).interrupted = true;
        }
        self.add_flips(write.peb, write.page, flips);
        Ok(())
    }
}
