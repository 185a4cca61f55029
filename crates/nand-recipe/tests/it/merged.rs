//! Several dumps of one chip.

use crate::support::{Random, image};
use eraseblock_base::Findings;
use eraseblock_mtd::ReadAt;
use eraseblock_nand_recipe::table::find;
use eraseblock_nand_recipe::{
    Damaged, DecodeOptions, Decoded, Recipe, RecipeError, decode_reads, encode,
};

fn decoded(
    dumps: &[Vec<u8>],
    recipe: &Recipe,
) -> Result<(Vec<u8>, Decoded, Findings), RecipeError> {
    let (mut out, mut findings) = (Vec::new(), Findings::new());
    let options = DecodeOptions { damaged: Damaged::Zeros };
    let dumps: Vec<&dyn ReadAt> = dumps.iter().map(|dump| dump as &dyn ReadAt).collect();
    let all = decode_reads(&dumps, recipe, options, &mut out, &mut findings, &mut |_, _| Ok(()));
    all.map(|decoded| (out, decoded, findings))
}

fn encoded(name: &str, seed: u64) -> (Recipe, Vec<u8>, Vec<u8>) {
    let recipe = find(name).unwrap();
    let image = image(recipe.chip.page as usize, 4, 1, seed);
    let mut dump = Vec::new();
    encode(&image, &recipe, &mut dump).unwrap();
    (recipe, image, dump)
}

/// Codes of both bit orders, interleaved ones, and with codewords that begin within bytes. They see that far
/// more bits are wrong than they correct, which a Hamming code does not.
const NAMES: [&str; 5] =
    ["linux-bch8:2048+64", "gpmi:2048+64", "hisi-balong", "qcom-bch4", "brcm-bch4"];

#[test]
fn a_codeword_is_taken_from_the_first_dump_that_has_it() {
    for name in NAMES {
        let (recipe, image, dump) = encoded(name, 7);
        let raw_page = recipe.raw_page();
        let (mut one, mut other) = (dump.clone(), dump.clone());
        // More than each code corrects: the first codeword of page 1 in one dump, the last bytes of data of
        // page 2 in the other one.
        for at in 0..40 {
            one[raw_page + 20 + 7 * at] ^= 1 << (at % 8);
            other[2 * raw_page + recipe.chip.page as usize - 1 - 7 * at] ^= 1 << (at % 8);
        }
        assert!(decoded(&[one.clone()], &recipe).unwrap().1.uncorrectable > 0, "{name}");
        assert!(decoded(&[other.clone()], &recipe).unwrap().1.uncorrectable > 0, "{name}");
        let (out, counts, findings) = decoded(&[one, other], &recipe).unwrap();
        assert!(out == image && findings.is_empty(), "{name}");
        assert_eq!((counts.uncorrectable, counts.differing_bits), (0, 80), "{name}");
    }
}

#[test]
fn what_no_dump_has_is_what_most_of_them_say() {
    for name in NAMES {
        let (recipe, image, dump) = encoded(name, 8);
        let mut random = Random(3);
        // Other bits are wrong in each dump, more in each codeword than its code corrects.
        let dumps: Vec<Vec<u8>> = (0..3)
            .map(|reader| {
                let mut read = dump.clone();
                for page in 1..3 {
                    for at in (reader..2000).step_by(3) {
                        if random.below(4) == 0 {
                            read[page * recipe.raw_page() + at] ^= 1 << random.below(8);
                        }
                    }
                }
                read
            })
            .collect();
        for two in [&dumps[..2], &dumps[1..]] {
            assert!(decoded(two, &recipe).unwrap().1.uncorrectable >= 4, "{name}");
        }
        let (out, counts, findings) = decoded(&dumps, &recipe).unwrap();
        assert!(out == image && findings.is_empty(), "{name}");
        let flipped = |read: &Vec<u8>| -> u32 {
            read.iter().zip(&dump).map(|(read, byte)| (read ^ byte).count_ones()).sum()
        };
        let flipped: u32 = dumps.iter().map(flipped).sum();
        assert!(flipped > 500);
        assert_eq!(counts.differing_bits, u64::from(flipped), "{name}");
    }
}

#[test]
fn markers_of_bad_blocks_are_those_of_most_dumps() {
    let (mut recipe, image, dump) = encoded("linux-bch4", 9);
    recipe.chip.pages_per_block = 2;
    let mut marked = dump.clone();
    marked[2 * 2112 + 2048] = 0;
    let dumps = [marked.clone(), dump.clone(), dump.clone()];
    let (out, counts, _) = decoded(&dumps, &recipe).unwrap();
    assert!(out == image && counts.bad_blocks.is_empty() && counts.differing_bits == 8);
    let (_, counts, _) = decoded(&[dump.clone(), marked.clone(), marked], &recipe).unwrap();
    assert_eq!((counts.bad_blocks, counts.differing_bits), (vec![1], 0));
}

#[test]
fn dumps_of_other_sizes_are_refused() {
    let (recipe, _, dump) = encoded("linux-bch4", 9);
    let error = decoded(&[dump.clone(), dump[2112..].to_vec()], &recipe).unwrap_err();
    assert_eq!(
        error.to_string(),
        "another dump has 6336 bytes, expected the 8448 of the first one"
    );
}
