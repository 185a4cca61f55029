//! What dumps say about themselves: headers that boot ROMs read.

use crate::error::RecipeError;
use crate::recipe::Recipe;
use crate::table;
use eraseblock_mtd::ReadAt;

/// Bytes at the start of a dump that are looked at.
const LOOKED_AT: usize = 1 << 20;
/// Repetitions of the word of a PMECC at the start of page 0.
const PMECC_WORDS: usize = 52;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// As text.
    pub(crate) clues: Vec<String>,
    /// Recipes that follow from it.
    pub(crate) recipes: Vec<Recipe>,
}

/// Looks for headers.
pub(crate) fn read(dump: &dyn ReadAt) -> Result<Described, RecipeError> {
    let size = usize::try_from(dump.size()?).unwrap_or(LOOKED_AT).min(LOOKED_AT);
    let mut start = vec![0; size];
    dump.read_exact_at(&mut start, 0)?;
    let mut described = Described::default();
    if let Some(word) = pmecc_word(&start) {
        pmecc(word, &mut described);
    }
    for (magic, at, what) in [
        (&b"FCB "[..], 4, "an FCB of an i.MX boot ROM"),
        (b"BOOTLOADER!", 0, "the boot header of a MediaTek NFI"),
        (b"NFIINFO", 0, "the boot header of a MediaTek NFI"),
        (b"eGON.BT0", 4, "a boot0 of an Allwinner boot ROM"),
        (b"ONFI", 0, "an ONFI parameter page"),
    ] {
        let found = start.windows(magic.len()).position(|window| window == magic);
        if let Some(found) = found.filter(|found| *found >= at) {
            described.clues.push(format!("byte {}: {what}", found - at));
        }
    }
    Ok(described)
}

/// Returns the word that the boot ROM of an Atmel chip reads, repeated at the start of the dump.
fn pmecc_word(start: &[u8]) -> Option<u32> {
    let (words, _) = start.as_chunks::<4>();
    let first = words.first()?;
    let is_repeated = words.get(..PMECC_WORDS)?.iter().all(|word| word == first);
    let word = u32::from_le_bytes(*first);
    (is_repeated && word >> 28 == 0xC && word & 1 == 1).then_some(word)
}

/// Reads the fields of the word: sectors, spare bytes, strength, sector size, offset of the parity.
fn pmecc(word: u32, described: &mut Described) {
    let sectors = 1_u32 << (word >> 1 & 7);
    let spare = word >> 4 & 0x1FF;
    let strength = [2_u16, 4, 8, 12, 24].get((word >> 13 & 7) as usize).copied();
    let step = [512, 1024][usize::from(word >> 16 & 3 > 0)];
    let offset = word >> 18 & 0x1FF;
    let page = sectors * step;
    described.clues.push(format!(
        "byte 0: the word of an Atmel boot ROM, {word:#010x}: pages of {page} and {spare} bytes, parity at {offset}"
    ));
    let Some(strength) = strength else { return };
    let family = if step == 512 { "atmel-pmecc" } else { "atmel-pmecc-1k" };
    let suffix = format!(":t{strength}");
    let same = |recipe: &&Recipe| recipe.name().ends_with(&suffix);
    let all = table::families().find(|known| known.name == family).map(table::Family::recipes);
    let Some(known) = all.iter().flatten().find(same) else { return };
    let mut recipe = known.clone();
    recipe.chip.name = format!("{family}:{page}+{spare}{suffix}:at{offset}");
    (recipe.chip.page, recipe.chip.oob) = (page, spare);
    recipe.chip.pages_per_block = table::usual_pages(page);
    if let Some(marker) = &mut recipe.chip.bad {
        marker.byte = page;
    }
    let region = &mut recipe.regions[0];
    let bits: u32 = region.codewords[0].parity.iter().map(|range| range.count()).sum();
    region.codewords =
        table::steps(page, step, bits, |index| page + offset + index * bits.div_ceil(8));
    if recipe.check().is_ok() {
        described.recipes.push(recipe);
    }
}
