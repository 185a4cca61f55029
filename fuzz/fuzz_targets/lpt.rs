//! LPT nodes: what unpacks packs to bytes that unpack alike.
#![no_main]

use eraseblock_base::{Leb, Location};
use eraseblock_fuzz::{LEB_SIZE, MIN_IO};
use eraseblock_ubifs_format::lpt::{LptGeometry, LptInputs, Nnode, Pnode, SaveTable, SpaceTable};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for big in [false, true] {
        let geometry = LptGeometry::new(LptInputs {
            leb_size: LEB_SIZE,
            min_io: MIN_IO,
            main_lebs: 50,
            leb_cnt: 64,
            max_leb_cnt: 1000,
            lpt_first: Leb::new(7),
            lpt_lebs: 2,
            lsave_cnt: 256,
            big,
        });
        let at = Location::Whole;
        if let Ok(node) = Pnode::unpack(data, &geometry, 3, at) {
            assert_eq!(Pnode::unpack(&node.pack(&geometry), &geometry, 3, at), Ok(node));
        }
        if let Ok(node) = Nnode::unpack(data, &geometry, 3, 1, at) {
            assert_eq!(Nnode::unpack(&node.pack(&geometry), &geometry, 3, 1, at), Ok(node));
        }
        if let Ok(table) = SpaceTable::unpack(data, &geometry, at) {
            assert_eq!(SpaceTable::unpack(&table.pack(&geometry), &geometry, at), Ok(table));
        }
        if let Ok(table) = SaveTable::unpack(data, &geometry, at) {
            assert_eq!(SaveTable::unpack(&table.pack(&geometry), &geometry, at), Ok(table));
        }
    }
});
