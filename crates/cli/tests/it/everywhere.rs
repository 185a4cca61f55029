//! Every command on every file system that is not UBIFS or JFFS2, wherever it is: in a file, at an
//! offset of a larger one, in a UBI volume, on a chip and in a raw dump of one.

use crate::mount::mounted;
use crate::sample::{Sample, noise, stored};
use crate::serve::{handles, served};
use crate::yaffs::unpack;
use nfs3_client::nfs3_types::nfs3::{READ3args, READ3res};
use std::fs;
use std::io::Write;
use std::process::Command;

/// An image, and a file in it.
struct Image {
    /// What `info --json` calls its format.
    format: &'static str,
    /// The image.
    bytes: Vec<u8>,
    /// A directory and a file in it.
    path: [&'static str; 2],
    /// The content of the file.
    content: Vec<u8>,
    /// Sizes of a page and of its spare area, if they are in the image.
    pages: Option<[&'static str; 3]>,
}

/// Images of the sample's folder, and those that others made. Without `mksquashfs`, there is no SquashFS.
fn images(sample: &Sample) -> Vec<Image> {
    let hosts = || b"127.0.0.1 localhost\n".to_vec();
    let mut images = Vec::new();
    let mut make = Command::new("mksquashfs");
    make.arg(sample.path("src")).arg(sample.path("i")).args([
        "-noappend",
        "-quiet",
        "-no-progress",
    ]);
    if make.output().is_ok_and(|done| done.status.success()) {
        let bytes = fs::read(sample.path("i")).unwrap();
        let path = ["etc", "hosts"];
        images.push(Image { format: "squashfs", bytes, path, content: hosts(), pages: None });
    } else {
        std::io::stderr().write_all(b"left out: mksquashfs\n").unwrap();
    }
    sample.ok(&["mkfs", "axfs", "src", "-o", "i.axfs", "--xip", "bin/tool"]);
    let bytes = fs::read(sample.path("i.axfs")).unwrap();
    images.push(Image {
        format: "axfs",
        bytes,
        path: ["bin", "tool"],
        content: vec![0x5a; 70_000],
        pages: None,
    });
    let content = (0..5).flat_map(|byte| [byte; 4096]).take(5 * 4096 - 10).collect();
    let bytes = stored("logfs/tests/data/synthetic.img.zst");
    let path = ["dir", "packed"];
    images.push(Image { format: "logfs", bytes, path, content, pages: None });
    sample.ok(&["mkfs", "yaffs2", "src", "-o", "i.yaffs2", "--tags-at", "2"]);
    let bytes = fs::read(sample.path("i.yaffs2")).unwrap();
    let (path, pages) = (["etc", "hosts"], Some(["128KiB", "2048", "64"]));
    images.push(Image { format: "yaffs", bytes, path, content: hosts(), pages });
    let bytes = fs::read(sample.path(unpack(sample, "yaffs1-basic"))).unwrap();
    let (path, pages) = (["etc", "one"], Some(["16KiB", "512", "16"]));
    images.push(Image { format: "yaffs", bytes, path, content: b"0".to_vec(), pages });
    images
}

/// Puts an image everywhere; returns the targets.
fn places(sample: &Sample, image: &Image) -> Vec<String> {
    for file in ["u.ubi", "c", "dump"] {
        let _ = fs::remove_file(sample.path(file));
    }
    fs::write(sample.path("image"), &image.bytes).unwrap();
    let before = noise(70_001);
    let after = noise(33_333);
    fs::write(sample.path("larger"), [&before[..], &image.bytes, &after].concat()).unwrap();
    let layout = "[flash]\npart = \"W25N01GV\"\nblocks = 128\n\
                  [[volume]]\nname = \"other\"\nsize = \"256KiB\"\n\
                  [[volume]]\nname = \"v\"\ncontent = { file = \"image\" }\n\
                  [[volume]]\nname = \"s\"\ntype = \"static\"\ncontent = { file = \"image\" }\n";
    fs::write(sample.path("l.toml"), layout).unwrap();
    sample.ok(&["build", "l.toml", "-o", "u.ubi", "-q"]);
    let ubi = fs::read(sample.path("u.ubi")).unwrap();
    fs::write(sample.path("in-ubi"), [&before, &ubi[..]].concat()).unwrap();
    let [peb, page, oob] = image.pages.unwrap_or(["128KiB", "2048", "64"]);
    let shape = ["--size", "16MiB", "--peb", peb, "--page", page, "--oob", oob];
    sample.ok(&[&["chip", "new", "c"][..], &shape].concat());
    let with_oob = if image.pages.is_some() { &["--oob"][..] } else { &[] };
    sample.ok(&[&["chip", "import", "c", "image"], with_oob].concat());
    sample.ok(&["chip", "export", "c", "dump", "--oob"]);
    let targets =
        ["image", "larger", "larger@70001", "u.ubi:v", "u.ubi:s", "in-ubi@70001:v", "c", "dump"];
    targets.map(str::to_owned).to_vec()
}

#[test]
fn every_command_reads_every_format_everywhere() {
    let sample = Sample::new();
    for image in images(&sample) {
        let [dir, name] = image.path;
        let path = format!("{dir}/{name}");
        for target in places(&sample, &image) {
            let target = target.as_str();
            let place = format!("{} {target}", image.format);
            let info = sample.ok(&["info", target, "--json"]).out;
            let info: serde_json::Value = serde_json::from_str(&info).unwrap();
            if target.contains(':') {
                let volumes = info["volumes"].as_array().unwrap();
                let content = volumes[0]["content"].as_str().unwrap().to_lowercase();
                assert_eq!(content, image.format, "{place}");
            } else {
                assert_eq!(info["format"], image.format, "{place}");
            }
            assert!(sample.ok(&["ls", target]).out.contains(dir), "{place}");
            assert!(sample.ok(&["tree", target]).out.contains(name), "{place}");
            assert!(sample.ok(&["stat", target, &path]).out.contains("regular"), "{place}");
            let run = sample.ok(&["check", target]);
            assert!(run.err.contains("consistent"), "{place}: {}", run.err);
            sample.ok(&["get", target, &path, "got", "--force"]);
            assert!(fs::read(sample.path("got")).unwrap() == image.content, "{place}");
            let text = String::from_utf8_lossy(&image.content).into_owned();
            assert!(sample.ok(&["cat", target, &path]).out == text, "{place}");
            let _ = fs::remove_dir_all(sample.path("out"));
            sample.run(&["extract", target, "out"]);
            assert!(fs::read(sample.path("out").join(&path)).unwrap() == image.content, "{place}");
        }
    }
}

#[test]
fn every_format_is_mounted_everywhere() {
    let sample = Sample::new();
    fs::create_dir(sample.path("mnt")).unwrap();
    for image in images(&sample) {
        let [dir, name] = image.path;
        for target in places(&sample, &image) {
            let place = format!("{} {target}", image.format);
            if !mounted(&place, &sample.run(&["mount", &target, "mnt"])) {
                return;
            }
            let file = sample.path("mnt").join(dir).join(name);
            assert!(fs::read(&file).unwrap() == image.content, "{place}");
            let error = fs::write(sample.path("mnt/new"), "").unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{place}");
            sample.ok(&["umount", "mnt"]);
        }
    }
}

#[test]
fn every_format_is_served_everywhere() {
    let sample = Sample::new();
    for image in images(&sample) {
        let [dir, name] = image.path;
        for target in places(&sample, &image) {
            served(&sample, &target, &[], async |mut client| {
                let (_, file) = handles(&mut client, &format!("{dir}/{name}")).await;
                let args = READ3args { file, offset: 0, count: 100_000 };
                let READ3res::Ok(ok) = client.read(&args).await.unwrap() else {
                    panic!("{} {target}", image.format)
                };
                assert!(ok.data.as_ref() == image.content, "{} {target}", image.format);
            });
        }
    }
}
