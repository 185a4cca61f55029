//! Lzo streams: decompression fills the buffer or fails, and never leaves it.
#![no_main]

use eraseblock_codec::Codec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| eraseblock_fuzz::decompress(Codec::Lzo, data));
