//! The past of images: commits, versions, deleted files.

use crate::sample::Sample;
use std::fs;

/// A bare UBIFS with three commits: two files, then one of them changed, then the other one removed.
pub(crate) fn used() -> Sample {
    let sample = Sample::new();
    fs::create_dir(sample.path("tree")).unwrap();
    fs::write(sample.path("tree/kept"), "first\n").unwrap();
    fs::write(sample.path("tree/gone"), "secret\n").unwrap();
    fs::write(sample.path("second"), "second\n").unwrap();
    let sizes = ["--leb", "15872", "--min-io", "512", "--max-lebs", "60"];
    sample.ok(&[&["mkfs", "ubifs", "tree", "-q", "-o", "used"][..], &sizes[..]].concat());
    let steps = ["-c", "put second kept", "-c", "sync", "-c", "rm gone", "-c", "sync"];
    sample.ok(&[&["edit", "used"][..], &steps[..]].concat());
    sample
}

#[test]
fn a_past_state_is_shown() {
    let sample = used();
    let cat = |state: &str| sample.ok(&["cat", "used", "kept", "--as-of", state]).out;
    assert_eq!(cat("commit:0"), "first\n");
    assert_eq!(cat("commit:1"), "second\n");
    let listed = sample.ok(&["ls", "used", "--as-of", "commit:1"]).out;
    assert_eq!(listed, "gone\nkept\n");
    assert_eq!(sample.ok(&["ls", "used"]).out, "kept\n");
    sample.ok(&["extract", "used", "before", "--as-of", "commit:0"]);
    assert_eq!(fs::read_to_string(sample.path("before/gone")).unwrap(), "secret\n");
    let before = fs::read(sample.path("used")).unwrap();
    sample.ok(&["recover", "used", "found"]);
    assert_eq!(fs::read(sample.path("used")).unwrap(), before);
}

#[test]
fn states_that_are_not_there_are_refused() {
    let sample = used();
    for (state, words) in [
        ("commit:9", "no master node of commit 9, found those of commits 0 to"),
        ("sqnum:1", "no commit is left that ended before 1"),
        ("yesterday", "neither commit:NUMBER nor sqnum:NUMBER"),
    ] {
        let run = sample.run(&["ls", "used", "--as-of", state]);
        assert!(run.code != 0 && run.err.contains(words), "{state}: {}", run.err);
    }
    sample.ok(&["mkfs", "jffs2", "tree", "-q", "-o", "other", "--peb", "64KiB"]);
    for command in [&["ls", "other", "--as-of", "commit:0"][..], &["history", "other"]] {
        let run = sample.run(command);
        assert!(run.code != 0, "{command:?}");
        assert!(run.err.contains("only UBIFS keeps commits of the past"), "{}", run.err);
    }
    let run = sample.run(&["history", "used", "--path", "never"]);
    assert!(run.code != 0 && run.err.contains("no version of it is left"), "{}", run.err);
}

#[test]
fn a_deleted_file_comes_back_with_the_places_of_its_bytes() {
    let sample = used();
    let deleted = sample.ok(&["history", "used", "--deleted", "--json"]).out;
    let deleted: serde_json::Value = serde_json::from_str(&deleted).unwrap();
    let gone = deleted["deleted"].as_array().unwrap().iter().find(|it| it["path"] == "gone");
    assert_eq!(gone.unwrap()["class"], "proven");
    sample.ok(&["recover", "used", "found"]);
    let list = fs::read_to_string(sample.path("found/manifest.jsonl")).unwrap();
    let mut lines =
        list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let line = lines.find(|line| line["paths"][0] == "gone").unwrap();
    let file = sample.path("found").join(line["file"].as_str().unwrap());
    assert_eq!(fs::read_to_string(file).unwrap(), "secret\n");
    // The node is where the list says, with the content after its header of 48 bytes.
    let image = fs::read(sample.path("used")).unwrap();
    let at = usize::try_from(line["runs"][0]["img_offset"].as_u64().unwrap()).unwrap();
    assert_eq!(image[at..at + 4], 0x0610_1831_u32.to_le_bytes());
    assert_eq!(&image[at + 48..at + 55], b"secret\n");
    let run = sample.run(&["recover", "used", "found"]);
    assert!(run.code != 0 && run.err.contains("is not empty"), "{}", run.err);
}
