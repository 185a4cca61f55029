//! LogFS: an image of the reference, read wherever it is.

use crate::sample::{Sample, raw_dump, stored};
use std::fs;

/// The empty image of the reference, in a sample.
fn sample() -> (Sample, Vec<u8>) {
    let sample = Sample::new();
    let image = stored("logfs/tests/data/empty-plain.img.zst");
    fs::write(sample.path("i.logfs"), &image).unwrap();
    (sample, image)
}

#[test]
fn images_are_read_wherever_they_are() {
    let (sample, image) = sample();
    let layout = "[flash]\npart = \"W25N01GV\"\nblocks = 128\n[[volume]]\nname = \"l\"\n\
                  content = { file = \"i.logfs\" }\n";
    fs::write(sample.path("l.toml"), layout).unwrap();
    sample.ok(&["build", "l.toml", "-o", "u.ubi", "-q"]);
    fs::write(sample.path("later"), [&vec![0; 70_000][..], &image].concat()).unwrap();
    for target in ["i.logfs", "u.ubi:l", "later@70000", "later"] {
        assert_eq!(sample.ok(&["ls", target]).out, "", "{target}");
        assert!(sample.ok(&["tree", target]).out.ends_with("0 directories, 0 files\n"));
        assert!(sample.ok(&["stat", target, "/"]).out.contains("0755"), "{target}");
        sample.ok(&["check", target]);
        sample.ok(&["extract", target, "out", "--force"]);
    }
    let info = sample.ok(&["info", "i.logfs", "--json"]).out;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["format"], &info["segment_size"]), (&"logfs".into(), &65_536.into()));
    let run = sample.run(&["put", "i.logfs", "l.toml"]);
    assert!(run.code > 0 && run.err.contains("LogFS can only be read"), "{}", run.err);
}

#[test]
fn a_damaged_superblock_is_a_finding() {
    let (sample, mut image) = sample();
    image[40] ^= 1;
    fs::write(sample.path("bad"), &image).unwrap();
    let run = sample.run(&["check", "bad"]);
    assert!(run.code == 1 && run.err.contains("logfs-superblock"), "{} {}", run.out, run.err);
}

/// Bad blocks count: after one, everything was an error.
#[test]
fn bad_blocks_of_a_flash_count() {
    let sample = Sample::new();
    let (peb, shape) = (64 << 10, ["--peb", "64KiB", "--page", "2048", "--oob", "64"]);
    let counting = stored("logfs/tests/data/synthetic-bad-blocks.img.zst");
    let plain = stored("logfs/tests/data/synthetic.img.zst");
    let mut blocks: Vec<Option<&[u8]>> = counting.chunks(peb).map(Some).collect();
    (blocks[0], blocks[4]) = (None, None);
    // Who wrote an image without a thought of bad blocks skipped them.
    let mut skipping: Vec<Option<&[u8]>> = plain.chunks(peb).map(Some).collect();
    skipping.insert(0, None);
    skipping.insert(4, None);
    for (blocks, size) in [(blocks, "1MiB"), (skipping, "1152KiB")] {
        fs::write(sample.path("dump"), raw_dump(peb, &blocks)).unwrap();
        let _ = fs::remove_file(sample.path("c"));
        sample.ok(&[&["chip", "new", "c", "--size", size][..], &shape].concat());
        sample.ok(&["chip", "import", "c", "dump", "--oob"]);
        for stated in [&[][..], &["--format", "logfs"]] {
            let long = sample.ok(&[&["cat", "c", "long"][..], stated].concat()).out;
            assert!(long.bytes().eq((0..60).flat_map(|byte| [byte; 4096])), "{size}");
            sample.ok(&[&["cat", "c", "dir/packed"][..], stated].concat());
            sample.ok(&[&["check", "c"][..], stated].concat());
        }
    }
}
