//! `debug` as an editor: addresses, changes in a copy and in place, undo files.

use crate::sample::Sample;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn ask(sample: &Sample, image: &str, command: &str) -> String {
    sample.ok(&["debug", image, "-c", command]).out
}

/// Numbers of the bytes that differ.
fn differences(sample: &Sample, one: &str, other: &str) -> Vec<usize> {
    let [one, other] = [one, other].map(|name| fs::read(sample.path(name)).unwrap());
    assert_eq!(one.len(), other.len());
    (0..one.len()).filter(|at| one[*at] != other[*at]).collect()
}

#[test]
fn every_kind_of_address_names_its_structure() {
    let sample = Sample::new();
    sample.ok(&["mkfs", "jffs2", "src", "-q", "-o", "j", "--peb", "64KiB"]);
    for (image, rows) in [
        (
            sample.ubifs(),
            &[
                ("sb", "ubifs.sb"),
                ("master[-1]", "ubifs.mst"),
                ("master2[0]", "ubifs.mst"),
                ("ltab", "lpt.ltab"),
                ("lpt root", "lpt.nnode"),
                ("lpt 12", "lpt.pnode"),
                ("idx root", "ubifs.idx"),
                ("idx root/0", "ubifs.idx"),
                ("ino 1", "ubifs.ino"),
                ("key 1/ino", "ubifs.ino"),
                ("key 1/dent/etc", "ubifs.dent"),
                ("/etc/hosts", "ubifs.ino"),
                ("path /etc/hosts", "ubifs.ino"),
                ("ubifs.cs[0]", "ubifs.cs"),
                ("leb 0", "ubifs.sb"),
                ("@0.0", "ubifs.sb"),
            ][..],
        ),
        (
            sample.ubi(),
            &[
                ("vtbl 1", "ubi.volume"),
                ("vtbl2 1", "ubi.volume"),
                ("rootfs/sb", "ubifs.sb"),
                ("1/master[-1]", "ubifs.mst"),
                ("rootfs/idx root", "ubifs.idx"),
                ("rootfs/path /etc/hosts", "ubifs.ino"),
                ("rootfs/leb 0:0", "ubifs.sb"),
                ("peb 0:2048", "ubi.vid"),
                ("ubi.ec[-1]", "ubi.ec"),
            ],
        ),
        (
            "j",
            &[
                ("/etc/hosts", "jffs2.inode"),
                ("ino 1", "jffs2.inode"),
                ("key 1/dent/etc", "jffs2.dirent"),
                ("jffs2.dirent[0]", "jffs2.dirent"),
            ],
        ),
    ] {
        for (address, kind) in rows {
            let shown = ask(&sample, image, &format!("p {address}"));
            assert!(shown.contains(&format!(" {kind} ")), "{image} {address}: {shown}");
        }
    }
    let names = ask(&sample, "root.ubifs", "p key 1/dent/etc .name");
    assert_eq!(names, "name = \"etc\"\n");
    assert_eq!(ask(&sample, "root.ubifs", "p sb.fanout"), "fanout = 8\n");
    assert_eq!(ask(&sample, "root.ubifs", "p @0.0.fanout"), "fanout = 8\n");
    let two = sample.ok(&["debug", "root.ubifs", "-c", "p sb", "-c", "p .fanout"]).out;
    assert!(two.ends_with("fanout = 8\n"));
    for address in [
        "sb.nothing",
        "ino 999",
        "key 1/dent/none",
        "/etc/none",
        "idx root/99",
        "idx leaf",
        "lpt 9999",
        "master[99]",
        "ubifs.none[0]",
        "node +1",
        ".",
        "nowhere/sb",
        "vtbl 0",
        "@",
        "key",
        "ino",
    ] {
        let run = sample.run(&["debug", "root.ubifs", "-c", &format!("p {address}")]);
        assert_eq!(run.code, 2, "{address}: {}{}", run.out, run.err);
    }
}

#[test]
fn a_copy_differs_in_the_field_and_its_checksum() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let before = fs::read(sample.path(image)).unwrap();
    let at: usize = ask(&sample, image, "where /etc/hosts")
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("byte ")?.parse().ok())
        .unwrap();
    sample.ok(&["debug", image, "-c", "set /etc/hosts .nlink=3", "-o", "copy"]);
    assert!(fs::read(sample.path(image)).unwrap() == before, "the source is as before");
    let changed = differences(&sample, image, "copy");
    assert!(changed.contains(&(at + 92)));
    assert!(changed.iter().all(|byte| (at + 4..at + 8).contains(byte) || *byte == at + 92));
    assert!(sample.run(&["check", "copy"]).err.contains("link count 3, expected 1 (X7)"));
    sample.ok(&["debug", image, "-c", "set /etc/hosts .nlink=3 keep-crc", "-o", "copy"]);
    assert_eq!(differences(&sample, image, "copy"), [at + 92]);
    assert!(sample.ok(&["debug", "copy", "-c", "find crc-bad"]).out.contains("ubifs.ino"));
    // The target of a link is no copy of itself.
    assert_ne!(sample.run(&["debug", image, "-c", "set sb.fanout=9", "-o", image]).code, 0);
    assert!(fs::read(sample.path(image)).unwrap() == before);
    let run = sample.run(&["debug", image, "-c", "set sb.fanout=9"]);
    assert!(run.err.contains("the changes were not written"), "{}", run.err);
}

/// A field, and what may change with it: offsets in its structure, ends excluded.
struct Change {
    image: &'static str,
    address: &'static str,
    field: &'static str,
    place: (usize, usize),
    /// For the program that computes the checksums.
    kind: &'static str,
    sum: (usize, usize),
}

/// One `set` changes the field and the checksums over it, and no other byte; Python's zlib computes the same
/// checksums.
#[test]
fn another_program_computes_the_same_checksums() {
    let sample = Sample::new();
    let (ubifs, ubi) = (sample.ubifs(), sample.ubi());
    sample.ok(&["mkfs", "jffs2", "src", "-q", "-o", "j", "--peb", "64KiB"]);
    let node = |address, field, place| {
        let (kind, sum) = ("ubifs", (4, 8));
        Change { image: ubifs, address, field, place, kind, sum }
    };
    let header = |address, field, place, len: usize| {
        let (kind, sum) = ("ubi", (len - 4, len));
        Change { image: ubi, address, field, place, kind, sum }
    };
    let changes = [
        node("sb", "fanout=9", (72, 76)),
        node("master[0]", "highest_inum=999", (24, 32)),
        node("/etc/hosts", "mtime_sec=12345", (72, 80)),
        node("key 1/dent/etc", "kind=3", (49, 50)),
        node("idx root", "level=7", (26, 28)),
        header("peb 3", "ec=77", (8, 16), 64),
        header("peb 0:2048", "sqnum=99", (40, 48), 64),
        header("vtbl 1", "reserved_pebs=21", (0, 4), 172),
        Change {
            image: ubifs,
            address: "lpt 12",
            field: "leb[0].dirty8=3",
            place: (2, 14),
            kind: "lpt",
            sum: (0, 2),
        },
        Change {
            image: "j",
            address: "/etc/hosts",
            field: "uid=4711",
            place: (24, 26),
            kind: "jffs2",
            sum: (64, 68),
        },
    ];
    for Change { image, address, field, place, kind, sum } in changes {
        let at: usize = ask(&sample, image, &format!("where {address}"))
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("byte ")?.parse().ok())
            .unwrap();
        let shown = ask(&sample, image, &format!("p {address}"));
        // The header says how long a node is, without its padding; other structures have a fixed length.
        let header = shown.lines().find_map(|line| line.trim().strip_prefix("len = "));
        let len = header.or_else(|| shown.split(' ').nth(1)).unwrap().to_owned();
        sample.ok(&["debug", image, "-c", &format!("set {address} .{field}"), "-o", "copy"]);
        let changed = differences(&sample, image, "copy");
        let is_in = |(from, to): (usize, usize)| {
            changed.iter().any(|byte| (at + from..at + to).contains(byte))
        };
        assert!(is_in(place) && is_in(sum), "{address} .{field}: {changed:?}");
        let is_expected = |byte: &usize| {
            (at + place.0..at + place.1).contains(byte) || (at + sum.0..at + sum.1).contains(byte)
        };
        assert!(changed.iter().all(is_expected), "{address} .{field}: {changed:?}");
        let judge = |name: &str| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/checksums.py");
            let mut python = Command::new("python3");
            python.arg(script).arg(sample.path(name)).arg(kind);
            python.args([&at.to_string(), &len]);
            python.output().expect("python3 runs")
        };
        let said = judge("copy");
        assert!(said.status.success(), "{address} .{field}: {said:?}");
        let keep = format!("set {address} .{field} keep-crc");
        sample.ok(&["debug", image, "-c", &keep, "-o", "copy"]);
        assert!(!judge("copy").status.success(), "{address}: another checksum is right, too");
    }
}

#[test]
fn a_change_in_place_is_taken_back() {
    let sample = Sample::new();
    let image = sample.ubi();
    let before = fs::read(sample.path(image)).unwrap();
    let change = ["-c", "set sb.fanout=16", "-c", "erase peb 3", "-c", "poke byte 5 99"];
    let refused = sample.run(&[&["debug", image, "-w"][..], &change].concat());
    assert_eq!(refused.code, 2, "without an undo file");
    sample.ok(&[&["debug", image, "-w", "--undo", "u"][..], &change].concat());
    let after = fs::read(sample.path(image)).unwrap();
    assert!(after != before && after.len() == before.len());
    // A file that exists is never replaced.
    let again = sample.run(&[&["debug", image, "-w", "--undo", "u"][..], &change].concat());
    assert!(again.code == 3 && again.err.contains("exists already"), "{}", again.err);
    sample.ok(&["undo", "u", image, "--dry-run"]);
    assert!(fs::read(sample.path(image)).unwrap() == after);
    fs::write(sample.path("other"), &after[1..]).unwrap();
    assert_eq!(sample.run(&["undo", "u", "other"]).code, 3);
    let mut touched = after.clone();
    touched[5] = 0x77;
    fs::write(sample.path("other"), &touched).unwrap();
    let run = sample.run(&["undo", "u", "other"]);
    assert!(run.code == 3 && run.err.contains("neither"), "{}", run.err);
    assert!(fs::read(sample.path("other")).unwrap() == touched);
    // Halfway, and without the end of the undo file.
    let half = [&after[..200_000], &before[200_000..]].concat();
    fs::write(sample.path("other"), half).unwrap();
    let file = fs::read(sample.path("u")).unwrap();
    fs::write(sample.path("short"), &file[..file.len() - 44]).unwrap();
    sample.ok(&["undo", "short", "other"]);
    assert!(fs::read(sample.path("other")).unwrap() == before);
    let run = sample.ok(&["undo", "u", image, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(json["written"] == true && json["places"].as_u64().unwrap() > 2);
    assert!(fs::read(sample.path(image)).unwrap() == before);
    sample.ok(&["undo", "u", image]);
    fs::write(sample.path("none"), "no undo file").unwrap();
    assert_eq!(sample.run(&["undo", "none", image]).code, 3);
}

/// Runs commands from standard input.
fn piped(sample: &Sample, arguments: &[&str], input: &str) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_eraseblock"))
        .args(arguments)
        .current_dir(sample.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Without commands, JSON was preceded by plain text.
#[test]
fn commands_from_standard_input_are_one_document() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let input = "# a remark\np sb.fanout\n\nset .fanout=9\nquit\np sb\n";
    let (code, out) = piped(&sample, &["debug", image, "--json", "-o", "copy"], input);
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["commands"].as_array().unwrap().len(), 2);
    assert_eq!(json["commands"][0]["output"], "fanout = 8\n");
    assert_eq!(json["written"], true);
    assert_eq!(json["changes"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&sample, "copy", "p sb.fanout"), "fanout = 9\n");
    let (_, out) = piped(&sample, &["debug", image], "p sb.fanout\n");
    assert_eq!(out, "fanout = 8\n");
}

#[test]
fn a_script_that_fails_writes_nothing() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let before = fs::read(sample.path(image)).unwrap();
    fs::write(sample.path("s"), "set sb.fanout=9\nset sb.nothing=9\n").unwrap();
    let run = sample.run(&["debug", image, "-f", "s", "-o", "copy"]);
    assert!(run.code == 2 && run.err.contains("s:2"), "{}", run.err);
    assert!(!sample.path("copy").exists());
    assert_eq!(sample.run(&["debug", image, "-f", "s", "-w", "--undo", "u"]).code, 2);
    assert!(!sample.path("u").exists() && fs::read(sample.path(image)).unwrap() == before);
    // What a script expects is compared with what check names.
    for (expected, code) in [("X7", 0), ("X8", 1)] {
        let script = format!("image any\nset /etc/hosts .nlink=3\nexpect check {expected}\n");
        fs::write(sample.path("s"), script).unwrap();
        let run = sample.run(&["debug", image, "-f", "s", "-o", "copy"]);
        assert_eq!(run.code, code, "{}{}", run.out, run.err);
    }
    let run = sample.ok(&["debug", image, "-f", "s", "-c", "undo"]);
    assert!(run.out.contains("not judged"), "{}", run.out);
}
