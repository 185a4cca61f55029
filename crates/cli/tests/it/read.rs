//! Looking into images and taking files out.

use crate::sample::{Sample, noise, raw_dump};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

#[test]
fn volumes_are_found_by_name_number_or_because_there_is_one() {
    let sample = Sample::new();
    let image = sample.ubi();
    for target in ["all.ubi", "all.ubi:rootfs", "all.ubi:1"] {
        assert_eq!(sample.ok(&["ls", target]).out, "bin\netc\n", "{target}");
    }
    let run = sample.run(&["ls", "all.ubi:nope"]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("there is no volume `nope`"), "{}", run.err);
    assert!(run.err.contains("rootfs (number 1)"), "{}", run.err);
    assert_eq!(sample.run(&["ls", "all.ubi:kernel"]).code, 3);
    let bare = sample.ubifs();
    assert_eq!(sample.ok(&["ls", bare]).out, "bin\netc\n");
    assert_eq!(sample.run(&["ls", "root.ubifs:rootfs"]).code, 3);
    fs::rename(sample.path(image), sample.path("a:b")).unwrap();
    assert_eq!(sample.ok(&["ls", "a:b:rootfs", "etc"]).out, "hosts\nlink\n");
}

#[test]
fn listings_show_what_is_there() {
    let sample = Sample::new();
    let image = sample.ubifs();
    assert_eq!(sample.ok(&["ls", "-a", image, "/etc"]).out, ".hidden\nhosts\nlink\n");
    let long = sample.ok(&["ls", "-l", image, "bin"]).out;
    assert!(long.starts_with("-rwxr-xr-x 2 "), "{long}");
    assert!(long.contains(" 70000 "), "{long}");
    let all = sample.ok(&["ls", "-R", image]).out;
    assert_eq!(all, "/:\nbin\netc\n\n/bin:\nalias\ntool\n\n/etc:\nhosts\nlink\n");
    // The document of a recursive list was that of the directory alone.
    let json = sample.ok(&["ls", "-R", image, "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let listed = json["directories"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|listing| listing["path"].as_str().unwrap()).collect();
    assert_eq!(listed, ["", "/bin", "/etc"]);
    let tree = sample.ok(&["tree", image]).out;
    assert!(tree.contains("\u{2514}\u{2500}\u{2500} link -> ../bin/tool"), "{tree}");
    assert!(tree.ends_with("2 directories, 4 files\n"), "{tree}");
    assert_eq!(sample.ok(&["tree", "-d", "1", image]).out.lines().count(), 5);
    let json = sample.ok(&["tree", image, "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["entries"][1]["entries"][0]["size"], 20);
    assert_eq!(sample.run(&["ls", image, "nope"]).code, 3);
    assert_eq!(sample.run(&["ls", image, "../x"]).code, 3);
}

#[test]
fn files_and_volumes_are_delivered() {
    let sample = Sample::new();
    let image = sample.ubi();
    assert_eq!(sample.ok(&["cat", image, "etc/hosts"]).out, "127.0.0.1 localhost\n");
    let kernel = fs::read(sample.path("kernel")).unwrap();
    assert_eq!(sample.ok(&["cat", "all.ubi:kernel"]).out, String::from_utf8_lossy(&kernel));
    for (path, message) in [("etc", "is not a regular file"), ("etc/link", "symbolic link")] {
        let run = sample.run(&["cat", image, path]);
        assert_eq!(run.code, 3);
        assert!(run.err.contains(message), "{}", run.err);
    }
    assert_eq!(sample.run(&["cat", image]).code, 3);
    let stat = sample.ok(&["stat", image, "bin/tool", "--json"]).out;
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    assert_eq!((&stat["nlink"], &stat["permissions"]), (&2.into(), &"0755".into()));
    assert!(sample.ok(&["stat", image, "etc/link"]).out.contains("symlink -> ../bin/tool"));
}

#[test]
fn extracting_gives_the_folder_back() {
    let sample = Sample::new();
    let image = sample.ubi();
    let run = sample.ok(&["extract", image, "out"]);
    assert!(run.err.contains("rootfs -> out/rootfs: 3 files"), "{}", run.err);
    assert_eq!(fs::read(sample.path("out/kernel.img")).unwrap(), vec![0xA5; 200_000]);
    let tool = fs::metadata(sample.path("out/rootfs/bin/tool")).unwrap();
    let alias = fs::metadata(sample.path("out/rootfs/bin/alias")).unwrap();
    assert_eq!((tool.ino(), tool.len()), (alias.ino(), 70_000));
    let again = sample.run(&["extract", image, "out"]);
    assert_eq!(again.code, 3);
    assert!(again.err.contains("hint: --force"), "{}", again.err);
    sample.ok(&["extract", image, "out", "--force"]);
    sample.ok(&["extract", "all.ubi:rootfs", "some", "etc/hosts", "-q"]);
    assert_eq!(fs::read_dir(sample.path("some")).unwrap().count(), 1);
    assert!(sample.path("some/etc/hosts").exists());
    assert!(!sample.path("some/etc/link").exists());
}

#[test]
fn extracting_to_an_archive_and_back() {
    let sample = Sample::new();
    let image = sample.ubifs();
    sample.ok(&["extract", image, "--tar", "out.tar"]);
    sample.ok(&[
        "mkfs",
        "ubifs",
        "out.tar",
        "-o",
        "again.ubifs",
        "--leb",
        "126976",
        "--min-io",
        "2048",
        "--max-lebs",
        "60",
        "--compressor",
        "zlib",
    ]);
    let manifest = |image| sample.ok(&["manifest", image]).out;
    assert_eq!(manifest("again.ubifs"), manifest(image));
    assert_eq!(manifest(image).lines().count(), 8);
}

#[test]
fn info_tells_geometry_volumes_and_health() {
    let sample = Sample::new();
    let image = sample.ubi();
    let text = sample.ok(&["info", image]).out;
    for part in
        ["3 volumes", "kernel", "UBIFS (zlib)", "empty, autoresize", "state           clean"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = sample.ok(&["info", image, "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["format"], "ubi");
    assert_eq!(json["image_seq"], 7);
    assert_eq!(json["volumes"][1]["ubifs"]["compressor"], "zlib");
    assert_eq!(json["volumes"][1]["ubifs"]["clean"], true);
    let bare = sample.ubifs();
    assert!(sample.ok(&["info", bare]).out.contains("UBIFS image"));
}

#[test]
fn damage_is_a_finding_and_ends_with_1() {
    let sample = Sample::new();
    let image = sample.ubi();
    let mut bytes = fs::read(sample.path(image)).unwrap();
    bytes[3 * 131_072 + 5000] ^= 0xff;
    fs::write(sample.path("bad.ubi"), &bytes).unwrap();
    let run = sample.run(&["extract", "bad.ubi", "out"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("error: volume 0 leb 1:0"), "{}", run.err);
    assert!(run.err.contains("[static-data-corrupt]"), "{}", run.err);
    assert!(!sample.path("out/kernel.img").exists());
    assert!(sample.path("out/rootfs/etc/hosts").exists());
    let kept = sample.run(&["extract", "bad.ubi:kernel", "kept", "--keep-damaged"]);
    assert_eq!(kept.code, 1);
    assert_eq!(fs::read(sample.path("kept.img")).unwrap().len(), 200_000);
    assert_eq!(sample.run(&["cat", "bad.ubi:kernel", "--strict"]).code, 3);
}

/// SquashFS in a file, in a UBI volume and at an offset: found, read, checked and never written to.
#[test]
fn squashfs_is_read_wherever_it_is() {
    let sample = Sample::new();
    let folder = sample.path("t");
    fs::create_dir_all(folder.join("d")).unwrap();
    fs::write(folder.join("d/file"), "hi\n").unwrap();
    fs::hard_link(folder.join("d/file"), folder.join("hard")).unwrap();
    let mut make = Command::new("mksquashfs");
    make.arg(&folder).arg(sample.path("i.squashfs")).args(["-noappend", "-quiet", "-no-progress"]);
    if !make.output().is_ok_and(|done| done.status.success()) {
        println!("left out: mksquashfs");
        return;
    }
    let layout = "[flash]\npart = \"W25N01GV\"\nblocks = 64\n[[volume]]\nname = \"s\"\n\
                  content = { file = \"i.squashfs\" }\n";
    fs::write(sample.path("l.toml"), layout).unwrap();
    sample.ok(&["build", "l.toml", "-o", "u.ubi", "-q"]);
    let ubi = fs::read(sample.path("u.ubi")).unwrap();
    let bare = fs::read(sample.path("i.squashfs")).unwrap();
    let both = [&vec![0; 5000][..], &ubi, &bare].concat();
    fs::write(sample.path("both"), both).unwrap();
    let at = format!("both@{}", 5000 + ubi.len());
    for target in ["i.squashfs", "u.ubi:s", "u.ubi", "both@5000:s", &at] {
        assert_eq!(sample.ok(&["ls", target]).out, "d\nhard\n", "{target}");
        assert_eq!(sample.ok(&["cat", target, "/d/file"]).out, "hi\n", "{target}");
        sample.ok(&["check", target]);
    }
    let listed = sample.ok(&["info", "both"]).out;
    assert!(listed.contains(&at) && listed.contains("both@5000 "), "{listed}");
    let info = sample.ok(&["info", "i.squashfs", "--json"]).out;
    assert!(info.contains("\"squashfs\"") && info.contains("\"compressor\""), "{info}");
    for target in ["i.squashfs", "u.ubi:s"] {
        let run = sample.run(&["put", target, "l.toml"]);
        assert!(run.code > 0 && run.err.contains("SquashFS can only be read"), "{}", run.err);
    }
    assert!(fs::read(sample.path("u.ubi")).unwrap() == ubi);
    fs::write(sample.path("short"), &bare[..200]).unwrap();
    let run = sample.run(&["ls", "short"]);
    assert!(run.err.contains("cut short"), "{}", run.err);
}

/// A superblock of SquashFS as an image has it, without the image.
fn superblock_of_squashfs() -> Vec<u8> {
    let u32 = |value: u32| value.to_le_bytes().to_vec();
    let u64 = |value: u64| value.to_le_bytes().to_vec();
    let parts = [
        b"hsqs".to_vec(),
        u32(1),
        u32(0),
        u32(128 << 10),
        u32(0),
        u32(1 | 17 << 16),
        u32(1 << 16),
        u32(4),
        u64(0),
        u64(600),
        u64(500),
        u64(u64::MAX),
        u64(96),
        u64(300),
        u64(u64::MAX),
        u64(u64::MAX),
    ];
    parts.concat()
}

/// Each page of a file begins like a SquashFS, and so do the eraseblocks that only it fills.
#[test]
fn images_in_files_of_a_yaffs_do_not_hide_it() {
    let sample = Sample::new();
    let mut page = superblock_of_squashfs();
    fs::write(sample.path("alone"), [&page[..], &[0; 600]].concat()).unwrap();
    let alone = sample.run(&["info", "alone"]);
    assert!(alone.out.contains("SquashFS") || alone.err.contains("SquashFS"), "{}", alone.err);
    page.resize(2048, 0);
    fs::create_dir(sample.path("t")).unwrap();
    fs::write(sample.path("t/pages"), page.repeat(200)).unwrap();
    sample.ok(&["mkfs", "yaffs2", "t", "-o", "y.img", "--tags-at", "2"]);
    let shape = ["--size", "8MiB", "--peb", "128KiB", "--page", "2048", "--oob", "64"];
    sample.ok(&[&["chip", "new", "c"][..], &shape].concat());
    sample.ok(&["chip", "import", "c", "y.img", "--oob"]);
    for target in ["y.img", "c"] {
        assert!(sample.ok(&["ls", target]).out.contains("pages"), "{target}");
    }
}

/// A partition with a boot loader and bad blocks, as `dd` through `nandwrite` leaves it.
#[test]
fn squashfs_on_a_chip_skips_bad_blocks() {
    let sample = Sample::new();
    let folder = sample.path("t");
    fs::create_dir(&folder).unwrap();
    let content = noise(400_000);
    fs::write(folder.join("noise"), &content).unwrap();
    let mut make = Command::new("mksquashfs");
    make.arg(&folder).arg(sample.path("i")).args(["-noappend", "-quiet", "-no-progress"]);
    if !make.output().is_ok_and(|done| done.status.success()) {
        println!("left out: mksquashfs");
        return;
    }
    let peb = 128 << 10;
    let image = [&vec![0xEA; peb][..], &fs::read(sample.path("i")).unwrap()].concat();
    let mut blocks: Vec<Option<&[u8]>> = image.chunks(peb).map(Some).collect();
    blocks.insert(0, None);
    blocks.insert(3, None);
    fs::write(sample.path("part"), raw_dump(peb, &blocks)).unwrap();
    let shape = ["--size", "8MiB", "--peb", "128KiB", "--page", "2048", "--oob", "64"];
    sample.ok(&[&["chip", "new", "c"][..], &shape].concat());
    let run = sample.ok(&["chip", "import", "c", "part", "--oob"]);
    assert!(run.err.contains("2 eraseblocks are bad now"), "{}", run.err);
    for stated in [&[][..], &["--format", "squashfs"]] {
        sample.ok(&[&["check", "c"][..], stated].concat());
        sample.ok(&[&["get", "c", "/noise", "back", "--force"][..], stated].concat());
        assert!(fs::read(sample.path("back")).unwrap() == content);
    }
}
