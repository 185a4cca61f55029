//! The built-in recipes (spec: nand-recipe 4), by family and shape.

use crate::bits::BitRange;
use crate::evidence::Evidence;
use crate::recipe::{
    Blocks, ChipShape, Code, Codeword, Erased, HammingVariant, Invert, Marker, MarkerPages, Order,
    Recipe, Region, Swap,
};

/// A family of recipes: one controller or driver, in the shapes that it is usual with.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What the table knows it from.
    pub evidence: Evidence,
    build: fn(&'static str) -> Vec<Recipe>,
}

impl Family {
    /// Returns the recipes of the family, the usual shape first.
    pub fn recipes(&self) -> Vec<Recipe> {
        (self.build)(self.name)
    }
}

/// The polynomials of the table.
const P13: u32 = 0x201B;
const P14_LINUX: u32 = 0x402B;
const P14_MTK: u32 = 0x4443;
const P14_BRCM: u32 = 0x5803;

/// Shapes of large pages: page, spare bytes.
const SHAPES: [(u32, u32); 9] = [
    (2048, 64),
    (2048, 128),
    (4096, 128),
    (4096, 224),
    (4096, 256),
    (8192, 256),
    (8192, 448),
    (8192, 640),
    (8192, 744),
];

/// All families.
pub const FAMILIES: [Family; 20] = [
    family("linux-hamming", "Linux, software Hamming", Evidence::Vector, linux_hamming),
    family("linux-bch4", "Linux, software BCH, 4 bits in 512 bytes", Evidence::Vector, linux_bch4),
    family("linux-bch8", "Linux, software BCH, 8 bits in 512 bytes", Evidence::Vector, linux_bch8),
    family(
        "linux-bch-max",
        "Linux, software BCH, 1024 bytes, strongest",
        Evidence::Source,
        linux_max,
    ),
    family("atmel-pmecc", "Atmel and Microchip PMECC, 512 bytes", Evidence::Vector, pmecc_512),
    family("atmel-pmecc-1k", "Atmel and Microchip PMECC, 1024 bytes", Evidence::Recalled, pmecc_1k),
    family("omap-bch8-hw", "TI OMAP and AM335x ELM, 8 bits", Evidence::Vector, omap_bch8),
    family("omap-bch4-hw", "TI OMAP and AM335x ELM, 4 bits", Evidence::Recalled, omap_bch4),
    family("omap-bch16-hw", "TI OMAP and AM335x ELM, 16 bits", Evidence::Recalled, omap_bch16),
    family("omap-bch-sw", "TI OMAP, BCH corrected in software", Evidence::Source, omap_sw),
    family("qnx-ifs-bch4", "QNX boot file systems of car units", Evidence::Source, qnx),
    family("qcom-bch4", "Qualcomm NANDc, 4 bits", Evidence::Source, qcom_bch4),
    family("qcom-bch8", "Qualcomm NANDc, 8 bits", Evidence::Source, qcom_bch8),
    family("brcm-bch4", "Broadcom BRCMNAND, 4 bits", Evidence::Source, brcm_bch4),
    family("brcm-bch8", "Broadcom BRCMNAND 5 and later, 8 bits", Evidence::Vector, brcm_bch8),
    family("mtk-nfi", "MediaTek NFI", Evidence::Source, mtk),
    family("sunxi", "Allwinner NFC, not scrambled", Evidence::Source, sunxi),
    family("gpmi", "NXP i.MX GPMI with BCH", Evidence::Source, gpmi),
    family("hisi-balong", "HiSilicon Balong", Evidence::Source, hisi),
    family("amlogic-bch8", "Amlogic, 8 bits", Evidence::Vector, amlogic),
];

/// Families that are found last, because others are more frequent.
pub const RARE: [Family; 2] = [
    family("fsl-ifc", "Freescale IFC and eLBC, 4 bits", Evidence::Source, fsl),
    family("qcom-rs", "Qualcomm NANDc, Reed-Solomon", Evidence::Recalled, qcom_rs),
];

const fn family(
    name: &'static str,
    about: &'static str,
    evidence: Evidence,
    build: fn(&'static str) -> Vec<Recipe>,
) -> Family {
    Family { name, about, evidence, build }
}

/// Returns all families.
pub fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().chain(&RARE)
}

/// Returns a recipe by its name: that of a family, for its usual shape, or a full one.
pub fn find(name: &str) -> Option<Recipe> {
    let family = name.split(':').next()?;
    let mut recipes = families().find(|known| known.name == family)?.recipes().into_iter();
    if family == name { recipes.next() } else { recipes.find(|recipe| recipe.name() == name) }
}

/// Returns the usual number of pages in a block.
pub fn usual_pages(page: u32) -> u32 {
    match page {
        0..1024 => 32,
        1024..8192 => 64,
        _ => 128,
    }
}

/// The parts of a recipe that differ between families.
struct Layout {
    code: Code,
    order: Order,
    invert: Invert,
    erased: Erased,
    codewords: Vec<Codeword>,
}

impl Layout {
    fn bch(m: u32, t: u16, poly: u32, erased: Erased, codewords: Vec<Codeword>) -> Self {
        let code = Code::Bch { m, t, poly };
        Self { code, order: Order::Msb, invert: Invert::None, erased, codewords }
    }

    fn lsb(self) -> Self {
        Self { order: Order::Lsb, ..self }
    }

    fn inverted(self) -> Self {
        Self { invert: Invert::Both, ..self }
    }

    fn recipe(self, family: &str, suffix: &str, page: u32, oob: u32) -> Recipe {
        let name = format!("{family}:{page}+{oob}{suffix}");
        let byte = if page <= 512 { page + 5 } else { page };
        let bad = Some(Marker { byte, pages: MarkerPages::FirstTwo });
        let chip = ChipShape { name, page, oob, pages_per_block: usual_pages(page), bad };
        let region = Region {
            blocks: Blocks::ALL,
            code: self.code,
            order: self.order,
            invert: self.invert,
            erased: self.erased,
            xor: None,
            swap: None,
            zeros: Vec::new(),
            scrambler: None,
            codewords: self.codewords,
        };
        Recipe { chip, regions: vec![region] }
    }
}

fn bytes(start: u32, count: u32) -> Vec<BitRange> {
    vec![BitRange::bytes(start, count)]
}

/// Returns codewords over consecutive steps of data, with parity bits at `place(step)`.
pub(crate) fn steps(
    page: u32,
    step: u32,
    parity_bits: u32,
    place: impl Fn(u32) -> u32,
) -> Vec<Codeword> {
    let word = |index: u32| Codeword {
        data: bytes(index * step, step),
        parity: vec![BitRange::bits(place(index) * 8, parity_bits)],
        ..Codeword::default()
    };
    (0..page / step).map(word).collect()
}

fn linux_hamming(name: &str) -> Vec<Recipe> {
    let recipe = |(page, oob): (u32, u32)| {
        let place = |index: u32| match oob {
            // Bytes 4 and 5 of small pages hold the marker.
            16 if index == 0 => vec![BitRange::bytes(512, 3)],
            16 => vec![BitRange::bytes(515, 1), BitRange::bytes(518, 2)],
            64 => bytes(page + 40 + 3 * index, 3),
            _ => bytes(page + 80 + 3 * index, 3),
        };
        let word = |index: u32| Codeword {
            data: bytes(index * 256, 256),
            parity: place(index),
            ..Codeword::default()
        };
        let layout = Layout {
            code: Code::Hamming { step: 256, variant: HammingVariant::Linux },
            order: Order::Msb,
            invert: Invert::None,
            erased: Erased::Natural,
            codewords: (0..page / 256).map(word).collect(),
        };
        layout.recipe(name, "", page, oob)
    };
    [(2048, 64), (512, 16), (2048, 128), (4096, 128), (4096, 224), (4096, 256)].map(recipe).into()
}

fn linux_bch(name: &str, strength: u16) -> Vec<Recipe> {
    let bits = 13 * u32::from(strength);
    let each = bits.div_ceil(8);
    let recipe = |(page, oob): (u32, u32)| {
        let count = page / 512;
        let start = page + oob.checked_sub(count * each)?;
        // The first two spare bytes hold the marker.
        (start >= page + 2).then_some(())?;
        let words = steps(page, 512, bits, |index| start + index * each);
        Some(Layout::bch(13, strength, P13, Erased::Natural, words).recipe(name, "", page, oob))
    };
    SHAPES.into_iter().filter_map(recipe).collect()
}

fn linux_bch4(name: &str) -> Vec<Recipe> {
    linux_bch(name, 4)
}

fn linux_bch8(name: &str) -> Vec<Recipe> {
    linux_bch(name, 8)
}

fn linux_max(name: &str) -> Vec<Recipe> {
    let recipe = |(page, oob): (u32, u32)| {
        let count = page / 1024;
        let strength = u16::try_from((oob - 2) / count * 8 / 14).ok()?;
        let bits = 14 * u32::from(strength);
        let each = bits.div_ceil(8);
        let start = page + oob - count * each;
        let words = steps(page, 1024, bits, |index| start + index * each);
        let layout = Layout::bch(14, strength, P14_LINUX, Erased::Natural, words);
        (strength <= 72).then(|| layout.recipe(name, "", page, oob))
    };
    SHAPES.into_iter().filter_map(recipe).collect()
}

fn pmecc(name: &str, step: u32, m: u32, poly: u32, strengths: &[u16]) -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for (page, oob) in SHAPES {
        for strength in strengths {
            let bits = m * u32::from(*strength);
            let each = bits.div_ceil(8);
            let total = page / step * each;
            if total + 2 > oob {
                continue;
            }
            let start = page + oob - total;
            let words = steps(page, step, bits, |index| start + index * each);
            let layout = Layout::bch(m, *strength, poly, Erased::Natural, words).lsb();
            recipes.push(layout.recipe(name, &format!(":t{strength}"), page, oob));
        }
    }
    // The usual one of 2048 and 64 bytes.
    recipes.sort_by_key(|recipe| !recipe.name().ends_with(":2048+64:t4"));
    recipes
}

fn pmecc_512(name: &str) -> Vec<Recipe> {
    pmecc(name, 512, 13, P13, &[2, 4, 8, 12, 24])
}

fn pmecc_1k(name: &str) -> Vec<Recipe> {
    pmecc(name, 1024, 14, P14_MTK, &[2, 4, 8, 12, 24])
}

/// Returns recipes with parity from byte 2 of the spare bytes, `each` bytes a step, of which those
/// after the parity are zeros if they are `padded`.
fn from_two(name: &str, strength: u16, each: u32, erased: Erased) -> Vec<Recipe> {
    let bits = 13 * u32::from(strength);
    let fits = |(page, oob): &(u32, u32)| page / 512 * each + 2 <= *oob;
    let recipe = |(page, oob): (u32, u32)| {
        let place = |index: u32| page + 2 + index * each;
        let words = steps(page, 512, bits, place);
        let suffix =
            if erased == Erased::Natural { format!(":t{strength}") } else { String::new() };
        let layout = Layout::bch(13, strength, P13, erased, words);
        let mut recipe = layout.recipe(name, &suffix, page, oob);
        let rest = each * 8 - bits;
        if erased == Erased::Count && rest > 0 {
            let pad = |index: u32| BitRange::bits(place(index) * 8 + bits, rest);
            recipe.regions[0].zeros = (0..page / 512).map(pad).collect();
        }
        recipe
    };
    SHAPES.into_iter().filter(fits).map(recipe).collect()
}

fn omap_bch8(name: &str) -> Vec<Recipe> {
    from_two(name, 8, 14, Erased::Count)
}

fn omap_bch4(name: &str) -> Vec<Recipe> {
    from_two(name, 4, 8, Erased::Count)
}

fn omap_bch16(name: &str) -> Vec<Recipe> {
    from_two(name, 16, 26, Erased::Count)
}

fn omap_sw(name: &str) -> Vec<Recipe> {
    let mut recipes = from_two(name, 4, 8, Erased::Natural);
    recipes.extend(from_two(name, 8, 14, Erased::Natural));
    recipes
}

fn qnx(name: &str) -> Vec<Recipe> {
    let word = |index: u32| Codeword {
        data: bytes(index * 512, 512),
        spare: bytes(2048 + index * 4, 4),
        // The controller stores the parity at the low end of its seven bytes.
        parity: vec![BitRange::bits((2064 + 7 * index) * 8 + 4, 52)],
        ..Codeword::default()
    };
    let words = (0..4).map(word).collect();
    let mut recipe = Layout::bch(13, 4, P13, Erased::Count, words).recipe(name, "", 2048, 64);
    recipe.regions[0].zeros =
        (0..4).map(|index| BitRange::bits((2064 + 7 * index) * 8, 4)).collect();
    vec![recipe]
}

/// Returns codewords of 516 bytes in chunks, around the marker of the chip. The last one has fewer
/// data bytes, and spare bytes instead.
fn qcom_words(page: u32, chunk: u32, parity_bits: u32) -> Vec<Codeword> {
    let count = page / 512;
    let marker = page - (count - 1) * chunk;
    let last = page - (count - 1) * 516;
    let word = |index: u32| {
        let start = index * chunk;
        let data = if index + 1 == count { last } else { 516 };
        let after = BitRange::bytes(start + marker + 1, data - marker);
        let rest = 516 - data;
        let spare = if rest > 0 { bytes(start + data + 1, rest) } else { Vec::new() };
        Codeword {
            data: vec![BitRange::bytes(start, marker), after],
            spare,
            parity: vec![BitRange::bits((start + 517) * 8, parity_bits)],
            ..Codeword::default()
        }
    };
    (0..count).map(word).collect()
}

fn qcom(name: &str, chunk: u32, code: &Code, parity_bits: u32) -> Vec<Recipe> {
    let fits = |(page, oob): &(u32, u32)| *page <= 4096 && page / 512 * chunk <= page + oob;
    let recipe = |(page, oob): (u32, u32)| {
        let layout = Layout {
            code: code.clone(),
            order: Order::Msb,
            invert: Invert::None,
            erased: Erased::Count,
            codewords: qcom_words(page, chunk, parity_bits),
        };
        layout.recipe(name, "", page, oob)
    };
    SHAPES.into_iter().filter(fits).map(recipe).collect()
}

fn qcom_bch4(name: &str) -> Vec<Recipe> {
    qcom(name, 528, &Code::Bch { m: 13, t: 4, poly: P13 }, 52)
}

fn qcom_bch8(name: &str) -> Vec<Recipe> {
    qcom(name, 532, &Code::Bch { m: 13, t: 8, poly: P13 }, 104)
}

fn qcom_rs(name: &str) -> Vec<Recipe> {
    qcom(name, 528, &Code::Rs { m: 10, t: 4, poly: 0x409, b0: 1 }, 80)
}

fn brcm(
    name: &str,
    spare_bits: u32,
    layout: impl Fn(Vec<Codeword>) -> Layout,
    pages: &[(u32, u32)],
) -> Vec<Recipe> {
    let recipe = |(page, oob): &(u32, u32)| {
        let word = |index: u32| {
            let start = (page + index * 16) * 8;
            Codeword {
                data: bytes(index * 512, 512),
                spare: vec![BitRange::bits(start, spare_bits)],
                parity: vec![BitRange::bits(start + spare_bits, 128 - spare_bits)],
                ..Codeword::default()
            }
        };
        layout((0..page / 512).map(word).collect()).recipe(name, "", *page, *oob)
    };
    pages.iter().map(recipe).collect()
}

/// Shapes with 16 spare bytes for each 512 bytes of data, or more.
const SIXTEENS: [(u32, u32); 4] = [(2048, 64), (2048, 128), (4096, 128), (4096, 224)];

fn brcm_bch4(name: &str) -> Vec<Recipe> {
    brcm(name, 76, |words| Layout::bch(13, 4, P13, Erased::Count, words), &SIXTEENS)
}

fn brcm_bch8(name: &str) -> Vec<Recipe> {
    brcm(name, 16, |words| Layout::bch(14, 8, P14_BRCM, Erased::Count, words), &SIXTEENS)
}

fn mtk(name: &str) -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for (page, oob) in [(2048, 64), (2048, 128), (4096, 128), (4096, 224), (4096, 256)] {
        let count = page / 512;
        let each = oob / count;
        // Strengths are even.
        let strength = (each - 8) * 8 / 13 / 2 * 2;
        let bits = 13 * strength;
        let sector = 512 + each;
        let word = |index: u32| Codeword {
            data: bytes(index * sector, 512),
            spare: bytes(index * sector + 512, 8),
            parity: vec![BitRange::bits((index * sector + 520) * 8, bits)],
            ..Codeword::default()
        };
        let words = (0..count).map(word).collect();
        let strength = u16::try_from(strength).unwrap_or(4);
        let layout = Layout::bch(13, strength, P13, Erased::Count, words).lsb();
        let mut recipe = layout.recipe(name, "", page, oob);
        let holder = page / sector * sector + 512;
        recipe.regions[0].swap =
            Some(Swap { marker: BitRange::bytes(page, 1), with: BitRange::bytes(holder, 1) });
        recipes.push(recipe);
    }
    recipes
}

fn sunxi(name: &str) -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for (page, oob) in SHAPES {
        let count = page / 1024;
        for strength in [16_u16, 24, 28, 32, 40, 48, 56, 60, 64] {
            let bits = 14 * u32::from(strength);
            let each = 4 + bits.div_ceil(8).next_multiple_of(2);
            if each * count > oob {
                continue;
            }
            let word = |index: u32| Codeword {
                data: bytes(index * 1024, 1024),
                spare: bytes(page + index * each, 4),
                parity: vec![BitRange::bits((page + index * each + 4) * 8, bits)],
                ..Codeword::default()
            };
            let words = (0..count).map(word).collect();
            let layout = Layout::bch(14, strength, P14_BRCM, Erased::Count, words).lsb();
            recipes.push(layout.recipe(name, &format!(":t{strength}"), page, oob));
        }
    }
    recipes.sort_by_key(|recipe| !recipe.name().ends_with(":8192+640:t40"));
    recipes
}

fn gpmi(name: &str) -> Vec<Recipe> {
    let recipe = |(page, oob): (u32, u32)| {
        let count = page / 512;
        let strength = (oob - 10) * 8 / (13 * count) / 2 * 2;
        let bits = 13 * strength;
        let start = |index: u32| 80 + index * (4096 + bits);
        let word = |index: u32| Codeword {
            lead: if index == 0 { bytes(0, 10) } else { Vec::new() },
            data: vec![BitRange::bits(start(index), 4096)],
            parity: vec![BitRange::bits(start(index) + 4096, bits)],
            ..Codeword::default()
        };
        let strength =
            u16::try_from(strength).ok().filter(|strength| (2..=40).contains(strength))?;
        let words = (0..count).map(word).collect();
        let layout = Layout::bch(13, strength, P13, Erased::Count, words).lsb();
        let mut recipe = layout.recipe(name, "", page, oob);
        recipe.regions[0].swap =
            Some(Swap { marker: BitRange::bytes(page, 1), with: BitRange::bytes(0, 1) });
        Some(recipe)
    };
    SHAPES.into_iter().filter_map(recipe).collect()
}

fn hisi(name: &str) -> Vec<Recipe> {
    let words = vec![
        Codeword { data: bytes(0, 0x410), parity: bytes(0x410, 14), ..Codeword::default() },
        Codeword {
            data: vec![BitRange::bytes(0x41E, 0x800 - 0x41E), BitRange::bytes(0x802, 14)],
            spare: vec![BitRange::bytes(0x800, 2), BitRange::bytes(0x81E, 30)],
            parity: bytes(0x810, 14),
            ..Codeword::default()
        },
    ];
    let layout = Layout::bch(14, 8, P14_MTK, Erased::Natural, words).lsb().inverted();
    vec![layout.recipe(name, "", 2048, 64)]
}

fn amlogic(name: &str) -> Vec<Recipe> {
    let word = |index: u32| Codeword {
        data: bytes(index * 528, 512),
        spare: bytes(index * 528 + 512, 2),
        parity: bytes(index * 528 + 514, 14),
        ..Codeword::default()
    };
    let recipe = |(page, oob): (u32, u32)| {
        let words = (0..page / 512).map(word).collect();
        let layout = Layout::bch(14, 8, P14_LINUX, Erased::Natural, words).inverted();
        let mut recipe = layout.recipe(name, "", page, oob);
        // The controller's chunks cover the place of the marker.
        recipe.chip.bad = None;
        recipe
    };
    [(4096, 256), (2048, 64)].map(recipe).into()
}

fn fsl(name: &str) -> Vec<Recipe> {
    let recipe = |(page, oob): (u32, u32)| {
        let words = steps(page, 512, 52, |index| page + 8 + 8 * index);
        let layout = Layout::bch(13, 4, P13, Erased::Count, words);
        layout.recipe(name, "", page, oob)
    };
    [(2048, 64), (2048, 128), (4096, 128), (4096, 224)].map(recipe).into()
}
