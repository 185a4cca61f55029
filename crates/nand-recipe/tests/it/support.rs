//! Images, random numbers and the encoder in Python.

use eraseblock_base::Findings;
use eraseblock_nand_recipe::{Damaged, DecodeOptions, Decoded, Outcome, Recipe, decode};
use std::path::Path;
use std::process::Command;

/// Random numbers, the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap() % end
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_be_bytes()[0]).collect()
    }
}

/// An image as a flash has it: a header in each block of 64 pages, text, random bytes, zeros, and
/// erased pages at the end of each block.
pub(crate) fn image(page: usize, pages_per_block: usize, blocks: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    let mut image = Vec::new();
    for block in 0..blocks {
        for number in 0..pages_per_block {
            let mut bytes = match (number, random.below(6)) {
                (0, _) => {
                    let mut bytes = vec![0; page];
                    bytes[..8].copy_from_slice(b"UBI#\x01\0\0\0");
                    bytes[20..28].copy_from_slice(&random.next().to_be_bytes());
                    bytes
                }
                (number, _) if number * 8 >= pages_per_block * 7 => vec![0xFF; page],
                (_, 0) => {
                    let text = format!("block {block} page {number} of a text; ");
                    text.into_bytes().into_iter().cycle().take(page).collect()
                }
                (_, 1) => {
                    let mut bytes = random.bytes(page);
                    bytes[page / 2..].fill(0);
                    bytes
                }
                _ => random.bytes(page),
            };
            image.append(&mut bytes);
        }
    }
    image
}

/// Decodes a dump; returns the image and the counts.
pub(crate) fn decoded(dump: &[u8], recipe: &Recipe) -> (Vec<u8>, Decoded, Findings) {
    let (mut out, mut findings) = (Vec::new(), Findings::new());
    let options = DecodeOptions { damaged: Damaged::Zeros };
    let mut each = |_, _: Outcome| Ok(());
    let decoded = decode(&dump.to_vec(), recipe, options, &mut out, &mut findings, &mut each);
    (out, decoded.unwrap(), findings)
}

/// What the Python encoder made: the dump, and the number of flipped bits.
pub(crate) fn judged(image: &[u8], name: &str, keys: &[&str]) -> (Vec<u8>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("image"), folder.path().join("dump"));
    std::fs::write(&from, image).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judge/encoder.py");
    let output =
        Command::new("python3").arg(script).args([&from, &to]).arg(name).args(keys).output();
    let output = output.expect("python3 runs the encoder");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let digits: String =
        text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    (std::fs::read(&to).unwrap(), digits.parse().unwrap())
}
