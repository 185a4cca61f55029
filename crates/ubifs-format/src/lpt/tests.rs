//! The LEB properties tree: vectors of the specification, packing and its inverse.

use super::*;
use eraseblock_base::Location;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Returns the worked image of the specification's section 19, at its size of 13 LEBs.
fn worked() -> LptGeometry {
    LptGeometry::new(LptInputs {
        leb_size: 15360,
        min_io: 512,
        main_lebs: 3,
        leb_cnt: 13,
        max_leb_cnt: 30,
        lpt_first: Leb::new(7),
        lpt_lebs: 2,
        lsave_cnt: 256,
        big: false,
    })
}

/// Example C of 17.2 with an image of `main_lebs` LEBs in the main area.
fn big(main_lebs: u32) -> LptGeometry {
    LptGeometry::new(LptInputs {
        leb_size: 15872,
        min_io: 512,
        main_lebs,
        leb_cnt: 33 + main_lebs,
        max_leb_cnt: 6000,
        lpt_first: Leb::new(24),
        lpt_lebs: 8,
        lsave_cnt: 256,
        big: true,
    })
}

fn worked_props() -> [LebProps; 3] {
    [
        LebProps { free: 11776, dirty: 488, index: false },
        LebProps::empty(15360),
        LebProps { free: 14336, dirty: 248, index: true },
    ]
}

const WORKED_LPT: &str = "94d000dc1e003c0000fc03010f00a6af010020002000200000\
    877c8103200020002000001baf02a04b07003c0000";

#[test]
fn the_worked_tree_has_its_bytes_and_places() {
    let fresh = fresh::build(&worked(), &worked_props(), Leb::new(10)).unwrap();
    let bytes = hex(WORKED_LPT);
    assert_eq!(fresh.lebs.len(), 1);
    assert_eq!(fresh.lebs[0].len(), 512);
    assert_eq!(fresh.lebs[0][..bytes.len()], bytes);
    assert!(fresh.lebs[0][bytes.len()..].iter().all(|byte| *byte == 0xFF));
    let place = |offset| LptPlace { leb: Leb::new(7), offset };
    assert_eq!((fresh.root, fresh.ltab), (place(25), place(36)));
    assert_eq!((fresh.lsave, fresh.head), (None, place(512)));
}

#[test]
fn the_worked_tree_reads_back() {
    let (bytes, geometry, at) = (hex(WORKED_LPT), worked(), Location::leb(Leb::new(7)));
    let pnode = Pnode::unpack(&bytes, &geometry, 0, at).unwrap();
    assert_eq!(pnode.lebs[..3], worked_props());
    assert_eq!(pnode.lebs[3], LebProps::empty(15360));
    let root = Nnode::unpack(&bytes[25..], &geometry, 1, 2, at).unwrap();
    assert_eq!(root.branches[0], Some(NnodeBranch { leb: Leb::new(7), offset: 14 }));
    assert_eq!(root.branches[1..], [None; 3]);
    let table = SpaceTable::unpack(&bytes[36..], &geometry, at).unwrap();
    assert_eq!(table.lebs, [(14848, 466), (15360, 0)]);
}

#[test]
fn the_big_tree_has_the_bytes_of_the_specification() {
    let geometry = big(3);
    let empty = LebProps::empty(15872);
    let props = [
        LebProps { free: 15360, dirty: 352, index: false },
        empty,
        LebProps { free: 15360, dirty: 464, index: true },
    ];
    let fresh = fresh::build(&geometry, &props, Leb::new(33)).unwrap();
    let bytes = &fresh.lebs[0];
    assert_eq!(bytes[..16], hex("3b430000c0b300f00100f03a087c0000"));
    assert_eq!(bytes[16..29], hex("11520140000010004000000100"));
    assert_eq!(bytes[81..94], hex("5f5e1100200210004000000100"));
    assert_eq!(fresh.root.offset, 81);
    assert_eq!(fresh.lsave.unwrap().offset, 94);
    let at = Location::Whole;
    let save = SaveTable::unpack(&bytes[94..], &geometry, at).unwrap();
    assert_eq!(save.lebs[..4], [33, 34, 35, 33].map(Leb::new));
    assert_eq!(save.lebs.len(), 256);
    // The table of the specification; its writer chooses LEB numbers independently of the volume.
    let full = SaveTable { lebs: (33..33 + 256).map(Leb::new).collect() };
    assert_eq!(full.pack(&geometry)[..2], 0x56C4_u16.to_le_bytes());
    assert!(Pnode::unpack(bytes, &geometry, 0, at).is_ok());
    assert!(matches!(
        Pnode::unpack(bytes, &geometry, 1, at),
        Err(LptError::Field { field: "number", .. })
    ));
}

#[test]
fn inner_nodes_are_numbered_by_their_path() {
    let geometry = big(5967);
    assert_eq!(geometry.height, 6);
    assert_eq!(geometry.nnode_number(6, 0), 1);
    assert_eq!(geometry.nnode_number(1, 0), 0x400);
    assert_eq!(geometry.nnode_number(5, 3), 4 + 3);
    // Branch 1 of the root, then branch 2: the lowest digit is the root's.
    assert_eq!(geometry.nnode_number(4, 6), 16 + 1 + 2 * 4);
}

#[test]
fn damage_is_refused() {
    let (geometry, at) = (worked(), Location::Whole);
    let good = hex(WORKED_LPT);
    let mut bytes = good.clone();
    bytes[5] ^= 1;
    assert!(matches!(Pnode::unpack(&bytes, &geometry, 0, at), Err(LptError::Crc { .. })));
    assert!(matches!(
        Pnode::unpack(&good[..13], &geometry, 0, at),
        Err(LptError::Short { found: 13, expected: 14, .. })
    ));
    assert!(matches!(
        Nnode::unpack(&good[14..], &geometry, 0, 1, at).map(|node| node.branches[0]),
        Ok(Some(_))
    ));
    assert!(SpaceTable::unpack(&good, &geometry, at).is_err());
    let mut props = worked_props();
    props[0] = LebProps { free: 11776, dirty: 3592, index: false };
    let pnode = Pnode { number: 0, lebs: [props[0]; 4] }.pack(&geometry);
    let error = Pnode::unpack(&pnode, &geometry, 0, at).unwrap_err();
    assert_eq!(error.to_string(), "image: LPT leaf: dirty / 8 is 449, expected 448");
    let pnode = Pnode { number: 0, lebs: [LebProps { free: 8, ..props[1] }; 4] }.pack(&geometry);
    assert!(Pnode::unpack(&pnode, &geometry, 0, at).is_err());
    let table = SpaceTable { lebs: vec![(15360, 1), (0, 0)] }.pack(&geometry);
    assert!(SpaceTable::unpack(&table, &geometry, at).is_err());
}

fn any_props() -> impl Strategy<Value = LebProps> {
    (0_u32..=31, any::<u32>(), any::<bool>()).prop_map(|(pages, dirty, index)| {
        let free = (pages * 512).min(15872);
        LebProps { free, dirty: dirty % ((15872 - free) / 8 + 1) * 8, index }
    })
}

proptest! {
    #[test]
    fn a_whole_tree_reads_back_and_its_space_table_is_true(
        props in prop::collection::vec(any_props(), 3..900),
    ) {
        let geometry = big(props.len() as u32);
        let main_first = Leb::new(33);
        let fresh = fresh::build(&geometry, &props, main_first).unwrap();
        let at = Location::Whole;
        let bytes = |place: LptPlace| &fresh.lebs[place.leb.index() - 24][place.offset as usize..];
        let mut level = vec![fresh.root];
        let mut live = [0_u32; 8];
        let mut count = |place: LptPlace, size: u32| live[place.leb.index() - 24] += size;
        for height in (1..=geometry.height).rev() {
            let mut below = Vec::new();
            for (index, place) in (0..).zip(&level) {
                count(*place, geometry.nnode_size);
                let number = geometry.nnode_number(height, index);
                let node = Nnode::unpack(bytes(*place), &geometry, number, height, at).unwrap();
                below.extend(node.branches.iter().flatten().map(|branch| LptPlace {
                    leb: branch.leb,
                    offset: branch.offset,
                }));
            }
            level = below;
        }
        let mut read = Vec::new();
        for (number, place) in (0..).zip(&level) {
            count(*place, geometry.pnode_size);
            read.extend(Pnode::unpack(bytes(*place), &geometry, number, at).unwrap().lebs);
        }
        prop_assert_eq!(&read[..props.len()], &props[..]);
        prop_assert!(read[props.len()..].iter().all(|leb| *leb == LebProps::empty(15872)));
        count(fresh.lsave.unwrap(), geometry.lsave_size as u32);
        count(fresh.ltab, geometry.ltab_size as u32);
        let table = SpaceTable::unpack(bytes(fresh.ltab), &geometry, at).unwrap();
        for (live, (free, dirty)) in live.iter().zip(&table.lebs) {
            prop_assert_eq!(15872 - free - dirty, *live);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let (geometry, at) = (worked(), Location::Whole);
        let _ = Pnode::unpack(&bytes, &geometry, 0, at);
        let _ = Nnode::unpack(&bytes, &geometry, 1, 2, at);
        let _ = SpaceTable::unpack(&bytes, &geometry, at);
        let _ = SaveTable::unpack(&bytes, &geometry, at);
    }
}
