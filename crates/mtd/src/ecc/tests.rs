//! Tests of error correction with the vectors of the specification and with random damage.

use super::*;

fn counting(len: usize) -> Vec<u8> {
    (0..=255).cycle().take(len).collect()
}

fn random(len: usize, seed: &mut u64) -> Vec<u8> {
    (0..len).map(|_| next(seed).to_le_bytes()[7]).collect()
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed ^ *seed >> 29
}

#[test]
fn hamming_vectors_of_the_specification() {
    let (small, large) = (Hamming::new(256).unwrap(), Hamming::new(512).unwrap());
    let with = |len: usize, at: usize, byte: u8| {
        let mut data = vec![0; len];
        data[at] = byte;
        data
    };
    for data in [vec![0xFF; 512], vec![0; 512], counting(512)] {
        assert_eq!(small.encode(&data[..256]), [0xFF; 3]);
        assert_eq!(large.encode(&data), [0xFF; 3]);
    }
    assert_eq!(small.encode(&with(256, 0, 1)), [0xAA, 0xAA, 0xAB]);
    assert_eq!(large.encode(&with(512, 0, 1)), [0xAA; 3]);
    assert_eq!(small.encode(&with(256, 255, 0x80)), [0x55, 0x55, 0x57]);
    assert_eq!(large.encode(&with(512, 511, 0x80)), [0x55; 3]);
    let mut table = vec![0xFF; 256];
    table[..6].copy_from_slice(&[0xFF, 0xFB, 0xFF, 0xFF, 0xFF, 0xFE]);
    assert_eq!(small.encode(&table), [0xFF, 0xCF, 0xCF]);
    let mut table = b"Bbt0\x03\xFF\xFB\xFF\xFF\xFF\xFE".to_vec();
    table.resize(256, 0xFF);
    assert_eq!(small.encode(&table), [0xAA, 0x59, 0x9B]);
    let mut flipped = counting(256);
    flipped[0x5A] ^= 8;
    assert_eq!(small.encode(&flipped), [0x99, 0x66, 0x97]);
    assert!(Hamming::new(1024).is_none());
}

#[test]
fn hamming_corrects_every_single_bit_and_detects_every_pair_tried() {
    for step in [256, 512] {
        let code = Hamming::new(step).unwrap();
        let data = random(step, &mut 5);
        let ecc = code.encode(&data);
        for bit in 0..step * 8 {
            let mut read = data.clone();
            read[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(code.correct(&mut read, &ecc), Some(1));
            assert_eq!(read, data, "bit {bit}");
            let other = (bit * 7 + 13) % (step * 8);
            if other != bit {
                read[bit / 8] ^= 1 << (bit % 8);
                read[other / 8] ^= 1 << (other % 8);
                let before = read.clone();
                assert_eq!(code.correct(&mut read, &ecc), None);
                assert_eq!(read, before);
            }
        }
        for bit in 0..24 {
            let mut broken = ecc;
            broken[bit / 8] ^= 1 << (bit % 8);
            let mut read = data.clone();
            assert_eq!(code.correct(&mut read, &broken), Some(1));
            assert_eq!(read, data);
        }
    }
}

#[test]
fn bch_vectors_of_the_specification() {
    let encode = |strength, data: &[u8]| {
        let code = Bch::new(512, strength).unwrap();
        let mut ecc = vec![0; code.ecc_bytes()];
        code.encode(data, &mut ecc);
        ecc
    };
    let four = [0x28, 0x13, 0xCC, 0x39, 0x96, 0xAC, 0x7F];
    assert_eq!(encode(4, &[0; 512]), four);
    assert_eq!(encode(4, &counting(512)), [0xC4, 0xC3, 0x2C, 0x9E, 0xC7, 0x68, 0xEF]);
    let eight = [0xEF, 0x51, 0x2E, 0x09, 0xED, 0x93, 0x9A, 0xC2, 0x97, 0x79, 0xE5, 0x24, 0xB5];
    assert_eq!(encode(8, &[0; 512]), eight);
    let counted = [0x46, 0xED, 0xC5, 0xB8, 0x0C, 0xDE, 0xBE, 0xE9, 0x29, 0x38, 0xA3, 0x97, 0x61];
    assert_eq!(encode(8, &counting(512)), counted);
    for (step, strength) in [(512, 1), (512, 16), (1024, 1), (1024, 16)] {
        let code = Bch::new(step, strength).unwrap();
        let mut ecc = vec![0; code.ecc_bytes()];
        code.encode(&vec![0xFF; step], &mut ecc);
        assert!(ecc.iter().all(|byte| *byte == 0xFF), "an erased step has erased ECC");
    }
    assert!(Bch::new(512, 0).is_err() && Bch::new(512, 17).is_err() && Bch::new(256, 4).is_err());
}

/// Flips `count` different bits anywhere in data and ECC.
fn damage(data: &mut [u8], ecc: &mut [u8], degree: usize, count: u16, seed: &mut u64) {
    let mut done = std::collections::BTreeSet::new();
    while done.len() < usize::from(count) {
        let bits = data.len() * 8 + degree;
        let at = usize::try_from(next(seed) >> 20).unwrap() % bits;
        if done.insert(at) {
            match at.checked_sub(data.len() * 8) {
                None => data[at / 8] ^= 0x80 >> (at % 8),
                Some(at) => ecc[at / 8] ^= 0x80 >> (at % 8),
            }
        }
    }
}

#[test]
fn bch_corrects_up_to_its_strength_and_reports_more() {
    for step in [512, 1024] {
        for strength in 1..=16 {
            let code = Bch::new(step, strength).unwrap();
            let degree = if step == 512 { 13 } else { 14 } * usize::from(strength);
            let mut seed = u64::from(strength);
            let data = random(step, &mut seed);
            let mut ecc = vec![0; code.ecc_bytes()];
            code.encode(&data, &mut ecc);
            for errors in 0..=strength {
                let (mut read, mut stored) = (data.clone(), ecc.clone());
                damage(&mut read, &mut stored, degree, errors, &mut seed);
                assert_eq!(code.correct(&mut read, &stored), Some(errors), "{step}/{strength}");
                assert_eq!(read, data);
            }
            let missed = (0..10).filter(|_| {
                let (mut read, mut stored) = (data.clone(), ecc.clone());
                damage(&mut read, &mut stored, degree, strength + 1, &mut seed);
                let before = read.clone();
                let found = code.correct(&mut read, &stored);
                assert!(found.is_some() || read == before);
                found.is_some()
            });
            let missed = missed.count();
            assert!(strength < 4 || missed <= 1, "{step}/{strength}: {missed} of 10 missed");
        }
    }
}

#[test]
fn bch_corrects_every_single_bit_and_every_pair_at_a_distance() {
    let code = Bch::new(512, 2).unwrap();
    let data = random(512, &mut 9);
    let mut ecc = vec![0; code.ecc_bytes()];
    code.encode(&data, &mut ecc);
    for bit in 0..4096 {
        let mut read = data.clone();
        read[bit / 8] ^= 1 << (bit % 8);
        let other = (bit * 31 + 7) % 4096;
        let count = if other == bit { 1 } else { 2 };
        if other != bit {
            read[other / 8] ^= 1 << (other % 8);
        }
        assert_eq!(code.correct(&mut read, &ecc), Some(count));
        assert_eq!(read, data);
    }
}

#[test]
fn general_codes_correct_up_to_their_strength() {
    for (field_degree, polynomial, strength, message_bits) in [
        (13, 0x201B, 4, 4128),
        (13, 0x201B, 4, 4172),
        (14, 0x5803, 8, 4112),
        (14, 0x5803, 64, 8224),
        (15, 0x8003, 16, 16_384),
        (15, 0x8003, 72, 8193),
        (10, 0x409, 3, 700),
    ] {
        let parameters = BchParameters { field_degree, polynomial, strength, message_bits };
        let code = Bch::with(parameters).unwrap();
        let degree = code.parity_bits() as usize;
        let mut seed = u64::from(message_bits);
        let pad = code.step() * 8 - message_bits as usize;
        let mut data = random(code.step(), &mut seed);
        data[..pad / 8].fill(0);
        data[pad / 8] &= 0xFF >> (pad % 8);
        let mut ecc = vec![0; code.ecc_bytes()];
        code.encode(&data, &mut ecc);
        for errors in [0, 1, strength / 2, strength] {
            let (mut read, mut stored) = (data.clone(), ecc.clone());
            let mut done = std::collections::BTreeSet::new();
            while done.len() < usize::from(errors) {
                let at = usize::try_from(next(&mut seed) >> 20).unwrap();
                let at = pad + at % (message_bits as usize + degree);
                if done.insert(at) {
                    match at.checked_sub(data.len() * 8) {
                        None => read[at / 8] ^= 0x80 >> (at % 8),
                        Some(at) => stored[at / 8] ^= 0x80 >> (at % 8),
                    }
                }
            }
            assert_eq!(code.correct(&mut read, &stored), Some(errors), "{parameters}");
            assert_eq!(read, data);
        }
    }
}

#[test]
fn what_is_no_code_is_refused() {
    let good =
        BchParameters { field_degree: 13, polynomial: 0x201B, strength: 8, message_bits: 4096 };
    assert!(Bch::with(good).is_ok());
    for bad in [
        BchParameters { polynomial: 0x2001, ..good },
        BchParameters { polynomial: 0x402B, ..good },
        BchParameters { strength: 0, ..good },
        BchParameters { strength: 73, ..good },
        BchParameters { message_bits: 8192, ..good },
        BchParameters { message_bits: 0, ..good },
        BchParameters { field_degree: 16, polynomial: 0x1_100B, ..good },
    ] {
        let error = Bch::with(bad).unwrap_err().to_string();
        assert!(error.contains("expected a primitive polynomial"), "{error}");
    }
    let good = RsParameters {
        field_degree: 10,
        polynomial: 0x409,
        strength: 4,
        first_root: 1,
        message_bytes: 512,
    };
    assert!(ReedSolomon::new(good).is_ok());
    for bad in [
        RsParameters { polynomial: 0x400, ..good },
        RsParameters { strength: 0, ..good },
        RsParameters { message_bytes: 1020, ..good },
        RsParameters { first_root: 1023, ..good },
    ] {
        assert!(ReedSolomon::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn reed_solomon_corrects_up_to_its_strength() {
    for first_root in [0, 1, 5] {
        let parameters = RsParameters {
            field_degree: 10,
            polynomial: 0x409,
            strength: 4,
            first_root,
            message_bytes: 516,
        };
        let code = ReedSolomon::new(parameters).unwrap();
        let mut seed = 77;
        let message = random(516, &mut seed);
        let parity = code.encode(&message);
        assert!(parity.iter().all(|symbol| *symbol < 1024));
        for errors in 0..=5 {
            let (mut read, mut stored) = (message.clone(), parity.clone());
            let (mut done, mut bits) = (std::collections::BTreeSet::new(), 0);
            while done.len() < errors {
                let at = usize::try_from(next(&mut seed) >> 20).unwrap() % 524;
                let value = u16::try_from(next(&mut seed) >> 20 & 0xFF).unwrap() | 1;
                if done.insert(at) {
                    bits += value.count_ones();
                    match at.checked_sub(516) {
                        None => read[at] ^= value.to_le_bytes()[0],
                        Some(at) => stored[at] ^= value,
                    }
                }
            }
            let before = read.clone();
            let corrected = code.correct(&mut read, &mut stored);
            if errors <= 4 {
                assert_eq!(corrected, Some(bits), "{errors} errors, root {first_root}");
                assert_eq!((read, &stored), (message.clone(), &parity));
            } else {
                assert!(corrected.is_none() && read == before);
            }
        }
    }
}
