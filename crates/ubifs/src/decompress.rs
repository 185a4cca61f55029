//! Decompression of one block.

use eraseblock_ubifs_format::Compression;

/// Decompresses `input` to exactly `out.len()` bytes.
pub(crate) fn decompress(
    compression: Compression,
    input: &[u8],
    out: &mut [u8],
) -> Result<(), String> {
    let exact = |found: usize, expected: usize| {
        if found == expected {
            return Ok(());
        }
        Err(format!("decompresses to {found} bytes, expected {expected}"))
    };
    let expected = out.len();
    match compression {
        Compression::None => {
            exact(input.len(), expected)?;
            out.copy_from_slice(input);
            Ok(())
        }
        Compression::Lzo => {
            let found =
                lzallright::decompress(input, out).map_err(|error| format!("lzo: {error:?}"))?;
            exact(found, expected)
        }
        Compression::Zlib => {
            let found = libdeflater::Decompressor::new()
                .deflate_decompress(input, out)
                .map_err(|error| format!("zlib: {error}"))?;
            exact(found, expected)
        }
        Compression::Zstd => {
            let found = zstd::bulk::decompress_to_buffer(input, out)
                .map_err(|error| format!("zstd: {error}"))?;
            exact(found, expected)
        }
    }
}
