//! Round trips of every codec and level, and the inputs that each one refuses.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

use crate::{
    Codec, CodecError, CompressSpec, Compressor, Decompressor, MAX_BLOCK, decompress, favor_lzo,
};
use eraseblock_base::ErrorClass;
use proptest::prelude::*;
use std::cell::RefCell;

mod inflate;

const SPECS: [CompressSpec; 10] = [
    CompressSpec::image(Codec::None),
    CompressSpec::runtime(Codec::Lzo),
    CompressSpec::image(Codec::Lzo),
    CompressSpec { codec: Codec::Lzo, level: 9 },
    CompressSpec { codec: Codec::Zlib, level: 1 },
    CompressSpec::image(Codec::Zlib),
    CompressSpec { codec: Codec::Zlib, level: 9 },
    CompressSpec { codec: Codec::Zstd, level: 1 },
    CompressSpec::image(Codec::Zstd),
    CompressSpec { codec: Codec::Zstd, level: 9 },
];

fn compressed(spec: CompressSpec, block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new(spec).unwrap().compress(block, &mut out).unwrap();
    out
}

/// Hexadecimal digits as bytes; anything else between them is skipped.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Bytes without any pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9ABC_DEF1_u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(step).collect()
}

/// Noise that repeats with `period`, and not at shorter distances.
fn periodic(len: usize, period: usize) -> Vec<u8> {
    noise(period).into_iter().cycle().take(len).collect()
}

/// Compresses and decompresses with every codec and level.
fn round_trips(block: &[u8]) {
    thread_local! {
        static COMPRESSORS: RefCell<Vec<Compressor>> =
            RefCell::new(SPECS.map(|spec| Compressor::new(spec).unwrap()).into());
    }
    let mut packed = Vec::new();
    COMPRESSORS.with_borrow_mut(|compressors| {
        for compressor in compressors {
            let spec = compressor.spec();
            compressor.compress(block, &mut packed).unwrap();
            let mut back = vec![0xAA; block.len()];
            assert_eq!(decompress(spec.codec, &packed, &mut back), Ok(()), "{spec:?}");
            assert!(back == block, "{spec:?} of {} bytes", block.len());
        }
    });
}

#[test]
fn round_trips_of_plain_and_odd_blocks() {
    for len in (0..=40).chain([127, 128, 255, 256, 274, 529, 4095, 4096]) {
        round_trips(&vec![0; len]);
        round_trips(&noise(len));
        round_trips(&periodic(len, 3));
        round_trips(&periodic(len, 19));
    }
    for period in [1023, 1024, 1025, 2047, 2048, 2049, 3073] {
        round_trips(&periodic(4096, period));
    }
    for len in [16384 + 40, 20000, MAX_BLOCK] {
        round_trips(&noise(len));
        round_trips(&vec![7; len]);
        round_trips(&periodic(len, 16384));
        round_trips(&periodic(len, 16385));
    }
}

/// The bytes after a match at the very end, and matches that would extend beyond it.
#[test]
fn round_trips_where_the_block_ends_in_zeros() {
    for zeros in 0..20 {
        for gap in 0..20 {
            let mut block = vec![0; 40];
            block.extend(noise(gap));
            block.resize(40 + gap + zeros, 0);
            round_trips(&block);
        }
    }
}

#[test]
fn zstd_vectors_of_the_specification() {
    let spec = CompressSpec::image(Codec::Zstd);
    let zeros = "28b52ffd60000f4d00001041410100fbf70116";
    assert_eq!(compressed(spec, &[b'A'; 4096]), bytes(zeros));
    let hello = "28b52ffd20c06d00003068656c6c6f200100b750a508";
    assert_eq!(compressed(spec, &b"hello ".repeat(32)), bytes(hello));
}

#[test]
fn deflate_vectors_of_the_specification() {
    let many = "edc1010d000000c2a06cef5fca1e0e28000000e0dd00";
    let hello = "cb48cdc9c957c818b22400";
    for (vector, data) in [(many, vec![b'A'; 4096]), (hello, b"hello ".repeat(32))] {
        let mut out = vec![0; data.len()];
        decompress(Codec::Zlib, &bytes(vector), &mut out).unwrap();
        assert_eq!(out, data);
    }
}

#[test]
fn deflate_distances_stay_within_2048() {
    for period in [1500, 1786, 1787, 2048, 2049, 2500, 3000, 4000] {
        let block = periodic(4096, period);
        for level in 1..=9 {
            let stream = compressed(CompressSpec { codec: Codec::Zlib, level }, &block);
            let farthest = inflate::farthest(&stream);
            assert!(farthest <= 2048, "level {level}, period {period}: {farthest}");
        }
    }
    // The check itself recognises a stream with larger distances.
    let mut wide = flate2::Compress::new(flate2::Compression::new(6), false);
    let mut stream = Vec::with_capacity(8192);
    wide.compress_vec(&periodic(4096, 2500), &mut stream, flate2::FlushCompress::Finish).unwrap();
    assert!(stream.len() < 3000);
    assert_eq!(inflate::farthest(&stream), 2500);
}

#[test]
fn what_is_refused() {
    let mut out = [0; 8];
    assert_eq!(
        decompress(Codec::None, &[1; 7], &mut out),
        Err(CodecError::StoredLength { found: 7, expected: 8 })
    );
    for codec in [Codec::Lzo, Codec::Zlib, Codec::Zstd] {
        let garbage = decompress(codec, &[0xFF; 40], &mut out).unwrap_err();
        assert_eq!(garbage.class(), ErrorClass::Corruption);
        let stream = compressed(CompressSpec::image(codec), &[5; 100]);
        decompress(codec, &stream, &mut [0; 100]).unwrap();
        assert!(decompress(codec, &stream, &mut [0; 99]).is_err(), "{codec:?}");
        assert!(decompress(codec, &stream, &mut [0; 101]).is_err(), "{codec:?}");
        assert!(decompress(codec, &stream[..stream.len() - 1], &mut [0; 100]).is_err());
        assert!(decompress(codec, &[], &mut out).is_err());
    }
    for (codec, level) in
        [(Codec::None, 1), (Codec::Lzo, 0), (Codec::Lzo, 10), (Codec::Zlib, 0), (Codec::Zstd, 23)]
    {
        let error = Compressor::new(CompressSpec { codec, level }).unwrap_err();
        assert!(matches!(error, CodecError::Level { found, .. } if found == level));
        assert_eq!(error.class(), ErrorClass::Caller);
    }
    let mut compressor = Compressor::new(CompressSpec::image(Codec::Lzo)).unwrap();
    let large = vec![0; MAX_BLOCK + 1];
    let error = compressor.compress(&large, &mut Vec::new()).unwrap_err();
    assert_eq!(error, CodecError::BlockTooLarge { found: MAX_BLOCK + 1, limit: MAX_BLOCK });
}

#[test]
fn lzo_is_favored_until_zlib_saves_enough() {
    assert!(favor_lzo(1000, 801, 20));
    assert!(!favor_lzo(1000, 800, 20));
    assert!(!favor_lzo(1000, 1000, 0));
    assert!(favor_lzo(1000, 1001, 0));
    assert!(favor_lzo(1000, 1, 200));
}

fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let few = prop::collection::vec(prop::sample::select(b"ab \0".to_vec()), 0..600);
    let any = prop::collection::vec(any::<u8>(), 0..300);
    let copies = (any.clone(), prop::collection::vec((0_usize..4000, 1_usize..80), 0..60));
    let copies = copies.prop_map(|(mut block, copies)| {
        for (back, len) in copies {
            let from = block.len().saturating_sub(back);
            for at in from..from + len {
                block.push(block.get(at).copied().unwrap_or(at as u8));
            }
        }
        block.truncate(4096);
        block
    });
    prop_oneof![few, any, copies]
}

/// The tables of the dense encoders are cleared once in several blocks. This test uses more blocks
/// than their positions can count, all similar and none identical.
#[test]
fn many_blocks_before_do_not_matter() {
    // Two of the four bytes between phrases are worth a match wherever they occurred before. For
    // most pairs, the last occurrence is more blocks ago than the positions can count.
    let letters: Vec<u8> =
        noise(100_000).chunks(4).flat_map(|four| [&b"a phrase"[..], four].concat()).collect();
    for spec in SPECS {
        let mut compressor = Compressor::new(spec).unwrap();
        let mut out = Vec::new();
        for (number, block) in letters.chunks(4093).enumerate() {
            compressor.compress(block, &mut out).unwrap();
            assert_eq!(out, compressed(spec, block), "{spec:?}, block {number}");
        }
        for block in [&letters[..MAX_BLOCK], &letters[MAX_BLOCK..][..MAX_BLOCK], &letters[..1]] {
            compressor.compress(block, &mut out).unwrap();
            assert_eq!(out, compressed(spec, block), "{spec:?}, {} bytes", block.len());
        }
    }
}

proptest! {
    #[test]
    fn round_trips_of_any_block(block in blocks()) {
        round_trips(&block);
    }

    #[test]
    fn blocks_before_do_not_matter(first in blocks(), second in blocks()) {
        for spec in SPECS {
            let mut compressor = Compressor::new(spec).unwrap();
            let mut out = Vec::new();
            compressor.compress(&first, &mut out).unwrap();
            compressor.compress(&second, &mut out).unwrap();
            prop_assert_eq!(&out, &compressed(spec, &second), "{:?}", spec);
        }
    }

    #[test]
    fn broken_streams_never_panic(stream in prop::collection::vec(any::<u8>(), 0..200), len in 0_usize..300) {
        let mut decompressor = Decompressor::new();
        for codec in [Codec::None, Codec::Lzo, Codec::Zlib, Codec::Zstd] {
            let _ = decompressor.decompress(codec, &stream, &mut vec![0; len]);
        }
    }

    #[test]
    fn damaged_streams_never_panic(block in blocks(), at in any::<prop::sample::Index>(), bit in 0..8) {
        for spec in SPECS {
            let mut stream = compressed(spec, &block);
            if stream.is_empty() {
                continue;
            }
            let place = at.index(stream.len());
            stream[place] ^= 1_u8 << bit;
            let _ = decompress(spec.codec, &stream, &mut vec![0; block.len()]);
        }
    }
}
