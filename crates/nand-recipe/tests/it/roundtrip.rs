//! Encoding and decoding: what comes back, what is counted, and what is reported as lost.

use crate::support::{Random, decoded, image};
use eraseblock_base::Severity;
use eraseblock_nand_recipe::bits::BitRange;
use eraseblock_nand_recipe::recipe::Code;
use eraseblock_nand_recipe::scrambler::Scrambler;
use eraseblock_nand_recipe::table::{Family, families, find};
use eraseblock_nand_recipe::{
    Damaged, DecodeOptions, Outcome, Recipe, RecipeError, decode, encode,
};

fn encoded(image: &[u8], recipe: &Recipe) -> Vec<u8> {
    let mut dump = Vec::new();
    encode(&image.to_vec(), recipe, &mut dump).unwrap();
    dump
}

#[test]
fn every_builtin_recipe_returns_the_image() {
    for recipe in families().flat_map(Family::recipes) {
        let image = image(recipe.chip.page as usize, 8, 1, 5);
        let dump = encoded(&image, &recipe);
        assert_eq!(dump.len(), 8 * recipe.raw_page());
        let (out, counts, findings) = decoded(&dump, &recipe);
        assert!(out == image, "{}", recipe.name());
        assert!(findings.is_empty() && counts.corrected_bits == 0, "{}", recipe.name());
    }
}

fn strength(recipe: &Recipe) -> u16 {
    match &recipe.regions[0].code {
        Code::Bch { t, .. } | Code::Rs { t, .. } => *t,
        Code::Hamming { .. } => 1,
        Code::None => 0,
    }
}

#[test]
fn what_cannot_be_corrected_is_zeros_and_a_finding() {
    for name in ["linux-bch8:2048+64", "gpmi:2048+64", "hisi-balong", "linux-hamming"] {
        let recipe = find(name).unwrap();
        let page = recipe.chip.page as usize;
        let mut random = Random(9);
        let image = random.bytes(2 * page);
        let mut dump = encoded(&image, &recipe);
        // All flips are in the first codeword, after its leading spare bytes.
        let flips = usize::from(strength(&recipe)) + 1;
        for flip in 0..flips {
            dump[recipe.raw_page() + 20 + 11 * flip] ^= 1;
        }
        let (out, counts, findings) = decoded(&dump, &recipe);
        assert_eq!(counts.uncorrectable, 1, "{name}");
        assert_eq!(out[..page], image[..page]);
        assert!(out[page + 20..page + 200].iter().all(|byte| *byte == 0), "{name}");
        assert_eq!(out[page + 1100..2 * page - 300], image[page + 1100..2 * page - 300], "{name}");
        let finding = findings.iter().next().unwrap();
        assert_eq!((finding.severity, findings.iter().count()), (Severity::Error, 1));
        assert!(finding.message.contains("block 0, page 1, codeword 0"), "{}", finding.message);
        let (mut kept, mut lost) = (Vec::new(), eraseblock_base::Findings::new());
        let options = DecodeOptions { damaged: Damaged::AsRead };
        decode(&dump, &recipe, options, &mut kept, &mut lost, &mut |_, _| Ok(())).unwrap();
        let differing = kept.iter().zip(&image).filter(|(left, right)| left != right).count();
        assert!((1..=flips).contains(&differing) && lost.has_problems(), "{name} {differing}");
    }
}

#[test]
fn erased_pages_with_leaked_bits_are_erased() {
    for name in ["qcom-bch8", "linux-bch8:2048+64", "gpmi:2048+64", "brcm-bch4"] {
        let recipe = find(name).unwrap();
        let mut dump = vec![0xFF; recipe.raw_page()];
        for at in [3, 70, 400] {
            dump[at] ^= 0x10;
        }
        let (out, counts, findings) = decoded(&dump, &recipe);
        assert!(out.iter().all(|byte| *byte == 0xFF), "{name}");
        assert_eq!(counts.leaked_bits + counts.corrected_bits, 3, "{name}");
        assert!(findings.is_empty());
        dump[..300].fill(0x7F);
        let (_, counts, _) = decoded(&dump, &recipe);
        assert!(counts.uncorrectable >= 1, "{name}");
    }
}

#[test]
fn bad_blocks_are_delivered_as_erased() {
    let mut recipe = find("linux-bch4").unwrap();
    recipe.chip.pages_per_block = 4;
    let image = Random(3).bytes(12 * 2048);
    let mut dump = encoded(&image, &recipe);
    // The marker of the second page of block 1, with a bit that reads wrong.
    dump[5 * 2112 + 2048] = 0x01;
    // A single wrong bit is no marker.
    dump[8 * 2112 + 2048] = 0xFE;
    let (out, counts, findings) = decoded(&dump, &recipe);
    assert_eq!(counts.bad_blocks, [1]);
    assert_eq!(out[..4 * 2048], image[..4 * 2048]);
    assert!(out[4 * 2048..8 * 2048].iter().all(|byte| *byte == 0xFF));
    assert_eq!(out[8 * 2048..], image[8 * 2048..]);
    assert_eq!(findings.iter().next().unwrap().code.to_string(), "bad-block");
}

#[test]
fn dumps_and_seeds_that_do_not_fit_are_refused() {
    let recipe = find("linux-bch4").unwrap();
    let (mut out, mut findings) = (Vec::new(), eraseblock_base::Findings::new());
    let options = DecodeOptions { damaged: Damaged::Zeros };
    let mut each = |_, _: Outcome| Ok(());
    let result = decode(&vec![0; 2113], &recipe, options, &mut out, &mut findings, &mut each);
    assert!(matches!(result, Err(RecipeError::Size { size: 2113, unit: 2112, .. })));
    let mut scrambled = recipe;
    scrambled.chip.bad = None;
    let covers = vec![BitRange::bytes(0, 2112)];
    let scrambler = Scrambler { width: 15, taps: 3, skip: 0, seeds: vec![5, 0], covers };
    scrambled.regions[0].scrambler = Some(scrambler);
    let image = vec![0x33; 4096];
    let error = encode(&image, &scrambled, &mut out).unwrap_err().to_string();
    assert!(error.contains("page 1 has no seed"), "{error}");
    // Page 0 alone has one; of what page 1 holds, nothing is delivered.
    let mut dump = Vec::new();
    encode(&image[..2048].to_vec(), &scrambled, &mut dump).unwrap();
    dump.extend(vec![0x33; 2112]);
    let (out, counts, _) = decoded(&dump, &scrambled);
    assert_eq!(counts.uncorrectable, 4);
    assert!(out[..2048] == image[..2048]);
    assert!(out[2048..].iter().all(|byte| *byte == 0));
}
