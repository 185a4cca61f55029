//! The result of reading a header (spec: ubi 8.2).

use crate::decode::{
    HEADER_BYTES, check_ec_offsets, decode_ec, decode_vid, salvage_ec, salvage_vid,
};
use crate::error::FormatError;
use crate::layout::HeaderLayout;
use crate::types::{EcHeader, VidHeader};
use eraseblock_base::Location;
use eraseblock_base::align::is_erased;

/// The quality of a read, as reported by the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadQuality {
    /// Nothing to report.
    Clean,
    /// Bit flips were corrected, at least as many as the threshold.
    Bitflips,
    /// ECC failed; the bytes are the raw content of the cells.
    Uncorrectable,
}

/// The state of a header after reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderState<T> {
    /// A good header, read without errors.
    Ok(T),
    /// A good header, but the read had bit flips or worse: the block must be moved.
    Bitflips(T),
    /// Erased flash.
    Erased,
    /// Erased flash, read with bit flips.
    ErasedBitflips,
    /// Not a header.
    Bad,
    /// Not a header, and the read was uncorrectable.
    BadUncorrectable,
    /// Magic and checksum are right, but the contents break a rule: Linux refuses the device.
    Illegal {
        /// The rule.
        error: FormatError,
        /// The usable part of the header.
        salvage: Option<T>,
        /// Whether the read had no errors.
        clean: bool,
    },
}

impl<T> HeaderState<T> {
    /// Returns whether the state is one of the two bad ones.
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Bad | Self::BadUncorrectable)
    }

    /// Returns the header if there is one, including a header with illegal contents.
    pub fn usable(self) -> Option<T> {
        match self {
            Self::Ok(header) | Self::Bitflips(header) => Some(header),
            Self::Illegal { salvage, .. } => salvage,
            _ => None,
        }
    }
}

/// Classifies the first 64 of the bytes read at the start of an eraseblock.
pub fn classify_ec(
    bytes: &[u8],
    quality: ReadQuality,
    layout: &HeaderLayout,
    at: Location,
) -> HeaderState<EcHeader> {
    let decoded = decode_ec(bytes, at)
        .and_then(|header| check_ec_offsets(&header, layout, at).map(|()| header));
    classify(bytes, quality, decoded, || salvage_ec(bytes))
}

/// Classifies the first 64 of the bytes read at the offset of the volume identifier header.
pub fn classify_vid(
    bytes: &[u8],
    quality: ReadQuality,
    layout: &HeaderLayout,
    at: Location,
) -> HeaderState<VidHeader> {
    classify(bytes, quality, decode_vid(bytes, layout, at), || salvage_vid(bytes, layout))
}

fn classify<T>(
    bytes: &[u8],
    quality: ReadQuality,
    decoded: Result<T, FormatError>,
    salvage: impl FnOnce() -> Option<T>,
) -> HeaderState<T> {
    let clean = quality == ReadQuality::Clean;
    let bytes = bytes.get(..HEADER_BYTES).unwrap_or(bytes);
    match decoded {
        Ok(header) if clean => HeaderState::Ok(header),
        Ok(header) => HeaderState::Bitflips(header),
        Err(FormatError::Crc { .. }) if clean => HeaderState::Bad,
        Err(FormatError::Crc { .. }) => HeaderState::BadUncorrectable,
        Err(error @ FormatError::Field { .. }) => {
            HeaderState::Illegal { error, salvage: salvage(), clean }
        }
        Err(_) if quality == ReadQuality::Uncorrectable => HeaderState::BadUncorrectable,
        Err(_) if !is_erased(bytes) => HeaderState::Bad,
        Err(_) if clean => HeaderState::Erased,
        Err(_) => HeaderState::ErasedBitflips,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::encode_ec;
    use crate::types::EraseCount;

    use ReadQuality::*;

    #[test]
    fn every_row_of_the_classification() {
        let layout = HeaderLayout::new(131_072, 2048, 512, None).unwrap();
        let header = EcHeader {
            erase_count: EraseCount::new(7).unwrap(),
            vid_hdr_offset: 512,
            data_offset: 2048,
            image_seq: 1,
            end_mark: false,
        };
        let good = encode_ec(&header);
        let mut torn = good;
        torn[20] ^= 1;
        let illegal = encode_ec(&EcHeader { data_offset: 4096, ..header });
        let state = |bytes: &[u8], quality| classify_ec(bytes, quality, &layout, Location::Whole);
        assert_eq!(state(&good, Clean), HeaderState::Ok(header));
        assert_eq!(state(&good, Bitflips), HeaderState::Bitflips(header));
        assert_eq!(state(&good, Uncorrectable), HeaderState::Bitflips(header));
        assert_eq!(state(&torn, Clean), HeaderState::Bad);
        assert_eq!(state(&torn, Bitflips), HeaderState::BadUncorrectable);
        assert_eq!(state(&torn, Uncorrectable), HeaderState::BadUncorrectable);
        assert_eq!(state(&[0xFF; 64], Clean), HeaderState::Erased);
        assert_eq!(state(&[0xFF; 64], Bitflips), HeaderState::ErasedBitflips);
        assert_eq!(state(&[0xFF; 64], Uncorrectable), HeaderState::BadUncorrectable);
        assert_eq!(state(&[0; 64], Clean), HeaderState::Bad);
        assert_eq!(state(&[0; 64], Bitflips), HeaderState::Bad);
        assert_eq!(state(&[0; 64], Uncorrectable), HeaderState::BadUncorrectable);
        assert!(matches!(state(&illegal, Clean), HeaderState::Illegal { salvage: Some(_), .. }));
        assert_eq!(state(&good[..63], Clean), HeaderState::Bad);
    }
}
