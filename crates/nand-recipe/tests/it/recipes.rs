//! Recipes as text, and the published codewords.

use crate::support::Random;
use eraseblock_mtd::ecc::{Bch, BchParameters};
use eraseblock_nand_recipe::table::{Family, families, find};
use eraseblock_nand_recipe::{PageCodec, Recipe};
use std::collections::BTreeSet;

#[test]
fn every_builtin_recipe_is_read_as_it_is_printed() {
    let mut names = BTreeSet::new();
    for recipe in families().flat_map(Family::recipes) {
        let text = recipe.to_text();
        let again = Recipe::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again, recipe, "{text}");
        assert_eq!(again.to_text(), text);
        assert_eq!(find(recipe.name()), Some(recipe.clone()));
        assert!(names.insert(recipe.name().to_owned()), "{} is there twice", recipe.name());
        PageCodec::new(&recipe, &recipe.regions[0]).unwrap();
    }
    assert!(names.len() > 60, "{}", names.len());
}

/// The example of the design, with numbers and places written by hand.
const EXAMPLE: &str = r#"
[recipe]
name = "qcom-bch4:2048+64"
page = 2048
oob = 64
pages_per_block = 64
bad = { byte = 2048, pages = "first two" }

[[region]]
blocks = "0.."
code = { kind = "bch", m = 13, t = 4, poly = 0x201B }
order = "msb"
invert = "none"
erased = "count"
codewords = [
  { data = ["0..464", "465..517"], parity = ["517..523.4"] },
  { data = ["528..992", "993..1045"], parity = ["1045..1051.4"] },
  { data = ["1056..1520", "1521..1573"], parity = ["1573..1579.4"] },
  { data = ["1584..2048", "2049..2085"], spare = ["2085..2101"], parity = ["2101..2107.4"] },
]
"#;

#[test]
fn the_example_is_the_builtin_recipe() {
    assert_eq!(Recipe::parse(EXAMPLE).unwrap(), find("qcom-bch4").unwrap());
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (from, to, expected) in [
        ("2101..2107.4", "2101..2113", "ends after the page"),
        ("2085..2101", "2085..2100", ""),
        ("517..523.4", "517..524", "56 parity bits, expected 52"),
        ("465..517", "465..516", "expected 16384"),
        ("0x201B", "0x2001", "primitive"),
        ("t = 4", "t = 73", "primitive"),
        ("\"0..\"", "\"0..4\"", "the last region has an end"),
        ("\"0..\"", "\"4..\"", "does not follow"),
        ("byte = 2048", "byte = 2112", "after the page"),
        ("page = 2048", "page = 0", "expected at most"),
        ("oob = 64", "oob = 4000000000", "expected at most"),
        ("pages_per_block = 64", "pages_per_block = 0", "expected 1 to"),
        ("\"0..464\"", "\"464..0\"", "is no range"),
        ("order", "colour", "unknown field"),
        ("erased = \"count\"", "erased = \"natural\"\nxor = \"00\"", "only one of both"),
        ("erased = \"count\"", "erased = \"count\"\nxor = \"0\"", "hexadecimal"),
        ("invert = \"none\"", "swap = { marker = \"0..1\", with = \"2..4\" }", "differ in length"),
        (
            "invert = \"none\"",
            "scrambler = { width = 15, taps = 3, seeds = [1], covers = [\"0..2112\"] }",
            "covers the bad-block marker",
        ),
        (
            "invert = \"none\"",
            "scrambler = { width = 15, taps = 2, seeds = [1], covers = [] }",
            "bit 0",
        ),
        (
            "invert = \"none\"",
            "scrambler = { width = 15, taps = 3, seeds = [], covers = [] }",
            "seeds",
        ),
        (
            "invert = \"none\"",
            "scrambler = { width = 15, taps = 3, seeds = [99999], covers = [] }",
            "wider",
        ),
    ] {
        let text = EXAMPLE.replacen(from, to, 1);
        assert_ne!(text, EXAMPLE, "{from}");
        let result = Recipe::parse(&text)
            .and_then(|recipe| PageCodec::new(&recipe, &recipe.regions[0]).map(|_| ()));
        if expected.is_empty() {
            result.unwrap();
            continue;
        }
        let error = result.expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

/// Each length of a message needs tables of its own, and a small file could ask for thousands.
#[test]
fn recipes_that_take_much_memory_are_refused() {
    let with = |codewords: &[String]| {
        let start = EXAMPLE.find("codewords").unwrap();
        format!("{}codewords = [{}]\n", &EXAMPLE[..start], codewords.join(","))
    };
    let lengths: Vec<String> = (0..60)
        .map(|index| {
            format!("{{ data = [\"{}..{}\"], parity = [\"0..6.4\"] }}", index, 2 * index + 1)
        })
        .chain(["{ data = [\"0..278\"] }".to_owned()])
        .collect();
    let empty = vec!["{ data = [\"0..2048\"] }".to_owned(), "{ data = [] }".to_owned()];
    let many = vec!["{ data = [\"0..1\"] }".to_owned(); 5000];
    for (codewords, expected) in [
        (lengths, "lengths of messages, expected at most 16"),
        (empty, "a codeword without a message"),
        (many, "5000 codewords, expected at most 1024"),
    ] {
        let result = Recipe::parse(&with(&codewords))
            .and_then(|recipe| PageCodec::new(&recipe, &recipe.regions[0]).map(|_| ()));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let region = &EXAMPLE[EXAMPLE.find("[[region]]").unwrap()..];
    let regions: String =
        (0..20).map(|at| region.replace("\"0..\"", &format!("\"{at}..{}\"", at + 1))).collect();
    let text = format!("{}{regions}", EXAMPLE.split("[[region]]").next().unwrap());
    let error = Recipe::parse(&text).unwrap_err().to_string();
    assert!(error.contains("20 regions, expected at most 16"), "{error}");
}

#[test]
fn damaged_texts_never_panic() {
    let mut random = Random(7);
    for _ in 0..2000 {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = b"0123456789.\"[]{}=x"[random.below(18)];
        }
        if let Ok(recipe) = Recipe::parse(&String::from_utf8(bytes).unwrap()) {
            let _ = PageCodec::new(&recipe, &recipe.regions[0]).map(|mut codec| {
                let mut raw = vec![0; recipe.raw_page()];
                let data = vec![0x5A; recipe.chip.page as usize];
                codec.encode(0, &data, &mut raw)
            });
        }
    }
}

fn parity(m: u32, polynomial: u32, strength: u16, message: &[u8]) -> Vec<u8> {
    let message_bits = u32::try_from(message.len() * 8).unwrap();
    let parameters = BchParameters { field_degree: m, polynomial, strength, message_bits };
    let code = Bch::with(parameters).unwrap();
    let mut padded = vec![0; code.step() - message.len()];
    padded.extend(message);
    let mut parity = vec![0; code.ecc_bytes()];
    code.encode(&padded, &mut parity);
    parity
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Codewords that others published: each fixes the polynomial, the order and what is protected.
#[test]
fn published_codewords() {
    // The constant that an Atmel PMECC of 8 bits adds, read from a tool for its dumps.
    let mut mask = parity(13, 0x201B, 8, &[0xFF; 512]);
    for byte in &mut mask {
        *byte = !byte.reverse_bits();
    }
    assert_eq!(hex(&mask), "f78a7490b7c95943e99ea724ad");
    // What an ELM computes of an erased sector with its erased parity.
    assert_eq!(hex(&parity(13, 0x201B, 8, &[0xFF; 525])), "f3db14168bd2beccac6bff997b");
    // A cleared sector with two erased spare bytes of a Broadcom controller.
    let sector = [&[0; 512][..], &[0xFF; 2]].concat();
    assert_eq!(hex(&parity(14, 0x5803, 8, &sector)), "ad71a91fc9c927a591f5eb49f8c1");
    // A cleared chunk of an Amlogic controller, which inverts everything.
    let mut inverted = parity(14, 0x402B, 8, &[0xFF; 514]);
    for byte in &mut inverted {
        *byte = !*byte;
    }
    assert_eq!(hex(&inverted), "d82644657f2f2b971b6c533a999e");
}

/// The same through the recipes: a page of zeros.
#[test]
fn published_codewords_in_their_places() {
    let stored = |name: &str, at: std::ops::Range<usize>| {
        let recipe = find(name).unwrap();
        let mut codec = PageCodec::new(&recipe, &recipe.regions[0]).unwrap();
        let mut raw = vec![0; recipe.raw_page()];
        codec.encode(0, &vec![0; recipe.chip.page as usize], &mut raw).unwrap();
        hex(&raw[at])
    };
    assert_eq!(stored("linux-bch8:2048+64", 2060..2073), "ef512e09ed939ac29779e524b5");
    assert_eq!(stored("linux-bch4:2048+64", 2084..2091), "2813cc3996ac7f");
    assert_eq!(stored("brcm-bch8:2048+64", 2050..2064), "ad71a91fc9c927a591f5eb49f8c1");
    assert_eq!(stored("atmel-pmecc:4096+224:t8", 4216..4229), "f78a7490b7c95943e99ea724ad");
}
