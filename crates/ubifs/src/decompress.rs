//! Decompression of one block.

use eraseblock_ubifs_format::Compression;
use std::cell::RefCell;

thread_local! {
    // Both take longer to make than to use for one block.
    static DEFLATE: RefCell<libdeflater::Decompressor> =
        RefCell::new(libdeflater::Decompressor::new());
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        RefCell::new(zstd::bulk::Decompressor::new().ok());
}

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
            let found = DEFLATE
                .with_borrow_mut(|deflate| deflate.deflate_decompress(input, out))
                .map_err(|error| format!("zlib: {error}"))?;
            exact(found, expected)
        }
        Compression::Zstd => ZSTD.with_borrow_mut(|zstd| {
            let zstd = zstd.as_mut().ok_or("zstd: no memory for a context")?;
            let found =
                zstd.decompress_to_buffer(input, out).map_err(|error| format!("zstd: {error}"))?;
            exact(found, expected)
        }),
    }
}
