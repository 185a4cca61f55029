//! Images in sparse files: holes are not read. Reading a TiB would take each of these commands minutes.

use crate::sample::Sample;
use std::fs::File;
use std::os::unix::fs::FileExt;

const TIB: u64 = 1 << 40;

/// A sparse file with something in its middle.
fn sparse(sample: &Sample, name: &str, content: &[u8]) {
    let file = File::create(sample.path(name)).unwrap();
    file.set_len(TIB).unwrap();
    file.write_all_at(content, TIB / 2).unwrap();
}

#[test]
fn an_image_after_a_hole_is_found() {
    let sample = Sample::new();
    sparse(&sample, "sparse", &std::fs::read(sample.path(sample.ubifs())).unwrap());
    let found = sample.ok(&["info", "sparse"]).out;
    assert!(found.contains("begins at byte 549755813888 of the file"), "{found}");
}

#[test]
fn a_file_without_data_has_no_image() {
    let sample = Sample::new();
    sparse(&sample, "sparse", b"");
    for command in ["info", "check", "ls", "repair", "history", "timeline"] {
        let run = sample.run(&[command, "sparse"]);
        assert_eq!(run.code, 3, "{command}: {}", run.err);
        assert!(run.err.contains("neither a UBI"), "{command}: {}", run.err);
    }
    let census = sample.ok(&["debug", "sparse", "-c", "census"]).out;
    assert!(census.contains(&TIB.to_string()), "{census}");
}
