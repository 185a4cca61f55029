//! A raw chip with software ECC.

use super::{Bch, BchError, Hamming};
use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::forward;
use crate::oob::{LayoutError, OobLayout};
use eraseblock_base::align::is_erased;
use eraseblock_base::{Geometry, GeometryError};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The code that protects the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EccScheme {
    /// Linux's default: 1 bit in 256 bytes.
    Hamming,
    /// BCH over steps of 512 or 1024 bytes.
    Bch {
        /// Bytes per step.
        step: usize,
        /// Correctable bits per step, 1 to 16.
        strength: u16,
    },
}

/// A code that cannot protect a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EccError {
    /// The code itself is impossible.
    Code(BchError),
    /// Its ECC bytes do not fit.
    Layout(LayoutError),
    /// The page is not a whole number of steps.
    Geometry(GeometryError),
}

impl fmt::Display for EccError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(error) => fmt::Display::fmt(error, f),
            Self::Layout(error) => fmt::Display::fmt(error, f),
            Self::Geometry(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for EccError {}

impl From<BchError> for EccError {
    fn from(error: BchError) -> Self {
        Self::Code(error)
    }
}

impl From<LayoutError> for EccError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl From<GeometryError> for EccError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

#[derive(Debug)]
enum Code {
    Hamming(Hamming),
    Bch(Box<Bch>),
}

/// A device that stores ECC in the out-of-band bytes of a raw chip and corrects errors on reading.
///
/// Out-of-band bytes given to [`Mtd::program_with_oob`] keep their positions, except those that ECC
/// bytes occupy. Out-of-band reads are not protected.
#[derive(Debug)]
pub struct EccMtd {
    inner: Arc<dyn Mtd>,
    geometry: Geometry,
    code: Code,
    step: usize,
    layout: OobLayout,
}

impl EccMtd {
    /// Applies a code to a raw chip.
    ///
    /// # Errors
    ///
    /// Fails if the code is not supported, if its bytes do not fit into the out-of-band area, or if
    /// the page is not a whole number of steps.
    pub fn new(inner: Arc<dyn Mtd>, scheme: EccScheme) -> Result<Self, EccError> {
        let raw = *inner.geometry();
        let (code, step, bytes) = match scheme {
            EccScheme::Hamming => {
                let code = Hamming::new(256).expect("256 is a step of the Hamming code");
                (Code::Hamming(code), 256_u32, Hamming::ECC_BYTES)
            }
            EccScheme::Bch { step, strength } => {
                let code = Bch::new(step, strength)?;
                let bytes = code.ecc_bytes();
                (Code::Bch(Box::new(code)), if step == 512 { 512 } else { 1024 }, bytes)
            }
        };
        if !raw.min_io().is_multiple_of(step) {
            let (field, found) = ("page", u64::from(raw.min_io()));
            let expected = "a multiple of the ECC step";
            return Err(GeometryError { field, found, expected }.into());
        }
        let steps = raw.min_io() / step;
        let layout = match code {
            Code::Hamming(_) => OobLayout::hamming(raw.oob_size(), steps)?,
            Code::Bch(_) => {
                let total = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_mul(steps);
                OobLayout::at_end(raw.oob_size(), total)?
            }
        };
        // A part of a step cannot be programmed alone.
        let subpage = raw.subpage().max(step);
        let geometry = Geometry::new(
            raw.kind(),
            raw.peb_size(),
            raw.peb_count(),
            raw.min_io(),
            subpage,
            raw.oob_size(),
        )?;
        Ok(Self { inner, geometry, code, step: step as usize, layout })
    }

    /// Returns the positions of the ECC and the free bytes.
    pub fn layout(&self) -> &OobLayout {
        &self.layout
    }

    /// Returns the number of correctable bits per step.
    pub fn strength(&self) -> u16 {
        match &self.code {
            Code::Hamming(_) => 1,
            Code::Bch(code) => code.strength(),
        }
    }

    fn ecc_bytes(&self) -> usize {
        match &self.code {
            Code::Hamming(_) => Hamming::ECC_BYTES,
            Code::Bch(code) => code.ecc_bytes(),
        }
    }

    /// Corrects one step in place.
    fn correct(&self, data: &mut [u8], ecc: &[u8]) -> ReadOutcome {
        if is_erased(data) && is_erased(ecc) {
            return ReadOutcome::CLEAN;
        }
        let corrected = match &self.code {
            Code::Hamming(code) => code.correct(data, ecc),
            Code::Bch(code) => code.correct(data, ecc),
        };
        match corrected {
            Some(corrected_bits) => ReadOutcome { corrected_bits, uncorrectable: false },
            None => ReadOutcome { corrected_bits: 0, uncorrectable: true },
        }
    }

    /// Stores the ECC of whole steps of one page, starting with step `first`, in `oob`.
    fn protect(&self, first: usize, data: &[u8], oob: &mut [u8]) {
        let count = self.ecc_bytes();
        let mut ecc = vec![0xFF; count];
        for (index, step) in (first..).zip(data.chunks_exact(self.step)) {
            match &self.code {
                Code::Hamming(code) => ecc.copy_from_slice(&code.encode(step)),
                Code::Bch(code) => code.encode(step, &mut ecc),
            }
            let places = self.layout.ecc_positions().iter().skip(index * count);
            for (place, byte) in places.zip(&ecc) {
                oob[*place as usize] = *byte;
            }
        }
    }

    /// Reads `buf` from one page, in whole steps.
    fn read_in_page(
        &self,
        addr: u64,
        buf: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        let page_size = u64::from(self.geometry.min_io());
        let column = usize::try_from(addr % page_size).unwrap_or(0);
        let first = column / self.step;
        let end = (column + buf.len()).div_ceil(self.step);
        let mut data = vec![0; (end - first) * self.step];
        let start = addr - (column - first * self.step) as u64;
        let mut outcome = self.inner.read_with_oob(start, &mut data, oob)?;
        let count = self.ecc_bytes();
        for (index, step) in (first..end).zip(data.chunks_exact_mut(self.step)) {
            let places = self.layout.ecc_positions().iter().skip(index * count).take(count);
            let ecc: Vec<u8> = places.map(|place| oob[*place as usize]).collect();
            outcome = outcome.merge(self.correct(step, &ecc));
        }
        let skip = column - first * self.step;
        buf.copy_from_slice(&data[skip..skip + buf.len()]);
        Ok(outcome)
    }

    fn check_program(&self, addr: u64, len: usize) -> Result<(), MtdError> {
        let unit = u64::from(self.geometry.subpage());
        let len = len as u64;
        let inside = addr.checked_add(len).is_some_and(|end| end <= self.geometry.size());
        if inside && addr.is_multiple_of(unit) && len.is_multiple_of(unit) {
            return Ok(());
        }
        let at = eraseblock_base::Location::Byte(addr);
        let expected = "whole programming units inside the device";
        Err(MtdError::Range { at, operation: "program", len, expected })
    }

    /// Splits a range into pieces of one page each, as address and length.
    fn pieces(&self, addr: u64, len: usize) -> impl Iterator<Item = (u64, usize)> + use<> {
        let page_size = u64::from(self.geometry.min_io());
        let (mut at, mut rest) = (addr, len as u64);
        std::iter::from_fn(move || {
            let piece = (page_size - at % page_size).min(rest);
            let start = at;
            (at, rest) = (at + piece, rest - piece);
            (piece > 0).then(|| (start, usize::try_from(piece).unwrap_or(0)))
        })
    }
}

impl Mtd for EccMtd {
    forward!(erase, is_bad, mark_bad, sync, oob);

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        if addr.checked_add(buf.len() as u64).is_none_or(|end| end > self.geometry.size()) {
            return self.inner.read(addr, buf);
        }
        let mut oob = vec![0xFF; self.geometry.oob_size() as usize];
        let mut outcome = ReadOutcome::CLEAN;
        let mut rest = buf;
        for (at, len) in self.pieces(addr, rest.len()) {
            let (piece, tail) = rest.split_at_mut(len);
            outcome = outcome.merge(self.read_in_page(at, piece, &mut oob)?);
            rest = tail;
        }
        Ok(outcome)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.check_program(addr, data.len())?;
        let mut rest = data;
        for (at, len) in self.pieces(addr, data.len()) {
            let (piece, tail) = rest.split_at(len);
            self.program_with_oob(at, piece, &[])?;
            rest = tail;
        }
        Ok(())
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.check_program(addr, data.len())?;
        let page_size = u64::from(self.geometry.min_io());
        let mut bytes = vec![0xFF; self.geometry.oob_size() as usize];
        if oob.len() > bytes.len() {
            return self.inner.program_with_oob(addr, data, oob);
        }
        bytes[..oob.len()].copy_from_slice(oob);
        let first = usize::try_from(addr % page_size).unwrap_or(0) / self.step;
        self.protect(first, data, &mut bytes);
        self.inner.program_with_oob(addr, data, &bytes)
    }
}
