//! The command lines of the image builders, word for word, with our tools first in PATH and, where
//! they are installed, with mtd-utils: both succeed, and their images hold equal trees.

use crate::sample::{Run, Sample, finish};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const TOOLS: [&str; 4] = ["mkfs.ubifs", "ubinize", "mkfs.jffs2", "sumtool"];

/// A build: its name, its lines, whether mtd-utils take them, too, and what it makes.
struct Build {
    name: &'static str,
    lines: &'static str,
    /// Lines of OpenWrt's own tools are refused by others.
    is_stock: bool,
    /// Images and volumes in them.
    made: &'static [&'static str],
}

/// `rootfs` is the tree; the ini files are made by the lines, as the builders make them.
const BUILDS: &[Build] = &[
    Build {
        name: "Yocto",
        lines: "
            printf '[ubifs]\\nmode=ubi\\nimage=image.ubifs\\nvol_id=0\\nvol_type=dynamic\\nvol_name=rootfs\\nvol_flags=autoresize\\n' > ubinize-image.cfg
            mkfs.ubifs -r rootfs -o image.ubifs -m 2048 -e 129024 -c 2047
            ubinize -o image.ubi -m 2048 -p 128KiB -s 512 ubinize-image.cfg
            mkfs.jffs2 --root=rootfs --faketime --output=image.jffs2 --pad -l --eraseblock=0x40000 --no-cleanmarkers
            sumtool -i image.jffs2 -o image.jffs2.sum -e 0x40000 -l --no-cleanmarkers",
        is_stock: true,
        made: &["image.ubifs", "image.ubi:rootfs", "image.jffs2", "image.jffs2.sum"],
    },
    Build {
        name: "Buildroot",
        lines: "
            printf '[ubifs]\\nmode=ubi\\nvol_id=0\\nvol_type=dynamic\\nvol_name=rootfs\\nvol_alignment=1\\nvol_flags=autoresize\\nimage=rootfs.ubifs\\n' > ubinize.cfg
            mkfs.ubifs -d rootfs -e 0x1f800 -c 2048 -m 0x800 -x lzo -o rootfs.ubifs
            ubinize -o rootfs.ubi -m 0x800 -p 0x20000 -s 512 ubinize.cfg
            mkfs.jffs2 -e 0x20000 --with-xattr --pad=0x100000 -l -d rootfs -o rootfs.jffs2.nosummary
            sumtool -e 0x20000 -p -l -n -i rootfs.jffs2.nosummary -o rootfs.jffs2
            mkfs.jffs2 -e 0x20000 --with-xattr -p -b -s 0x1000 -n -d rootfs -o big.jffs2",
        is_stock: true,
        made: &["rootfs.ubifs", "rootfs.ubi:rootfs", "rootfs.jffs2.nosummary", "rootfs.jffs2", "big.jffs2"],
    },
    Build {
        name: "genimage",
        lines: "
            mkdir -p images
            printf '[rootfs]\\nmode=ubi\\nimage=images/rootfs.ubifs\\nvol_id=0\\nvol_size=8388608\\nvol_type=dynamic\\nvol_name=rootfs\\nvol_alignment=1\\n[data]\\nmode=ubi\\nimage=images/data.ubifs\\nvol_id=1\\nvol_size=4194304\\nvol_type=dynamic\\nvol_name=data\\nvol_flags=autoresize\\nvol_alignment=1\\n' > ubifs.ini
            mkfs.ubifs -d 'rootfs' -F -e 129024 -m 2048 -c 200 -o 'images/rootfs.ubifs' 
            mkfs.ubifs -F -e 129024 -m 2048 -c 200 -o 'images/data.ubifs' -x zlib
            ubinize -s 512 -O 512 -p 131072 -m 2048 -o 'flash.ubi' 'ubifs.ini' 
            mkfs.jffs2 --eraseblock=131072 -d 'rootfs' -o 'images/rootfs.jffs2' ",
        is_stock: true,
        made: &["images/rootfs.ubifs", "images/data.ubifs", "flash.ubi:rootfs", "flash.ubi:data", "images/rootfs.jffs2"],
    },
    Build {
        name: "OpenWrt",
        lines: "
            mkfs.ubifs -m 2048 -e 124KiB -c 4096 -U -F --squash-uids -o root.ubifs -d rootfs
            printf '[rootfs]\\nmode=ubi\\nvol_id=0\\nvol_type=dynamic\\nvol_name=rootfs\\nvol_flags=autoresize\\nimage=root.ubifs\\n' > ubinize.conf
            ubinize -Q $SOURCE_DATE_EPOCH -o root.ubi -p 128KiB -m 2048 -s 2048 -O 2048 ubinize.conf
            mkfs.jffs2 --little-endian --squash-uids -v -X rtime -x zlib --pad -e 64KiB -o root.jffs2 -d rootfs -v
            mkfs.jffs2 --little-endian --squash-uids -v -X rtime -x lzo --no-cleanmarkers --pagesize=2048 --pad -e 128KiB -o root-nand.jffs2 -d rootfs -v",
        is_stock: true,
        made: &["root.ubifs", "root.ubi:rootfs", "root.jffs2", "root-nand.jffs2"],
    },
    Build {
        name: "OpenWrt's own options",
        lines: "
            mkfs.ubifs -m 2048 -e 126976 -c 4096 --space-fixup --force-compr=none --jrn-size=1MiB --squash-uids -o root.ubifs -d rootfs
            printf '[rootfs]\\nmode=ubi\\nvol_id=0\\nvol_type=dynamic\\nvol_name=rootfs\\nvol_size=8MiB\\nimage=root.ubifs\\n' > ubinize.conf
            ubinize -Q $SOURCE_DATE_EPOCH -o root.ubi -p 128KiB -m 2048 -s 2048 -E 5 ubinize.conf
            ubinize --eof-markers=5 -Q $SOURCE_DATE_EPOCH -o long.ubi -p 128KiB -m 2048 -s 2048 ubinize.conf
            cmp root.ubi long.ubi
            mkfs.jffs2 --little-endian --squash-uids -X rtime -x zlib -x lzma --pad -e 64KiB -o root.jffs2 -d rootfs",
        is_stock: false,
        made: &["root.ubifs", "root.ubi:rootfs", "root.jffs2"],
    },
    Build {
        name: "OpenBMC, ELBE and OFRAK",
        lines: "
            mkfs.ubifs -r rootfs -c 97 -m 1 -e 65408 nor.ubifs
            printf '[rofs]\\nmode=ubi\\nvol_id=0\\nvol_type=static\\nvol_name=rofs\\nimage=nor.ubifs\\n[rwfs]\\nmode=ubi\\nvol_id=1\\nvol_type=static\\nvol_name=rwfs\\nimage=nor.ubifs\\n' > nor.cfg
            ubinize -p 64KiB -m 1 -o ubi-img nor.cfg
            mkfs.ubifs -r rootfs -o elbe.ubifs -m 2048 -e 126976 -c 100 -x zlib
            mkfs.ubifs -m 2048 -e 126976 -c 100 -x lzo -f 8 -k r5 -p 1 -l 5 -F -r rootfs ofrak.ubifs",
        is_stock: true,
        made: &["nor.ubifs", "ubi-img:rofs", "ubi-img:rwfs", "elbe.ubifs", "ofrak.ubifs"],
    },
];

/// A folder with a tree in `rootfs`, and one with our tools by the names of the classic ones.
fn sample() -> Sample {
    let sample = Sample::new();
    fs::rename(sample.path("src"), sample.path("rootfs")).unwrap();
    // No volume of a tree is smaller than its journal.
    let noise =
        (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[n as usize % 3]);
    fs::write(sample.path("rootfs/noise"), noise.collect::<Vec<u8>>()).unwrap();
    // mtd-utils do not know SOURCE_DATE_EPOCH.
    let mut touch = Command::new("find");
    touch.args(["rootfs", "-exec", "touch", "-h", "-d", "@1600000000", "{}", "+"]);
    assert_eq!(finish(&mut touch, &sample.path("")).code, 0);
    fs::create_dir(sample.path("tools")).unwrap();
    for tool in TOOLS {
        symlink(env!("CARGO_BIN_EXE_eraseblock"), sample.path("tools").join(tool)).unwrap();
    }
    sample
}

/// Runs lines in a folder next to the tree, with `tools` first in PATH.
fn run(sample: &Sample, folder: &str, tools: &Path, lines: &str) -> Run {
    let place = sample.path(folder);
    fs::create_dir(&place).unwrap();
    symlink("../rootfs", place.join("rootfs")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-ec", lines]).env("SOURCE_DATE_EPOCH", "1700000000");
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools.display()));
    finish(&mut command, &place)
}

/// What people see in an image: every file, without what depends on the tool. mtd-utils write no
/// node for the root of a JFFS2 and no attributes, and count directories differently.
fn tree(sample: &Sample, target: &str) -> Vec<String> {
    let manifest = sample.ok(&["manifest", target]).out;
    let files = manifest.lines().filter(|line| !line.starts_with(". "));
    let stable = |line: &str| {
        let is_directory = line.split(' ').nth(1) == Some("d");
        let varies =
            |word: &&str| word.starts_with("xattrs=") || is_directory && word.starts_with("size=");
        line.split(' ').filter(|word| !varies(word)).collect::<Vec<_>>().join(" ")
    };
    files.map(stable).collect()
}

#[test]
fn lines_of_image_builders_make_equal_trees() {
    let sample = sample();
    let has_classic = TOOLS.iter().all(|tool| Path::new("/usr/sbin").join(tool).exists());
    for (number, build) in BUILDS.iter().enumerate() {
        let ours = format!("ours-{number}");
        let made = run(&sample, &ours, &sample.path("tools"), build.lines);
        assert_eq!(made.code, 0, "{}: {}{}", build.name, made.out, made.err);
        let expected: Vec<_> =
            build.made.iter().map(|image| tree(&sample, &format!("{ours}/{image}"))).collect();
        for (image, tree) in build.made.iter().zip(&expected) {
            let files = if image.contains("data") { 0 } else { 8 };
            assert_eq!(tree.len(), files, "{}: {image}: {tree:?}", build.name);
        }
        if !has_classic || !build.is_stock {
            continue;
        }
        let theirs = format!("theirs-{number}");
        let made = run(&sample, &theirs, Path::new("/usr/sbin"), build.lines);
        assert_eq!(made.code, 0, "{}: {}{}", build.name, made.out, made.err);
        for (image, ours) in build.made.iter().zip(&expected) {
            let theirs = tree(&sample, &format!("{theirs}/{image}"));
            assert_eq!(theirs, *ours, "{}: {image}", build.name);
        }
    }
}

#[test]
fn end_marks_are_shown() {
    let sample = sample();
    let build = BUILDS.iter().find(|build| !build.is_stock).unwrap();
    let made = run(&sample, "ours", &sample.path("tools"), build.lines);
    assert_eq!(made.code, 0, "{}{}", made.out, made.err);
    let info = sample.ok(&["info", "ours/root.ubi"]).out;
    assert!(info.contains("end marks"), "{info}");
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&sample.run(arguments).out).unwrap()
    };
    let marks = &json(&["info", "--json", "ours/root.ubi"])["end_marks"];
    assert_eq!(marks["pebs"].as_array().unwrap().len(), 5, "{marks}");
    assert!(marks["hidden"].as_array().unwrap().is_empty(), "{marks}");
    // LEBs of an older image of the same flash follow the marks: they are not read, unless as Linux
    // would. Its volume table was where the new one is.
    let image = fs::read(sample.path("ours/root.ubi")).unwrap();
    let peb = 128 << 10;
    let older = &image[2 * peb..image.len() - 5 * peb];
    fs::write(sample.path("flash"), [&image, older].concat()).unwrap();
    let run = sample.run(&["info", "flash"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let marks = &json(&["info", "--json", "flash"])["end_marks"];
    assert_eq!(marks["pebs"].as_array().unwrap().len(), 5, "{marks}");
    assert_eq!(marks["hidden"].as_array().unwrap().len(), older.len() / peb, "{marks}");
    assert!(run.err.contains("after-end-mark") && run.err.contains("--strict"), "{}", run.err);
    // Linux finds two copies of everything, and does not know which to take.
    let strict = sample.run(&["info", "--strict", "flash"]);
    assert!(!strict.err.contains("after-end-mark"), "{}", strict.err);
    assert!(json(&["info", "--json", "--strict", "ours/root.ubi"])["end_marks"].is_null());
}

const GENIMAGE: &str = r#"
flash nand {
    pebsize = 131072
    lebsize = 129024
    numpebs = 256
    minimum-io-unit-size = 2048
    sub-page-size = 512
    vid-header-offset = 512
}
image flash.ubi {
    flashtype = "nand"
    ubi { }
    partition rootfs {
        image = "rootfs.ubifs"
        size = 8M
    }
    partition data {
        image = "data.ubifs"
        size = 4M
        autoresize = true
    }
}
image rootfs.ubifs {
    flashtype = "nand"
    ubifs { max-size = 8M }
}
image data.ubifs {
    flashtype = "nand"
    empty = true
    ubifs { max-size = 8M }
}
image rootfs.jffs2 {
    flashtype = "nand"
    jffs2 { }
}
"#;

#[test]
fn genimage_works_with_our_tools() {
    if !Path::new("/usr/bin/genimage").exists() {
        return std::io::stderr().write_all(b"left out: genimage is not installed\n").unwrap();
    }
    let sample = sample();
    fs::write(sample.path("genimage.cfg"), GENIMAGE).unwrap();
    let mut command = Command::new("genimage");
    command.args(["--config", "genimage.cfg", "--rootpath", "rootfs", "--tmppath", "tmp"]);
    command.args(["--inputpath", "in", "--outputpath", "out"]);
    for (option, tool) in
        [("mkfsubifs", "mkfs.ubifs"), ("ubinize", "ubinize"), ("mkfsjffs2", "mkfs.jffs2")]
    {
        command.arg(format!("--{option}")).arg(sample.path("tools").join(tool));
    }
    fs::create_dir(sample.path("in")).unwrap();
    let made = finish(&mut command, &sample.path(""));
    assert_eq!(made.code, 0, "{}{}", made.out, made.err);
    for image in ["out/flash.ubi:rootfs", "out/rootfs.ubifs", "out/rootfs.jffs2"] {
        assert_eq!(tree(&sample, image).len(), 8, "{image}");
    }
    assert!(tree(&sample, "out/flash.ubi:data").is_empty());
}
