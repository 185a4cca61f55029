//! LogFS: an image of the reference, read wherever it is.

use crate::sample::Sample;
use std::fs;
use std::path::Path;

/// The empty image of the reference, in a sample.
fn sample() -> (Sample, Vec<u8>) {
    let sample = Sample::new();
    let packed = "../logfs/tests/data/empty-plain.img.zst";
    let packed = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(packed)).unwrap();
    let image = zstd::decode_all(&packed[..]).unwrap();
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
