//! Repairs: plans, copies, files in place, and taking them back.

use crate::sample::{Sample, noise};
use std::fs;
use std::path::Path;

/// A bare UBIFS with a file of several blocks, one of which is damaged.
fn damaged() -> (Sample, Vec<u8>) {
    let sample = Sample::new();
    let content = noise(50_000);
    fs::write(sample.path("src/big"), &content).unwrap();
    sample.ok(&[
        "mkfs",
        "ubifs",
        "src",
        "-q",
        "-o",
        "whole",
        "--leb",
        "15872",
        "--min-io",
        "512",
        "--max-lebs",
        "100",
        "--compressor",
        "none",
    ]);
    let mut bytes = fs::read(sample.path("whole")).unwrap();
    let at = bytes.windows(64).position(|window| window == &content[9000..9064]).unwrap();
    bytes[at] ^= 1;
    fs::write(sample.path("hurt"), bytes).unwrap();
    (sample, content)
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn a_plan_writes_nothing() {
    let (sample, _) = damaged();
    let run = sample.run(&["repair", "whole"]);
    assert_eq!((run.code, run.out.as_str()), (0, "whole: nothing to repair\n"), "{}", run.err);
    let before = bytes(&sample.path("hurt"));
    let run = sample.run(&["repair", "hurt", "--plan-out", "plan.jsonl"]);
    assert_eq!(run.code, 1, "{}", run.err);
    for words in [
        "plan for hurt, level drop",
        "1 action needs --level drop",
        "leaf-lost N1",
        "-o FIXED --level drop",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    assert!(run.out.contains("loses big: bytes 8192 to 12287 of the content"), "{}", run.out);
    assert_eq!(bytes(&sample.path("hurt")), before);
    let plan = fs::read_to_string(sample.path("plan.jsonl")).unwrap();
    let action: serde_json::Value = serde_json::from_str(plan.lines().next().unwrap()).unwrap();
    assert_eq!((&action["do"], &action["level"]), (&"remove".into(), &"drop".into()));
    assert_eq!(action["loses"][0]["from"], 8192);
    let json = sample.run(&["repair", "hurt", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["level"], &json["repaired"]), (&"drop".into(), &false.into()));
    assert_eq!(json["actions"].as_array().unwrap().len(), plan.lines().count());
}

#[test]
fn a_copy_is_repaired_as_far_as_allowed() {
    let (sample, content) = damaged();
    let run = sample.run(&["repair", "hurt", "-o", "fixed"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("--level drop"), "{}", run.err);
    assert!(!sample.path("fixed").exists());
    let before = bytes(&sample.path("hurt"));
    let run = sample.run(&[
        "repair",
        "hurt",
        "-o",
        "fixed",
        "--level",
        "drop",
        "--quarantine",
        "removed",
    ]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(bytes(&sample.path("hurt")), before);
    assert_eq!(sample.ok(&["check", "fixed"]).err, "consistent\n");
    assert_eq!(sample.run(&["repair", "fixed"]).code, 0);
    sample.ok(&["get", "fixed", "/big", "got"]);
    let mut expected = content;
    expected[8192..12_288].fill(0);
    assert_eq!(bytes(&sample.path("got")), expected);
    let removed = bytes(&sample.path("removed/00001.bin"));
    assert!(
        removed.windows(64).any(|window| window == &expected[12_288..12_352])
            || removed.len() > 4096
    );
    assert!(
        fs::read_to_string(sample.path("removed/list.tsv")).unwrap().contains("00001.bin\tleb ")
    );
}

#[test]
fn a_file_is_repaired_in_place_and_back() {
    let (sample, _) = damaged();
    let before = bytes(&sample.path("hurt"));
    let run = sample.run(&["repair", "hurt", "--in-place", "--level", "drop"]);
    assert_eq!(run.code, 2, "an undo file is demanded: {}", run.err);
    sample.run(&["repair", "hurt", "--plan-out", "plan.jsonl"]);
    let words = [
        "repair",
        "hurt",
        "--in-place",
        "--undo",
        "undo",
        "--level",
        "drop",
        "--apply",
        "plan.jsonl",
    ];
    let run = sample.run(&words);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("eraseblock undo undo hurt"), "{}", run.err);
    assert_eq!(sample.ok(&["check", "hurt"]).err, "consistent\n");
    // The plan was for another state, and an undo file is never replaced.
    assert_eq!(sample.run(&words).code, 3);
    let repaired = bytes(&sample.path("hurt"));
    assert!(sample.ok(&["undo", "undo", "hurt", "--dry-run"]).out.contains("would be restored"));
    assert_eq!(bytes(&sample.path("hurt")), repaired);
    assert!(sample.ok(&["undo", "undo", "hurt"]).out.contains("restored"));
    assert_eq!(bytes(&sample.path("hurt")), before);
    assert!(sample.ok(&["undo", "undo", "hurt"]).out.contains("0 places"));
    let run = sample.run(&["undo", "undo", "whole"]);
    assert_eq!(run.code, 3, "{}", run.out);
    let run = sample.run(&["undo", "plan.jsonl", "hurt"]);
    assert!(run.code == 3 && run.err.contains("no undo file"), "{}", run.err);
}

#[test]
fn a_volume_of_a_ubi_image_is_repaired() {
    let sample = Sample::new();
    let image = sample.ubi();
    let whole = bytes(&sample.path(image));
    let mut hurt = whole.clone();
    // Both master nodes: the index is made from a scan.
    let magic = [0x31, 0x18, 0x10, 0x06];
    let masters: Vec<usize> = (0..hurt.len() - 24)
        .step_by(8)
        .filter(|at| hurt[*at..].starts_with(&magic) && hurt[at + 20] == 7)
        .collect();
    assert!(masters.len() >= 2);
    for at in masters {
        hurt[at + 40] ^= 1;
    }
    fs::write(sample.path("hurt.ubi"), &hurt).unwrap();
    let json = sample.ok(&["info", image, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let name = json["volumes"].as_array().unwrap().iter().find(|one| one["ubifs"].is_object());
    let name = name.map_or("rootfs", |one| one["name"].as_str().unwrap());
    let (from, to) = (format!("hurt.ubi:{name}"), format!("fixed.ubi:{name}"));
    // The volume takes what is free on the flash, so that the size of that must be known.
    let words = ["repair", &from, "-o", "fixed.ubi", "--level", "rebuild"];
    let run = sample.run(&words);
    assert!(run.code == 3 && run.err.contains("--size"), "{}", run.err);
    let run = sample.run(&[&words[..], &["--size", "8MiB"]].concat());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_eq!(sample.ok(&["check", &to]).err, "consistent\n");
    sample.ok(&["diff", &format!("{image}:{name}"), &to]);
    assert_eq!(bytes(&sample.path("hurt.ubi")), hurt);
}

#[test]
fn what_is_not_repaired_is_refused() {
    let sample = Sample::new();
    sample.ok(&["mkfs", "axfs", "src", "-q", "-o", "a"]);
    let run = sample.run(&["repair", "a"]);
    assert!(run.code == 3 && run.err.contains("UBIFS and JFFS2 are repaired"), "{}", run.err);
    let run = sample.run(&["repair", "src"]);
    assert!(run.code == 3 && run.err.contains("folder"), "{}", run.err);
}

/// A UBI image without its volume table, and with a block of which both headers are lost.
fn torn_ubi(sample: &Sample) -> Vec<u8> {
    let layout = "[flash]\npeb = \"16KiB\"\npage = 512\nblocks = 60\n\n[[volume]]\nname = \"rootfs\"\n\
                  size = \"600KiB\"\ncontent = { ubifs = \"src\" }\n";
    fs::write(sample.path("board.toml"), layout).unwrap();
    sample.ok(&["build", "board.toml", "-q", "-o", "whole.ubi"]);
    let mut hurt = bytes(&sample.path("whole.ubi"));
    let peb = 16 << 10;
    for copy in [0, 1] {
        hurt[copy * peb + 1024..copy * peb + 9000].fill(0);
    }
    let last = (2..hurt.len() / peb).rev().find(|at| hurt[at * peb + 512..].starts_with(b"UBI!"));
    let last = last.unwrap();
    hurt[last * peb..last * peb + 1024].fill(0x55);
    fs::write(sample.path("hurt.ubi"), &hurt).unwrap();
    hurt
}

#[test]
fn a_ubi_without_a_table_is_repaired() {
    let sample = Sample::new();
    let hurt = torn_ubi(&sample);
    let run = sample.run(&["repair", "hurt.ubi", "-o", "fixed.ubi", "--level", "drop"]);
    assert!(run.code == 3 && run.err.contains("--level rebuild"), "{}", run.err);
    let run = sample.run(&["repair", "hurt.ubi", "-o", "fixed.ubi", "--level", "rebuild"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_eq!(sample.ok(&["check", "fixed.ubi"]).err, "consistent\n");
    sample.ok(&["diff", "whole.ubi:0", "fixed.ubi:volume-0"]);
    assert_eq!(sample.run(&["repair", "fixed.ubi"]).code, 0);
    let words = ["repair", "hurt.ubi", "--in-place", "--undo", "u", "--level", "rebuild"];
    assert_eq!(sample.run(&words).code, 0);
    assert_eq!(bytes(&sample.path("hurt.ubi")), bytes(&sample.path("fixed.ubi")));
    sample.ok(&["undo", "u", "hurt.ubi"]);
    assert_eq!(bytes(&sample.path("hurt.ubi")), hurt);
}

#[test]
fn what_is_left_is_reported() {
    let sample = Sample::new();
    torn_ubi(&sample);
    let mut hurt = bytes(&sample.path("whole.ubi"));
    let end = hurt.len();
    hurt.resize(end + (16 << 10), 0x5A);
    fs::write(sample.path("hurt.ubi"), &hurt).unwrap();
    let run = sample.run(&["repair", "hurt.ubi", "--level", "drop"]);
    assert!(run.code == 1 && run.out.contains("nothing that a rule repairs"), "{}", run.out);
    assert!(run.out.contains("[no-ubi-headers]"), "{}", run.out);
    let json = sample.run(&["repair", "hurt.ubi", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["left"][0]["code"], "no-ubi-headers");
}

/// A JFFS2 with a damaged piece of a file.
fn hurt_jffs2(sample: &Sample) -> Vec<u8> {
    let content = noise(20_000);
    fs::write(sample.path("src/big"), &content).unwrap();
    sample.ok(&["mkfs", "jffs2", "src", "-q", "-o", "whole", "--peb", "64KiB"]);
    let mut hurt = bytes(&sample.path("whole"));
    let at = hurt.windows(64).position(|window| window == &content[9000..9064]).unwrap();
    hurt[at] ^= 1;
    fs::write(sample.path("hurt"), &hurt).unwrap();
    hurt
}

#[test]
fn a_jffs2_is_repaired() {
    let sample = Sample::new();
    let hurt = hurt_jffs2(&sample);
    let run = sample.run(&["repair", "whole", "--peb", "64KiB"]);
    assert_eq!((run.code, run.out.as_str()), (0, "whole: nothing to repair\n"), "{}", run.err);
    let run = sample.run(&["repair", "hurt", "--level", "drop"]);
    assert!(run.code == 2 && run.err.contains("--peb"), "{}", run.err);
    let run = sample.run(&["repair", "hurt", "-o", "fixed", "--peb", "64KiB"]);
    assert!(run.code == 3 && run.err.contains("--level drop"), "{}", run.err);
    let words = ["-o", "fixed", "--level", "drop", "--quarantine", "removed"];
    let run = sample.run(&[&["repair", "hurt", "--peb", "64KiB"][..], &words].concat());
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert!(run.out.contains("loses big: bytes 8192 to 12287 of the content"), "{}", run.out);
    assert_eq!(sample.ok(&["check", "fixed", "--peb", "64KiB"]).err, "consistent\n");
    sample.ok(&["get", "fixed", "/big", "got"]);
    let mut expected = noise(20_000);
    expected[8192..12_288].fill(0);
    assert_eq!(bytes(&sample.path("got")), expected);
    assert_eq!(bytes(&sample.path("hurt")), hurt);
    assert!(sample.path("removed/00001.bin").exists());
}

#[test]
fn a_jffs2_among_other_data_is_refused() {
    let sample = Sample::new();
    let hurt = hurt_jffs2(&sample);
    let firmware = [vec![0x11; 65_536], hurt, vec![0x22; 100_000]].concat();
    fs::write(sample.path("firmware"), &firmware).unwrap();
    let run = sample.run(&["repair", "firmware", "-o", "fixed", "--level", "drop"]);
    assert!(run.code == 3 && run.err.contains("after other data"), "{}{}", run.out, run.err);
}

#[test]
fn fsck_jffs2_ends_as_fsck_does() {
    let sample = Sample::new();
    let hurt = hurt_jffs2(&sample);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "-n", "whole"]).code, 0);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "-n", "hurt"]).code, 4);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "-a", "hurt"]).code, 4);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "-n", "missing"]).code, 8);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "hurt"]).code, 16);
    assert_eq!(bytes(&sample.path("hurt")), hurt);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "-y", "hurt"]).code, 1);
    assert_eq!(sample.run(&["fsck.jffs2", "-e", "64KiB", "-p", "hurt"]).code, 0);
    sample.ok(&["undo", "hurt.undo", "hurt"]);
    assert_eq!(bytes(&sample.path("hurt")), hurt);
}

/// A chip is repaired through its own erasures and programs, and an interrupted repair is taken back.
#[test]
fn a_chip_is_repaired_in_place() {
    let sample = Sample::new();
    torn_ubi(&sample);
    let shape = ["--size", "960KiB", "--peb", "16KiB", "--page", "512", "--oob", "16"];
    sample.ok(&[&["chip", "new", "chip"][..], &shape].concat());
    sample.ok(&["chip", "import", "chip", "hurt.ubi"]);
    let words = ["repair", "chip", "--in-place", "--undo", "u", "--level", "rebuild"];
    let run = sample.run(&words);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_eq!(sample.ok(&["check", "chip"]).err, "consistent\n");
    sample.ok(&["diff", "whole.ubi:0", "chip:volume-0"]);
    // As after a power cut: the undo file is whole, but its end is missing.
    let undo = bytes(&sample.path("u"));
    fs::write(sample.path("u"), &undo[..undo.len() - 10]).unwrap();
    let run = sample.run(&words);
    assert!(run.code == 0 && run.err.contains("was taken back first"), "{}", run.err);
    assert_eq!(sample.ok(&["check", "chip"]).err, "consistent\n");
    sample.ok(&["undo", "u", "chip"]);
    assert_eq!(sample.run(&["check", "chip"]).code, 1);
}

#[test]
fn fsck_ubifs_ends_as_fsck_does() {
    let (sample, _) = damaged();
    assert_eq!(sample.run(&["fsck.ubifs", "-n", "whole"]).code, 0);
    assert_eq!(sample.run(&["fsck.ubifs", "-n", "hurt"]).code, 4);
    assert_eq!(sample.run(&["fsck.ubifs", "-a", "hurt"]).code, 4);
    assert_eq!(sample.run(&["fsck.ubifs", "-n", "missing"]).code, 8);
    assert_eq!(sample.run(&["fsck.ubifs", "hurt"]).code, 16);
    assert_eq!(sample.run(&["fsck.ubifs", "-b", "-n", "hurt"]).code, 16);
    let before = bytes(&sample.path("hurt"));
    let run = sample.run(&["fsck.ubifs", "-y", "hurt"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(sample.run(&["fsck.ubifs", "-p", "hurt"]).code, 0);
    sample.ok(&["undo", "hurt.undo", "hurt"]);
    assert_eq!(bytes(&sample.path("hurt")), before);
    // The undo file of the first run stays.
    assert_eq!(sample.run(&["fsck.ubifs", "-y", "-b", "hurt"]).code, 1);
    assert!(sample.path("hurt.undo.1").exists());
}
