//! Dumps of the encoder in Python, which shares nothing with this crate: the recipe is named, the
//! image comes back byte for byte, and the wrong bits are counted exactly.
//!
//! With ERASEBLOCK_NAND=full all recipes and more dumps are tried, which takes minutes.

use crate::support::{decoded, image, judged};
use eraseblock_nand_recipe::table::families;
use eraseblock_nand_recipe::{Confidence, Hints, Recipe, detect};

fn is_full() -> bool {
    std::env::var_os("ERASEBLOCK_NAND").is_some_and(|value| value == "full")
}

fn hints() -> Hints {
    Hints { magics: vec![b"UBI#".to_vec()], ..Hints::default() }
}

/// The recipes to try: the usual shape of each family, or all of them.
fn recipes() -> Vec<Recipe> {
    let take = if is_full() { usize::MAX } else { 1 };
    families().flat_map(|family| family.recipes().into_iter().take(take)).collect()
}

#[test]
fn every_recipe_is_named_and_decodes_with_its_errors_counted() {
    for recipe in recipes() {
        let name = recipe.name();
        let page = recipe.chip.page as usize;
        let blocks = if is_full() || page < 1024 { 8 } else { 5 };
        let image = image(page, 16, blocks, 11);
        // Bytes under the marker of a chip are data in some layouts, so that it marks nothing there.
        let marker = recipe.chip.bad.is_some();
        let bad = if marker { "bad=1" } else { "bad=" };
        let (dump, flipped) = judged(&image, name, &["ppb=16", bad, "flips=-1", "share=40"]);
        let detection = detect(&dump, &hints()).unwrap();
        let best = detection.best().unwrap_or_else(|| panic!("{name}: nothing found"));
        let found = &best.recipe;
        assert_eq!(
            (found.name(), best.confidence()),
            (name, Confidence::Certain),
            "{:?}",
            best.tally
        );
        let others: Vec<&str> = detection.equals().map(|other| other.recipe.name()).collect();
        assert!(others.is_empty(), "{name}: also {others:?}");
        assert_eq!(found.chip.pages_per_block, 16, "{name}");
        let (mut out, counts, findings) = decoded(&dump, found);
        if marker {
            assert_eq!(counts.bad_blocks, [1], "{name}");
            let block = 16 * page;
            assert!(out[block..2 * block].iter().all(|byte| *byte == 0xFF), "{name}");
            out[block..2 * block].copy_from_slice(&image[block..2 * block]);
        }
        assert!(out == image, "{name}");
        assert_eq!(
            (counts.corrected_bits, counts.uncorrectable),
            (flipped, 0),
            "{name}: {findings:?}"
        );
        assert!(flipped > 0, "{name}");
    }
}

#[test]
fn boot_blocks_get_a_region() {
    let image = image(2048, 16, 8, 21);
    let keys = ["ppb=16", "boot=omap-bch8-hw:2048+64", "boot_blocks=2", "flips=2", "share=20"];
    let (dump, flipped) = judged(&image, "linux-bch4:2048+64", &keys);
    let detection = detect(&dump, &hints()).unwrap();
    let best = detection.best().unwrap();
    assert_eq!(best.confidence(), Confidence::Certain, "{:?}", best.tally);
    assert_eq!(best.recipe.regions.len(), 2);
    assert_eq!(best.recipe.regions[0].blocks.end, Some(2));
    let again = Recipe::parse(&best.recipe.to_text()).unwrap();
    let (out, counts, _) = decoded(&dump, &again);
    assert!(out == image);
    assert_eq!((counts.corrected_bits, counts.uncorrectable), (flipped, 0));
}

#[test]
fn a_scrambler_is_found() {
    let image = image(8192, 128, 2, 31);
    let (dump, flipped) =
        judged(&image, "sunxi:8192+640:t40", &["ppb=128", "scramble=5", "flips=10", "share=30"]);
    assert!(detect(&dump, &hints()).unwrap().confidence() == Confidence::None);
    let deep = Hints { deep: true, ..hints() };
    let detection = detect(&dump, &deep).unwrap();
    let best = detection.best().unwrap_or_else(|| panic!("{:?}", detection.clues));
    let name = best.recipe.name();
    assert!(name.starts_with("sunxi:8192+640:t40"), "{name}");
    assert_eq!(best.confidence(), Confidence::Certain, "{:?} {:?}", best.tally, detection.clues);
    let (out, counts, findings) = decoded(&dump, &best.recipe);
    assert_eq!((counts.corrected_bits, counts.uncorrectable), (flipped, 0), "{findings:?}");
    assert!(out == image);
}

#[test]
fn codes_outside_of_the_table_are_found_blind() {
    let few = [
        "own:2048+64:13.3e41.4:512:lsb:u0:1234567890abcd",
        "own:2048+64:13.2a33.6:512:msb:e:natural",
        "own:4096+224:14.77d5.16:1024:lsb:u6:none",
    ];
    let many = [
        "own:2048+64:15.8003.8:2048:msb:e:1234567890abcdef1234567890abcd",
        "own:4096+256:14.54e1.24:1024:lsb:i4:none",
        "own:2048+64:13.2a33.8:512:lsb:i1:natural",
        "own:4096+224:15.e0b7.12:2048:msb:u2:none",
        "own:8192+640:14.77d5.40:1024:msb:u4:natural",
        "own:8192+448:15.8add.24:2048:lsb:e:none",
    ];
    let rest = if is_full() { &many[..] } else { &[] };
    for name in few.iter().chain(rest) {
        let page = if name.contains("2048+") {
            2048
        } else if name.contains("4096+") {
            4096
        } else {
            8192
        };
        let image = image(page, 32, 2, 41);
        let (dump, flipped) = judged(&image, name, &["ppb=32", "flips=-1", "share=3"]);
        let deep = Hints { deep: true, ..hints() };
        let detection = detect(&dump, &deep).unwrap();
        let best =
            detection.best().unwrap_or_else(|| panic!("{name}: nothing, {:?}", detection.clues));
        assert_eq!(
            best.confidence(),
            Confidence::Certain,
            "{name} {:?}\n{}",
            best.tally,
            best.recipe.to_text()
        );
        let (out, counts, findings) = decoded(&dump, &best.recipe);
        assert_eq!(
            (counts.corrected_bits, counts.uncorrectable),
            (flipped, 0),
            "{name} {findings:?}"
        );
        assert!(out == image, "{name}");
    }
}
