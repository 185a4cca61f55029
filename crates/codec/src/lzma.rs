//! Raw LZMA streams without a header, as OpenWrt's JFFS2 stores them (spec: jffs2 9.8).

use crate::CodecError;
#[cfg(feature = "lzma")]
use lzma_rust2::LzmaReader;
#[cfg(feature = "lzma")]
use std::io::Read;

/// The dictionary of OpenWrt's encoder in bytes.
#[cfg(feature = "lzma")]
const DICTIONARY: u32 = 8 << 10;

/// Decodes the stream `input` into `out`, which it must fill exactly. Ignores an end marker and the
/// bytes after it: OpenWrt writes none.
///
/// # Errors
///
/// Fails if the stream is invalid or ends before `out` is full, or if the crate was built without
/// the feature `lzma`.
#[cfg(not(feature = "lzma"))]
pub fn decompress(_: &[u8], _: &mut [u8]) -> Result<(), CodecError> {
    Err(CodecError::LeftOut { codec: "lzma" })
}

/// Decodes the stream `input` into `out`, which it must fill exactly. Ignores an end marker and the
/// bytes after it: OpenWrt writes none.
///
/// # Errors
///
/// Fails if the stream is invalid or ends before `out` is full, or if the crate was built without
/// the feature `lzma`.
#[cfg(feature = "lzma")]
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let stream = |problem| CodecError::Stream { codec: "lzma", problem };
    // No distance exceeds the output, so memory is bounded by the size that the caller requests.
    let dictionary = u32::try_from(out.len()).map_err(|_| stream("block too large"))?;
    let dictionary = dictionary.max(DICTIONARY);
    let size = u64::from(dictionary).min(out.len() as u64);
    // lc, lp and pb are all 0.
    let reader = LzmaReader::new(input, size, 0, 0, 0, dictionary, None);
    let mut reader = reader.map_err(|_| stream("the stream has no valid start"))?;
    reader.read_exact(out).map_err(|_| stream("the stream is invalid or too short"))
}

#[cfg(all(test, feature = "lzma"))]
mod tests {
    use super::*;

    /// `abcabcab` a hundred times, encoded by liblzma with OpenWrt's parameters.
    const STREAM: [u8; 20] = [
        0x00, 0x30, 0x99, 0xAB, 0xD7, 0xBD, 0xCE, 0x86, 0x3F, 0x5E, 0x6A, 0x2B, 0x6E, 0x15, 0x47,
        0xFF, 0xFE, 0x22, 0x58, 0x00,
    ];

    #[test]
    fn streams_of_another_encoder_are_read() {
        let block = b"abcabcab".repeat(100);
        let mut back = vec![0; block.len()];
        decompress(&STREAM, &mut back).unwrap();
        assert_eq!(back, block);
        // A match of the stream extends beyond the requested output.
        assert!(decompress(&STREAM, &mut back[..17]).is_err());
        assert!(decompress(&STREAM, &mut vec![0; 70_000]).is_err());
        assert!(decompress(&STREAM[..9], &mut back).is_err());
        for input in [&[][..], &[0], &[1; 40], &[0xFF; 40]] {
            assert!(decompress(input, &mut back).is_err(), "{input:?}");
        }
    }

    #[test]
    fn any_bytes_are_answered() {
        let mut out = vec![0; 4096];
        let mut state = 1_u64;
        for _ in 0..3000 {
            let mut input = STREAM;
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let [at, byte, ..] = state.rotate_right(40).to_le_bytes();
                input[usize::from(at) % STREAM.len()] = byte;
            }
            let _ = decompress(&input, &mut out);
        }
    }
}
