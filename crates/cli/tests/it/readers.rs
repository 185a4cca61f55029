//! The readers by whose names programs for firmware analysis take images apart.

use crate::sample::{Sample, finish};
use std::fs;
use std::path::Path;
use std::process::Command;

const PEB: usize = 128 << 10;

/// Returns whether the folder holds what `src` does.
fn assert_same(sample: &Sample, folder: &str) {
    let run = finish(
        Command::new("diff").args(["-r", "--no-dereference", "src", folder]),
        &sample.path("."),
    );
    assert_eq!(run.code, 0, "{folder}: {}{}", run.out, run.err);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A static volume before the file system: the original extracts nothing there.
#[test]
fn files_of_every_volume_come_out() {
    let sample = Sample::new();
    sample.ubi();
    let before = fs::read(sample.path("all.ubi")).unwrap();
    for (index, options) in [
        &["-o"][..],
        &["-k", "-x", "-l", "-i", "-w", "-v", "--output-dir"],
        &["-w", "-s", "0", "-o"],
        &["-p", "131072", "-o"],
        &["-g", "0", "-K", "key", "-o"],
    ]
    .iter()
    .enumerate()
    {
        let out = format!("out{index}");
        let run = sample.ok(&[&["ubireader_extract_files"], *options, &[&out, "all.ubi"]].concat());
        assert!(run.out.contains(&format!("Extracting files to: {out}/7/rootfs")), "{}", run.out);
        assert_same(&sample, &format!("{out}/7/rootfs"));
        assert_eq!(names(&sample.path(&out)), ["7"]);
    }
    sample.ok(&["ubireader_extract_files", "all.ubi"]);
    assert_same(&sample, "ubifs-root/7/rootfs");
    let bare = sample.ubifs();
    sample.ok(&["ubireader_extract_files", "-w", "-o", "bare", bare]);
    assert_same(&sample, "bare");
    assert!(fs::read(sample.path("all.ubi")).unwrap() == before);
    fs::write(sample.path("nothing"), [0; 5000]).unwrap();
    assert_eq!(sample.run(&["ubireader_extract_files", "-o", "none", "nothing"]).code, 1);
    assert_eq!(sample.run(&["ubireader_extract_files", "--nonsense"]).code, 2);
}

#[test]
fn volumes_come_out_as_images() {
    let sample = Sample::new();
    sample.ubi();
    for options in [&["-o", "out"][..], &["-i", "-w", "-v", "--output-dir", "out"], &[]] {
        sample.ok(&[&["ubireader_extract_images"], options, &["all.ubi"]].concat());
        let out = if options.is_empty() { "ubifs-root" } else { "out" };
        let folder = sample.path(out).join("all.ubi");
        let expected = ["img-7_vol-data.ubifs", "img-7_vol-kernel.ubifs", "img-7_vol-rootfs.ubifs"];
        assert_eq!(names(&folder), expected);
        let kernel = fs::read(folder.join("img-7_vol-kernel.ubifs")).unwrap();
        assert!(kernel == fs::read(sample.path("kernel")).unwrap());
        let rootfs = format!("{out}/all.ubi/img-7_vol-rootfs.ubifs");
        assert_eq!(sample.ok(&["ls", &rootfs]).out, "bin\netc\n");
        fs::remove_dir_all(sample.path(out)).unwrap();
    }
    sample.ok(&["ubireader_extract_images", "-u", "UBI", "-o", "whole", "all.ubi"]);
    let whole = fs::read(sample.path("whole/all.ubi/img-7.ubi")).unwrap();
    assert!(whole == fs::read(sample.path("all.ubi")).unwrap());
    let bare = sample.ubifs();
    assert_eq!(sample.run(&["ubireader_extract_images", "-o", "none", bare]).code, 1);
}

/// The image of a UBIFS that ended with its last mapped LEB was shorter than its superblock says, and
/// unblob and binwalk took nothing out of it.
#[test]
fn a_file_system_is_as_long_as_its_superblock_says() {
    let sample = Sample::new();
    let mut flash = fs::read(sample.path(sample.ubi())).unwrap();
    flash.resize(128 * PEB, 0xff);
    fs::write(sample.path("flash"), &flash).unwrap();
    // The first change makes it as large as its volume.
    sample.ok(&["put", "flash:rootfs", "src/etc/hosts", "/one"]);
    // The second image is too short for that.
    fs::write(sample.path("short"), &fs::read(sample.path("flash")).unwrap()[..40 * PEB]).unwrap();
    let [whole, short] = ["flash", "short"].map(|name| {
        sample.ok(&["ubireader_extract_images", "-o", "out", name]);
        fs::read(sample.path(&format!("out/{name}/img-7_vol-rootfs.ubifs"))).unwrap()
    });
    let field = |at| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
    let (leb_size, lebs) = (field(36), field(40));
    assert_eq!(lebs, (6_usize << 20).div_ceil(leb_size));
    assert_eq!(whole.len(), lebs * leb_size);
    assert!(short.len() < 40 * leb_size && whole.starts_with(&short));
    assert!(whole[short.len()..].iter().all(|byte| *byte == 0xff));
    sample.ok(&["ubireader_extract_files", "-o", "files", "out/flash/img-7_vol-rootfs.ubifs"]);
    fs::remove_file(sample.path("files/one")).unwrap();
    assert_same(&sample, "files");
}

/// Of two images with one number, the original writes the first.
#[test]
fn both_of_two_images_come_out() {
    let sample = Sample::new();
    let image = fs::read(sample.path(sample.ubi())).unwrap();
    fs::write(sample.path("two"), [&[1; 5][..], &image, &image].concat()).unwrap();
    sample.ok(&["ubireader_extract_files", "-o", "out", "two"]);
    let second = format!("7@{}", image.len() + 5);
    assert_eq!(names(&sample.path("out")), ["7", second.as_str()]);
    assert_same(&sample, "out/7/rootfs");
    assert_same(&sample, &format!("out/{second}/rootfs"));
    let start = (image.len() + 5).to_string();
    sample.ok(&["ubireader_extract_files", "-s", &start, "-o", "last", "two"]);
    assert_eq!(names(&sample.path("last")), ["7"]);
    sample.ok(&["ubireader_extract_images", "-o", "images", "two"]);
    assert_eq!(names(&sample.path("images/two")).len(), 6);
}

#[test]
fn jefferson_takes_a_jffs2_apart() {
    let sample = Sample::new();
    sample.ok(&["mkfs.jffs2", "-r", "src", "-e", "64KiB", "-p", "-o", "j"]);
    for (index, options) in
        [&["-v", "-f", "-d"][..], &["-vfd"], &["--force", "--dest"], &["-f", "-d"]]
            .iter()
            .enumerate()
    {
        let out = format!("out{index}");
        for _ in 0..2 {
            sample.ok(&[&["jefferson"], *options, &[&out, "j"]].concat());
            assert_same(&sample, &out);
        }
    }
    sample.ok(&["jefferson", "j"]);
    assert_same(&sample, "jffs2-root");
    let exists = sample.run(&["jefferson", "j"]);
    assert_eq!(exists.code, 1);
    assert!(exists.err.contains("--force"), "{}", exists.err);
    sample.ubi();
    assert_eq!(sample.run(&["jefferson", "-d", "none", "all.ubi"]).code, 1);
}

/// Findings go to standard error and do not change the exit code: callers look at nothing else.
#[test]
fn damage_is_told_and_the_rest_comes_out() {
    let sample = Sample::new();
    sample.ubi();
    let mut bytes = fs::read(sample.path("all.ubi")).unwrap();
    bytes[3 * 131_072 + 5000] ^= 0xff;
    fs::write(sample.path("bad.ubi"), &bytes).unwrap();
    let run = sample.ok(&["ubireader_extract_images", "-o", "out", "bad.ubi"]);
    assert!(run.err.contains("[static-data-corrupt]"), "{}", run.err);
    assert_eq!(
        names(&sample.path("out/bad.ubi")),
        ["img-7_vol-data.ubifs", "img-7_vol-rootfs.ubifs"]
    );
    sample.ok(&["ubireader_extract_images", "-w", "-o", "kept", "bad.ubi"]);
    assert_eq!(names(&sample.path("kept/bad.ubi")).len(), 3);
}

#[test]
fn links_are_made_and_nothing_is_replaced() {
    let sample = Sample::new();
    sample.ok(&["personalities", "--dir", "bin", "--readers"]);
    let readers = ["jefferson", "ubireader_extract_files", "ubireader_extract_images"];
    assert_eq!(names(&sample.path("bin")), readers);
    sample.ok(&["personalities", "--dir", "bin", "--readers"]);
    sample.ok(&["personalities", "--dir", "bin"]);
    assert_eq!(names(&sample.path("bin")).len(), 9);
    sample.ubi();
    let mut tool = Command::new(sample.path("bin/ubireader_extract_files"));
    let run = finish(tool.args(["-o", "out", "all.ubi"]), &sample.path("."));
    assert_eq!(run.code, 0, "{}", run.err);
    assert_same(&sample, "out/7/rootfs");
    fs::create_dir(sample.path("other")).unwrap();
    fs::write(sample.path("other/ubireader_extract_images"), "mine").unwrap();
    let refused = sample.run(&["personalities", "--dir", "other", "--readers"]);
    assert_eq!(refused.code, 3);
    assert_eq!(names(&sample.path("other")), ["ubireader_extract_images"]);
    assert_eq!(fs::read(sample.path("other/ubireader_extract_images")).unwrap(), b"mine");
}

/// Volumes `..`, `a/b` and `volume-0`: two of them had the same folder.
#[test]
fn volumes_with_odd_names_have_a_folder_each() {
    let sample = Sample::new();
    let names = ["..", "volume-0", "a/b", "../outside", "two\\nlines", "env", "env.img"];
    let mut layout = "flash.part = \"W29N01HV\"\nimage.image-seq = 7\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        fs::write(sample.path(&format!("raw-{number}")), number.to_string()).unwrap();
        fs::create_dir(sample.path(&format!("tree-{number}"))).unwrap();
        fs::write(sample.path(&format!("tree-{number}/mark")), number.to_string()).unwrap();
        let content = match *name {
            "env" => format!("type = \"static\"\ncontent = {{ file = \"raw-{number}\" }}"),
            _ => format!("size = \"4MiB\"\ncontent = {{ ubifs = \"tree-{number}\" }}"),
        };
        layout.extend(["[[volume]]\nname = \"", name, "\"\n", &content, "\n"]);
    }
    fs::write(sample.path("odd.toml"), layout).unwrap();
    sample.ok(&["build", "odd.toml", "-o", "odd.ubi", "-q"]);
    let mut expected: Vec<String> = [0, 1, 2, 3, 4, 6].map(|n| format!("volume-{n}")).to_vec();
    let marked = |folder: &str| {
        for number in [0, 1, 2, 3, 4, 6] {
            let mark = sample.path(&format!("{folder}/volume-{number}/mark"));
            assert_eq!(fs::read_to_string(mark).unwrap(), number.to_string());
        }
    };
    fs::create_dir(sample.path("within")).unwrap();
    sample.ok(&["ubireader_extract_files", "-o", "within/files", "odd.ubi"]);
    marked("within/files/7");
    assert_eq!(names_of(&sample, "within/files/7"), expected);
    expected.insert(0, "env.img".to_owned());
    sample.ok(&["extract", "odd.ubi", "within/all"]);
    marked("within/all");
    assert_eq!(names_of(&sample, "within/all"), expected);
    assert_eq!(fs::read_to_string(sample.path("within/all/env.img")).unwrap(), "5");
    sample.ok(&["ubireader_extract_images", "-o", "within/images", "odd.ubi"]);
    assert_eq!(names_of(&sample, "within/images/odd.ubi").len(), 7);
    assert_eq!(names_of(&sample, "within"), ["all", "files", "images"]);
}

fn names_of(sample: &Sample, folder: &str) -> Vec<String> {
    names(&sample.path(folder))
}
