//! Scanning LEBs: the ends of a scan, and which of them a power cut explains.

use super::*;
use eraseblock_base::crc::crc32;

const LIMITS: Limits = Limits { leb_size: 16384, fanout: 8, hash_len: 0 };

fn sealed(node_type: u8, len: usize, group: u8) -> Vec<u8> {
    let mut node = vec![0; len];
    node[..4].copy_from_slice(&NODE_MAGIC.to_le_bytes());
    node[16..20].copy_from_slice(&(len as u32).to_le_bytes());
    node[20] = node_type;
    node[21] = group;
    let crc = crc32(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
    node
}

/// Returns a LEB with the given parts, each padded to 8 with zeros, followed by erased bytes.
fn leb(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(part);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.resize(LIMITS.leb_size as usize, 0xFF);
    bytes
}

fn scan(bytes: &[u8]) -> (Vec<u32>, Scanner<'_>) {
    let mut scanner = Scanner::new(Leb::new(9), bytes, 0, LIMITS);
    let offsets = scanner.by_ref().map(|(offset, _)| offset).collect();
    (offsets, scanner)
}

fn pad(pad_len: u32) -> Vec<u8> {
    let mut node = sealed(5, 28, 0);
    node[24..28].copy_from_slice(&pad_len.to_le_bytes());
    let crc = crc32(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
    node
}

#[test]
fn nodes_padding_and_the_end() {
    let mut padding = pad(4);
    padding.extend([0; 4]);
    let bytes = leb(&[&sealed(4, 56, 0), &[PADDING_BYTE; 24], &sealed(10, 32, 0), &padding]);
    let (offsets, scanner) = scan(&bytes);
    assert_eq!(offsets, [0, 80]);
    assert_eq!((scanner.offset(), scanner.stop()), (144, Some(&Stop::End)));
    assert_eq!(scanner.strict_error(8), None);
    let misaligned = scanner.strict_error(512).unwrap();
    assert!(matches!(misaligned, FormatError::Misaligned { unit: 512, .. }));
    assert!(scanner.is_torn(512));
}

#[test]
fn a_full_leb_ends_at_its_end() {
    let bytes = leb(&[&vec![0; 16384 - 56]]);
    let mut bytes = bytes[..16384 - 56].to_vec();
    bytes.extend(sealed(4, 56, 0));
    let mut scanner = Scanner::new(Leb::new(9), &bytes, 16384 - 56, LIMITS);
    assert_eq!(scanner.by_ref().count(), 1);
    assert_eq!((scanner.offset(), scanner.strict_error(512)), (16384, None));
}

#[test]
fn damage_is_told_apart() {
    let good = sealed(4, 56, 0);
    let bytes = leb(&[&good, &[0xAB; 16]]);
    let (offsets, scanner) = scan(&bytes);
    assert_eq!((offsets.len(), scanner.stop()), (1, Some(&Stop::Garbage)));
    assert!(matches!(scanner.strict_error(8), Some(FormatError::Magic { .. })));

    let bytes = leb(&[&good, &[PADDING_BYTE; 12]]);
    assert_eq!(scan(&bytes).1.stop(), Some(&Stop::Garbage));

    let mut torn = good.clone();
    torn[40] ^= 1;
    let bytes = leb(&[&good, &torn]);
    assert!(matches!(scan(&bytes).1.stop(), Some(Stop::Corrupt(FormatError::Crc { .. }))));

    let bytes = leb(&[&good, &pad(3)]);
    assert!(matches!(scan(&bytes).1.stop(), Some(Stop::BadPadding(_))));
    let bytes = leb(&[&good, &pad(16308)]);
    assert!(matches!(scan(&bytes).1.stop(), Some(Stop::BadPadding(_))));

    let mut bytes = leb(&[&good]);
    bytes[9000] = 0;
    let (_, scanner) = scan(&bytes);
    assert_eq!(scanner.stop(), Some(&Stop::End));
    let error = scanner.strict_error(8).unwrap();
    assert_eq!(error, FormatError::NotErased { at: Location::Leb(Leb::new(9), 9000) });
}

/// A page ended with 8, 16 or 24 bytes of padding. The next page was torn and began with the same
/// byte, as one garbage page in 256 does. The length of the run over both pages was not a multiple
/// of 8, so the whole run counted as garbage. The tear seemed to begin in the first page and to be
/// followed by more than erased flash, so the volume could no longer be mounted.
#[test]
fn padding_ends_where_a_torn_page_begins() {
    for padded in [8, 16, 24] {
        let good = sealed(0, 512 - padded, 0);
        for (chance, more) in [(1, 0), (7, 0), (8, 8), (13, 8)] {
            let mut torn = [0x31; 512];
            torn[..chance].fill(PADDING_BYTE);
            let bytes = leb(&[&good, &vec![PADDING_BYTE; padded], &torn]);
            let (offsets, scanner) = scan(&bytes);
            let case = format!("{padded} bytes of padding, then {chance}");
            assert_eq!(offsets, [0], "{case}");
            assert_eq!(scanner.stop(), Some(&Stop::Garbage), "{case}");
            assert_eq!(scanner.offset(), 512 + more, "{case}");
            assert!(scanner.is_torn(512), "{case}");
        }
    }
}

#[test]
fn torn_is_what_ends_within_one_write_unit() {
    let good = sealed(4, 56, 0);
    // Garbage up to the boundary of its write unit is a torn write; more is not.
    let garbage = [0xAB; 4096];
    assert!(scan(&leb(&[&good, &garbage[..456]])).1.is_torn(512));
    assert!(!scan(&leb(&[&good, &garbage[..464]])).1.is_torn(512));
    // A node with an intact header covers as many units as its length requires.
    let mut long = sealed(0, 1160, 0);
    long[700] ^= 1;
    assert!(scan(&leb(&[&good, &long])).1.is_torn(512));
    assert!(!scan(&leb(&[&good, &long, &garbage[..512]])).1.is_torn(512));
    // With a broken header only the unit after 24 bytes counts.
    long[20] = 14;
    assert!(!scan(&leb(&[&good, &long])).1.is_torn(512));
    assert!(scan(&leb(&[&good, &long])).1.is_torn(2048));
    // A first word that was never programmed, followed by data in the same unit.
    let mut bytes = leb(&[&good]);
    bytes[500] = 0;
    assert!(scan(&bytes).1.is_torn(512));
    bytes[512] = 0;
    assert!(!scan(&bytes).1.is_torn(512));
}
