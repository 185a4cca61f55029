//! Measures ratio and speed of each codec and level on the files of a directory.
//!
//! `measure DIRECTORY [MIB]` cuts the files, at most MIB of them, into blocks of 4096 bytes and
//! compresses them on one core. Speed counts processor time and is the best of several rounds over
//! small groups of blocks, so other work on the machine affects it little.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a report for people")]

use eraseblock_codec::{Codec, CompressSpec, Compressor, Decompressor};
use std::path::Path;

const BLOCK: usize = 4096;
const GROUP: usize = 64;
const ROUNDS: usize = 7;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let budget = arguments.next().and_then(|text| text.parse::<usize>().ok());
    let mut blocks = Vec::new();
    let mut left = budget.map_or(usize::MAX, |mib| mib << 20);
    collect(directory.as_ref(), &mut blocks, &mut left)?;
    let total: usize = blocks.iter().map(Vec::len).sum();
    println!("{} blocks, {total} bytes", blocks.len());
    for (codec, levels) in
        [(Codec::Lzo, &[1, 7, 9][..]), (Codec::Zlib, &[1, 6, 9]), (Codec::Zstd, &[1, 3, 9])]
    {
        for level in levels {
            measure(&blocks, total, CompressSpec { codec, level: *level });
        }
    }
    Ok(())
}

fn collect(directory: &Path, blocks: &mut Vec<Vec<u8>>, left: &mut usize) -> std::io::Result<()> {
    let mut paths = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    for path in paths {
        let kind = std::fs::symlink_metadata(&path)?;
        if *left == 0 {
            break;
        }
        if kind.is_dir() {
            collect(&path, blocks, left)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(&path)?;
            *left = left.saturating_sub(bytes.len());
            blocks.extend(bytes.chunks(BLOCK).map(<[u8]>::to_vec));
        }
    }
    Ok(())
}

fn measure(blocks: &[Vec<u8>], total: usize, spec: CompressSpec) {
    let mut compressor = Compressor::new(spec).expect("the levels are valid");
    let mut decompressor = Decompressor::new();
    let mut out = vec![Vec::new(); GROUP];
    let mut back = vec![0; BLOCK];
    let (mut packed, mut slow, mut fast) = (0, 0.0, 0.0);
    for group in blocks.chunks(GROUP) {
        slow += best(|| {
            for (block, out) in group.iter().zip(&mut out) {
                compressor.compress(block, out).expect("blocks are small");
            }
        });
        fast += best(|| {
            for (block, out) in group.iter().zip(&out) {
                let back = &mut back[..block.len()];
                decompressor.decompress(spec.codec, out, back).expect("own stream");
            }
        });
        for (block, out) in group.iter().zip(&out) {
            packed += if block.len() < 128 { block.len() } else { out.len().min(block.len()) };
        }
    }
    let megabytes = total as f64 / 1e6;
    println!(
        "{} {}: {packed} bytes, ratio {:.4}, compress {:.1} MB/s, decompress {:.1} MB/s",
        spec.codec.name(),
        spec.level,
        packed as f64 / total as f64,
        megabytes / slow,
        megabytes / fast,
    );
}

/// Returns the smallest processor time of several rounds, in seconds.
fn best(mut round: impl FnMut()) -> f64 {
    let time = |()| {
        let start = processor_time();
        round();
        processor_time() - start
    };
    [(); ROUNDS].map(time).into_iter().fold(f64::MAX, f64::min)
}

fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
