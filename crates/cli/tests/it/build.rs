//! Making images.

use crate::sample::{LAYOUT, Sample};
use std::fs;

#[test]
fn images_are_reproducible() {
    let sample = Sample::new();
    let (first, second) = (sample.ubi(), "again.ubi");
    sample.ok(&["build", "layout.toml", "-o", second, "-q"]);
    assert!(fs::read(sample.path(first)).unwrap() == fs::read(sample.path(second)).unwrap());
    let bare = fs::read(sample.path(sample.ubifs())).unwrap();
    fs::remove_file(sample.path("root.ubifs")).unwrap();
    assert!(bare == fs::read(sample.path(sample.ubifs())).unwrap());
}

/// Two images that differ in a volume's name, size or type alone got the same number, so that
/// blocks of one left over among the other's would have been taken for its own.
#[test]
fn the_derived_number_covers_the_volumes() {
    let sample = Sample::new();
    sample.ubi();
    let number = |layout: &str| {
        fs::write(sample.path("other.toml"), layout).unwrap();
        let built = sample.ok(&["build", "other.toml", "-o", "other.ubi", "--json", "-q"]).out;
        let built: serde_json::Value = serde_json::from_str(&built).unwrap();
        built["image_seq"].as_u64().unwrap()
    };
    let layout = LAYOUT.replace("image-seq = 7\n", "");
    let first = number(&layout);
    assert_eq!(number(&layout), first);
    for (from, to) in [
        ("name = \"data\"", "name = \"date\""),
        ("size = \"6MiB\"", "size = \"5MiB\""),
        ("type = \"static\"", "type = \"dynamic\""),
    ] {
        assert!(layout.contains(from), "{from}");
        assert_ne!(number(&layout.replace(from, to)), first, "{to}");
    }
}

#[test]
fn the_example_of_the_documentation_builds() {
    let sample = Sample::new();
    let guide = include_str!("../../../../docs/layout-file.md");
    let example = guide.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(sample.path("layout.toml"), example).unwrap();
    fs::create_dir(sample.path("images")).unwrap();
    fs::write(sample.path("images/fitImage"), vec![1; 300_000]).unwrap();
    fs::rename(sample.path("src"), sample.path("rootfs")).unwrap();
    fs::write(sample.path("device_table.txt"), "/dev d 755 0 0 - - - - -\n").unwrap();
    sample.ok(&["build", "layout.toml", "-o", "flash.ubi"]);
    let info = sample.ok(&["info", "flash.ubi", "--json"]).out;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let names: Vec<_> = info["volumes"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["kernel", "rootfs", "data"]);
    assert!(sample.ok(&["ls", "flash.ubi:rootfs"]).out.contains("dev\n"));
}

#[test]
fn what_does_not_fit_is_said_before_the_work() {
    let sample = Sample::new();
    fs::write(sample.path("kernel"), vec![1; 1000]).unwrap();
    for (from, to, message) in [
        ("blocks = 128", "blocks = 20", "are missing"),
        ("size = \"6MiB\"", "size = \"128KiB\"", "volume `rootfs`"),
        ("file = \"kernel\"", "file = \"nope\"", "nope"),
        ("page = 2048", "pge = 2048", "unknown field `pge`"),
        ("name = \"data\"", "name = \"rootfs\"", "rootfs"),
        ("page = 2048", "page = 2000", "minimum I/O unit is 2000"),
    ] {
        fs::write(sample.path("wrong.toml"), LAYOUT.replace(from, to)).unwrap();
        let run = sample.run(&["build", "wrong.toml", "-o", "x.ubi"]);
        assert_eq!(run.code, 3, "{to}: {}", run.err);
        assert!(run.err.contains(message), "{to}: {}", run.err);
        assert!(!sample.path("x.ubi").exists());
    }
    let run = sample.ok(&["mkfs", "ubifs", "src", "-o", "x", "--flash", "W25N01GV", "--preflight"]);
    assert!(run.err.contains("preflight:"), "{}", run.err);
    assert!(!sample.path("x").exists());
}

#[test]
fn owners_and_attributes_follow_the_options() {
    let sample = Sample::new();
    let shape = ["--leb", "126976", "--min-io", "2048", "--max-lebs", "60"];
    let make = |more: &[&str]| {
        let base = ["mkfs", "ubifs", "src", "-o", "o.ubifs", "--compressor", "none", "-q"];
        sample.ok(&[&base[..], &shape, more].concat());
        let stat = sample.ok(&["stat", "o.ubifs", "etc/hosts", "--json"]).out;
        serde_json::from_str::<serde_json::Value>(&stat).unwrap()
    };
    assert_eq!(make(&["--squash-owner", "--map-uid", "0:42"])["uid"], 42);
    assert_eq!(make(&["--squash-owner", "--map-gid", "0:7"])["gid"], 7);
    make(&["--uuid", "00112233-4455-6677-8899-aabbccddeeff"]);
    let info = sample.ok(&["info", "o.ubifs"]).out;
    assert!(info.contains("00112233-4455-6677-8899-aabbccddeeff"), "{info}");
}
