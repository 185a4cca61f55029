//! The content of files: zeros, text, patterns and noise, in pieces, so that every compressor gets
//! both compressible and incompressible data.

use crate::rng::Rng;

const WORDS: [&str; 12] = [
    "erase", "block", "page", "journal", "index", "node", "orphan", "commit", "wear", "volume",
    "header", "the",
];

/// Returns `len` bytes of mixed content.
pub(crate) fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 16);
    while out.len() < len {
        let piece = (512 << rng.below(5)).min(len - out.len());
        fill_piece(rng, &mut out, piece);
    }
    out.truncate(len);
    out
}

fn fill_piece(rng: &mut Rng, out: &mut Vec<u8>, len: usize) {
    let end = out.len() + len;
    match rng.below(8) {
        0 => out.resize(end, 0),
        1 => {
            while out.len() < end {
                out.extend_from_slice(&rng.next().to_le_bytes());
            }
        }
        2 | 3 => {
            let period = rng.next().to_be_bytes();
            while out.len() < end {
                out.extend_from_slice(&period[..3]);
            }
        }
        _ => {
            while out.len() < end {
                out.extend_from_slice(WORDS[rng.index(WORDS.len())].as_bytes());
                out.push(if rng.one_in(9) { b'\n' } else { b' ' });
            }
        }
    }
}
