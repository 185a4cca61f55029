//! The checksums of flash formats.
//!
//! UBI and UBIFS use the reflected CRC-32 polynomial with initial value 0xFFFF_FFFF and no final
//! inversion ("CRC-32/JAMCRC"; spec: ubi 3, ubifs-format 3.2). JFFS2 uses the same polynomial with
//! initial value 0 and no inversion (spec: jffs2). The LPT of UBIFS uses CRC-16/MODBUS
//! (spec: ubifs-format 11.2).

/// Returns the CRC-32 that UBI and UBIFS store.
pub fn crc32(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

/// Continues a CRC-32 as computed by [`crc32`] with more bytes; start with `0xFFFF_FFFF`.
pub fn crc32_continue(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!crc);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Returns the CRC-16/MODBUS that the LPT of UBIFS stores.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        let index = usize::from((crc ^ u16::from(*byte)) & 0xFF);
        (crc >> 8) ^ CRC16_TABLE[index]
    })
}

const CRC16_TABLE: [u16; 256] = crc16_table();

const fn crc16_table() -> [u16; 256] {
    let mut table = [0_u16; 256];
    let mut index: u16 = 0;
    while index < 256 {
        let mut crc = index;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xA001 } else { crc >> 1 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_vectors_of_the_specification() {
        assert_eq!(crc32(b""), 0xFFFF_FFFF);
        assert_eq!(crc32(b"123456789"), 0x340B_C6D9);
        assert_eq!(crc32(&[0]), 0x2DFD_1072);
        assert_eq!(crc32(&[0xFF; 4]), 0);
        assert_eq!(crc32(&[0; 60]), 0xFBED_76F7);
        assert_eq!(crc32(&[0; 168]), 0xF116_C36B);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(crc32(&all), 0xD6FA_738C);
    }

    #[test]
    fn a_crc32_can_be_continued() {
        let crc = crc32_continue(0xFFFF_FFFF, b"1234");
        assert_eq!(crc32_continue(crc, b"56789"), crc32(b"123456789"));
    }

    #[test]
    fn crc16_vectors_of_the_specification() {
        assert_eq!(crc16(b""), 0xFFFF);
        assert_eq!(crc16(b"123456789"), 0x4B37);
    }
}
