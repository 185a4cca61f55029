//! The past of images: commits, versions, deleted files.

use crate::sample::Sample;
use crate::timeline::{everywhere, odd};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

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
fn a_state_of_a_time_is_that_of_the_last_commit_before_it() {
    let sample = Sample::new();
    fs::create_dir(sample.path("tree")).unwrap();
    fs::write(sample.path("tree/kept"), "first\n").unwrap();
    // 2023-11-14 22:13:20.
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for path in ["tree/kept", "tree"] {
        fs::File::open(sample.path(path)).unwrap().set_modified(time).unwrap();
    }
    let leb = ["--leb", "15872", "--min-io", "512", "--max-lebs", "60"];
    sample.ok(&[&["mkfs", "ubifs", "tree", "-q", "-o", "used"][..], &leb].concat());
    fs::write(sample.path("second"), "second\n").unwrap();
    sample.ok(&["edit", "used", "-c", "put second kept", "-c", "sync"]);
    for (state, content) in [
        ("2023-11-14T22:13:20Z", "first\n"),
        ("2023-11-14 23:13:20+01:00", "first\n"),
        ("2023-12-01T00:00Z", "first\n"),
        ("2100-01-01T00:00Z", "second\n"),
    ] {
        assert_eq!(sample.ok(&["cat", "used", "kept", "--as-of", state]).out, content, "{state}");
    }
    let run = sample.run(&["cat", "used", "kept", "--as-of", "2023-11-14T22:13:19Z"]);
    assert!(run.err.contains("no commit is left whose changes end by 2023-11-14 22:13:19"));
    sample.ok(&["extract", "used", "before", "--as-of", "2023-12-01T00:00Z"]);
    assert_eq!(fs::read_to_string(sample.path("before/kept")).unwrap(), "first\n");
}

#[test]
fn states_that_are_not_there_are_refused() {
    let sample = used();
    for (state, words) in [
        ("commit:9", "no master node of commit 9, found those of commits 0 to"),
        ("sqnum:1", "no commit is left that ended before 1"),
        ("yesterday", "neither commit:NUMBER nor sqnum:NUMBER nor a time"),
        ("2026-02-30T12:00Z", "neither commit:NUMBER nor sqnum:NUMBER nor a time"),
        ("1970-01-01T00:00Z", "no commit is left whose changes end by 1970-01-01 00:00:00"),
    ] {
        let run = sample.run(&["ls", "used", "--as-of", state]);
        assert!(run.code != 0 && run.err.contains(words), "{state}: {}", run.err);
    }
    sample.ok(&["mkfs", "jffs2", "tree", "-q", "-o", "other", "--peb", "64KiB"]);
    sample
        .ok(&["mkfs", "yaffs2", "tree", "-q", "-o", "yaffs", "--page", "2048", "--peb", "128KiB"]);
    for (command, words) in [
        (&["ls", "other", "--as-of", "commit:0"][..], "only UBIFS keeps commits of the past"),
        (&["history", "other"], "JFFS2 has no commits"),
        (&["history", "yaffs"], "only UBIFS and JFFS2 keep a past"),
    ] {
        let run = sample.run(command);
        assert!(run.code != 0, "{command:?}");
        assert!(run.err.contains(words), "{}", run.err);
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
    // The bytes are where the list says, after the header of their node.
    let image = fs::read(sample.path("used")).unwrap();
    let at = usize::try_from(line["runs"][0]["img_offset"].as_u64().unwrap()).unwrap();
    assert_eq!(image[at - 48..at - 44], 0x0610_1831_u32.to_le_bytes());
    assert_eq!(&image[at..at + 7], b"secret\n");
    let run = sample.run(&["recover", "used", "found"]);
    assert!(run.code != 0 && run.err.contains("is not empty"), "{}", run.err);
}

#[test]
fn recovered_bytes_are_those_of_the_places_in_the_list() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/provenance.py");
    for compressor in ["zlib", "lzo", "zstd", "none"] {
        let sample = odd(compressor);
        for (index, (target, image)) in everywhere(&sample).into_iter().enumerate() {
            let found = format!("found-{index}");
            sample.ok(&["recover", target, &found, "--all-versions"]);
            let mut python = Command::new("python3");
            python.arg(&script).arg(sample.path(image)).arg(sample.path(&found));
            let said = python.output().expect("python3 runs");
            assert!(said.status.success(), "{target}: {}", String::from_utf8_lossy(&said.stderr));
            let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
            assert_eq!((&said["files"], &said["runs"]), (&3.into(), &7.into()), "{target}");
            let codecs = said["codecs"].as_array().unwrap();
            assert!(codecs.iter().any(|codec| codec == compressor), "{target}: {codecs:?}");
            let report = fs::read(sample.path(&found).join("report.json")).unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
            let words = report["command_line"].as_array().unwrap()[1..].to_vec();
            let own = serde_json::json!(["recover", target, found, "--all-versions"]);
            assert_eq!(serde_json::Value::Array(words), own);
            assert_eq!(report["source"]["digest_of"], "file");
            assert_eq!(report["geometry"]["block_size"], 15_872);
            assert_eq!(report["geometry"]["has_offsets"], true);
        }
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_reported() {
    let sample = odd("zlib");
    // A counter after the image, which the recovery does not read otherwise.
    let mut bytes = fs::read(sample.path("odd")).unwrap();
    let at = bytes.len() as u64;
    bytes.extend([0; 8]);
    fs::write(sample.path("odd"), bytes).unwrap();
    let target = format!("odd@0+{at}");
    let file = fs::File::options().write(true).open(sample.path("odd")).unwrap();
    let is_done = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                count += 1;
                file.write_all_at(&count.to_le_bytes(), at).unwrap();
            }
        });
        // A busy machine may give the writer no time during the first run.
        let run = (0..100).map(|_| {
            let _ = fs::remove_dir_all(sample.path("found"));
            sample.run(&["recover", &target, "found"])
        });
        let run = { run }.find(|run| run.code != 0);
        is_done.store(true, Ordering::Relaxed);
        run.expect("no change was seen")
    });
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert!(run.err.contains("odd: changed while it was read"), "{}", run.err);
    let report = fs::read(sample.path("found/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_ne!(report["source"]["sha256_before"], report["source"]["sha256_after"]);
    sample.ok(&["recover", &target, "again"]);
}

/// A JFFS2 with a past: a file that was replaced, one that was removed, one that was cut and renamed.
fn used_jffs2(peb: &str, size: &str) -> Sample {
    let sample = Sample::new();
    fs::create_dir_all(sample.path("tree/etc")).unwrap();
    fs::write(sample.path("tree/etc/motd"), "welcome\n").unwrap();
    fs::write(sample.path("tree/etc/key"), "key-1\n").unwrap();
    let long: Vec<String> = (0..5000).map(|number| format!("line {number}\n")).collect();
    fs::write(sample.path("tree/long"), long.concat()).unwrap();
    // Nodes of one second may be one write.
    let mut touch = Command::new("touch");
    touch.args(["-d", "@1700000000"]).arg(sample.path("tree/long"));
    assert!(touch.status().unwrap().success());
    std::os::unix::fs::symlink("motd", sample.path("tree/etc/link")).unwrap();
    fs::write(sample.path("two"), "second\n").unwrap();
    sample.ok(&["mkfs", "jffs2", "tree", "-q", "-o", "j", "--peb", peb, "--pad-to", size]);
    let steps = ["put two /etc/motd", "rm /etc/key", "truncate 5000 long", "mv long cut"];
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["-c", step]).collect();
    let run = sample.run(&[&["edit", "j"][..], &steps].concat());
    assert!(run.code <= 1, "{}", run.err);
    sample
}

#[test]
fn a_jffs2_has_versions_and_deleted_names() {
    let sample = used_jffs2("16KiB", "512KiB");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let run = sample.run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.err))
    };
    let deleted = json(&["history", "j", "--deleted"]);
    let names: Vec<&str> = deleted["deleted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{deleted}");
    assert!(["etc/key", "etc/motd", "long"].iter().all(|name| names.contains(name)), "{deleted}");
    let versions = json(&["history", "j", "--path", "cut"]);
    let versions = versions["versions"].as_array().unwrap();
    let found: Vec<(&str, u64)> = versions
        .iter()
        .map(|it| (it["class"].as_str().unwrap(), it["size"].as_u64().unwrap()))
        .collect();
    let size = fs::metadata(sample.path("tree/long")).unwrap().len();
    assert_eq!(found, [("live", 5000), ("proven", size)]);
    let before = fs::read(sample.path("j")).unwrap();
    let run = sample.run(&["recover", "j", "found", "--all-versions"]);
    assert!(run.code <= 1, "{}", run.err);
    assert_eq!(fs::read(sample.path("j")).unwrap(), before);
    let list = fs::read_to_string(sample.path("found/manifest.jsonl")).unwrap();
    let lines = list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let content = |path: &str| {
        let line = lines.iter().find(|line| line["paths"][0] == path).unwrap();
        fs::read(sample.path("found").join(line["file"].as_str().unwrap())).unwrap()
    };
    assert_eq!(content("etc/key"), b"key-1\n");
    assert!(content("cut") == fs::read(sample.path("tree/long")).unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/provenance.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(sample.path("j")).arg(sample.path("found"));
    let said = python.output().expect("python3 runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn a_jffs2_in_a_ubi_volume_has_a_past() {
    let sample = used_jffs2("15360", "480KiB");
    let size = ["--size", "1MiB", "--peb", "16KiB", "--page", "512", "--oob", "16"];
    sample.ok(&[&["chip", "new", "chip"][..], &size].concat());
    sample.ok(&["ubi", "format", "chip"]);
    sample.ok(&["ubi", "mkvol", "chip", "data", "--lebs", "34"]);
    sample.ok(&["ubi", "update", "chip:data", "j"]);
    sample.ok(&["chip", "export", "chip", "image"]);
    let alone = sample.run(&["recover", "j", "alone", "--all-versions"]);
    assert!(alone.code <= 1, "{}", alone.err);
    let listed = |target: &str| sample.run(&["history", target, "--deleted"]).out;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/provenance.py");
    for (target, found) in
        [("image", "found-1"), ("image:data", "found-2"), ("chip:data", "found-3")]
    {
        assert_eq!(listed(target), listed("j"), "{target}");
        let run = sample.run(&["recover", target, found, "--all-versions"]);
        assert!(run.code <= 1, "{target}: {}", run.err);
        let names = |folder: &str| {
            let names = fs::read_dir(sample.path(folder)).unwrap();
            names.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(found), names("alone"), "{target}");
        for name in names(found).iter().filter(|name| !name.to_string_lossy().contains(".json")) {
            let read = |folder: &str| fs::read(sample.path(folder).join(name)).unwrap();
            assert!(read(found) == read("alone"), "{target}: {}", name.display());
        }
        // The file of a simulated chip does not hold the bytes of the volume as they are.
        if target != "chip:data" {
            let mut python = Command::new("python3");
            let python = python.arg(&script).arg(sample.path("image")).arg(sample.path(found));
            let said = python.output().expect("python3 runs");
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        }
    }
}

/// Returns the number of the LEB of an eraseblock of volume 0, and its sequence number.
fn held(block: &[u8]) -> Option<(u32, u64)> {
    let word = |at: usize| block.get(at..at + 4).and_then(<[u8]>::first_chunk);
    let number = |at: usize| word(at).map(|bytes| u32::from_be_bytes(*bytes));
    let vid = number(16)? as usize;
    let is_held = block.starts_with(b"UBI#") && block.get(vid..vid + 4)? == b"UBI!";
    let sqnum = u64::from(number(vid + 40)?) << 32 | u64::from(number(vid + 44)?);
    (is_held && number(vid + 8) == Some(0)).then_some((number(vid + 12)?, sqnum))
}

#[test]
fn old_blocks_of_a_ubi_hold_more_versions() {
    const PEB: usize = 16 << 10;
    let sample = Sample::new();
    fs::create_dir(sample.path("tree")).unwrap();
    // Other files leave few LEBs, which are used again soon.
    fs::write(sample.path("tree/other"), vec![7; 240_000]).unwrap();
    let layout = "[flash]\npeb = \"16KiB\"\npage = 512\nsubpage = 512\n\
        blocks = 80\n[[volume]]\nname = \"root\"\nsize = \"700KiB\"\n\
        content = { ubifs = \"tree\", compressor = \"none\" }\n";
    fs::write(sample.path("layout"), layout).unwrap();
    sample.ok(&["build", "layout", "-o", "image", "-q"]);
    // Until LEBs are used again, their blocks of before are kept.
    let mut old: Vec<Vec<u8>> = Vec::new();
    let mut before: Vec<Vec<u8>> = Vec::new();
    for round in 0..40_u32 {
        let data: Vec<u8> =
            (0..30_000_u32).map(|at| ((at * (round + 3)) >> 3).to_le_bytes()[0]).collect();
        fs::write(sample.path("data"), data).unwrap();
        sample.ok(&["edit", "image", "-c", "put data big", "-c", "sync", "-c", "put data kept"]);
        let now = fs::read(sample.path("image")).unwrap();
        let now: Vec<Vec<u8>> = now.chunks(PEB).map(<[u8]>::to_vec).collect();
        old.extend(before.iter().filter(|block| !now.contains(block)).cloned());
        before = now;
    }
    // What held a LEB that another block holds now; a block of an unmapped LEB would be mapped again.
    old.retain(|block| {
        before.iter().any(|now| match (held(now), held(block)) {
            (Some((leb, sqnum)), Some((own, number))) => leb == own && sqnum > number,
            _ => false,
        })
    });
    assert!(old.len() > 20, "{}", old.len());
    sample.ok(&["recover", "image", "without", "--all-versions"]);
    // They are shown as if they had not been erased yet.
    let end = before.iter().rposition(|block| held(block).is_some()).unwrap() + 1;
    before.truncate(end);
    before.extend(old);
    fs::write(sample.path("image"), before.concat()).unwrap();
    let is_ok = |run: &crate::sample::Run| assert!(run.code <= 1, "{}", run.err);
    is_ok(&sample.run(&["recover", "image", "still", "--all-versions"]));
    is_ok(&sample.run(&["recover", "image", "with", "--all-versions", "--old-blocks"]));
    let versions = |folder: &str| -> Vec<serde_json::Value> {
        let list = fs::read_to_string(sample.path(folder).join("manifest.jsonl")).unwrap();
        list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let whole = |folder: &str| {
        let versions = versions(folder);
        versions.iter().filter(|it| it["class"] != "partial" && it["size"] == 30_000).count()
    };
    assert_eq!(versions("without").len(), versions("still").len());
    assert!(whole("with") > whole("without"), "{} {}", whole("with"), whole("without"));
    let with = versions("with");
    let mut runs = with.iter().flat_map(|it| it["runs"].as_array().unwrap());
    assert!(runs.any(|run| run["old_peb"].is_u64()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/provenance.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(sample.path("image")).arg(sample.path("with"));
    let said = python.output().expect("python3 runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    sample.ok(&["mkfs", "jffs2", "tree", "-q", "-o", "other", "--peb", "64KiB"]);
    let run = sample.run(&["history", "other", "--deleted", "--old-blocks"]);
    assert!(
        run.code == 3 && run.err.contains("only a UBIFS in a UBI has old blocks"),
        "{}",
        run.err
    );
}
