//! Files without a code: nothing with a code is called likely or certain.

use crate::support::{Random, image};
use eraseblock_nand_recipe::table::find;
use eraseblock_nand_recipe::{Confidence, Hints, detect, encode};

/// A file without a code, of a size that every shape fits now and then.
fn negative(number: u64, random: &mut Random) -> (String, Vec<u8>) {
    let shapes = [(2048, 64), (4096, 224), (512, 16), (4096, 128), (8192, 640), (2048, 128)];
    let (page, oob) = shapes[random.below(shapes.len())];
    let size = (page + oob) * 64;
    let text = |count: usize| -> Vec<u8> {
        (0..count / 8).flat_map(|line| format!("{line:07}\n").into_bytes()).collect()
    };
    let (what, mut bytes) = match number % 7 {
        0 | 1 => ("random", random.bytes(size)),
        2 => ("text", text(size)),
        3 => ("a plain image", image(page, 16, 5, number)),
        4 => {
            // A real dump, read with another stride.
            let recipe = find("linux-bch4").unwrap();
            let mut dump = vec![0x5A; 16 * (1 + random.below(60)) + 4];
            encode(&image(2048, 16, 4, number), &recipe, &mut dump).unwrap();
            ("a wrong stride", dump)
        }
        5 => {
            let mut bytes: Vec<u8> = (0..=255).cycle().take(size).collect();
            for _ in 0..size / 64 {
                let at = random.below(size);
                bytes[at] = random.next().to_le_bytes()[0];
            }
            ("counting", bytes)
        }
        _ => {
            let mut bytes = vec![0xFF; size];
            for _ in 0..size / 16 {
                let at = random.below(size);
                bytes[at] = random.next().to_le_bytes()[0];
            }
            ("sparse", bytes)
        }
    };
    let raw = page + oob;
    bytes.resize(bytes.len().div_ceil(raw) * raw, 0xFF);
    (format!("{what}, {number}, {page}+{oob}"), bytes)
}

#[test]
fn nothing_is_called_likely_where_there_is_no_code() {
    let is_full = std::env::var_os("ERASEBLOCK_NAND").is_some_and(|value| value == "full");
    let count = if is_full { 1000 } else { 21 };
    let mut random = Random(99);
    for number in 0..count {
        let (what, bytes) = negative(number, &mut random);
        // A deep search takes seconds for each shape that fits.
        let shape = (number == 3).then_some((2048, 64)).filter(|_| !is_full);
        let deep = number == 3 || is_full && number % 4 == 3;
        let hints = Hints { deep, shape, magics: vec![b"UBI#".to_vec()], ..Hints::default() };
        let detection = detect(&bytes, &hints).unwrap();
        let best = detection.best().map(|best| (best.recipe.name().to_owned(), best.tally));
        assert!(detection.confidence() < Confidence::Likely, "{what}: {best:?}");
    }
}
