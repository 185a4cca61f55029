//! Which faults happen when: a plain description, evaluated at every event.

use crate::rng::Rng;
use crate::variant::Variant;
use std::collections::BTreeMap;

/// The effect of a fault at one flash event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The power is cut during the operation and leaves this variant.
    Cut(Variant),
    /// The chip reports a failed operation; the content is torn (program: P3, erase: E2).
    Fail,
    /// The program succeeds, but some cells of one codeword are permanently wrong.
    Flips {
        /// The number. Beyond the chip's strength the codeword is uncorrectable.
        bits: u16,
    },
    /// The program succeeds with wrong data that ECC accepts. Out of the model: only checksums of
    /// upper layers can detect it.
    Silent {
        /// The number of wrong bits.
        bits: u16,
    },
    /// The program or erase reports success, but has no effect. Out of the model.
    Lost,
    /// The program reports success, but wrote another page of the chip. Out of the model.
    Misdirected,
}

impl Fault {
    /// Returns whether a driver stack must recover from the fault (see [`Variant::is_in_model`]).
    pub fn is_in_model(self) -> bool {
        match self {
            Self::Cut(variant) => variant.is_in_model(),
            Self::Fail | Self::Flips { .. } => true,
            Self::Silent { .. } | Self::Lost | Self::Misdirected => false,
        }
    }
}

/// The effect of a fault at one page read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadFault {
    /// This many bits of one codeword are wrong in this read only.
    Flips {
        /// The number. Beyond the chip's strength the codeword is uncorrectable in this read.
        bits: u16,
    },
    /// The transfer fails with [`eraseblock_mtd::MtdError::Failed`]; nothing is delivered.
    Fail,
}

/// A power cut that waits for a flash event. Unlike the rest of a plan, a chip's file stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArmedCut {
    /// The number of the event.
    pub event: u64,
    /// The variant for a program.
    pub program: Variant,
    /// The variant for an erase. A bad-block mark is torn.
    pub erase: Variant,
    /// The seed of its random parts.
    pub seed: u64,
}

/// The kind of event to which a [`Chance`] applies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trigger {
    /// Page programs.
    Program,
    /// Block erases.
    Erase,
    /// Bad-block marks.
    MarkBad,
}

/// A fault with a probability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chance {
    /// The kind of event.
    pub on: Trigger,
    /// The probability, in events per billion.
    pub per_billion: u32,
    /// The fault.
    pub fault: Fault,
}

/// Transient bit flips on reads of programmed pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadFlips {
    /// The number of affected reads per billion page reads.
    pub per_billion: u32,
    /// Each hit flips between 1 and this many bits.
    pub max_bits: u16,
}

/// Leaking charge: cleared bits eventually read as 1 (spec: mtd-nand 15.4). Like an armed cut, a
/// chip's file stores it.
///
/// The older a program is, the more of its bits have leaked, and never fewer: at first as many as
/// ECC corrects, then more. The age of a page counts from its last program, in events of the chip
/// and those of [`crate::Chip::pass_time`]; pages programmed before retention was enabled count
/// from then. An erase makes the cells new. No effect on NOR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// The number of cleared bits per billion that leak in each event on a block that was never
    /// erased; ten times as many on one at the end of its endurance.
    pub per_billion: u32,
    /// The seed that selects the bits.
    pub seed: u64,
}

/// All faults of a chip. The same plan with the same operations gives the same bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    /// The seed of all random decisions.
    pub seed: u64,
    /// A power cut at an event of any kind; it takes precedence over all other faults.
    pub cut: Option<ArmedCut>,
    /// Faults by event number.
    pub at: BTreeMap<u64, Fault>,
    /// Faults by probability; the first that occurs is used.
    pub chances: Vec<Chance>,
    /// Read faults by page-read number (counted from 0 over the life of the chip).
    pub at_read: BTreeMap<u64, ReadFault>,
    /// Transient flips on reads.
    pub read_flips: Option<ReadFlips>,
    /// After this many page reads of a block, one more bit of one of its pages is wrong until the
    /// next erase (read disturb).
    pub read_disturb: Option<u32>,
    /// Bits leak with the age of a page.
    pub retention: Option<Retention>,
    /// Blocks that accept this many erases and then fail every one.
    pub failing_erases: BTreeMap<u32, u32>,
    /// Pages (numbered over the chip) that accept this many programs and then fail every one.
    pub failing_programs: BTreeMap<u64, u32>,
    /// Pages (numbered over the chip) that deliver this many reads and then random bytes.
    pub failing_reads: BTreeMap<u64, u32>,
    /// Programs and erases fail depending on the wear of the block, and reads flip bits (spec:
    /// mtd-nand 15.4), relative to the endurance of the chip.
    pub wear_out: bool,
}

impl FaultPlan {
    /// Creates a plan without faults.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds a fault at an event number.
    #[must_use]
    pub fn with(mut self, number: u64, fault: Fault) -> Self {
        self.at.insert(number, fault);
        self
    }

    /// Returns the fault for an event, if any. `wear` is in thousandths of the chip's endurance.
    pub(crate) fn fault_at(&self, number: u64, on: Trigger, wear: u32) -> Option<Fault> {
        if let Some(cut) = self.cut.filter(|cut| cut.event == number) {
            return Some(Fault::Cut(match on {
                Trigger::Program => cut.program,
                Trigger::Erase => cut.erase,
                Trigger::MarkBad => Variant::B1,
            }));
        }
        if let Some(fault) = self.at.get(&number) {
            return Some(*fault);
        }
        let mut rng = Rng::new(self.seed ^ 0xC4A2_CE5E_ED00_0001, number);
        let by_chance = self.chances.iter().find(|chance| {
            let hit = rng.chance(chance.per_billion);
            hit && chance.on == on
        });
        if let Some(chance) = by_chance {
            return Some(chance.fault);
        }
        let worn = self.wear_out && on != Trigger::MarkBad;
        (worn && rng.chance(failures_per_billion(wear))).then_some(Fault::Fail)
    }

    /// Returns whether a read may do more than copy bytes, so that it needs exclusive access to the
    /// chip.
    pub(crate) fn touches_reads(&self) -> bool {
        !self.at_read.is_empty()
            || self.read_flips.is_some()
            || self.read_disturb.is_some()
            || !self.failing_reads.is_empty()
            || self.wear_out
    }

    /// Returns the transient faults of one page read of `bits` transferred bits.
    pub(crate) fn read_fault(&self, number: u64, bits: u32, wear: u32) -> Option<ReadFault> {
        if let Some(fault) = self.at_read.get(&number) {
            return Some(*fault);
        }
        let mut rng = Rng::new(self.seed ^ 0x8EAD_5EED_0000_0002, number);
        let flips = self.read_flips.filter(|flips| rng.chance(flips.per_billion));
        if let Some(flips) = flips {
            let extra = rng.below(u32::from(flips.max_bits.max(1)));
            return Some(ReadFault::Flips { bits: 1 + u16::try_from(extra).unwrap_or(0) });
        }
        let expected = u64::from(flips_per_tera_bits(wear)) * u64::from(bits) / 1000;
        let rate = u32::try_from(expected.min(1_000_000_000)).unwrap_or(0);
        (self.wear_out && rng.chance(rate)).then_some(ReadFault::Flips { bits: 1 })
    }
}

/// Returns the failure rate of programs and erases: 1e-7 when new, 1e-4 at the end of the
/// endurance, 1e-2 at twice that (spec: mtd-nand 15.4), in steps of a quarter.
fn failures_per_billion(wear_thousandths: u32) -> u32 {
    const RATES: [u32; 10] =
        [100, 562, 3_162, 17_783, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000, 10_000_000];
    interpolate(&RATES, wear_thousandths)
}

/// Returns the bit error rate of reads: 1e-9 when new, ten times as much for each 30 % of the
/// endurance used, in errors per 10^12 bits, in steps of a quarter.
fn flips_per_tera_bits(wear_thousandths: u32) -> u32 {
    const RATES: [u32; 10] = [
        1_000,
        6_813,
        46_416,
        316_228,
        2_154_435,
        14_677_993,
        99_999_999,
        681_292_069,
        4_000_000_000,
        4_000_000_000,
    ];
    interpolate(&RATES, wear_thousandths)
}

fn interpolate(rates: &[u32; 10], wear_thousandths: u32) -> u32 {
    let wear = wear_thousandths.min(2000);
    let index = (wear / 250) as usize;
    let (low, high) = (u64::from(rates[index]), u64::from(rates[index + 1]));
    let value = low + (high - low) * u64::from(wear % 250) / 250;
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ageing_rates_are_those_of_the_specification() {
        assert_eq!(failures_per_billion(0), 100);
        assert_eq!(failures_per_billion(1000), 100_000);
        assert_eq!(failures_per_billion(2000), 10_000_000);
        assert_eq!(failures_per_billion(u32::MAX), 10_000_000);
        assert_eq!(flips_per_tera_bits(0), 1000);
        assert!((2_000_000..2_300_000).contains(&flips_per_tera_bits(1000)));
    }

    #[test]
    fn a_numbered_fault_wins_over_chance() {
        let mut plan = FaultPlan::new(3).with(5, Fault::Fail);
        let always =
            Chance { on: Trigger::Program, per_billion: 1_000_000_000, fault: Fault::Lost };
        plan.chances.push(always);
        assert_eq!(plan.fault_at(5, Trigger::Program, 0), Some(Fault::Fail));
        assert_eq!(plan.fault_at(6, Trigger::Program, 0), Some(Fault::Lost));
        assert_eq!(plan.fault_at(6, Trigger::Erase, 0), None);
    }
}
