//! Checksum and device numbers.

use alloc::vec::Vec;
use eraseblock_base::ByteOrder;
use eraseblock_base::crc::crc32_continue;

/// Returns the CRC used by JFFS2: initial value 0, no inversion (spec: jffs2 3).
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32_continue(0, bytes)
}

/// Returns the device number in the payload of a device node, 2 or 4 bytes (spec: jffs2 6).
pub fn device(order: ByteOrder, payload: &[u8]) -> Option<(u32, u32)> {
    match payload.len() {
        2 => {
            let word = u32::from(order.u16_at(payload, 0));
            Some((word >> 8, word & 0xFF))
        }
        4 => {
            let word = order.u32_at(payload, 0);
            Some(((word >> 8) & 0xFFF, (word & 0xFF) | ((word >> 12) & 0xF_FF00)))
        }
        _ => None,
    }
}

/// Returns the payload of a device node: 2 bytes if possible, otherwise 4; `None` for numbers
/// beyond 12 bits of major and 20 bits of minor.
pub fn device_bytes(order: ByteOrder, major: u32, minor: u32) -> Option<Vec<u8>> {
    match (major, minor) {
        (0..=0xFF, 0..=0xFF) => Some(order.u16_bytes((major << 8 | minor) as u16).to_vec()),
        (0..=0xFFF, 0..=0xF_FFFF) => {
            let word = (minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12);
            Some(order.u32_bytes(word).to_vec())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_the_specification() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(&[0; 77]), 0);
        assert_eq!(crc32(b"123456789"), 0x2DFD_2D88);
        assert_eq!(crc32(b"a"), 0x3AB5_51CE);
        assert_eq!(crc32(b"hello world\n"), 0xD4DD_FD42);
        assert_eq!(crc32(&[0x85, 0x19, 3, 0x20, 12, 0, 0, 0]), 0xE41E_B0B1);
        assert_eq!(crc32(&[0x85, 0x19, 3, 0x20, 8, 0, 0, 0]), 0x6B7C_27E6);
    }

    #[test]
    fn device_numbers_of_the_specification() {
        let order = ByteOrder::Little;
        assert_eq!(device_bytes(order, 300, 70_000).unwrap(), [0x70, 0x2C, 0x11, 0x11]);
        assert_eq!(device_bytes(order, 1, 3).unwrap(), [3, 1]);
        for order in ByteOrder::ALL {
            for (major, minor) in [(0, 0), (255, 255), (256, 0), (1, 256), (4095, 0xF_FFFF)] {
                let bytes = device_bytes(order, major, minor).unwrap();
                assert_eq!(device(order, &bytes), Some((major, minor)));
            }
            assert_eq!(device_bytes(order, 4096, 0), None);
            assert_eq!(device(order, &[1, 2, 3]), None);
        }
    }
}
