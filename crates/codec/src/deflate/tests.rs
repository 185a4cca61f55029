//! Tests the encoder with two independent decoders, and the codes alone.

use super::huffman::{LONGEST, Word, code, lengths};
use super::{Deflate, WINDOW};
use crate::{Codec, decompress};
use flate2::{Decompress, FlushDecompress, Status};
use proptest::prelude::*;

fn deflated(level: u32, block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Deflate::new(level).compress(block, &mut out);
    out
}

fn round_trips(block: &[u8]) {
    for level in 1..=9 {
        let stream = deflated(level, block);
        let mut back = vec![0xAA; block.len()];
        decompress(Codec::Zlib, &stream, &mut back).unwrap();
        assert!(back == block, "level {level}");
        let mut back = Vec::with_capacity(block.len() + 1);
        let mut other = Decompress::new_with_window_bits(false, 11);
        let status = other.decompress_vec(&stream, &mut back, FlushDecompress::Finish);
        assert_eq!(status.unwrap(), Status::StreamEnd, "level {level}");
        assert!(back == block, "level {level}");
        assert_eq!(other.total_in(), stream.len() as u64);
    }
}

/// Bytes without repetitions of three bytes at short distances.
fn sparse(len: usize) -> Vec<u8> {
    let step = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(state.to_be_bytes()[0])
    };
    let mut state = 99;
    std::iter::from_fn(|| step(&mut state)).take(len).collect()
}

#[test]
fn every_match_length() {
    for len in 3..=300 {
        let mut block = sparse(300);
        block.extend_from_within(..len);
        block.push(block[len] ^ 1);
        round_trips(&block);
    }
}

#[test]
fn every_distance_class() {
    for distance in (1..=40).chain((40..=2100).step_by(61)).chain([1024, 1025, 2047, 2048, 2049]) {
        let mut block = sparse(distance);
        block.extend_from_within(..distance.min(20));
        block.extend(b"the end");
        round_trips(&block);
    }
}

#[test]
fn a_match_reaches_the_whole_window_and_no_farther() {
    let window = usize::from(WINDOW);
    let twice = |period: usize| [sparse(period), sparse(period)].concat();
    assert!(deflated(6, &twice(window)).len() < window + 100);
    assert!(deflated(6, &twice(window + 1)).len() >= 2 * window);
}

#[test]
fn a_block_is_stored_if_it_cannot_be_compressed() {
    let noise = sparse(255);
    let stream = deflated(6, &noise);
    assert_eq!(stream.len(), noise.len() + 5);
    assert_eq!(stream[..5], [1, 255, 0, 0, 255]);
    assert_eq!(stream[5..], noise);
}

#[test]
fn the_fixed_code_is_taken_where_it_is_shorter() {
    // RFC 1951, 3.2.6: block type 01, and the empty block is ten bits.
    assert_eq!(deflated(6, &[]), [3, 0]);
    assert_eq!(deflated(6, b"a"), [0x4B, 0x04, 0x00]);
    assert_eq!(deflated(6, &b"hello ".repeat(32))[0] & 7, 3);
    assert_eq!(deflated(6, &b"0123401234321043210".repeat(9))[0] & 6, 2);
}

#[test]
fn codes_deeper_than_allowed_are_levelled() {
    // Fibonacci numbers give the deepest trees.
    for longest in [7, 9, LONGEST] {
        let mut frequencies = vec![1_u32, 1];
        for at in 2..22 {
            frequencies.push(frequencies[at - 1] + frequencies[at - 2]);
        }
        let mut found = vec![0; frequencies.len()];
        lengths(&frequencies, longest, &mut found);
        complete(&found, longest);
    }
}

/// Checks that a code has space for all its words and leaves none unused.
fn complete(lengths: &[u8], longest: usize) {
    assert!(lengths.iter().all(|len| usize::from(*len) <= longest));
    let taken: u32 =
        lengths.iter().filter(|len| **len != 0).map(|len| 1 << (longest - usize::from(*len))).sum();
    assert_eq!(taken, 1 << longest, "{lengths:?}");
}

proptest! {
    #[test]
    fn codes_are_complete_and_shorter_for_the_frequent(
        frequencies in prop::collection::vec(prop_oneof![Just(0), 0_u32..4, 0_u32..200], 2..288)
    ) {
        let mut found = vec![0; frequencies.len()];
        lengths(&frequencies, LONGEST, &mut found);
        complete(&found, LONGEST);
        for (a, len_a) in frequencies.iter().zip(&found) {
            for (b, len_b) in frequencies.iter().zip(&found) {
                prop_assert!(*a <= *b || *b == 0 || len_a <= len_b);
            }
        }
        let mut words = vec![Word::default(); found.len()];
        code(&found, &mut words);
        for (one, len) in words.iter().zip(&found) {
            prop_assert_eq!(one.len(), u32::from(*len));
            prop_assert!(*len == 0 || one.bits() < 1 << one.len());
        }
        let used: Vec<&Word> = words.iter().filter(|word| word.len() != 0).collect();
        for (index, one) in used.iter().enumerate() {
            for other in &used[index + 1..] {
                let common = (1 << one.len().min(other.len())) - 1;
                prop_assert_ne!(one.bits() & common, other.bits() & common, "prefix");
            }
        }
    }

    #[test]
    fn two_decoders_agree(block in prop::collection::vec(prop::sample::select(b"abcdef\0\xFF".to_vec()), 0..5000)) {
        round_trips(&block);
    }

    #[test]
    fn any_bytes(block in prop::collection::vec(any::<u8>(), 0..700)) {
        round_trips(&block.repeat(3));
    }
}
