//! The byte order of formats that leave it to their writer.

use core::fmt;

/// The byte order of an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ByteOrder {
    /// Lowest byte first.
    #[default]
    Little,
    /// Highest byte first.
    Big,
}

impl ByteOrder {
    /// Both, the more frequent one first.
    pub const ALL: [Self; 2] = [Self::Little, Self::Big];

    /// Returns the 16 bits at `offset`, 0 beyond the end.
    pub fn u16_at(self, bytes: &[u8], offset: usize) -> u16 {
        let word = bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(word),
            Self::Big => u16::from_be_bytes(word),
        }
    }

    /// Returns the 32 bits at `offset`, 0 beyond the end.
    pub fn u32_at(self, bytes: &[u8], offset: usize) -> u32 {
        let word = bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }

    /// Returns the 64 bits at `offset`, 0 beyond the end.
    pub fn u64_at(self, bytes: &[u8], offset: usize) -> u64 {
        let word = bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u64::from_le_bytes(word),
            Self::Big => u64::from_be_bytes(word),
        }
    }

    /// Returns a 16-bit value as stored.
    pub const fn u16_bytes(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns a 32-bit value as stored.
    pub const fn u32_bytes(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Little => "little-endian",
            Self::Big => "big-endian",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_stored() {
        for order in ByteOrder::ALL {
            assert_eq!(order.u32_at(&order.u32_bytes(0x1234_5678), 0), 0x1234_5678);
            assert_eq!(order.u16_at(&order.u16_bytes(0x1234), 0), 0x1234);
            assert_eq!((order.u32_at(&[1, 2, 3], 0), order.u16_at(&[], 7)), (0, 0));
        }
        assert_eq!(ByteOrder::Big.u16_at(&[0, 1, 2], 1), 0x0102);
        assert_eq!(ByteOrder::Little.u16_at(&[0, 1, 2], 1), 0x0201);
    }
}
