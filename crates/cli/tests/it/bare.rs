//! Bare UBIFS images, written to without a UBI around them.

use crate::mount::mounted;
use crate::sample::Sample;
use serde_json::Value;
use std::fs::{self, File};

const LEB: usize = 126_976;

fn len(sample: &Sample) -> usize {
    fs::read(sample.path("root.ubifs")).unwrap().len()
}

/// LEBs of the file system, as its superblock says.
fn lebs(sample: &Sample) -> u64 {
    let info: Value =
        serde_json::from_str(&sample.ok(&["info", "root.ubifs", "--json"]).out).unwrap();
    info["ubifs"]["lebs"].as_u64().unwrap()
}

/// That the command refuses with this message and leaves the image alone.
fn refused(sample: &Sample, arguments: &[&str], message: &str) {
    let before = fs::read(sample.path("root.ubifs")).unwrap();
    let run = sample.run(arguments);
    assert!(matches!(run.code, 2 | 3), "{arguments:?} {}: {}", run.code, run.err);
    assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    assert!(fs::read(sample.path("root.ubifs")).unwrap() == before, "{arguments:?}");
}

#[test]
fn a_bare_image_is_changed_in_place() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let before = len(&sample);
    fs::write(sample.path("big"), vec![0xA5; 3_000_000]).unwrap();
    let noise = (0..400_000_u32).map(|n| n.wrapping_mul(n).wrapping_mul(n).to_le_bytes()[3]);
    fs::write(sample.path("noise"), noise.collect::<Vec<_>>()).unwrap();
    for turn in 0..3 {
        sample.ok(&["put", image, "noise", &format!("/noise{turn}")]);
        sample.ok(&["edit", image, "-c", "put big /big", "-c", "mkdir -p /d/e", "-c", "rm -r /d"]);
        assert!(sample.ok(&["check", image]).err.contains("consistent"));
        assert!(sample.ok(&["info", image]).out.contains("clean"));
    }
    assert!(len(&sample) > before && len(&sample).is_multiple_of(LEB));
    assert!(len(&sample) <= 60 * LEB);
    assert_eq!(lebs(&sample), 60);
    sample.ok(&["get", image, "/noise2", "back"]);
    assert!(fs::read(sample.path("back")).unwrap() == fs::read(sample.path("noise")).unwrap());
    assert_eq!(sample.ok(&["cat", image, "etc/hosts"]).out, "127.0.0.1 localhost\n");
    // It is still what a volume takes.
    sample.ok(&["chip", "new", "c", "--size", "16MiB", "--peb", "128KiB", "--page", "2048"]);
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "root", "--size", "8MiB"]);
    sample.ok(&["ubi", "update", "c:root", image]);
    assert!(sample.ok(&["check", "c:root"]).err.contains("consistent"));
    assert_eq!(
        sample.ok(&["cat", "c:root", "big"]).out.len(),
        sample.ok(&["cat", image, "big"]).out.len()
    );
}

#[test]
fn size_says_how_large_the_volume_is() {
    let sample = Sample::new();
    let image = sample.ubifs();
    refused(&sample, &["put", image, "src", "/new", "--size", "1MiB"], "more than the 8");
    sample.ok(&["put", image, "src", "/new", "--size", "5MiB"]);
    assert_eq!(lebs(&sample), 41);
    sample.ok(&["put", image, "src", "/new", "--size", "1GiB"]);
    assert_eq!(lebs(&sample), 60);
}

#[test]
fn an_image_that_wants_its_space_fixed_up_gets_it() {
    let sample = Sample::new();
    fs::write(sample.path("src/other"), vec![9; 300_000]).unwrap();
    let shape = ["--peb", "128KiB", "--page", "2048", "--max-lebs", "60", "--space-fixup"];
    sample.ok(&[&["mkfs", "ubifs", "src", "-o", "root.ubifs", "-q"][..], &shape].concat());
    let is_flagged = |sample: &Sample| fs::read(sample.path("root.ubifs")).unwrap()[28] & 4 != 0;
    assert!(is_flagged(&sample));
    sample.ok(&["put", "root.ubifs", "src", "/new"]);
    assert!(!is_flagged(&sample));
    assert!(sample.ok(&["check", "root.ubifs"]).err.contains("consistent"));
    assert_eq!(sample.ok(&["cat", "root.ubifs", "new/other"]).out.len(), 300_000);
}

#[test]
fn an_image_may_end_before_its_file_system_but_not_before_its_content() {
    let sample = Sample::new();
    let image = sample.ubifs();
    sample.ok(&["put", image, "src", "/new"]);
    let whole = fs::read(sample.path(image)).unwrap();
    assert!(whole.len() < 60 * LEB, "it ends before its file system");
    sample.ok(&["put", image, "src", "/newer"]);
    // Cut in the middle of the last LEB with something in it.
    let end = whole.iter().rposition(|byte| *byte != 0xFF).unwrap() + 1;
    fs::write(sample.path(image), &whole[..end - 1]).unwrap();
    refused(&sample, &["put", image, "src", "/x"], "more is in use");
    fs::write(sample.path(image), &whole[..end / LEB * LEB]).unwrap();
    refused(&sample, &["edit", image, "-c", "mkdir /x"], "more is in use");
    // What is erased may be missing.
    fs::write(sample.path(image), &whole[..end.next_multiple_of(2048)]).unwrap();
    sample.ok(&["put", image, "src", "/x"]);
    assert!(sample.ok(&["check", image]).err.contains("consistent"));
}

#[test]
fn what_lies_behind_the_file_system_is_not_overwritten() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let plain = fs::read(sample.path(image)).unwrap();
    fs::write(sample.path(image), [&plain[..], b"signature"].concat()).unwrap();
    refused(&sample, &["put", image, "src", "/new"], "9 bytes after the file system");
    let run = sample.run(&["put", image, "src", "/new"]);
    assert!(run.err.contains(&format!("truncate -s {}", plain.len())), "{}", run.err);
    fs::write(sample.path(image), [&plain[..], &vec![0xFF; 3 * LEB + 5]].concat()).unwrap();
    sample.ok(&["put", image, "src", "/new"]);
    assert!(sample.ok(&["check", image]).err.contains("consistent"));
}

#[test]
fn one_writes_and_a_damaged_superblock_is_not_written() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let path = sample.path(image);
    let reader = File::open(&path).unwrap();
    reader.lock_shared().unwrap();
    refused(&sample, &["put", image, "src", "/new"], "is in use");
    drop(reader);
    refused(&sample, &["put", &format!("{image}:root"), "src", "/new"], "there are no volumes");
    refused(&sample, &["put", image, "src", "/new", "--leb", "64KiB"], "its LEBs have 126976");
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, bytes).unwrap();
    refused(&sample, &["put", image, "src", "/new"], "the UBIFS superblock cannot be read");
}

#[test]
fn a_bare_image_is_mounted_for_writing() {
    let sample = Sample::new();
    let image = sample.ubifs();
    fs::create_dir(sample.path("m")).unwrap();
    if !mounted("a bare image", &sample.run(&["mount", image, "m", "--rw"])) {
        return;
    }
    fs::write(sample.path("m/file"), vec![7; 1_000_000]).unwrap();
    fs::remove_file(sample.path("m/etc/hosts")).unwrap();
    let run = sample.run(&["mount", image, "src"]);
    assert!(run.err.contains("being written to"), "{}", run.err);
    sample.ok(&["umount", "m"]);
    assert!(sample.ok(&["check", image]).err.contains("consistent"));
    assert_eq!(sample.ok(&["cat", image, "file"]).out.len(), 1_000_000);
    assert!(!sample.ok(&["ls", image, "etc"]).out.contains("hosts"));
}
