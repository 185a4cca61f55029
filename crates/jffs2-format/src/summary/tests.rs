//! Summaries: the worked example, and every defect that makes readers fall back to a full scan.

use super::*;
use proptest::prelude::*;

const ORDER: ByteOrder = ByteOrder::Little;
const PEB: Peb = Peb::new(3);

fn example() -> Summary {
    let node =
        RecordNode::Dirent { pino: 1, version: 0, ino: 2, file_type: 8, name: b"rnd".to_vec() };
    Summary {
        offset: 0x38,
        cleanmarker: 12,
        records: vec![Record { offset: 12, totlen: 43, node }],
    }
}

fn block(summary: &Summary) -> Vec<u8> {
    let mut block = vec![0xFF; summary.offset as usize];
    encode(ORDER, summary, 0x2000, &mut block);
    block
}

#[test]
fn the_example_of_the_specification() {
    let block = block(&example());
    assert_eq!(block.len(), 0x2000);
    let head = [
        0x85, 0x19, 6, 0x20, 0xC8, 0x1F, 0, 0, 0x1E, 0xBC, 0x86, 0x5A, 1, 0, 0, 0, 12, 0, 0, 0, 0,
        0, 0, 0, 0xAC, 0x12, 0xF5, 0x77, 0x20, 0x59, 0x0A, 0xCC, 1, 0xE0, 43, 0, 0, 0, 12, 0, 0, 0,
    ];
    assert_eq!(block[0x38..0x38 + head.len()], head);
    assert_eq!(block[0x1FF8..], [0x38, 0, 0, 0, 0x85, 0x18, 0x85, 2]);
    assert_eq!(marked_offset(ORDER, &block), Some(0x38));
    assert_eq!(decode(ORDER, &block, PEB).unwrap(), example());
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |change: fn(&mut Summary)| {
        let mut summary = example();
        change(&mut summary);
        decode(ORDER, &block(&summary), PEB).is_err()
    };
    assert!(!refused(|_| ()));
    assert!(refused(|summary| summary.records[0].offset = 8));
    assert!(refused(|summary| summary.records[0].offset = 14));
    assert!(refused(|summary| summary.records[0].totlen = 48));
    assert!(refused(|summary| summary.records[0].totlen = 4));
    assert!(refused(|summary| summary.cleanmarker = 100));
    assert!(refused(|summary| {
        let again = summary.records[0].clone();
        summary.records.push(again);
    }));
    let mut broken = block(&example());
    broken[0x38 + 40] ^= 1;
    assert!(matches!(decode(ORDER, &broken, PEB), Err(FormatError::Crc { .. })));
    assert!(decode(ORDER, &[0xFF; 64], PEB).is_err());
    assert!(decode(ORDER, &[], PEB).is_err());
}

proptest! {
    #[test]
    fn summaries_survive(list in proptest::collection::vec((0..4, any::<[u32; 3]>(), proptest::collection::vec(1_u8.., 1..20)), 0..40), big in any::<bool>()) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut offset = 12;
        let mut records = Vec::new();
        for (kind, words, name) in list {
            let node = match kind {
                0 => RecordNode::Inode { ino: words[0], version: words[1] },
                1 => RecordNode::Xattr { xid: words[0], version: words[1] },
                2 => RecordNode::Xref,
                _ => RecordNode::Dirent { pino: words[0], version: words[1], ino: words[2], file_type: 4, name },
            };
            records.push(Record { offset, totlen: 28, node });
            offset += 28;
        }
        let summary = Summary { offset, cleanmarker: 12, records };
        let len: u32 = summary.records.iter().map(Record::len).sum();
        let mut block = vec![0xFF; offset as usize];
        let size = offset + needed(len);
        encode(order, &summary, size, &mut block);
        prop_assert_eq!(decode(order, &block, PEB).unwrap(), summary);
    }
}
