//! The tables agree with the decoders, and their fields tile every node.

use super::*;
use crate::encode::{self, Seal};
use crate::key::Key;
use crate::lpt::{LebProps, LptInputs, Pnode, SaveTable, SpaceTable};
use crate::node::{CommitStart, Orphan};
use alloc::string::String;
use eraseblock_base::Leb;
use eraseblock_base::field::put_number;

/// The bits that the fields of a structure own are each exactly one's.
fn assert_tiles(fields: &dyn Structures, kind: usize, bytes: &[u8]) {
    let structure = &fields.structures()[kind];
    let mut owners = vec![0_u8; bytes.len() * 8];
    let tail = fields.split(kind, bytes);
    let head = structure.head.iter().map(|part| part.field);
    for field in head.chain(tail.iter().map(|one| one.field)) {
        for bit in field.bit..field.bit + field.bits {
            owners[bit as usize] += 1;
        }
    }
    assert!(owners.iter().all(|owner| *owner == 1), "{}", structure.kind);
}

#[test]
fn fields_tile_nodes_whatever_their_counts_say() {
    let fields = UbifsFields::new();
    let mut state = 7_u64;
    for kind in 0..fields.structures().len() {
        let head = fields.structures()[kind].head_len();
        for len in [head, head + 1, head + 20, head + 23, head + 200] {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 59) as u8
                })
                .collect();
            assert_tiles(&fields, kind, &bytes);
        }
    }
}

#[test]
fn heads_have_the_sizes_of_the_raw_structures() {
    let fields = UbifsFields::new();
    let lens: Vec<usize> = fields.structures().iter().map(Structure::head_len).collect();
    assert_eq!(lens, [160, 48, 56, 56, 56, 28, 4096, 512, 64, 28, 32, 32, 24, 64]);
    assert!(
        fields.structures().iter().all(|one| one.head.iter().all(|part| !part.label.is_empty()))
    );
    let sig = &fields.structures()[13];
    assert!(sig.part("header.len").is_some() && sig.part("len").is_some());
}

#[test]
fn the_table_agrees_with_the_decoder() {
    let fields = UbifsFields::new();
    let mut bytes = Vec::new();
    encode::commit_start(&mut bytes, &CommitStart { cmt_no: 5 }, Seal::single(9));
    assert_eq!(fields.recognise(&bytes), Some((10, 32)));
    let field = fields.structures()[10].part("cmt_no").unwrap().field;
    put_number(&mut bytes, field.bit as usize, field.bits as usize, field.repr, 6);
    let limits = Limits::unknown(1 << 17);
    assert!(decode::node(&bytes, &limits, Location::Whole).is_err());
    fields.seal(10, &mut bytes, &|_| false);
    let node = decode::node(&bytes, &limits, Location::Whole).unwrap();
    assert_eq!(node.commit_start().unwrap().cmt_no, 6);
    assert_eq!(node.header.sqnum, fields.structures()[10].number("sqnum", &bytes));
}

#[test]
fn lpt_nodes_are_read_as_they_are_packed() {
    for big in [false, true] {
        let geometry = LptGeometry::new(LptInputs {
            leb_size: 126_976,
            min_io: 2048,
            main_lebs: 90,
            leb_cnt: 100,
            max_leb_cnt: 100,
            lpt_first: Leb::new(7),
            lpt_lebs: 2,
            lsave_cnt: 5,
            big,
        });
        let fields = LptFields::new(&geometry);
        let props = |free| LebProps { free, dirty: 16, index: true };
        let pnode = Pnode { number: 3, lebs: [0, 2048, 4096, 6144].map(props) }.pack(&geometry);
        assert_eq!(fields.recognise(&pnode), Some((0, pnode.len())));
        let tail = fields.split(0, &pnode);
        let third =
            tail.iter().find(|one| one.label(&fields.structures()[0]) == "leb[2].free8").unwrap();
        let Field { bit, bits, repr, .. } = third.field;
        assert_eq!(number_at(&pnode, bit as usize, bits as usize, repr), 512);
        let ltab = SpaceTable { lebs: vec![(1, 2), (3, 4)] }.pack(&geometry);
        let lsave = SaveTable { lebs: vec![Leb::new(20); 5] }.pack(&geometry);
        for (kind, bytes) in [(0, &pnode), (2, &ltab), (3, &lsave)] {
            assert_eq!(fields.recognise(bytes), Some((kind, bytes.len())));
            assert_tiles(&fields, kind, bytes);
        }
    }
}

#[test]
fn branches_have_hashes_only_on_authenticated_volumes() {
    let fields = UbifsFields::new();
    for hash in [0, 32] {
        let mut bytes = vec![0; 28 + 2 * (20 + hash)];
        bytes[24] = 2;
        bytes[28 + 12..28 + 20].copy_from_slice(&Key::data(7, 9).to_bytes());
        let labels: Vec<String> =
            fields.split(9, &bytes).iter().map(|one| one.label(&fields.structures()[9])).collect();
        assert_eq!(labels.contains(&String::from("branch[1].hash")), hash > 0);
        assert!(labels.contains(&String::from("branch[1].key")));
        assert_tiles(&fields, 9, &bytes);
    }
    let mut bytes = Vec::new();
    encode::orphan(
        &mut bytes,
        &Orphan { cmt_no: 1, is_last: true, inos: vec![4, 5] },
        Seal::single(3),
    );
    assert_eq!(fields.split(11, &bytes).len(), 2);
}
