//! UBI images that are shorter than their flash: fastmaps, volumes that grow at the first attach, and
//! commands that fail.

use crate::sample::{LAYOUT, Run, Sample, noise};
use std::fs;

/// Bytes of an eraseblock of the sample.
const PEB: usize = 128 << 10;

/// The layout of the sample with a fastmap.
fn with_fastmap() -> String {
    LAYOUT.replace("image-seq = 7", "image-seq = 7\nfastmap = true")
}

fn build(sample: &Sample, layout: &str) -> Run {
    fs::write(sample.path("kernel"), vec![0xA5; 200_000]).unwrap();
    fs::write(sample.path("layout.toml"), layout).unwrap();
    sample.run(&["build", "layout.toml", "-o", "all.ubi", "-q"])
}

fn fastmap(sample: &Sample) -> serde_json::Value {
    let info = sample.ok(&["info", "all.ubi", "--json"]).out;
    serde_json::from_str::<serde_json::Value>(&info).unwrap()["fastmap"].clone()
}

fn bytes(sample: &Sample) -> Vec<u8> {
    fs::read(sample.path("all.ubi")).unwrap()
}

#[test]
fn images_are_built_with_a_fastmap() {
    let sample = Sample::new();
    let run = build(&sample, &with_fastmap());
    assert_eq!(run.code, 0, "{}", run.err);
    let expected = serde_json::json!({"state": "usable", "anchor": 2, "blocks": 1, "pebs": 128});
    assert_eq!(fastmap(&sample), expected);
    let info = sample.ok(&["info", "all.ubi"]).out;
    assert!(info.contains("1 block from peb 2, used to attach a flash of 128"), "{info}");
    assert!(sample.ok(&["check", "all.ubi"]).err.contains("consistent"));
    assert!(sample.ok(&["ls", "all.ubi:rootfs"]).out.contains("etc"));
    // Without it the bytes are those of images before there were any.
    assert_eq!(build(&sample, LAYOUT).code, 0);
    assert_eq!(fastmap(&sample), serde_json::json!({"state": "absent"}));
    assert!(sample.ok(&["info", "all.ubi"]).out.contains("none: attaching scans all blocks"));
}

/// A flasher skipped a bad block: everything after it lies one block further up.
#[test]
fn a_fastmap_is_not_used_where_the_image_is_shifted() {
    let sample = Sample::new();
    build(&sample, &with_fastmap());
    let image = bytes(&sample);
    // Before the anchor, inside a volume, and the last block before the pools.
    for bad in [0, 8, image.len() / PEB - 13] {
        let mut shifted = image[..bad * PEB].to_vec();
        shifted.resize((bad + 1) * PEB, 0xFF);
        shifted.extend_from_slice(&image[bad * PEB..]);
        shifted.resize(128 * PEB, 0xFF);
        fs::write(sample.path("all.ubi"), &shifted).unwrap();
        assert_eq!(fastmap(&sample)["state"], "unusable", "block {bad}: {}", fastmap(&sample));
        assert!(sample.ok(&["ls", "all.ubi:rootfs"]).out.contains("etc"), "block {bad}");
    }
}

#[test]
fn a_fastmap_needs_to_know_the_flash() {
    let sample = Sample::new();
    for (from, to, part) in [
        ("blocks = 128\n", "", "number of eraseblocks is not known"),
        ("blocks = 128\n", "blocks = 64\n", "uses none on a flash of 64"),
    ] {
        let run = build(&sample, &with_fastmap().replace(from, to));
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.contains(part) && run.err.contains("hint:"), "{}", run.err);
        assert!(!sample.path("all.ubi").exists());
    }
    build(&sample, LAYOUT);
    let before = bytes(&sample);
    let run = sample.run(&["put", "all.ubi:rootfs", "kernel", "/k", "--fastmap"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("--size"), "{}", run.err);
    let run = sample.run(&["ubi", "mkvol", "all.ubi", "more", "--lebs", "1", "--fastmap"]);
    assert!(run.err.contains("--blocks"), "{}", run.err);
    assert!(bytes(&sample) == before);
}

#[test]
fn writing_keeps_a_fastmap_if_asked_and_removes_it_if_not() {
    let sample = Sample::new();
    build(&sample, &with_fastmap());
    let built = bytes(&sample);
    // The fastmap says how large the flash is.
    for (command, state) in [
        (&["put", "all.ubi:rootfs", "kernel", "/k", "--fastmap"][..], "usable"),
        (&["edit", "all.ubi:rootfs", "-c", "mkdir /new", "--fastmap"], "usable"),
        (&["ubi", "mkvol", "all.ubi", "more", "--lebs", "1", "--fastmap"], "usable"),
        (&["put", "all.ubi:rootfs", "kernel", "/k"], "absent"),
    ] {
        if command[0] == "ubi" {
            // Room for another volume.
            fs::write(sample.path("all.ubi"), &built).unwrap();
            let shrink = ["ubi", "rsvol", "all.ubi", "data", "--lebs", "5", "--fastmap"];
            sample.ok(&shrink);
        }
        sample.ok(command);
        assert_eq!(fastmap(&sample)["state"], state, "{command:?}: {}", fastmap(&sample));
        assert!(sample.ok(&["check", "all.ubi:rootfs"]).err.contains("consistent"), "{command:?}");
    }
}

#[test]
fn chips_are_formatted_with_a_fastmap() {
    let sample = Sample::new();
    sample.ok(&["chip", "new", "c", "--size", "8MiB", "--peb", "64KiB", "--page", "2048"]);
    sample.ok(&["ubi", "format", "c", "--fastmap"]);
    let state = |name: &str| {
        let info = sample.ok(&["info", name, "--json"]).out;
        serde_json::from_str::<serde_json::Value>(&info).unwrap()["fastmap"]["state"].clone()
    };
    assert_eq!(state("c"), "usable");
    sample.ok(&["ubi", "mkvol", "c", "v", "--lebs", "4", "--fastmap"]);
    assert_eq!(state("c"), "usable");
    sample.ok(&["ubi", "rmvol", "c", "v"]);
    assert_eq!(state("c"), "absent");
    sample.ok(&["chip", "new", "d", "--size", "1MiB", "--peb", "16KiB", "--page", "512"]);
    let run = sample.run(&["ubi", "format", "d", "--fastmap"]);
    assert_eq!((run.code, run.err.contains("more than 64")), (2, true), "{}", run.err);
}

#[test]
fn a_failed_command_leaves_the_image_as_it_was() {
    let sample = Sample::new();
    build(&sample, LAYOUT);
    let before = bytes(&sample);
    fs::write(sample.path("large"), noise(20 << 20)).unwrap();
    for command in [
        &["put", "all.ubi:rootfs", "nope", "/", "--size", "16MiB"][..],
        &["put", "all.ubi:rootfs", "large", "/", "--size", "16MiB"],
        &["put", "all.ubi:nope", "kernel", "/", "--size", "16MiB"],
        &["put", "all.ubi:rootfs", "kernel", "/k"],
        &["ubi", "mkvol", "all.ubi", "more", "--lebs", "1000", "--blocks", "128"],
        &["ubi", "rsvol", "all.ubi", "kernel", "--lebs", "1", "--blocks", "128"],
        &["ubi", "update", "all.ubi:kernel", "large", "--blocks", "128"],
        &["mount", "all.ubi:rootfs", "missing", "--rw", "--size", "16MiB"],
    ] {
        let run = sample.run(command);
        assert!(run.code >= 2, "{command:?}: {}{}", run.out, run.err);
        assert!(bytes(&sample) == before, "{command:?} changed the image");
    }
}

#[test]
fn a_short_image_stays_short() {
    let sample = Sample::new();
    build(&sample, LAYOUT);
    let before = bytes(&sample).len();
    for command in [
        &["put", "all.ubi:rootfs", "kernel", "/k", "--size", "16MiB"][..],
        &["edit", "all.ubi:rootfs", "-c", "mkdir /new", "--size", "16MiB"],
    ] {
        sample.ok(command);
        // Some blocks more: UBI writes into free ones before it erases old ones.
        let after = bytes(&sample).len();
        assert!(after < before + 24 * PEB, "{command:?}: {before} before, {after} after");
        assert_eq!(after % PEB, 0);
        assert!(sample.ok(&["check", "all.ubi:rootfs"]).err.contains("consistent"));
        assert!(sample.ok(&["check", "all.ubi:rootfs", "--strict"]).err.contains("consistent"));
    }
    assert!(sample.ok(&["ls", "all.ubi:rootfs"]).out.contains("new"));
}

/// All volumes have the size they will always have: the image says how many blocks it wants.
#[test]
fn an_image_without_growing_volumes_is_written_without_its_size() {
    let sample = Sample::new();
    assert_eq!(build(&sample, &LAYOUT.replace("flags = [\"autoresize\"]\n", "")).code, 0);
    let before = bytes(&sample).len();
    sample.ok(&["put", "all.ubi:rootfs", "kernel", "/k"]);
    sample.ok(&["ubi", "update", "all.ubi:kernel", "kernel"]);
    assert!(bytes(&sample).len() < before + 24 * PEB);
    assert!(sample.ok(&["check", "all.ubi:rootfs"]).err.contains("consistent"));
    // Formatting takes the file as it is.
    let blocks = bytes(&sample).len() / PEB;
    let format = sample.ok(&["ubi", "format", "all.ubi", "--json"]).out;
    let format: serde_json::Value = serde_json::from_str(&format).unwrap();
    assert_eq!(format["formatted"], blocks);
    assert_eq!(bytes(&sample).len() / PEB, blocks);
}

/// The volume was as small as its content, and no mount took it.
#[test]
fn a_volume_without_size_is_large_enough_for_linux() {
    let sample = Sample::new();
    for part in ["W25N01GV", "W29N01HV"] {
        let layout = format!(
            "[flash]\npart = '{part}'\n[[volume]]\nname = 'rootfs'\ncontent = {{ ubifs = 'src' }}\n"
        );
        assert_eq!(build(&sample, &layout).code, 0);
        let run = sample.ok(&["check", "all.ubi"]);
        assert_eq!(run.err, "consistent\n");
        sample.ok(&["put", "all.ubi", "kernel", "/k", "--size", "128MiB"]);
        assert_eq!(sample.ok(&["check", "all.ubi"]).err, "consistent\n");
    }
}

/// As Buildroot makes images: the only volume has no size and grows at the first attach.
#[test]
fn a_volume_without_size_that_grows_can_be_read() {
    let sample = Sample::new();
    let layout = "[flash]\npart = 'W25N01GV'\n[[volume]]\nname = 'rootfs'\nflags = ['autoresize']\n\
                  content = { ubifs = 'src' }\n";
    assert_eq!(build(&sample, layout).code, 0);
    readable(&sample, "rootfs");
    // The first change needs the flash; afterwards the volume has all of it.
    let run = sample.run(&["put", "all.ubi", "kernel", "/k"]);
    assert!(
        run.err.contains("shorter than its flash") && run.err.contains("--size"),
        "{}",
        run.err
    );
    sample.ok(&["put", "all.ubi", "kernel", "/k", "--size", "128MiB"]);
    assert!(bytes(&sample).len() < 8 << 20);
    readable(&sample, "rootfs");
    // Its size is known from now on.
    sample.ok(&["put", "all.ubi", "kernel", "/k2"]);
    assert!(bytes(&sample).len() < 8 << 20);
    readable(&sample, "rootfs");
    let ini = "[rootfs]\nmode=ubi\nvol_id=0\nvol_type=dynamic\nvol_name=rootfs\n\
               vol_flags=autoresize\nimage=root.ubifs\n";
    fs::write(sample.path("ubinize.ini"), ini).unwrap();
    let mkfs = ["-r", "src", "-o", "root.ubifs", "-m", "2048", "-e", "126976", "-c", "1000"];
    let ubinize = ["-o", "all.ubi", "-p", "128KiB", "-m", "2048", "ubinize.ini"];
    sample.ok(&[&["mkfs.ubifs"], &mkfs[..]].concat());
    sample.ok(&[&["ubinize"], &ubinize[..]].concat());
    readable(&sample, "rootfs");
    if sample.classic("mkfs.ubifs", &mkfs).is_some() {
        sample.classic("ubinize", &ubinize).unwrap();
        readable(&sample, "rootfs");
        sample.ok(&["put", "all.ubi", "kernel", "/k", "--size", "128MiB"]);
        readable(&sample, "rootfs");
    }
}

fn readable(sample: &Sample, volume: &str) {
    let target = format!("all.ubi:{volume}");
    assert!(sample.ok(&["ls", &target]).out.contains("etc"));
    for strict in [&[][..], &["--strict"]] {
        let check = sample.ok(&[&["check", &target], strict].concat());
        assert!(check.err.contains("consistent"), "{}{}", check.out, check.err);
    }
    sample.ok(&["info", "all.ubi"]);
}

#[test]
fn a_volume_does_not_shrink_below_its_content() {
    let sample = Sample::new();
    sample.ok(&["chip", "new", "c", "--size", "16MiB", "--peb", "128KiB", "--page", "2048"]);
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "small", "--lebs", "60"]);
    sample.ubifs();
    sample.ok(&["ubi", "update", "c:small", "root.ubifs"]);
    sample.ok(&["edit", "c:small", "-c", "mkdir /grown"]);
    let run = sample.run(&["ubi", "rsvol", "c", "small", "--size", "2MiB"]);
    assert_eq!(run.code, 3, "{}", run.err);
    for part in ["`small` holds a UBIFS of 60 LEBs", "the new size is 17 LEBs", "--force"] {
        assert!(run.err.contains(part), "{}", run.err);
    }
    assert!(sample.ok(&["check", "c:small"]).err.contains("consistent"));
    // Larger, and smaller than that again.
    sample.ok(&["ubi", "rsvol", "c", "small", "--lebs", "80"]);
    sample.ok(&["ubi", "rsvol", "c", "small", "--lebs", "70"]);
    sample.ok(&["ubi", "rsvol", "c", "small", "--lebs", "17", "--force"]);
    // Data without a file system, of both types.
    sample.ok(&["ubi", "mkvol", "c", "data", "--lebs", "8", "--type", "static"]);
    fs::write(sample.path("content"), vec![1; 300_000]).unwrap();
    sample.ok(&["ubi", "update", "c:data", "content"]);
    let run = sample.run(&["ubi", "rsvol", "c", "data", "--lebs", "2"]);
    assert!(run.err.contains("holds data of 3 LEBs"), "{}", run.err);
    sample.ok(&["ubi", "rsvol", "c", "data", "--lebs", "3"]);
}

#[test]
fn too_few_lebs_name_the_next_step() {
    let sample = Sample::new();
    build(&sample, LAYOUT);
    let run = sample.run(&["ubi", "mkvol", "all.ubi", "more", "--lebs", "1000", "--blocks", "128"]);
    for part in ["1000 eraseblocks wanted", "`data` has", "autoresize", "ubi rsvol"] {
        assert!(run.err.contains(part), "{}", run.err);
    }
    let run = sample.run(&["ubi", "mkvol", "all.ubi", "more", "--lebs", "1"]);
    assert!(run.err.contains("--blocks") && !run.err.contains("--size"), "{}", run.err);
}

#[test]
fn a_preflight_says_whether_it_fits() {
    let sample = Sample::new();
    fs::write(sample.path("src/large"), noise(20 << 20)).unwrap();
    let mkfs = |compressor: &str, lebs: &str, more: &[&str]| {
        let shape = ["--peb", "128KiB", "--page", "2048", "--max-lebs", lebs];
        let command = ["mkfs", "ubifs", "src", "-o", "x", "--compressor", compressor];
        sample.run(&[&command[..], &shape, more].concat())
    };
    for compressor in ["none", "zlib"] {
        for lebs in ["40", "400"] {
            let before = mkfs(compressor, lebs, &["--preflight", "--json"]);
            assert!(!sample.path("x").exists());
            let built = mkfs(compressor, lebs, &["--json"]);
            assert_eq!(before.code, built.code, "{compressor} {lebs}: {}", before.err);
            if built.code != 0 {
                continue;
            }
            let read = |run: &Run| serde_json::from_str::<serde_json::Value>(&run.out).unwrap();
            let (before, built) = (read(&before), read(&built));
            let lebs = built["lebs"].as_u64().unwrap();
            assert!(before["lebs_least"].as_u64().unwrap() <= lebs, "{before}");
            assert!(before["lebs_most"].as_u64().unwrap() >= lebs, "{before}");
            fs::remove_file(sample.path("x")).unwrap();
        }
    }
    assert_eq!(mkfs("none", "40", &["--preflight"]).code, 3);
    let layout = |blocks: u32| {
        format!(
            "[flash]\npeb = '128KiB'\npage = 2048\nblocks = {blocks}\n[[volume]]\nname = 'r'\n\
             content = {{ ubifs = 'src', compressor = 'none' }}\n"
        )
    };
    for (blocks, code) in [(60, 3), (300, 0)] {
        fs::write(sample.path("layout.toml"), layout(blocks)).unwrap();
        let run = sample.run(&["build", "layout.toml", "-o", "x", "--preflight", "--json"]);
        assert_eq!(run.code, code, "{}", run.err);
        if code == 0 {
            let sum: serde_json::Value = serde_json::from_str(&run.out).unwrap();
            let built = sample.ok(&["build", "layout.toml", "-o", "x", "--json"]).out;
            let built: serde_json::Value = serde_json::from_str(&built).unwrap();
            let lebs = built["volumes"][0]["reserved_lebs"].as_u64().unwrap();
            assert!(sum["lebs_least"].as_u64().unwrap() <= lebs, "{sum}");
            assert!(sum["lebs_most"].as_u64().unwrap() >= lebs, "{sum}");
        }
    }
    let jffs2 = ["mkfs", "jffs2", "src", "-o", "y", "--peb", "64KiB", "--json"];
    let before = sample.ok(&[&jffs2[..], &["--preflight"]].concat()).out;
    assert!(!sample.path("y").exists());
    assert_eq!(before, sample.ok(&jffs2).out);
}
