//! Scanning eraseblocks: which bytes are skipped.

use super::*;
use crate::encode;
use crate::node::Xref;
use proptest::prelude::*;

const RULES: ScanRules =
    ScanRules { order: ByteOrder::Little, cleanmarker: Some(12), trust_empty_start: true };

fn node(out: &mut Vec<u8>) {
    encode::xref(ByteOrder::Little, &Xref { ino: 1, xid: 2, xseqno: 4 }, out);
}

fn marker() -> Vec<u8> {
    let mut block = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut block);
    block
}

fn scan(mut block: Vec<u8>, rules: ScanRules) -> Vec<(char, u32, u32)> {
    block.resize(block.len().max(1024), 0xFF);
    let items = Scanner::new(Peb::new(0), &block, rules);
    items
        .map(|item| match item {
            Item::Node { offset, header, .. } => ('n', offset, header.totlen),
            Item::Obsolete { offset, len } => ('o', offset, len),
            Item::Dirt { offset, len, expected: true } => ('e', offset, len),
            Item::Dirt { offset, len, .. } => ('d', offset, len),
            Item::Free { offset } => ('f', offset, 0),
        })
        .collect()
}

#[test]
fn nodes_dirt_and_free_space() {
    let mut block = marker();
    node(&mut block);
    block.extend_from_slice(&[0; 8]);
    block.extend_from_slice(b"garbage.");
    node(&mut block);
    encode::padding(ByteOrder::Little, 20, &mut block);
    let expected = vec![
        ('n', 0, 12),
        ('n', 12, 28),
        ('e', 40, 8),
        ('d', 48, 8),
        ('n', 56, 28),
        ('e', 84, 20),
        ('f', 104, 0),
    ];
    assert_eq!(scan(block, RULES), expected);
}

#[test]
fn a_torn_header_is_stepped_over_word_by_word() {
    let mut block = marker();
    node(&mut block);
    block[12 + 5] ^= 1;
    node(&mut block);
    assert_eq!(scan(block, RULES), [('n', 0, 12), ('d', 12, 28), ('n', 40, 28), ('f', 68, 0)]);
}

#[test]
fn nodes_that_leave_the_block_are_dirt() {
    let mut block = marker();
    encode::padding(ByteOrder::Little, 2000, &mut block);
    block.truncate(1024);
    let found = scan(block, RULES);
    assert_eq!(found[1], ('d', 12, 12));
    assert_eq!(found.last().unwrap(), &('e', 24, 1000));
}

#[test]
fn cleanmarkers_of_another_length_or_place_are_dirt() {
    let mut block = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 16, &mut block);
    assert_eq!(scan(block.clone(), RULES)[0], ('d', 0, 12));
    let any = ScanRules { cleanmarker: None, ..RULES };
    assert_eq!(scan(block.clone(), any)[0], ('n', 0, 16));
    block.splice(0..0, marker());
    assert_eq!(scan(block, RULES)[1], ('d', 12, 12));
}

#[test]
fn the_start_of_a_block_decides_whether_it_is_empty() {
    let mut late = vec![0xFF; 256];
    node(&mut late);
    assert_eq!(scan(late.clone(), RULES), [('f', 0, 0)]);
    let careful = ScanRules { trust_empty_start: false, ..RULES };
    assert_eq!(scan(late, careful)[1], ('n', 256, 28));
    let mut marked = marker();
    marked.resize(32, 0xFF);
    node(&mut marked);
    assert_eq!(scan(marked.clone(), RULES), [('n', 0, 12), ('f', 12, 0)]);
    assert_eq!(scan(marked, careful)[2], ('n', 32, 28));
    let mut within = marker();
    within.resize(28, 0xFF);
    node(&mut within);
    assert_eq!(scan(within, RULES)[2], ('n', 28, 28));
}

#[test]
fn obsolete_nodes_are_skipped_whole() {
    let mut block = marker();
    node(&mut block);
    block[12 + 3] &= 0xDF;
    assert_eq!(scan(block, RULES)[1], ('o', 12, 28));
}

proptest! {
    #[test]
    fn every_byte_belongs_to_one_item(
        words in proptest::collection::vec(prop_oneof![
            Just(0_u32), Just(u32::MAX), Just(0x2003_1985), any::<u32>()], 0..200),
        trust in any::<bool>(),
    ) {
        let block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let rules = ScanRules { trust_empty_start: trust, ..RULES };
        let mut position = 0;
        for item in Scanner::new(Peb::new(0), &block, rules) {
            let (offset, len) = match item {
                Item::Node { offset, bytes, .. } => (offset, bytes.len().next_multiple_of(4) as u32),
                Item::Obsolete { offset, len } | Item::Dirt { offset, len, .. } => (offset, len),
                Item::Free { offset } => (offset, block.len() as u32 - offset),
            };
            prop_assert_eq!(offset, position);
            prop_assert!(len > 0);
            position += len;
        }
        prop_assert_eq!(position as usize, block.len());
    }
}
