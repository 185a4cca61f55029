//! The configuration of a simulated chip: geometry, ECC, datasheet times, limits and rules.

use crate::parts::Part;
use eraseblock_base::{Geometry, GeometryError, MediumKind};
use eraseblock_mtd::oob::BadMarker;

/// The reaction to a client that breaks a rule of the chip (spec: mtd-nand 16.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Allow it, as hardware would.
    Off,
    /// Allow it and record it in [`crate::Chip::violations`].
    Report,
    /// Refuse it with [`eraseblock_mtd::MtdError::Rule`]; the chip does not change.
    Refuse,
}

/// One policy per rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Programming sub-pages again, or setting NOR bits from 0 to 1, without an erase.
    pub overwrite: Policy,
    /// More programs of one page than the part allows (NOP).
    pub partial_programs: Policy,
    /// Programming a page below one that is already programmed.
    pub page_order: Policy,
    /// Programming or erasing a block that is marked bad.
    pub bad_block: Policy,
    /// Programming a block whose erase was interrupted and not repeated.
    pub interrupted_erase: Policy,
    /// Reading a page whose program was interrupted.
    pub interrupted_read: Policy,
}

impl Rules {
    /// Refuses everything except reading interrupted pages, which recovery must do.
    pub const STRICT: Self = Self {
        overwrite: Policy::Refuse,
        partial_programs: Policy::Refuse,
        page_order: Policy::Refuse,
        bad_block: Policy::Refuse,
        interrupted_erase: Policy::Refuse,
        interrupted_read: Policy::Off,
    };

    /// Allows everything silently, as hardware does.
    pub const OFF: Self = Self {
        overwrite: Policy::Off,
        partial_programs: Policy::Off,
        page_order: Policy::Off,
        bad_block: Policy::Off,
        interrupted_erase: Policy::Off,
        interrupted_read: Policy::Off,
    };
}

/// Datasheet times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Array read of a page (tR); NOR: first access.
    pub read_ns: u32,
    /// Page or buffer program (tPROG).
    pub program_ns: u32,
    /// Block erase (tBERS).
    pub erase_ns: u32,
    /// One byte over the bus.
    pub bus_ns: u32,
}

/// Where bit errors are corrected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Correction {
    /// Not in the chip: reads deliver the raw cells, for software ECC, and for NOR.
    Raw,
    /// In the chip, ideally: a codeword with at most the part's number of wrong bits is corrected;
    /// with more it is reported uncorrectable and delivered uncorrected.
    Ideal,
}

/// The complete configuration of a simulated chip. Created from a part or a geometry, then adjusted
/// with the `with_` functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChipConfig {
    pub(crate) geometry: Geometry,
    pub(crate) part: Option<&'static str>,
    pub(crate) page: u32,
    pub(crate) correction: Correction,
    pub(crate) ecc_bits: u16,
    pub(crate) partial_programs: u8,
    pub(crate) ordered: bool,
    pub(crate) endurance: u32,
    pub(crate) timing: Timing,
    pub(crate) marker: BadMarker,
    pub(crate) rules: Rules,
}

impl ChipConfig {
    /// Returns the configuration of a part: geometry, ECC, limits and times; NAND corrects ideally.
    pub fn of_part(part: &Part) -> Self {
        let geometry = part.geometry();
        Self {
            geometry,
            part: Some(part.name),
            page: part.page,
            correction: default_correction(&geometry),
            ecc_bits: u16::from(part.ecc_bits),
            partial_programs: part.partial_programs,
            ordered: part.ordered,
            endurance: part.endurance,
            timing: Timing {
                read_ns: part.read_ns,
                program_ns: part.program_ns,
                erase_ns: part.erase_ns,
                bus_ns: part.bus_ns,
            },
            marker: BadMarker::usual(&geometry),
            rules: Rules::STRICT,
        }
    }

    /// Returns the configuration of a chip with this geometry and typical limits and times (spec:
    /// mtd-nand 12.1).
    ///
    /// # Errors
    ///
    /// Fails for NAND with more than 64 sub-pages per page.
    pub fn of_geometry(geometry: Geometry) -> Result<Self, GeometryError> {
        let nand = geometry.kind() == MediumKind::Nand;
        let small = geometry.min_io() <= 512;
        if nand && geometry.min_io() / geometry.subpage() > 64 {
            let found = u64::from(geometry.subpage());
            let expected = "at least a 64th of the page";
            return Err(GeometryError { field: "sub-page", found, expected });
        }
        let (read_ns, program_ns, erase_ns, bus_ns) = match (nand, small) {
            (true, true) => (12_000, 200_000, 2_000_000, 50),
            (true, false) => (25_000, 220_000, 1_500_000, 25),
            (false, _) => (300, 400_000, 150_000_000, 20),
        };
        let page = if nand { geometry.min_io() } else { nor_buffer(&geometry) };
        let geometry = geometry.with_write_buffer(page)?;
        let subpages = u8::try_from(geometry.min_io() / geometry.subpage()).unwrap_or(64);
        Ok(Self {
            geometry,
            part: None,
            page,
            correction: default_correction(&geometry),
            ecc_bits: if nand { 4 } else { 0 },
            partial_programs: if nand { subpages.max(4) } else { 0 },
            ordered: nand && !small,
            endurance: 100_000,
            timing: Timing { read_ns, program_ns, erase_ns, bus_ns },
            marker: BadMarker::usual(&geometry),
            rules: Rules::STRICT,
        })
    }

    /// Sets the program buffer of a NOR in bytes: a power of two that divides the eraseblock. NAND
    /// has no buffer other than its page.
    ///
    /// # Errors
    ///
    /// Fails for any other size.
    pub fn with_buffer(mut self, bytes: u32) -> Result<Self, GeometryError> {
        self.geometry = self.geometry.with_write_buffer(bytes)?;
        if self.is_nand() && bytes != self.page {
            let (field, expected) = ("write-buffer", "the page");
            return Err(GeometryError { field, found: u64::from(bytes), expected });
        }
        self.page = bytes;
        Ok(self)
    }

    /// Turns off correction: reads deliver the raw cells, for software ECC.
    #[must_use]
    pub fn with_raw_reads(mut self) -> Self {
        self.correction = Correction::Raw;
        self
    }

    /// Sets the number of bits that the chip corrects in a codeword. No effect on NOR.
    #[must_use]
    pub fn with_ecc_bits(mut self, bits: u16) -> Self {
        if self.geometry.kind() == MediumKind::Nand {
            self.ecc_bits = bits;
        }
        self
    }

    /// Sets the enforced rules.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the program/erase cycles that a block endures, for wear-out faults.
    #[must_use]
    pub fn with_endurance(mut self, cycles: u32) -> Self {
        self.endurance = cycles.max(1);
        self
    }

    /// Returns the program/erase cycles that a block endures.
    pub fn endurance(&self) -> u32 {
        self.endurance
    }

    /// Sets the number of programs of a page between erases; 0 removes the limit.
    #[must_use]
    pub fn with_partial_programs(mut self, limit: u8) -> Self {
        self.partial_programs = limit;
        self
    }

    /// Sets whether pages must be programmed in ascending order.
    #[must_use]
    pub fn with_page_order(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Sets the position of bad-block markers.
    #[must_use]
    pub fn with_marker(mut self, marker: BadMarker) -> Self {
        self.marker = marker;
        self
    }

    /// Returns the geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the part's name if the configuration was created from a part.
    pub fn part(&self) -> Option<&'static str> {
        self.part
    }

    /// Returns the number of bytes programmed by one event: the page of a NAND, the program buffer
    /// of a NOR.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Returns the number of bits correctable in a codeword of [`Self::ecc_step`] bytes (0 on NOR).
    pub fn ecc_bits(&self) -> u16 {
        self.ecc_bits
    }

    /// Returns the number of bytes in a codeword: 512, fewer on smaller pages, more on pages that
    /// would otherwise have more than 64 codewords.
    pub fn ecc_step(&self) -> u32 {
        512.max(self.page / 64).min(self.page)
    }

    /// Returns the times.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    pub(crate) fn corrects(&self) -> bool {
        self.correction == Correction::Ideal
    }

    pub(crate) fn oob(&self) -> u32 {
        self.geometry.oob_size()
    }

    /// Returns the number of bytes of a page with its out-of-band bytes.
    pub(crate) fn stride(&self) -> usize {
        (self.page + self.oob()) as usize
    }

    pub(crate) fn pages_per_peb(&self) -> u32 {
        self.geometry.peb_size() / self.page
    }

    pub(crate) fn is_nand(&self) -> bool {
        self.geometry.kind() == MediumKind::Nand
    }
}

fn default_correction(geometry: &Geometry) -> Correction {
    match geometry.kind() {
        MediumKind::Nand => Correction::Ideal,
        MediumKind::Nor => Correction::Raw,
    }
}

/// Returns the largest power of two up to 256 bytes that divides the eraseblock, and at least one
/// unit.
fn nor_buffer(geometry: &Geometry) -> u32 {
    let divisor = 1 << geometry.peb_size().trailing_zeros();
    divisor.min(256).max(geometry.min_io())
}
