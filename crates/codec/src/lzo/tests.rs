//! Test vectors, invalid streams and streams of the reference encoders.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

use super::decompress;
use crate::tests::bytes;
use crate::{Codec, CompressSpec, Compressor, LzoError};
use proptest::prelude::*;

/// 700 bytes of [`words`], encoded as LZO1X-1 and LZO1X-999.
const TEXT: [&str; 2] = [
    "0d6e6f64652061206f6620636f6d6d6974f8000001696e206f727068616e20696e646578206c6562e0020370\
    656220696e84027402036d617374657266026f66d2056f66ec05d90b69f808b0092b6401dc07026120746865\
    8c00c0022aeb00206120760e6f66940ee00527bc01c8178406910220a801a2186f66980a046a6f75726e616c\
    8015a10361f414dc07c00f640dc4022c1800d91661d41c29f003c607612064008c0f7003277c01e80f640b6c\
    00c009288c0570026406e0052cdc01f403d40c781fc801c022d8057c04900fb42c7c04680227b4017c38d001\
    288606696eb025c40a9d0761f4406c12c0038e446120e414282400d82b800793006f6620cc06d00dd8132cb8\
    0364139805a03f29a4017c16f80c2a24030e6220636f6d6d6974206d6173746572206f110000",
    "216e6f64652061206f6620636f6d6d6974fa00696e0c0402727068616e440104646578206c6562e102704801\
    580364026c00036d6173746572810666d0054001cc05d90b69f808dc032a6401dc070261207468658c00c002\
    2ae8005c00740e5c0a640ee00527bc01cc1684069002c801b80c44027405046a6f75726e616c29650361e001\
    dc07c00f640d2c3004d80027d800284804c806270c0364008c0f7003277c01e80f650b70282205696e2a4805\
    6406e0052cdd01702ca405298c04c022299c00900fbc137c042bb40129e805288406f0252cd405c40a29d401\
    8d4461278402282400d82b8007e430f8132b78052cb80327b002a03f2d7c0328b0062a24032c9d066f110000",
];

/// [`far`], by the same encoders: the distance of its last match exceeds 16,384.
const FAR: [&str; 2] = [
    "00100b30557a9fc4e90e33587da2c7ec11365b80a5caef14395e83a8cdf2173c618600002000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000008704001003200a0002c7ec11365b80a5caef14395e83a8cdf2173c6186\
    110000",
    "320b30557a9fc4e90e33587da2c7ec11365b80a5caef14395e83a8cdf2173c6186002000000000000000e600\
    002000000000000000e600002000000000000000e600002000000000000000e600002000000000000000e600\
    002000000000000000e600002000000000000000e600002000000000000000e600002000004800001017200a\
    110000",
];

const A_4096: [&str; 2] = [
    "12412000000000000000e600002000000000000000e50000110000",
    "02414141414120000000000000000000000000000000da10000c41\
    4141414141414141414141414141110000",
];

const HELLO: [&str; 2] =
    ["1768656c6c6f2020991400110000", "0368656c6c6f20208b14000b6f2068656c6c6f2068656c6c6f20110000"];

fn decoded(stream: &[u8], len: usize) -> Result<Vec<u8>, LzoError> {
    let mut out = vec![0x55; len];
    decompress(stream, &mut out).map(|()| out)
}

/// Words in an order from a small generator.
fn words(len: usize) -> Vec<u8> {
    let words = "leb peb node index journal master orphan commit the of a in".split(' ');
    let words: Vec<&str> = words.collect();
    let (mut out, mut seed) = (Vec::new(), 1_u32);
    while out.len() < len {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345) & 0x7FFF_FFFF;
        out.extend_from_slice(words[(seed >> 16) as usize % words.len()].as_bytes());
        out.push(b' ');
    }
    out.truncate(len);
    out
}

fn far() -> Vec<u8> {
    let edge: Vec<u8> = (0..32).map(|index: u8| index.wrapping_mul(37).wrapping_add(11)).collect();
    [edge.clone(), vec![0; 17000], edge].concat()
}

#[test]
fn streams_of_the_reference_encoders() {
    let hello = b"hello ".repeat(32);
    for (streams, data) in
        [(A_4096, vec![b'A'; 4096]), (HELLO, hello), (TEXT, words(700)), (FAR, far())]
    {
        for stream in streams {
            assert_eq!(decoded(&bytes(stream), data.len()), Ok(data.clone()), "{stream}");
        }
    }
}

#[test]
fn every_refusal() {
    let refused = |hex: &str, len: usize| decoded(&bytes(hex), len).unwrap_err();
    assert_eq!(refused("1100", 0), LzoError::TooShort { found: 2 });
    // Truncated inside: literals, an extension, operands, trailing literals; no end marker.
    for hex in ["154142", "000000", "124120", "12414000", "124123020001", "12410000"] {
        let error = refused(hex, 64);
        assert_eq!(error, LzoError::InputEnds, "{hex}");
    }
    assert_eq!(refused("154142434445110000", 3), LzoError::OutputOverrun { limit: 3 });
    assert_eq!(refused("1241208000 00110000", 64), LzoError::OutputOverrun { limit: 64 });
    let distance = LzoError::Distance { distance: 3, produced: 1 };
    assert_eq!(refused("1241220800110000", 64), distance);
    let nothing_yet = LzoError::Distance { distance: 16385, produced: 0 };
    assert_eq!(refused("110400110000", 64), nothing_yet);
    assert_eq!(refused("1241120000", 1), LzoError::EndMarker { length: 4 });
    assert_eq!(refused("12411000010000", 1), LzoError::EndMarker { length: 265 });
    assert_eq!(refused("124111000000", 1), LzoError::BytesAfterEnd { count: 1 });
    let short = LzoError::OutputShort { produced: 1, expected: 2 };
    assert_eq!(refused("1241110000", 2), short);
}

#[test]
fn every_instruction_class() {
    // Two trailing literals, then the two-byte match after few literals.
    assert_eq!(
        decoded(&bytes("1541424344 2206 00 4546 0400 110000"), 12).unwrap(),
        b"ABCDCDCDEFEF"
    );
    // The three-byte match after a long run reaches 2049 back.
    let mut data: Vec<u8> = (0..=255_u8).cycle().take(2049).collect();
    let mut stream = vec![0, 0, 0, 0, 0, 0, 0, 0, (2049 - 18 - 7 * 255) as u8];
    stream.extend_from_slice(&data);
    stream.extend_from_slice(&[0, 0, 0x11, 0, 0]);
    data.extend_from_slice(&[0, 1, 2]);
    assert_eq!(decoded(&stream, 2052).unwrap(), data);
}

#[test]
fn the_dense_encoder_is_as_dense_as_the_reference() {
    let mut dense = Compressor::new(CompressSpec { codec: Codec::Lzo, level: 9 }).unwrap();
    let mut out = Vec::new();
    for (data, reference) in
        [(vec![b'A'; 4096], A_4096), (b"hello ".repeat(32), HELLO), (words(700), TEXT)]
    {
        dense.compress(&data, &mut out).unwrap();
        assert!(out.len() <= bytes(reference[1]).len(), "{} bytes", out.len());
        assert_eq!(decoded(&out, data.len()), Ok(data));
    }
}

/// Linux interprets a longer stream that begins with 17 as another format.
#[test]
fn no_stream_begins_with_17() {
    for level in [1, 7, 9] {
        let mut compressor = Compressor::new(CompressSpec { codec: Codec::Lzo, level }).unwrap();
        let mut out = Vec::new();
        for len in 0..600 {
            let data: Vec<u8> = (0..len).map(|index| (index * index / 7) as u8).collect();
            compressor.compress(&data, &mut out).unwrap();
            assert!(out[0] != 17 || out.len() < 5);
            assert_eq!(decoded(&out, len), Ok(data));
        }
    }
}

fn extended(
    field: usize,
    all_ones: usize,
    next: &mut dyn FnMut() -> Option<usize>,
) -> Option<usize> {
    let mut length = all_ones;
    if field > 0 {
        return Some(field);
    }
    loop {
        match next()? {
            0 => length += 255,
            last => return Some(length + last),
        }
    }
}

/// Decodes the grammar in the simplest way, one byte at a time.
fn simple(stream: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut at, mut literals) = (Vec::new(), 0, 0);
    let mut next = || {
        at += 1;
        Some(usize::from(*stream.get(at - 1)?))
    };
    let first = usize::from(*stream.first()?);
    if first > 17 {
        next()?;
        literals = first - 17;
        for _ in 0..literals {
            out.push(next()? as u8);
        }
    }
    loop {
        let byte = next()?;
        let (length, distance, trailing) = match byte {
            64.. => (1 + (byte >> 5), 1 + (byte >> 2 & 7) + 8 * next()?, byte & 3),
            16..=63 => {
                let mask = if byte < 32 { 7 } else { 31 };
                let length = 2 + extended(byte & mask, mask, &mut next)?;
                let word = next()? + 256 * next()?;
                let far = if byte < 32 { 16384 + (byte & 8) * 2048 } else { 1 };
                if far + (word >> 2) == 16384 && byte < 32 {
                    return (length == 3 && at == stream.len()).then_some(out);
                }
                (length, far + (word >> 2), word & 3)
            }
            _ if literals == 0 => {
                literals = 3 + extended(byte, 15, &mut next)?;
                for _ in 0..literals {
                    out.push(next()? as u8);
                }
                continue;
            }
            _ if literals < 4 => (2, 1 + (byte >> 2) + 4 * next()?, byte & 3),
            _ => (3, 2049 + (byte >> 2) + 4 * next()?, byte & 3),
        };
        for _ in 0..length {
            out.push(*out.get(out.len().checked_sub(distance)?)?);
        }
        for _ in 0..trailing {
            out.push(next()? as u8);
        }
        literals = trailing;
        if out.len() > 1 << 20 {
            return None;
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..300), len in 0_usize..600) {
        let expected = simple(&stream).filter(|out| out.len() == len && stream.len() > 2);
        prop_assert_eq!(decoded(&stream, len).ok(), expected);
    }

    /// Most mutations change the meaning of a stream, and many make it invalid.
    #[test]
    fn mutated_streams_mean_what_the_grammar_says(
        which in 0_usize..6,
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::weighted(0.1, 0_usize..40),
    ) {
        let encoded = |level| {
            let mut out = Vec::new();
            let spec = CompressSpec { codec: Codec::Lzo, level };
            Compressor::new(spec).unwrap().compress(&words(4000), &mut out).unwrap();
            out
        };
        let mut stream = match which {
            4 => encoded(1),
            5 => encoded(9),
            _ => bytes([TEXT[0], TEXT[1], FAR[0], A_4096[0]][which]),
        };
        for (place, value) in places {
            let place = place.index(stream.len());
            stream[place] = value;
        }
        stream.truncate(stream.len() - cut.unwrap_or(0).min(stream.len()));
        let expected = simple(&stream);
        let len = expected.as_ref().map_or(4000, Vec::len);
        prop_assert_eq!(decoded(&stream, len).ok(), expected);
        for len in [0, 100, 700, 4096, 17064].into_iter().filter(|other| *other != len) {
            prop_assert!(decoded(&stream, len).is_err());
        }
    }
}
