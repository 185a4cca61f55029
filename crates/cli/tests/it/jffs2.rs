//! JFFS2 images, made and read.

use crate::sample::{Sample, noise};
use std::fs;

#[test]
fn an_image_is_made_and_taken_apart_again() {
    let sample = Sample::new();
    let options = ["--peb", "64KiB", "--summary", "--pad-to", "256KiB"];
    let made = ["mkfs", "jffs2", "src", "--json", "-o", "a.jffs2"];
    let made = sample.ok(&[&made[..], &options].concat());
    assert!(made.out.contains("\"blocks\": 4") && made.out.contains("\"names\": 7"));
    sample.ok(&[&["mkfs", "jffs2", "src", "-o", "b.jffs2"][..], &options].concat());
    assert!(fs::read(sample.path("a.jffs2")).unwrap() == fs::read(sample.path("b.jffs2")).unwrap());
    let info = sample.ok(&["info", "--json", "a.jffs2"]);
    for word in ["\"format\": \"jffs2\"", "\"byte_order\": \"little\"", "\"peb_size\": 65536"] {
        assert!(info.out.contains(word), "{word}: {}", info.out);
    }
    assert!(sample.ok(&["info", "a.jffs2"]).out.contains("JFFS2 image, little-endian"));
    assert_eq!(sample.ok(&["cat", "a.jffs2", "etc/hosts"]).out, "127.0.0.1 localhost\n");
    assert!(sample.ok(&["ls", "-l", "a.jffs2", "etc"]).out.contains("link -> ../bin/tool"));
    assert!(sample.ok(&["stat", "a.jffs2", "bin/alias"]).out.contains("bin/alias"));
    sample.ok(&["extract", "a.jffs2", "out"]);
    assert_eq!(fs::read(sample.path("out/bin/tool")).unwrap(), vec![0x5a; 70_000]);
}

#[test]
fn it_is_found_inside_other_files_and_in_either_byte_order() {
    let sample = Sample::new();
    for order in ["little", "big"] {
        let made = ["mkfs", "jffs2", "src", "-o", "part", "--peb", "16KiB", "--byte-order", order];
        sample.ok(&[&made[..], &["--pad"]].concat());
        let part = fs::read(sample.path("part")).unwrap();
        let firmware = [&b"\x27\x05\x19\x56 boot"[..], &vec![7; 50_000], &part, &[1; 999]].concat();
        fs::write(sample.path("firmware"), firmware).unwrap();
        let run = sample.run(&["cat", "firmware", "etc/hosts"]);
        assert_eq!((run.code, run.out.as_str()), (0, "127.0.0.1 localhost\n"), "{}", run.err);
        assert!(sample.run(&["info", "firmware"]).out.contains("byte 50 009 of the file"));
        let forced = ["ls", "firmware", "--format", "jffs2", "--start", "50009", "--peb", "16KiB"];
        assert!(sample.run(&[&forced[..], &["--byte-order", order]].concat()).out.contains("etc"));
    }
    fs::write(sample.path("noise"), vec![0x85; 10_000]).unwrap();
    assert!(sample.run(&["info", "noise"]).err.contains("neither a UBI, a UBIFS, a JFFS2"));
}

#[test]
fn mkfs_jffs2_and_sumtool_take_the_classic_options() {
    let sample = Sample::new();
    let table = "/dev d 755 0 0 - - - - -\n/dev/null c 666 0 0 1 3 - - -\n";
    fs::write(sample.path("table"), table).unwrap();
    let options = ["-r", "src", "-D", "table", "-lnqf", "-e128", "-p0x20000", "-m", "size"];
    sample.ok(&[&["mkfs.jffs2", "-o", "ours"][..], &options].concat());
    assert_eq!(fs::metadata(sample.path("ours")).unwrap().len(), 131_072);
    sample.ok(&["sumtool", "-l", "-n", "-e", "8KiB", "-i", "ours", "-o", "packed", "-p", "more"]);
    let ours = sample.ok(&["manifest", "packed"]).out;
    assert!(ours.contains("dev/null c 0666 0:0 nlink=1 mtime=0"), "{ours}");
    if let Some(run) = sample.classic("mkfs.jffs2", &[&["-o", "theirs"][..], &options].concat()) {
        assert_eq!(run.code, 0, "{}", run.err);
        // The block size of an image without markers is guessed, which is said.
        let theirs = sample.run(&["manifest", "theirs"]).out;
        let below = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(below(&ours), below(&theirs));
    }
    sample.ok(&["mkfs.jffs2", "-r", "src", "-o", "base", "-p"]);
    sample.ok(&["mkfs.jffs2", "-r", "src/etc", "-i", "base", "-o", "more", "-b", "-l"]);
    let both = [fs::read(sample.path("base")).unwrap(), fs::read(sample.path("more")).unwrap()];
    fs::write(sample.path("both"), both.concat()).unwrap();
    let listed = sample.ok(&["ls", "both"]).out;
    assert!(listed.contains("hosts") && listed.contains("bin"), "{listed}");
}

/// Every spelling of every option, compared with the classic tool where there is one.
#[test]
fn every_option_of_mkfs_jffs2_is_taken() {
    let sample = Sample::new();
    fs::write(sample.path("table"), "/dev d 755 0 0 - - - - -\n").unwrap();
    sample.ok(&["mkfs.jffs2", "-r", "src", "-p", "-o", "base"]);
    let spellings = "-d src; --root=src; --root src; -p; -p131072; --pad; --pad=0x30000; -s 2048; \
        --pagesize=2048; -e 128; -e 0x20000; --eraseblock=128KiB; -c 16; --cleanmarker=16; \
        -m none; -m size; -m priority; -m favourlzo; --compression-mode=size; -x zlib; \
        --disable-compressor=rtime; -X lzo; --enable-compressor=lzo; -y 90:rtime; \
        --compressor-priority=90:lzo; -t; --test-compression; -n; --no-cleanmarkers; -l; \
        --little-endian; -b; --big-endian; -D table; --devtable=table; -q; --squash; -U; \
        --squash-uids; -P; --squash-perms; --with-xattr; --with-selinux; --with-posix-acl; -v; \
        --verbose; -i base; --incremental=base; --faketime";
    for spelling in spellings.split("; ") {
        // The classic tool takes the folder once.
        let root: &[&str] = if spelling.contains("src") { &[] } else { &["-r", "src"] };
        let options = [&["-f"], root, &spelling.split(' ').collect::<Vec<_>>()].concat();
        same_as_classic(&sample, "mkfs.jffs2", &options);
    }
}

/// The same of `sumtool`.
#[test]
fn every_option_of_sumtool_is_taken() {
    let sample = Sample::new();
    fs::write(sample.path("src/noise"), noise(60_000)).unwrap();
    for (order, image) in [("-l", "little"), ("-b", "big")] {
        sample.ok(&["mkfs.jffs2", "-r", "src", order, "-e", "16", "-o", image]);
    }
    let spellings = "-i little; --input=little; --eraseblock=16KiB; -c 16; --cleanmarker=16; -n; \
        --no-cleanmarkers; -l; --littleendian; -v; --verbose; -p; --pad; -i big -b; \
        -i big --bigendian";
    for spelling in spellings.split("; ") {
        let input: &[&str] = if spelling.contains("-i") { &[] } else { &["-i", "little"] };
        let options = [&["-e", "16"], input, &spelling.split(' ').collect::<Vec<_>>()].concat();
        same_as_classic(&sample, "sumtool", &options);
    }
}

/// Runs ours and, where it is installed, the classic tool: both images hold the same files.
fn same_as_classic(sample: &Sample, tool: &str, options: &[&str]) {
    sample.ok(&[&[tool, "-o", "ours"][..], options].concat());
    let listed = |image| {
        let out = sample.run(&["manifest", image]).out;
        out.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(listed("ours").iter().any(|line| line.starts_with("etc/hosts ")), "{options:?}");
    if let Some(run) = sample.classic(tool, &[&["-o", "theirs"][..], options].concat()) {
        assert_eq!(run.code, 0, "{options:?}: {}", run.err);
        assert_eq!(listed("ours"), listed("theirs"), "{tool} {options:?}");
    }
}

/// An image that was to fill a partition was made larger than that.
#[test]
fn what_does_not_fit_into_the_size_to_pad_to_is_refused() {
    let sample = Sample::new();
    fs::write(sample.path("src/noise"), noise(60_000)).unwrap();
    let make = |size| ["mkfs", "jffs2", "src", "-o", "image", "--peb", "16KiB", "--pad-to", size];
    let run = sample.run(&make("32KiB"));
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(!sample.path("image").exists());
    sample.ok(&make("256KiB"));
    assert_eq!(fs::metadata(sample.path("image")).unwrap().len(), 256 << 10);
}

#[test]
fn the_classic_tools_fail_as_they_did() {
    let sample = Sample::new();
    for (arguments, code, message) in [
        (&["mkfs.jffs2", "-r", "none", "-o", "x"][..], 255, "none: not a directory"),
        (&["mkfs.jffs2", "-r", "src", "-c", "8", "-o", "x"], 255, "cleanmarker size must be >= 12"),
        (&["mkfs.jffs2", "-r", "src", "-m", "best", "-o", "x"], 255, "Unknown compression mode"),
        (&["mkfs.jffs2", "-r", "src", "-x", "zip", "-o", "x"], 255, "Unknown compressor name zip"),
        (&["mkfs.jffs2", "-L"], 255, "zlib priority:60 enabled"),
        (&["mkfs.jffs2", "--bogus"], 1, "unexpected argument"),
        (&["sumtool", "-i", "src/etc/hosts"], 255, "must specify input and output"),
        (&["sumtool", "-i", "src/etc/hosts", "-o", "x"], 255, "no JFFS2 node"),
        (&["sumtool", "--bogus"], 1, "unexpected argument"),
    ] {
        let run = sample.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
}

const SMALL: [&str; 8] = ["--size", "1MiB", "--peb", "16KiB", "--page", "512", "--oob", "16"];

#[test]
fn a_raw_dump_with_out_of_band_bytes_is_read_without_them() {
    let sample = Sample::new();
    sample.ok(&[&["chip", "new", "c"][..], &SMALL].concat());
    sample.ok(&["mkfs", "jffs2", "src", "-o", "a", "--peb", "16KiB", "--cleanmarker", "none"]);
    sample.ok(&["chip", "import", "c", "a"]);
    sample.ok(&["chip", "export", "c", "dump", "--oob"]);
    assert_eq!(sample.run(&["cat", "dump", "etc/hosts"]).out, "127.0.0.1 localhost\n");
    let info = sample.run(&["info", "dump"]);
    assert!(info.err.contains("16 out-of-band bytes after each page of 512"), "{}", info.err);
    assert!(!info.err.contains("no node"), "{}", info.err);
    sample.run(&["extract", "dump", "out"]);
    assert_eq!(fs::read(sample.path("out/bin/tool")).unwrap(), vec![0x5a; 70_000]);
    let checked = sample.run(&["check", "dump"]);
    assert!(checked.err.contains("can only be read"), "{}", checked.err);
}

#[test]
fn a_jffs2_in_a_ubi_volume_is_read() {
    let sample = Sample::new();
    sample.ok(&[&["chip", "new", "c"][..], &SMALL].concat());
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "data", "--lebs", "30"]);
    sample.ok(&["mkfs", "jffs2", "src", "-o", "a", "--peb", "15360", "--cleanmarker", "none"]);
    sample.ok(&["ubi", "update", "c:data", "a"]);
    for target in ["c:data", "c"] {
        assert_eq!(sample.run(&["cat", target, "etc/hosts"]).out, "127.0.0.1 localhost\n");
    }
    assert!(sample.ok(&["ls", "-l", "c:data", "etc"]).out.contains("link -> ../bin/tool"));
    let info = sample.ok(&["info", "c"]).out;
    assert!(info.contains("JFFS2"), "{info}");
    sample.ok(&["extract", "c:data", "out"]);
    assert_eq!(fs::read(sample.path("out/bin/tool")).unwrap(), vec![0x5a; 70_000]);
    for target in ["c", "c:data"] {
        assert!(sample.ok(&["check", target]).err.contains("consistent"));
    }
}

#[test]
fn an_erased_chip_is_an_empty_file_system() {
    let sample = Sample::new();
    sample.ok(&[&["chip", "new", "c"][..], &SMALL].concat());
    assert!(sample.run(&["ls", "c"]).err.contains("erased flash"));
    assert_eq!(sample.ok(&["ls", "c", "--format", "jffs2"]).out, "");
    fs::write(sample.path("image"), vec![0xFF; 1 << 20]).unwrap();
    let told = ["--format", "jffs2", "--peb", "16KiB"];
    for command in ["ls", "info", "check"] {
        sample.ok(&[&[command, "image"][..], &told].concat());
    }
}
