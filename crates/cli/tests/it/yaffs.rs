//! YAFFS images that the reference wrote: found without a word about them, and read.

use crate::mount::mounted;
use crate::sample::Sample;
use std::fs;
use std::path::Path;

/// Puts an image of the reference into the folder of a sample.
pub(crate) fn unpack(sample: &Sample, name: &str) -> &'static str {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../yaffs/tests/data");
    let packed = fs::read(data.join(format!("{name}.img.zst"))).unwrap();
    let mut decoder = zstd::Decoder::new(packed.as_slice()).unwrap();
    decoder.window_log_max(27).unwrap();
    let mut file = fs::File::create(sample.path("a.img")).unwrap();
    std::io::copy(&mut decoder, &mut file).unwrap();
    "a.img"
}

#[test]
fn a_dump_is_found_and_read_by_every_command() {
    let sample = Sample::new();
    let image = unpack(&sample, "basic-checkpoint");
    let before = fs::read(sample.path(image)).unwrap();
    let info = sample.ok(&["info", image]).out;
    for word in ["YAFFS2 image, little-endian", "2048 bytes and 64 spare bytes", "checkpoint"] {
        assert!(info.contains(word), "{word}: {info}");
    }
    let info = sample.ok(&["info", "--json", image]).out;
    for word in ["\"format\": \"yaffs\"", "\"version\": 2", "\"peb_size\": 131072"] {
        assert!(info.contains(word), "{word}: {info}");
    }
    assert!(sample.ok(&["ls", "-l", image]).out.contains("null"));
    assert!(sample.ok(&["tree", image]).out.contains("tool-link"));
    assert!(sample.ok(&["stat", image, "bin/tool"]).out.contains("70"));
    assert_eq!(sample.ok(&["cat", image, "etc/one"]).out, "0");
    sample.ok(&["extract", image, "out", "--only", "etc"]);
    assert_eq!(fs::metadata(sample.path("out/etc/deep/er/many")).unwrap().len(), 153_333);
    sample.ok(&["get", image, "etc/chunk", "chunk"]);
    assert_eq!(fs::metadata(sample.path("chunk")).unwrap().len(), 2048);
    sample.ok(&["check", image]);
    assert!(before == fs::read(sample.path(image)).unwrap(), "the image changed");
}

#[test]
fn other_shapes_are_found_too() {
    let sample = Sample::new();
    for (name, words) in [
        ("yaffs1-basic", ["YAFFS1 image", "512 bytes and 16 spare"]),
        ("big-endian-checkpoint", ["YAFFS2 image, big-endian", "with ECC"]),
        ("inband-torn", ["in the data", "without ECC"]),
        ("page-8192", ["8192 bytes and 448", "from spare byte 2"]),
    ] {
        let image = unpack(&sample, name);
        let info = sample.run(&["info", image]).out;
        assert!(words.iter().all(|word| info.contains(word)), "{name}: {info}");
        let forced = sample.run(&["ls", image, "--format", "yaffs"]).out;
        assert_eq!(forced, sample.run(&["ls", image]).out, "{name}");
    }
}

#[test]
fn data_that_ecc_cannot_correct_is_not_delivered() {
    let sample = Sample::new();
    let image = unpack(&sample, "basic-no-checkpoint");
    let mut bytes = fs::read(sample.path(image)).unwrap();
    let word = |page: &[u8], at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    let is_data = |page: &&mut [u8]| {
        word(page, 2050) & 0xFFFF_F000 == 0x1000 && (1..1 << 28).contains(&word(page, 2058))
    };
    // So few that the ECC is still recognised.
    for page in bytes.chunks_exact_mut(2112).filter(is_data).step_by(5) {
        (page[3], page[77]) = (page[3] ^ 1, page[77] ^ 1);
    }
    fs::write(sample.path(image), bytes).unwrap();
    let check = sample.run(&["check", image]);
    assert!(check.code != 0 && check.err.contains("ECC cannot correct"), "{}", check.err);
    let all = sample.run(&["extract", image, "out"]);
    assert!(all.code != 0 && all.err.contains("ECC cannot correct the page"), "{}", all.err);
}

/// The page that was written last is torn: what it would have replaced is shown.
#[test]
fn a_torn_page_does_not_count() {
    let sample = Sample::new();
    let image = unpack(&sample, "torn-spare-only");
    assert_eq!(sample.ok(&["get", image, "d/a", "a"]).code, 0);
    let check = sample.run(&["check", image]);
    assert!(check.err.contains("a power cut tore the page"), "{}{}", check.out, check.err);
}

#[test]
fn an_image_is_made_and_taken_apart_again() {
    let sample = Sample::new();
    let made = ["mkfs", "yaffs2", "src", "--json", "-o"];
    let summary = sample.ok(&[&made[..], &["a.img"]].concat()).out;
    assert!(summary.contains("\"objects\": 8") && summary.contains("\"blocks\": 1"), "{summary}");
    sample.ok(&[&made[..], &["b.img"]].concat());
    assert!(fs::read(sample.path("a.img")).unwrap() == fs::read(sample.path("b.img")).unwrap());
    let chip = ["dump.img", "--tags-at", "2", "--data-ecc", "--flash", "W29N01HV"];
    sample.ok(&[&made[..], &chip].concat());
    sample.ok(&[&made[..], &["big.img", "--byte-order", "big", "--in-band"]].concat());
    for image in ["a.img", "dump.img", "big.img"] {
        sample.ok(&["check", image]);
        assert_eq!(sample.ok(&["cat", image, "etc/hosts"]).out, "127.0.0.1 localhost\n");
        sample.ok(&["extract", image, "out", "--force"]);
        assert_eq!(fs::read(sample.path("out/bin/alias")).unwrap(), vec![0x5a; 70_000]);
        let link = fs::read_link(sample.path("out/etc/link")).unwrap();
        assert_eq!(link, Path::new("../bin/tool"));
    }
    assert!(sample.ok(&["info", "dump.img"]).out.contains("hamming"));
    let run = sample.run(&["mkfs", "yaffs2", "src", "-o", "c.img", "--page", "512"]);
    assert!(run.code != 0 && run.err.contains("at least 1024"), "{}", run.err);
    assert!(!sample.path("c.img").exists());
}

#[test]
fn other_programs_read_what_mkfs_made() {
    let sample = Sample::new();
    sample.ok(&["mkfs", "yaffs2", "src", "-o", "a.img"]);
    let Some(run) = sample.classic("unyaffs", &["a.img", "theirs"]) else { return };
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_eq!(fs::read(sample.path("theirs/bin/tool")).unwrap(), vec![0x5a; 70_000]);
    let target = fs::read_link(sample.path("theirs/etc/link")).unwrap();
    assert_eq!(target, Path::new("../bin/tool"));
}

#[test]
fn a_dump_is_mounted_read_only() {
    let sample = Sample::new();
    let image = unpack(&sample, "links");
    fs::create_dir(sample.path("dir")).unwrap();
    if !mounted("a YAFFS", &sample.run(&["mount", image, "dir"])) {
        return;
    }
    let names = |dir: &Path| -> usize { fs::read_dir(dir).unwrap().count() };
    assert!(names(&sample.path("dir")) > 2);
    let error = fs::write(sample.path("dir/new"), "").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    sample.ok(&["umount", "dir"]);
}
