//! Images that begin anywhere in a file, and several of them in one.

use crate::sample::{LAYOUT, Run, Sample, noise};
use std::fs;

fn join(sample: &Sample, name: &str, parts: &[&[u8]]) {
    fs::write(sample.path(name), parts.concat()).unwrap();
}

/// The UBI image of the sample.
fn ubi(sample: &Sample) -> Vec<u8> {
    fs::read(sample.path(sample.ubi())).unwrap()
}

/// Another one: no kernel, other files, and this number.
fn other_ubi(sample: &Sample, number: u32) -> Vec<u8> {
    fs::create_dir_all(sample.path("two/second")).unwrap();
    fs::write(sample.path("two/second/file"), noise(300_000)).unwrap();
    let layout = LAYOUT
        .replace("image-seq = 7", &format!("image-seq = {number}"))
        .replace("\"src\"", "\"two\"")
        .replace("name = \"data\"", "name = \"spare\"");
    fs::write(sample.path("two.toml"), layout).unwrap();
    sample.ok(&["build", "two.toml", "-o", "two.ubi", "-q"]);
    fs::read(sample.path("two.ubi")).unwrap()
}

fn jffs2(sample: &Sample) -> Vec<u8> {
    sample.ok(&["mkfs.jffs2", "-r", "src", "-e", "64KiB", "-p", "-o", "src.jffs2"]);
    fs::read(sample.path("src.jffs2")).unwrap()
}

fn json(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.out).unwrap()
}

/// The offsets, lengths and formats that `info` lists.
fn listed(sample: &Sample, name: &str) -> Vec<(u64, u64, String)> {
    let report = json(&sample.ok(&["info", "--json", name]));
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let row = |one: &serde_json::Value| {
        (number(&one["offset"]), number(&one["length"]), one["format"].as_str().unwrap().to_owned())
    };
    report["images"].as_array().unwrap().iter().map(row).collect()
}

const FILES: &str = "bin\netc\n";

/// A dump with 74,565 bytes before its UBI was no image at all; a header of 28 bytes hid everything.
#[test]
fn one_image_is_opened_wherever_it_begins() {
    let sample = Sample::new();
    let (ubi, bare) = (ubi(&sample), fs::read(sample.path(sample.ubifs())).unwrap());
    let jffs2 = jffs2(&sample);
    let offsets = (1..=48).chain([96, 780, 1000, 4096, 5000, 74_565]);
    for offset in offsets {
        let before = noise(offset);
        join(&sample, "u", &[&before, &ubi]);
        assert_eq!(sample.ok(&["cat", "u", "etc/hosts"]).out, "127.0.0.1 localhost\n", "{offset}");
        if offset % 16 == 4 {
            for image in [&bare, &jffs2] {
                join(&sample, "o", &[&before, image]);
                assert_eq!(sample.ok(&["ls", "o"]).out, FILES, "{offset}");
            }
        }
    }
    let report = json(&sample.ok(&["info", "u", "--json"]));
    assert_eq!((&report["offset"], &report["start"]), (&74_565.into(), &74_565.into()));
    assert_eq!(report["volumes"].as_array().unwrap().len(), 3);
    join(&sample, "trx", &[b"HDR0", &noise(24), &ubi]);
    assert!(sample.ok(&["info", "trx"]).out.contains("begins at byte 28"));
    assert_eq!(sample.ok(&["ls", "trx:rootfs"]).out, FILES);
}

#[test]
fn every_command_takes_an_offset() {
    let sample = Sample::new();
    let image = ubi(&sample);
    join(&sample, "o", &[&noise(1000), &image, &noise(777)]);
    let target = "o@0x3e8:rootfs";
    assert_eq!(sample.ok(&["ls", "o@1000"]).out, FILES);
    assert_eq!(sample.ok(&["cat", target, "etc/hosts"]).out, "127.0.0.1 localhost\n");
    assert!(sample.ok(&["tree", target]).out.contains("hosts"));
    assert!(sample.ok(&["stat", target, "bin/tool"]).out.contains("regular"));
    assert!(sample.ok(&["info", "o@1000"]).out.contains("rootfs"));
    sample.ok(&["check", target]);
    sample.ok(&["get", target, "etc/hosts", "hosts"]);
    assert_eq!(fs::read(sample.path("hosts")).unwrap(), b"127.0.0.1 localhost\n");
    sample.ok(&["extract", target, "out", "-q"]);
    assert!(sample.path("out/etc/hosts").exists());
    fs::create_dir(sample.path("mnt")).unwrap();
    sample.ok(&["mount", target, "mnt"]);
    assert_eq!(fs::read(sample.path("mnt/etc/hosts")).unwrap(), b"127.0.0.1 localhost\n");
    sample.ok(&["umount", "mnt"]);
    assert!(sample.run(&["ls", "o@99999999"]).err.contains("the file has"));
    let refused = sample.run(&["ls", "o@10"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("o@1000 (UBI"), "{}", refused.err);
    assert_eq!(sample.ok(&["ls", "o@1000+2228224"]).out, FILES);
}

/// Of two images in a file one came out, and no option selected the other.
#[test]
fn two_images_are_told_apart() {
    let sample = Sample::new();
    let a = ubi(&sample);
    for number in [7, 9] {
        let b = other_ubi(&sample, number);
        for gap in [0, 131_072, 1000, 74_565] {
            for fill in [vec![0xFF; gap], noise(gap)] {
                join(&sample, "ab", &[&a, &fill, &b]);
                let second = (a.len() + gap) as u64;
                let found = listed(&sample, "ab");
                let starts: Vec<u64> = found.iter().map(|row| row.0).collect();
                assert_eq!(starts, [0, second], "{number} {gap}: {found:?}");
                assert_eq!(found[1].1, b.len() as u64);
                assert!(found[0].1 >= a.len() as u64 && found[0].1 <= second);
                assert_eq!(sample.ok(&["ls", "ab@0:rootfs"]).out, FILES);
                let second = format!("ab@{second}");
                assert_eq!(sample.ok(&["ls", &second]).out, "second\n");
                let refused = sample.run(&["ls", "ab"]);
                assert_eq!(refused.code, 3);
                assert!(refused.err.contains(&second), "{}", refused.err);
            }
        }
    }
    assert!(sample.ok(&["info", "ab"]).out.contains("2 images"));
}

/// Writing to the first image erased what follows it: its blocks looked like garbage of UBI's.
#[test]
fn what_follows_an_image_is_never_written_over() {
    let sample = Sample::new();
    let (a, j) = (ubi(&sample), jffs2(&sample));
    let b = other_ubi(&sample, 7);
    join(&sample, "aj", &[&a, &j]);
    join(&sample, "ab", &[&a, &b]);
    fs::write(sample.path("new"), noise(1000)).unwrap();
    let second = a.len();
    for file in ["aj", "ab"] {
        let before = fs::read(sample.path(file)).unwrap();
        assert_eq!(sample.run(&["put", file, "new"]).code, 3, "{file}");
        let _ = sample.run(&["put", &format!("{file}@0:rootfs"), "new"]);
        let grown = sample.run(&["put", &format!("{file}@0:rootfs"), "new", "--size", "16MiB"]);
        assert_ne!(grown.code, 0);
        let after = fs::read(sample.path(file)).unwrap();
        assert!(before.len() == after.len() && before[second..] == after[second..], "{file}");
    }
    let jffs2 = format!("aj@{second}");
    assert_eq!(sample.ok(&["ls", &jffs2]).out, FILES);
    assert!(sample.run(&["put", &jffs2, "new"]).err.contains("--start"), "the hint names the way");
    // Where images of the same number meet is a guess once they are in use.
    let last = format!("ab@{second}:rootfs");
    let guess = sample.run(&["put", &last, "new", "/", "--size", "16MiB"]);
    assert!(guess.err.contains("@OFFSET+LENGTH"), "{}", guess.err);
    // The last one in the file may grow.
    join(&sample, "ac", &[&a, &other_ubi(&sample, 9)]);
    let last = format!("ac@{second}:rootfs");
    sample.ok(&["put", &last, "new", "/", "--size", "16MiB", "-q"]);
    assert_eq!(sample.ok(&["ls", &last]).out, "new\nsecond\n");
    assert_eq!(sample.ok(&["ls", "ac@0:rootfs"]).out, FILES);
}

#[test]
fn different_kinds_in_one_file() {
    let sample = Sample::new();
    let (a, j) = (ubi(&sample), jffs2(&sample));
    let bare = fs::read(sample.path(sample.ubifs())).unwrap();
    let gap = noise(300_000);
    join(&sample, "all", &[&gap, &j, &a, &gap, &bare, &gap, &j]);
    let found = listed(&sample, "all");
    let formats: Vec<&str> = found.iter().map(|row| row.2.as_str()).collect();
    assert_eq!(formats, ["jffs2", "ubi", "ubifs", "jffs2"], "{found:?}");
    for (offset, ..) in &found {
        assert_eq!(sample.ok(&["ls", &format!("all@{offset}")]).out, FILES, "{offset}");
    }
    let [first, second] = [(found[0].0, found[0].1), (found[1].0, found[1].1)];
    assert_eq!(first, (300_000, j.len() as u64));
    assert_eq!(second, ((300_000 + j.len()) as u64, a.len() as u64));
    // A stretch that nothing proves can be named by its length.
    let both = format!("all@{}+{}", first.0, first.1);
    assert_eq!(sample.ok(&["ls", &both]).out, FILES);
    assert_eq!(sample.run(&["ls", "all@0+99999999999"]).code, 2);
}

#[test]
fn a_second_image_may_be_cut_off() {
    let sample = Sample::new();
    let a = ubi(&sample);
    let b = other_ubi(&sample, 9);
    for len in [131_072, 131_072 * 3 + 5000, b.len() - 1] {
        join(&sample, "ab", &[&a, &b[..len]]);
        let found = listed(&sample, "ab");
        assert_eq!(found.len(), 2, "{len}: {found:?}");
        assert_eq!(found[1], (a.len() as u64, len as u64, "ubi".to_owned()));
        assert_eq!(sample.ok(&["ls", "ab@0:rootfs"]).out, FILES);
        assert_ne!(sample.run(&["info", &format!("ab@{}", a.len())]).code, 3);
    }
}

/// Blocks that another image left are findings of the image they are in, not an image.
#[test]
fn strays_of_another_image_are_no_image() {
    let sample = Sample::new();
    let a = ubi(&sample);
    let b = other_ubi(&sample, 9);
    let block = 131_072;
    let mut mixed = a.clone();
    mixed.extend(&b[3 * block..4 * block]);
    fs::write(sample.path("mixed"), &mixed).unwrap();
    assert_eq!(sample.run(&["ls", "mixed:rootfs"]).out, FILES);
    // An image inside a volume is data.
    fs::write(sample.path("kernel"), &b).unwrap();
    sample.ok(&["build", "layout.toml", "-o", "nested.ubi", "-q"]);
    let mut nested = fs::read(sample.path("nested.ubi")).unwrap();
    nested.extend(noise(100));
    fs::write(sample.path("nested.ubi"), &nested).unwrap();
    assert_eq!(sample.ok(&["ls", "nested.ubi:rootfs"]).out, FILES);
    let report = json(&sample.ok(&["info", "nested.ubi", "--json"]));
    assert_eq!(report["format"], "ubi");
}

/// A volume's first block without its headers still begins with a superblock.
#[test]
fn blocks_without_headers_are_no_image() {
    let sample = Sample::new();
    let image = ubi(&sample);
    let blocks: Vec<&[u8]> = image.chunks(131_072).collect();
    let mut lost = blocks[4].to_vec();
    assert_eq!(lost[4096..4100], [0x31, 0x18, 0x10, 0x06], "LEB 0 of rootfs");
    lost[..4096].fill(0);
    let rest = [blocks[..4].concat(), blocks[5..].concat()].concat();
    for (name, bytes) in
        [("front", [&lost, &rest[..]].concat()), ("end", [&rest[..], &lost].concat())]
    {
        fs::write(sample.path(name), bytes).unwrap();
        let run = sample.run(&["info", name, "--json"]);
        assert_eq!(
            (&json(&run)["format"], &json(&run)["start"]),
            (&"ubi".into(), &0.into()),
            "{name}"
        );
    }
}

/// A million magic numbers, with and without valid headers, end the search in bounded time.
#[test]
fn hostile_files_cost_little() {
    let sample = Sample::new();
    let a = ubi(&sample);
    let mut planted = Vec::new();
    for index in 0..250_000_u32 {
        planted.extend(b"UBI#");
        planted.extend([0x31, 0x18, 0x10, 0x06]);
        planted.extend(index.to_le_bytes());
        planted.extend(b"\x85\x19\x01\xe0\x19\x85\xe0\x01");
    }
    join(&sample, "magics", &[&planted, &a]);
    let started = std::time::Instant::now();
    assert_eq!(sample.ok(&["ls", "magics"]).out, FILES);
    // Valid headers, each on its own.
    let mut decoys = Vec::new();
    for index in 0..20_000_usize {
        decoys.extend(&a[..64]);
        decoys.extend(vec![0x55; 700 + index * 37 % 911]);
    }
    join(&sample, "decoys", &[&decoys, &a]);
    let run = sample.run(&["info", "decoys", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let seconds = started.elapsed().as_secs();
    assert!(seconds < 60, "{seconds} seconds");
}

/// `cat` of an intact file repeated every finding of the dump, 40 lines of them.
#[test]
fn findings_elsewhere_are_one_line() {
    let sample = Sample::new();
    let mut image = ubi(&sample);
    // An image with this many stray blocks of another one.
    let other = other_ubi(&sample, 9);
    for block in 3..9 {
        image.extend(&other[block * 131_072..(block + 1) * 131_072]);
    }
    fs::write(sample.path("strays"), &image).unwrap();
    for arguments in [
        &["cat", "strays:rootfs", "etc/hosts"][..],
        &["ls", "strays:rootfs"],
        &["stat", "strays:rootfs", "etc/hosts"],
        &["get", "strays:rootfs", "etc/hosts", "hosts"],
    ] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 1, "{}", run.err);
        // `get` also says what it copied.
        let own = usize::from(arguments[0] == "get");
        assert_eq!(run.err.lines().count(), 1 + own, "{arguments:?}: {}", run.err);
        assert!(run.err.contains("findings elsewhere in the image"), "{}", run.err);
        assert!(run.err.contains("`eraseblock check strays:rootfs`"), "{}", run.err);
        let all = sample.run(&[arguments, &["--all-findings"]].concat());
        assert!(all.err.lines().count() >= 6, "{}", all.err);
    }
    let json = json(&sample.run(&["ls", "strays:rootfs", "--json"]));
    assert!(json["findings"].as_array().unwrap().len() >= 6);
    // Findings that affect the question are printed in full.
    let failed = sample.run(&["cat", "strays:rootfs", "nope"]);
    assert!(failed.err.lines().count() > 6, "{}", failed.err);
}

/// What no part covers was not mentioned.
#[test]
fn unknown_stretches_are_listed() {
    let sample = Sample::new();
    let j = jffs2(&sample);
    let padding = vec![0xFF; 3000];
    let kernel = [b"\x27\x05\x19\x56", &noise(9996)[..]].concat();
    join(&sample, "all", &[&kernel, &j, &padding, &noise(300_000), &j, &vec![0; 5000]]);
    let report = json(&sample.ok(&["info", "--json", "all"]));
    let unknown = report["unknown"].as_array().unwrap();
    let found: Vec<_> = unknown
        .iter()
        .map(|one| (one["offset"].as_u64().unwrap(), one["length"].as_u64().unwrap()))
        .collect();
    let second = 10_000 + j.len() as u64 + 3000;
    assert_eq!(found, [(0, 10_000), (second, 300_000)]);
    assert_eq!(unknown[0]["looks_like"], "a U-Boot image");
    let info = sample.ok(&["info", "all"]).out;
    assert!(info.contains("unknown, begins like a U-Boot image"), "{info}");
}
