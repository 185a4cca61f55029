//! Each structure with right checksums is in the census: a scanner in Python, which knows nothing of blocks and
//! volumes, finds no other ones.

use crate::sample::{Sample, noise};
use crate::structures::images;
use crate::timeline::odd;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Compares the census of an image with what the scanner finds; returns how many structures that are.
fn compared(sample: &Sample, image: &str, what: &str) -> u64 {
    let census = sample.run(&["debug", image, "-c", "census all"]);
    assert!(census.code <= 1, "{what}: {}", census.err);
    fs::write(sample.path("census"), &census.out).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scanner.py");
    let mut python = Command::new("python3");
    let said = python.arg(script).args([image, "census"].map(|name| sample.path(name))).output();
    let said = said.expect("python3 runs");
    assert!(said.status.success(), "{what}: {}", String::from_utf8_lossy(&said.stderr));
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    said["found"].as_u64().unwrap()
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }
}

/// Damages what is not erased: bits, stretches, and lengths in headers.
fn damage(bytes: &mut [u8], seed: u64) {
    let mut random = Random(seed);
    let used: Vec<usize> = (0..bytes.len() / 512)
        .map(|page| page * 512)
        .filter(|at| bytes[*at..*at + 512].iter().any(|byte| *byte != 0xFF))
        .collect();
    for _ in 0..[1, 3, 10, 40][random.below(4)] {
        let at = used[random.below(used.len())] + random.below(512);
        let end = (at + [8, 64, 600][random.below(3)]).min(bytes.len());
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at..end].fill(0),
            2 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.byte()),
            _ => {
                let is_magic = |word: &[u8]| *word == 0x0610_1831_u32.to_le_bytes();
                let node = bytes[at..].windows(4).position(is_magic).map(|found| at + found);
                if let Some(node) = node.filter(|node| node + 20 <= bytes.len()) {
                    bytes[node + 16 + random.below(2)] = random.byte();
                }
            }
        }
    }
}

#[test]
fn a_scanner_finds_nothing_else() {
    let sample = Sample::new();
    let mut found = 0;
    for image in images(&sample).into_iter().filter(|image| !["yaffs", "none"].contains(image)) {
        found += compared(&sample, image, image);
    }
    let padded = ["--peb", "64KiB", "--pad-to", "1MiB"];
    sample.ok(&[&["mkfs", "jffs2", "src", "-q", "-o", "nor"][..], &padded].concat());
    fs::write(sample.path("more"), noise(50_000)).unwrap();
    for image in ["root.ubifs", "all.ubi:rootfs", "nor"] {
        let file = image.split(':').next().unwrap();
        for commands in [
            &["put more one", "put more two", "rm one", "sync"][..],
            &["mv two three", "truncate 9000 three", "rm -r bin", "put more five", "rm five"],
        ] {
            let list: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
            let run = sample.run(&[&["edit", image, "--size", "16MiB"][..], &list].concat());
            assert!(run.code <= 1, "{image}: {}", run.err);
            found += compared(&sample, file, image);
        }
        let whole = fs::read(sample.path(file)).unwrap();
        for seed in 0..5 {
            let mut bytes = whole.clone();
            damage(&mut bytes, seed);
            fs::write(sample.path("damaged"), &bytes).unwrap();
            found += compared(&sample, "damaged", &format!("{image}, damage {seed}"));
        }
    }
    assert!(found > 1500, "{found}");
}

/// A node with a wrong length hid the nodes that it led over.
#[test]
fn a_wrong_length_hides_no_other_node() {
    let sample = odd("zlib");
    let whole = fs::read(sample.path("odd")).unwrap();
    let expected = compared(&sample, "odd", "whole");
    let is_node = |at: usize| whole[at..at + 4] == 0x0610_1831_u32.to_le_bytes();
    let main = 10 * 15_872;
    let nodes: Vec<usize> = (main..main + 8192).step_by(8).filter(|at| is_node(*at)).collect();
    let mut bytes = whole.clone();
    // The first node ends where the third one does.
    let len = u32::try_from(nodes[3] - nodes[0]).unwrap();
    bytes[nodes[0] + 16..nodes[0] + 20].copy_from_slice(&len.to_le_bytes());
    fs::write(sample.path("odd"), &bytes).unwrap();
    assert_eq!(compared(&sample, "odd", "a wrong length"), expected - 1);
    let text = sample.ok(&["disasm", "odd", "-o", "text"]);
    assert_eq!(text.code, 0);
    sample.ok(&["asm", "text", "-o", "again"]);
    assert!(fs::read(sample.path("again")).unwrap() == bytes);
}

/// Each of the nodes of such a LEB claimed all of the rest of it, which was checksummed each time.
#[test]
fn headers_with_long_lengths_take_no_time() {
    const LEB: usize = 2 << 20;
    let sample = Sample::new();
    let sizes = ["--leb", "2MiB", "--min-io", "2048", "--max-lebs", "100"];
    sample.ok(&[&["mkfs", "ubifs", "src", "-q", "-o", "slow"][..], &sizes].concat());
    let mut bytes = fs::read(sample.path("slow")).unwrap();
    let is_free = |leb: &&mut [u8]| leb.iter().all(|byte| *byte == 0xFF);
    for leb in bytes.chunks_mut(LEB).filter(is_free) {
        leb.fill(0xA5);
        // All end at one place, where nothing begins.
        let end = LEB - 48 - (LEB - 48) % 24 + 8;
        for at in (0..end - 48).step_by(24) {
            let node = &mut leb[at..at + 24];
            node[..4].copy_from_slice(&0x0610_1831_u32.to_le_bytes());
            node[16..20].copy_from_slice(&u32::try_from(end - at).unwrap().to_le_bytes());
            // An orphan node may be as long as its LEB.
            node[20..].copy_from_slice(&[11, 0, 0, 0]);
        }
    }
    fs::write(sample.path("slow"), &bytes).unwrap();
    let begun = Instant::now();
    let census = sample.run(&["debug", "slow", "-c", "census"]);
    assert!(census.code <= 1, "{}", census.err);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
