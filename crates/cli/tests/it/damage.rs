//! Damaged images: nothing that is damaged is delivered, `check` looks at everything, and each finding
//! names what it is about.

use crate::mount::mounted;
use crate::sample::{LAYOUT, Sample, noise};
use std::fs;
use std::os::unix::fs::FileExt;

const PEB: [&str; 2] = ["--peb", "64KiB"];

/// Writes bytes into a file.
fn spoil(sample: &Sample, name: &str, at: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(sample.path(name)).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Flips the first byte of the first place where `needle` is.
fn flip(sample: &Sample, name: &str, needle: &[u8]) {
    let content = fs::read(sample.path(name)).unwrap();
    let at = content.windows(needle.len()).position(|window| window == needle).unwrap();
    spoil(sample, name, at as u64, &[content[at] ^ 0xFF]);
}

/// A JFFS2 of one file of 100 000 bytes, 4 of which, in its eighth page, are damaged.
pub(crate) fn jffs2() -> (Sample, Vec<u8>) {
    let sample = Sample::new();
    let content = noise(100_000);
    fs::create_dir(sample.path("one")).unwrap();
    fs::write(sample.path("one/f"), &content).unwrap();
    sample.ok(&["mkfs", "jffs2", "one", "-o", "j", "--peb", "64KiB", "--pad-to", "512KiB"]);
    assert_eq!(sample.ok(&[&["check", "j"][..], &PEB].concat()).err, "consistent\n");
    spoil(&sample, "j", 30_000, &[0; 4]);
    (sample, content)
}

/// Every command delivered a page of zeros, and `check` called the image consistent.
#[test]
fn damaged_content_of_a_jffs2_is_named_and_never_delivered() {
    let (sample, content) = jffs2();
    let range = "f: bytes 28672 to 32768 are lost: peb 0:";
    for more in [&[][..], &["--strict"]] {
        let run = sample.run(&[&["check", "j"][..], &PEB, more].concat());
        assert_eq!(run.code, if more.is_empty() { 1 } else { 3 }, "{}", run.err);
        assert!(run.err.contains(range) && run.err.contains("CRC"), "{}", run.err);
        assert!(!run.err.contains("consistent"), "{}", run.err);
        assert!(run.err.contains("extract j DIR"), "{}", run.err);
        assert!(!run.err.contains("-c sync") && !run.err.contains("power cut"), "{}", run.err);
    }
    let json = sample.run(&[&["check", "j", "--json"][..], &PEB].concat());
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let mut found = json["findings"].as_array().unwrap().iter();
    assert!(found.any(|one| one["code"] == "content-lost" && one["remedy"] == "lost"));
    for words in [&["cat", "j", "f"][..], &["get", "j", "/f", "got"]] {
        let run = sample.run(words);
        assert_eq!(run.code, 3, "{words:?}: {}", run.err);
        assert!(run.err.contains("bytes 28672 to 32768: peb 0:"), "{}", run.err);
        assert!(run.out.len() <= 28_672, "{words:?}");
    }
    for words in [&["extract", "j", "out"][..], &["extract", "j", "--tar", "out.tar"]] {
        let run = sample.run(words);
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.err.contains("f: left out: ") && run.err.contains("1 left out"), "{}", run.err);
    }
    assert!(!sample.path("out/f").exists());
    sample.run(&["extract", "j", "kept", "--keep-damaged"]);
    let mut expected = content;
    expected[28_672..32_768].fill(0);
    assert!(fs::read(sample.path("kept/f")).unwrap() == expected);
    assert!(sample.run(&["ls", "-l", "j"]).out.contains("100000"), "it is listed as ever");
}

/// A mount delivered a page of zeros, too.
#[test]
fn damaged_content_of_a_jffs2_cannot_be_read_through_a_mount() {
    let (sample, content) = jffs2();
    fs::create_dir(sample.path("m")).unwrap();
    for rw in [&[][..], &["--rw"]] {
        if !mounted("damage", &sample.run(&[&["mount", "j", "m"][..], &PEB, rw].concat())) {
            return;
        }
        let file = fs::File::open(sample.path("m/f")).unwrap();
        let mut page = [0; 4096];
        for at in [0, 24_576, 28_672, 32_768] {
            match file.read_exact_at(&mut page, at as u64) {
                Ok(()) => assert!(page == content[at..at + 4096] && at != 28_672, "{at}"),
                Err(error) => {
                    // What the kernel says of damage: "Structure needs cleaning".
                    assert_eq!((error.raw_os_error(), at), (Some(117), 28_672));
                }
            }
        }
        drop(file);
        sample.ok(&["umount", "m"]);
    }
}

/// A writer went over the damage, and then it was a hole.
#[test]
fn writing_to_a_damaged_jffs2_keeps_the_damage() {
    let (sample, content) = jffs2();
    fs::write(sample.path("noise"), noise(90_000)).unwrap();
    for _ in 0..6 {
        sample.run(&[&["put", "j", "noise", "/other"][..], &PEB].concat());
        sample.run(&[&["edit", "j", "-c", "rm /other", "-c", "sync"][..], &PEB].concat());
    }
    let run = sample.run(&["cat", "j", "f"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("bytes 28672 to 32768"), "{}", run.err);
    // Replaced as a whole it is right again.
    fs::write(sample.path("f"), &content).unwrap();
    sample.run(&[&["put", "j", "f", "/f"][..], &PEB].concat());
    // The damaged node is still on the flash: `get` reports it as `cat` does, and delivers the file.
    let run = sample.run(&[&["get", "j", "/f", "back"][..], &PEB].concat());
    assert_eq!(run.code, sample.run(&["cat", "j", "f"]).code, "{}", run.err);
    assert!(!run.err.contains("are lost"), "{}", run.err);
    assert!(fs::read(sample.path("back")).unwrap() == content);
}

/// A flipped byte in a static volume was called consistent, as was one in the second file system.
#[test]
fn a_check_of_a_device_looks_at_every_volume() {
    let sample = Sample::new();
    fs::write(sample.path("src/needle"), noise(3000)).unwrap();
    fs::write(sample.path("src/bin/tool"), "").unwrap();
    let first = LAYOUT.replace("name = \"data\"", "content = { ubifs = \"src\" }\nname = \"data\"");
    let first = first.replace("512KiB", "6MiB");
    fs::write(sample.path("kernel"), noise(200_000)).unwrap();
    fs::write(sample.path("two.toml"), first).unwrap();
    sample.ok(&["build", "two.toml", "-o", "all.ubi", "-q"]);
    for target in ["all.ubi", "all.ubi:kernel", "all.ubi:data", "all.ubi:rootfs"] {
        assert_eq!(sample.ok(&["check", target]).err, "consistent\n", "{target}");
    }
    let whole = fs::read(sample.path("all.ubi")).unwrap();
    flip(&sample, "all.ubi", &noise(200_000)[150_000..150_100]);
    for words in [["check", "all.ubi"], ["check", "all.ubi:kernel"], ["info", "all.ubi"]] {
        let run = sample.run(&words);
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.err.contains("[static-data-corrupt]"), "{}", run.err);
        assert!(!run.err.contains("consistent"), "{}", run.err);
    }
    sample.ok(&["check", "all.ubi:data"]);
    // The same file is in both file systems; the last copy of it is in one of them.
    fs::write(sample.path("all.ubi"), &whole).unwrap();
    let needle = &noise(3000)[..100];
    let at = whole.windows(100).rposition(|window| window == needle).unwrap();
    spoil(&sample, "all.ubi", at as u64, &[!whole[at]]);
    let run = sample.run(&["check", "all.ubi"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("needle: bytes 0 to 4096: "), "{}", run.err);
    let damaged = ["data", "rootfs"].map(|name| sample.run(&["check", &format!("all.ubi:{name}")]));
    assert_eq!(damaged[0].code + damaged[1].code, 1, "one of them is damaged");
}

/// A check ended at an index node that cannot be read.
#[test]
fn a_check_goes_on_where_the_index_ends() {
    let sample = Sample::new();
    for number in 0..40 {
        fs::write(sample.path(&format!("src/file-{number}")), noise(2000)).unwrap();
    }
    let image = sample.ubifs();
    let content = fs::read(sample.path(image)).unwrap();
    let starts = |at: &usize| content[*at..].starts_with(&[0x31, 0x18, 0x10, 0x06]);
    let is_index = |at: &usize| starts(at) && content[at + 20] == 9;
    let at = (0..content.len() - 24).step_by(8).filter(is_index).nth(2).unwrap();
    spoil(&sample, image, at as u64 + 40, &[0xAA; 4]);
    // What is below it is lost; a leaf elsewhere is damaged, too.
    let at = content.windows(100).rposition(|window| window == &noise(2000)[..100]).unwrap();
    spoil(&sample, image, at as u64, &[!content[at]]);
    let run = sample.run(&["check", image]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("[check-incomplete]"), "{}", run.err);
    assert!(run.err.contains(": bytes 0 to 2000 are lost: "), "{}", run.err);
}

/// The block that was cut off was not mentioned.
#[test]
fn an_image_cut_short_is_said_to_be() {
    let sample = Sample::new();
    let image = sample.ubi();
    let whole = fs::read(sample.path(image)).unwrap();
    fs::write(sample.path("cut.ubi"), &whole[..whole.len() - 50_000]).unwrap();
    for words in [&["check", "cut.ubi"][..], &["info", "cut.ubi"], &["extract", "cut.ubi", "out"]] {
        let run = sample.run(words);
        assert_eq!(run.code, 1, "{words:?}: {}", run.err);
        let found = format!("found {} bytes", whole.len() - 50_000);
        assert!(run.err.contains("[image-cut-short]") && run.err.contains(&found), "{}", run.err);
    }
    // Bytes that are none of it are no block of it.
    fs::write(sample.path("more.ubi"), [whole, vec![7; 50_000]].concat()).unwrap();
    assert!(!sample.run(&["info", "more.ubi"]).err.contains("cut short"));
}
