//! Recipes of raw dumps: any bytes are explained or not, within the time that a dump of that size takes.
#![no_main]

use eraseblock_nand_recipe::{Hints, detect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, dump)) = data.split_first() else { return };
    let shape =
        [None, Some((512, 16)), Some((2048, 64)), Some((2048, 128))][usize::from(choice % 4)];
    let hints = Hints { magics: vec![b"UBI#".to_vec()], shape, ..Hints::default() };
    let _ = detect(&dump.to_vec(), &hints);
});
