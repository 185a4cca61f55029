//! Simulated chips in files, and UBI on them.

use crate::mount::mounted;
use crate::sample::{Run, Sample, finish};
use eraseblock::raw::base::{Leb, VolumeId};
use eraseblock::raw::ubi_format::encode::encode_vid;
use eraseblock::raw::ubi_format::{Compat, SqNum, VidHeader, VolumeKind};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const SMALL: [&str; 6] = ["--size", "8MiB", "--peb", "16KiB", "--page", "512"];

fn json(sample: &Sample, arguments: &[&str]) -> Value {
    let run = sample.ok(&[arguments, &["--json"]].concat());
    serde_json::from_str(&run.out).unwrap()
}

/// A formatted chip `c` with an empty volume `data` of 60 LEBs.
fn with_volume() -> Sample {
    let sample = Sample::new();
    sample.ok(&[&["chip", "new", "c"][..], &SMALL].concat());
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "data", "--lebs", "60"]);
    sample
}

#[test]
fn a_chip_is_made_filled_and_read_back() {
    let sample = with_volume();
    sample.ok(&[
        "mkfs",
        "ubifs",
        "src",
        "-o",
        "r",
        "--peb",
        "16KiB",
        "--page",
        "512",
        "--max-lebs",
        "60",
    ]);
    sample.ok(&["ubi", "update", "c:data", "r"]);
    assert!(sample.ok(&["ls", "c"]).out.contains("etc"));
    sample.ok(&["extract", "c:data", "out"]);
    let tool = fs::read(sample.path("out/bin/tool")).unwrap();
    assert!(tool == fs::read(sample.path("src/bin/tool")).unwrap());
    assert_eq!(json(&sample, &["info", "c"])["volumes"][0]["name"], "data");

    sample.ok(&["chip", "export", "c", "image"]);
    sample.ok(&["chip", "export", "c", "oob", "--oob"]);
    assert_eq!(fs::metadata(sample.path("image")).unwrap().len(), 8 << 20);
    assert_eq!(fs::metadata(sample.path("oob")).unwrap().len(), (8 << 20) / 512 * 528);
    sample.ok(&[&["chip", "new", "d"][..], &SMALL].concat());
    sample.ok(&["chip", "import", "d", "oob", "--oob"]);
    sample.ok(&["chip", "export", "d", "again"]);
    let (image, again) = (fs::read(sample.path("image")), fs::read(sample.path("again")));
    assert!(image.unwrap() == again.unwrap());
}

#[test]
fn a_disk_is_made_a_flash_and_used_as_one() {
    let sample = Sample::new();
    let disk = fs::File::create(sample.path("disk")).unwrap();
    disk.set_len(24 << 20).unwrap();
    let refused = sample.run(&["ubi", "format", "disk"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("--block-device"), "{}", refused.err);
    sample.ok(&["ubi", "format", "disk", "--block-device", "--peb", "64KiB"]);
    let again = sample.run(&["ubi", "format", "disk", "--block-device"]);
    assert_eq!(again.code, 3);
    assert!(again.err.contains("not empty") && again.err.contains("--force"), "{}", again.err);
    sample.ok(&["ubi", "mkvol", "disk", "data", "--size", "8MiB"]);
    let shape = ["--peb", "64KiB", "--page", "4096", "--max-lebs", "140"];
    sample.ok(&[&["mkfs", "ubifs", "src", "-o", "r"][..], &shape].concat());
    sample.ok(&["ubi", "update", "disk:data", "r"]);
    assert!(sample.ok(&["ls", "disk"]).out.contains("etc"));
    fs::write(sample.path("new"), "new").unwrap();
    sample.ok(&["put", "disk:data", "new", "/etc/new"]);
    assert_eq!(sample.ok(&["cat", "disk:data", "/etc/new"]).out, "new");
    sample.ok(&["check", "disk"]);
    sample.ok(&["extract", "disk:data", "out"]);
    assert_eq!(fs::read(sample.path("out/etc/new")).unwrap(), b"new");
    assert_eq!(json(&sample, &["info", "disk"])["volumes"][0]["name"], "data");
    let wear = json(&sample, &["ubi", "wear", "disk"]);
    assert!(wear["max_ec"].as_u64().unwrap() > 0);
    // Formatted again, the erase counters stay.
    let kept = json(&sample, &["ubi", "format", "disk"]);
    assert_eq!(kept["counters_kept"], kept["formatted"]);
}

#[test]
fn an_image_larger_than_the_chip_is_refused() {
    let sample = Sample::new();
    sample.ok(&[&["chip", "new", "c"][..], &SMALL].concat());
    fs::write(sample.path("image"), vec![0; (8 << 20) + 1]).unwrap();
    let refused = sample.run(&["chip", "import", "c", "image"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("more than the chip's 8 MiB"), "{}", refused.err);
    assert_eq!(json(&sample, &["chip", "stats", "c"])["counters"]["page_programs"], 0);
}

#[test]
fn volumes_are_changed_on_chips_and_images() {
    let sample = with_volume();
    sample.ok(&["chip", "export", "c", "image"]);
    for target in ["c", "image"] {
        let made = json(
            &sample,
            &["ubi", "mkvol", target, "k", "--size", "100KiB", "--type", "static", "--id", "7"],
        );
        assert_eq!(made["volumes"][1]["id"], 7);
        assert_eq!(made["volumes"][1]["lebs"], 7);
        fs::write(sample.path("kernel"), vec![9; 50_000]).unwrap();
        sample.ok(&["ubi", "update", &format!("{target}:k"), "kernel"]);
        assert!(sample.run(&["cat", &format!("{target}:k")]).out.len() >= 50_000);
        sample.ok(&["ubi", "rename", target, "k", "data", "data", "k"]);
        let resized = json(&sample, &["ubi", "rsvol", target, "k", "--all"]);
        assert_eq!(resized["available_lebs"], 0);
        assert_eq!(resized["volumes"][1]["name"], "data");
        let removed = json(&sample, &["ubi", "rmvol", target, "0", "7"]);
        assert_eq!(removed["volumes"], Value::Array(Vec::new()));
    }
}

#[test]
fn erase_counters_survive_formatting() {
    let sample = with_volume();
    sample.ok(&["ubi", "format", "c"]);
    let wear = json(&sample, &["ubi", "wear", "c", "--each"]);
    assert_eq!((wear["pebs"].as_u64(), wear["min_ec"].as_u64()), (Some(512), Some(1)));
    assert_eq!(wear["erase_counters"].as_array().unwrap().len(), 512);
    assert!(sample.ok(&["ubi", "wear", "c"]).out.contains("erase counters"));
    sample.ok(&["ubi", "format", "c", "--erase-counter", "100"]);
    let wear = json(&sample, &["ubi", "wear", "c"]);
    assert!(wear["min_ec"].as_u64() >= Some(100) && wear.get("erase_counters").is_none());
}

#[test]
fn an_armed_cut_comes_once() {
    let sample = with_volume();
    let armed = json(&sample, &["chip", "cut", "c", "--after", "2", "--program", "P0"]);
    let event = armed["next_event"].as_u64().unwrap() + 2;
    assert_eq!(armed["armed_cut"]["event"], event);
    let run = sample.run(&["ubi", "rsvol", "c", "data", "--lebs", "50"]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("power is off") && run.err.contains("hint: the armed"), "{}", run.err);
    let after = json(&sample, &["chip", "stats", "c"]);
    assert_eq!((&after["armed_cut"], &after["next_event"]), (&Value::Null, &(event + 1).into()));
    sample.ok(&["ubi", "rsvol", "c", "data", "--lebs", "50"]);
    sample.ok(&["chip", "cut", "c", "--after", "2"]);
    sample.ok(&["chip", "cut", "c", "--disarm"]);
    sample.ok(&["ubi", "rsvol", "c", "data", "--lebs", "60"]);
}

/// Runs a command that may not write to files without permission, not even as root.
fn unprivileged(sample: &Sample, arguments: &[&str]) -> Run {
    let program = env!("CARGO_BIN_EXE_eraseblock");
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--bounding-set", "-dac_override", "--", program]);
    } else {
        command = Command::new(program);
    }
    finish(command.args(arguments), &sample.path(""))
}

/// Reading cells that decay changes a chip. A command that had its file open for reading failed
/// with `write failed: Bad file descriptor`, and `check` advised to make a new file system.
fn every_cut_is_read_without_writing(page: &str, sizes: &[&str], cuts: &[(&str, &str)]) {
    let sample = Sample::new();
    let shape = ["--peb", "16KiB", "--page", page];
    sample.ok(&[&["chip", "new", "c", "--size", "8MiB"][..], &shape].concat());
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "data", "--lebs", "60"]);
    sample.ok(&[&["mkfs", "ubifs", "src", "-o", "r"][..], sizes].concat());
    sample.ok(&["ubi", "update", "c:data", "r"]);
    sample.ok(&["put", "c:data", "src/bin/tool", "/tool"]);
    fs::create_dir(sample.path("m")).unwrap();
    let tool = fs::read(sample.path("src/bin/tool")).unwrap();
    for (number, (program, erase)) in cuts.iter().enumerate() {
        let _ = fs::remove_file(sample.path("cut"));
        fs::copy(sample.path("c"), sample.path("cut")).unwrap();
        let after = (2 + 7 * (number % 4)).to_string();
        let cut = ["--after", &after, "--program", program, "--erase", erase];
        sample.ok(&[&["chip", "cut", "cut"][..], &cut].concat());
        assert_eq!(sample.run(&["put", "cut:data", "src/bin/tool", "/again"]).code, 3);
        let before = fs::read(sample.path("cut")).unwrap();
        fs::set_permissions(sample.path("cut"), fs::Permissions::from_mode(0o444)).unwrap();
        let look = |command: &[&str]| {
            let run = unprivileged(&sample, command);
            assert_eq!(run.code, 0, "{program} {erase} {command:?}: {}{}", run.out, run.err);
            assert!(fs::read(sample.path("cut")).unwrap() == before, "{command:?}");
            run
        };
        for command in [
            &["info", "cut"][..],
            &["ls", "cut"],
            &["check", "cut"],
            &["ubi", "wear", "cut"],
            &["chip", "stats", "cut"],
            &["cat", "cut", "/tool"],
            &["extract", "cut:data", "out"],
        ] {
            look(command);
        }
        assert!(fs::read(sample.path("out/tool")).unwrap() == tool);
        fs::remove_dir_all(sample.path("out")).unwrap();
        if mounted("a cut chip", &unprivileged(&sample, &["mount", "cut:data", "m"])) {
            assert!(fs::read(sample.path("m/tool")).unwrap() == tool);
            look(&["umount", "m"]);
        }
    }
}

#[test]
fn decaying_nand_is_read_without_writing_the_file() {
    let sizes = ["--peb", "16KiB", "--page", "512", "--max-lebs", "60"];
    let cuts = [
        ("P0", "E0"),
        ("P1", "E1"),
        ("P3", "E2"),
        ("P4", "E3"),
        ("P5r1", "E4"),
        ("P5r2", "E3"),
        ("P6k4", "E4"),
        ("P7data", "E2scattered"),
    ];
    every_cut_is_read_without_writing("512", &sizes, &cuts);
}

#[test]
fn decaying_nor_is_read_without_writing_the_file() {
    let sizes = ["--peb", "16KiB", "--page", "8", "--leb", "16256", "--max-lebs", "60"];
    let cuts = [("P0", "E0"), ("P1", "E1"), ("P3", "E2"), ("P3", "E4"), ("P3", "E5")];
    every_cut_is_read_without_writing("1", &sizes, &cuts);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_hint() {
    let sample = with_volume();
    fs::write(sample.path("big"), vec![1; 1_000_000]).unwrap();
    fs::write(sample.path("raw"), vec![0xFF; 65_536]).unwrap();
    let small = [&["chip", "new", "c"][..], &SMALL].concat();
    for (arguments, code, message) in [
        (&small[..], 3, "--force replaces it"),
        (&["chip", "new", "x"], 2, "--size is missing"),
        (&["chip", "new", "x", "--part", "nope"], 3, "`eraseblock chip parts` lists"),
        (&["chip", "new", "x", "--part", "W25N01GV", "--bad", "1024"], 2, "has 1024 blocks"),
        (
            &["chip", "new", "x", "--size", "100000", "--peb", "16KiB", "--page", "512"],
            2,
            "multiple",
        ),
        (&["chip", "stats", "raw"], 3, "raw: not a simulated chip"),
        (&["chip", "cut", "c"], 2, "--after"),
        (&["chip", "cut", "c", "--after", "1", "--program", "E1"], 2, "begins with P"),
        (&["ubi", "mkvol", "c", "a"], 2, "--size"),
        (&["ubi", "mkvol", "c", "data", "--lebs", "1"], 3, "data"),
        (&["ubi", "mkvol", "c", "a", "--lebs", "9999"], 3, "available"),
        (&["ubi", "mkvol", "raw", "a", "--all"], 3, "--peb and --page"),
        (&["ubi", "update", "c:data", "big"], 3, "rsvol"),
        (&["ubi", "update", "c", "big"], 2, "which volume"),
        (&["ubi", "rmvol", "c", "nope"], 3, "the volumes are: data"),
        (&["ubi", "rename", "c", "data", "a", "b"], 2, "pairs"),
        (&["ubi", "wear", "c:data"], 2, "whole flash"),
    ] {
        let run = sample.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
    sample.ok(&["ubi", "format", "raw", "--peb", "16KiB", "--page", "512", "--blocks", "64"]);
    assert_eq!(fs::metadata(sample.path("raw")).unwrap().len(), 1 << 20);
    sample.ok(&["ubi", "mkvol", "raw", "a", "--all"]);
}

/// An unknown internal volume that wants the device read-only (spec: ubi 6.2).
#[test]
fn a_read_only_device_is_written_to_when_forced() {
    let sample = with_volume();
    sample.ok(&["chip", "export", "c", "image"]);
    let mut image = fs::read(sample.path("image")).unwrap();
    let header = VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat: Compat::ReadOnly,
        volume: VolumeId::new(0x7FFF_F123),
        leb: Leb::new(0),
        data_size: 0,
        used_lebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: SqNum::new(1 << 40),
    };
    let at = 300 * 16_384 + 512;
    image[at..at + 64].copy_from_slice(&encode_vid(&header));
    fs::write(sample.path("image"), image).unwrap();
    let refused = sample.run(&["ubi", "rsvol", "image", "data", "--lebs", "50"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("unknown internal volume"), "{}", refused.err);
    assert!(refused.err.contains("--force-rw"), "{}", refused.err);
    sample.ok(&["ubi", "rsvol", "image", "data", "--lebs", "50", "--force-rw"]);
    let info = sample.run(&["info", "image", "--json"]);
    assert_eq!(info.code, 1, "the internal volume is a finding");
    let info: Value = serde_json::from_str(&info.out).unwrap();
    assert_eq!(info["volumes"][0]["reserved_lebs"], 50);
}

#[test]
fn a_chip_ages_until_its_data_is_lost() {
    let sample = with_volume();
    let data = "5".repeat(100_000);
    fs::write(sample.path("data"), &data).unwrap();
    sample.ok(&["ubi", "update", "c:data", "data"]);
    let leaking = json(&sample, &["chip", "age", "c", "--leak", "1000", "--seed", "4"]);
    assert_eq!(leaking["retention"]["per_billion"], 1000);
    let read = || sample.run(&["cat", "c:data"]).out.starts_with(&data);
    let corrected =
        || json(&sample, &["chip", "stats", "c"])["counters"]["corrected_bits"].as_u64();
    assert!(read());
    sample.ok(&["chip", "age", "c", "--pass", "300"]);
    assert!(read(), "few leaks are corrected");
    // Data that is rewritten while the chip is open for writing starts to age again.
    sample.ok(&["ubi", "update", "c:data", "data"]);
    assert!(corrected() > Some(0));
    sample.ok(&["chip", "age", "c", "--pass", "20000"]);
    assert!(!read(), "many are not");
    assert!(sample.ok(&["chip", "stats", "c"]).out.contains("retention   1 000 of a billion"));
    sample.ok(&["chip", "age", "c", "--off"]);
    assert!(read());
    assert_eq!(sample.run(&["chip", "age", "c"]).code, 2);
}

/// What was left of a UBI without a readable header was called a consistent JFFS2, and written over.
#[test]
fn the_remains_of_a_ubi_are_no_empty_flash() {
    let sample = with_volume();
    sample.ok(&["chip", "age", "c", "--leak", "1000", "--seed", "4", "--pass", "5000"]);
    let refused = sample.run(&["check", "c"]);
    assert_eq!(refused.code, 3, "{}", refused.err);
    // It was reported twice.
    assert_eq!(refused.err.matches("no copy of the volume table").count(), 1, "{}", refused.err);
    sample.ok(&["chip", "age", "c", "--pass", "20000"]);
    for arguments in [&["check", "c"][..], &["put", "c", "src"], &["edit", "c", "-c", "ls"]] {
        let refused = sample.run(arguments);
        assert_eq!(refused.code, 3, "{arguments:?}: {}", refused.err);
    }
    sample.ok(&["chip", "age", "c", "--off"]);
    assert!(sample.ok(&["ubi", "wear", "c"]).out.contains("0 unreadable"));
}

/// Between the out-of-band bytes of a raw dump only the first header was found: a device without
/// volumes, on which a writer would have made some.
#[test]
fn a_ubi_in_a_raw_dump_is_read_and_never_written() {
    let sample = Sample::new();
    let shapes = [
        ("512", "512", "16", "16KiB"),
        ("2048", "2048", "64", "128KiB"),
        // Here the beginning of the volume table seems to be where it is expected.
        ("2048", "512", "64", "128KiB"),
    ];
    for (page, subpage, oob, peb) in shapes {
        let chip = format!("c{page}-{subpage}");
        let shape =
            ["--size", "16MiB", "--peb", peb, "--page", page, "--subpage", subpage, "--oob", oob];
        sample.ok(&[&["chip", "new", &chip][..], &shape].concat());
        sample.ok(&["ubi", "format", &chip]);
        sample.ok(&["ubi", "mkvol", &chip, "system", "--size", "8MiB"]);
        sample.ok(&["put", &format!("{chip}:system"), "src"]);
        sample.ok(&["chip", "export", &chip, "dump", "--oob", "--force"]);
        let before = fs::read(sample.path("dump")).unwrap();
        let target = "dump:system";
        assert_eq!(sample.ok(&["cat", target, "etc/hosts"]).out, "127.0.0.1 localhost\n");
        let info = sample.ok(&["info", "dump"]);
        let left_out = format!("{oob} out-of-band bytes after each page of {page}");
        assert!(info.out.contains("system") && info.err.contains(&left_out), "{}", info.err);
        assert!(sample.ok(&["check", target]).err.contains("consistent"));
        sample.ok(&["ubi", "wear", "dump"]);
        sample.ok(&["extract", target, &format!("out-{chip}")]);
        let tool = fs::read(sample.path(&format!("out-{chip}/bin/tool"))).unwrap();
        assert_eq!(tool, vec![0x5a; 70_000]);
        for refused in [
            &["put", target, "src"][..],
            &["put", target, "src", "--size", "32MiB"],
            &["ubi", "mkvol", "dump", "more", "--size", "1MiB"],
        ] {
            let run = sample.run(refused);
            assert_eq!(run.code, 3, "{refused:?}: {}", run.err);
            assert!(run.err.contains("can only be read"), "{refused:?}: {}", run.err);
            assert!(run.err.contains("chip import"), "{refused:?}: {}", run.err);
        }
        assert!(before == fs::read(sample.path("dump")).unwrap(), "the dump changed");
    }
}

/// Tags that begin at the bad-block marker made every block bad, and nothing said so.
#[test]
fn an_import_says_which_blocks_its_spare_bytes_make_bad() {
    let sample = Sample::new();
    let shape = ["--size", "8MiB", "--peb", "128KiB", "--page", "2048", "--oob", "64"];
    sample.ok(&[&["chip", "new", "c"][..], &shape].concat());
    sample.ok(&["mkfs", "yaffs2", "src", "-o", "y.img"]);
    let run = sample.run(&["chip", "import", "c", "y.img", "--oob"]);
    let said =
        "1 eraseblock is bad now, as the marker in the spare bytes says: 0; 1 of them hold data";
    assert!(run.code == 1 && run.err.contains(said), "{} {}", run.code, run.err);
    sample.ok(&["mkfs", "yaffs2", "src", "-o", "z.img", "--tags-at", "2"]);
    let run = sample.ok(&["chip", "import", "c", "z.img", "--oob"]);
    assert!(!run.err.contains("bad"), "{}", run.err);
    // A dump of a flash with a bad block is as usual.
    let shape = [&shape[..], &["--bad", "3"]].concat();
    sample.ok(&[&["chip", "new", "b"][..], &shape].concat());
    sample.ok(&["chip", "export", "b", "dump", "--oob"]);
    let run = sample.ok(&["chip", "import", "c", "dump", "--oob"]);
    assert!(run.err.contains("note: ") && run.err.contains("says: 3 "), "{}", run.err);
}
